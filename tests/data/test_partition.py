"""A partition folder holds the same graph, in another order; what is damaged is refused before work starts."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.data.environment import Environment
from graphshift.data.partition.dividing import _best, divide
from graphshift.data.partition.format import ALL, digest_of
from graphshift.graph.subgraphs import induced, neighbourhood, sampled


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted-structure", nodes=200, tests=2)


@pytest.fixture(scope="module")
def folder(data: gs.ShiftDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("partition") / "p"
    gs.partition(data, path, parts=5, by="streaming")
    return path


def dense(e: Environment) -> torch.Tensor:
    return e.graph.adjacency.to_torch().to_dense()


def same(e: Environment, stored: Environment) -> None:
    order = torch.from_numpy(np.array(stored.stored.arrays["order"]))  # type: ignore[union-attr]
    assert torch.equal(order.sort().values, torch.arange(e.num_nodes))
    x, there = (one.x if isinstance(one.x, torch.Tensor) else one.x.to_dense() for one in (e, stored))
    assert torch.equal(x[order], there)
    assert torch.equal(dense(e)[order][:, order], dense(stored))
    assert e.y is not None
    assert stored.y is not None
    assert torch.equal(e.y[order], stored.y)
    assert torch.equal(e.mask[order], stored.mask)
    assert e.graph.undirected == stored.graph.undirected
    assert e.task == stored.task


def test_a_partition_holds_the_same_graphs(data: gs.ShiftDataset, folder: Path) -> None:
    read = gs.load("partition", folder=folder)
    assert [e.name for e in read.environments] == [e.name for e in data.environments]
    for e, stored in zip(data.environments, read.environments, strict=True):
        same(e, stored)
        assert stored.stored is not None
        begin = stored.stored.begin
        for part in range(5):
            rows = np.arange(begin[part], begin[part + 1])
            inside = np.zeros(e.num_nodes, dtype=bool)
            inside[rows] = True
            direct = (dense(stored)[rows] != 0).any(dim=0).numpy() & ~inside
            assert np.array_equal(stored.stored.halo(part), np.flatnonzero(direct))
    note = read.facts["partition"].environments[0]
    parts = np.repeat(np.arange(5), np.diff(note.begin))
    row, col = dense(read.train[0]).nonzero().T.numpy()
    assert note.cut == int((parts[row] != parts[col]).sum())


def test_weights_directions_edge_features_and_sparse_features_are_kept(tmp_path: Path) -> None:
    from torch_geometric.data import Data

    torch.manual_seed(0)
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 0, 2]])
    x = torch.rand(6, 4).relu().masked_fill(torch.rand(6, 4) < 0.5, 0.0)
    graph = Data(x=x.to_sparse_csr(), edge_index=edge_index, y=torch.tensor([0, 1, 0, 1, 0, 1]))
    graph.edge_weight, graph.edge_attr = torch.rand(7) + 0.1, torch.rand(7, 2)
    e = Environment("town", graph)
    read = gs.partition(gs.ShiftDataset("d", [e]), tmp_path / "p", parts=2, hops=2)
    stored = read.train[0]
    same(e, stored)
    order = read.train[0].stored.arrays["order"]  # type: ignore[union-attr]
    at = {(int(r), int(c)): i for i, (r, c) in enumerate(zip(e.graph.pattern.row, e.graph.pattern.col, strict=True))}
    for i, (r, c) in enumerate(zip(stored.graph.pattern.row, stored.graph.pattern.col, strict=True)):
        assert e.graph.edge_attr is not None
        assert stored.graph.edge_attr is not None
        assert torch.equal(e.graph.edge_attr[at[int(order[r]), int(order[c])]], stored.graph.edge_attr[i])


@pytest.mark.parametrize("by", ["metis", "streaming"])
def test_cliques_are_found(by: str) -> None:
    """Eight cliques in a ring, their nodes interleaved: the fewest cut edges are the ring's."""
    if by == "metis":
        pytest.importorskip("pymetis")
    cliques, size = 8, 12
    a = np.zeros((cliques * size, cliques * size), dtype=bool)
    for c in range(cliques):
        own = np.arange(c * size, (c + 1) * size) * 1
        a[np.ix_(own, own)] = True
        a[c * size, (c * size + size) % len(a)] = a[(c * size + size) % len(a), c * size] = True
    np.fill_diagonal(a, False)
    shuffle = np.random.default_rng(0).permutation(len(a)) if by == "metis" else np.arange(len(a))
    a = a[shuffle][:, shuffle]
    row, col = a.nonzero()
    rowptr = np.concatenate([[0], np.cumsum(a.sum(axis=1))])
    place, how = divide(rowptr, col.astype(np.int32), cliques, by=by)  # type: ignore[arg-type]
    assert how == by
    assert int((place[row] != place[col]).sum()) == 2 * cliques
    assert np.bincount(place).tolist() == [size] * cliques


def test_streaming_moves_nodes_to_their_neighbours() -> None:
    """Two communities in random order: far fewer edges are cut than by chance, and the parts stay balanced."""
    generator = np.random.default_rng(0)
    group = generator.integers(0, 2, 2000)
    a = np.triu(generator.random((2000, 2000)) < np.where(group[:, None] == group, 0.01, 0.0005), 1)
    a |= a.T
    row, col = a.nonzero()
    place, _ = divide(np.concatenate([[0], np.cumsum(a.sum(axis=1))]), col, 2, by="streaming")
    assert (place[row] != place[col]).mean() < 0.15
    assert np.bincount(place).max() <= 1031


@pytest.mark.parametrize("parts", [1, 3, 40])
def test_the_best_part_of_a_node_is_that_of_the_dense_table(parts: int) -> None:
    """Of a table with a row for each node and a column for each part; ``parts`` itself is nowhere."""
    generator = np.random.default_rng(parts)
    row, part = np.sort(generator.integers(0, 50, 400)), generator.integers(0, parts + 1, 400).astype(np.int32)
    room = generator.choice([-0.03, 0.0, 0.25, 0.5, 1.0], parts)  # equals are many
    table = np.zeros((50, parts + 1))
    np.add.at(table, (row, part), 1)
    dense = table[:, :parts] * room
    best, score = _best(row, part, 50, room)
    assert np.array_equal(score, np.maximum(dense.max(axis=1), 0))
    assert np.array_equal(best, np.where(dense.max(axis=1) > 0, dense.argmax(axis=1), parts))


def test_auto_takes_the_streaming_partitioner_where_metis_does_not_fit() -> None:
    rowptr, col = np.array([0, 1, 2]), np.array([1, 0])
    assert divide(rowptr, col, 2, memory=10)[1] == "streaming"


def test_the_induced_subgraph_is_the_dense_one(folder: Path) -> None:
    e = gs.load("partition", folder=folder).train[0]
    rows = np.sort(np.random.default_rng(0).choice(200, 60, replace=False))
    found = induced(e.graph, rows)
    assert torch.equal(found.adjacency.to_torch().to_dense(), dense(e)[rows][:, rows])
    for few in (rows[:0], np.arange(200), np.array([63, 64, 127, 128, 199])):
        assert torch.equal(induced(e.graph, few).adjacency.to_torch().to_dense(), dense(e)[few][:, few])
    reach = torch.matrix_power(dense(e) + torch.eye(200), 2)[rows[:3]].sum(dim=0) > 0
    near = neighbourhood(e.graph, rows[:3], 2)
    assert np.array_equal(near, np.setdiff1d(np.flatnonzero(reach.numpy()), rows[:3]))


def test_a_neighbour_sample_has_edges_of_the_graph_and_at_most_as_many(folder: Path) -> None:
    e = gs.load("partition", folder=folder).train[0]
    seeds = np.arange(0, 200, 10)
    nodes, graph = sampled(e.graph, seeds, (2, 1), np.random.default_rng(0))
    a, whole = graph.adjacency.to_torch().to_dense(), dense(e)[nodes][:, nodes]
    assert torch.equal(a, a.T)
    assert bool((a <= whole).all())
    assert set(seeds) <= set(nodes)
    degree = (dense(e) != 0).sum(dim=1)
    drawn = a[np.searchsorted(nodes, seeds)].sum(dim=1)
    assert bool((drawn >= degree[seeds].clamp(max=2)).all())
    every, same_graph = sampled(e.graph, np.arange(200), (1000,), np.random.default_rng(0))
    assert len(every) == 200
    assert torch.equal(same_graph.adjacency.to_torch().to_dense(), dense(e))


def test_a_neighbour_sample_is_uniform() -> None:
    """A star's centre keeps two of six leaves: each pair is as likely as the others."""
    star = gs.Environment("s", _star(6)).graph
    counts = np.zeros(7)
    generator = np.random.default_rng(1)
    for _ in range(3000):
        counts[sampled(star, np.array([0]), (2,), generator)[0]] += 1
    assert counts[0] == 3000
    assert np.abs(counts[1:] - 1000).max() < 5 * np.sqrt(3000 * (1 / 3) * (2 / 3))


def _star(leaves: int):
    from torch_geometric.data import Data

    ends = torch.arange(1, leaves + 1)
    edge_index = torch.stack([torch.cat([ends, 0 * ends]), torch.cat([0 * ends, ends])])
    return Data(x=torch.ones(leaves + 1, 1), edge_index=edge_index, y=torch.arange(leaves + 1) % 2)


def test_weights_of_a_sample_are_those_of_its_edges() -> None:
    star = _star(6)
    star.edge_weight = torch.cat([torch.arange(1.0, 7), torch.arange(1.0, 7)])
    nodes, graph = sampled(gs.Environment("s", star).graph, np.array([0]), (3,), np.random.default_rng(0))
    a = graph.adjacency.to_torch().to_dense()
    assert a[0, 1:].tolist() == nodes[1:].tolist()
    assert torch.equal(a, a.T)


def damaged(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_a_damaged_part_is_named(folder: Path, tmp_path: Path) -> None:
    copy = damaged(folder, tmp_path)
    path = copy / "environments" / "000-train" / "x.npy"
    x = np.load(path)
    x[-1, 0] += 1
    np.save(path, x)
    with pytest.raises(gs.GraphshiftError, match=r"000-train: part 4 .* is not what was written"):
        gs.load("partition", folder=copy)


def test_a_part_of_another_dataset_and_a_missing_one_are_refused(folder: Path, tmp_path: Path) -> None:
    copy = damaged(folder, tmp_path)
    path = copy / "environments" / "000-train" / "x.npy"
    np.save(path, np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(gs.GraphshiftError, match="is of another dataset, or damaged"):
        gs.load("partition", folder=copy)
    path.unlink()
    with pytest.raises(gs.GraphshiftError, match="there is no such file"):
        gs.load("partition", folder=copy)


def rewritten(copy: Path, name: str, change: Any) -> None:
    """One array of the first environment changed, and everything that the manifest says of it made to fit."""
    path, place = copy / "partition.json", copy / "environments" / "000-train"
    note = json.loads(path.read_text())
    one = note["environments"][0]
    found = {file.stem: np.load(file) for file in place.glob("*.npy")}
    found[name] = change(found[name])
    np.save(place / f"{name}.npy", found[name])
    one["arrays"][name] = {"dtype": found[name].dtype.str, "shape": list(found[name].shape)}
    one["digests"] = [digest_of(found, a, b, p) for p, (a, b) in enumerate(itertools.pairwise(one["begin"]))]
    path.write_text(json.dumps(note))


def put(value: float, at: int = 0) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array.reshape(-1)[at] = value
        return array

    return change


def wrapped(array: np.ndarray) -> np.ndarray:
    """Pointers that leave the array and come back, though the differences of neighbours, which wrap, never fall."""
    limits = np.iinfo(array.dtype)
    array[1:4] = [limits.max, limits.min, -1]
    assert (np.diff(array) >= 0).all()
    return array


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rowptr", wrapped, "rowptr does not go up"),
        ("col", put(200), "name rows or classes that do not exist"),
        ("col", put(-1), "name rows or classes that do not exist"),
        ("col", lambda a: a[::-1].copy(), "out of order"),
        ("rowptr", put(-5, 3), "rowptr does not go up"),
        ("rowptr", put(10**6, -1), "rowptr does not go up"),
        ("haloptr", put(10**6, 2), "haloptr does not go up"),
        ("halo", put(10**6), "name rows or classes that do not exist"),
        ("x", put(float("nan")), "not finite"),
        ("x", lambda a: a.astype(np.float64), "array x is <f8"),
        ("x", lambda a: a[:, :-1].copy(), "array x is <f4"),
        ("y", put(99), "classes that do not exist"),
        ("mask", lambda a: a & False, "mask counts 0 nodes"),
        ("order", put(10**6), "name rows or classes that do not exist"),
    ],
)
def test_numbers_that_lie_with_the_right_digest_are_refused(
    folder: Path, tmp_path: Path, name: str, change: Any, message: str
) -> None:
    copy = damaged(folder, tmp_path)
    rewritten(copy, name, change)
    with pytest.raises(gs.GraphshiftError, match=message):
        gs.load("partition", folder=copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"begin": [0, 10, 5, 60, 100, 200]}, "`begin` does not go up"),
        ({"begin": [0, 200]}, "digests for 1 parts"),
        ({"folder": "../../elsewhere"}, "folder"),
        ({"nodes": 10**18}, "does not go up from 0"),
        ({"arrays": {}}, "others are expected"),
        ({"role": "extra"}, "role"),
    ],
)
def test_a_manifest_that_lies_is_refused(folder: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    copy = damaged(folder, tmp_path)
    note = json.loads((copy / "partition.json").read_text())
    note["environments"][0] |= change
    (copy / "partition.json").write_text(json.dumps(note))
    with pytest.raises(gs.GraphshiftError, match=message):
        gs.load("partition", folder=copy)


def test_a_pipe_in_place_of_an_array_does_not_hang(folder: Path, tmp_path: Path) -> None:
    copy = damaged(folder, tmp_path)
    path = copy / "environments" / "000-train" / "x.npy"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(gs.GraphshiftError, match="pipe"):
        gs.load("partition", folder=copy)


def test_a_newer_format_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = damaged(folder, tmp_path)
    note = json.loads((copy / "partition.json").read_text())
    (copy / "partition.json").write_text(json.dumps(note | {"format": 99}))
    with pytest.raises(gs.GraphshiftError, match="its format is 99"):
        gs.load("partition", folder=copy)


def test_a_digest_of_rows_that_pointers_put_far_away_ends() -> None:
    arrays = {"rowptr": np.array([0, 2**62], dtype=np.int64), "col": np.arange(3)}
    found = 0
    for name in (name for name in ALL if name in arrays):
        found = zlib.crc32(arrays[name].tobytes(), found)
    assert digest_of(arrays, 0, 1, 0) == f"{found:08x}"


def test_rows_are_those_of_the_folder_that_was_opened(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "p")
    (environment,) = gs.load("partition", folder=copied).train
    stored, rows = environment.stored, np.array([0, 1, 2, 40, 39])
    x, y = dense_features(environment)[rows], environment.y
    assert stored is not None
    assert y is not None
    assert np.array_equal(stored.rows("x", rows), x)
    file = next(copied.glob("environments/000-*/x.npy"))
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:128] + b"1" * len(content[128:]))  # another folder in its place
    assert np.array_equal(stored.rows("x", rows), x)
    assert np.array_equal(stored.rows("y", rows), y[rows])


def dense_features(environment: Environment) -> np.ndarray[Any, Any]:
    assert isinstance(environment.x, torch.Tensor)
    return environment.x.numpy().copy()

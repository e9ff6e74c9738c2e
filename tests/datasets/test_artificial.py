"""Cora and Photo with planted shifts: generators against dense mathematics, degenerate draws, hostile files."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import SGConv

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.cora import SOURCES as CORA_SOURCES
from graphshift.datasets.cora import cora
from graphshift.datasets.making.gnn_generators import (
    VERSIONS,
    GATGenerator,
    GCNGenerator,
    SGCGenerator,
    UniformSGCGenerator,
)
from graphshift.datasets.photo import photo
from graphshift.datasets.reading.amazon import read_npz
from graphshift.datasets.reading.files import verify
from graphshift.estimators.settings import make_estimator
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

Write = Callable[..., dict[str, Path]]


@pytest.fixture(scope="module")
def real_cora(shared_data: Path) -> ShiftDataset:
    return cora(data_dir=shared_data)


@pytest.fixture
def tiny(tmp_path: Path, write_planetoid: Write) -> Path:
    """A data directory with a Cora of ten papers."""
    write_planetoid(tmp_path / "data" / "cora" / "raw")
    return tmp_path / "data"


def dense_x(data: ShiftDataset) -> list[Tensor]:
    result = []
    for environment in data.environments:
        assert isinstance(environment.x, Sparse)
        result.append(environment.x.to_dense())
    return result


def operator(graph: Graph) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, dense."""
    a = torch.eye(graph.num_nodes)
    a[graph.edge_index[1], graph.edge_index[0]] = 1
    root = a.sum(dim=1) ** -0.5
    return root[:, None] * a * root


def dense_gcn(gnn: Any, x: Tensor, graph: Graph) -> Tensor:
    a = operator(graph)
    return a @ torch.clamp(a @ x @ gnn.first, min=0) @ gnn.second


def dense_sgc(gnn: Any, x: Tensor, graph: Graph) -> Tensor:
    return torch.linalg.matrix_power(operator(graph), 2) @ x @ gnn.weight


def dense_uniform_sgc(gnn: Any, x: Tensor, graph: Graph) -> Tensor:
    return dense_sgc(gnn, x, graph) + gnn.bias


def dense_gat(gnn: Any, x: Tensor, graph: Graph) -> Tensor:
    near = operator(graph) > 0
    for layer in range(2):
        heads = []
        for head in range(2):
            h = x @ gnn.weights[layer][:, 10 * head : 10 * head + 10]
            source, target = (h @ vector[head] for vector in gnn.attention[layer])
            score = target[:, None] + source[None, :]
            score = torch.where(score > 0, score, 0.2 * score).masked_fill(~near, -torch.inf)
            heads.append(score.softmax(dim=1) @ h)
        joined = torch.cat(heads, dim=1)
        x = torch.where(joined > 0, joined, joined.expm1()) if layer == 0 else (heads[0] + heads[1]) / 2
    return x


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("make", "reference"),
    [
        (GCNGenerator, dense_gcn),
        (SGCGenerator, dense_sgc),
        (UniformSGCGenerator, dense_uniform_sgc),
        (GATGenerator, dense_gat),
    ],
)
def test_generators_against_dense_mathematics(make: Any, reference: Any, undirected: Data) -> None:
    graph = Graph.from_edge_index(undirected.edge_index, undirected.num_nodes)
    x = torch.randn(undirected.num_nodes, 6)
    x[x.abs() < 0.5] = 0
    gnn = make(6, torch.Generator().manual_seed(3))
    expected = reference(gnn, x, graph)
    assert expected.shape == (graph.num_nodes, 10)
    torch.testing.assert_close(gnn(x, graph), expected)
    torch.testing.assert_close(gnn(Sparse.from_torch(x.to_sparse_csr()), graph), expected)


def test_the_second_sgc_generator_starts_like_pygs_layer() -> None:
    """Uniform within 1 / sqrt(inputs), the bias too: as ``torch.nn.Linear``, which PyG's ``SGConv`` has."""
    theirs = [SGConv(1000, 10, K=2) for _ in range(20)]
    ours = [UniformSGCGenerator(1000, torch.Generator().manual_seed(i)) for i in range(20)]
    for name in ("weight", "bias"):
        found = torch.stack([getattr(gnn, name) for gnn in ours])
        expected = torch.stack([getattr(layer.lin, name).detach() for layer in theirs])
        assert float(found.abs().max()) <= 1000**-0.5
        assert float(found.std()) == pytest.approx(float(expected.std()), rel=0.1)


def test_versions_differ_in_the_sgc_generator_alone(shared_data: Path) -> None:
    assert VERSIONS[1]["gcn"] is VERSIONS[2]["gcn"]
    assert VERSIONS[1]["gat"] is VERSIONS[2]["gat"]
    old, new = (cora(generator="sgc", variant="authors", version=v, data_dir=shared_data) for v in (1, 2))
    assert (old.facts["version"], new.facts["version"]) == (1, 2)
    columns = old.facts["spurious_columns"]
    spread = [float(d.train[0].x.to_dense()[:, columns].std(dim=0).mean()) for d in (old, new)]
    assert spread[0] > 1.3 * spread[1]  # Glorot's weights are larger, so the spurious signal is stronger
    with pytest.raises(GraphshiftError, match="version is 3; expected one of 1, 2"):
        cora(version=3, data_dir=shared_data)


@pytest.mark.parametrize("name", list(VERSIONS[1]))
def test_weights_are_glorots(name: str) -> None:
    gnn = VERSIONS[1][name](1000, torch.Generator().manual_seed(0))
    weight = {"gcn": "first", "sgc": "weight", "gat": "weights"}[name]
    found = getattr(gnn, weight)[0] if name == "gat" else getattr(gnn, weight)
    bound = (6 / sum(found.shape)) ** 0.5
    assert float(found.abs().max()) <= bound
    assert float(found.std()) == pytest.approx(bound / 3**0.5, rel=0.03)


def test_cora(real_cora: ShiftDataset) -> None:
    assert [e.name for e in real_cora.environments] == ["train", "val", *(f"T{i}" for i in range(1, 9))]
    assert [len(role) for role in (real_cora.train, real_cora.val, real_cora.tests)] == [1, 1, 8]
    first = real_cora.train[0]
    assert (first.num_nodes, first.graph.num_edges, first.num_features) == (2708, 2 * 5278, 1443)
    assert first.graph.undirected
    assert bool(first.mask.all())
    assert (real_cora.task.kind, real_cora.task.metric) == ("multiclass", "accuracy")
    facts = real_cora.facts
    assert facts["spurious_columns"] == list(range(1433, 1443))
    counts = first.labels.bincount()
    assert facts["classes_used"] == real_cora.task.num_classes == counts.numel()
    assert bool((counts > 0).all()), "classes without a node are left out"
    assert facts["majority"] == pytest.approx(first.majority, abs=1e-6)
    assert facts["class_shares"] == pytest.approx((counts / 2708).tolist(), abs=1e-6)
    assert not facts["degenerate"]


def test_environments_share_all_but_the_values(real_cora: ShiftDataset) -> None:
    first = real_cora.train[0]
    assert isinstance(first.x, Sparse)
    for environment in real_cora.environments[1:]:
        assert environment.graph is first.graph
        assert environment.y is first.y
        assert isinstance(environment.x, Sparse)
        assert environment.x.pattern.col.data_ptr() == real_cora.val[0].x.pattern.col.data_ptr()  # type: ignore[union-attr]
    assert first.x.value.numel() == 49216 + 10 * 2708


def test_paper_formula(real_cora: ShiftDataset, shared_data: Path) -> None:
    """Y = argmax GNN(X1) and X2 = GNN([onehot(Y), onehot(e)]), densely, from the same random numbers."""
    from graphshift.core.randomness import derive_seed

    x = dense_x(real_cora)
    first = real_cora.train[0]
    random = torch.Generator().manual_seed(derive_seed(0, 31, 1))
    label_gnn = GCNGenerator(1433, random)
    argmax = dense_gcn(label_gnn, x[0][:, :1433], first.graph).argmax(dim=1)
    outputs = torch.tensor(real_cora.facts["class_outputs"])
    assert first.y is not None
    assert (outputs[first.y] == argmax).float().mean() > 0.999, "but for ties within rounding"
    gnn = GCNGenerator(20, random)
    for e, environment in enumerate(x):
        assert torch.equal(environment[:, :1433], x[0][:, :1433])
        onehot = torch.zeros(2708, 20)
        onehot[torch.arange(2708), outputs[first.y]] = 1
        onehot[:, 10 + e] = 1
        torch.testing.assert_close(environment[:, 1433:], dense_gcn(gnn, onehot, first.graph))


@pytest.mark.parametrize("generator", ["gcn", "sgc", "gat"])
def test_variants(shared_data: Path, generator: str) -> None:
    """In the authors' variant environments differ by one constant vector, in the paper's they do not."""
    for variant in ("paper", "authors"):
        data = cora(generator=generator, variant=variant, data_dir=shared_data)
        moved = [x[:, 1433:] - dense_x(data)[0][:, 1433:] for x in dense_x(data)[1:3]]
        for difference in moved:
            assert float(difference.abs().max()) > 0.01
            constant = float(difference.std(dim=0).max()) < 1e-5
            assert constant == (variant == "authors")
        assert not torch.equal(moved[0], moved[1])
        make_estimator(data.defaults)


def test_deterministic_by_seed(tiny: Path) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = cora(data_dir=tiny, generator="gat", seed=3)
    assert torch.equal(before, torch.get_rng_state()), "the user's random state is left alone"
    again, other = cora(data_dir=tiny, generator="gat", seed=3), cora(data_dir=tiny, generator="gat", seed=4)
    assert all(torch.equal(a, b) for a, b in zip(dense_x(first), dense_x(again), strict=True))
    assert not torch.equal(dense_x(first)[0], dense_x(other)[0])


def test_photo(shared_data: Path) -> None:
    data = photo(data_dir=shared_data)
    first = data.train[0]
    assert (first.num_nodes, first.graph.num_edges, first.num_features) == (7650, 2 * 119081, 755)
    assert len(data.environments) == 10
    assert data.facts["spurious_columns"] == list(range(745, 755))
    make_estimator(data.defaults)


def test_settings_of_the_protocol(tiny: Path) -> None:
    for generator, views, explorer_lr in (("gcn", 10, 0.001), ("gat", 10, 0.001), ("sgc", 5, 0.005)):
        with warnings.catch_warnings(action="ignore"):
            found = cora(data_dir=tiny, generator=generator).defaults
        expected = {"views": views, "edits_per_node": 1, "beta": 1.0, "lr": 0.005, "explorer_lr": explorer_lr}
        assert {name: found[name] for name in expected} == expected


def degenerate_seed(data_dir: Path, least_classes: int) -> int:
    for seed in range(200):
        with warnings.catch_warnings(action="ignore"):
            try:
                facts = cora(data_dir=data_dir, seed=seed).facts
            except GraphshiftError:
                if least_classes == 1:
                    return seed
                continue
        if facts["degenerate"] and facts["classes_used"] >= least_classes > 1:
            return seed
    pytest.fail("no such seed")


def test_degenerate_draws_warn_or_are_drawn_again(tiny: Path) -> None:
    seed = degenerate_seed(tiny, 2)
    with pytest.warns(GraphshiftWarning, match=rf"seed {seed}, \d classes have 1 % .* redraw=True"):
        facts = cora(data_dir=tiny, seed=seed).facts
    assert facts["draws"] == 1
    data = cora(data_dir=tiny, seed=seed, redraw=True)
    assert data.facts["draws"] > 1
    assert not data.facts["degenerate"]
    assert data.facts["classes_used"] >= 3
    assert data.facts["majority"] <= 0.9


def test_a_single_class_is_an_error(tiny: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"1 classes have 1 % .* the largest has 100\.0%"):
        cora(data_dir=tiny, seed=degenerate_seed(tiny, 1))


def test_redrawing_ends(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphshift.datasets.making.artificial._degenerate", lambda shares: True)
    monkeypatch.setattr("graphshift.datasets.making.artificial._MOST_DRAWS", 5)
    with pytest.raises(GraphshiftError, match="5 draws with generator 'gcn' were all degenerate"):
        cora(data_dir=tiny, redraw=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generator": "mlp"}, "generator is 'mlp'; expected one of gcn, sgc, gat"),
        ({"variant": "mine"}, "variant is 'mine'; expected one of paper, authors"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0.5}, r"seed is 0\.5"),
    ],
)
def test_impossible_options(tiny: Path, options: dict[str, Any], message: str) -> None:
    for make in (cora, photo):
        with pytest.raises(GraphshiftError, match=rf"^{make.__name__}: {message}"):
            make(data_dir=tiny, **options)


def test_files_are_the_published_ones(shared_data: Path) -> None:
    assert {row["sha256"] for row in verify("cora", CORA_SOURCES, shared_data)} == {"ok"}


def parts(**changes: Any) -> dict[str, Any]:
    """The arrays of a Photo of three goods."""
    arrays: dict[str, Any] = {
        "adj_data": np.ones(3, np.float32),
        "adj_indices": np.array([1, 2, 2]),
        "adj_indptr": np.array([0, 1, 2, 3]),
        "adj_shape": np.array([3, 3]),
        "attr_data": np.ones(3, np.float32),
        "attr_indices": np.array([3, 0, 1]),
        "attr_indptr": np.array([0, 2, 2, 3]),
        "attr_shape": np.array([3, 4]),
        "labels": np.array([0, 1, 1]),
    }
    return {name: value for name, value in (arrays | changes).items() if value is not None}


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "photo.npz", **parts())
    raw = read_npz(tmp_path / "photo.npz")
    assert raw.x.to_dense().tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert sorted(map(tuple, raw.edge_index.t().tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert raw.y.tolist() == [0, 1, 1]


class Touch:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attr_indptr": None}, "there is no array 'attr_indptr'; found adj_data"),
        ({"adj_shape": np.array([3, 4])}, r"adjacency \[3, 4\].* do not describe the same nodes"),
        ({"labels": np.array([0, 1])}, r"labels \[2\] do not describe the same nodes"),
        ({"labels": np.array([0, -1, 1])}, "`labels` are int64 from -1"),
        ({"labels": np.array([0.0, 1.0, 1.0])}, "`labels` are float64"),
        ({"attr_shape": np.array([3, 4, 5])}, r"`attr_shape` is \[3, 4, 5\]"),
        ({"adj_indices": np.array([1, 2, 3])}, "`adj`: row 2 has an entry in column 3; expected 0…2"),
        ({"attr_indptr": np.array([0, 2, 1, 3])}, "`attr`: `indptr`"),
        ({"attr_data": np.array([1.0, np.inf, 1.0])}, "`attr`: 1 values are NaN or infinite, first in row 0"),
        ({"attr_data": np.array(["a", "b", "c"])}, "`attr`: `data` is <U1"),
    ],
)
def test_damaged_arrays(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "photo.npz", **parts(**changes))
    with pytest.raises(GraphshiftError, match=message) as caught:
        read_npz(tmp_path / "photo.npz")
    assert str(caught.value).startswith(str(tmp_path / "photo.npz"))


def test_npz_runs_nothing(tmp_path: Path) -> None:
    hostile = np.array([Touch(tmp_path / "marker")], dtype=object)
    np.savez(tmp_path / "photo.npz", **parts(labels=hostile))
    with pytest.raises(GraphshiftError, match=r"photo\.npz: this is not a whole \.npz of plain arrays"):
        read_npz(tmp_path / "photo.npz")
    assert not (tmp_path / "marker").exists()


def test_broken_archives(tmp_path: Path) -> None:
    file = tmp_path / "photo.npz"
    np.savez_compressed(file, **parts())
    whole = file.read_bytes()
    damaged = [whole[:kept] for kept in range(0, len(whole) - 1, len(whole) // 25)]
    flipped = bytearray(whole)
    flipped[60:80] = bytes(20)
    damaged += [bytes(flipped), b"<html>not found</html>"]
    for content in damaged:
        file.write_bytes(content)
        with pytest.raises(GraphshiftError, match=r"photo\.npz: "):
            read_npz(file)
    random = np.random.default_rng(0)
    for place in random.choice(len(whole), 150, replace=False):  # an error, or other data where nothing can tell
        changed = bytearray(whole)
        changed[place] ^= int(random.integers(1, 256))
        file.write_bytes(changed)
        with suppress(GraphshiftError):
            read_npz(file)
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "text.npz", **parts(labels=None))
    with zipfile.ZipFile(tmp_path / "text.npz", "a") as archive:
        archive.writestr("labels.npy", "0 1 1")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("labels.txt", "no arrays")
    for other in (tmp_path / "one.npy", tmp_path / "text.npz", file, tmp_path / "gone.npz"):
        with pytest.raises(GraphshiftError, match=other.name):
            read_npz(other)

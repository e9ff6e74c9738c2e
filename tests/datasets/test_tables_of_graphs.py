"""Tables of many small graphs with a label each, against the same graphs put together by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.structure import structural_columns
from graphshift.graph.blocks import Blocks
from graphshift.graph.graph import Graph

SIZES = (3, 5, 2, 4, 1, 6, 4, 3)
YEARS = (2019, 2020, 2019, 2021, 2019, 2021, 2020, 2019)
TOXIC = {0, 1, 3, 4}
SPLIT: dict[str, Any] = {"label": "y", "environments": "year", "train": 2019, "val": 2020, "tests": 2021}


class Tables(NamedTuple):
    """Nodes, edges and graphs."""

    nodes: pd.DataFrame
    edges: pd.DataFrame
    graphs: pd.DataFrame


def tables(*, numbered: bool = True, shuffled: bool = True) -> Tables:
    """Rings with a number for each node and one for each graph; ids from 0 in each graph, or different everywhere."""
    rng = np.random.default_rng(0)
    nodes, edges, graphs = [], [], []
    for g, size in enumerate(SIZES):
        graphs.append({"graph": f"m{g}", "year": YEARS[g], "y": "toxic" if g in TOXIC else "fine", "mass": g})
        own = [i if numbered else f"m{g}-{i}" for i in range(size)]
        nodes += [{"graph": f"m{g}", "id": name, "charge": rng.normal()} for name in own]
        ring = [{"graph": f"m{g}", "source": own[i - 1], "target": own[i], "w": i + 1.0} for i in range(size)]
        edges += ring[1:] if size == 2 else ring if size > 1 else []
    found = [pd.DataFrame(rows) for rows in (nodes, edges, graphs)]
    if not numbered:
        found[1] = found[1].drop(columns="graph")
    if shuffled:  # the rows of a graph need not stand together: first nodes first, edges anywhere
        place = found[0].groupby("graph").cumcount()
        found[0], found[1] = found[0].iloc[place.argsort(kind="stable")], found[1].sample(frac=1, random_state=0)
    return Tables(*found)


def by_hand(year: int) -> tuple[torch.Tensor, torch.Tensor, list[int], list[int]]:
    """The features, the dense weights, the sizes and the labels of an environment."""
    plain = tables(shuffled=False)
    known = dict(zip(plain.graphs["graph"], plain.graphs["year"], strict=True))
    mass = dict(zip(plain.graphs["graph"], plain.graphs["mass"], strict=True))
    table = plain.nodes.assign(mass=plain.nodes["graph"].map(mass))
    trains = table["graph"].map(known) == 2019
    scaled = [(table[c] - table[c][trains].mean()) / table[c][trains].std(ddof=0) for c in ("charge", "mass")]
    own = (table["graph"].map(known) == year).to_numpy()
    x = torch.tensor(np.stack([column.to_numpy()[own] for column in scaled], axis=1), dtype=torch.float32)
    members = [g for g in range(len(SIZES)) if YEARS[g] == year]
    dense = [torch.zeros(SIZES[g], SIZES[g]) for g in members]
    for block, g in zip(dense, members, strict=True):
        for row in plain.edges[plain.edges["graph"] == f"m{g}"].itertuples():
            block[row.source, row.target] = block[row.target, row.source] = row.w
    return x, torch.block_diag(*dense), [SIZES[g] for g in members], [int(g in TOXIC) for g in members]


@pytest.mark.parametrize("numbered", [True, False], ids=["ids inside a graph", "ids everywhere"])
def test_each_environment_is_its_graphs_in_their_order(numbered: bool) -> None:
    data = gs.from_tables(*tables(numbered=numbered), weight="w", **SPLIT)
    assert data.task == gs.Task("binary", 2, "accuracy", level="graph")
    assert data.class_names == ("fine", "toxic")
    for e, year in zip(data.environments, (2019, 2020, 2021), strict=True):
        x, dense, sizes, labels = by_hand(year)
        assert e.graph.blocks is not None
        assert e.graph.blocks.sizes.tolist() == sizes
        assert torch.allclose(e.x, x, atol=1e-6)
        assert torch.equal(torch.sparse_coo_tensor(e.graph.edge_index, e.graph.weight, dense.shape).to_dense(), dense)
        assert e.y is not None
        assert e.y.tolist() == labels
        assert e.ids.tolist() == [f"m{g}" for g in range(len(SIZES)) if YEARS[g] == year]


def test_ids_of_graphs_in_files_stay_as_they_are_written(tmp_path: Path) -> None:
    for name, table in zip(("nodes", "edges", "graphs"), tables(), strict=True):
        zeros = table["graph"].str.replace("m", "00").replace({"007": "7"})  # 007 would be another one
        table.assign(graph=zeros).to_csv(tmp_path / f"{name}.csv", index=False)
    data = gs.from_tables(*(tmp_path / f"{name}.csv" for name in ("nodes", "edges", "graphs")), **SPLIT)
    assert data.train[0].ids.tolist() == ["000", "002", "004", "7"]


def test_graphs_in_no_role_are_left_out() -> None:
    whole = gs.from_tables(*tables(), **SPLIT)
    with pytest.warns(GraphshiftWarning, match=r"left out 2 graphs whose year is in no role \(2020\)"):
        data = gs.from_tables(*tables(), **{**SPLIT, "val": ()})
    assert [e.fingerprint() for e in data.environments] == [e.fingerprint() for e in (*whole.train, *whole.tests)]
    assert data.tests[0].ids.tolist() == ["m3", "m5"]


def test_by_time_an_environment_has_the_graphs_of_its_period_alone() -> None:
    by = {"label": "y", "time": "year", "train_until": 2019, "val_until": 2020, "target_until": 2021}
    with pytest.warns(GraphshiftWarning, match="2 labels in 'y' belong to unlabelled"):
        data = gs.from_tables(*tables(), **by)
    assert [e.num_items for e in (*data.environments, *data.target)] == [4, 2, 2]
    assert data.target[0].y is None


def test_a_saved_model_predicts_graphs_one_by_one_as_together(tmp_path: Path) -> None:
    made = tables()
    model = gs.ERM("gine", epochs=3).fit(gs.from_tables(*made, **SPLIT))
    model.save(tmp_path / "model")
    loaded = gs.load_model(tmp_path / "model")
    together = loaded.prepare(*made[:2], graphs=made.graphs)
    table = loaded.predict_frame(together)
    assert table["id"].tolist() == made.graphs["graph"].tolist()
    assert 0 <= loaded.score([together])["graph"] <= 1
    for g in range(len(SIZES)):
        nodes, edges = (part[part["graph"] == f"m{g}"] for part in made[:2])
        alone = loaded.prepare(nodes.assign(mass=g), edges)  # no label: no table of graphs is needed
        assert loaded.predict_frame(alone)["p(toxic)"].item() == pytest.approx(table["p(toxic)"][g], abs=1e-5)


def test_what_does_not_fit_is_named_or_left_out_and_counted() -> None:
    made = tables(numbered=False)
    crossing = pd.concat([made.edges, pd.DataFrame([{"source": "m0-0", "target": "m1-1", "w": 1.0}])])
    with pytest.raises(GraphshiftError, match=r"row \d+ joins 'm0-0' and 'm1-1', which are in different graphs \(1 "):
        gs.from_tables(made.nodes, crossing, made.graphs, **SPLIT)
    extra = pd.concat([made.nodes, pd.DataFrame([{"graph": "m9", "id": "m9-0", "charge": 0.0}])])
    with pytest.raises(GraphshiftError, match="'m9' is not among the graphs of the graph table, such as 'm0'"):
        gs.from_tables(extra, made.edges, made.graphs, **SPLIT)
    with pytest.warns(GraphshiftWarning) as told:
        data = gs.from_tables(extra, crossing, made.graphs, unknown_ids="drop", **SPLIT)
    text = str(told[0].message)
    assert "left out 1 nodes of graphs" in text
    assert "1 between two graphs" in text
    assert data.train[0].graph.num_edges == gs.from_tables(*made, **SPLIT).train[0].graph.num_edges
    empty = pd.concat([made.graphs, pd.DataFrame([{"graph": "m9", "year": 2019, "y": "fine", "mass": 1}])])
    with pytest.warns(GraphshiftWarning, match="left out 1 graphs without a node, first 'm9'"):
        assert gs.from_tables(made.nodes, made.edges, empty, **SPLIT).train[0].num_items == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": "molecule"}, "there is no column 'molecule' for each node's graph"),
        ({"environments": "by:locality", "train": (), "val": (), "tests": ()}, "graphs are not split by a property"),
        ({"feature_file": "x.npz"}, "feature_file does not go with a table of graphs"),
        ({"train": 1999}, "no graph has '1999' in column 'year'"),
        ({"features": ["graph"]}, "features names 'graph', which is the graph"),
    ],
)
def test_options_that_do_not_go_with_graphs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=re.escape(message)):
        gs.from_tables(*tables(), **{**SPLIT, **change})


def test_mistakes_in_the_tables_say_what_to_do() -> None:
    made = tables()
    with pytest.raises(GraphshiftError, match=r"the edge table name the graph of each edge"):
        gs.from_tables(made.nodes, made.edges.drop(columns="graph"), made.graphs, **SPLIT)
    with pytest.raises(GraphshiftError, match="both have a column 'mass'"):
        gs.from_tables(made.nodes.assign(mass=1), made.edges, made.graphs, **SPLIT)
    with pytest.raises(GraphshiftError, match="graph goes with a table of graphs"):
        gs.from_tables(made.nodes, made.edges, graph="graph", **SPLIT)
    model = gs.Logistic(selection="last").fit(gs.from_tables(*made, **SPLIT))
    with pytest.raises(GraphshiftError, match=r"no column 'mass'.*the table of graphs has it, give that too"):
        model.prepare(made.nodes, made.edges)


def test_structural_columns_describe_each_small_graph_for_itself() -> None:
    rng = np.random.default_rng(1)
    parts, batch, edges, begin = [], [], [], 0
    for g, size in enumerate((4, 1, 6)):
        pairs = rng.integers(size, size=(2, 2 * size))
        pairs = pairs[:, pairs[0] < pairs[1]]
        edge_index = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1)).unique(dim=1)
        parts.append(structural_columns(_graph(edge_index, size)))
        batch += [g] * size
        edges.append(edge_index + begin)
        begin += size
    joined = _graph(torch.cat(edges, dim=1), begin).in_blocks(Blocks.of(torch.tensor(batch)))
    assert torch.allclose(structural_columns(joined), torch.cat(parts), atol=1e-6)


def _graph(edge_index: torch.Tensor, nodes: int) -> Graph:
    return gs.Environment("g", Data(x=torch.ones(nodes, 1), edge_index=edge_index, y=torch.zeros(nodes).long())).graph

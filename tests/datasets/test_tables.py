"""Graphs of a user's own tables, against networkx: environments, periods, ids, missing labels, edges."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.files import read_table
from graphshift.methods.logistic import Logistic
from own_tables import COUNTRIES, countries_and_years, quietly

YEARS: dict[str, Any] = {"time": "year", "train_until": 2010, "val_until": 2012, "test_until": [2014, 2015]}


def edges_by_id(environment: Environment, ids: np.ndarray) -> set[tuple[Any, Any]]:
    source, target = ids[environment.graph.edge_index.numpy()]
    return set(zip(source.tolist(), target.tolist(), strict=True))


def as_networkx(nodes: pd.DataFrame, edges: pd.DataFrame) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from((row["id"], row) for row in nodes.to_dict("records"))
    graph.add_weighted_edges_from(edges[["source", "target", "weight"]].itertuples(index=False))
    return graph


def test_each_value_is_an_environment_with_the_graph_that_networkx_induces() -> None:
    nodes, edges = countries_and_years()
    with pytest.warns(GraphshiftWarning) as caught:
        data = from_tables(nodes, edges, **COUNTRIES)
    graph = as_networkx(nodes, edges)
    kept = 0
    for environment in data.environments:
        ids = data.facts["ids"][environment.name]
        assert ids.tolist() == nodes.loc[nodes["country"] == environment.name, "id"].tolist()
        induced = graph.subgraph(ids)
        assert edges_by_id(environment, ids) == {pair for e in induced.edges for pair in (e, e[::-1])}
        kept += induced.number_of_edges()
    assert [e.name for e in data.train] == ["DE", "AT"]
    assert [e.name for e in data.val + data.tests] == ["FR", "ES"]
    remark = f"the edge table: left out {len(edges) - kept} edges between different environments."
    assert data.facts["report"] == (remark,)
    assert remark in str(caught[0].message)


def test_each_period_has_the_graph_of_all_nodes_up_to_its_end_and_counts_its_own() -> None:
    nodes, edges = countries_and_years()
    with pytest.raises(GraphshiftWarning, match=r"left out \d+ nodes whose year is after the last cut"):
        from_tables(nodes, edges, **YEARS | {"test_until": 2014})
    data = from_tables(nodes, edges, weight="weight", features=["age", "job"], **YEARS)
    assert [e.name for e in data.environments] == ["≤2010", "2011–2012", "2013–2014", "2015"]
    graph = as_networkx(nodes, edges)
    periods = ((0, 2010), (2011, 2012), (2013, 2014), (2015, 2015))
    for environment, (first, last) in zip(data.environments, periods, strict=True):
        seen = nodes[nodes["year"] <= last]
        ids = data.facts["ids"][environment.name]
        assert ids.tolist() == seen["id"].tolist()
        assert environment.mask.tolist() == (seen["year"] >= first).tolist()
        assert environment.time is not None
        assert environment.time.tolist() == seen["year"].tolist()
        dense = torch.zeros(len(ids), len(ids))
        source, target = environment.graph.edge_index
        assert environment.graph.weight is not None
        dense[source, target] = environment.graph.weight
        np.testing.assert_allclose(dense.numpy(), nx.to_numpy_array(graph, nodelist=ids), rtol=1e-6)
        assert environment.y is not None
        assert environment.labels.tolist() == ["abc".index(c) for c in seen.loc[seen["year"] >= first, "label"]]


def test_dates_are_times_and_a_cut_includes_its_day() -> None:
    nodes, edges = countries_and_years(8)
    nodes["year"] = pd.to_datetime("2024-05-01 18:30") + pd.to_timedelta(np.arange(8), unit="D")
    cuts = {"time": "year", "train_until": datetime.date(2024, 5, 4), "test_until": "2024-05-08"}
    as_text = nodes.assign(year=nodes["year"].astype(str))
    for table in (nodes, as_text):
        data = from_tables(table, edges, features=["age"], **cuts)
        assert [e.name for e in data.environments] == ["≤2024-05-04", "2024-05-04–2024-05-08"]
        assert [int(e.mask.sum()) for e in data.environments] == [4, 4]
        assert data.train[0].time is not None
        assert data.train[0].time.diff().tolist() == [86_400_000_000_000] * 3


def test_a_cut_that_is_a_month_includes_the_month() -> None:
    nodes, edges = countries_and_years(8)
    first = ["2024-01-31", "2024-02-01", "2024-02-29 23:59", "2024-03-01"]
    nodes["year"] = [*first, "2024-12-31", "2025-01-01", None, None]
    cuts = {"time": "year", "train_until": "2024-02", "test_until": ["2024-12", "2025-01"]}
    with pytest.warns(GraphshiftWarning, match="left out 2 nodes without a year"):
        data = from_tables(nodes, edges, features=["age"], **cuts)
    found = {e.name: int(e.mask.sum()) for e in data.environments}
    assert found == {"≤2024-02": 3, "2024-02–2024-12": 2, "2024-12–2025-01": 1}
    with pytest.raises(GraphshiftError, match="expected one as in 2024-05-31, or a month as in 2024-05"):
        from_tables(nodes, edges, features=["age"], **{**cuts, "train_until": "2024-2"})


def test_csv_parquet_and_frames_give_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    nodes, edges = countries_and_years()
    nodes.loc[3, "age"] = None
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv.gz", index=False)
    nodes.set_index("id").to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.pq")
    nodes.to_csv(tmp_path / "nodes.tsv", sep="\t")  # with pandas' nameless index in front
    made = [
        quietly(from_tables, nodes, edges, **COUNTRIES),
        quietly(from_tables, tmp_path / "nodes.csv", str(tmp_path / "edges.csv.gz"), **COUNTRIES),
        quietly(from_tables, tmp_path / "nodes.parquet", tmp_path / "edges.pq", **COUNTRIES),
        quietly(from_tables, tmp_path / "nodes.tsv", edges.astype({"source": "category"}), **COUNTRIES),
    ]
    for other in made[1:]:
        assert other.facts["preparation"].columns == made[0].facts["preparation"].columns
        for one, two in zip(made[0].environments, other.environments, strict=True):
            assert torch.equal(one.x, two.x)
            assert torch.equal(one.graph.keys, two.graph.keys)
            assert torch.equal(one.labels, two.labels)


@pytest.mark.parametrize(
    "make", [int, float, str, lambda i: f"{i:03}", lambda i: (i, "x")], ids=["int", "float", "str", "padded", "tuple"]
)
def test_ids_of_any_type(make: Callable[[int], Any]) -> None:
    nodes, edges = countries_and_years()
    number = {name: make(i) for i, name in enumerate(nodes["id"])}
    renamed = nodes.assign(id=pd.Series([number[i] for i in nodes["id"]]))
    ends = {end: pd.Series([number[i] for i in edges[end]]) for end in ("source", "target")}
    data, again = (
        quietly(from_tables, nodes, edges, **COUNTRIES),
        quietly(from_tables, renamed, edges.assign(**ends), **COUNTRIES),
    )
    for one, two in zip(data.environments, again.environments, strict=True):
        assert torch.equal(one.graph.keys, two.graph.keys)
        expected = [number[i] for i in data.facts["ids"][one.name]]
        assert again.facts["ids"][two.name].tolist() == expected


def test_numbers_in_one_table_match_text_in_the_other(tmp_path: Path) -> None:
    nodes, edges = countries_and_years()
    number = {name: i for i, name in enumerate(nodes["id"])}
    edges = edges.assign(**{end: edges[end].map(number) for end in ("source", "target")})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes = nodes.assign(id=range(len(nodes)))
    one, two = (
        quietly(from_tables, nodes, edges, **COUNTRIES),
        quietly(from_tables, nodes, tmp_path / "edges.csv", **COUNTRIES),
    )
    assert all(torch.equal(a.graph.keys, b.graph.keys) for a, b in zip(one.train, two.train, strict=True))


def test_zeros_in_front_and_the_word_na_survive_a_csv(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(
        "id,label,x,w,land\n007,01,1,NA,NA\n7,02,2,b,NA\nNA,01,NA,NA,NA\n8,01,4,b,DE\n9,02,5,b,DE\n"
    )
    (tmp_path / "edges.csv").write_text("source,target\n007,7\nNA,007\n8,9\n")
    with pytest.warns(GraphshiftWarning, match="column 'x': 1 missing values"):
        data = from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", environments="land", train="NA", tests="DE")
    preparation = data.facts["preparation"]
    assert data.facts["ids"]["NA"].tolist() == ["007", "7", "NA"]
    assert preparation.label.classes == ("01", "02")
    assert preparation.columns[1].levels == ("NA", "b")  # a word like any other; missing=["NA"] says otherwise
    frame = read_table(tmp_path / "nodes.csv", "node", ids=["id"], missing=["NA"]).frame
    assert frame["w"].isna().tolist() == [True, False, True, False, False]
    assert frame["id"].tolist() == ["007", "7", "NA", "8", "9"]


def test_a_cell_that_looks_like_a_formula_is_text(tmp_path: Path) -> None:
    nodes, edges = countries_and_years()
    nodes.loc[::2, "job"] = "=cmd|'/C calc'!A0"
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    data = quietly(from_tables, tmp_path / "nodes.csv", edges, **COUNTRIES)
    assert "job==cmd|'/C calc'!A0" in data.facts["preparation"].feature_names


def test_nodes_without_a_label_stay_in_the_graph_and_do_not_count() -> None:
    nodes, edges = countries_and_years()
    nodes.loc[nodes.index[:20], "label"] = None
    with pytest.warns(GraphshiftWarning, match="20 nodes have no label; they stay in the graph and do not count"):
        data = from_tables(nodes, edges, **COUNTRIES)
    assert sum(int(e.mask.sum()) for e in data.environments) == 40
    assert sum(e.num_nodes for e in data.environments) == 60


def test_words_that_mean_missing_and_unused_values_are_counted() -> None:
    nodes, edges = countries_and_years()
    nodes.loc[nodes.index[:8], "label"] = "unknown"
    roles = COUNTRIES | {"tests": [], "missing": ["unknown"]}
    with pytest.warns(GraphshiftWarning) as caught:
        data = from_tables(nodes, edges, **roles)
    text = str(caught[0].message)
    assert "left out 15 nodes whose country is in no role (ES)" in text
    assert "6 nodes have no label" in text  # two of the eight were in ES
    assert "edges with an end in no environment" in text
    assert data.task.num_classes == 3


def test_repetitions_self_loops_and_second_weights_are_counted_and_left_out() -> None:
    nodes, edges = countries_and_years()
    nodes["country"] = "DE"
    first = edges.iloc[0]
    more = [
        (first.source, first.target, first.weight),
        (first.target, first.source, 99.0),
        (first.source, first.source, 1.0),
    ]
    longer = pd.concat([edges, pd.DataFrame(more, columns=edges.columns)])
    expected = from_tables(nodes, edges, weight="weight", environments="country", train="DE")
    with pytest.warns(GraphshiftWarning) as caught:
        data = from_tables(nodes, longer, weight="weight", environments="country", train="DE")
    assert (
        "the edge table: 363 rows → 360 undirected edges: left out 1 self-loops, 1 repeated; 1 are listed in both "
        "directions; 1 weights differ from the first one of their edge, which is taken."
    ) in str(caught[0].message)
    assert expected.facts["rows"] == ("the node table: 60 rows.", "the edge table: 360 rows → 360 undirected edges.")
    assert torch.equal(data.train[0].graph.keys, expected.train[0].graph.keys)
    assert torch.equal(data.train[0].graph.weight, expected.train[0].graph.weight)  # type: ignore[arg-type]


def test_directed_edges_go_one_way() -> None:
    nodes, edges = countries_and_years()
    nodes["country"] = "DE"
    data = from_tables(nodes, edges, environments="country", train="DE", undirected=False)
    found = edges_by_id(data.train[0], data.facts["ids"]["DE"])
    assert found == set(zip(edges["source"], edges["target"], strict=True))


def test_unknown_ends_can_be_dropped_and_are_counted() -> None:
    nodes, edges = countries_and_years()
    edges.loc[[3, 5], "target"] = ["x1", "x2"]
    with pytest.warns(GraphshiftWarning, match="360 rows → 358 undirected edges: left out 2 with an end"):
        from_tables(nodes, edges, unknown_ids="drop", **COUNTRIES)


def test_an_edge_table_without_rows_makes_a_graph_without_edges() -> None:
    nodes, edges = countries_and_years()
    data = from_tables(nodes, edges.iloc[:0], **COUNTRIES)
    assert data.train[0].graph.num_edges == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"val_until": 2009}, "val_until has 2009, which is not after the cut before it; cuts must increase"),
        ({"test_until": [2015, 2014]}, "test_until has 2014, which is not after"),
        ({"train_until": 1990}, "no node has its year in the period ≤1990; the column goes from 2008 to 2015"),
        ({"train_until": "2010-01-01"}, "train_until is '2010-01-01'; column 'year' holds numbers: expected a number"),
        ({"train_until": None}, "train_until is missing; time = 'year' needs it"),
        ({"train": ["DE"]}, "train does not go with time"),
        ({"time": "job"}, r"row 1, column 'job': '\w+' is not a time \(60 such rows\)"),
        ({"time": "born", "train_until": 5}, "train_until is 5; column 'born' holds dates"),
        ({"train_until": float("nan")}, "train_until is nan"),
    ],
)
def test_cuts_that_cannot_be_are_explained(options: dict[str, Any], message: str) -> None:
    nodes, edges = countries_and_years()
    nodes["born"] = "2001-02-03"
    with pytest.raises(GraphshiftError, match=message):
        from_tables(nodes, edges, **YEARS | options)


def test_infinite_and_missing_times() -> None:
    nodes, edges = countries_and_years()
    nodes["year"] = nodes["year"].astype(float)
    nodes.loc[4, "year"] = None
    with pytest.warns(GraphshiftWarning, match="left out 1 nodes without a year"):
        from_tables(nodes, edges, **YEARS)
    nodes.loc[4, "year"] = np.inf
    with pytest.raises(GraphshiftError, match="row 5, column 'year' is infinite"):
        from_tables(nodes, edges, **YEARS)


@pytest.mark.filterwarnings("ignore:'own'", "ignore:fit")
def test_a_class_that_training_never_has_comes_last_and_counts_as_wrong() -> None:
    nodes = pd.DataFrame(
        {"id": range(9), "label": [*"bcdbcd", *"ab", None], "place": ["x"] * 6 + ["y"] * 3, "v": range(9)}
    )
    edges = pd.DataFrame({"source": [0, 6], "target": [1, 7]})
    with pytest.warns(GraphshiftWarning, match=r"class 'a' is never in training.*\(1 of y\) count as wrong"):
        data = from_tables(nodes, edges, environments="place", train="x", tests="y")
    assert data.class_names == ("b", "c", "d", "a")
    assert data.tests[0].labels.tolist() == [3, 0]
    model = Logistic(selection="last").fit(data)
    assert model.predict_proba(data.tests[0])[:, 3].max() < 0.01

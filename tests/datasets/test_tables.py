"""A user's own tables: what comes out against networkx and dense matrices, and what happens to damaged ones."""

from __future__ import annotations

import datetime
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.config import options_from_toml_table
from graphshift.datasets.tables.describe import describe_tables
from graphshift.datasets.tables.files import read_table
from graphshift.methods.logistic import Logistic

ROLES: dict[str, Any] = {"environments": "country", "train": ["DE", "AT"], "val": "FR", "tests": ["ES"]}
YEARS: dict[str, Any] = {"time": "year", "train_until": 2010, "val_until": 2012, "test_until": [2014, 2015]}


def world(count: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes of four countries and eight years with a number and a word; edges that cross all borders."""
    rng = np.random.default_rng(seed)
    nodes = pd.DataFrame(
        {
            "id": rng.permutation([f"n{i:03}" for i in range(count)]),
            "label": rng.choice(["a", "b", "c"], count),
            "age": rng.normal(size=count),
            "job": rng.choice(["cook", "nurse"], count),
        }
    )
    nodes["country"] = np.resize(["DE", "FR", "ES", "AT"], count)
    nodes["year"] = np.resize(np.arange(2008, 2016), count)
    graph = nx.gnm_random_graph(count, 6 * count, seed=seed)
    ends = np.array(graph.edges).T
    edges = pd.DataFrame({end: nodes["id"].to_numpy()[ends[i]] for i, end in enumerate(("source", "target"))})
    edges["weight"] = rng.random(len(edges)) + 0.5
    return nodes, edges


def quietly(*tables: Any, **options: Any) -> ShiftDataset:
    """The dataset; edges between environments, which most of these tests have, are remarked on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return from_tables(*tables, **options)


def edges_by_id(environment: Environment, ids: np.ndarray) -> set[tuple[Any, Any]]:
    source, target = ids[environment.graph.edge_index.numpy()]
    return set(zip(source.tolist(), target.tolist(), strict=True))


def as_networkx(nodes: pd.DataFrame, edges: pd.DataFrame) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from((row["id"], row) for row in nodes.to_dict("records"))
    graph.add_weighted_edges_from(edges[["source", "target", "weight"]].itertuples(index=False))
    return graph


def test_each_value_is_an_environment_with_the_graph_that_networkx_induces() -> None:
    nodes, edges = world()
    with pytest.warns(GraphshiftWarning) as caught:
        data = from_tables(nodes, edges, **ROLES)
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
    nodes, edges = world()
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
    nodes, edges = world(8)
    nodes["year"] = pd.to_datetime("2024-05-01 18:30") + pd.to_timedelta(np.arange(8), unit="D")
    cuts = {"time": "year", "train_until": datetime.date(2024, 5, 4), "test_until": "2024-05-08"}
    as_text = nodes.assign(year=nodes["year"].astype(str))
    for table in (nodes, as_text):
        data = from_tables(table, edges, features=["age"], **cuts)
        assert [e.name for e in data.environments] == ["≤2024-05-04", "2024-05-04–2024-05-08"]
        assert [int(e.mask.sum()) for e in data.environments] == [4, 4]
        assert data.train[0].time is not None
        assert data.train[0].time.diff().tolist() == [86_400_000_000_000] * 3


def test_csv_parquet_and_frames_give_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    nodes, edges = world()
    nodes.loc[3, "age"] = None
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv.gz", index=False)
    nodes.set_index("id").to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.pq")
    nodes.to_csv(tmp_path / "nodes.tsv", sep="\t")  # with pandas' nameless index in front
    made = [
        quietly(nodes, edges, **ROLES),
        quietly(tmp_path / "nodes.csv", str(tmp_path / "edges.csv.gz"), **ROLES),
        quietly(tmp_path / "nodes.parquet", tmp_path / "edges.pq", **ROLES),
        quietly(tmp_path / "nodes.tsv", edges.astype({"source": "category"}), **ROLES),
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
    nodes, edges = world()
    number = {name: make(i) for i, name in enumerate(nodes["id"])}
    renamed = nodes.assign(id=pd.Series([number[i] for i in nodes["id"]]))
    ends = {end: pd.Series([number[i] for i in edges[end]]) for end in ("source", "target")}
    data, again = quietly(nodes, edges, **ROLES), quietly(renamed, edges.assign(**ends), **ROLES)
    for one, two in zip(data.environments, again.environments, strict=True):
        assert torch.equal(one.graph.keys, two.graph.keys)
        expected = [number[i] for i in data.facts["ids"][one.name]]
        assert again.facts["ids"][two.name].tolist() == expected


def test_numbers_in_one_table_match_text_in_the_other(tmp_path: Path) -> None:
    nodes, edges = world()
    number = {name: i for i, name in enumerate(nodes["id"])}
    edges = edges.assign(**{end: edges[end].map(number) for end in ("source", "target")})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes = nodes.assign(id=range(len(nodes)))
    one, two = quietly(nodes, edges, **ROLES), quietly(nodes, tmp_path / "edges.csv", **ROLES)
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
    nodes, edges = world()
    nodes.loc[::2, "job"] = "=cmd|'/C calc'!A0"
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    data = quietly(tmp_path / "nodes.csv", edges, **ROLES)
    assert "job==cmd|'/C calc'!A0" in data.facts["preparation"].feature_names


def test_nodes_without_a_label_stay_in_the_graph_and_do_not_count() -> None:
    nodes, edges = world()
    nodes.loc[nodes.index[:20], "label"] = None
    with pytest.warns(GraphshiftWarning, match="20 nodes have no label; they stay in the graph and do not count"):
        data = from_tables(nodes, edges, **ROLES)
    assert sum(int(e.mask.sum()) for e in data.environments) == 40
    assert sum(e.num_nodes for e in data.environments) == 60


def test_words_that_mean_missing_and_unused_values_are_counted() -> None:
    nodes, edges = world()
    nodes.loc[nodes.index[:8], "label"] = "unknown"
    roles = ROLES | {"tests": [], "missing": ["unknown"]}
    with pytest.warns(GraphshiftWarning) as caught:
        data = from_tables(nodes, edges, **roles)
    text = str(caught[0].message)
    assert "left out 15 nodes whose country is in no role (ES)" in text
    assert "6 nodes have no label" in text  # two of the eight were in ES
    assert "edges with an end in no environment" in text
    assert data.task.num_classes == 3


def test_repetitions_self_loops_and_second_weights_are_counted_and_left_out() -> None:
    nodes, edges = world()
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
    nodes, edges = world()
    nodes["country"] = "DE"
    data = from_tables(nodes, edges, environments="country", train="DE", undirected=False)
    found = edges_by_id(data.train[0], data.facts["ids"]["DE"])
    assert found == set(zip(edges["source"], edges["target"], strict=True))


def test_unknown_ends_can_be_dropped_and_are_counted() -> None:
    nodes, edges = world()
    edges.loc[[3, 5], "target"] = ["x1", "x2"]
    with pytest.warns(GraphshiftWarning, match="360 rows → 358 undirected edges: left out 2 with an end"):
        from_tables(nodes, edges, unknown_ids="drop", **ROLES)


def test_an_edge_table_without_rows_makes_a_graph_without_edges() -> None:
    nodes, edges = world()
    data = from_tables(nodes, edges.iloc[:0], **ROLES)
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
    nodes, edges = world()
    nodes["born"] = "2001-02-03"
    with pytest.raises(GraphshiftError, match=message):
        from_tables(nodes, edges, **YEARS | options)


def test_infinite_and_missing_times() -> None:
    nodes, edges = world()
    nodes["year"] = nodes["year"].astype(float)
    nodes.loc[4, "year"] = None
    with pytest.warns(GraphshiftWarning, match="left out 1 nodes without a year"):
        from_tables(nodes, edges, **YEARS)
    nodes.loc[4, "year"] = np.inf
    with pytest.raises(GraphshiftError, match="row 5, column 'year' is infinite"):
        from_tables(nodes, edges, **YEARS)


def written(folder: Path, **changes: Any) -> dict[str, Any]:
    nodes, edges = world()
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    table = {"nodes": "nodes.csv", "edges": "edges.csv", **ROLES, **changes}
    return {key: value for key, value in table.items() if value is not None}


def test_a_toml_table_gives_what_python_gives(tmp_path: Path) -> None:
    with pytest.warns(GraphshiftWarning, match="between different environments"):
        data = from_tables(**options_from_toml_table(written(tmp_path), tmp_path))
    again = quietly(*world(), **ROLES)
    assert all(torch.equal(a.x, b.x) for a, b in zip(data.environments, again.environments, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": None}, r"my.toml \[data\]: nodes is missing; expected a path"),
        ({"edges": 3}, r"my.toml \[data\]: edges is 3; expected a path"),
        ({"nodes": "other.csv"}, r"other.csv: there is no such file"),
        ({"lable": "y"}, r"my.toml \[data\]: lable is not an option of tables; .* nodes, edges.*Did you mean 'label'"),
        ({"train": {"a": 1}}, r"my.toml \[data\]: train is \{'a': 1\}; it should be a valid tuple"),
        ({"undirected": "yes"}, r"my.toml \[data\]: undirected is 'yes'; it should be a valid boolean"),
        ({"features": [1, 2]}, r"my.toml \[data\]: features is \[1, 2\]; it should be a valid string"),
        ({"id": 5}, r"my.toml \[data\]: id is 5; it should be a valid string: column of the nodes' ids"),
    ],
)
def test_a_toml_table_is_checked(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        from_tables(**options_from_toml_table(written(tmp_path, **changes), tmp_path, where="my.toml [data]: "))


def test_the_proposed_toml_can_be_used_as_it_is(tmp_path: Path) -> None:
    written(tmp_path)
    text = describe_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", base=tmp_path)
    table = tomllib.loads(text)["data"]
    assert (table["nodes"], table["id"], table["label"], table["weight"]) == ("nodes.csv", "id", "label", "weight")
    assert (table["environments"], len(table["tests"])) == ("country", 1)
    assert "#  age: numbers, 60 distinct, such as" in text
    with pytest.warns(GraphshiftWarning, match="between different"):
        assert len(from_tables(**options_from_toml_table(table, tmp_path)).environments) == 4


def test_the_proposed_toml_finds_times_and_other_names(tmp_path: Path) -> None:
    nodes, edges = world()
    nodes = nodes.drop(columns="country").rename(columns={"id": "person", "label": "class", "year": "birth year"})
    nodes[["job", "birth year", "class", "person"]].to_csv(tmp_path / "n.csv", index=False)
    edges.rename(columns={"source": "From", "target": "To"}).to_csv(tmp_path / "e.csv", index=False)
    table = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))["data"]
    assert (table["id"], table["source"], table["label"], table["time"]) == ("person", "From", "class", "birth year")
    assert table["train_until"] < table["val_until"] < table["test_until"][0] < table["test_until"][1] == 2015
    assert len(quietly_from_toml(table, tmp_path).environments) == 4


def test_the_proposed_toml_finds_dates(tmp_path: Path) -> None:
    nodes, edges = world()
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(nodes)), unit="D")
    nodes.drop(columns=["country", "year"]).assign(date=days).to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv", index=False)
    table = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))["data"]
    assert (table["time"], table["train_until"], table["test_until"][1]) == ("date", "2024-01-30", "2024-02-29")
    assert [int(e.mask.sum()) for e in quietly_from_toml(table, tmp_path).environments] == [30, 9, 9, 12]


def quietly_from_toml(table: dict[str, Any], base: Path) -> ShiftDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return from_tables(**options_from_toml_table(table, base))


def test_hostile_names_cannot_break_out_of_the_proposed_toml(tmp_path: Path) -> None:
    evil = 'x"\n[evil]\nrun = "\x7f😀\\'
    nodes, edges = world(12)
    nodes = nodes.rename(columns={"country": f"country {evil}"}).assign(**{evil: 1.5})
    nodes[f"country {evil}"] = np.resize([f"DE{evil}", "FR"], 12)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv", index=False)
    parsed = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))
    assert set(parsed) == {"method", "seed", "data"}
    assert len(quietly_from_toml(parsed["data"], tmp_path).environments) == 2


def test_the_proposed_toml_says_what_it_could_not_find(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,x\n1,2\n2,3\n")
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    text = describe_tables(tmp_path / "n.csv", tmp_path / "e.csv")
    assert "What to predict: no column looks like it" in text
    assert "How the nodes are split: no column looks like it" in text
    with pytest.raises(GraphshiftError, match="neither is given"):
        from_tables(**options_from_toml_table(tomllib.loads(text)["data"], tmp_path))
    (tmp_path / "n.csv").write_text("x\n2\n2\n")
    with pytest.raises(GraphshiftError, match="no column has a value of its own in every row"):
        describe_tables(tmp_path / "n.csv", tmp_path / "e.csv")
    with pytest.raises(GraphshiftError, match="fewer than two columns"):
        describe_tables(tmp_path / "n.csv", tmp_path / "n.csv")


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

"""What ``init`` guesses of two tables: environments by their edges, roles, the positive class, times, wide tables."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.config import options_from_toml_table
from graphshift.datasets.tables.describe import describe_tables
from graphshift.datasets.tables.guess import guess_environments, guess_positive


def world(sizes: dict[str, int], *, column: str = "habitat") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes in parts that no edge crosses, with a colour that edges do cross."""
    rng = np.random.default_rng(0)
    where = np.repeat(list(sizes), list(sizes.values()))
    nodes = pd.DataFrame({"code": [f"n{i}" for i in range(len(where))], column: where})
    nodes["colour"] = rng.choice(["red", "blue", "green"], len(where))
    nodes["size"], nodes["label"] = rng.normal(size=len(where)).round(3), rng.choice(["a", "b", "c"], len(where))
    ends = []
    for value in sizes:
        inside = np.flatnonzero(where == value)
        ends.append(rng.choice(inside, (3 * len(inside), 2)))
    pairs = np.concatenate(ends)
    edges = pd.DataFrame({"a": nodes["code"].to_numpy()[pairs[:, 0]], "b": nodes["code"].to_numpy()[pairs[:, 1]]})
    return nodes, edges


def described(folder: Path, nodes: pd.DataFrame, edges: pd.DataFrame, **options: Any) -> tuple[dict[str, Any], str]:
    nodes.to_csv(folder / "n.csv", index=False)
    edges.to_csv(folder / "e.csv", index=False)
    text = describe_tables(folder / "n.csv", folder / "e.csv", base=folder, **options)
    return tomllib.loads(text)["data"], text


def loaded(table: dict[str, Any], folder: Path) -> ShiftDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return from_tables(**options_from_toml_table(table, folder))


def test_environments_are_what_no_edge_crosses_and_can_be_loaded_without_editing(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 40, "river": 30})
    nodes.loc[nodes["habitat"] == "river", "label"] = None
    table, _ = described(tmp_path, nodes, edges)
    assert (table["id"], table["label"], table["environments"]) == ("code", "label", "habitat")
    assert [table[role] for role in ("train", "val", "tests", "unlabelled")] == [["sea"], ["lake"], [], ["river"]]
    data = loaded(table, tmp_path)
    assert [len(found) for found in data.roles.values()] == [1, 1, 0, 1]


def test_one_edge_in_a_hundred_may_cross_and_one_in_ten_may_not(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 100, "lake": 100})
    crossing = pd.DataFrame({"a": ["n0", "n1"], "b": ["n150", "n151"]})
    assert described(tmp_path, nodes, pd.concat([edges, crossing]))[0]["environments"] == "habitat"
    many = pd.concat([edges] + [crossing] * 40)
    assert "environments" not in described(tmp_path, nodes, many)[0]


def test_a_column_that_hardly_varies_is_no_environment(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 400, "lake": 8})
    assert "environments" not in described(tmp_path, nodes, edges)[0]


def test_a_name_decides_between_columns_that_no_edge_crosses(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60, "river": 60}, column="city")
    nodes["water"] = nodes["city"].map({"sea": "salt", "lake": "sweet", "river": "sweet"})
    assert described(tmp_path, nodes, edges)[0]["environments"] == "city"
    nodes = nodes.rename(columns={"city": "place", "water": "region"})
    assert described(tmp_path, nodes, edges)[0]["environments"] == "region"


def roles(sizes: dict[str, int], labels: dict[str, str] | None = None) -> list[list[str]]:
    values = pd.Series(np.repeat(list(sizes), list(sizes.values())), dtype=object)
    given = None if labels is None else values.map(labels)
    return list(guess_environments(values, given).values())


def test_roles_of_environments() -> None:
    one = {"A": "x", "B": "x", "C": "x", "D": "x", "E": "x"}
    assert roles({"A": 50, "B": 30, "C": 20}, one) == [["A"], ["B"], ["C"], []]
    assert roles({"A": 30, "B": 30, "C": 20, "D": 10, "E": 5}, one) == [["A", "B"], ["C"], ["D", "E"], []]
    assert roles({"A": 50, "B": 30}, one) == [["A"], [], ["B"], []]
    assert roles({"A": 50, "B": 30, "C": 90}, {"A": "x", "B": "x"}) == [["A"], ["B"], [], ["C"]]
    assert roles({"A": 50, "C": 90}, {"A": "x"}) == [["A"], [], [], ["C"]]
    # A class that only the smallest has must be in training.
    assert roles({"A": 50, "B": 30, "C": 20}, {"A": "x", "B": "x", "C": "y"}) == [["A", "B", "C"], [], [], []]
    assert roles({"train": 5, "test": 50, "valid": 9}) == [["train"], ["valid"], ["test"], []]
    assert roles({"A": 50, "B": 30, "C": 20}) == [["A"], ["B"], ["C"], []]


def test_the_positive_class() -> None:
    assert guess_positive(pd.Series(["no", "yes", "yes", None])) == "yes"
    assert guess_positive(pd.Series([0, 1, 1, 1])) == "1"
    assert guess_positive(pd.Series(["north", "south", "south"])) == "north"
    assert guess_positive(pd.Series(["a", "b", "c"])) is None


def test_two_labels_are_binary(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60, "river": 60})
    nodes["fraud"] = np.where(nodes.pop("label") == "a", "yes", "no")
    table, _ = described(tmp_path, nodes, edges)
    assert (table["label"], table["task"], table["positive"]) == ("fraud", "binary", "yes")
    assert loaded(table, tmp_path).facts["preparation"].label.classes == ("no", "yes")
    assert described(tmp_path, nodes, edges, positive="no")[0]["positive"] == "no"
    with pytest.raises(GraphshiftError, match=r"--positive is 'maybe'; expected one of two labels, .* 'no', 'yes'"):
        described(tmp_path, nodes, edges, positive="maybe")


def test_a_rare_class_has_a_metric_of_its_own(tmp_path: Path) -> None:
    """Below a tenth of the labels; accuracy would be 95 % for always saying no."""
    nodes, edges = world({"sea": 60, "lake": 60, "river": 60})
    nodes["fraud"] = np.where(np.arange(180) % 20 == 0, "yes", "no")
    table, text = described(tmp_path, nodes.drop(columns="label"), edges)
    assert table["metric"] == "average_precision"
    assert "class 1 is rare" in text
    assert loaded(table, tmp_path).task.metric == "average_precision"
    nodes["fraud"] = np.where(np.arange(180) % 8 == 0, "yes", "no")
    assert "metric" not in described(tmp_path, nodes.drop(columns="label"), edges)[0]
    assert described(tmp_path, nodes.drop(columns="label"), edges, positive="no")[0]["positive"] == "no"


def test_columns_can_be_named(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60, "river": 60})
    table, _ = described(tmp_path, nodes, edges, label="colour", environments="label")
    assert (table["label"], table["environments"]) == ("colour", "label")
    nodes["round"] = np.resize(np.arange(8), len(nodes))
    table, _ = described(tmp_path, nodes, edges, time="round")
    assert table["time"] == "round"
    assert "environments" not in table
    for options, message in (
        ({"label": "flavour"}, "there is no column 'flavour' for --label"),
        ({"environments": "label", "time": "round"}, "--environments and --time are both given"),
        ({"label": "constant"}, "column 'constant' has fewer than two values; it is no label"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            described(tmp_path, nodes.assign(constant=1), edges, **options)


def test_what_is_later_than_every_label_is_a_target(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 90})
    nodes["year"] = np.resize(np.arange(2010, 2019), len(nodes))
    nodes.loc[nodes["year"] > 2016, "label"] = None
    table, _ = described(tmp_path, nodes, edges)
    assert (table["test_until"][-1], table["target_until"]) == (2016, [2018])
    assert [e.name for e in loaded(table, tmp_path).target] == ["2017–2018"]


def test_the_one_column_of_dates_is_the_time_if_nothing_is_called_so(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 40})
    nodes["habitat"] = pd.date_range("2019-03-01", periods=100).strftime("%Y-%m-%d")
    table, _ = described(tmp_path, nodes.rename(columns={"habitat": "printed"}), edges)
    assert table["time"] == "printed"
    assert "environments" not in table
    data = loaded(table, tmp_path)
    assert [e.num_nodes for e in data.train] == [50]
    both = nodes.rename(columns={"habitat": "printed"}).assign(sold="2020-01-01")
    both["sold"] = pd.date_range("2020-03-01", periods=100).strftime("%Y-%m-%d")
    months = nodes.rename(columns={"habitat": "month"})
    months["month"] = np.repeat(["2019-03", "2019-04", "2019-05", "2019-06"], 25)
    table, _ = described(tmp_path, months, edges)
    assert [e.num_nodes for e in loaded(table, tmp_path).train] == [25]  # what init writes can be loaded
    assert "time" not in described(tmp_path, both, edges)[0]  # which of the two nobody knows
    named = nodes.rename(columns={"habitat": "printed"}).assign(year=range(100))
    assert described(tmp_path, named, edges)[0]["time"] == "year"


def test_an_id_that_is_there_twice_is_named(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 40})
    twice = pd.concat([nodes, nodes.iloc[[3]]]).drop(columns="size")
    with pytest.raises(GraphshiftError, match=r"add one\. Column 'code' comes closest: 'n3' is in 2 rows\.$"):
        described(tmp_path, twice, edges)
    with pytest.raises(GraphshiftError, match=r"add one\. The first table is that of nodes\.$"):
        described(tmp_path, twice.assign(code="x"), edges)


def test_edges_to_unknown_nodes_are_noticed(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60, "river": 60})
    edges.loc[[0, 7], "b"] = "nobody"
    with pytest.warns(GraphshiftWarning, match=r"2 of 540 edges name nodes that .*n.csv does not have; they are left"):
        table, text = described(tmp_path, nodes, edges)
    assert table["unknown_ids"] == "drop"
    assert "# 2 edges name nodes that the node table does not have" in text
    assert len(loaded(table, tmp_path).environments) == 3


def test_quantities_do_not_all_train(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60, "river": 60})
    nodes["label"] = np.linspace(0.1, 7.3, len(nodes))
    table, _ = described(tmp_path, nodes, edges)
    assert [len(table[role]) for role in ("train", "val", "tests")] == [1, 1, 1]
    assert "positive" not in table


def test_a_wide_table_makes_a_short_file(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 1000, "lake": 700, "river": 600})
    words = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (len(nodes), 300)), index=nodes.index)
    wide = nodes.assign(late=[""] * 2200 + ["x"] * 100).join(words.add_prefix("word"))
    table, text = described(tmp_path, wide, edges)
    assert "#  word0 … word299 (300 columns): numbers 0 and 1" in text
    assert "# The node table has 2,300 rows; the first 2,000 are looked at in all columns:" in text
    assert "all 303 that have no other role" in text
    assert len(text.splitlines()) < 60
    assert (table["environments"], table["train"], table["tests"]) == ("habitat", ["sea"], ["river"])


def test_columns_without_a_common_beginning_are_grouped_by_kind(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60})
    names = [f"{a}{b}x" for a in "abcdefghij" for b in "klmno"]
    values = np.random.default_rng(0).normal(size=(120, len(names)))
    _, text = described(tmp_path, nodes.join(pd.DataFrame(values, columns=names)), edges)
    assert f"#  size … jox ({len(names) + 1} columns): numbers" in text


def test_separators_and_encodings_are_written_down(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 60, "río": 60})
    nodes.to_csv(tmp_path / "n.csv", index=False, sep=";", encoding="latin-1")
    edges.assign(note="é").to_csv(tmp_path / "e.csv", index=False, sep=";", encoding="latin-1")
    table = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))["data"]
    assert (table["separator"], table["encoding"]) == (";", "cp1252")
    assert table["tests"] == ["río"]
    assert not [line for line in loaded(table, tmp_path).facts["report"] if "separated" in line or "UTF-8" in line]


def test_the_one_column_of_words_is_the_label_if_nothing_is_called_so(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 40})
    table, _ = described(tmp_path, nodes.drop(columns="label"), edges)
    assert table["label"] == "colour"
    nodes["shade"] = np.where(nodes["size"] > 0, "dark", "light")  # two columns of words: neither is taken
    table, _ = described(tmp_path, nodes.drop(columns="label"), edges)
    assert "label" not in table


def test_what_is_empty_in_whole_environments_is_the_label(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 40, "river": 30, "pond": 20})
    nodes = nodes.rename(columns={"label": "seen"}).assign(size=nodes["size"].mask(nodes.index % 7 == 0))
    nodes.loc[nodes["habitat"] == "pond", "seen"] = None
    table, _ = described(tmp_path, nodes, edges)
    assert (table["label"], table["environments"], table["unlabelled"]) == ("seen", "habitat", ["pond"])
    assert len(loaded(table, tmp_path).target) == 1
    nodes.loc[nodes["habitat"] == "river", "size"] = None  # two columns are empty somewhere: neither is clear
    assert "label" not in described(tmp_path, nodes, edges)[0]


def test_edges_that_do_not_fit_at_all_are_refused(tmp_path: Path) -> None:
    nodes, _ = world({"sea": 60, "lake": 40})
    with pytest.raises(GraphshiftError, match=r"no edge fits. Column 'a' has 'x0' .* has ids such as 'n0', in column"):
        described(tmp_path, nodes, pd.DataFrame({"a": ["x0", "x1"], "b": ["x1", "n3"]}))
    with pytest.raises(GraphshiftError, match=r"n.csv is given twice"):
        describe_tables(tmp_path / "n.csv", tmp_path / ".." / tmp_path.name / "n.csv")


def test_ends_of_edges_are_the_columns_with_ids_of_nodes(tmp_path: Path) -> None:
    nodes, edges = world({"sea": 60, "lake": 40})
    edges = pd.DataFrame({"number": range(len(edges)), "one": edges["a"], "kind": "knows", "other": edges["b"]})
    assert [described(tmp_path, nodes, edges)[0][end] for end in ("source", "target")] == ["one", "other"]
    # Amounts are among the ids as well, and some ends are not.
    nodes["code"] = range(1000, 1000 + len(nodes))
    edges["amount"] = 1000 + np.arange(len(edges)) % 7
    for name in ("one", "other"):
        edges[name] = edges[name].str[1:].astype(int) + 1000
    edges["number"] += 1000
    edges.loc[:2, "other"] = 7
    with pytest.warns(GraphshiftWarning, match="3 of 300 edges name nodes that"):
        table, _ = described(tmp_path, nodes, edges)
    assert (table["source"], table["target"]) == ("one", "other")

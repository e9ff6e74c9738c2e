"""Damaged and hostile tables: each gives one clear line that names the file and the place, and none runs anything."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.files import read_table

NODES = "id,label,age,country\n1,a,0.5,DE\n2,b,0.7,DE\n3,a,0.1,FR\n4,b,0.2,FR\n"
EDGES = "source,target,weight\n1,2,1\n3,4,2\n"
TWO: dict[str, Any] = {"environments": "country", "train": "DE", "tests": "FR"}

#: name: (node table, edge table, options, message); None for a table takes the good one.
ONLY = "id,label,country\n1,a,DE\n2,b,DE\n3,a,FR\n4,b,FR\n"
HOSTILE: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "no id column": (NODES.replace("id,", "key,", 1), None, {}, r"nodes.csv: there is no column 'id' .* are 'key'"),
    "no label column": (None, None, {"label": "y"}, r"nodes.csv: there is no column 'y' for the labels"),
    "no feature column": (None, None, {"features": ["height"]}, r"there is no column 'height' for the features"),
    "no environment column": (None, None, {"environments": "land"}, r"there is no column 'land' for the environments"),
    "no target column": (None, "source,goal\n1,2\n", {}, r"edges.csv: there is no column 'target'"),
    "no weight column": (None, None, {"weight": "w"}, r"edges.csv: there is no column 'w' for the edges' weights"),
    "no features at all": (ONLY, None, {"structure": False}, r"no column is left to make features of"),
    "duplicate ids": (NODES + "2,a,1,FR\n", None, {}, r"nodes.csv: rows 2 and 5 have the same id '2'"),
    "empty id": (NODES + ",a,1,FR\n", None, {}, r"nodes.csv: row 5, column 'id' is empty"),
    "empty end": (None, EDGES + "1,,1\n", {}, r"edges.csv: row 3, column 'target' is empty"),
    "unknown end": (None, EDGES + "1,x9,1\n", {}, r"edges.csv: row 3, column 'target': 'x9' is not among the ids of"),
    "end with spaces": (None, EDGES + "1, 2,1\n", {}, r"row 3, column 'target': ' 2' .* it has spaces around it"),
    "no end fits": (None, "source,target\nx,y\n", {}, r"no edge fits: is this the right pair of tables"),
    "swapped tables": (EDGES, NODES, {}, r"nodes.csv: there is no column 'id' .* Are the two tables swapped\?"),
    "empty file": ("", None, {}, r"nodes.csv: the file is empty"),
    "blank file": ("\n\n \n", None, {}, r"nodes.csv: the file is empty"),
    "header only": ("id,label,age,country\n", None, {}, r"nodes.csv: there is no row below the header"),
    "row too short": (NODES + "5,a\n", None, {}, r"nodes.csv: line 6 has 2 fields and the header has 4"),
    "row too long": (NODES + "5,a,1,FR,6\n", None, {}, r"nodes.csv: .* Expected 4 fields in line 6, saw 5"),
    "all rows too long": ("id,label\n1,a,0.5\n2,b,0.6\n", None, {}, r"nodes.csv: .*more fields than the header"),
    "cut off inside quotes": (NODES + '5,"a', None, {}, r"nodes.csv: this is not a whole CSV file: EOF inside string"),
    "no delimiter": ("id label age country\n1 a 0.5\n", None, {}, r"nodes.csv: there is no column 'id' .* 'id label"),
    "not the encoding": (NODES.encode() + b"5,caf\xe9,1,FR\n", None, {"encoding": "utf8"}, r"byte 6 .* not utf8"),
    "no such encoding": (None, None, {"encoding": "utf-9"}, r"encoding is 'utf-9', which Python does not know"),
    "half of UTF-16": (NODES.encode("utf-16")[:-1], None, {}, r"nodes.csv: .* is not utf-16"),
    "binary": (bytes(range(256)) * 8, None, {}, r"nodes.csv: this is binary"),
    "Parquet called CSV": (b"PAR1" + bytes(90), None, {}, r"nodes.csv: this is Parquet data, not CSV"),
    "Excel called CSV": (b"PK\x03\x04" + bytes(90), None, {}, r"nodes.csv: this is zip or Excel data"),
    "repeated column": (NODES.replace("age", "label"), None, {}, r"nodes.csv: two columns are called 'label'"),
    "infinite feature": (NODES.replace("0.7", "inf"), None, {}, r"nodes.csv: row 2, column 'age': inf is not a finite"),
    "third label": (NODES.replace("4,b", "4,z"), None, {}, r"row 4, column 'label': label 'z' is in"),
    "one label": (NODES.replace(",b,", ",a,"), None, {}, r"all training nodes have the label 'a'"),
    "no label in a test": (NODES.replace("3,a", "3,").replace("4,b", "4,"), None, {}, r"'FR' has no node with a label"),
    "absent environment": (None, None, {"tests": "ES"}, r"no node has 'ES' in column 'country', .* 'DE', 'FR'"),
    "overlapping roles": (None, None, {"val": "FR"}, r"environment 'FR' is named twice"),
    "zero weight": (None, EDGES.replace(",2\n", ",0\n"), {"weight": "weight"}, r"row 2, column 'weight': 0 is"),
    "negative weight": (None, EDGES + "1,2,-3\n", {"weight": "weight"}, r"row 3, column 'weight': -3 is not a weight"),
    "text weight": (None, EDGES + "1,2,big\n", {"weight": "weight"}, r"row 3, column 'weight': 'big' is not a weight"),
    "empty weight": (None, EDGES + "1,2,\n", {"weight": "weight"}, r"row 3, column 'weight': nan is not a weight"),
    "label as feature": (None, None, {"features": ["age", "label"]}, r"features names 'label', which is the label"),
    "categorical elsewhere": (None, None, {"categorical": ["size"]}, r"categorical names 'size', which is not"),
    "no role": (None, None, {"train": []}, r"train is missing; environments = 'country' needs it"),
    "both splits": (None, None, {"time": "age"}, r"expected environments .* or time .*; both are given"),
    "neither split": (None, None, {"environments": None}, r"neither is given"),
    "cuts with environments": (None, None, {"train_until": 3}, r"train_until does not go with environments"),
    "bad choice": (None, None, {"unknown_ids": "ignore"}, r"unknown_ids is 'ignore'; it should be 'error' or 'drop'"),
    "bad task": (None, None, {"task": "ranking"}, r"task is 'ranking'; it should be"),
    "bad metric": (None, None, {"metric": "bleu"}, r"metric is 'bleu'; for a binary task expected one of"),
    "long separator": (None, None, {"separator": "::"}, r"separator is '::'"),
    "not a table": (3, None, {}, r"the node table is int; expected a path"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_damaged_and_hostile_tables_are_explained(tmp_path: Path, case: str) -> None:
    nodes, edges, options, message = HOSTILE[case]
    paths: list[Any] = []
    for name, given, good in (("nodes.csv", nodes, NODES), ("edges.csv", edges, EDGES)):
        content = good if given is None else given
        if isinstance(content, str | bytes):
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
            content = tmp_path / name
        paths.append(content)
    with pytest.raises(GraphshiftError, match=message) as caught:
        from_tables(*paths, **TWO | options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_paths_that_are_no_tables(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "this is a folder; expected a CSV or Parquet file"),
        (tmp_path / "no.csv", "there is no such file"),
        (tmp_path / "table.xlsx", "expected a file that ends in .csv"),
        (tmp_path / "cut.csv.gz", "cannot be read"),
        (tmp_path / "text.csv.gz", "cannot be read"),
        (tmp_path / "damaged.parquet", "this is not a whole Parquet file|pip install graphshift"),
        (tmp_path / "wrong.parquet", "this is not a whole Parquet file|pip install graphshift"),
    ):
        content = {
            "table.xlsx": b"PK",
            "cut.csv.gz": gzip.compress(NODES.encode() * 99)[:-20],
            "text.csv.gz": NODES.encode(),
            "damaged.parquet": b"PAR1" + bytes(40) + b"PAR1",
            "wrong.parquet": NODES.encode(),
        }.get(path.name)
        if content:
            path.write_bytes(content)
        with pytest.raises(GraphshiftError, match=message) as caught:
            read_table(path, "node")
        assert str(path) in str(caught.value)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(GraphshiftError, match=r"pip install graphshift\[parquet\]"):
        read_table(tmp_path / "nodes.parquet", "node")

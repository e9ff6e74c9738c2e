"""CSV files of other encodings, separators and widths come out as the plain UTF-8 file does."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables import delimited
from graphshift.datasets.tables.files import read_table

TEXT = "id,café,n\n007,Zoë,1\n8,é – ü,\n9,,3\n"
PLAIN = pd.DataFrame({"id": ["007", "8", "9"], "café": ["Zoë", "é – ü", None], "n": [1.0, np.nan, 3.0]})


def read(path: Path, **options: Any) -> tuple[pd.DataFrame, list[str]]:
    table = read_table(path, "node", ids=["id"], **options)
    return table.frame, table.remarks


def same(frame: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(frame.astype(object).where(frame.notna(), None), _objects(expected))


def _objects(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), None)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "latin-1"]
)
def test_encodings_are_found_out(tmp_path: Path, encoding: str) -> None:
    text = TEXT.replace("–", "-") if encoding == "latin-1" else TEXT
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    frame, remarks = read(tmp_path / "t.csv")
    same(frame, PLAIN.replace("é – ü", "é - ü") if encoding == "latin-1" else PLAIN)
    if encoding in ("cp1252", "latin-1"):
        assert remarks == [
            f"{tmp_path / 't.csv'}: line 1, byte 7 (b'\\xe9') is not UTF-8; read as cp1252. If letters are wrong, give "
            "the option encoding."
        ]
    else:
        assert remarks == []


def test_an_encoding_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(TEXT.replace("–", "č").encode("iso8859-2", errors="replace")))
    frame, remarks = read(path, encoding="iso8859-2")
    assert frame["café"][1] == "é č ü"
    assert remarks == []


def test_latin_1_where_cp1252_has_no_such_byte(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"id,word,n\n1,caf\xe9,2\n2,\x81x,3\n")
    frame, remarks = read(tmp_path / "t.csv")
    assert frame["word"].tolist() == ["café", "\x81x"]
    assert "read as latin-1" in remarks[0]


@pytest.mark.parametrize(("mark", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (" ", "spaces")])
def test_another_separator_is_found_out(tmp_path: Path, mark: str, word: str) -> None:
    (tmp_path / "t.csv").write_text(TEXT.replace("é – ü", "é,ü").replace(",", mark).replace(f"é{mark}ü", "é,ü"))
    frame, remarks = read(tmp_path / "t.csv")
    same(frame, PLAIN.replace("é – ü", "é,ü"))
    assert remarks == [f"{tmp_path / 't.csv'}: the fields are separated by {word}; read so."]


def test_encodings_and_separators_of_both_tables_are_reported(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_bytes("id;label;age;où\n1;a;0.5;DÉ\n2;b;0.7;DÉ\n3;a;1;FR\n4;b;2;FR\n".encode("cp1252"))
    (tmp_path / "e.csv").write_text("source,target\n1,2\n3,4\n")
    with pytest.warns(UserWarning, match="read as cp1252") as caught:
        data = from_tables(tmp_path / "n.csv", tmp_path / "e.csv", environments="où", train="DÉ", tests="FR")
    assert len(caught) == 1
    assert [e.name for e in data.environments] == ["DÉ", "FR"]
    assert any("semicolons" in line for line in data.facts["report"])


def wide(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 3, (rows, 30)), columns=[f"w{i}" for i in range(30)])
    frame.insert(0, "id", [f"{i:03}" for i in range(rows)])
    frame["late word"] = ["1"] * (rows - 1) + ["x"]
    frame["late NA"] = [str(i) for i in range(rows - 1)] + ["NA"]
    frame["late fraction"] = [*range(rows - 1), 0.5]
    frame["large"] = [2**40 * (i == rows - 1) for i in range(rows)]
    frame["gap"] = [None] * (rows // 2) + ["word"] * (rows - rows // 2)
    frame["zeros"] = [f"0{i % 2}" for i in range(rows)]
    return frame


def test_a_wide_table_read_in_parts_is_the_table_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    wide().to_csv(path, index=False)
    whole, _ = read(path, text=["zeros"])
    monkeypatch.setattr(delimited, "_WIDE", 5)
    monkeypatch.setattr(delimited, "_PART", 7 * 37)
    parts, _ = read(path, text=["zeros"])
    assert parts["w3"].dtype == np.int8
    assert whole["w3"].dtype == np.int64
    assert list(parts.columns) == list(whole.columns)
    same(parts, whole)
    assert parts["late word"].tolist() == wide()["late word"].tolist()
    assert parts["zeros"].tolist() == wide()["zeros"].tolist()
    with path.open("a") as file:
        file.write("999,1,2\n")
    with pytest.raises(GraphshiftError, match=r"line 62 has 3 fields and the header has 37"):
        read(path)


@pytest.mark.parametrize("arrow", [True, False])
def test_numbers_keep_their_letters_in_text_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrow: bool
) -> None:
    if not arrow:

        def absent(*_: Any) -> Any:
            raise ImportError

        monkeypatch.setattr(delimited, "_arrow_text", absent)
    (tmp_path / "t.csv").write_text('id,"a\nb",zip,yes\n1,2,007,True\n\n"+2",3,"0 8",False\n3.0,4,,True\n')
    frame = read_table(tmp_path / "t.csv", "node", ids=["id"], text=["zip", "yes"]).frame
    assert frame["id"].tolist() == ["1", "+2", "3.0"]
    assert frame["zip"].fillna("-").tolist() == ["007", "0 8", "-"]
    assert frame["yes"].tolist() == ["True", "False", "True"]


def test_some_rows_and_some_columns(tmp_path: Path) -> None:
    wide().to_csv(tmp_path / "t.csv", index=False)
    frame, _ = read(tmp_path / "t.csv", rows=5, columns=["id", "w1"])
    assert (frame.shape, frame["id"].tolist()) == ((5, 2), ["000", "001", "002", "003", "004"])


EDGES = [[3, 0], [1, 2], [10, 7]]


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("comments", ["", "# a list of edges\n# from to\n", "%% MatrixMarket-like\n"])
@pytest.mark.parametrize("arrow", [True, False])
def test_edges_without_names_keep_their_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str, comments: str, arrow: bool
) -> None:
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "edges.txt"
    path.write_text(comments + "".join(f"{a}{separator}{b}\n" for a, b in EDGES))
    table = read_table(path, "edge", ids=["source", "target"])
    assert table.frame.to_numpy().tolist() == [[str(a), str(b)] for a, b in EDGES]
    assert "the first row has no names; the columns are called source, target" in table.found["header"][1]


def test_further_columns_of_edges_without_names_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("3,0,0.5\n1,2,0.25\n")
    frame = read_table(tmp_path / "edges.csv", "edge").frame
    assert list(frame) == ["source", "target", "column3"]
    assert frame["column3"].tolist() == [0.5, 0.25]


def test_names_that_pandas_gave_are_names(tmp_path: Path) -> None:
    pd.DataFrame(EDGES).to_csv(tmp_path / "edges.csv", index=False)
    table = read_table(tmp_path / "edges.csv", "edge")
    assert list(table.frame) == ["0", "1"]
    assert table.frame.to_numpy().tolist() == EDGES
    assert "looks like values (0, 1); taken as the columns' names" in table.found["header"][1]


@pytest.mark.parametrize(("header", "doubted"), [("7,0.25,word", True), ("id,x,label", False), ("id,0,1", False)])
def test_a_header_of_values_is_remarked_on(tmp_path: Path, header: str, doubted: bool) -> None:
    (tmp_path / "nodes.csv").write_text(f"{header}\n8,1.5,other\n")
    assert ("header" in read_table(tmp_path / "nodes.csv", "node").found) == doubted


@pytest.mark.parametrize(
    ("first", "second", "is_header"),
    [
        ("u11,u94", "u16,u8", False),
        ("Ann,Bob", "Bob,Ann", False),
        ("node1,node2", "node1,node7", True),
        ("from_id,to_id", "u16,u8", True),
        ("Ann,Bob", "Eve,Ann", True),
    ],
)
def test_a_first_edge_of_ids_is_no_header(tmp_path: Path, first: str, second: str, is_header: bool) -> None:
    (tmp_path / "edges.csv").write_text(f"{first}\n{second}\n")
    table = read_table(tmp_path / "edges.csv", "edge")
    assert table.frame.to_numpy().tolist() == [row.split(",") for row in ([] if is_header else [first]) + [second]]
    assert list(table.frame) == (first.split(",") if is_header else ["source", "target"])


def test_a_comment_above_names_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("#from,to\nalice,bob\n")
    assert list(read_table(tmp_path / "edges.csv", "edge").frame) == ["#from", "to"]

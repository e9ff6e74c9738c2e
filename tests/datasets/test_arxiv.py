from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.datasets.arxiv import arxiv
from graphshift.estimators.settings import make_estimator, setting_names

#: Of EERM, for each backbone (the paper's settings).
LEARNING_RATES = {"sage": 0.005, "gprgnn": 0.01}


NODES = 200
YEARS = np.random.default_rng(1).permutation(np.repeat([1995, 2011, 2012, 2014, 2015, 2016, 2018, 2019], 25))
EDGES = np.unique(np.random.default_rng(2).integers(0, NODES, (600, 2)), axis=0)
EDGES = EDGES[EDGES[:, 0] != EDGES[:, 1]]


def labels() -> list[int]:
    """All 40 classes are in the first years, as they must be to be learned."""
    y = np.arange(NODES) % 40
    y[YEARS <= 2011] = np.arange((YEARS <= 2011).sum()) % 40
    return y.tolist()


def written(folder: Path) -> Path:
    """Small files in OGB's layout: compressed, no headers, nodes in no order of time."""
    place = folder / "arxiv" / "raw"
    place.mkdir(parents=True)
    contents = {
        "node-feat": [f"{i}" + ",0.125" * 127 for i in range(NODES)],
        "node-label": labels(),
        "node_year": YEARS.tolist(),
        "edge": [f"{a},{b}" for a, b in EDGES],
        "num-node-list": [NODES],
        "num-edge-list": [len(EDGES)],
    }
    for name, rows in contents.items():
        (place / f"{name}.csv.gz").write_bytes(gzip.compress(("\n".join(map(str, rows)) + "\n").encode()))
    return folder


def test_split(tmp_path: Path) -> None:
    data = arxiv(data_dir=written(tmp_path))
    assert [e.name for e in data.environments] == ["to 2011", "2012-2014", "2015-2016", "2017-2018", "2019-2020"]
    assert (len(data.train), len(data.val)) == (1, 1)
    assert (data.task.kind, data.task.num_classes, data.task.metric) == ("multiclass", 40, "accuracy")
    for environment, (first, last) in zip(data.environments, data.facts["years"].values(), strict=True):
        assert isinstance(environment.x, torch.Tensor)
        assert environment.num_features == 128
        number = environment.x[:, 0].long()
        year = torch.from_numpy(YEARS)[number]
        assert number.tolist() == np.flatnonzero(last >= YEARS).tolist()
        assert torch.equal(environment.mask, year >= (first or 0))
        assert environment.labels.tolist() == torch.tensor(labels())[number[environment.mask]].tolist()
        found = {tuple(edge) for edge in number[environment.graph.edge_index].t().tolist()}
        kept = [(a, b) for a, b in EDGES.tolist() if YEARS[a] <= last and YEARS[b] <= last]
        assert found == {*kept, *((b, a) for a, b in kept)}
    assert {*data.defaults} - {"by_backbone", "by_method"} <= {*setting_names()}
    for backbone in ("sage", "gprgnn"):
        for method in ("erm", "eerm"):
            settings = make_estimator({"backbone": backbone, "method": method}, data.defaults)
            assert settings.lr == (0.01 if method == "erm" else LEARNING_RATES[backbone])


def test_a_class_that_training_lacks_is_counted_and_scored(tmp_path: Path) -> None:
    """As in the real data: the youngest subject areas have no paper up to 2011."""
    path = written(tmp_path) / "arxiv" / "raw" / "node-label.csv.gz"
    y = np.array(labels())
    y[(y == 7) & (YEARS <= 2011)] = 8
    path.write_bytes(gzip.compress(("\n".join(map(str, y)) + "\n").encode()))
    counts = [
        int(((y == 7) & (first <= YEARS) & (last >= YEARS)).sum()) for first, last in ((2012, 2014), (2019, 2020))
    ]
    with pytest.warns(
        GraphshiftWarning, match=f"class 7 is never in training.*{counts[0]} of 2012-2014.*count as wrong"
    ):
        data = arxiv(data_dir=tmp_path)
    assert data.task.num_classes == 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)  # the same, and of classes with one training node
        model = gs.ERM("gcn", epochs=2).fit(data)
    scores = model.score(data.tests)
    last = data.tests[-1]
    assert int((last.labels == 7).sum()) == counts[1]
    right = (model.predict(last)[last.mask.numpy()] == last.labels.numpy()).mean()
    assert scores["2019-2020"] == pytest.approx(float(right))


def test_one_way(tmp_path: Path) -> None:
    graph = arxiv(one_way=True, data_dir=written(tmp_path)).tests[-1].graph
    assert not graph.undirected
    assert {tuple(edge) for edge in graph.edge_index.t().tolist()} == {tuple(edge) for edge in EDGES.tolist()}


def test_missing_files_are_listed(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"(?s)raw/node-feat.csv.gz.*arxiv.zip.*raw/num-edge-list.csv.gz"):
        arxiv(data_dir=tmp_path)


def line(number: int, text: str) -> Callable[[str], str]:
    def change(content: str) -> str:
        lines = content.split("\n")
        lines[number - 1] = text
        return "\n".join(lines)

    return change


DAMAGE: dict[str, tuple[str, Callable[[str], str], str]] = {
    "edge to an unknown paper": ("edge", line(4, f"3,{NODES}"), "line 4, column 'target': found 200"),
    "edge end negative": ("edge", line(4, "-3,7"), "line 4, column 'source': found -3"),
    "edge end is text": ("edge", line(4, "3,x"), "line 4, column 'target': found 'x'"),
    "edges with a header": ("edge", lambda c: "source,target\n" + c, "line 1, column 'source': found 'source'"),
    "edges cut at a line's end": ("edge", lambda c: c[: c.index("\n", 400) + 1], "as in num-edge-list.csv.gz"),
    "class outside": ("node-label", line(9, "40"), "line 9, column 'label': found 40; expected a class from 0 to 39"),
    "class missing": ("node-label", lambda c: c[: -c[::-1].index("\n", 1)], "found 199 lines; expected 200"),
    "classes are the years": ("node-label", lambda _: "2011\n" * NODES, "line 1, column 'label': found 2011 (200 such"),
    "years are the classes": ("node_year", lambda _: "7\n" * NODES, "line 1, column 'year': found 7 (200 such rows)"),
    "year is text": ("node_year", line(2, "MMXI"), "line 2, column 'year': found 'MMXI'"),
    "feature NaN": ("node-feat", line(3, "nan" + ",1" * 127), "line 3, column 'feature 1': found 'nan'"),
    "a feature too few": ("node-feat", line(3, "1" + ",1" * 126), "line 3 has 127 fields; expected 128"),
    "features empty": ("node-feat", lambda _: "", "the file is empty"),
    "two graphs": ("num-node-list", lambda c: c + c, "found 2 lines; expected one number"),
    "count is text": ("num-node-list", lambda _: "many\n", "line 1, column 'count': found 'many'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    part, change, text = DAMAGE[damage]
    path = written(tmp_path) / "arxiv" / "raw" / f"{part}.csv.gz"
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()).decode()).encode()))
    with pytest.raises(GraphshiftError) as error:
        arxiv(data_dir=tmp_path)
    assert str(path) in str(error.value)
    assert text in str(error.value)


COMPRESSION: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda raw: raw[:-30],
    "cut in its header": lambda raw: raw[:5],
    "not compressed": gzip.decompress,
    "a byte changed": lambda raw: raw[:300] + bytes([raw[300] ^ 0xFF]) + raw[301:],
}


@pytest.mark.parametrize("damage", COMPRESSION)
def test_damaged_compression(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path) / "arxiv" / "raw" / "edge.csv.gz"
    path.write_bytes(COMPRESSION[damage](path.read_bytes()))
    with pytest.raises(GraphshiftError) as error:
        arxiv(data_dir=tmp_path)
    assert str(path) in str(error.value)
    assert "gzip" in str(error.value) or "line" in str(error.value)

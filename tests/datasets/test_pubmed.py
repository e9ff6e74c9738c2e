"""PubMed by years: the periods of PROTOCOLS.md on the real files, any other cuts, and damaged years."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.pubmed import SOURCES, pubmed_temporal
from graphshift.datasets.reading.files import verify
from graphshift.estimators.settings import make_estimator
from graphshift.graph.sparse import Sparse

Write = Callable[..., dict[str, Path]]
YEARS = np.array([1990, 1991, 1991, 1992, 1992, 1990, 1993, 1993, 1994, 1995])
CUTS: dict[str, Any] = {"train_until": 1992, "val_until": 1993, "test_until": [1994, 1995]}


@pytest.fixture(scope="module")
def pubmed(shared_data: Path) -> ShiftDataset:
    return pubmed_temporal(data_dir=shared_data)


@pytest.fixture
def tiny(tmp_path: Path, write_planetoid: Write) -> Path:
    """A data directory with ten papers; returns it."""
    write_planetoid(tmp_path / "data" / "pubmed-temporal" / "raw", "pubmed")
    np.save(tmp_path / "data" / "pubmed-temporal" / "raw" / "node_year.npy", YEARS)
    return tmp_path / "data"


def test_periods_of_the_protocol(pubmed: ShiftDataset) -> None:
    assert [e.name for e in pubmed.environments] == ["1964-1992", "1993-1997", "1998-2001", "2002-2005", "2006-2010"]
    assert [e.num_nodes for e in pubmed.environments] == [5033, 8270, 11361, 15763, 19717]
    assert [e.labels.numel() for e in pubmed.environments] == [5033, 3237, 3091, 4402, 3954]
    assert pubmed.tests[-1].graph.num_edges == 2 * 44324
    assert all(e.graph.undirected and e.num_features == 500 and isinstance(e.x, Sparse) for e in pubmed.environments)
    assert (pubmed.task.kind, pubmed.task.num_classes, pubmed.task.metric) == ("multiclass", 3, "accuracy")
    periods = pubmed.facts["periods"]
    assert periods["1964-1992"]["class_shares"] == pytest.approx([0.39, 0.16, 0.45], abs=0.005)
    assert periods["2006-2010"]["class_shares"] == pytest.approx([0.12, 0.58, 0.30], abs=0.005)
    distance = [period["feature_distance"] for period in periods.values()]
    assert distance[0] == 0
    assert distance == sorted(distance), "features drift away, period after period"


def test_no_environment_sees_the_future(shared_data: Path, pubmed: ShiftDataset) -> None:
    year = torch.from_numpy(np.load(shared_data / "pubmed-temporal" / "raw" / "node_year.npy"))
    whole = pubmed.tests[-1]
    last = {"train": 1992, "val": 1997}
    for environment, until in ((pubmed.train[0], last["train"]), (pubmed.val[0], last["val"])):
        nodes = (year <= until).nonzero().squeeze(1)
        kept = torch.isin(whole.graph.edge_index, nodes).all(dim=0)
        assert torch.equal(nodes[environment.graph.edge_index], whole.graph.edge_index[:, kept])
        assert isinstance(environment.x, Sparse)
        assert isinstance(whole.x, Sparse)
        assert torch.equal(environment.x.to_dense(), whole.x.to_dense()[nodes])


def test_files_are_the_published_ones(shared_data: Path) -> None:
    assert {row["sha256"] for row in verify("pubmed-temporal", SOURCES, shared_data)} == {"ok"}


def test_defaults_are_settings(tiny: Path) -> None:
    make_estimator(pubmed_temporal(data_dir=tiny, **CUTS).defaults)


def test_other_cuts(tiny: Path) -> None:
    data = pubmed_temporal(data_dir=tiny, train_until=1992, val_until=1993, test_until=(1994, 1995))
    assert [e.name for e in data.environments] == ["1990-1992", "1993-1993", "1994-1994", "1995-1995"]
    assert [e.num_nodes for e in data.environments] == [6, 8, 9, 10]
    assert [int(e.mask.sum()) for e in data.environments] == [6, 2, 1, 1]
    one = pubmed_temporal(data_dir=tiny, train_until=1992, val_until=1993, test_until=1995)
    assert [e.labels.numel() for e in one.tests] == [2]


def test_nodes_without_a_label_do_not_count(tmp_path: Path, write_planetoid: Write) -> None:
    folder = tmp_path / "pubmed-temporal" / "raw"
    write_planetoid(folder, "pubmed", test_index=b"8\n6\n7\n10\n")
    np.save(folder / "node_year.npy", np.append(YEARS, 1995))
    data = pubmed_temporal(data_dir=tmp_path, **CUTS)
    assert data.tests[-1].num_nodes == 11
    assert data.tests[-1].counted.tolist() == [10], "node 9 is isolated, without features or label"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"val_until": 1992}, "1992, 1992, 1994, 1995; each must be later"),
        ({"test_until": (1995, 1994)}, "1995, 1994; each must be later"),
        ({"test_until": ()}, r"test_until is \(\); expected a year or a list"),
        ({"test_until": "1995"}, "test_until is '1995'"),
        ({"train_until": 1992.5}, "1992.5 is not a year"),
        ({"train_until": 1900}, "1990-1900"),
        ({"test_until": (1994, 1995, 2030)}, "1996-2030"),
    ],
)
def test_impossible_cuts(tiny: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        pubmed_temporal(data_dir=tiny, **(CUTS | options))


class Touch:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def archive(file: Path) -> None:
    with file.open("wb") as stream:
        np.savez(stream, years=YEARS)


def whole(years: Any) -> Callable[[Path], None]:
    return lambda file: np.save(file, years)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.write_bytes(b""), "not a whole .npy"),
        (lambda file: file.write_bytes(file.read_bytes()[:-8]), "not a whole .npy"),
        (lambda file: file.write_bytes(b"\x93NUMPY\x01\x00\xff\xff"), "not a whole .npy"),
        (archive, "an archive of arrays"),
        (whole(YEARS[:-1]), r"int64 \[9\]; expected one integer year for each of 10"),
        (whole(YEARS.astype(float)), r"float64 \[10\]; expected one integer year"),
        (whole(YEARS - 1990), "node 0 has the year 0; expected years such as 1992"),
        (whole(YEARS.astype(str)), "expected one integer year"),
    ],
    ids=["empty", "truncated", "header", "archive", "a node too few", "floats", "steps", "text"],
)
def test_damaged_years(tiny: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(tiny / "pubmed-temporal" / "raw" / "node_year.npy")
    with pytest.raises(GraphshiftError, match=message) as caught:
        pubmed_temporal(data_dir=tiny, **CUTS)
    assert "node_year.npy: " in str(caught.value)


@pytest.mark.parametrize("kind", ["array of objects", "pickle"])
def test_years_run_nothing(tiny: Path, tmp_path: Path, kind: str) -> None:
    file, marker = tiny / "pubmed-temporal" / "raw" / "node_year.npy", tmp_path / "marker"
    if kind == "pickle":
        file.write_bytes(pickle.dumps(Touch(marker)))
    else:
        np.save(file, np.array([Touch(marker)] * 10, dtype=object), allow_pickle=True)
    with pytest.raises(GraphshiftError, match="not a whole"):
        pubmed_temporal(data_dir=tiny, **CUTS)
    assert not marker.exists()


def test_missing_years_say_where_they_come_from(tiny: Path) -> None:
    (tiny / "pubmed-temporal" / "raw" / "node_year.npy").unlink()
    with pytest.raises(GraphshiftError, match="1 of 9 files are missing") as caught:
        pubmed_temporal(data_dir=tiny)
    assert "github.com/nelsonaloysio/pubmed-temporal" in str(caught.value)
    assert str(tiny / "pubmed-temporal" / "raw" / "node_year.npy") in str(caught.value)

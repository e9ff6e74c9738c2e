from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import torch

import graphshift.datasets.citation as citation_file
from graphshift.core.errors import GraphshiftError
from graphshift.data.tasks import Task
from graphshift.datasets.citation import SOURCES, citation
from graphshift.datasets.reading.files import verify
from graphshift.estimators.settings import make_estimator
from graphshift.graph.sparse import Sparse

NODES = 12


def test_databases_have_the_known_sizes(shared_data: Path) -> None:
    text = (shared_data / "README.md").read_text()
    known = re.findall(r"(ACM|Citation|DBLP) ([\d,]+) / ([\d,]+)", text)
    sizes = {name.lower(): (int(a.replace(",", "")), int(b.replace(",", ""))) for name, a, b in known}
    data = citation(data_dir=shared_data)
    assert {e.name: (e.num_nodes, e.graph.num_edges // 2) for e in (*data.train, *data.tests)} == sizes
    assert all(isinstance(e.x, Sparse) and e.num_features == 6775 for e in data.environments)
    several = data.facts["several_labels"]
    assert several["acm"] + several["acm, held out"] == 581
    assert (several["citation"], several["dblp"]) == (166, 15)
    assert int(data.val[0].mask.sum()) == 1872
    assert not bool((data.val[0].mask & data.train[0].mask).any())
    assert {row["sha256"] for row in verify("citation", SOURCES, shared_data)} == {"ok"}
    make_estimator(data.defaults)


def test_labels_words_and_edges_are_those_of_the_file(shared_data: Path) -> None:
    raw = scipy.io.loadmat(shared_data / "citation/raw/dblpv7.mat")
    dblp = citation(source="acm", target="dblp", data_dir=shared_data).tests[0]
    assert isinstance(dblp.x, Sparse)
    assert np.array_equal(dblp.members.numpy(), raw["group"] > 0)
    assert np.array_equal(dblp.x.to_dense().numpy(), raw["attrb"].astype(np.float32))
    A = raw["network"].toarray() > 0
    np.fill_diagonal(A, False)
    built = np.zeros_like(A)
    built[tuple(dblp.graph.edge_index.numpy())] = True
    assert np.array_equal(built, A)


def test_micro_f1_counts_all_labels_and_accuracy_leaves_two_labels_out(shared_data: Path) -> None:
    acm = citation(source="dblp", target="acm", data_dir=shared_data).tests[0]
    output = torch.randn(acm.num_nodes, 5, generator=torch.Generator().manual_seed(0))
    right = total = single = correct = 0
    for row, member in zip(output.tolist(), acm.members.tolist(), strict=True):
        truth = {c for c in range(5) if member[c]}
        best = sorted(range(5), key=lambda c: -row[c])[: len(truth)]
        right, total = right + len(truth & set(best)), total + len(truth)
        if len(truth) == 1:
            single, correct = single + 1, correct + (best[0] in truth)
    assert acm.score(output) == pytest.approx(right / total)
    assert total == 9941
    plain = acm.replace(task=Task("multiclass", 5, "accuracy"))
    assert plain.score(output) == pytest.approx(correct / single)
    assert single == 8779


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "amc"}, r"source is 'amc'; expected one of acm, citation, dblp"),
        ({"source": "acm", "target": "acm"}, "expected other databases than the source"),
        ({"target": "dblp,dblp"}, "each once"),
        ({"val_share": 1.5}, "val_share is 1.5"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str, shared_data: Path) -> None:
    with pytest.raises(GraphshiftError, match=message):
        citation(**options, data_dir=shared_data)


def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:
    """Three files of the real layout, 12 papers and 6 words each; one with changes."""
    monkeypatch.setattr(citation_file, "_WORDS", 6)
    generator = np.random.default_rng(0)
    folder = tmp_path / "citation" / "raw"
    folder.mkdir(parents=True)
    group = np.eye(5, dtype=np.uint8)[np.arange(NODES) % 5]
    group[0, 1] = 1
    ring = np.roll(np.eye(NODES), 1, axis=1)
    content = {"network": scipy.sparse.csc_matrix(ring + ring.T + np.diag([1.0] + [0.0] * 11)), "group": group}
    content["attrb"] = generator.integers(0, 3, (NODES, 6)).astype(np.uint8)
    for file in ("acmv9", "citationv1", "dblpv7"):
        scipy.io.savemat(folder / f"{file}.mat", content | (changes if file == "acmv9" else {}))
    digests = tuple(source.__class__(source.path) for source in SOURCES)
    monkeypatch.setattr(citation_file, "SOURCES", digests)
    return tmp_path


def test_small_files_of_the_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = citation(val_share=0.25, data_dir=small(tmp_path, monkeypatch))
    assert data.tests[0].graph.num_edges == 2 * NODES  # the self-loop is gone
    assert data.tests[0].members[0].tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"group": np.zeros((NODES, 5), dtype=np.uint8)},
            r"`group` row 0 is \[0, 0, 0, 0, 0\]; expected zeros and one",
        ),
        ({"group": np.full((NODES, 5), 2, dtype=np.uint8)}, "`group` row 0"),
        ({"group": np.ones((NODES, 4), dtype=np.uint8)}, r"`group` is \[12, 4\]; expected \[papers, 5\]"),
        ({"network": np.zeros((NODES, NODES))}, "`network` is an array"),
        ({"network": scipy.sparse.csc_matrix(np.ones((NODES, 3)))}, r"`network` is a sparse matrix \[12, 3\]"),
        ({"attrb": np.zeros((NODES, 7), dtype=np.uint8)}, r"`attrb` is \[12, 7\]; expected \[12, 6\]"),
        ({"attrb": np.full((NODES, 6), -1.0)}, "`attrb` has negative"),
        ({"attrb": np.full((NODES, 6), np.nan)}, "`attrb` has negative or infinite"),
    ],
)
def test_damaged_files(changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GraphshiftError, match=message):
        citation(data_dir=small(tmp_path, monkeypatch, **changes))

"""``gs.compare``: data in memory, from PyG and networkx too, results as objects, frames and text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.report.study_tables import main_tables, study_tables
from graphshift.studies import Plan, run_study
from html_reading import check_page
from tiny_studies import ERM, RANDOM

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.GraphshiftWarning")

HOW: dict[str, Any] = {"seeds": 3, "trials": 0, "settings": {"epochs": 2, "hidden_channels": 4}, "threads": 1}
METHODS = ("erm", "vrex", "majority", "logistic")


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=60, environments=5, degree=4.0)


@pytest.fixture(scope="module")
def found(data: gs.ShiftDataset) -> Any:
    return gs.compare(data, METHODS, adapt=("norm",), **HOW)


def test_results_are_objects_and_frames(found: Any, data: gs.ShiftDataset) -> None:
    names = ["Largest class", "Logistic regression", "ERM", "ERM, + norm", "V-REx", "V-REx, + norm"]
    assert list(found.frame["arm"]) == names
    assert len(found.runs) == 18
    erm = found.runs[found.runs["arm"] == "ERM"]
    line = found.frame[found.frame["arm"] == "ERM"].iloc[0]
    assert line["T1_mean"] == pytest.approx(erm["T1"].mean())
    assert line["val_mean"] == pytest.approx(erm["val"].mean())
    model = gs.ERM(epochs=2, hidden_channels=4, seed=1).fit(data.train, data.val)
    assert erm[erm["seed"] == 1].iloc[0]["T2"] == pytest.approx(model.score(data.tests[1]))
    assert found.summary.metric == "accuracy"
    assert found.folder is None
    assert found.text in str(found)
    assert "│ V-REx" in str(found)
    (skipped,) = found.summary.skipped
    assert skipped.what == "+ norm"
    assert skipped.reason == "no batch normalisation: Largest class; Logistic regression"


def test_a_name_is_as_good_as_data(found: Any) -> None:
    options = {"nodes": 60, "environments": 5, "degree": 4.0}
    named = gs.compare("planted", METHODS, adapt=("norm",), options=options, **HOW)
    assert [arm.mean_test for arm in named.summary.arms] == [arm.mean_test for arm in found.summary.arms]


def test_workers_are_given_the_data(data: gs.ShiftDataset) -> None:
    plan = Plan(data, [ERM, RANDOM], [0], resample=True)  # type: ignore[arg-type]
    here, there = (run_study(plan, workers=workers, threads=1) for workers in (0, 2))
    assert [row.tests for row in there.rows()] == [row.tests for row in here.rows()]
    assert all(record.ok for record in there.records)


def test_options_are_of_data_that_are_loaded(data: gs.ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match="options are of a dataset that is loaded by name; this one is in memory"):
        gs.compare(data, ["erm"], options={"nodes": 3}, **HOW)


def test_without_tests_arms_are_compared_on_validation(data: gs.ShiftDataset, tmp_path: Path) -> None:
    without = gs.ShiftDataset("mine", data.train, data.val, target=data.tests)
    found = gs.compare(without, METHODS, out=tmp_path / "s", **HOW)
    (table,) = main_tables(found.summary)
    assert table.columns[:3] == ["arm", "validation", "validation against ERM (95 %)"]
    entry = next(arm for arm in found.summary.arms if arm.arm == "Logistic regression")
    assert entry.difference.mean_test is None
    assert entry.difference.choosing is not None
    rows = {row.seeds: row for row in found.study.rows() if row.arm == "Logistic regression"}
    gains = [rows[row.seeds].val - row.val for row in found.study.rows() if row.arm == "ERM"]
    assert entry.difference.choosing.mean == pytest.approx(sum(gains) / 3)
    check_page((tmp_path / "s" / "report.html").read_text())
    again = gs.compare(without, METHODS, out=tmp_path / "s", **HOW)
    assert again.summary.to_json() == found.summary.to_json()
    other = gs.ShiftDataset("mine", data.train, data.tests[:1])
    with pytest.raises(GraphshiftError, match="the data are not the same"):
        gs.compare(other, METHODS, out=tmp_path / "s", **HOW)


def test_without_validation_held_out_nodes_choose_and_their_score_is_shown(data: gs.ShiftDataset) -> None:
    found = gs.compare(gs.ShiftDataset("mine", data.train, (), data.tests[:1]), ("erm", "vrex"), **HOW)
    (table,) = main_tables(found.summary)
    assert table.columns[:4] == ["arm", "held-out training nodes", "test", "test against ERM (95 %)"]
    assert "–" not in [row[1] for row in table.rows]
    assert "rule val (there are no validation environments)" in found.text
    assert len(found.summary.findings) == 1  # the mean of one test is its worst
    assert all("by test environment" not in one.title for one in study_tables(found.summary))


def test_a_graph_of_pyg_and_of_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 90, (2, 300), generator=generator)
    y, x = torch.arange(90) % 2, torch.rand(90, 3, generator=generator)
    parts = {"train_mask": range(40), "val_mask": range(40, 60), "test_mask": range(60, 90)}
    masks = {name: torch.tensor([i in part for i in range(90)]) for name, part in parts.items()}
    shift = gs.from_pyg(Data(x=x, edge_index=edges, y=y, **masks))
    assert len(gs.compare(shift, ["erm", "logistic"], **HOW).summary.arms) == 2
    graph = networkx.Graph()
    for i in range(90):
        graph.add_node(i, size=float(x[i, 0]), label=int(y[i]), region="abc"[i // 30])
    graph.add_edges_from((i, (i + 3) % 90) for i in range(90))
    made = gs.from_networkx(graph, environments="region", train=["a"], val=["b"], tests=["c"])
    assert len(gs.compare(made, ["erm", "logistic"], **HOW).summary.arms) == 2


def test_the_largest_class_stands_beside_accuracies_alone(data: gs.ShiftDataset) -> None:
    binary = [
        e.replace(y=e.y.clamp(max=1), task=gs.Task("binary", 2, "roc_auc"))
        for e in data.environments
        if e.y is not None
    ]
    found = gs.compare(gs.ShiftDataset("auc", binary[:1], binary[1:2], binary[2:]), ("erm",), **HOW)
    text = " ".join(cell for table in study_tables(found.summary) for row in table.rows for cell in row)
    assert "largest class" not in text
    accuracy = gs.compare(data, ("erm",), **HOW)
    text = " ".join(cell for table in study_tables(accuracy.summary) for row in table.rows for cell in row)
    assert "share of the largest class (%)" in text


def test_what_is_in_the_summary_is_json(found: Any) -> None:
    content = json.loads(json.dumps(found.summary.to_json()))
    assert type(found.summary).from_json(content) == found.summary

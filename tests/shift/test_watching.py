"""Watching over time: the alarm rule, its false-alarm rate, what it sees, and a log that survives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.lab.shift.planting import made_pair, planted
from graphshift.report.watch_page import verdict, watch_page, watch_table
from graphshift.shift import watching
from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.compare import Comparison
from graphshift.shift.watching import Snapshot, judged, watch

ACCURACY = METRICS.find("accuracy")
KNOWN: dict[str, Any] = {"id": "may", "digest": "", "at": "", "nodes": 90, "level": 0.05}


def comparison(*moved: str) -> Comparison:
    names = ("features", "structure", "surroundings", "labels", "edges")
    blocks = tuple(Block(n, "", 1.0, p=0.01, corrected=0.01 if n in moved else 1.0, moved=n in moved) for n in names)
    return Comparison("train", "may", blocks, (30, 30), 0.05)


def estimate(expected: float | None) -> Estimate:
    return Estimate("accuracy", expected, 0.0, 1.0, 0.8, {"doc": 0.7}, "" if expected is not None else "because")


@pytest.mark.parametrize(
    ("moved", "expected", "status"),
    [
        ((), 0.8, "steady"),
        ((), 0.5, "steady"),  # a fall alone is not enough: the rate of false alarms is that of the test
        ((), None, "steady"),
        (("edges",), 0.79, "moved"),
        (("edges",), 0.95, "moved"),
        (("edges",), 0.74, "alarm"),
        (("edges",), None, "alarm"),
    ],
)
def test_the_rule(moved: tuple[str, ...], expected: float | None, status: str) -> None:
    found = judged(comparison(*moved), estimate(expected), ACCURACY, 0.05, **KNOWN)
    assert found.status == status
    assert found.moved == list(moved)
    assert found.alarms == (status == "alarm")


def test_of_an_error_more_is_worse() -> None:
    ece = METRICS.find("ece")
    up = Estimate("ece", 0.2, 0.1, 0.3, 0.1, {"doc": 0.2})
    assert judged(comparison("edges"), up, ece, 0.05, **KNOWN).status == "alarm"
    down = Estimate("ece", 0.02, 0.0, 0.1, 0.1, {"doc": 0.02})
    assert judged(comparison("edges"), down, ece, 0.05, **KNOWN).status == "moved"


@pytest.fixture(scope="module")
def fitted() -> tuple[gs.Estimator, list[gs.Environment]]:
    """A model, the graph that it was trained on, and a graph to validate on, drawn alike."""
    train, val = made_pair("features", 0.0, 0, nodes=600)
    return gs.ERM("gcn", epochs=30, hidden_channels=8).fit(train, val.replace(name="val")), [train, val]


def test_exchangeable_snapshots_hardly_alarm(
    fitted: tuple[gs.Estimator, list[gs.Environment]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 5 % on average: of 20 drawn like training 5 alarm with a chance of 0.3 %, even if every estimate fell."""
    model, _ = fitted
    fallen = lambda model, graphs, *_: {e.name: estimate(0.2) for e in graphs}  # noqa: E731
    monkeypatch.setattr(watching, "_estimates", fallen)
    alarms = 0
    for seed in range(20):
        source, same = made_pair("features", 0.0, 500 + seed, nodes=250)
        (found,) = watch(model, source, [same.replace(name="same")], seed=seed)
        alarms += found.alarms
    assert alarms < 5


def test_a_planted_shift_alarms_and_labels_decide_nothing(fitted: tuple[gs.Estimator, list[gs.Environment]]) -> None:
    model, (train, val) = fitted
    rng = np.random.default_rng(3)
    moved = planted(val, "edges", 1.0, rng).replace(name="moved")
    (found,) = watch(model, train, [moved], validation=[val], check=True, drop=0.02)
    assert "edges" in found.moved or "surroundings" in found.moved
    assert found.alarms
    assert found.score == pytest.approx(model.score(moved))
    wrong = moved.replace(y=torch.zeros_like(moved.y))
    (blind,) = watch(model, train, [wrong], validation=[val], drop=0.02)
    assert (blind.status, blind.moved, blind.expected, blind.score) == (found.status, found.moved, found.expected, None)


def test_the_log_goes_on_and_a_torn_line_is_looked_at_again(
    fitted: tuple[gs.Estimator, list[gs.Environment]], tmp_path: Path
) -> None:
    model, (train, val) = fitted
    log, seen = tmp_path / "watch.jsonl", list[str]()
    snapshots = [val.replace(name=name) for name in ("may", "june", "july")]

    def look(*graphs: gs.Environment, **how: Any) -> list[Snapshot]:
        seen.clear()
        return watch(model, train, graphs, log=log, report=lambda one: seen.append(one.id), **how)

    look(*snapshots[:2])
    assert seen == ["may", "june"]
    first = log.read_text()
    again = look(*snapshots)
    assert seen == ["july"]
    assert log.read_text().startswith(first)
    assert [one.id for one in again] == ["may", "june", "july"]
    log.write_text(log.read_text()[:-20])  # a kill while it was written
    assert look(*snapshots) == [*again[:2], look(*snapshots)[2]]
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 3
    look(planted(val, "structure", 0.3, np.random.default_rng(0)).replace(name="may"), *snapshots[1:])
    assert seen == ["may"]  # another graph under the same name
    look(snapshots[1], drop=0.01)
    assert seen == ["june"]  # another rule


def test_too_few_nodes_are_unseen_and_mistakes_are_said(fitted: tuple[gs.Estimator, list[gs.Environment]]) -> None:
    model, (train, val) = fitted
    mask = torch.arange(val.num_nodes) < 30
    (found,) = watch(model, train, [val.replace(mask=mask)])
    assert (found.status, found.alarms) == ("unseen", False)
    for arguments, message in (
        ({"snapshots": [val, val]}, "two snapshots are called 'target'"),
        ({"snapshots": []}, "there is no snapshot"),
        ({"snapshots": [val], "level": 0.0}, "level is 0.0; expected a share"),
        ({"snapshots": [val], "drop": -1.0}, "drop is -1.0; expected"),
        ({"snapshots": [val.replace(x=val.x[:, :3])]}, "was trained with 16"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            watch(model, train, **arguments)


def test_the_page_shows_the_timeline() -> None:
    found = [
        judged(comparison(), estimate(0.79), ACCURACY, 0.05, **KNOWN | {"score": 0.78}),
        judged(comparison("edges"), estimate(0.6), ACCURACY, 0.05, **KNOWN | {"id": "june", "score": 0.79}),
        judged(comparison("edges"), estimate(None), ACCURACY, 0.05, **KNOWN | {"id": "july"}),
    ]
    assert [one.was_right for one in found] == [True, False, None]
    assert verdict(found).startswith("2 of 3 snapshots alarm, the first june. By labels, which decided nothing: 1 of 2")
    html = watch_page("the run", found)
    assert html.count("<svg") == 1
    assert "july" in html
    assert "cannot be estimated</text>" in html
    assert "cannot be estimated</text>" not in watch_page("the run", found[:2])
    rows = watch_table("the run", found).rows
    assert [row[1] for row in rows] == ["steady", "alarm", "alarm"]
    assert [row[4] for row in rows] == ["79.0", "60.0", "refused"]

"""One job: what it records, what it never looks at, and that a failure is a record too."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators import recorded_estimator
from graphshift.studies import Arm, Plan
from graphshift.studies.job_runner import attempt, reason_of
from graphshift.studies.jobs import Job, Schedule
from graphshift.studies.records import Selected
from graphshift.studies.resolved import load_data, resolve
from graphshift.training.selection import adversarially_edited
from tiny_studies import ERM, OPTIONS, RANDOM, TINY, guarded, plan


@pytest.fixture(scope="module")
def data() -> ShiftDataset:
    return load_data("planted", OPTIONS, None)


def jobs_of(study: Plan, data: ShiftDataset, kind: str) -> list[Job]:
    return [job for job in Schedule(resolve(study, data)).jobs({}) if job.kind == kind]


@pytest.mark.parametrize("selections", [("val",), ("id_val",), ("val", "id_val")], ids=str)
def test_tuning_never_touches_the_tests(selections: tuple[str, ...], data: ShiftDataset) -> None:
    trials = jobs_of(plan(selections=selections), data, "trial")
    assert len(trials) == 6 * len(selections)
    for job in trials:
        record = attempt(job, guarded(data))
        assert (record.status, record.reason) == ("ok", None)
        assert record.majority == {}
        assert all(chosen.tests == {} for chosen in record.selections.values())
        assert all(chosen.train is None for chosen in record.selections.values())


def test_what_does_touch_them_is_told(data: ShiftDataset) -> None:
    (run, *_) = jobs_of(plan(trials=0), data, "run")
    oracle = jobs_of(plan(selections=["oracle"]), data, "trial")[0]
    for job in (run, oracle):
        record = attempt(job, guarded(data))
        assert record.status == "failed"
        assert "somebody looked at the tests" in record.reason


def without_spurious(model: gs.Estimator, data: ShiftDataset) -> float:
    """The training accuracy with the last eight of 24 columns at zero."""
    (train,) = data.train
    assert isinstance(train.x, torch.Tensor)
    assert train.y is not None
    x = torch.cat([train.x[:, :16], torch.zeros(train.num_nodes, 8)], dim=1)
    with torch.no_grad():
        answers = model.backbone_.eval()(x, train.graph).argmax(dim=1)
    return float((answers == train.y).double().mean())


def test_a_run_is_what_the_estimator_gives(data: ShiftDataset) -> None:
    study = plan(trials=0, arms=[ERM, RANDOM])
    erm, eerm = jobs_of(study, data, "run")[:2]
    record = attempt(erm, data)
    model = gs.ERM(**TINY).fit(data.train, data.val)
    assert record.selections == {
        "val": Selected(
            epoch=model.best_epoch_,
            score=model.best_score_,
            val=model.best_score_,
            tests=model.score(data.tests),
            train=model.score(data.train[0]),
            train_without_spurious=without_spurious(model, data),
            adversarial_val=model.score(adversarially_edited(model.backbone_, data.val[0])),
        )
    }
    assert record.curve is None  # ERM has one risk, and no variance
    assert record.majority == {e.name: e.majority for e in data.tests}
    assert (record.method, record.explorer, record.variance) == ("erm", None, None)
    assert (record.kind, record.seed, record.data_seed, record.metric) == ("run", 0, 0, "accuracy")
    assert record.seconds_per_epoch == pytest.approx(record.seconds / 4)
    record = attempt(eerm, data)
    model = gs.EERM(explorer="random", views=2, edits_per_node=1, **TINY).fit(data.train, data.val)
    assert record.selections["val"].tests == model.score(data.tests)
    assert record.variance == pytest.approx(fmean(row["variance"] for row in model.history_))
    assert (record.method, record.explorer) == ("eerm", "random")


def test_a_run_is_scored_on_its_training_data_with_and_without_spurious_columns(data: ShiftDataset) -> None:
    arm = Arm("ERM", {"method": "erm", "epochs": 40, "hidden_channels": 8, "lr": 0.05})
    job = jobs_of(plan(arms=[arm], trials=0), data, "run")[0]
    model = gs.ERM(epochs=40, hidden_channels=8, lr=0.05).fit(data.train, data.val)
    found = attempt(job, data).selections["val"]
    assert found.train == pytest.approx(model.score(data.train[0]))
    assert found.train_without_spurious == pytest.approx(without_spurious(model, data))
    assert found.train > found.train_without_spurious  # it had learned to lean on them
    unknown = attempt(job, replace(data, facts={})).selections["val"]
    assert (unknown.train, unknown.train_without_spurious) == (found.train, None)


def test_a_run_keeps_about_twenty_points_of_its_history(data: ShiftDataset) -> None:
    for epochs, points in ((4, 4), (30, 21)):
        settings = {"method": "eerm", "explorer": "random", "views": 2, "edits_per_node": 1, "hidden_channels": 4}
        arm = Arm("EERM", {**settings, "epochs": epochs}, {"lr": [0.01]})
        study = plan(arms=[arm], trials=1)
        assert attempt(jobs_of(study, data, "trial")[0], data).curve is None
        curve = attempt(jobs_of(plan(arms=[replace(arm, space=None)], trials=0), data, "run")[0], data).curve
        history = recorded_estimator({**settings, "epochs": epochs}).fit(data.train, data.val).history_
        by_epoch = {row["epoch"]: row for row in history}
        assert set(curve) == {"epoch", "risk", "variance"}
        assert len(curve["epoch"]) == points
        assert (curve["epoch"][0], curve["epoch"][-1]) == (history[0]["epoch"], history[-1]["epoch"])
        assert curve["epoch"] == sorted(set(curve["epoch"]))
        for name in ("risk", "variance"):
            assert curve[name] == pytest.approx([by_epoch[epoch][name] for epoch in curve["epoch"]], rel=1e-3)


def test_one_training_gives_each_rule_what_its_own_would(data: ShiftDataset) -> None:
    arm = Arm("ERM", {"method": "erm", "epochs": 12, "hidden_channels": 4, "lr": 0.1})
    both = attempt(jobs_of(plan(arms=[arm], selections=["val", "oracle"], trials=0), data, "run")[0], data)
    for rule in ("val", "oracle"):
        alone = attempt(jobs_of(plan(arms=[arm], selections=[rule], trials=0), data, "run")[0], data)
        assert both.selections[rule] == alone.selections[rule]


def test_a_failure_is_recorded_with_its_reason(data: ShiftDataset) -> None:
    arm = Arm("wild", {"method": "erm", "lr": 1e6, "epochs": 60, "hidden_channels": 4})
    record = attempt(jobs_of(plan(arms=[arm], trials=0), data, "run")[0], data)
    assert record.status == "failed"
    assert "training was stopped" in record.reason
    assert (record.selections, record.seconds) == ({}, None)


def test_reasons_are_one_line_without_paths() -> None:
    def caught(error: Exception) -> Exception:
        try:
            raise error
        except Exception as found:
            return found

    assert reason_of(GraphshiftError("plain words")) == "plain words"
    assert reason_of(caught(KeyError("x"))).startswith("KeyError: 'x' (test_job_runner.py, line ")
    assert reason_of(caught(RuntimeError("a\nb"))).startswith("RuntimeError: a b (test_job_runner.py")
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")):
        assert reason_of(caught(error)).startswith("this does not fit into memory")
    assert "/" not in reason_of(caught(ValueError("x")))


def test_a_score_that_is_no_number_is_a_failure(data: ShiftDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    real = gs.Estimator.score
    broken = lambda self, e, adapt=None: float("nan") if e.name == "T2" else real(self, e)  # noqa: E731
    monkeypatch.setattr(gs.Estimator, "score", broken)
    record = attempt(jobs_of(plan(trials=0), data, "run")[0], data)
    assert record.reason == "environment 'T2': the score is nan; the metric is not defined there."


def test_trees_predict_a_graph_once_however_often_it_is_scored(
    data: ShiftDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone and as members of a blend; the record is the same."""
    data = replace(data, facts={})  # else training is also scored without the spurious columns, another graph
    asked: list[str] = []
    real = gs.Forest.predict_plain

    def watched(self: gs.Forest, environment: gs.Environment) -> torch.Tensor:
        asked.append(environment.name)
        return real(self, environment)

    members = [{"method": "forest", "trees": 4}, {"method": "logistic"}]
    arms = [Arm("forest", {"method": "forest", "trees": 4}), Arm("blend", {"method": "blend", "members": members})]
    jobs = jobs_of(plan(arms=arms, trials=0, seeds=[0], adapt=["prior"], resample=True), data, "run")
    plain = [attempt(job, data).selections for job in jobs]
    monkeypatch.setattr(gs.Forest, "predict_plain", watched)
    for job, expected in zip(jobs, plain, strict=True):
        asked.clear()
        assert attempt(job, data).selections == expected
        assert sorted(asked) == sorted(e.name for role in data.roles.values() for e in role)

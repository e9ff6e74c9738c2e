"""Arms without a GNN in a study: tuned, run, compared with ERM, beside every rule and variant."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.studies import Arm, Plan, Study, crossed_arms, paper_space, run_study
from graphshift.studies.job_runner import attempt
from graphshift.studies.jobs import Schedule
from graphshift.studies.resolved import load_data, resolve
from tiny_studies import ERM, OPTIONS, guarded

LOGISTIC = Arm("Logistic regression", {"method": "logistic"}, {"c": [0.1, 1.0], "columns": ["plain", "all"]})
FOREST = Arm("Random forest", {"method": "forest", "trees": 5}, {"min_samples_leaf": [1, 3]})


@pytest.fixture(scope="module")
def study() -> Study:
    arms = [LOGISTIC, ERM, FOREST]
    how: dict[str, Any] = {"selections": ("val", "explored", "id_val"), "adapt": ("norm", "prior"), "ensemble": 2}
    plan = Plan("planted", arms, [0, 1], OPTIONS, trials=4, in_domain=True, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.GraphshiftWarning)  # columns of edges have no score by `explored`
        return run_study(plan, workers=0, threads=1)


def test_all_of_it_runs(study: Study) -> None:
    assert study.summary.failed == []
    records = [record for record in study.records if record.method != "erm"]
    assert {(record.backbone, record.explorer) for record in records} == {(None, None)}
    assert all("lr" not in record.settings for record in records)
    assert {record.seconds_per_epoch for record in records} == {None}
    assert list(study.summary.limits) == ["gcn"]  # ERM's alone


def test_they_are_compared_with_erm(study: Study) -> None:
    for arm in study.summary.arms:
        if not arm.is_variant:
            assert arm.baseline == (None if arm.arm == "ERM" else "ERM")
            assert (arm.difference.mean_test is None) == (arm.arm == "ERM")


def test_columns_without_a_score_are_not_chosen(study: Study) -> None:
    """`explored` follows gradients to edges: of columns that are made of edges it has none."""
    chosen = {a.selection: a.chosen for a in study.summary.arms if a.arm == "Logistic regression"}
    assert (chosen["explored"] or {})["columns"] == "plain"
    runs = [record for record in study.records if record.kind == "run" and record.arm == "Random forest"]
    for record in runs:
        for rule in ("val", "explored"):
            if rule in record.selections:
                assert record.selections[rule].score == record.selections[rule].adversarial_val  # it uses no edge


def test_the_norm_is_left_out_and_the_prior_is_not(study: Study) -> None:
    ways = {arm.adapt for arm in study.summary.arms if arm.method == "forest"}
    assert ways == {None, "prior"}
    members = {arm.ensemble for arm in study.summary.arms if arm.method == "forest"}
    assert members == {1, 2}


def test_tuning_never_touches_the_tests() -> None:
    data = load_data("planted", OPTIONS, None)
    plan = Plan("planted", [FOREST, LOGISTIC], [0], OPTIONS, trials=2, selections=("id_val",))
    trials = [job for job in Schedule(resolve(plan, data)).jobs({}) if job.kind == "trial"]
    assert len(trials) == 4
    for job in trials:
        assert attempt(job, guarded(data)).reason is None


def test_every_method_makes_an_arm() -> None:
    methods = ["erm", "forest", "logistic", "boosting", "majority", "label-propagation", "correct-smooth"]
    arms = crossed_arms(methods, None, [])
    assert sorted(arm.settings["method"] for arm in arms) == sorted(methods)
    spaces = {arm.settings["method"]: arm.space or {} for arm in arms}
    assert set(spaces["forest"]) == {"columns", "min_samples_leaf", "max_features"}
    assert spaces["majority"] == {}
    assert "c" not in paper_space({"method": "logistic", "c": 1.0})


def test_what_cannot_learn_the_task_is_refused_before_anything_is_run() -> None:
    made = load_data("planted", OPTIONS, None)

    def valued(environment: gs.Environment) -> gs.Environment:
        one = environment.data
        one.y = one.y.float()  # type: ignore[union-attr]
        return gs.Environment(environment.name, one, Task("regression", 0))

    values = ShiftDataset("planted", *([valued(e) for e in role] for role in (made.train, made.val, made.tests)))
    plan = Plan("planted", [Arm("C&S", {"method": "correct-smooth"})], [0], OPTIONS)
    with pytest.raises(GraphshiftError, match="arm 'C&S': method correct-smooth predicts classes"):
        resolve(plan, values)

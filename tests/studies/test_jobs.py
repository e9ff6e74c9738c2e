"""Jobs: which there are, when they can be run, and which trainings serve several rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.studies import Arm, Plan
from graphshift.studies.job_runner import failed, record_of
from graphshift.studies.jobs import Job, Schedule
from graphshift.studies.records import Record, Selected
from graphshift.studies.resolved import check_data_seeds, load_data, resolve
from tiny_studies import ERM, OPTIONS, RANDOM, TINY, plan


def schedule_of(study: Plan) -> Schedule:
    return Schedule(resolve(study, load_data(study.dataset, study.options, study.draws[0][0])))


def done(job: Job, **scores: float) -> Record:
    selections = {rule: Selected(epoch=1, score=scores.get(rule, 0.5), val=0.5, tests={}) for rule in job.rules}
    return record_of(job, status="ok", metric="accuracy", selections=selections)


def kinds(jobs: list[Job]) -> dict[str, int]:
    return {kind: sum(job.kind == kind for job in jobs) for kind in ("trial", "run", "limit")}


def test_runs_of_an_arm_are_known_when_its_trials_are_done() -> None:
    schedule = schedule_of(plan(in_domain=True))
    records: dict[str, Record] = {}
    assert kinds(schedule.jobs(records)) == {"trial": 6, "run": 0, "limit": 0}
    turns = [("ERM", 0), ("EERM random", 0), ("ERM", 1), ("EERM random", 1), ("ERM", 2), ("EERM random", 2)]
    assert [(job.arm, job.trial) for job in schedule.jobs(records)] == turns
    assert schedule.expected(records) == [("run", "ERM")] * 2 + [("limit", "ERM")] * 2 + [("run", "EERM random")] * 2
    for job in schedule.trial_jobs[ERM.name]:
        records[job.id] = done(job)
    jobs = schedule.jobs(records)
    assert kinds(jobs) == {"trial": 6, "run": 2, "limit": 2}
    assert {job.arm for job in jobs if job.kind != "trial"} == {"ERM"}
    assert schedule.expected(records) == [("run", "EERM random")] * 2
    for job in schedule.trial_jobs[RANDOM.name]:
        records[job.id] = done(job)
    jobs = schedule.jobs(records)
    assert [(job.arm, job.settings["seed"]) for job in jobs if job.kind == "run"] == [
        ("ERM", 0),
        ("EERM random", 0),
        ("ERM", 1),
        ("EERM random", 1),
    ]
    assert len({job.id for job in jobs}) == len(jobs)


def test_runs_have_the_chosen_settings_on_top_of_the_arms_and_the_datasets() -> None:
    schedule = schedule_of(plan(arms=[ERM]))
    records = {job.id: done(job, val=0.9 if job.tuned["lr"] == 0.1 else 0.2) for job in schedule.trial_jobs[ERM.name]}
    run = next(job for job in schedule.jobs(records) if job.kind == "run")
    assert run.tuned == {"lr": 0.1}
    assert run.settings["lr"] == 0.1
    assert run.settings["epochs"] == TINY["epochs"]
    assert run.settings["weight_decay"] == 0.001


def test_rules_share_a_run_only_if_they_chose_the_same() -> None:
    schedule = schedule_of(plan(arms=[ERM], selections=("val", "id_val", "oracle"), seeds=[0]))
    trials = schedule.trial_jobs[ERM.name]
    assert [job.rules for job in trials] == [("val", "oracle"), ("id_val",)] * 3
    alike = {job.id: done(job) for job in trials}
    assert [job.rules for job in schedule.jobs(alike) if job.kind == "run"] == [("val", "oracle"), ("id_val",)]
    best = {"val": 0.1, "oracle": 0.01, "id_val": 0.01}
    apart = {job.id: done(job, **{rule: float(job.tuned["lr"] == lr) for rule, lr in best.items()}) for job in trials}
    runs = [job for job in schedule.jobs(apart) if job.kind == "run"]
    assert [(job.rules, job.tuned["lr"], job.settings["selection"]) for job in runs] == [
        (("val",), 0.1, "val"),
        (("oracle",), 0.01, "oracle"),
        (("id_val",), 0.01, "id_val"),
    ]


def test_an_arm_without_a_setting_cannot_be_run() -> None:
    schedule = schedule_of(plan(arms=[ERM]))
    records = {job.id: failed(job, "it broke") for job in schedule.trial_jobs[ERM.name]}
    runs = [job for job in schedule.jobs(records) if job.kind == "run"]
    assert len(runs) == 2
    assert all(job.blocked == "all trials of this arm failed, so there is no setting to run" for job in runs)


def test_limits_have_erms_settings_also_where_there_is_no_erm_arm() -> None:
    tuned = schedule_of(plan(arms=[ERM], in_domain=True))
    records = {job.id: done(job, val=float(job.tuned["lr"] == 0.1)) for job in tuned.trial_jobs[ERM.name]}
    assert {job.settings["lr"] for job in tuned.jobs(records) if job.kind == "limit"} == {0.1}
    alone = schedule_of(plan(arms=[Arm("EERM", {"views": 2, "hidden_channels": 3})], in_domain=True, trials=0))
    limits = [job for job in alone.jobs({}) if job.kind == "limit"]
    assert [job.environment for job in limits] == ["T1", "T2"]
    assert {(job.settings["method"], job.settings["hidden_channels"]) for job in limits} == {("erm", 3)}
    assert all(job.rules == ("id_val",) for job in limits)


def test_data_seeds_reach_every_job_and_tuning_stays_on_the_first() -> None:
    study = plan(arms=[ERM], data_seeds=[5, 6], in_domain=True)
    schedule = schedule_of(study)
    assert {job.data_seed for job in schedule.trial_jobs[ERM.name]} == {5}
    records = {job.id: done(job) for job in schedule.trial_jobs[ERM.name]}
    jobs = schedule.jobs(records)
    assert [(job.data_seed, job.settings["seed"]) for job in jobs if job.kind == "run"] == [
        (5, 0),
        (5, 1),
        (6, 0),
        (6, 1),
    ]
    assert [(job.data_seed, job.environment) for job in jobs if job.kind == "limit"] == [
        (5, "T1"),
        (5, "T2"),
        (6, "T1"),
        (6, "T2"),
    ]
    assert all(job.draws_data for job in jobs)
    fixed = schedule_of(plan(options=OPTIONS | {"seed": 3}))
    assert {(job.data_seed, job.draws_data) for job in fixed.jobs({})} == {(3, False)}


def test_the_baseline_is_the_erm_arm_of_the_same_backbone_or_the_one_named() -> None:
    arms = [
        Arm("x", {"backbone": "gcn"}),
        Arm("e1", {"method": "erm", "backbone": "mlp"}),
        Arm("e2", {"method": "erm", "backbone": "gcn"}),
        Arm("y", {"backbone": "sage"}),
        Arm("z", {}, baseline="x"),
    ]
    resolved = schedule_of(plan(arms=arms, trials=0)).plan
    found = [resolved.baseline(arm) for arm in arms]
    assert [None if arm is None else arm.name for arm in found] == ["e2", None, None, None, "x"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": [Arm("a", {"backbone": "resnet"})]}, "arm 'a': backbone is 'resnet'; expected one of .*gcn"),
        ({"arms": [Arm("a", {"explorer": "clever"})]}, "arm 'a': explorer is 'clever'; expected one of .*reinforce"),
        ({"arms": [Arm("a", {"method": "erm", "beta": 1.0})]}, "arm 'a': beta needs method eerm"),
        ({"arms": [Arm("a", {}, {"lr": [0.1, -1]})]}, "arm 'a': lr is -1; it should be greater than 0"),
        ({"arms": [Arm("a", {"backbone_options": {"heads": 2}})]}, "backbone 'gcn': backbone_options"),
    ],
)
def test_arms_are_checked_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        resolve(plan(**changes), load_data("planted", OPTIONS, None))


def test_data_seeds_need_a_dataset_that_is_made() -> None:
    with pytest.raises(GraphshiftError, match=r"dataset 'twitch' is not made from a seed; .*planted"):
        check_data_seeds(Plan("twitch", [ERM], [0], data_seeds=[0]))
    with pytest.raises(GraphshiftError, match="the dataset's option `seed` is given as well"):
        check_data_seeds(plan(options={"seed": 1}, data_seeds=[0]))


def test_rules_that_the_data_cannot_serve_are_skipped_with_a_reason() -> None:
    data = load_data("planted", OPTIONS, None)
    without_tests = resolve(plan(selections=["val", "oracle"], in_domain=True), replace(data, tests=()))
    assert (without_tests.selections, without_tests.tests, without_tests.in_domain) == (("val",), [], False)
    assert without_tests.skipped == {"rule oracle": "there are no test environments"}
    without_val = resolve(plan(selections=["val", "explored"]), replace(data, val=()))
    assert without_val.selections == ("id_val",)
    assert list(without_val.skipped) == ["rule val", "rule explored"]
    assert resolve(plan(selections=["id_val"]), replace(data, val=())).tests == ["T1", "T2"]

"""A study ends with the same numbers however it got there, and touches nothing that is not its own."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets import DATASETS, Entry
from graphshift.datasets.planted import planted
from graphshift.graph.graph import Graph
from graphshift.studies import Arm, Plan, Record, Study, Summary, job_runner, run_study
from graphshift.studies.folder import differences, plan_json, study_folder
from graphshift.studies.jobs import Schedule
from graphshift.studies.resolved import load_data, resolve
from graphshift.studies.running import Session
from graphshift.studies.statistics import Spread
from graphshift.studies.summary import Count, Differences
from graphshift.training.loop import Interrupted
from tiny_studies import ERM, OPTIONS, RANDOM, TINY, everything, plan, without_cost

WILD = Arm("wild", {"method": "erm", "lr": 1e6, "epochs": 60, "hidden_channels": 4})


def run(folder: Path | None = None, **changes: Any) -> Study:
    """The plan of the tests, in this process."""
    options = {name: changes.pop(name) for name in ("force", "retry_failed", "report") if name in changes}
    return run_study(plan(**changes), folder, workers=0, threads=1, **options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study]:
    folder = tmp_path_factory.mktemp("study") / "deep" / "study"
    return folder, run(folder, in_domain=True)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_everything_is_written(undisturbed: tuple[Path, Study]) -> None:
    folder, study = undisturbed
    assert {path.name for path in folder.iterdir()} == {"plan.json", "results.jsonl", "provenance.json", "summary.json"}
    assert Summary.from_json(json.loads((folder / "summary.json").read_text())) == study.summary
    assert [record["kind"] for record in lines(folder)] == ["trial"] * 6 + ["run"] * 4 + ["limit"] * 2
    assert {record["id"] for record in lines(folder)} == {record.id for record in study.records}
    written = json.loads((folder / "plan.json").read_text())
    assert written["arms"][0]["trials"][0] == {"trial": 0, "seed": 10_000, "settings": {"lr": 0.01}}
    assert written["arms"][1]["baseline"] == "ERM"
    assert written["arms"][1]["complete"]["views"] == 2
    assert [e["name"] for e in written["data"]["tests"]] == ["T1", "T2"]


def test_the_same_plan_again_does_nothing_twice(undisturbed: tuple[Path, Study]) -> None:
    folder, study = undisturbed
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    told: list[Any] = []
    again = run(folder, in_domain=True, report=told.append)
    assert told == []
    assert again.summary == study.summary
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("stop", [1, 5, 7, 11])
def test_a_study_that_was_stopped_goes_on_to_the_same_end(
    stop: int, undisturbed: tuple[Path, Study], tmp_path: Path
) -> None:
    told: list[Record] = []

    def interrupt(record: Record) -> None:
        told.append(record)
        if len(told) == stop:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=f"stopped with {stop} of 12 fits done; they are kept"):
        run(tmp_path / "s", in_domain=True, report=interrupt)
    assert len(lines(tmp_path / "s")) == stop
    with (tmp_path / "s" / "results.jsonl").open("ab") as file:
        file.write(b'{"id": "half a li')
    study = run(tmp_path / "s", in_domain=True, report=told.append)
    assert len(told) == 12
    assert len({record.id for record in told}) == 12
    assert without_cost(study.summary.to_json()) == without_cost(undisturbed[1].summary.to_json())
    assert len(study.summary.provenance) == 2


def test_sigterm_stops_a_study_as_ctrl_c_does(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="stopped with 1 of 12 fits done"):
        run(tmp_path / "s", in_domain=True, report=lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(lines(tmp_path / "s")) == 1


def test_the_callers_random_state_and_threads_are_left_alone() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run(arms=[ERM], trials=0, seeds=[0])
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.get_rng_state(), state)
    finally:
        torch.set_num_threads(threads)


def test_the_order_of_jobs_changes_nothing(
    undisturbed: tuple[Path, Study], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting = Session.waiting
    monkeypatch.setattr(Session, "waiting", lambda self, running=(): waiting(self, running)[::-1])
    study = run(tmp_path / "s", in_domain=True)
    assert lines(tmp_path / "s")[0]["arm"] == "EERM random"
    assert without_cost(study.summary.to_json()) == without_cost(undisturbed[1].summary.to_json())


def test_the_tests_labels_do_not_reach_tuning(undisturbed: tuple[Path, Study], monkeypatch: pytest.MonkeyPatch) -> None:
    def shuffled(nodes: int, *, environments: int, degree: float) -> ShiftDataset:
        data = planted(nodes, environments=environments, degree=degree)
        tests = [e.replace(y=e.y[torch.randperm(nodes)]) for e in data.tests if e.y is not None]
        return ShiftDataset(data.name, data.train, data.val, tests, data.defaults)

    monkeypatch.setitem(DATASETS._members, "planted", Entry("planted", shuffled))
    other = run(in_domain=True)

    def parts(study: Study, *kinds: str) -> list[Any]:
        drop = ("data_seed", "id")
        return [
            {k: v for k, v in without_cost(record.to_json()).items() if k not in drop}
            for record in study.records
            if record.kind in kinds
        ]

    assert parts(other, "trial") == parts(undisturbed[1], "trial")
    assert other.summary.tuning == undisturbed[1].summary.tuning
    assert [r["settings"] for r in parts(other, "run")] == [r["settings"] for r in parts(undisturbed[1], "run")]
    assert parts(other, "run") != parts(undisturbed[1], "run")  # while their scores do change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [0, 1, 2]}, r"seeds is \[0, 1\] there and \[0, 1, 2\] here"),
        ({"trials": 4}, "trials is 3 there and 4 here"),
        ({"selections": ["id_val"]}, r"selections is \['val'\] there and \['id_val'\] here"),
        ({"in_domain": False}, "in_domain is True there and False here"),
        ({"options": OPTIONS | {"nodes": 61}}, "options.nodes is 60 there and 61 here.*the data are not the same"),
        ({"arms": [ERM]}, r"its arms are \['ERM', 'EERM random'\] and here they are \['ERM'\]"),
        (
            {"arms": [Arm("ERM", {"method": "erm", **TINY, "epochs": 5}, ERM.space), RANDOM]},
            r"arm 'ERM' has another settings \(epochs is 4 there and 5 here\)",
        ),
    ],
)
def test_another_plan_is_refused_and_nothing_changed(
    changes: dict[str, Any], message: str, undisturbed: tuple[Path, Study]
) -> None:
    folder = undisturbed[0]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(GraphshiftError, match=f"holds another study: .*{message}.*--force"):
        run(folder, **{"in_domain": True} | changes)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_changed_contents_are_noticed_and_rounding_is_not() -> None:
    data = load_data("planted", OPTIONS, None)
    made = plan()

    def written(changed: ShiftDataset) -> dict[str, Any]:
        return plan_json(Schedule(resolve(made, changed)))

    def with_first(environment: Environment) -> ShiftDataset:
        return replace(data, train=[environment])

    before, (e,) = written(data), data.train
    assert isinstance(e.x, torch.Tensor)
    assert e.y is not None
    one = e.x.clone()
    one[3, 2] += 0.01
    swapped = e.y.clone()
    first, second = int((e.y == 0).nonzero()[0]), int((e.y == 1).nonzero()[0])
    swapped[[first, second]] = swapped[[second, first]]
    keys = torch.cat([e.graph.keys[1:], e.graph.keys[:1] + 1]).unique()
    rewired = Graph.from_keys(e.num_nodes, keys, undirected=False)
    for changed in (
        e.replace(x=one),
        e.replace(x=e.x.flip(1)),
        e.replace(x=-e.x),
        e.replace(y=swapped),
        e.replace(graph=rewired),
    ):
        assert differences(before, written(with_first(changed))) == [
            "the data are not the same (plan.json, field `data`)"
        ]
    assert differences(before, written(with_first(e.replace(x=e.x * (1 + 1e-7))))) == []
    old = json.loads(json.dumps(before))
    for role in ("train", "val", "tests"):
        for shape in old["data"][role]:
            del shape["sums"]  # as earlier versions wrote it
    assert differences(old, before) == []


def test_force_replaces_a_study_and_only_that(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, arms=[ERM], trials=0, seeds=[0])
    (folder / "mine.txt").write_text("keep")
    (folder / "table.txt").write_text("old")
    study = run(folder, arms=[ERM], trials=0, seeds=[4, 5], force=True)
    assert [record["seed"] for record in lines(folder)] == [4, 5]
    assert (folder / "mine.txt").read_text() == "keep"
    assert not (folder / "table.txt").exists()
    assert len(study.summary.provenance) == 1


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(GraphshiftError, match="is not empty and holds no study; nothing was changed"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_kill_before_the_plan_was_written_leaves_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".plan.json.123.tmp").write_text("{")
    run(tmp_path, arms=[ERM], trials=0, seeds=[0])
    assert not (tmp_path / ".plan.json.123.tmp").exists()


def test_two_studies_keep_out_of_each_others_folder(tmp_path: Path) -> None:
    with study_folder(tmp_path / "s").locked(), pytest.raises(GraphshiftError, match="is writing there"):
        run(tmp_path / "s")


def test_a_plan_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match="backbone is 'resnet'"):
        run(tmp_path / "s", arms=[Arm("a", {"backbone": "resnet"})])
    assert not (tmp_path / "s").exists()


def test_failed_fits_are_recorded_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    tuned = Arm("wild, tuned", {"method": "erm", "epochs": 60, "hidden_channels": 4}, {"lr": [1e6, 9e5]})
    study = run(tmp_path / "s", arms=[ERM, WILD, tuned], trials=2, seeds=[0, 1])
    states = {(r.kind, r.arm): r.status for r in study.records}
    assert states == {
        ("trial", "ERM"): "ok",
        ("run", "ERM"): "ok",
        ("run", "wild"): "failed",
        ("trial", "wild, tuned"): "failed",
        ("run", "wild, tuned"): "failed",
    }
    reasons = {r.arm: r.reason for r in study.records if r.kind == "run"}
    assert "training was stopped" in reasons["wild"]
    assert reasons["wild, tuned"] == "all trials of this arm failed, so there is no setting to run"
    entries = {arm.arm: arm for arm in study.summary.arms}
    assert [entries[name].failed for name in ("ERM", "wild", "wild, tuned")] == [0, 2, 2]
    assert entries["wild"].mean_test == Spread(None, None)
    assert entries["wild, tuned"].chosen is None
    assert entries["wild"].difference == Differences()
    assert len(study.summary.failed) == 6
    assert study.summary.counts["run"] == Count(done=2, failed=4)

    told: list[Record] = []
    again = {"arms": [ERM, WILD, tuned], "trials": 2, "seeds": [0, 1], "report": told.append}
    run(tmp_path / "s", **again)
    assert told == []  # failures are kept unless asked
    run(tmp_path / "s", retry_failed=True, **again)
    assert sorted({record.arm for record in told}) == ["wild", "wild, tuned"]
    assert len(told) == 6


def test_a_retry_that_works_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = job_runner.attempt
    with monkeypatch.context() as patch:
        patch.setattr(
            job_runner,
            "attempt",
            lambda job, *a: job_runner.failed(job, "no memory") if job.trial == 1 else real(job, *a),
        )
        first = run(tmp_path / "s", arms=[ERM])
    assert first.summary.counts["trial"] == Count(done=2, failed=1)
    second = run(tmp_path / "s", arms=[ERM], retry_failed=True)
    assert second.summary.failed == []
    assert without_cost(second.summary.to_json()) == without_cost(run(arms=[ERM]).summary.to_json())


def test_data_that_cannot_be_made_are_a_failure_with_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def moody(nodes: int, *, environments: int, degree: float, seed: int = 0) -> ShiftDataset:
        if seed == 1:
            raise GraphshiftError("no graph today")
        return planted(nodes, environments=environments, degree=degree, seed=seed)

    monkeypatch.setitem(DATASETS._members, "planted", Entry("planted", moody))
    study = run(arms=[ERM], trials=0, seeds=[0], data_seeds=[0, 1, 2])
    assert [(r.data_seed, r.status, r.reason) for r in study.records] == [
        (0, "ok", None),
        (1, "failed", "no graph today"),
        (2, "ok", None),
    ]


def test_a_summary_of_every_rule_agrees_with_its_records() -> None:
    study = everything()
    summary = study.summary
    assert [entry.rule for entry in summary.selections if not entry.allowed] == ["oracle"]
    assert len(summary.arms) == 6
    for entry in summary.arms:
        rows = [row for row in study.rows(entry.selection) if row.arm == entry.arm]
        assert entry.runs == len(rows) == len(study.plan.seeds)
        assert entry.mean_test.mean == pytest.approx(fmean(row.mean for row in rows))
        assert entry.environments["T2"].mean == pytest.approx(fmean(row.tests["T2"] for row in rows))
        assert all(row.record.tuned == entry.chosen for row in rows)
        settings = [t for t in summary.tuning if (t.arm, t.selection) == (entry.arm, entry.selection)]
        assert sum(t.trials for t in settings) == 3
        (chosen,) = [t for t in settings if t.chosen]
        assert chosen.score == entry.chosen_score == max(t.score for t in settings)
        assert (entry.difference.mean_test is None) == (entry.arm == "ERM")
    assert set(summary.majority) == {"T1", "T2"}
    assert set(summary.limits) == {"gcn"}
    texts = [finding.text for finding in summary.findings]
    assert len(texts) == 6
    assert sum("By oracle (not allowed: chosen on tests): " in text for text in texts) == 2


def test_impossible_numbers_of_workers_are_refused() -> None:
    for options in ({"workers": -1}, {"threads": 0}, {"workers": 10**9}, {"threads": 10**9}):
        with pytest.raises(GraphshiftError, match="expected 0 to 1024, and 1 to 1024"):
            run_study(plan(), **options)


def test_the_rule_target_shares_a_training_and_is_marked() -> None:
    """It takes the tests without their labels; what it looked at stands beside it."""
    data = gs.load("planted", nodes=60, environments=4)
    arm = Arm("ERM", {"method": "erm", "epochs": 3})
    study = run_study(Plan(data, [arm], [0], selections=("val", "target")), workers=0)
    (record,) = study.records
    assert record.ok
    assert set(record.selections) == {"val", "target"}
    alone = gs.ERM(epochs=3, selection="target").fit(data, target="tests")
    assert record.selections["target"].epoch == alone.best_epoch_
    assert {one.rule: one.note for one in study.summary.selections}["target"] == "looked at the unlabelled target"
    without = run_study(Plan(replace(data, tests=()), [arm], [0], selections=("val", "target")), workers=0)
    assert any(one.what == "rule target" for one in without.summary.skipped)

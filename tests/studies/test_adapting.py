"""Studies that also score with the unlabelled tests in use: rows of their own, marked."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators import beliefs, learning
from graphshift.report.study_tables import as_csv, as_text, main_tables
from graphshift.studies import Arm, run_study
from graphshift.studies.resolved import resolve
from tiny_studies import OPTIONS, TINY, plan


def test_runs_are_scored_with_the_unlabelled_tests_in_use_as_well() -> None:
    study = run_study(plan(trials=0, adapt=("norm", "prior", "norm+prior")), workers=0, threads=1)
    names = [arm.arm for arm in study.summary.arms]
    assert names[:4] == ["ERM", "ERM, + norm", "ERM, + prior", "ERM, + norm+prior"]
    assert len(names) == 8
    runs = [record for record in study.records if record.kind == "run"]
    for arm in study.summary.arms:
        own = [r for r in runs if r.arm == arm.arm.split(", +")[0]]
        found = [r.selections["val"] for r in own]
        scores = [f.tests if arm.adapt is None else f.adapted[arm.adapt].tests for f in found]
        assert arm.mean_test.mean == pytest.approx(fmean(fmean(s.values()) for s in scores))
        for name, found_there in arm.environments.items():
            assert found_there.mean == pytest.approx(fmean(s[name] for s in scores))
        vals = [f.val if arm.adapt is None else f.adapted[arm.adapt].val for f in found]
        assert arm.val.mean == pytest.approx(fmean(vals))
    adapted = study.summary.arms[1]
    assert (adapted.adapt, adapted.baseline) == ("norm", "ERM")
    assert [arm.baseline for arm in study.summary.arms[4:]] == names[:4]  # like is compared with like
    gain = fmean(r.mean for r in study.rows() if r.arm == names[5])
    gain -= fmean(r.mean for r in study.rows() if r.arm == names[1])
    assert study.summary.arms[5].difference.mean_test.mean == pytest.approx(gain)
    (table,) = main_tables(study.summary)
    assert [row[0] for row in table.rows] == names
    assert "+ norm, + prior, + norm+prior: the model looked at the unlabelled test graphs." in table.note
    refused = sum(arm.refused for arm in study.summary.arms)
    assert f"In {refused} of 16 cases the prior was left as it is, as unsafe." in table.note
    assert as_csv(study.summary).count("\n") == 9
    assert as_text(study.summary).count("+ norm+prior") >= 2


def test_a_backbone_without_means_has_no_such_row() -> None:
    arms = [Arm("MLP", {"method": "erm", "backbone": "mlp", **TINY}), Arm("GCN", {"method": "erm", **TINY})]
    study = run_study(plan(arms=arms, trials=0, adapt=("norm",)), workers=0, threads=1)
    assert [arm.arm for arm in study.summary.arms] == ["MLP", "GCN", "GCN, + norm"]


@pytest.mark.parametrize("rule", ["val", "id_val"])
def test_a_prior_is_calibrated_on_what_the_rule_may_see(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out training nodes for `id_val`, validation graphs for the others."""
    seen: list[tuple[str, int]] = []
    real = gs.Estimator.calibrate

    def watched(self: gs.Estimator, graphs: Any) -> None:
        seen.extend((e.name, e.counted.numel()) for e in graphs)
        real(self, graphs)

    monkeypatch.setattr(gs.Estimator, "calibrate", watched)
    run_study(plan(trials=0, seeds=[0], selections=(rule,), adapt=("prior",)), workers=0, threads=1)
    assert set(seen) == ({("train", 12)} if rule == "id_val" else {("val", 60)})


def test_a_fit_learns_what_its_scores_need_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prediction sets and rehearsals of other adaptations take many times as long as a small fit."""
    learned: list[str] = []

    def watched(name: str, real: Any) -> Any:
        return lambda *args, **kwargs: learned.append(name) or real(*args, **kwargs)

    monkeypatch.setattr("graphshift.estimators.base.rehearsed", watched("beliefs", beliefs.rehearsed))
    monkeypatch.setattr(learning.HeldOut, "of", watched("sets", learning.HeldOut.of))
    monkeypatch.setattr(gs.ERM, "recall", watched("source", gs.ERM.recall))
    arms = [Arm("MLP", {"method": "erm", "backbone": "mlp", **TINY}), Arm("blend", {"method": "blend"})]

    def scored(*ways: str) -> list[Any]:
        learned.clear()
        wanted = plan(arms=arms, trials=0, seeds=[0], selections=("val", "id_val"), adapt=ways)
        return [record.selections for record in run_study(wanted, workers=0, threads=1).records]

    few = scored("norm", "prior", "norm+prior")
    assert learned == []
    scored("prior", "beliefs")
    assert {"beliefs"} == {*learned}
    scored("centroids")
    assert {"source"} == {*learned}
    monkeypatch.setattr(gs.Estimator, "only_for", lambda self, _: self)
    assert scored("norm", "prior", "norm+prior") == few
    assert {*learned} == {"beliefs", "sets", "source"}


def test_a_prior_needs_classes_and_something_to_calibrate_on() -> None:
    data = gs.load("planted", **OPTIONS)
    task = gs.Task("regression", 0)
    parts = {role: [e.replace(task=task) for e in getattr(data, role)] for role in ("train", "val", "tests")}
    found = resolve(plan(adapt=("norm+prior", "norm")), replace(data, **parts))
    assert found.adapt == ("norm",)
    assert found.skipped == {"+ norm+prior": "a regression has no classes, so no class prior"}
    nothing = replace(data, val=())
    found = resolve(plan(adapt=("prior",), selections=("oracle",)), nothing)
    assert found.adapt == ()
    assert "needs validation environments to calibrate on" in found.skipped["+ prior"]
    assert resolve(plan(adapt=("norm",), selections=("oracle",)), nothing).skipped == {}
    assert resolve(plan(adapt=("prior",), selections=("id_val",)), nothing).skipped == {}


@pytest.mark.parametrize("adapt", [("mean",), ("norm", "norm")])
def test_other_ways_are_refused_before_anything_runs(adapt: tuple[str, ...]) -> None:
    with pytest.raises(GraphshiftError, match="adapt is"):
        plan(adapt=adapt)

"""Studies that also score deep ensembles: members of their own for every run, rows of their own."""

from __future__ import annotations

from statistics import fmean

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.report.study_tables import as_csv, main_tables, study_tables
from graphshift.studies import Arm, run_study
from graphshift.studies.plan import member_seeds
from tiny_studies import OPTIONS, TINY, plan


def test_runs_are_scored_as_ensembles_too() -> None:
    study = run_study(plan(trials=0, ensemble=2, adapt=("norm",)), workers=0, threads=1)
    names = [arm.arm for arm in study.summary.arms]
    assert names[:4] == ["ERM", "ERM, + norm", "ERM, × 2", "ERM, × 2, + norm"]
    assert [arm.ensemble for arm in study.summary.arms] == [1, 1, 2, 2] * 2
    against = [arm.baseline for arm in study.summary.arms]
    assert against == [None, "ERM", "ERM", "ERM", *names[:4]]  # like is compared with like
    (table,) = main_tables(study.summary)
    assert "× 2: the mean of 2 models that differ in their seed." in table.note
    assert [row[0] for row in study_tables(study.summary)[-1].rows] == ["ERM", "EERM random"]  # cost: of one model
    assert as_csv(study.summary).count("\n") == 9
    ensembles = [row for row in study.rows() if row.ensemble == 2]
    assert len(ensembles) == 8
    assert all(row.adversarial_val is None and row.best_epoch is None for row in ensembles)


def test_an_ensemble_of_a_study_is_that_of_the_library() -> None:
    study = run_study(plan(trials=0, seeds=[3], ensemble=2, adapt=("norm",)), workers=0, threads=1)
    data = gs.load("planted", **OPTIONS)
    members = [gs.ERM(**TINY, seed=seed).fit(data.train, data.val) for seed in member_seeds(3, 2)]
    rows = {row.arm: row for row in study.rows()}
    expected = gs.Ensemble(members)
    for name, model, adapt in (
        ("ERM", members[0], None),
        ("ERM, × 2", expected, None),
        ("ERM, × 2, + norm", expected, "norm"),
    ):
        assert rows[name].tests == {e.name: pytest.approx(model.score(e, adapt=adapt)) for e in data.tests}
        assert rows[name].val == pytest.approx(fmean(model.score(e, adapt=adapt) for e in data.val))


def test_no_two_runs_share_a_member_and_no_trial_is_one() -> None:
    seeds = [seed for run in range(2000) for seed in member_seeds(run, 10)]
    assert len(set(seeds)) == 20_000
    assert not set(seeds) & set(range(10_000, 12_000))


def test_every_rule_has_members_at_its_own_epochs() -> None:
    erm = Arm("ERM", {"method": "erm", **TINY})
    study = run_study(plan(arms=[erm], seeds=[0], trials=0, selections=("val", "oracle"), ensemble=2), workers=0)
    found = study.records[0].selections
    assert all(found[rule].ensemble.members == 2 for rule in ("val", "oracle"))
    alone = run_study(plan(arms=[erm], seeds=[0], trials=0, selections=("oracle",), ensemble=2), workers=0)
    assert found["oracle"].ensemble == alone.records[0].selections["oracle"].ensemble


def test_fewer_than_one_member_is_refused() -> None:
    with pytest.raises(GraphshiftError, match="ensemble is 0; expected 1"):
        plan(ensemble=0)

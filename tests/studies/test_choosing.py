"""The choice: by validation and left-out environments, with its uncertainty; never by the tests."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.studies import Arm, Plan, Study, run_study
from graphshift.studies.choosing import Candidate, _behind_error, _Scores, chosen, ranked
from graphshift.studies.job_runner import without_one
from graphshift.studies.records import Adapted, Selected
from graphshift.studies.resolved import resolve

TINY = {"epochs": 2, "hidden_channels": 4}
ARMS = [
    Arm("simple", {"method": "majority"}),
    Arm("ERM", {"method": "erm", **TINY}),
    Arm("EERM", {"method": "eerm", "explorer": "random", "views": 2, **TINY}),
]


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    made = gs.load("planted", nodes=60, environments=6, degree=4.0)
    return gs.ShiftDataset("mine", [*made.train, *made.tests[:2]], made.val, made.tests[2:])


@pytest.fixture(scope="module")
def study(data: gs.ShiftDataset) -> Study:
    scored: dict[str, Any] = {"adapt": ["norm"], "resample": True, "leave_out": 1}
    return run_study(Plan(data, ARMS, range(3), **scored), workers=0, threads=1)  # type: ignore[arg-type]


def with_scores(study: Study, val: dict[str, list[float]], left: dict[str, float], draws: list[float]) -> Study:
    """The study, had these been the scores; every draw of nodes differs from the score by one of ``draws``."""
    records = []
    for record in study.records:
        own = record.selections["val"]
        if record.kind == "left_out":
            score = left[record.arm]
            changed: dict[str, Any] = {"tests": {str(record.environment): score}}
            changed |= {"resampled": {"mean": [score + draw for draw in draws]}, "adapted": {}}
        else:
            score = val[record.arm][record.seed]
            changed = {"val": score, "resampled": {"val": [score + draw for draw in draws]}, "adapted": {}}
        records.append(replace(record, selections={"val": replace(own, **changed)}))
    return Study(study.plan, records, study.summary)


def test_every_training_environment_is_left_out_once_and_scored(study: Study, data: gs.ShiftDataset) -> None:
    left = [record for record in study.records if record.kind == "left_out"]
    names = [e.name for e in data.train]
    assert {(r.arm, r.environment) for r in left} == {(arm.name, name) for arm in ARMS for name in names}
    assert all(record.ok for record in left)
    one = next(r for r in left if r.arm == "ERM" and r.environment == names[1])
    settings = {n: v for n, v in one.settings.items() if n in gs.ERM().get_params()}
    model = gs.ERM(**settings).fit([e for e in data.train if e.name != names[1]], data.val)
    (out,) = [e for e in data.train if e.name == names[1]]
    assert one.selections["val"].tests == {names[1]: model.score(out)}
    assert study.summary.counts["left_out"].done == 9


def test_validation_trains_where_the_only_training_environment_is_left_out(data: gs.ShiftDataset) -> None:
    one = gs.ShiftDataset("one", data.train[:1], data.val, data.tests)
    whole = Plan(one, ARMS[1:2], range(1), resample=True, leave_out=1)
    study = run_study(whole, workers=0, threads=1)
    (left,) = [record for record in study.records if record.kind == "left_out"]
    assert left.ok, left.reason
    turned = without_one(one, data.train[0].name, seed=left.seed)
    assert [e.name for e in turned.tests] == [data.train[0].name]
    for kept, held, e in zip(turned.train, turned.val, data.val, strict=True):
        assert not (kept.mask & held.mask).any()
        assert torch.equal(kept.mask | held.mask, e.mask)
    settings = {n: v for n, v in left.settings.items() if n in gs.ERM().get_params()}
    model = gs.ERM(**settings).fit(turned.train, turned.val)
    assert left.selections["val"].tests == {data.train[0].name: model.score(data.train[0])}
    assert list(ranked(study)[0].places) == ["validation", f"{data.train[0].name} left out"]


def test_the_only_training_environment_stays_if_validation_cannot_train(data: gs.ShiftDataset) -> None:
    (train, *_), (val, *_) = data.train, data.val
    few = val.mask & (torch.arange(val.num_nodes) < 15)
    shared = val.replace(known_y=torch.full((val.num_nodes,), -1))
    lacking = val.replace(mask=val.mask & (val.y != 0))
    for other in (val.replace(mask=few), shared, lacking, val):
        both = gs.ShiftDataset("x", [train], [other], [])
        found = resolve(Plan(both, ARMS[1:2], range(1), leave_out=1), both).left_out
        assert found == ((train.name,) if other is val else ())


def test_the_score_is_the_mean_of_validation_and_left_out_environments(study: Study, data: gs.ShiftDataset) -> None:
    found = {one.name: one for one in ranked(study)}
    erm = found["ERM"]
    assert list(erm.places) == ["validation", *(f"{e.name} left out" for e in data.train)]
    val = fmean(row.val for row in study.rows() if row.arm == "ERM")
    left = [
        r.selections["val"].tests[str(r.environment)] for r in study.records if (r.kind, r.arm) == ("left_out", "ERM")
    ]
    assert erm.score == pytest.approx(fmean([val, *left]))
    assert "ERM, + norm" in found
    assert "simple, + norm" not in found  # it has no batch normalisation


def test_the_best_is_chosen_with_few_seeds_too(study: Study) -> None:
    val = {"simple": [0.5, 0.5, 0.5], "ERM": [0.6, 0.7, 0.65], "EERM": [0.8, 0.75, 0.7]}
    made = with_scores(study, val, {"simple": 0.5, "ERM": 0.6, "EERM": 0.8}, [0.0, 0.001])
    found = ranked(made)
    assert [one.name for one in found] == ["EERM", "ERM", "simple"]
    assert chosen(found).name == "EERM"
    assert found[1].behind == pytest.approx((0.1 + 3 * 0.2) / 4)


def test_errors_are_of_nodes_and_seeds(study: Study) -> None:
    val = {"simple": [0.5, 0.5, 0.5], "ERM": [0.6, 0.7, 0.65], "EERM": [0.8, 0.75, 0.7]}
    draws = [-0.02, 0.0, 0.03, 0.01]
    made = with_scores(study, val, {"simple": 0.5, "ERM": 0.6, "EERM": 0.8}, draws)
    erm = next(one for one in ranked(made) if one.name == "ERM")
    over_seeds = stdev([0.6, 0.7, 0.65]) ** 2 * (1 / 3 + 3) / 16  # three runs on validation, one in each other place
    assert erm.error == pytest.approx((stdev(draws) ** 2 + over_seeds) ** 0.5)
    paired = stdev([-0.2, -0.05, -0.05]) ** 2 * (1 / 3 + 3) / 16  # the draws are the same for both: no difference
    between = (3 * stdev([0.1, 0.2, 0.2, 0.2]) ** 2 + 0.02**2) / 4 / 4  # four places, and two points that are expected
    assert erm.behind_error == pytest.approx((paired + between) ** 0.5)


def scores_of(score: float, adapt: str | None = None, **settings: Any) -> _Scores:
    return _Scores("any", adapt, 0, settings, {"validation": [score]}, {"validation": [[]]})


def test_one_place_says_nothing_of_others() -> None:
    """With one place two points are expected between environments, of what has no unit nothing is known."""
    one, other = (scores_of(score, method="logistic") for score in (0.7, 0.69))
    assert _behind_error(one, other, ["validation"], "accuracy") == pytest.approx(0.02)
    assert _behind_error(one, other, ["validation"], "mse") is None


def test_what_edges_say_is_expected_to_vary_most() -> None:
    table, mlp = {"method": "forest"}, {"method": "erm", "backbone": "mlp"}
    gcn, wider = {"method": "erm", "backbone": "gcn"}, {"method": "forest", "columns": "neighbours"}
    spread = {"method": "label-propagation"}

    def expected(one: dict[str, Any], other: dict[str, Any], adapt: str | None = None) -> float:
        found = _behind_error(scores_of(0.7, adapt, **one), scores_of(0.7, **other), ["validation"], "accuracy")
        assert found is not None
        return found

    assert expected(table, mlp) == pytest.approx(0.02)
    for edges in (gcn, wider, spread):
        assert expected(table, edges) == pytest.approx((0.02**2 + 0.1**2) ** 0.5)
        assert expected(gcn, edges) == pytest.approx(0.02)
    blend = {"method": "blend", "members": [table, {"method": "logistic"}, gcn]}
    assert expected(blend, gcn) == pytest.approx((0.02**2 + (0.1 * 2 / 3) ** 2) ** 0.5)
    assert expected(blend, table) == pytest.approx((0.02**2 + (0.1 / 3) ** 2) ** 0.5)
    assert expected(gcn, gcn, "norm") == pytest.approx((0.02**2 + 0.05**2) ** 0.5)


def candidate(name: str, rank: int, behind: float, error: float | None) -> Candidate:
    return Candidate(name, name, None, {"validation": 0.5 - behind}, 0.5 - behind, 0.01, behind, error, rank)


@pytest.mark.parametrize(
    ("behind", "error", "expected"),
    [
        (0.004, 0.005, "simple"),  # within one standard error
        (0.006, 0.005, "best"),
        (0.001, None, "best"),  # nothing is known of the error
        (0.0, None, "simple"),
    ],
)
def test_the_simpler_is_preferred_within_one_standard_error(behind: float, error: float | None, expected: str) -> None:
    found = [candidate("best", 5, 0.0, None), candidate("simple", 0, behind, error)]
    assert chosen(found).name == expected
    assert chosen([replace(found[0], edges=1.0), found[1]]).name == "best"  # a simple model is of another kind


def test_the_largest_class_is_chosen_if_nothing_is_better() -> None:
    best, second = candidate("best", 5, 0.0, None), candidate("logistic", 1, 0.015, 0.02)
    largest = replace(candidate("largest class", 0, 0.001, 0.02), constant=True)
    assert chosen([best, largest, second]).name == "logistic"
    assert chosen([best, largest]).name == "best"
    assert chosen([replace(largest, behind=0.0), replace(best, behind=0.001, behind_error=0.0)]).constant


def test_test_scores_choose_nothing(study: Study) -> None:
    before = ranked(study)
    records = []
    for i, record in enumerate(study.records):
        own = record.selections["val"]
        if record.kind == "run":
            tests = dict.fromkeys(own.tests, i % 7 / 7)
            adapted = {
                way: replace(one, tests=tests, resampled={"val": one.resampled["val"], "mean": [0.1, 0.9]})
                for way, one in own.adapted.items()
            }
            own = replace(
                own, tests=tests, adapted=adapted, resampled={"val": own.resampled["val"], "mean": [0.1, 0.9]}
            )
        records.append(replace(record, selections={"val": own}))
    assert ranked(Study(study.plan, records, study.summary)) == before


def test_a_place_that_some_candidate_lacks_counts_for_none(study: Study) -> None:
    lost = next(r for r in study.records if r.kind == "left_out" and r.arm == "EERM")
    kept = Study(study.plan, [r for r in study.records if r is not lost], study.summary)
    assert all(f"{lost.environment} left out" not in one.places for one in ranked(kept))
    assert all(len(one.places) == 3 for one in ranked(kept))


def test_an_adaptation_that_changed_nothing_is_no_candidate(study: Study) -> None:
    records = []
    for record in study.records:
        own: Selected = record.selections["val"]
        same = {"norm": Adapted(val=own.val, tests=own.tests, refused={}, resampled=own.resampled)}
        records.append(replace(record, selections={"val": replace(own, adapted=same)}))
    assert all(one.adapt is None for one in ranked(Study(study.plan, records, study.summary)))


def test_without_edges_edits_say_nothing() -> None:
    options = {"nodes": 60, "environments": 3, "degree": 4.0}
    arms = [*ARMS, Arm("flat", {"method": "erm", "backbone": "mlp", **TINY})]
    made = run_study(Plan("planted", arms, [0], options, selections=["val", "explored"]), workers=0, threads=1)
    assert {one.name for one in ranked(made, "adversarial_val")} == {"ERM", "EERM"}
    assert {one.name for one in ranked(made)} == {"simple", "ERM", "EERM", "flat"}

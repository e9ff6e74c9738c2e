"""Studies pair their arms by seed, and what they say of differences agrees with SciPy's paired t-test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import graphshift as gs
from graphshift.data.metrics import METRICS
from graphshift.studies import Arm, Difference, Plan, Record, Row, compare, rows_of, run_study, summarise
from tiny_studies import record, row

ARMS = (
    Arm("plain", {"method": "erm", "epochs": 2, "hidden_channels": 4}),
    Arm("flat", {"method": "erm", "backbone": "mlp", "epochs": 2, "hidden_channels": 4}),
    Arm("eerm", {"views": 2, "epochs": 2, "hidden_channels": 4}),
)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    plan = Plan("planted", ARMS, [0, 1], {"nodes": 60, "degree": 4.0}, data_seeds=[0, 1], crossed=False)
    return run_study(plan, workers=0, threads=1).rows()


def made(name: str, values: list[float], metric: str = "accuracy", **more: float) -> list[Row]:
    return [row(name, {"T1": value, **more}, seed=seed, metric=metric) for seed, value in enumerate(values)]


def test_every_arm_is_fitted_with_every_seed(rows: list[Row]) -> None:
    assert [(*r.seeds, r.arm) for r in rows] == [(s, s, a.name) for s in (0, 1) for a in ARMS]
    for run in rows:
        scores = list(run.tests.values())
        assert len(scores) == 8
        assert run.mean == pytest.approx(np.mean(scores))
        assert run.worst == min(scores)
        assert run.record.settings["epochs"] == 2
        assert (run.record.backbone == "mlp") == (run.arm == "flat")
        assert (run.record.variance is not None) == (run.arm == "eerm")


def test_a_data_seed_draws_the_data_and_a_seed_the_training(rows: list[Row]) -> None:
    data = gs.load("planted", nodes=60, degree=4.0, seed=1)
    model = gs.ERM(epochs=2, hidden_channels=4, seed=1).fit(data.train, data.val)
    (own,) = [r for r in rows if r.arm == "plain" and r.record.seed == 1]
    assert own.tests == model.score(data.tests)
    first, second = (r.tests for r in rows if r.arm == "plain")
    assert first != second


def test_a_summary_has_means_and_deviations_over_seeds(rows: list[Row]) -> None:
    lines = summarise(rows)
    assert [line.arm for line in lines] == ["plain", "flat", "eerm"]
    for line in lines:
        own = [r for r in rows if r.arm == line.arm]
        assert line.seeds == 2
        for key in ("val", "mean", "worst", "seconds_per_epoch"):
            values = [getattr(r.record if key == "seconds_per_epoch" else r, key) for r in own]
            assert getattr(line, key) == pytest.approx(np.mean(values))
            assert getattr(line, f"{key}_std") == pytest.approx(np.std(values, ddof=1))
    assert lines[0].variance is None
    assert lines[2].variance == pytest.approx(np.mean([r.record.variance for r in rows if r.arm == "eerm"]))
    assert summarise(rows[:1])[0].mean_std is None  # of one run nothing is known


@pytest.mark.parametrize("seed", range(6))
def test_differences_agree_with_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    ours, theirs = random.normal(0.6 + 0.02 * seed, 0.05, 4 + seed), random.normal(0.6, 0.05, 4 + seed)
    shuffled = made("b", list(theirs))[::-1]  # pairs are found by seed, not by place
    found = compare(made("a", list(ours)) + shuffled, "a", "b")
    expected = stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.mean == pytest.approx((ours - theirs).mean())
    assert found.seeds == 4 + seed
    assert found.decided == (expected.pvalue < 0.05)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.wins, found.losses, found.ties) == (int((ours > theirs).sum()), int((ours < theirs).sum()), 0)


def test_runs_on_the_same_data_are_averaged_before_they_are_tested() -> None:
    random = np.random.default_rng(1)
    gains = random.normal(0.05, 0.02, (4, 3)) + random.normal(0, 0.1, (4, 1))  # data seeds differ more than seeds
    rows = [
        row(arm, {"T1": 0.5 + (gains[d, s] if arm == "a" else 0)}, data_seed=d, seed=s)
        for arm in ("a", "b")
        for d in range(4)
        for s in range(3)
    ]
    found = compare(rows, "a", "b")
    expected = stats.ttest_1samp(gains.mean(axis=1), 0)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert (found.seeds, found.unit) == (4, "data seeds")
    assert found.wins + found.losses + found.ties == 12
    assert "4 data seeds" in found.sentence()
    once = compare([run for run in rows if run.record.seed == 0], "a", "b")  # one run for each: nothing to average
    assert (once.seeds, once.unit) == (4, "seeds")
    assert once.p == pytest.approx(stats.ttest_1samp(gains[:, 0], 0).pvalue)


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ([0.7], [0.6], "a is ahead of b by 10.0 points in the mean test score (1 seed: too few for an interval)."),
        ([0.7, 0.8], [0.6, 0.9], "a is behind b by 0.0 points in the mean test score (2 seeds: too few"),
        ([0.75, 0.5], [0.5, 0.25], "a is ahead of b by 25.0 points in the mean test score (2 seeds: too few for an"),
        ([0.75, 0.5, 1.0], [0.5, 0.25, 0.75], "(3 seeds: all differ alike, so there is no interval)."),
        ([0.7, 0.8, 0.9], [0.6, 0.7, 0.8], "(3 seeds: all differ alike, so there is no interval)."),  # but for rounding
        ([0.5, 0.25, 0.5], [0.5, 0.25, 0.5], "a and b have the same mean test score in every run (3 seeds)."),
    ],
)
def test_too_few_pairs_or_no_spread_have_no_interval(ours: list[float], theirs: list[float], said: str) -> None:
    """Two seeds with equal gains would give an interval of width zero and p = 0."""
    found = compare(made("a", ours) + made("b", theirs), "a", "b")
    assert (found.low, found.high, found.p, found.decided) == (None, None, None, False)
    assert said in found.sentence()


def test_intervals_cover_the_nodes_as_well() -> None:
    """Beside the spread over seeds the spread over resampled nodes: their variances add up."""
    random = np.random.default_rng(0)
    ours, theirs = random.normal(0.6, 0.02, 5), random.normal(0.5, 0.02, 5)
    draws = {name: random.normal(0.5, 0.1, (5, 40)) for name in ("a", "b")}
    rows = [
        replace(one, resampled={"mean": list(draws[one.arm][one.record.seed])})
        for one in made("a", list(ours)) + made("b", list(theirs))
    ]
    found, plain = compare(rows, "a", "b"), compare(made("a", list(ours)) + made("b", list(theirs)), "a", "b")
    over_nodes = np.std(draws["a"].mean(axis=0) - draws["b"].mean(axis=0), ddof=1)
    error = np.hypot(np.std(ours - theirs, ddof=1) / 5**0.5, over_nodes)
    assert found.nodes_error == pytest.approx(over_nodes)
    assert found.high is not None
    assert found.high - found.mean == pytest.approx(stats.t.ppf(0.975, 4) * error)
    assert plain.nodes_error is None
    assert plain.high is not None
    assert found.high > plain.high
    assert compare(rows, "a", "b", "worst").nodes_error is None  # nothing was drawn for it


def test_scores_that_are_not_shares_keep_their_size() -> None:
    mse = METRICS["mse"]
    sentence = Difference("a", "b", "mean", 0.0123, 0.01, 0.0146, 3).sentence(mse.scale, mse.unit)
    assert sentence == "a is ahead of b by 0.0123 in the mean test score (95 % interval +0.0100 to +0.0146, 3 seeds)."


def test_only_seeds_that_both_have_are_compared() -> None:
    records = made("a", [0.5, 0.6, 0.9]) + made("b", [0.4, 0.4])
    found = compare(records, "a", "b")
    assert found.seeds == 2
    assert found.mean == pytest.approx(0.15)


def test_where_less_is_better_the_smaller_score_is_ahead() -> None:
    records = made("a", [0.2, 0.3, 0.25], metric="mse") + made("b", [0.5, 0.6, 0.55], metric="mse")
    found = compare(records, "a", "b")
    assert found.mean == pytest.approx(0.3)
    assert "a is ahead of b" in found.sentence()


def test_the_worst_score_can_be_compared_too() -> None:
    records = made("a", [0.5, 0.7], other=0.9) + made("b", [0.4, 0.4], other=0.1)
    assert compare(records, "a", "b", "worst").mean == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("difference", "sentence"),
    [
        (
            Difference("EERM", "ERM", "mean", 0.0512, 0.011, 0.0914, 5),
            "EERM is ahead of ERM by 5.1 points in the mean test score (95 % interval +1.1 to +9.1, 5 seeds).",
        ),
        (
            Difference("EERM", "ERM", "worst", -0.0512, -0.0914, -0.011, 7),
            "EERM is behind ERM by 5.1 points in the worst test score (95 % interval -9.1 to -1.1, 7 seeds).",
        ),
        (
            Difference("EERM", "ERM", "mean", 0.02, -0.01, 0.05, 5),
            "EERM and ERM do not differ significantly in the mean test score (95 % interval -1.0 to +5.0, 5 seeds).",
        ),
        (
            Difference("A", "B", "mean", 0.0, 0.0, 0.0, 2),
            "A and B do not differ significantly in the mean test score (95 % interval +0.0 to +0.0, 2 seeds).",
        ),
    ],
    ids=["ahead", "behind", "undecided", "equal"],
)
def test_the_sentence_says_who_is_ahead_and_by_how_much(difference: Difference, sentence: str) -> None:
    assert difference.sentence() == sentence


def test_the_worst_of_a_metric_of_which_less_is_better_is_the_largest() -> None:
    selected = {"tests": {"c": 2.0, "d": 7.0, "e": 3.0}}
    assert rows_of([record(metric="mse", selected=selected)], "val")[0].worst == 7.0
    assert rows_of([record(selected=selected)], "val")[0].worst == 2.0
    for change in ({"kind": "trial"}, {"status": "failed"}):
        assert rows_of([record(selected=selected, **change)], "val") == []
    assert rows_of([record(selected=selected)], "oracle") == []


def test_rows_have_what_records_of_earlier_versions_lack() -> None:
    old = record().to_json()
    del old["curve"]
    (found,) = rows_of([Record.from_json(old)], "val")
    assert (found.train, found.train_without_spurious, found.curve, found.adversarial_val) == (None, None, None, None)
    old["selections"]["val"] |= {"train": 0.5, "train_without_spurious": 0.25, "misled": 0.125}
    (found,) = rows_of([Record.from_json(old | {"curve": {"epoch": [1.0]}})], "val")
    assert (found.train, found.train_without_spurious, found.curve) == (0.5, 0.25, {"epoch": [1.0]})
    assert found.adversarial_val == 0.125

"""Studies pair their arms by seed, and what they say of differences agrees with SciPy's paired t-test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import graphshift as gs
from graphshift.study import Arm, Difference, compare, run_study, summarise

ARMS = (
    Arm("plain", {"method": "erm"}),
    Arm("flat", {"method": "erm", "backbone": "mlp"}),
    Arm("eerm", {"explorers": 2}),
)


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return run_study(
        "planted", ARMS, [0, 1], options={"nodes": 60, "degree": 4.0}, common={"epochs": 2, "hidden_channels": 4}
    )


def made(name: str, values: list[float], key: str = "mean", metric: str = "accuracy") -> list[dict[str, Any]]:
    return [{"arm": name, "seed": seed, "metric": metric, key: value} for seed, value in enumerate(values)]


def test_every_arm_is_fitted_with_every_seed(records: list[dict[str, Any]]) -> None:
    assert [(r["seed"], r["arm"]) for r in records] == [(s, a.name) for s in (0, 1) for a in ARMS]
    for record in records:
        scores = list(record["tests"].values())
        assert len(scores) == 8
        assert record["mean"] == pytest.approx(np.mean(scores))
        assert record["worst"] == min(scores)
        assert record["settings"]["epochs"] == 2
        assert (record["backbone"] == "mlp") == (record["arm"] == "flat")
        assert (record["variance"] is not None) == (record["arm"] == "eerm")


def test_a_seed_draws_the_data_and_the_training(records: list[dict[str, Any]]) -> None:
    data = gs.load("planted", nodes=60, degree=4.0, seed=1)
    model = gs.ERM(epochs=2, hidden_channels=4, seed=1).fit(data.train, data.val)
    (own,) = [r for r in records if r["arm"] == "plain" and r["seed"] == 1]
    assert own["tests"] == model.score(data.tests)
    first, second = (r["tests"] for r in records if r["arm"] == "plain")
    assert first != second


def test_each_record_is_reported() -> None:
    told: list[str] = []
    run_study(
        "planted", ARMS[:2], [5], options={"nodes": 60}, common={"epochs": 1, "hidden_channels": 2},
        report=lambda record: told.append(record["arm"]),
    )  # fmt: skip
    assert told == ["plain", "flat"]


def test_a_summary_has_means_and_deviations_over_seeds(records: list[dict[str, Any]]) -> None:
    rows = summarise(records)
    assert [row["arm"] for row in rows] == ["plain", "flat", "eerm"]
    for row in rows:
        own = [r for r in records if r["arm"] == row["arm"]]
        assert row["seeds"] == 2
        for key in ("val", "mean", "worst", "seconds_per_epoch"):
            values = [r[key] for r in own]
            assert row[key] == pytest.approx(np.mean(values))
            assert row[f"{key}_std"] == pytest.approx(np.std(values, ddof=1))
    assert rows[0]["variance"] is None
    assert rows[2]["variance"] == pytest.approx(np.mean([r["variance"] for r in records if r["arm"] == "eerm"]))
    assert summarise(records[:1])[0]["mean_std"] == 0


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
    records = made("a", [0.5, 0.7], "worst") + made("b", [0.4, 0.4], "worst")
    assert compare(records, "a", "b", "worst").mean == pytest.approx(0.2)


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
            "EERM and ERM do not differ beyond chance in the mean test score (95 % interval -1.0 to +5.0, 5 seeds).",
        ),
        (
            Difference("A", "B", "mean", 0.0, 0.0, 0.0, 2),
            "A and B do not differ beyond chance in the mean test score (95 % interval +0.0 to +0.0, 2 seeds).",
        ),
    ],
    ids=["ahead", "behind", "undecided", "equal"],
)
def test_the_sentence_says_who_is_ahead_and_by_how_much(difference: Difference, sentence: str) -> None:
    assert difference.sentence() == sentence


def test_the_worst_of_a_metric_of_which_less_is_better_is_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gs.load("planted", nodes=60).train[0].data
    graph.y = graph.x[:, 0]
    environments = [gs.Environment(name, graph) for name in "abc"]
    environments.append(gs.Environment("d", graph).replace(y=graph.y + 100))
    data = gs.ShiftDataset("r", environments[:1], environments[1:2], environments[2:])
    monkeypatch.setattr("graphshift.study.load", lambda *_, **__: data)
    (record,) = run_study("r", ARMS[:1], [0], common={"epochs": 1, "hidden_channels": 2})
    assert record["worst"] == record["tests"]["d"] > record["tests"]["c"]

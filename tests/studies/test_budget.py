"""A budget is used: as many candidates as fit, the dearest left out, then seeds and trials; nothing is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.studies import Arm, Plan, budget
from graphshift.studies.budget import PLANNED, Cost, Size, fitted_to, seconds_of, time_left, timed
from graphshift.studies.resolved import resolve
from tiny_studies import OPTIONS

COSTS = {"simple": Cost(1.0), "erm": Cost(2.0, 0.1, 1.0), "eerm": Cost(4.0, 0.4, 1.0), "dear": Cost(0.0, 20.0)}


def spent(names: list[str], size: Size, environments: int = 0) -> float:
    """By hand: what all fits of these arms take."""
    runs = size.seeds + size.leave_out * environments
    return sum(
        runs * (COSTS[n].fixed + COSTS[n].epoch * size.epochs)
        + size.trials * (COSTS[n].trial + COSTS[n].epoch * size.epochs)
        for n in names
    )


@pytest.mark.parametrize("budget", [60, 200, 500, 1_000, 2_000, 3_500])
def test_most_of_the_time_is_planned_and_never_more(budget: float) -> None:
    found = fitted_to(COSTS, ["simple", "erm"], 100, budget)
    assert found.seconds == pytest.approx(spent(list(found.arms), found.size))
    assert found.seconds <= budget
    dearest = max(COSTS[name].fixed + COSTS[name].epoch * 100 for name in found.arms)
    more = 2 * sum(COSTS[name].once(100) for name in found.arms)  # the next step: one seed, or two trials, of every arm
    assert found.seconds + max(more, dearest) > min(budget, 3_500) or found.size.seeds == 10


def test_the_dearest_candidates_are_left_out_first_and_it_is_said() -> None:
    found = fitted_to(COSTS, ["simple", "erm"], 100, 200)
    assert list(found.arms) == ["simple", "erm", "eerm"]
    assert list(found.dropped) == ["dear"]
    assert "more than is left of the budget" in found.dropped["dear"]
    assert list(fitted_to(COSTS, ["simple", "erm"], 100, 50).dropped) == ["eerm", "dear"]
    assert not fitted_to(COSTS, ["simple", "erm"], 100, 1e6).dropped


def test_what_can_be_answered_smaller_is_never_refused() -> None:
    short = fitted_to(COSTS, ["simple", "erm"], 100, 9.0)
    assert list(short.arms) == ["simple", "erm"]
    assert (short.size.seeds, short.size.trials) == (1, 0)
    assert short.size.epochs == 50
    hopeless = fitted_to(COSTS, ["simple", "erm"], 100, 0.0)  # done all the same, as small as it can be
    assert list(hopeless.arms) == ["simple", "erm"]
    assert hopeless.size == Size(1, 0, 12)
    assert hopeless.seconds > 0


def test_a_needed_fit_that_would_take_the_whole_budget_is_left_out_and_said() -> None:
    costs = COSTS | {"forest": Cost(300.0)}
    found = fitted_to(costs, ["simple", "erm", "forest"], 100, 200)
    assert "forest" not in found.arms
    assert found.dropped["forest"] == "one fit takes about 5 min"
    assert "forest" in fitted_to(costs, ["simple", "erm", "forest"], 100, 700).arms
    # Timing may have used most of the budget: what is needed is judged by all of it.
    assert "forest" in fitted_to(costs, ["simple", "erm", "forest"], 100, 200, budget=700).arms


def test_a_slow_fit_is_guessed_from_some_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forest on all nodes might take longer than the whole budget, and could not be stopped."""
    data = gs.load("planted", **OPTIONS)
    plan = resolve(Plan("planted", [Arm("forest", {"method": "forest", "trees": 3})], [0], OPTIONS), data)
    fitted: list[int] = []
    fit = gs.Forest.fit

    def counting(self: gs.Forest, train: Any, *rest: Any, **how: Any) -> Any:
        fitted.append(sum(int(e.mask.sum()) for e in train))
        return fit(self, train, *rest, **how)

    monkeypatch.setattr(gs.Forest, "fit", counting)
    monkeypatch.setattr(budget, "_FEW", 10)
    costs, _ = timed(plan, data, ["forest"], 1e6)
    assert fitted == [60, 10, 60]  # to load what fits share; to guess; in full, as there is time
    fitted.clear()
    guessed, _ = timed(plan, data, ["forest"], 1e-6)
    assert fitted == [60, 10]
    assert guessed["forest"].fixed > 0
    assert list(costs) == list(guessed) == ["forest"]


@pytest.mark.parametrize(
    ("budget_", "expected"),
    [
        (1e4, {}),
        (4e3, {"trees": 120}),  # it takes 200 s, and may take 120
        (800.0, {"trees": 100, "rows_per_tree": 1440}),  # 24 s, of the 100 s that so many trees take
        (100.0, {"trees": 100, "rows_per_tree": 1000}),  # never fewer
    ],
)
def test_a_forest_is_made_smaller_instead_of_left_out(budget_: float, expected: dict[str, int]) -> None:
    data = gs.load("planted", nodes=6_000, environments=3, degree=4.0)
    assert sum(int(e.mask.sum()) for e in data.train) == 6_000
    cost, settings = Cost(200.0, 0.0, 180.0), {"trees": 200, "rows_per_tree": 0}
    made = budget._smaller_forest(cost, settings, data, budget_)
    assert made.settings == expected
    share = expected.get("trees", 200) / 200 * expected.get("rows_per_tree", 6_000) / 6_000
    assert (made.fixed, made.trial) == (pytest.approx(200 * share), pytest.approx(180 * share))
    assert budget._smaller_forest(cost, settings | {"rows_per_tree": 9}, data, budget_) is cost  # the user's own
    found = fitted_to({"forest": made}, ["forest"], 100, 1e3)
    assert dict(found.smaller) == ({"forest": expected} if expected else {})


def test_seeds_come_before_trials_and_both_end() -> None:
    costs = {"erm": COSTS["erm"]}
    sizes = [fitted_to(costs, ["erm"], 1, budget).size for budget in (7, 10, 15, 30, 60, 1e9)]
    assert all(size.seeds >= 3 for size in sizes)
    assert [size.trials for size in sizes] == sorted(size.trials for size in sizes)
    assert (sizes[-1].seeds, sizes[-1].trials) == (10, 48)
    assert 1 not in {size.trials for size in sizes}  # one trial would try the defaults alone


def test_workers_share_the_fits_and_leaving_out_is_counted() -> None:
    one, two = (fitted_to(COSTS, ["erm"], 100, 400 / workers, workers=workers) for workers in (1, 2))
    assert one.size == two.size
    left = fitted_to(COSTS, ["simple", "erm"], 100, 300, environments=3)
    assert left.size.leave_out == 1
    assert left.seconds == pytest.approx(spent(list(left.arms), left.size, 3))
    assert left.seconds <= 300


def test_time_is_kept_for_workers_to_start() -> None:
    assert time_left(100, 10, 5, 0) == PLANNED * 100 - 10
    assert time_left(100, 10, 5, 2) < PLANNED * 100 - 10 - 5
    assert time_left(1, 10, 5, 2) == 0


class Clock:
    """A clock on which every look takes a second."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_needed_candidates_are_timed_first_and_timing_ends() -> None:
    data = gs.load("planted", **OPTIONS)
    tiny = {"epochs": 100, "hidden_channels": 4}
    arms = [
        Arm("slow", {"method": "eerm", "explorer": "random", "views": 2, **tiny}, {"edits_per_node": [1, 2]}),
        Arm("broken", {"method": "erm", **tiny, "lr": 1e6}),
        Arm("needed", {"method": "erm", **tiny}),
    ]
    plan = resolve(Plan("planted", arms, [0], OPTIONS), data)
    order: list[str] = []
    costs, dropped = timed(plan, data, ["needed"], 1_000.0, report=lambda done, name: order.append(name))
    assert order == ["needed", "slow", "broken"]
    assert {"needed", "slow"} <= set(costs)
    assert all(cost.epoch > 0 for cost in costs.values())
    costs, dropped = timed(plan, data, ["needed"], 5.0, clock=Clock())
    assert list(costs) == ["needed"]
    assert dropped["slow"] == "timing the others took a fifth of the budget"
    gone = resolve(replace(plan, arms=plan.arms), data)
    assert gone.arms == plan.arms


def test_a_candidate_that_fails_is_dropped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gs.load("planted", **OPTIONS)
    plan = resolve(Plan("planted", [Arm("a", {"method": "erm", "epochs": 3})], [0], OPTIONS), data)

    def refuse(*_: object, **__: object) -> None:
        raise GraphshiftError("no memory for it.")

    monkeypatch.setattr(gs.ERM, "fit", refuse)
    assert timed(plan, data, ["a"], 10.0) == ({}, {"a": "it failed: no memory for it."})


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("20m", 1200), ("20", 1200), ("1.5h", 5400), ("3 min", 180), (12.5, 12.5)]
)
def test_times_are_read(text: str | float, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "5d", "-3m", -1.0, float("nan")])
def test_other_times_are_refused(text: str | float) -> None:
    with pytest.raises(GraphshiftError, match=r"budget is .*; expected a time, as 90s, 20m or 2h"):
        seconds_of(text)


def test_a_budget_has_an_upper_end() -> None:
    with pytest.raises(GraphshiftError, match="expected at most 168h"):
        seconds_of("200h")

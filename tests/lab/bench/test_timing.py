"""Jobs are run in turns; the median counts; the clock is a false one, so nothing here depends on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from graphshift.lab.bench import timing


class Clock:
    """Time passes only when a job says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def job(self, name: str, seconds: Iterator[float]) -> Callable[[], None]:
        def run() -> None:
            self.log.append(name)
            self.now += next(seconds)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing, "time", made)
    return made


def test_the_median_of_the_rounds_after_a_warm_up(clock: Clock) -> None:
    first, second = clock.job("a", iter([0.1, 5.0, 3.0, 4.0])), clock.job("b", iter([0.2, 7.0, 9.0, 6.0]))
    assert timing.in_turns([first, second], rounds=3) == pytest.approx([4.0, 7.0])  # the warm-up was quicker
    assert clock.log == ["a", "b"] * 4


def test_short_jobs_are_repeated_for_the_least_time(clock: Clock) -> None:
    jobs = [clock.job(name, iter([0.25] * 99)) for name in "ab"]
    timing.in_turns(jobs, rounds=3, least=4.0)
    assert len(clock.log) == 2 + 2 * 8
    clock.log.clear()
    timing.in_turns(jobs, rounds=3, least=4.0, budget=1.0)  # the budget is the stronger one
    assert len(clock.log) == 2 + 2 * 3


def test_the_budget_ends_the_rounds_but_not_before_two(clock: Clock) -> None:
    timing.in_turns([clock.job("a", iter([1.0] * 9))], rounds=8, budget=3.5)
    assert len(clock.log) == 1 + 4  # a warm-up; the round that passes the budget is finished
    clock.log.clear()
    timing.in_turns([clock.job("a", iter([100.0] * 9))], rounds=8, budget=3.5)
    assert len(clock.log) == 1 + 2

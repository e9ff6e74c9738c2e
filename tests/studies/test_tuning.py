"""Trials are decided beforehand; every arm gets as many; a setting is chosen by the mean over its trials."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.studies.jobs import Schedule
from graphshift.studies.resolved import load_data, resolve
from graphshift.studies.space import crossed_arms, paper_space
from graphshift.studies.tuning import Trial, by_setting, choose, propose
from tiny_studies import OPTIONS, plan

SMALL = {"lr": [0.1, 0.2, 0.3]}
LARGE = paper_space({"method": "eerm"})


@pytest.mark.parametrize("space", [SMALL, LARGE], ids=["small", "large"])
def test_trial_i_depends_on_the_space_and_on_i_alone(space: dict[str, list[float]]) -> None:
    once, again = propose(space, 24, [0, 1]), propose(space, 24, [0, 1])
    assert once == again
    assert propose(space, 7, [0, 1]) == once[:7]  # a larger budget only adds trials
    assert [trial.number for trial in once] == list(range(24))


def test_settings_are_drawn_without_replacement_and_from_everywhere() -> None:
    trials = propose(LARGE, 600, [0])
    settings = {tuple(trial.settings.items()) for trial in trials}
    assert settings == {tuple(zip(LARGE, values, strict=True)) for values in itertools.product(*LARGE.values())}
    first = propose(LARGE, 24, [0])
    for name, values in LARGE.items():  # a shuffled order, not the grid's own, which would begin with one lr
        assert len({trial.settings[name] for trial in first}) == len(values)


def test_a_small_space_is_gone_through_again_with_fresh_seeds() -> None:
    trials = propose(SMALL, 8, [10_000, 0])
    assert [trial.seed for trial in trials] == [10_001] * 3 + [10_002] * 3 + [10_003] * 2
    for part in (trials[:3], trials[3:6]):
        assert {trial.settings["lr"] for trial in part} == {0.1, 0.2, 0.3}
    assert [len(own) for own in by_setting(trials)] == [3, 3, 2]


def test_nothing_to_tune_gives_no_trials() -> None:
    assert propose({}, 5, [0]) == []
    assert propose(SMALL, 0, [0]) == []


def test_a_space_beyond_reason_is_refused() -> None:
    with pytest.raises(GraphshiftError, match="the search space has 1,000,000 settings; expected at most 100,000"):
        propose({name: list(range(100)) for name in ("a", "b", "c")}, 3, [0])


def test_every_arm_has_the_same_budget_and_the_same_fresh_seeds() -> None:
    study = plan(arms=crossed_arms(["erm", "eerm"], ["gcn", "sage"], ["reinforce", "gradient"]), trials=24)
    schedule = Schedule(resolve(study, load_data("planted", OPTIONS, None)))
    seeds = {}
    for arm in study.arms:
        jobs = schedule.trial_jobs[arm.name]
        assert len(jobs) == 24
        seeds[arm.name] = {job.settings["seed"] for job in jobs}
        assert not seeds[arm.name] & set(study.seeds)
    assert seeds["ERM, gcn"] == {10_000, 10_001, 10_002, 10_003, 10_004}  # 24 trials of 5 settings
    assert all(own <= seeds["ERM, gcn"] for own in seeds.values())


@pytest.mark.parametrize("count", [1, 3, 24])
def test_what_the_arm_has_untuned_is_tried_first(count: int) -> None:
    drawn = [trial.settings for trial in propose(LARGE, count, [0])]
    whole = propose(LARGE, 600, [0])
    for start in (trial.settings for trial in whole[::25]):  # settings that few draws reach and that they do not
        found = [trial.settings for trial in propose(LARGE, count, [0], start={**start, "epochs": 3})]
        assert found[0] == start
        assert found[1:] == [one for one in drawn if one != start][: count - 1]


def test_an_untuned_value_outside_the_space_is_not_by_setting() -> None:
    assert propose(SMALL, 5, [0], start={"lr": 0.25}) == propose(SMALL, 5, [0], start={}) == propose(SMALL, 5, [0])


def test_a_study_starts_from_the_settings_of_its_dataset() -> None:
    study = plan(arms=crossed_arms(["erm", "eerm"], ["gcn"], ["random"]), trials=4)
    resolved = resolve(study, load_data("planted", OPTIONS, None))
    schedule = Schedule(resolved)
    for arm in study.arms:
        first = schedule.trial_jobs[arm.name][0]
        assert first.tuned
        own = resolved.settings(arm)
        assert first.tuned == {name: own[name] for name in first.tuned}


def trials_of(settings: list[float]) -> list[Trial]:
    return [Trial(i, 10_000 + i, {"lr": lr}) for i, lr in enumerate(settings)]


def test_the_best_mean_over_a_settings_trials_is_chosen() -> None:
    trials = trials_of([0.1, 0.2, 0.3, 0.1, 0.2])
    scores: dict[int, float | None] = {0: 0.9, 1: 0.7, 2: 0.71, 3: 0.1, 4: 0.8}  # one lucky trial of 0.1 is not enough
    chosen = choose(trials, scores, higher_is_better=True)
    assert chosen is not None
    assert (chosen.settings, chosen.score, chosen.trials) == ({"lr": 0.2}, pytest.approx(0.75), 2)
    lowest = choose(trials, scores, higher_is_better=False)
    assert lowest is not None
    assert lowest.settings == {"lr": 0.1}


def test_choosing_agrees_with_brute_force() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        rates = [float(rate) for rate in random.integers(0, 4, 12)]
        found = {i: float(score) for i, score in enumerate(random.random(12))}
        means = {rate: fmean(found[i] for i in range(12) if rates[i] == rate) for rate in rates}
        chosen = choose(trials_of(rates), found, higher_is_better=True)
        assert chosen is not None
        assert chosen.settings["lr"] == max(means, key=lambda rate: means[rate])


def test_the_first_of_equals_is_chosen() -> None:
    chosen = choose(trials_of([0.3, 0.1, 0.2]), {0: 0.5, 1: 0.5, 2: 0.5}, higher_is_better=True)
    assert chosen is not None
    assert chosen.settings == {"lr": 0.3}


def test_a_setting_that_failed_once_is_the_last_resort() -> None:
    trials = trials_of([0.1, 0.2, 0.1, 0.2])
    chosen = choose(trials, {0: 0.9, 1: 0.3, 2: None, 3: 0.3}, higher_is_better=True)
    assert chosen is not None
    assert chosen.settings == {"lr": 0.2}
    chosen = choose(trials, {0: 0.9, 1: 0.3, 2: None, 3: None}, higher_is_better=True)
    assert chosen is not None
    assert (chosen.settings, chosen.trials) == ({"lr": 0.1}, 1)
    assert choose(trials, dict.fromkeys(range(4)), higher_is_better=True) is None


def test_repeats_try_fewer_settings_with_more_seeds() -> None:
    space = {"lr": [0.1, 0.2, 0.3], "beta": [1, 2, 3, 4]}
    trials = propose(space, 12, [0, 1], repeats=3)
    together = by_setting(trials)
    assert len(together) == 4
    assert all([trial.seed for trial in own] == [10_000, 10_001, 10_002] for own in together)
    assert [own[0].settings for own in together] == [t.settings for t in propose(space, 4, [0, 1])]
    few = propose({"lr": [0.1, 0.2]}, 12, [0], repeats=3)  # all settings, more seeds than asked for
    assert [len(own) for own in by_setting(few)] == [6, 6]

"""Tuning: which settings are tried, decided before anything runs, and which of them a rule then chooses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import require_extra
from graphshift.studies.plan import tuning_seeds

#: Optuna lists the whole grid; beyond this it would only cost memory.
_LARGEST_SPACE = 100_000


@dataclass(frozen=True)
class Trial:
    """One fit that tries one setting with one tuning seed."""

    number: int
    seed: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """The setting that a rule chose for an arm."""

    settings: Mapping[str, Any]  #: the tuned values; empty for an arm that is not tuned
    score: float | None = None  #: the mean of its trials' selection scores; None without tuning
    trials: int = 0  #: how many trials that is a mean of


def propose(
    space: Mapping[str, Sequence[Any]],
    count: int,
    seeds: Sequence[int],
    repeats: int = 1,
    *,
    start: Mapping[str, Any] | None = None,
) -> list[Trial]:
    """The trials of one arm. What trial i tries depends on the space and on i alone, never on what came before.

    Optuna draws settings from the grid without replacement, in an order of its own that is always the same. So trials
    may run in any order, on any number of workers, and be killed and repeated. A space with fewer settings than
    trials is tried again with the next tuning seed: a method with little to tune gets the same budget, spent on
    better estimates. Each setting is tried with ``repeats`` tuning seeds, as far as trials reach; the final ``seeds``
    are not among them. What the arm would run with untuned (``start``) is tried first if the space has it: a few draws
    from a large space may all be worse, and tuning should not lose to no tuning.
    """
    size = math.prod(len(values) for values in space.values())
    if not space or not count:
        return []
    if size > _LARGEST_SPACE:
        raise GraphshiftError(
            f"the search space has {size:,} settings; expected at most {_LARGEST_SPACE:,}: list fewer values."
        )
    drawn = _drawn(space, min(math.ceil(count / repeats), size))
    first = {name: (start or {}).get(name) for name in space}
    if all(first[name] in values for name, values in space.items()):
        drawn = [first, *(one for one in drawn if one != first)][: len(drawn)]
    fresh = tuning_seeds(seeds, math.ceil(count / len(drawn)))
    return [Trial(i, fresh[i // len(drawn)], drawn[i % len(drawn)]) for i in range(count)]


def _drawn(space: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    require_extra("optuna", "tuning")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    grid = {name: list(values) for name, values in space.items()}
    study = optuna.create_study(sampler=optuna.samplers.GridSampler(grid, seed=0))
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(values) for name, values in grid.items()
    }
    asked = [study.ask(distributions).params for _ in range(count)]
    return [{name: params[name] for name in space} for params in asked]


def by_setting(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials of the same setting together, in order of their first."""
    together: dict[str, list[Trial]] = {}
    for trial in trials:
        together.setdefault(repr(sorted(trial.settings.items())), []).append(trial)
    return list(together.values())


def choose(trials: Sequence[Trial], scores: Mapping[int, float | None], *, higher_is_better: bool) -> Chosen | None:
    """The setting with the best mean score over its trials; the first of equals. None if no trial finished.

    A setting one of whose trials failed (no score) is chosen only if every setting has a failure, and then by what is
    left.
    """
    whole: list[tuple[float, int, Mapping[str, Any]]] = []
    parts, sign = whole.copy(), 1 if higher_is_better else -1
    for own in by_setting(trials):
        found = [score for trial in own if (score := scores[trial.number]) is not None]
        if found:
            (whole if len(found) == len(own) else parts).append((fmean(found), len(found), own[0].settings))
    if not whole and not parts:
        return None
    score, count, settings = max(whole or parts, key=lambda candidate: sign * candidate[0])
    return Chosen(settings, score, count)

"""What a study is to do: arms, seeds, trials, rules. This, and nothing else, decides its numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators.adaptation import parts_of
from graphshift.training.selection import SELECTIONS

#: What every table and figure says beside the rule that looks at the tests.
NOT_ALLOWED = "not allowed: chosen on tests"

#: Tuning seeds begin here, far from the seeds that people count from 0.
_FIRST_TUNING_SEED = 10_000

#: How far the seeds of an ensemble's members lie apart.
_BETWEEN_MEMBERS = 1_000_000

#: Of anything that is counted: arms, seeds, trials. A plan is written out in full.
_MOST = 10_000

#: The plan sets these itself, for every fit.
_RESERVED = ("seed", "selection")


@dataclass(frozen=True)
class Arm:
    """One of the things compared.

    Args:
        name: what to call it in tables.
        settings: the settings in which it differs from the dataset's defaults.
        space: what tuning may choose: for each setting the values to try; None or empty for an arm that is not tuned.
        baseline: the name of the arm that it is compared with; None for the ERM arm of the same backbone.
        joins: whether it is the mean of one model of every other arm, each with the setting that tuning chose for it.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Sequence[Any]] | None = None
    baseline: str | None = None
    joins: bool = False


#: The mean of one model of every arm of a study.
COMMITTEE = Arm("Committee", {"method": "blend"}, joins=True)


@dataclass(frozen=True)
class Plan:
    """A study, as it can be written down before it is run.

    Args:
        dataset: a dataset's name, or a :class:`~graphshift.data.dataset.ShiftDataset` that is in memory.
        arms: what to compare; all get the same seeds, and all that are tuned the same number of trials.
        seeds: of the final runs.
        options: of the dataset.
        data_seeds: of a dataset that is made from a ``seed``: the study runs over these; None leaves the data as they
            are. Arms are tuned on the data of the first.
        crossed: every data seed with every seed; False pairs the first with the first, the second with the second…
        trials: fits of each arm's tuning; 0 tunes nothing.
        repeats: tuning seeds that each setting is tried with. With one, the luckiest setting wins where seeds differ
            more than settings do; with more, fewer settings are tried.
        selections: the rules that choose epoch and setting, of :func:`rule_names`; each makes a result of its own.
        in_domain: also measure what the same backbones reach when they learn from each test graph's own labels.
        adapt: ways of using the unlabelled test graphs (``estimators.adaptation``); every arm's runs are scored
            with each as well.
        ensemble: members of deep ensembles; with 2 or more, every arm's runs are scored as the mean of so many models
            as well. No two runs share a member, so ensembles are as independent as single models are.
        leave_out: seeds with which every arm is also trained without one training environment and scored there, each
            environment in turn; 0 for none. It needs two training environments.
        resample: also score resampled nodes, so that intervals cover the nodes as well as the seeds.
        expect: also estimate the score of every final run on the unlabelled target (without one, on the tests without
            their labels), as :func:`~graphshift.shift.estimating.estimate_score` does.
        data: the dataset itself where it is in memory; set from ``dataset``.
    """

    dataset: str
    arms: Sequence[Arm]
    seeds: Sequence[int]
    options: Mapping[str, Any] = field(default_factory=dict)
    data_seeds: Sequence[int] | None = None
    crossed: bool = True
    trials: int = 0
    repeats: int = 1
    selections: Sequence[str] = ("val",)
    in_domain: bool = False
    adapt: Sequence[str] = ()
    ensemble: int = 1
    leave_out: int = 0
    resample: bool = False
    expect: bool = False
    data: ShiftDataset | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.dataset, ShiftDataset):
            object.__setattr__(self, "data", self.dataset)
            object.__setattr__(self, "dataset", self.data.name if self.data else "")
        if self.data is not None and (self.options or self.data_seeds is not None):
            what = "options" if self.options else "data_seeds"
            raise GraphshiftError(f"plan: {what} are of a dataset that is loaded by name; this one is in memory.")
        for name in ("arms", "seeds", "data_seeds", "selections", "adapt"):
            value = getattr(self, name)
            if value is not None and len(value) > _MOST:
                raise GraphshiftError(f"plan: {name} are {len(value):,}; expected at most {_MOST:,}.")
            object.__setattr__(self, name, None if value is None else tuple(value))
        _check_distinct("arms", [arm.name for arm in self.arms])
        _check_distinct("selections", self.selections)
        _check_seeds("seeds", self.seeds)
        if self.data_seeds is not None:
            _check_seeds("data_seeds", self.data_seeds)
            if not self.crossed and len(self.data_seeds) != len(self.seeds):
                pair = f"{len(self.data_seeds)} data_seeds and {len(self.seeds)} seeds"
                hint = "give as many of one as of the other, or leave crossed=True."
                raise GraphshiftError(f"plan: {pair} cannot be paired; {hint}")
        if unknown := [rule for rule in self.selections if rule not in rule_names()]:
            raise GraphshiftError(f"plan: selections has {unknown[0]!r}; {expected_one_of(unknown[0], rule_names())}")
        least_of = {"trials": "0 (no tuning)", "repeats": "1", "ensemble": "1 (no ensembles)", "leave_out": "0 (none)"}
        for name, least in least_of.items():
            if not int(least[0]) <= (value := getattr(self, name)) <= _MOST:
                raise GraphshiftError(f"plan: {name} is {value}; expected {least} or more, up to {_MOST:,}.")
        for adapt in self.adapt:
            parts_of(adapt)
        if len(set(self.adapt)) != len(self.adapt):
            raise GraphshiftError(f"plan: adapt is {list(self.adapt)}; each may be there once.")
        for arm in self.arms:
            self._check_arm(arm)
        if len(joining := [arm.name for arm in self.arms if arm.joins]) > 1 or (joining and len(self.members()) < 2):
            found = f"{joining} are means of all others" if len(joining) > 1 else f"{joining[0]!r} has fewer than two"
            raise GraphshiftError(
                f"plan: {found}; expected one such arm at most, beside two others that look at nodes."
            )

    def _check_arm(self, arm: Arm) -> None:
        for name in _RESERVED:
            if name in arm.settings or name in (arm.space or {}):
                raise GraphshiftError(f"arm {arm.name!r}: {name} is set by the plan (its `{name}s`); leave it out.")
        if both := [name for name in arm.space or {} if name in arm.settings]:
            raise GraphshiftError(f"arm {arm.name!r}: {', '.join(both)} is fixed and also in its space; keep one.")
        for name, values in (arm.space or {}).items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise GraphshiftError(f"arm {arm.name!r}: space: {name} is {values!r}; expected a list of values.")
        if arm.baseline is not None and arm.baseline not in (other.name for other in self.arms):
            raise GraphshiftError(f"arm {arm.name!r}: baseline is {arm.baseline!r}, and no arm has that name.")

    def members(self) -> list[Arm]:
        """The arms that a committee joins: all others but the largest class, which looks at no node."""
        return [arm for arm in self.arms if not arm.joins and arm.settings.get("method") != "majority"]

    @property
    def title(self) -> str:
        """What tables and pages call the dataset: a user's tables have a name of their own."""
        return str(self.options.get("name") or self.dataset)

    @property
    def draws(self) -> list[tuple[int | None, int]]:
        """The pairs of data seed and seed that every arm is run with."""
        if self.data_seeds is None:
            return [(None, seed) for seed in self.seeds]
        if not self.crossed:
            return list(zip(self.data_seeds, self.seeds, strict=True))
        return [(data_seed, seed) for data_seed in self.data_seeds for seed in self.seeds]

    def arm(self, name: str) -> Arm:
        """The arm of that name."""
        return next(arm for arm in self.arms if arm.name == name)

    def public_options(self) -> dict[str, Any]:
        """The dataset's options as they are written down, without the folders of this machine."""
        kept = {name: value for name, value in self.options.items() if name != "data_dir"}
        plain = {name: _without_folder(value) for name, value in kept.items()}
        found: dict[str, Any] = json.loads(json.dumps(plain, default=str))
        return found


def rule_names() -> list[str]:
    """The rules that can choose epoch and setting in a study: those that have a score."""
    return [name for name, rule in SELECTIONS.items() if rule.has_score]


def trainings(selections: Sequence[str]) -> list[tuple[str, ...]]:
    """The rules in groups that share one training. ``id_val`` holds nodes out of it, so it needs its own."""
    shared = tuple(rule for rule in selections if SELECTIONS.find(rule).shares_training)
    return [group for group in (shared, *((rule,) for rule in selections if rule not in shared)) if group]


def tuning_seeds(seeds: Sequence[int], count: int) -> list[int]:
    """Seeds for tuning, none of which is among the final ones."""
    candidates = range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + count + len(seeds))
    return [candidate for candidate in candidates if candidate not in seeds][:count]


def member_seeds(seed: int, members: int) -> list[int]:
    """The seeds of an ensemble's members: that of the run, then others that no run and no trial has."""
    return [seed + i * _BETWEEN_MEMBERS for i in range(members)]


def _without_folder(value: Any) -> Any:
    if isinstance(value, Path) or (isinstance(value, str) and Path(value).is_absolute()):
        return Path(value).name
    return value


def _check_distinct(what: str, values: Sequence[Any]) -> None:
    if not values:
        raise GraphshiftError(f"plan: {what} is empty; expected at least one.")
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise GraphshiftError(f"plan: {what} has {twice[0]!r} twice; each may be there once.")


def _check_seeds(what: str, values: Sequence[Any]) -> None:
    _check_distinct(what, values)
    wrong = [value for value in values if not isinstance(value, int) or isinstance(value, bool) or value < 0]
    if wrong:
        raise GraphshiftError(f"plan: {what} has {wrong[0]!r}; expected whole numbers of at least 0.")

"""The fits of a study, each with a name of its own, and which of them can be run now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from graphshift.estimators.settings import has_setting
from graphshift.studies.plan import Arm, trainings
from graphshift.studies.records import Record
from graphshift.studies.resolved import ResolvedPlan
from graphshift.studies.tuning import Chosen, Trial, choose, propose

#: The records of a ledger, by id.
Records = Mapping[str, Record]


@dataclass(frozen=True)
class Job:
    """One fit, ready to be run anywhere: plain values only.

    Attributes:
        id: the same for the same fit in every session; the ledger is kept by it.
        kind: ``"trial"`` (of tuning), ``"run"`` (a final one) or ``"limit"`` (in-domain, on one test environment).
        arm: whose it is.
        dataset: its name.
        settings: all of them.
        rules: the selection rules that this training serves.
        data_seed: that the data are made from; None if they are not made.
        draws_data: whether the plan gives the data seed, so that it is passed to the dataset.
        trial: its number, for trials.
        tuned: the tuned part of the settings.
        environment: the test environment of a limit.
        blocked: why it cannot be run; such a job is recorded as failed at once.
        adapt: ways of using the unlabelled tests that a run is scored with as well.
        ensemble: members of the ensemble that a run is scored as, too; 1: none.
    """

    id: str
    kind: Literal["trial", "run", "limit"]
    arm: str
    dataset: str
    settings: Mapping[str, Any]
    rules: Sequence[str]
    data_seed: int | None
    draws_data: bool
    trial: int | None = None
    tuned: Mapping[str, Any] = field(default_factory=dict)
    environment: str | None = None
    blocked: str | None = None
    adapt: Sequence[str] = ()
    ensemble: int = 1

    def to_json(self) -> dict[str, Any]:
        """As plain values, for a worker."""
        return asdict(self)


class Schedule:
    """All jobs of a plan: trials at once, an arm's final runs as soon as its trials are done."""

    def __init__(self, plan: ResolvedPlan) -> None:
        self.plan = plan
        self.trials: dict[str, list[Trial]] = {
            arm.name: propose(arm.space or {}, plan.trials, plan.seeds, plan.repeats, start=plan.settings(arm))
            for arm in plan.arms
        }
        self._trial_jobs = {arm.name: self._make_trials(arm) for arm in plan.arms}
        self._kept: dict[str, tuple[str, list[list[Job]]]] = {}

    def jobs(self, records: Records) -> list[Job]:
        """Every job that is known by now, done or not: trials, then runs by data seed and seed, then limits.

        Arms take turns, so that the time left can soon be told.
        """
        trials = [job for arm in self.plan.arms for job in self._trial_jobs[arm.name]]
        trials.sort(key=lambda job: job.trial or 0)
        runs = [self._runs(arm, records) for arm in self.plan.arms if self.is_tuned(arm, records)]
        by_draw = [job for i in range(len(self.plan.draws)) for own in runs for job in own[i]]
        return [*trials, *by_draw, *self._limits(records)]

    def expected(self, records: Records) -> list[tuple[str, str]]:
        """Kind and arm of the fits that arms will at least have when their tuning is done."""
        found = []
        data_seeds = {data_seed for data_seed, _ in self.plan.draws}
        for arm in self.plan.arms:
            if self.is_tuned(arm, records):
                continue
            found += [("run", arm.name)] * (len(self.plan.draws) * len(trainings(self.plan.selections)))
            if self.plan.in_domain and arm == self.plan.erm_arm(self.plan.settings(arm)["backbone"]):
                found += [("limit", arm.name)] * (len(data_seeds) * len(self.plan.tests))
        return found

    def is_tuned(self, arm: Arm, records: Records) -> bool:
        """Whether all trials of an arm are done."""
        return all(job.id in records for job in self._trial_jobs[arm.name])

    def chosen(self, arm: Arm, rule: str, records: Records) -> Chosen | None:
        """The setting that a rule chose for an arm whose trials are done; None if all of them failed."""
        if not self.trials[arm.name]:
            return Chosen({})
        return choose(
            self.trials[arm.name], self.scores(arm, rule, records), higher_is_better=self.plan.higher_is_better
        )

    def scores(self, arm: Arm, rule: str, records: Records) -> dict[int, float | None]:
        """The rule's score of every trial that is done, by number; None where it failed."""
        found: dict[int, float | None] = {}
        for job in self._trial_jobs[arm.name]:
            if rule in job.rules and job.id in records and job.trial is not None:
                record = records[job.id]
                found[job.trial] = record.selections[rule].score if record.ok else None
        return found

    def trial_jobs(self, arm: Arm) -> list[Job]:
        """The trials of an arm."""
        return self._trial_jobs[arm.name]

    def _make_trials(self, arm: Arm) -> list[Job]:
        data_seed = self._data_seed(self.plan.draws[0][0])
        return [
            self._job("trial", arm, rules, data_seed, trial.seed, trial.settings, trial=trial.number)
            for trial in self.trials[arm.name]
            for rules in trainings(self.plan.selections)
        ]

    def _runs(self, arm: Arm, records: Records) -> list[list[Job]]:
        """For each draw of seeds the arm's runs. Rules that share a training and chose the same setting share it."""
        choices = {rule: self.chosen(arm, rule, records) for rule in self.plan.selections}
        key = repr(choices)
        if arm.name not in self._kept or self._kept[arm.name][0] != key:
            self._kept[arm.name] = key, self._make_runs(arm, choices)
        return self._kept[arm.name][1]

    def _make_runs(self, arm: Arm, choices: Mapping[str, Chosen | None]) -> list[list[Job]]:
        shared: list[tuple[tuple[str, ...], Chosen | None]] = []
        for group in trainings(self.plan.selections):
            settings = list(dict.fromkeys(_text(choices[rule]) for rule in group))
            for text in settings:
                rules = tuple(rule for rule in group if _text(choices[rule]) == text)
                shared.append((rules, choices[rules[0]]))
        made = []
        for data_seed, seed in self.plan.draws:
            own = []
            for rules, choice in shared:
                tuned = {} if choice is None else choice.settings
                blocked = "all trials of this arm failed, so there is no setting to run" if choice is None else None
                own.append(self._job("run", arm, rules, self._data_seed(data_seed), seed, tuned, blocked=blocked))
            made.append(own)
        return made

    def _limits(self, records: Records) -> list[Job]:
        if not self.plan.in_domain:
            return []
        made = []
        rule = next(rule for rule in ("val", "id_val", "explored", "oracle") if rule in self.plan.selections)
        for backbone in self.plan.backbones():
            arm = self.plan.erm_arm(backbone)
            tuned: Mapping[str, Any] = {}
            if arm is None:  # no ERM arm: the same settings without what is another method's
                first = next(a for a in self.plan.arms if self.plan.settings(a)["backbone"] == backbone)
                kept = {n: v for n, v in first.settings.items() if has_setting(n, {"method": "erm"})}
                arm = Arm(f"in-domain, {backbone}", {**kept, "method": "erm"})
            elif not self.is_tuned(arm, records):
                continue
            else:
                choice = self.chosen(arm, rule, records)
                tuned = {} if choice is None else choice.settings
            for data_seed in dict.fromkeys(data_seed for data_seed, _ in self.plan.draws):
                for environment in self.plan.tests:
                    made.append(
                        self._job(
                            "limit",
                            arm,
                            ("id_val",),
                            self._data_seed(data_seed),
                            self.plan.seeds[0],
                            tuned,
                            environment=environment,
                        )
                    )
        return made

    def _data_seed(self, drawn: int | None) -> int | None:
        return self.plan.own_data_seed if drawn is None else drawn

    def _job(
        self,
        kind: Literal["trial", "run", "limit"],
        arm: Arm,
        rules: Sequence[str],
        data_seed: int | None,
        seed: int,
        tuned: Mapping[str, Any],
        *,
        trial: int | None = None,
        environment: str | None = None,
        blocked: str | None = None,
    ) -> Job:
        settings = self.plan.settings(arm, tuned, seed=seed, selection=rules[0])
        parts = [kind, arm.name, "+".join(rules)]
        parts += [] if trial is None else [f"trial {trial}"]
        parts += [] if environment is None else [environment]
        parts += [] if data_seed is None else [f"data {data_seed}"]
        parts += [f"seed {seed}", *(f"{name}={value}" for name, value in tuned.items())]
        return Job(
            " / ".join(parts),
            kind,
            arm.name,
            self.plan.dataset,
            settings,
            tuple(rules),
            data_seed,
            self.plan.data_seeds is not None,
            trial,
            dict(tuned),
            environment,
            blocked,
            *((self.plan.adapt, self.plan.ensemble) if kind == "run" else ()),
        )


def _text(choice: Chosen | None) -> str:
    return "none" if choice is None else json.dumps(dict(choice.settings), sort_keys=True)

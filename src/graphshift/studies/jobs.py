"""The fits of a study, each with a name of its own, and which of them can be run now."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphshift.estimators.settings import has_setting
from graphshift.studies.plan import Arm, trainings
from graphshift.studies.records import Kind, Record
from graphshift.studies.resolved import ResolvedPlan
from graphshift.studies.tuning import Chosen, Trial, choose, propose

#: The records of a ledger, by id.
Records = Mapping[str, Record]


@dataclass(frozen=True)
class Job:
    """One fit, ready to be run anywhere: plain values only."""

    id: str  #: the same for the same fit in every session; the ledger is kept by it
    kind: Kind  #: of tuning, a final one, in-domain on one test environment, without one training environment
    arm: str
    dataset: str
    settings: Mapping[str, Any]  #: all of them
    rules: Sequence[str]  #: the selection rules that this training serves
    data_seed: int | None  #: that the data are made from; None if they are not made
    draws_data: bool  #: whether the plan gives the data seed, so that it is passed to the dataset
    tuned: Mapping[str, Any] = field(default_factory=dict)  #: the tuned part of the settings
    trial: int | None = None  #: its number, for trials
    environment: str | None = None  #: the test environment of a limit; the training environment that is left out
    blocked: str | None = None  #: why it cannot be run; such a job is recorded as failed at once
    adapt: Sequence[str] = ()  #: ways of using the unlabelled tests that a run is scored with as well
    ensemble: int = 1  #: members of the ensemble that a run is scored as, too; 1: none
    resample: bool = False  #: whether resampled nodes are scored, too
    expect: bool = False  #: whether the score on the unlabelled target is estimated, too


class Schedule:
    """All jobs of a plan: trials at once, an arm's final runs as soon as its trials are done."""

    def __init__(self, plan: ResolvedPlan) -> None:
        self.plan = plan
        self.trials: dict[str, list[Trial]] = {
            arm.name: propose(arm.space or {}, plan.trials, plan.seeds, plan.repeats, start=plan.settings(arm))
            for arm in plan.arms
        }
        self.trial_jobs = {arm.name: self._make_trials(arm) for arm in plan.arms}
        self._kept: dict[str, tuple[str, list[list[Job]]]] = {}

    def jobs(self, records: Records) -> list[Job]:
        """Every job that is known by now, done or not: trials, then runs by data seed and seed, then limits.

        Arms take turns, so that the time left can soon be told.
        """
        trials = [job for arm in self.plan.arms for job in self.trial_jobs[arm.name]]
        trials.sort(key=lambda job: job.trial or 0)
        runs = [self._runs(arm, records) for arm in self.plan.arms if self.is_tuned(arm, records)]
        by_draw = [job for i in range(len(self.plan.draws)) for own in runs for job in own[i]]
        return [*trials, *by_draw, *self._left_out(records), *self._limits(records)]

    def expected(self, records: Records) -> list[tuple[str, str]]:
        """Kind and arm of the fits that arms will at least have when their tuning is done."""
        found = []
        data_seeds = {data_seed for data_seed, _ in self.plan.draws}
        for arm in self.plan.arms:
            if self.is_tuned(arm, records):
                continue
            found += [("run", arm.name)] * (len(self.plan.draws) * len(trainings(self.plan.selections)))
            found += [("left_out", arm.name)] * (self.plan.leave_out * len(self.plan.left_out))
            if self.plan.in_domain and arm == self.plan.erm_arm(self.plan.settings(arm).get("backbone")):
                found += [("limit", arm.name)] * (len(data_seeds) * len(self.plan.tests))
        return found

    def is_tuned(self, arm: Arm, records: Records) -> bool:
        """Whether all trials of an arm are done, and of a committee those of its members."""
        if arm.joins:
            return all(self.is_tuned(member, records) for member in self.plan.members())
        return all(job.id in records for job in self.trial_jobs[arm.name])

    def chosen(self, arm: Arm, rule: str, records: Records) -> Chosen | None:
        """The setting that a rule chose for an arm whose trials are done; None if all of them failed.

        Of a committee these are its members, each with its own; those whose trials all failed are left out.
        """
        if arm.joins:
            choices = [(member, self.chosen(member, rule, records)) for member in self.plan.members()]
            joined = [{**member.settings, **own.settings} for member, own in choices if own is not None]
            return Chosen({"members": joined}) if len(joined) > 1 else None
        if not self.trials[arm.name]:
            return Chosen({})
        scores = self.scores(arm, rule, records)
        return choose(self.trials[arm.name], scores, higher_is_better=self.plan.higher_is_better)

    def scores(self, arm: Arm, rule: str, records: Records) -> dict[int, float | None]:
        """The rule's score of every trial that is done, by number; None where it failed."""
        found: dict[int, float | None] = {}
        for job in self.trial_jobs[arm.name]:
            if rule in job.rules and job.id in records and job.trial is not None:
                record = records[job.id]
                found[job.trial] = record.selections[rule].score if record.ok else None
        return found

    def _make_trials(self, arm: Arm) -> list[Job]:
        data_seed = self.plan.draws[0][0]
        return [
            self._job("trial", arm, rules, (data_seed, trial.seed), trial.settings, trial=trial.number)
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
        shared: list[tuple[tuple[str, ...], Mapping[str, Any], str | None]] = []
        for group in trainings(self.plan.selections):
            for text in dict.fromkeys(_text(choices[rule]) for rule in group):
                rules = tuple(rule for rule in group if _text(choices[rule]) == text)
                choice, lost = choices[rules[0]], "all trials of this arm failed, so there is no setting to run"
                shared.append((rules, {}, lost) if choice is None else (rules, choice.settings, None))
        draws = self.plan.draws
        return [[self._job("run", arm, rules, d, tuned, blocked=b) for rules, tuned, b in shared] for d in draws]

    def _left_out(self, records: Records) -> list[Job]:
        """Each arm without each training environment in turn, with the setting that the first rule chose."""
        plan, made = self.plan, []
        rule = plan.selections[0]
        arms = [arm for arm in plan.arms if plan.leave_out and self.is_tuned(arm, records)]
        choices = {arm.name: self.chosen(arm, rule, records) for arm in arms}
        for draw in plan.draws[: plan.leave_out]:
            for environment in plan.left_out:
                for arm in arms:
                    if (choice := choices[arm.name]) is not None:
                        made.append(self._job("left_out", arm, (rule,), draw, choice.settings, environment=environment))
        return made

    def _limits(self, records: Records) -> list[Job]:
        if not self.plan.in_domain:
            return []
        made = []
        rule = next((r for r in ("val", "id_val", "explored") if r in self.plan.selections), self.plan.selections[0])
        for backbone in self.plan.backbones():
            arm = self.plan.erm_arm(backbone)
            tuned: Mapping[str, Any] = {}
            if arm is None:  # no ERM arm: the same settings without what is another method's
                first = next(a for a in self.plan.arms if self.plan.settings(a).get("backbone") == backbone)
                kept = {n: v for n, v in first.settings.items() if has_setting(n, {"method": "erm"})}
                arm = Arm(f"in-domain, {backbone}", {**kept, "method": "erm"})
            elif not self.is_tuned(arm, records):
                continue
            else:
                choice = self.chosen(arm, rule, records)
                tuned = {} if choice is None else choice.settings
            for data_seed in dict.fromkeys(data_seed for data_seed, _ in self.plan.draws):
                draw = data_seed, self.plan.seeds[0]
                made += [self._job("limit", arm, ("id_val",), draw, tuned, environment=e) for e in self.plan.tests]
        return made

    def _job(
        self,
        kind: Kind,
        arm: Arm,
        rules: Sequence[str],
        draw: tuple[int | None, int],
        tuned: Mapping[str, Any],
        **own: Any,
    ) -> Job:
        """A job with a draw of data seed and seed; ``own`` is what only its kind has."""
        plan, seed, drawn = self.plan, draw[1], self.plan.data_seeds is not None
        data_seed = plan.own_data_seed if draw[0] is None else draw[0]
        settings = plan.settings(arm, tuned, seed=seed, selection=rules[0])
        parts = [kind, arm.name, "+".join(rules)]
        parts += [f"trial {own['trial']}"] if "trial" in own else []
        parts += [own["environment"]] if "environment" in own else []
        parts += [] if data_seed is None else [f"data {data_seed}"]
        parts += [f"seed {seed}", *(f"{name}={value}" for name, value in tuned.items() if not arm.joins)]
        own |= {"adapt": plan.adapt, "resample": plan.resample} if kind in ("run", "left_out") else {}
        own |= {"ensemble": plan.ensemble, "expect": plan.expect} if kind == "run" else {}
        id_ = " / ".join(parts)
        return Job(id_, kind, arm.name, plan.dataset, settings, tuple(rules), data_seed, drawn, dict(tuned), **own)


def _text(choice: Chosen | None) -> str:
    return "none" if choice is None else json.dumps(dict(choice.settings), sort_keys=True)

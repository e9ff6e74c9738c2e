"""All that a study found: tables, figures and pages are made from this and from the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean
from typing import Any

from graphshift._version import __version__
from graphshift.core.stored import Stored
from graphshift.data.metrics import METRICS
from graphshift.estimators.adaptation import EDITING, LEARNED, TUNING, WITHOUT_EDGES, parts_of
from graphshift.estimators.target import MARK, MEANING
from graphshift.studies.gap import GapClosed, Limit, closed, limits_of
from graphshift.studies.jobs import Records, Schedule
from graphshift.studies.plan import NOT_ALLOWED, Arm
from graphshift.studies.records import Record, Row, rows_of, variant_name
from graphshift.studies.remarks import notes_on
from graphshift.studies.resolved import ResolvedPlan
from graphshift.studies.statistics import Difference, Spread, compare, share_a_pair, spread
from graphshift.studies.tuning import by_setting
from graphshift.training.selection import LOOKED, SELECTIONS


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A selection rule of a study: its name, whether a result may rest on it, and what to say beside it if not."""

    rule: str
    allowed: bool
    note: str | None


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many fits finished, and how many failed."""

    done: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class Differences:
    """An arm's paired differences to its baseline, in the mean and in the worst test score, and without tests in the
    score that the rule chooses by.
    """

    mean_test: Difference | None = None
    worst_test: Difference | None = None
    choosing: Difference | None = None

    @property
    def main(self) -> Difference | None:
        """In the mean test score; without tests in the score that the rule chooses by."""
        return self.mean_test or self.choosing


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """What is known of an arm, as it is or as a variant, by one selection rule."""

    arm: str  #: its name in tables
    ensemble: int = 1  #: members; 1 for single models
    adapt: str | None = None  #: the way of using the unlabelled tests; None for none
    refused: int = 0  #: how often ``adapt`` was not used, as unsafe
    method: str
    backbone: str | None  #: None for a method without
    explorer: str | None  #: None for a method without
    selection: str  #: the rule
    allowed: bool  #: whether a result may rest on the rule
    baseline: str | None  #: the name of what it is compared with; None for a baseline itself
    runs: int  #: final runs that finished
    failed: int  #: final runs that did not
    val: Spread
    mean_test: Spread
    worst_test: Spread
    environments: dict[str, Spread]  #: by test environment
    difference: Differences  #: to the baseline
    chosen: dict[str, Any] | None  #: the tuned setting; None if all trials failed
    chosen_score: float | None  #: its mean score
    chosen_trials: int | None  #: how many trials that is a mean of
    trials: int  #: of the arm's tuning
    best_epoch: float | None
    seconds_per_epoch: float | None
    peak_rss_mb: float | None  #: the most memory that a run took
    variance: float | None
    gap_closed: GapClosed | None = None  #: from the baseline to the in-domain limit; None where that cannot be said
    choosing: Spread | None = None  #: the score that the rule chose by; None in summaries of earlier versions
    seconds: float | None = None  #: that a run took
    trained_with: list[str] = field(default_factory=list)  #: the unlabelled graphs that its training saw

    @property
    def marked(self) -> str:
        """Its name, with a mark if its training saw the unlabelled target."""
        return f"{self.arm} {MARK}" if self.trained_with else self.arm

    @property
    def is_variant(self) -> bool:
        """Whether these are another entry's runs, scored as an ensemble or with the tests in use."""
        return self.adapt is not None or self.ensemble > 1


@dataclass(frozen=True, kw_only=True)
class TunedSetting:
    """A setting that tuning tried for an arm: its scores by one rule, and whether the rule chose it."""

    arm: str
    selection: str
    settings: dict[str, Any]
    score: float | None
    scores: list[float]
    trials: int
    failed: int
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a comparison shows, as a sentence."""

    arm: str
    selection: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """What was planned and cannot be: an arm, a rule, an adaptation; and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A fit that failed, and why."""

    id: str
    kind: str
    arm: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Summary(Stored):
    """A study's results."""

    format: int  #: of the file
    version: str  #: of graphshift
    dataset: str
    options: dict[str, Any]  #: of the dataset
    metric: str
    higher_is_better: bool
    tests: list[str]  #: the names of the test environments
    seeds: list[int]
    data_seeds: list[int] | None
    tuning_seeds: list[int]
    trials: int
    repeats: int = 1
    selections: list[Rule]
    counts: dict[str, Count]  #: fits by kind
    arms: list[ArmSummary]  #: each arm by each rule
    limits: dict[str, Limit]  #: the in-domain limit of each backbone
    majority: dict[str, float]  #: the share of the largest class in each test environment
    tuning: list[TunedSetting]  #: every setting that was tried
    findings: list[Finding]  #: a sentence for each comparison
    failed: list[Failure]
    provenance: list[dict[str, Any]]  #: the sessions (``provenance.session``)
    skipped: list[Skipped] = field(default_factory=list)  #: what cannot be on these data
    notes: list[str] = field(default_factory=list)  #: what a reader should know of these results

    def of_rule(self, rule: str) -> list[ArmSummary]:
        """The arms by one rule."""
        return [arm for arm in self.arms if arm.selection == rule]

    def arm_names(self) -> list[str]:
        """The names of all arms and variants, each once."""
        return list(dict.fromkeys(arm.arm for arm in self.arms))


def make_summary(schedule: Schedule, records: Records, sessions: Sequence[dict[str, Any]]) -> Summary:
    """Summarises a study whose jobs are all done; records of no job are left aside."""
    plan = schedule.plan
    own = [records[job.id] for job in schedule.jobs(records)]
    limits = limits_of(own)
    arms, findings = [], []
    for rule in plan.selections:
        rows = rows_of(own, rule)
        for arm in plan.arms:
            for members, way in product(dict.fromkeys((1, plan.ensemble)), (None, *plan.adapt)):
                if way is not None and not any(row.arm == variant_name(arm.name, members, way) for row in rows):
                    continue  # its backbone cannot be adapted that way
                entry = _arm(schedule, records, arm, rule, rows, members, way)
                if plan.in_domain:
                    entry = replace(entry, gap_closed=_gap(entry, rows, limits.get(entry.backbone or ""), plan))
                arms.append(entry)
                findings += _sentences(entry, plan)
    skipped = [Skipped(what=what, reason=reason) for what, reason in (plan.skipped | _unfit(plan, arms)).items()]
    rules = [(rule, not SELECTIONS[rule].uses_tests) for rule in plan.selections]
    same = ("metric", "higher_is_better", "tests", "trials", "repeats")
    return Summary(
        format=1,
        version=__version__,
        dataset=plan.title,
        **{name: getattr(plan, name) for name in same},
        options=plan.public_options(),
        seeds=list(plan.seeds),
        data_seeds=list(plan.data_seeds) if plan.data_seeds else None,
        tuning_seeds=sorted({t.seed for trials in schedule.trials.values() for t in trials}),
        selections=[Rule(rule=name, allowed=ok, note=_note(name)) for name, ok in rules],
        counts=_counts(own),
        arms=arms,
        limits=limits,
        majority=_majority(own, plan.tests),
        tuning=_tuning(schedule, records),
        findings=findings,
        failed=[Failure(id=r.id, kind=r.kind, arm=r.arm, reason=r.reason) for r in own if not r.ok],
        provenance=list(sessions),
        skipped=skipped,
        notes=notes_on(plan, arms, own),
    )


def _note(rule: str) -> str | None:
    """What must be said beside a rule: that it looked at the tests, or at the unlabelled target."""
    one = SELECTIONS[rule]
    return NOT_ALLOWED if one.uses_tests else LOOKED if one.uses_target else None


def _unfit(plan: ResolvedPlan, arms: Sequence[ArmSummary]) -> dict[str, str]:
    """Adaptations that some arms cannot take, and why."""
    found = {}
    for way in plan.adapt:
        took = {arm.arm.split(", + ")[0] for arm in arms if arm.adapt == way}
        without = [arm.name for arm in plan.arms if arm.name not in took and any(a.arm == arm.name for a in arms)]
        if without and "norm" in parts_of(way):
            found[f"+ {way}"] = f"no batch normalisation: {'; '.join(without)}"
        elif without and {*TUNING} & {*parts_of(way)}:
            found[f"+ {way}"] = f"nothing to tune: {'; '.join(without)}"
        elif without and {*LEARNED, *EDITING} & {*parts_of(way)}:
            found[f"+ {way}"] = f"no GNN that can be adapted so: {'; '.join(without)}"
        elif without and {*WITHOUT_EDGES} & {*parts_of(way)}:
            found[f"+ {way}"] = f"edges are looked at already: {'; '.join(without)}"
    return found


def _arm(
    schedule: Schedule, records: Records, arm: Arm, rule: str, rows: list[Row], members: int, way: str | None
) -> ArmSummary:
    plan, name = schedule.plan, variant_name(arm.name, members, way)
    settings, baseline = plan.settings(arm), plan.baseline(arm)
    who: dict[str, Any] = {part: settings.get(part) for part in ("method", "backbone", "explorer")}
    # Like is compared with like; ERM's own ensembles, and ERM with the tests in use, with ERM as it is.
    against = None if baseline is None else baseline.name
    if baseline is not None and (alike := variant_name(baseline.name, members, way)) in {row.arm for row in rows}:
        against = alike
    elif baseline is None and name != arm.name:
        against = arm.name
    own = [row for row in rows if row.arm == name]
    chosen = schedule.chosen(arm, rule, records)
    difference = Differences()
    if against is not None and share_a_pair(rows, name, against):
        mean, worst = (compare(rows, name, against, key) for key in ("mean", "worst"))
        difference = Differences(mean_test=mean, worst_test=worst)
    elif against is not None and not plan.tests and share_a_pair(rows, name, against, "choosing"):
        difference = Differences(choosing=compare(rows, name, against, "choosing"))
    return ArmSummary(
        arm=name,
        ensemble=members,
        adapt=way,
        refused=sum(len(row.refused) for row in own),
        **who,
        selection=rule,
        allowed=not SELECTIONS[rule].uses_tests,
        baseline=against,
        runs=len(own),
        failed=len(plan.draws) - len(own),
        val=spread([row.val for row in own]),
        choosing=spread([row.choosing for row in own]),
        seconds=spread([row.record.seconds for row in own]).mean,
        mean_test=spread([row.mean for row in own]),
        worst_test=spread([row.worst for row in own]),
        environments={test: spread([row.tests[test] for row in own]) for test in plan.tests},
        difference=difference,
        chosen=None if chosen is None else dict(chosen.settings),
        chosen_score=None if chosen is None else chosen.score,
        chosen_trials=None if chosen is None else chosen.trials,
        trials=len(schedule.trials[arm.name]),
        best_epoch=spread([row.best_epoch for row in own]).mean,
        seconds_per_epoch=spread([row.record.seconds_per_epoch for row in own]).mean,
        peak_rss_mb=max((mb for row in own if (mb := row.record.peak_rss_mb) is not None), default=None),
        variance=spread([row.record.variance for row in own]).mean,
        trained_with=own[0].record.trained_with if own else [],
    )


def _gap(entry: ArmSummary, rows: list[Row], limit: Limit | None, plan: ResolvedPlan) -> GapClosed | None:
    """The share of the distance from the baseline to the in-domain limit; the baseline itself has none."""
    own = [row.mean for row in rows if row.arm == entry.baseline]
    mean, baseline = entry.mean_test.mean, [score for score in own if score is not None]
    if mean is None or not baseline or limit is None or set(limit.environments) != set(plan.tests):  # some fits failed
        return None
    return closed(mean, baseline, limit.mean, limit.error, higher_is_better=plan.higher_is_better)


def _sentences(entry: ArmSummary, plan: ResolvedPlan) -> list[Finding]:
    """Which is ahead, in words, for both scores."""
    metric = METRICS.find(plan.metric)
    rule = entry.selection + ("" if entry.allowed else f" ({NOT_ALLOWED})")
    prefix = "" if plan.selections == ("val",) else f"By {rule}: "
    both = [entry.difference.main, *([entry.difference.worst_test] if len(plan.tests) > 1 else [])]
    found = [d for d in both if d is not None]
    end = f" ({entry.arm}: {MEANING}.)" if entry.trained_with else ""
    texts = [prefix + difference.sentence(metric.scale, metric.unit) + end for difference in found]
    return [Finding(arm=entry.arm, selection=entry.selection, text=text) for text in texts]


def _counts(records: Sequence[Record]) -> dict[str, Count]:
    found = {}
    for kind in ("trial", "run", "limit", "left_out"):
        own = [record.ok for record in records if record.kind == kind]
        if own or kind != "left_out":
            found[kind] = Count(done=sum(own), failed=len(own) - sum(own))
    return found


def _majority(records: Sequence[Record], tests: Sequence[str]) -> dict[str, float]:
    """The share of the largest class in each test environment, over the data seeds."""
    found: dict[str, dict[Any, float]] = {}
    for record in records:
        for name, share in record.majority.items():
            found.setdefault(name, {})[record.data_seed] = share
    return {name: fmean(found[name].values()) for name in tests if name in found}


def _tuning(schedule: Schedule, records: Records) -> list[TunedSetting]:
    """Every setting that was tried, with its mean score by each rule, and whether it was chosen."""
    found = []
    for arm in schedule.plan.arms:
        for rule in schedule.plan.selections:
            scores = schedule.scores(arm, rule, records)
            chosen = schedule.chosen(arm, rule, records)
            for trials in by_setting(schedule.trials[arm.name]):
                got = [score for trial in trials if (score := scores[trial.number]) is not None]
                tried, failed = dict(trials[0].settings), len(trials) - len(got)
                numbers: Any = {"score": spread(got).mean, "scores": got, "trials": len(trials), "failed": failed}
                is_chosen = chosen is not None and dict(chosen.settings) == tried
                found.append(TunedSetting(arm=arm.name, selection=rule, settings=tried, chosen=is_chosen, **numbers))
    return found

"""Which model to use on a dataset: a fair comparison of simple models and GNNs in the time there is.

Test labels are never used. Candidates are compared on the validation environments and on training environments that
were left out of training; without validation environments on held-out training nodes.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note
from graphshift.core.progress import progress_bar
from graphshift.core.storage import read_json, write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators import Estimator, make_estimator, recorded_estimator
from graphshift.estimators.base import METHODS
from graphshift.studies.blending import FAMILIES, blend_plan, chosen_settings
from graphshift.studies.budget import Size, Sizing, fitted_to, time_left, timed
from graphshift.studies.candidates import ADAPTATIONS, candidates, is_needed
from graphshift.studies.choosing import Candidate, chosen, ranked, rule_of
from graphshift.studies.engines import LOCAL, Engine
from graphshift.studies.folder import BLEND
from graphshift.studies.notes import PlanNote, RecommendationNote
from graphshift.studies.plan import Plan
from graphshift.studies.progress import duration
from graphshift.studies.reasons import notes_on, paragraph, reason_of
from graphshift.studies.resolved import ResolvedPlan, load_data, resolve
from graphshift.studies.running import Study, computing_with, run_study
from graphshift.studies.summary import ArmSummary
from graphshift.studies.target_summary import TargetSummary, target_summaries


@dataclass(frozen=True)
class Answer:
    """What to use by one criterion, and why.

    Attributes:
        criterion: of :data:`~graphshift.studies.reasons.CRITERIA`.
        name: of the candidate in tables.
        adapt: the way of using the unlabelled graph that is predicted; None for none.
        settings: what to give ``graphshift fit`` or :func:`~graphshift.estimators.make_estimator`: those of the arm and
            those that tuning chose.
        score: the choosing score.
        error: its standard error over nodes and seeds; None where it is not known.
        reason: in words.
        candidates: all of them, the best first.
    """

    criterion: str
    name: str
    adapt: str | None
    settings: Mapping[str, Any]
    score: float
    error: float | None
    reason: str
    candidates: Sequence[Candidate]


@dataclass(frozen=True)
class Recommendation:
    """What to use on a dataset, with the evidence.

    Attributes:
        answers: by criterion; the first is the recommendation, the other is there if it was asked for.
        places: what the choosing score is the mean of.
        size: how much was compared.
        dropped: candidates for which the time was too short, and why.
        skipped: candidates that cannot be on these data, and why.
        notes: what a reader must know, such as a GNN that is below a simple model.
        target: what the recommended model predicts for unlabelled target environments.
        study: the comparison itself.
        blend: the study of the blend of its best model without a GNN and its best GNN; None where there is none.
    """

    answers: Mapping[str, Answer]
    places: Sequence[str]
    size: Size
    dropped: Mapping[str, str]
    skipped: Mapping[str, str]
    notes: Sequence[str]
    target: Sequence[TargetSummary]
    study: Study = field(repr=False)
    blend: Study | None = field(default=None, repr=False)

    @property
    def answer(self) -> Answer:
        """The recommendation."""
        return next(iter(self.answers.values()))

    @property
    def name(self) -> str:
        """Of the recommended candidate."""
        return self.answer.name

    @property
    def settings(self) -> dict[str, Any]:
        """Of the recommended candidate: method, backbone and what tuning chose."""
        return dict(self.answer.settings)

    @property
    def adapt(self) -> str | None:
        """What to give ``predict`` as ``adapt``."""
        return self.answer.adapt

    def estimator(self, seed: int = 0) -> Estimator:
        """The recommended model, not fitted: ``recommendation.estimator().fit(data)``."""
        return make_estimator({**self.answer.settings, "seed": seed}, self.study.plan.defaults)

    def summaries(self, criterion: str = "val") -> dict[str, ArmSummary]:
        """Of each candidate its summary, by name."""
        studies, rule = [self.study, *([] if self.blend is None else [self.blend])], rule_of(self.study, criterion)
        return {arm.arm: arm for one in studies for arm in one.summary.of_rule(rule)}

    @property
    def frame(self) -> pd.DataFrame:
        """One line for each candidate, the best first; test scores are there to be looked at, they chose nothing."""
        return pd.DataFrame(candidate_rows(self))

    def to_json(self) -> dict[str, Any]:
        """As plain values: what ``recommendation.json`` holds."""
        answers = {
            name: {part: value for part, value in asdict(one).items() if part != "criterion"}
            for name, one in self.answers.items()
        }
        content = {"format": 1, "dataset": self.study.plan.dataset, "metric": self.study.plan.metric}
        plain = {name: dict(getattr(self, name)) for name in ("dropped", "skipped")}
        content |= {"answers": answers, "places": list(self.places), "size": asdict(self.size), **plain}
        return content | {"notes": list(self.notes), "target": [one.to_json() for one in self.target]}

    def __str__(self) -> str:
        return paragraph(self)


def recommend_on(
    dataset: str | ShiftDataset,
    options: Mapping[str, Any] | None = None,
    *,
    budget: float,
    folder: Path | None = None,
    workers: int | None = 1,
    threads: int | None = None,
    engine: Engine = LOCAL,
    common: Mapping[str, Any] | None = None,
    misleading_edges: bool = False,
    force: bool = False,
    progress: bool = False,
    command: Sequence[str] = (),
) -> Recommendation:
    """Compares candidates in the time there is and recommends one.

    Args:
        dataset: a name, or data in memory.
        options: of a dataset that is loaded by name.
        budget: seconds.
        folder: where the study and ``recommendation.json`` go; a comparison that is there is resumed with its own size.
            None keeps all in memory.
        workers, threads, engine, force, progress, command: as in :func:`~graphshift.studies.running.run_study`.
        common: settings that all candidates share, as in :func:`~graphshift.studies.candidates.candidates`.
        misleading_edges: also answer for graphs whose edges may become misleading.
    """
    start = time.monotonic()
    threads = threads or engine.threads(workers)
    workers = engine.count(workers, threads)
    with computing_with(threads):
        data = dataset if isinstance(dataset, ShiftDataset) else load_data(dataset, options or {}, None)
        reading = 0.0 if isinstance(dataset, ShiftDataset) else time.monotonic() - start
        rules = _rules(data, misleading_edges)
        whole = plan_of(dataset, options or {}, data, Size(1, 0, 1, 1), common, rules=rules)
        checked = resolve(whole, data)
        sizing = None if force or folder is None else _kept_sizing(folder, checked.arms)
        if sizing is None:
            needed = [arm.name for arm in checked.arms if is_needed(arm, data, common)]
            epochs = _epochs(data, common)
            with _timing(len(checked.arms), enabled=progress) as report:
                costs, slow = timed(checked, data, needed, budget, report=report)
            if not costs:
                raise GraphshiftError(f"no candidate could be fitted; the first: {next(iter(slow.values()))}")
            last = max(cost.once(epochs) for cost in costs.values()) if data.target else 0.0
            left = time_left(budget, time.monotonic() - start + last, reading, workers, starts=2)
            how: dict[str, Any] = {"budget": budget, "workers": max(workers, 1), "rules": len(rules)}
            how["environments"] = len(checked.left_out)
            how["blended"] = [[a.name for a in checked.arms if a.settings["method"] in g] for g in FAMILIES]
            sizing = fitted_to(costs, needed, epochs, left, **how)
            sizing = replace(sizing, dropped={**slow, **sizing.dropped})
    plan = plan_of(
        dataset, options or {}, data, sizing.size, common, rules=rules, names=sizing.arms, smaller=sizing.smaller
    )
    if progress:
        print(_said(sizing, checked, budget), file=sys.stderr)
    how_run: dict[str, Any] = {"workers": workers, "threads": threads, "force": force, "progress": progress}
    how_run["data"] = data  # read once, and its notes told once
    how_run["engine"] = engine
    study = run_study(plan, folder, command=command, **how_run)
    blend, skipped = None, dict(checked.skipped)
    further = blend_plan(study)
    if isinstance(further, Plan):
        if progress:
            print(f"and last: {further.arms[0].name}", file=sys.stderr)
        blend = run_study(further, None if folder is None else folder / BLEND, command=command, **how_run)
    else:
        skipped["Blend"] = further
    with computing_with(threads):
        found = recommendation(study, data, sizing.size, sizing.dropped, skipped, blend)
        found = replace(found, notes=[*found.notes, *_cut(sizing, _epochs(data, common))])
    if folder is not None:
        write_json(folder / "recommendation.json", found.to_json())
    return found


def plan_of(
    dataset: str | ShiftDataset,
    options: Mapping[str, Any],
    data: ShiftDataset,
    size: Size,
    common: Mapping[str, Any] | None = None,
    *,
    rules: Sequence[str],
    names: Sequence[str] | None = None,
    smaller: Mapping[str, Mapping[str, int]] | None = None,
) -> Plan:
    """The comparison as a plan.

    Args:
        dataset, options, data: what to compare on, and the data themselves.
        size: how much.
        common: as in :func:`~graphshift.studies.candidates.candidates`.
        rules: that choose epoch and setting.
        names: of the candidates to keep; None for all.
        smaller: settings of candidates that would take too long otherwise.
    """
    arms = []
    for arm in candidates(data, common):
        if names is None or arm.name in names:
            epochs = {"epochs": size.epochs} if METHODS[arm.settings["method"]].uses_backbone else {}
            arms.append(replace(arm, settings={**arm.settings, **epochs, **(smaller or {}).get(arm.name, {})}))
    ways = ADAPTATIONS if data.task.is_classification else ("norm",)
    scored: dict[str, Any] = {"selections": rules, "adapt": ways, "resample": True, "leave_out": size.leave_out}
    return Plan(dataset, arms, range(size.seeds), options, trials=size.trials, **scored)  # type: ignore[arg-type]


def recommendation(
    study: Study,
    data: ShiftDataset,
    size: Size,
    dropped: Mapping[str, str],
    skipped: Mapping[str, str],
    blend: Study | None = None,
) -> Recommendation:
    """What a finished comparison recommends; the recommended model is fitted once if there is a target to predict."""
    criteria = ["val", *(["adversarial_val"] if "explored" in study.plan.selections else [])]
    answers = {name: one for name in criteria if (one := _answer(study, name, blend)) is not None}
    if "val" not in answers:
        raise GraphshiftError(f"no run finished; the first failure: {study.summary.failed[0].reason}")
    answer = answers["val"]
    skipped = {**skipped, **{one.what: one.reason for one in study.summary.skipped}}
    if blend is not None and not any(one.blend for one in answer.candidates):
        why = blend.summary.failed[0].reason if blend.summary.failed else "it has no score in every place"
        skipped[blend.plan.arms[0].name] = why or "it failed"
    notes = notes_on(study, answer)
    target: list[TargetSummary] = []
    if data.target:
        model = recorded_estimator({**_complete(study, answer), "seed": study.plan.seeds[0]})
        target = target_summaries(model.fit(data.train, data.val), data, adapt=answer.adapt)
    places = list(answer.candidates[0].places)
    return Recommendation(answers, places, size, dropped, skipped, notes, target, study, blend)


def _answer(study: Study, criterion: str, blend: Study | None) -> Answer | None:
    found = ranked(study, criterion, blend)
    if not found:
        return None
    best, rule = chosen(found, study.plan.metric), rule_of(study, criterion)
    home = blend if best.blend and blend is not None else study
    settings = {**chosen_settings(home, best.arm, rule), "selection": rule}
    reason = reason_of(found, best, study.plan.metric)
    return Answer(criterion, best.name, best.adapt, settings, best.score, best.error, reason, found)


def _complete(study: Study, answer: Answer) -> dict[str, Any]:
    return make_estimator(answer.settings, study.plan.defaults).settings()


def candidate_rows(found: Recommendation, criterion: str = "val") -> list[dict[str, Any]]:
    """For each candidate its scores, unrounded, the best first."""
    study, summaries, rows = found.study, found.summaries(criterion), []
    for one in found.answers[criterion].candidates:
        own = summaries[one.name]
        row: dict[str, Any] = {"candidate": one.name, "recommended": one.name == found.answers[criterion].name}
        row |= {"score": one.score, "error": one.error, "behind": one.behind, "behind_error": one.behind_error}
        row |= one.places
        row |= {"mean_test": own.mean_test.mean, "worst_test": own.worst_test.mean} if study.plan.tests else {}
        rows.append({**row, "seconds": own.seconds, "adapt": one.adapt, "method": own.method, "backbone": own.backbone})
    return rows


def _rules(data: ShiftDataset, misleading_edges: bool) -> tuple[str, ...]:
    if not data.val:
        return ("id_val",)
    return ("val", "explored") if misleading_edges else ("val",)


def _epochs(data: ShiftDataset, common: Mapping[str, Any] | None) -> int:
    """Of a whole fit: what the user says, else the dataset, else the general default."""
    first = next(arm for arm in candidates(data, common) if arm.settings["method"] == "erm")
    return int(make_estimator(first.settings, data.defaults).settings()["epochs"])


#: Settings of a candidate that is made smaller for want of time.
_SMALLER = ("trees", "rows_per_tree")


def _kept_sizing(folder: Path, arms: Sequence[Any]) -> Sizing | None:
    """That of the comparison that is there: timing might choose another, and the study could not be resumed."""
    if not (folder / "plan.json").is_file():
        return None
    plan = checked_note(PlanNote, read_json(folder / "plan.json"), where=str(folder / "plan.json"))
    names = [arm.name for arm in plan.arms]
    epochs = next((arm.settings["epochs"] for arm in plan.arms if "epochs" in arm.settings), None)
    if not plan.resample or not isinstance(epochs, int) or not 0 < epochs < 2**31:
        raise GraphshiftError(f"{folder}: holds another study; choose another --out, or replace it (--force).")
    size = Size(len(plan.seeds), plan.trials, epochs, plan.leave_out)
    dropped = {arm.name: "left out when the comparison was begun" for arm in arms if arm.name not in names}
    if (kept := folder / "recommendation.json").is_file():
        known = checked_note(RecommendationNote, read_json(kept), where=str(kept)).dropped
        dropped |= {name: why for name, why in known.items() if name in dropped}
    made = {arm.name: {name: arm.settings[name] for name in _SMALLER if name in arm.settings} for arm in plan.arms}
    return Sizing(size, names, dropped, 0.0, {name: own for name, own in made.items() if own})


@contextmanager
def _timing(total: int, *, enabled: bool) -> Iterator[Callable[[int, str], None] | None]:
    """A bar while candidates are timed."""
    if not enabled:
        yield None
        return
    with progress_bar("timing every candidate", total, unit="candidates") as report:
        yield lambda done, name: report({"epoch": done})


def _cut(sizing: Sizing, epochs: int) -> list[str]:
    """What was made smaller than its defaults for want of time, in words."""
    found = []
    if sizing.size.epochs < epochs:
        found.append(f"For want of time GNNs were trained for {sizing.size.epochs} of {epochs} epochs; give more.")
    for name, own in sizing.smaller.items():
        rows = f", each grown from {own['rows_per_tree']:,} nodes" if own.get("rows_per_tree") else ""
        found.append(f"For want of time {name} had {own['trees']} trees{rows}.")
    return found


def _said(sizing: Sizing, plan: ResolvedPlan, budget: float) -> str:
    """What will be done, in words."""
    size = sizing.size
    tuned = f"{size.trials} tuning trials" if size.trials else "no tuning"
    left = f", {len(plan.left_out)} training environments left out in turn" if size.leave_out and plan.left_out else ""
    seeds = f"{size.seeds} seed{'s' * (size.seeds != 1)}"
    done = f"{len(sizing.arms)} candidates, {seeds}, {tuned}, {size.epochs} epochs{left}"
    if not sizing.seconds:
        return f"{done}: the size of the comparison that is there is kept, whatever the budget; --force starts anew"
    over = sizing.seconds > budget
    taking = f"{done}; about {duration(sizing.seconds)} of {duration(budget)}"
    words = [f"not tried: {name}: {why}" for name, why in sizing.dropped.items()]
    words += _cut(sizing, size.epochs)
    words += ["even the smallest comparison takes longer than the budget; it is done all the same"] if over else []
    return "\n".join([taking, *words])

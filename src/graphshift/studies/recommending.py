"""Which model to use on a dataset: a fair comparison of simple models and GNNs in the time there is.

Test labels are never used. Candidates are compared on the validation environments and on training environments that
were left out of training; without validation environments on held-out training nodes. Where there is an unlabelled
target, what is expected on it counts too (``expecting.py``).
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import error_console
from graphshift.core.storage import write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators import Estimator, make_estimator, recorded_estimator
from graphshift.estimators.base import METHODS
from graphshift.estimators.predictor import Graphs
from graphshift.shift.comparing.compare import Comparison
from graphshift.studies.blending import FAMILIES, blend_plan, chosen_settings, family_of
from graphshift.studies.budget import Size, fitted_to, time_left, timed
from graphshift.studies.candidates import ADAPTATIONS, candidates, is_needed
from graphshift.studies.choosing import Candidate, chosen, ranked, rule_of
from graphshift.studies.engines import LOCAL, Engine
from graphshift.studies.expecting import (
    chosen_on_target,
    doubts,
    evidence_of,
    moved_on,
    reason_on_target,
    with_expected,
    with_target,
)
from graphshift.studies.folder import BLEND
from graphshift.studies.plan import COMMITTEE, Plan
from graphshift.studies.reasons import notes_on, paragraph, reason_of
from graphshift.studies.resolved import load_data, resolve, unexpected
from graphshift.studies.running import Study, computing_with, run_study
from graphshift.studies.sizing import kept_sizing, timing, words_on_cuts, words_on_size
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
        answers: by criterion, ``"val"`` or, with a target, ``"target"``; the other is there if it was asked for.
        places: what the choosing score is the mean of.
        size: how much was compared.
        dropped: candidates for which the time was too short, and why.
        skipped: candidates that cannot be on these data, and why.
        notes: what a reader must know, such as a GNN that is below a simple model.
        target: what the recommended model predicts for unlabelled target environments.
        moved: what has moved between the training graphs and the largest of these.
        study: the comparison itself.
        blend: the study of the blends of its best models; None where there is none.
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
    moved: Sequence[Comparison] = ()

    @property
    def criterion(self) -> str:
        """By which it was chosen: ``"val"``, or ``"target"``."""
        return next(iter(self.answers))

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

    def summaries(self, criterion: str | None = None) -> dict[str, ArmSummary]:
        """Of each candidate its summary, by name."""
        studies, rule = (
            [self.study, *([] if self.blend is None else [self.blend])],
            rule_of(self.study, criterion or self.criterion),
        )
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
        content |= {"notes": list(self.notes), "target": [one.to_json() for one in self.target]}
        return content | ({"moved": [one.to_json() for one in self.moved]} if self.moved else {})

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
    target: Graphs | str | None = None,
    committee: bool = False,
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
        target: unlabelled graphs to choose for, beside the role ``target`` of the data: graphs, ``"tests"`` for the
            tests without their labels, or ``"NODES.csv,EDGES.csv"`` for data of tables.
        committee: also try the mean of one model of every candidate.
    """
    start = time.monotonic()
    threads = threads or engine.threads(workers)
    workers = engine.count(workers, threads)
    with computing_with(threads):
        data = dataset if isinstance(dataset, ShiftDataset) else load_data(dataset, options or {}, None)
        reading = 0.0 if isinstance(dataset, ShiftDataset) else time.monotonic() - start
        seen, looks = with_target(data, target)
        if seen is not data:  # workers cannot load it by name
            dataset, data, options = seen, seen, {}
        rules, unseen = _rules(data, misleading_edges), unexpected(data) if looks else ""
        planned: dict[str, Any] = {"rules": rules, "expect": looks and not unseen}
        moved: list[Comparison] = []
        said = [f"The target did not help to choose: {unseen}."] if unseen else []
        if looks:
            with error_console().status("comparing the target with training …") if progress else nullcontext():
                moved, more = moved_on(data)
            said += more
        whole = plan_of(dataset, options or {}, data, Size(1, 0, 1, 1), common, **planned)
        checked = resolve(whole, data)
        sizing = None if force or folder is None else kept_sizing(folder, checked.arms)
        if sizing is None:
            needed = [arm.name for arm in checked.arms if is_needed(arm, data, common)]
            epochs = _epochs(data, common)
            with timing(len(checked.arms), enabled=progress) as report:
                costs, slow = timed(checked, data, needed, budget, report=report)
            if not costs:
                raise GraphshiftError(f"no candidate could be fitted; the first: {next(iter(slow.values()))}")
            last = max(cost.once(epochs) for cost in costs.values()) if data.target else 0.0
            left = time_left(budget, time.monotonic() - start + last, reading, workers, starts=2)
            how: dict[str, Any] = {"budget": budget, "workers": max(workers, 1), "rules": len(rules)}
            how["environments"] = len(checked.left_out)
            how["blended"] = [[a.name for a in checked.arms if family_of(a.settings) == one] for one in FAMILIES]
            how["committee"] = committee
            sizing = fitted_to(costs, needed, epochs, left, **how)
            sizing = replace(sizing, dropped={**slow, **sizing.dropped})
    planned |= {"names": sizing.arms, "smaller": sizing.smaller, "committee": committee}
    plan = plan_of(dataset, options or {}, data, sizing.size, common, **planned)
    if progress:
        print(words_on_size(sizing, checked, budget), file=sys.stderr)
    how_run: dict[str, Any] = {"workers": workers, "threads": threads, "force": force, "progress": progress}
    how_run["data"] = data  # read once, and its notes told once
    how_run["engine"] = engine
    study = run_study(plan, folder, command=command, **how_run)
    blend, skipped = None, dict(checked.skipped)
    further = blend_plan(study)
    if isinstance(further, Plan):
        if progress:
            print(f"and last: {', '.join(arm.name for arm in further.arms)}", file=sys.stderr)
        blend = run_study(further, None if folder is None else folder / BLEND, command=command, **how_run)
    else:
        skipped["Blend"] = further
    with computing_with(threads):
        found = recommendation(study, data, sizing.size, sizing.dropped, skipped, blend)
        notes = [*found.notes, *words_on_cuts(sizing, _epochs(data, common)), *said]
        found = replace(found, notes=notes, moved=moved)
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
    expect: bool = False,
    committee: bool = False,
) -> Plan:
    """The comparison as a plan.

    Args:
        dataset, options, data: what to compare on, and the data themselves.
        size: how much.
        common: as in :func:`~graphshift.studies.candidates.candidates`.
        rules: that choose epoch and setting.
        names: of the candidates to keep; None for all.
        smaller: settings of candidates that would take too long otherwise.
        expect: whether the score on the unlabelled target is estimated.
        committee: whether the mean of one model of each is a candidate too.
    """
    arms = []
    for arm in candidates(data, common):
        if names is None or arm.name in names:
            epochs = {"epochs": size.epochs} if METHODS[arm.settings["method"]].uses_backbone else {}
            arms.append(replace(arm, settings={**arm.settings, **epochs, **(smaller or {}).get(arm.name, {})}))
    arms += [COMMITTEE] if committee else []
    ways = ADAPTATIONS if data.task.is_classification else ("norm",)
    scored: dict[str, Any] = {"selections": rules, "adapt": ways, "resample": True, "leave_out": size.leave_out}
    scored["expect"] = expect
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
    main = "target" if study.plan.expect else "val"
    criteria = [main, *(["adversarial_val"] if "explored" in study.plan.selections else [])]
    answers = {name: one for name in criteria if (one := _answer(study, name, blend)) is not None}
    if main not in answers:
        raise GraphshiftError(f"no run finished; the first failure: {study.summary.failed[0].reason}")
    answer = answers[main]
    skipped = {**skipped, **{one.what: one.reason for one in study.summary.skipped}}
    if blend is not None:
        failed = {one.arm: one.reason or "it failed" for one in blend.summary.failed}
        absent = [arm.name for arm in blend.plan.arms if not any(arm.name == one.arm for one in answer.candidates)]
        skipped |= {name: failed.get(name, "it has no score in every place") for name in absent}
    notes = notes_on(study, answer)
    if main == "target":
        notes += doubts(next(one for one in answer.candidates if one.name == answer.name), study.plan.metric)
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
    metric, rule = study.plan.metric, rule_of(study, criterion)
    if criterion == "target":
        evidence = evidence_of([study, *([] if blend is None else [blend])], found)
        best, first = chosen_on_target(found, evidence, metric)
        reason = reason_on_target(best, first, evidence, metric)
        found = with_expected(found, evidence, metric)
    else:
        best = chosen(found)
        reason = reason_of(found, best, metric)
    home = blend if best.blend and blend is not None else study
    settings = {**chosen_settings(home, best.arm, rule), "selection": rule}
    return Answer(criterion, best.name, best.adapt, settings, best.score, best.error, reason, found)


def _complete(study: Study, answer: Answer) -> dict[str, Any]:
    return make_estimator(answer.settings, study.plan.defaults).settings()


def candidate_rows(found: Recommendation, criterion: str | None = None) -> list[dict[str, Any]]:
    """For each candidate its scores, unrounded, the best first."""
    criterion = criterion or found.criterion
    study, summaries, rows = found.study, found.summaries(criterion), []
    for one in found.answers[criterion].candidates:
        own = summaries[one.name]
        row: dict[str, Any] = {"candidate": one.name, "recommended": one.name == found.answers[criterion].name}
        row |= {"score": one.score, "error": one.error, "behind": one.behind, "behind_error": one.behind_error}
        if criterion == "target":
            expected = asdict(one.expected) if one.expected is not None else {}
            row |= {f"expected_{name}": expected.get(name) for name in ("score", "low", "high", "refused")}
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

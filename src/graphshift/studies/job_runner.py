"""Runs jobs: a fit, its scores, its record. A failure becomes a record too."""

import math
import re
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import SEEN, ShiftDataset
from graphshift.data.environment import Environment
from graphshift.estimators import Ensemble, Estimator, recorded_estimator
from graphshift.estimators.adaptation import LEARNED, WITHOUT_EDGES, parts_of
from graphshift.estimators.direct import DirectEstimator
from graphshift.estimators.estimating import Estimate
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Predictor
from graphshift.fitting.fit import peak_rss_mb, seconds_per_epoch
from graphshift.methods.blend import Blend
from graphshift.shift.estimating import estimate_score
from graphshift.studies.jobs import Job
from graphshift.studies.limit import in_domain
from graphshift.studies.plan import member_seeds
from graphshift.studies.records import Adapted, EnsembleScores, Record, Selected
from graphshift.studies.resampling import resampled_scores
from graphshift.studies.resolved import load_data
from graphshift.training.callbacks import Callback
from graphshift.training.loggers import opened_loggers
from graphshift.training.loop import Choice
from graphshift.training.selection import SELECTIONS, Roles


@dataclass(frozen=True)
class Log:
    """The experiment trackers of a study: what its fits are grouped under, and each ``NAME`` or ``NAME:PLACE``."""

    group: str
    wanted: Sequence[str] = ()


NO_LOG = Log("")


class JobRunner:
    """Runs jobs of one dataset one after another; it keeps the data of the latest."""

    def __init__(
        self, dataset: str, options: Mapping[str, Any], data: ShiftDataset | None = None, log: Log = NO_LOG
    ) -> None:
        self.dataset, self.options, self.log = dataset, options, log
        #: by the data seed that the plan gave; None if it gave none
        self.loaded: dict[int | None, ShiftDataset] = {} if data is None else {None: data}

    def run(self, job: Job) -> Record:
        """The record of a job."""
        data_seed = job.data_seed if job.draws_data else None
        if data_seed not in self.loaded:
            self.loaded.clear()  # before the next are loaded: one at a time
            try:
                self.loaded[data_seed] = load_data(self.dataset, self.options, data_seed)
            except Exception as error:
                return failed(job, reason_of(error))
        return attempt(job, self.loaded[data_seed], self.log)


def attempt(job: Job, data: ShiftDataset, log: Log = NO_LOG) -> Record:
    """Runs a job; a failure is recorded with its reason, so that one bad setting does not end a study."""
    reset_peak()
    try:
        if job.kind == "left_out":
            data = without_one(data, job.environment, job.settings["seed"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphshiftWarning)  # those about the data have been shown
            found = in_domain(job, data) if job.kind == "limit" else _logged(job, data, log)
    except Exception as error:
        return failed(job, reason_of(error))
    return record_of(job, status="ok", metric=data.task.metric, peak_rss_mb=_peak_mb(), **found)


def without_one(data: ShiftDataset, name: str | None, seed: int = 0) -> ShiftDataset:
    """The data with one training environment in the place of the tests.

    If it is the only one, the validation environments train instead, and a fifth of their nodes validates (``seed``
    draws them).
    """
    left = [e for e in data.train if e.name == name]
    hidden = [e.unlabelled().replace(name=f"{e.name}, unlabelled") for e in left if data.target]
    train, val = [e for e in data.train if e.name != name], list(data.val)
    if not train:
        kept, held = SELECTIONS["id_val"].split(Roles(val, (), (), seed))
        train, val = list(kept), [e.replace(name=f"{e.name}, held out") for e in held]
    return replace(data, train=train, val=val, tests=left, target=hidden)


def failed(job: Job, reason: str) -> Record:
    """The record of a job that gave nothing."""
    return record_of(job, status="failed", reason=reason, selections={})


def record_of(job: Job, **found: Any) -> Record:
    """The record of a job; ``found`` is what came of it, as fields of a record."""
    same = ("kind", "id", "dataset", "arm", "data_seed", "trial", "environment")
    found |= {name: getattr(job, name) for name in same}
    found |= {name: job.settings.get(name) for name in ("method", "backbone", "explorer", "seed")}
    found |= {"settings": dict(job.settings), "tuned": dict(job.tuned)}
    return Record(threads=torch.get_num_threads(), version=__version__, **found)


def _logged(job: Job, data: ShiftDataset, log: Log) -> dict[str, Any]:
    """A fit, and its scores by each rule where it is logged. A tracker that fails does not end a study."""
    with opened_loggers(log.wanted, group=log.group, name=job.id, strict=False) as loggers:
        found = _fitted(job, data, loggers)
        for rule, chosen in found["selections"].items() if loggers else ():
            prefix = "" if rule == job.rules[0] else f"{rule}."
            scores = {f"{prefix}{name}": getattr(chosen, name) for name in ("val", "tests")}
            for logger in loggers:
                logger.scores(scores)
    return found


def _fitted(job: Job, data: ShiftDataset, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
    """A trial never looks at the tests' labels, unless the rule that does is asked for; a run scores them once.

    ``fit`` sees to it: it hides the labels from methods that train with the tests' graphs, and the tests from others.

    Of an ensemble the first member is listened to.
    """
    members = [
        _fit(_remembering(recorded_estimator({**job.settings, "seed": seed}), data), job, data, () if i else callbacks)
        for i, seed in enumerate(member_seeds(job.settings["seed"], job.ensemble))
    ]
    chosen = [_choices(member, job.rules[0]) for member in members]
    model, final = members[0], job.kind in ("run", "left_out")
    selections: dict[str, Selected] = {}
    for rule, own in chosen[0].items():
        for member, choices in zip(members, chosen, strict=True):
            member.take(choices[rule])
        selections[rule] = Selected(epoch=own.epoch, score=own.score, val=_on_validation(model, data), tests={})
        if final:
            selections[rule] = _scored(selections[rule], rule, members, data, job)
    variances = [row["variance"] for row in model.history_ if "variance" in row]
    return {
        "selections": selections,
        "trained_with": list(dict.fromkeys([*data.facts.get(SEEN, ()), *model.target_])),
        "majority": {e.name: e.majority for e in data.tests if e.majority is not None} if final else {},
        "seconds": sum(member.seconds_ for member in members),
        "seconds_per_epoch": seconds_per_epoch(model),
        "variance": fmean(variances) if variances else None,
        "curve": _curve(model) if final else None,
    }


def _fit(model: Estimator, job: Job, data: ShiftDataset, callbacks: Sequence[Callback]) -> Estimator:
    """All settings are decided, so the dataset's defaults are not asked. Without a target the rule takes the tests."""
    chooses = any(SELECTIONS[rule].uses_target for rule in job.rules)
    target: Any = data.target if (model.uses_target or chooses) and data.target else None
    if target is None and chooses and getattr(model, "target", "none") == "none":  # such a method trains without them
        target = "tests"
    if not job.expect:  # the expected score stands on what prediction sets do
        model.only_for(job.adapt)
    return model.fit(data.train, data.val, data.tests, target=target, also=job.rules[1:], callbacks=callbacks)


def _remembering(model: Estimator, data: ShiftDataset) -> Estimator:
    """Has a model without a GNN predict every graph of the data once, however often it is scored: trees take time.

    Such members of a blend as well.
    """
    if isinstance(model, Blend):
        made = model.new_members
        model.new_members = lambda: [_remembering(member, data) for member in made()]  # type: ignore[method-assign]
    if isinstance(model, DirectEstimator):
        own = {id(e) for role in data.roles.values() for e in role}
        known: dict[int, torch.Tensor] = {}
        predict = model.predict_plain

        def predict_once(environment: Environment) -> torch.Tensor:
            if id(environment) not in own:  # a copy of one, which is soon forgotten
                return predict(environment)
            if id(environment) not in known:
                known[id(environment)] = predict(environment)
            return known[id(environment)]

        model.predict_plain = predict_once  # type: ignore[method-assign]
    return model


def _scored(selected: Selected, rule: str, members: Sequence[Estimator], data: ShiftDataset, job: Job) -> Selected:
    """What a rule chose in a final run, with the scores on validation after edits, on training and on the tests."""
    model, columns = members[0], data.facts.get("spurious_columns")
    held = _held_out(data, job) if rule == "id_val" else ()
    edited = [score for e in data.val if (score := model.score_edited(e)) is not None]
    found = _on_tests(members[:1], data, job, rule, held) | {"adversarial_val": fmean(edited) if edited else None}
    if job.expect:
        found |= _expected(model, data, found["adapted"], calibrated=rule == job.rules[0])
    if job.ensemble > 1:
        val = _on_validation(Ensemble(members), data)
        found["ensemble"] = EnsembleScores(members=job.ensemble, val=val, **_on_tests(members, data, job, rule, held))
    if columns is not None:  # Fig. 2b: without the columns that the dataset knows to be spurious
        found["train_without_spurious"] = fmean(model.score(e.without(columns)) for e in data.train)
    return replace(selected, train=fmean(model.score(e) for e in data.train), **found)


def _expected(
    model: Estimator, data: ShiftDataset, adapted: Mapping[str, Adapted], *, calibrated: bool
) -> dict[str, Any]:
    """What a model is expected to score on the unlabelled graphs; with batch statistics of these as well.

    Other ways of using them change what the estimates stand on, so nothing is said of these. A model that cannot take
    the copies is left without.
    """
    graphs = [e.replace(y=None) for e in data.target or data.tests]
    found: dict[str | None, dict[str, Estimate]] = {}
    if not calibrated:  # another rule's epoch
        model.calibrate(data.val)
    for way in (None, *(["norm"] if "norm" in adapted else [])):
        try:
            estimates = estimate_score(model, graphs, data.val, adapt=way, seed=0)
        except GraphshiftError:
            continue
        assert isinstance(estimates, dict)  # of several graphs
        found[way] = {name: replace(one, remarks=()) for name, one in estimates.items() if one.by}
    own = {way: replace(one, expected=found.get(way, {})) for way, one in adapted.items()}
    return {"expected": found.get(None, {}), "adapted": own}


def _choices(model: Estimator, first: str) -> Mapping[str, Choice]:
    """By rule what it chose."""
    return {first: Choice(model.best_epoch_, model.best_score_, model.arrays())} | model.also_


def _on_validation(model: Predictor, data: ShiftDataset, adapt: str | None = None) -> float | None:
    return fmean(model.score(e, adapt=adapt) for e in data.val) if data.val else None


def _held_out(data: ShiftDataset, job: Job) -> Sequence[Environment]:
    """The training nodes that the rule ``id_val`` held out of this job's training."""
    return SELECTIONS["id_val"].split(_roles(data, job))[1]


def _roles(data: ShiftDataset, job: Job) -> Roles:
    return Roles(data.train, data.val, (), job.settings["seed"])


def _resampled(
    model: Predictor, data: ShiftDataset, job: Job, held: Sequence[Environment], way: str | None = None
) -> dict[str, list[float]]:
    """Scores of resampled nodes of what a rule chooses by (held-out nodes, if there are any) and of the tests."""
    places = {"val": held or data.val, "mean": data.tests} if job.resample else {}
    return {name: resampled_scores(model, found, adapt=way) for name, found in places.items() if found}


def _on_tests(
    members: Sequence[Estimator], data: ShiftDataset, job: Job, rule: str, held: Sequence[Environment] = ()
) -> dict[str, Any]:
    """Test scores of a model or an ensemble; with each way of using the unlabelled tests as well.

    Each way is scored on the validation graphs too, or on held-out training nodes (``held``), so that it can be chosen
    there. A way that the model cannot take is left out. The fit has calibrated what its first rule chose; other rules
    chose other weights.
    """
    graphs: Sequence[Environment] = (
        () if rule == "id_val" else data.val
    )  # its held-out nodes are known to the fit alone
    ways = job.adapt
    model = members[0] if len(members) == 1 else Ensemble(members)
    plain = {e.name: _finite(model.score(e), e.name) for e in data.tests}
    found: dict[str, Adapted] = {}
    fitting = [way for way in ways if members[0].can_adapt(way)]
    other = rule != job.rules[0]
    if other and any({"prior", *WITHOUT_EDGES} & {*parts_of(way)} for way in fitting) and graphs:
        for member in members:
            member.calibrate(graphs)  # the rule's own epoch
    if other and any({*LEARNED} & {*parts_of(way)} for way in fitting):
        training = SELECTIONS["id_val"].split(_roles(data, job))[0] if held else data.train
        for member in members:
            assert isinstance(member, GNNEstimator)  # no other can adapt so
            member.recall(training, held or graphs)
    for way in fitting:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphshiftWarning)  # refused there, it is what it would be without
            val = _on_validation(model, data, way)
            held_out = fmean(model.score(e, adapt=way) for e in held) if held else None
            drawn = _resampled(model, data, job, held, way)
        scores, refused = {}, {}
        for environment in data.tests:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", GraphshiftWarning)
                scores[environment.name] = _finite(model.score(environment, adapt=way), environment.name)
            if why := [str(one.message) for one in told if issubclass(one.category, GraphshiftWarning)]:
                refused[environment.name] = why[0] if len(why) == len(members) else f"{len(why)} members: {why[0]}"
        found[way] = Adapted(val=val, tests=scores, refused=refused, held_out=held_out, resampled=drawn)
    return {"tests": plain, "adapted": found, "resampled": _resampled(model, data, job, held)}


def _curve(model: Estimator) -> dict[str, list[float]] | None:
    """Where mean and variance of the risks go during training, at about twenty epochs."""
    rows = [row for row in model.history_ if "variance" in row]
    if not rows:
        return None
    kept = [rows[round(i)] for i in torch.linspace(0, len(rows) - 1, min(len(rows), 21)).tolist()]
    return {name: [float(f"{row[name]:.4g}") for row in kept] for name in ("epoch", "risk", "variance")}


def _finite(score: float, name: str) -> float:
    if not math.isfinite(score):
        raise GraphshiftError(f"environment {name!r}: the score is {score}; the metric is not defined there.")
    return score


def reason_of(error: Exception) -> str:
    """Why something failed, in one line and without a path of this machine."""
    if isinstance(error, GraphshiftError):
        return str(error)
    if isinstance(error, MemoryError) or re.search("(allocate|out of) memory", str(error)):
        return "this does not fit into memory; try low_memory, fewer explorers or edits, or a smaller graph."
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {' '.join(str(error).split())} ({Path(frame.filename).name}, line {frame.lineno})"


def reset_peak() -> None:
    """Forgets the largest amount of memory held so far, where the system can: a worker does many jobs."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not Linux: the peak is then that of the worker's whole life
        return


def _peak_mb() -> float | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return peak_rss_mb()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else peak_rss_mb()

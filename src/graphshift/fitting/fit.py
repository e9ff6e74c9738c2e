"""One fit from a dataset's name to a folder with its result: what ``graphshift fit`` does, without the printing."""

import contextlib
import json
import platform
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.folders import OwnedFolder, differences
from graphshift.core.hparams import hparams_of
from graphshift.core.parsing import checked_note
from graphshift.core.storage import read_json, write_json
from graphshift.data.dataset import SEEN, ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS
from graphshift.datasets import load
from graphshift.estimators import Estimator, Predictor, make_estimator
from graphshift.estimators.frames import prepared_target
from graphshift.fitting.confidence import assurance, outlook, too_sure
from graphshift.fitting.doubts import warnings_about
from graphshift.fitting.memory.advice import advice, show_size
from graphshift.fitting.memory.estimating import Estimate, estimate
from graphshift.fitting.memory.machine import available_bytes, give_back_freed, resident_bytes
from graphshift.fitting.notes import ConfigNote, ResultNote
from graphshift.fitting.predictions import prediction_table, write_table
from graphshift.training.loggers import opened_loggers
from graphshift.training.parallel import team
from graphshift.training.run import Run
from graphshift.training.selection import SELECTIONS

#: All that a run or an ensemble writes beside ``config.json`` and the members' folders.
_FILES = (
    "history.jsonl",
    "checkpoint.safetensors",
    "result.json",
    "model",
    "ensemble.json",
    "held_out.safetensors",
    "explored.safetensors",
    "preparation.json",
    "predictions.csv",
    "members",  # of a blend: their histories and checkpoints
)

#: Nodes of validation graphs whose copies are looked at after a fit.
MOST_EXPLORED = 50_000


@dataclass(frozen=True)
class FitRequest:
    """What to fit: a dataset with its options, and the settings that were given (the rest are defaults).

    ``target`` says which unlabelled graphs the rule ``target`` looks at: ``"tests"``, or ``NODES.csv,EDGES.csv``; None
    for the dataset's own role.
    """

    dataset: str
    options: Mapping[str, Any]
    given: Mapping[str, Any]
    target: str | None = None


def result_of(model: Estimator, data: ShiftDataset) -> dict[str, Any]:
    """The record of a fit; the tests are scored here, once."""
    chosen = {name: model.settings_.get(name) for name in ("backbone", "seed", "selection")}
    seconds = model.seconds_
    result = {"dataset": data.name, "method": model.method, "metric": data.task.metric, **chosen}
    result |= {"best_epoch": model.best_epoch_, "selection_score": model.best_score_, **mean_and_tests(model, data)}
    seen = list(dict.fromkeys([*data.facts.get(SEEN, ()), *model.target_]))
    result |= {"trained_with": seen} if seen else {}
    result["majority"] = {e.name: e.majority for e in data.tests if e.majority is not None}
    result |= {"seconds": seconds, "seconds_per_epoch": seconds_per_epoch(model), "peak_rss_mb": peak_rss_mb()}
    return result | {"version": __version__}


def seconds_per_epoch(model: Estimator) -> float | None:
    """Of the training; None for a method without epochs."""
    return model.seconds_ / max(len(model.history_), 1) if model.uses_backbone else None


def mean_and_tests(model: Predictor, data: ShiftDataset) -> dict[str, Any]:
    """The mean score of the validation environments, the score of each test, how sure the model is, what it predicts.

    ``target`` has the unlabelled environments, if there are some.
    """
    val = [model.score(environment) for environment in data.val]
    found = {"val": fmean(val) if val else None, "tests": {e.name: model.score(e) for e in data.tests}}
    return found | assurance(model, data) | ({"target": outlook(model, data.target)} if data.target else {})


def write_predictions(model: Predictor, data: ShiftDataset, folder: Path) -> None:
    """Writes ``predictions.csv`` for the unlabelled environments, if there are some."""
    if data.target:
        write_table(prediction_table(model, data, roles=["target"]), folder / "predictions.csv")


def low_memory(settings: Estimator) -> bool:
    """Whether a fit runs in the low-memory mode, which not every method has."""
    return bool(getattr(settings, "low_memory", False))


def peak_rss_mb() -> float | None:
    """The largest amount of memory that this process has held, in MB; None on Windows, which does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if platform.system() == "Darwin" else peak / 1024


def fit_in_folder(
    request: FitRequest,
    folder: Path,
    *,
    force: bool = False,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    progress: bool = False,
    data: ShiftDataset | None = None,
    memory_limit: int | None = None,
    prepare: Callable[[], None] | None = None,
    log: Sequence[str] = (),
) -> dict[str, Any]:
    """Fits and writes ``config.json``, ``history.jsonl``, ``model/`` and, last, ``result.json``.

    A dataset with unlabelled environments (role ``target``) gets ``predictions.csv`` for them.

    Args:
        request: what to fit.
        folder: where to write.
        force: replace the run that is there; nothing is removed before everything else was checked.
        resume: go on with the run that is there.
        checkpoint_every: seconds between checkpoints.
        progress: show a progress bar.
        data: the dataset, if it is loaded already.
        memory_limit: bytes that the process may hold. EERM takes its low-memory mode if only that stays below, and says
            so; what cannot stay below is a :class:`GraphshiftError`, before anything is written. None: a
            :class:`GraphshiftWarning` if the fit needs more than the system has.
        prepare: called when everything was checked, before anything is written.
        log: experiment trackers, each ``NAME`` or ``NAME:PLACE`` (:mod:`graphshift.training.loggers`). A fit that is
            resumed is a new run there, with the epochs that were done before.
    """
    data = load(request.dataset, **request.options) if data is None else data
    settings = make_estimator(request.given, data.defaults)
    target = _target(request, data, settings)
    give_back_freed()
    loading = peak_rss_mb()
    own = team()
    if own.size > 1 and memory_limit is not None:
        raise GraphshiftError(f"memory limit: {own.size} workers take none; leave it out.")
    if not own.leads:  # the first process checks, writes and scores
        if own.told(None):
            settings.fit(data, run=Run(folder))
        return {}
    expected, note = estimate(data, settings), ""
    if memory_limit is not None:
        mode = request.given.get("low_memory", _recorded_mode(folder) if resume else None)
        settings, expected, note = within_limit(data, settings, memory_limit, mode=mode)
    config = config_of(request, settings)
    done, begun = check_folder(folder, config, force=force, resume=resume)
    if done is not None:
        own.told(False)
        _tidy(Run(folder))
        return done
    if memory_limit is None:
        warn_if_too_large(data, settings, expected)
    elif expected.total > memory_limit:
        raise GraphshiftError(
            f"this fit needs {_about(expected)}, and the memory limit is "
            f"{show_size(memory_limit)}; nothing was written. {advice(data, settings, memory_limit)}"
        )
    elif note:
        warnings.warn(note, GraphshiftWarning, stacklevel=2)
    if low_memory(settings):
        give_back_freed(always=True)

    def begin() -> None:
        if prepare is not None:
            prepare()
        if begun:
            run_folder(folder).remove_leftovers()
        else:
            run_folder(folder).replace({"version": __version__, **config})

    own.told(True)
    run = Run(folder, checkpoint_every, begin=begin)
    with run_folder(folder).locked(), opened_loggers(log, group=data.name, name=_log_name(folder)) as loggers:
        try:
            settings.fit(data, target=target, run=run, progress=progress, callbacks=loggers)
        except BaseException:
            remove_unbegun(folder)
            raise
        result = finish(settings, data, run, expected, loading)
        for logger in loggers:
            logger.scores({name: result[name] for name in ("val", "tests", "seconds")})
        return result


def within_limit(
    data: ShiftDataset, settings: Estimator, limit: int, *, mode: bool | None = None
) -> tuple[Estimator, Estimate, str]:
    """The settings with the mode that a memory limit leads to, their estimate, and what to say if it was changed.

    Args:
        data: the dataset.
        settings: what was asked for.
        limit: bytes.
        mode: the low-memory mode that is decided already, by the user or by the run that is resumed; None if not.
    """
    able = "low_memory" in hparams_of(settings)
    if mode is not None and able:
        settings = settings.replace(low_memory=mode)
    expected = estimate(data, settings)
    if mode is not None or not able or low_memory(settings) or expected.total <= limit:
        return settings, expected, ""
    sparing = settings.replace(low_memory=True)
    lower = estimate(data, sparing)
    note = (
        f"low-memory mode was chosen: about {show_size(lower.total)}, where the usual mode needs about "
        f"{show_size(expected.total)} and the memory limit is {show_size(limit)}."
    )
    return sparing, lower, note


def warn_if_too_large(data: ShiftDataset, settings: Estimator, expected: Estimate) -> None:
    """Warns, with what to change, if a fit needs more than the system can give; the system may not tell."""
    free, held = available_bytes(), resident_bytes()
    if free is None or held is None or expected.total <= free + held:
        return
    ending = f"{show_size(free + held)} can be had; it may be ended by the system."
    message = f"this fit needs {_about(expected)}, and {ending} {advice(data, settings, free + held)}"
    warnings.warn(message, GraphshiftWarning, stacklevel=3)


def _about(expected: Estimate) -> str:
    return f"about {show_size(expected.total)}" + (f" ({expected.unknown})" if expected.unknown else "")


def _recorded_mode(folder: Path) -> bool | None:
    """The mode of the run that is there: a limit led to it, and near the limit it might not lead there again."""
    there = run_folder(folder).read()
    settings = there.get("settings") if isinstance(there, dict) else None
    found = settings.get("low_memory") if isinstance(settings, dict) else None
    return found if isinstance(found, bool) else None


def finish(
    model: Estimator, data: ShiftDataset, run: Run, expected: Estimate, loading: float | None = None
) -> dict[str, Any]:
    """Writes the model and, last, the result: it marks a finished run.

    ``loading`` is the peak before the fit, in MB.
    """
    place = run.folder / "model"
    result = result_of(model, data)
    run.mend()
    result |= {"loading_mb": loading, "estimated_mb": expected.megabytes, "low_memory": low_memory(model)}
    result["warnings"] = warnings_about(result, data) + too_sure(result)
    explore(model, data.val)
    model.save(place, overwrite=True)
    write_predictions(model, data, run.folder)
    write_json(run.folder / "result.json", result)
    for checkpoint in (run.checkpoint, *run.folder.glob("members/*/checkpoint.safetensors")):
        checkpoint.unlink(missing_ok=True)
    return result


def explore(model: Predictor, validation: Sequence[Environment]) -> None:
    """Looks at shifted copies of validation graphs, if there are some and they are not too large for it."""
    size = sum(e.num_nodes for e in validation)
    if model.task_.is_classification and model.held_out_ and 0 < size <= MOST_EXPLORED:
        with contextlib.suppress(GraphshiftError):  # too few labelled nodes; who asks for answers is told
            model.explore(validation)


def _log_name(folder: Path) -> str:
    """What a run is called in an experiment tracker: its folder, a member's with its ensemble's."""
    path = folder.resolve()
    return f"{path.parent.name}/{path.name}" if path.name.startswith("member-") else path.name


def _tidy(run: Run) -> None:
    """What a kill after the result can have left."""
    run.mend()
    run.checkpoint.unlink(missing_ok=True)
    run_folder(run.folder).remove_leftovers()


def run_folder(path: Path) -> OwnedFolder:
    """The folder of a run or an ensemble."""
    return OwnedFolder(path, "config.json", _FILES, members="member-*")


def check_folder(
    folder: Path, config: dict[str, Any], *, force: bool, resume: bool
) -> tuple[dict[str, Any] | None, bool]:
    """Whether this configuration may be run here. Changes nothing.

    Returns:
        The result if the folder holds this very run, finished; and whether it holds it begun, to be resumed.
    """
    occupied = run_folder(folder).is_occupied()
    if occupied and resume:
        there = read_json(folder / "config.json")
        checked_note(ConfigNote, there, where=str(folder / "config.json"))
        if differing := differences(there, {"version": __version__, **config}, where="config.json"):
            raise GraphshiftError(
                f"{folder}: holds a run with other settings, so it cannot be resumed: {'; '.join(differing)}. "
                "Give the same settings, or another --out."
            )
        result = folder / "result.json"
        return (read_result(result) if result.exists() else None), True
    if occupied and not force:
        raise GraphshiftError(
            f"{folder}: exists and is not empty; nothing was changed. Resume it (--resume), replace the run in it "
            "(--force), or choose another --out."
        )
    return None, False


def read_result(path: Path) -> dict[str, Any]:
    """The record of a finished run, checked."""
    content = read_json(path)
    note = checked_note(ResultNote, content, where=str(path))
    METRICS.find(note.metric, where=f"{path}: ")
    SELECTIONS.find(note.selection, where=f"{path}: ")
    for scores in (one.tests for one in note.members or ()):
        if scores.keys() != note.tests.keys():
            raise GraphshiftError(f"{path}: the members of the ensemble have other tests than their mean; damaged.")
    return dict(content)


def remove_unbegun(folder: Path) -> None:
    """Removes what a run wrote that failed before it finished an epoch: there is nothing to resume."""
    histories = [path for path in (folder / "history.jsonl", *folder.glob("members/*/history.jsonl")) if path.is_file()]
    if histories and not any(path.stat().st_size for path in histories):
        for name in ("config.json", "history.jsonl"):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "members", ignore_errors=True)


def config_of(request: FitRequest, settings: Estimator) -> dict[str, Any]:
    """What a run's ``config.json`` says, as JSON has it: paths and dates as text."""
    options = json.loads(json.dumps(dict(request.options), default=str))
    chosen = {} if request.target is None else {"target": request.target}
    return {"dataset": request.dataset, "options": options, "settings": settings.settings(), **chosen}


def _target(request: FitRequest, data: ShiftDataset, settings: Estimator) -> str | Environment | None:
    """The unlabelled graphs that were asked for."""
    text = request.target
    if text is None:
        return None
    if not SELECTIONS[settings.selection].uses_target:
        raise GraphshiftError(f"target is {text!r}, and selection {settings.selection!r} does not look at it.")
    if "," not in text:
        return text
    return prepared_target(data.facts.get("preparation"), text)

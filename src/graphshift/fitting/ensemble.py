"""Fits an ensemble into a folder: what ``graphshift fit --ensemble`` does, without the printing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note
from graphshift.core.storage import write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import load
from graphshift.estimators import make_estimator
from graphshift.estimators.ensemble import Ensemble, note_ensemble
from graphshift.estimators.explored import save_explored
from graphshift.estimators.held_out import save_held_out
from graphshift.estimators.loading import load_model
from graphshift.fitting.confidence import too_sure
from graphshift.fitting.doubts import warnings_about
from graphshift.fitting.fit import (
    FitRequest,
    check_folder,
    config_of,
    explore,
    fit_in_folder,
    mean_and_tests,
    peak_rss_mb,
    run_folder,
    write_predictions,
)
from graphshift.fitting.notes import ConfigNote

#: What the result of an ensemble takes from its first member's.
_SHARED = ("dataset", "method", "backbone", "seed", "metric", "selection", "majority", "seconds_per_epoch", "version")


def fit_ensemble(
    request: FitRequest, folder: Path, size: int, *, force: bool = False, resume: bool = False, **how: Any
) -> dict[str, Any]:
    """Fits members with consecutive seeds into ``member-1``, ``member-2`` …; ``result.json`` has their mean's scores.

    Args:
        request: what to fit; its seed is the first member's.
        folder: where to write.
        size: how many members.
        force, resume: as in :func:`fit_in_folder`. Resumed with a larger size, an ensemble grows.
        how: ``checkpoint_every``, ``progress``, ``memory_limit`` and ``log`` of :func:`fit_in_folder`.
    """
    data = load(request.dataset, **request.options)
    first = make_estimator(request.given, data.defaults)
    config = {**config_of(request, first), "ensemble": size}
    there = members_of(folder) if resume else None
    if there is not None and there > size:
        raise GraphshiftError(
            f"{folder}: holds an ensemble of {there}, and {size} are asked for; it can grow, not shrink: give "
            f"--ensemble {there} or more, or another --out."
        )
    grows = there is not None and there < size
    done, begun = check_folder(folder, config | ({"ensemble": there} if grows else {}), force=force, resume=resume)
    own = run_folder(folder)
    if done is not None and not grows:
        own.remove_leftovers()
        return done

    with own.locked():
        if begun:
            own.remove_leftovers()
        if grows:  # an interruption must not leave the smaller one's result
            for name in ("result.json", "ensemble.json"):
                (folder / name).unlink(missing_ok=True)
            write_json(folder / "config.json", {"version": __version__, **config})
        results = []
        for i in range(size):
            member = replace(request, given={**request.given, "seed": first.seed + i})
            # What is there is removed when the first member was checked: all of it, other members too.
            prepare = None if begun or i else lambda: own.replace({"version": __version__, **config})
            place = folder / f"member-{i + 1}"
            results.append(fit_in_folder(member, place, force=force, resume=begun, prepare=prepare, data=data, **how))
        note_ensemble(folder, size)
        return _finish(folder, data, results)


def members_of(folder: Path) -> int | None:
    """How many members the ensemble in a folder is to have; None where there is none."""
    there = run_folder(folder).read()
    return None if there is None else checked_note(ConfigNote, there, where=str(folder / "config.json")).ensemble


def _finish(folder: Path, data: ShiftDataset, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores the mean and writes the result: it marks a finished ensemble."""
    if (preparation := data.facts.get("preparation")) is not None:
        preparation.save(folder)
    ensemble = load_model(folder)
    assert isinstance(ensemble, Ensemble)
    ensemble.calibrate(data.val)
    explore(ensemble, data.val)
    note_ensemble(folder, len(results), ensemble.confidences_)
    save_held_out(folder, ensemble.held_out_)
    save_explored(folder, ensemble.explored_)
    write_predictions(ensemble, data, folder)
    seconds = sum(r["seconds"] for r in results)
    result = {name: results[0][name] for name in _SHARED} | {"seconds": seconds, "ensemble": len(results)}
    result |= {"trained_with": seen} if (seen := results[0].get("trained_with")) else {}
    result |= mean_and_tests(ensemble, data)
    result["members"] = [{name: r[name] for name in ("seed", "best_epoch", "val", "tests")} for r in results]
    result |= {"peak_rss_mb": peak_rss_mb(), "warnings": warnings_about(result, data) + too_sure(result)}
    write_json(folder / "result.json", result)
    return result

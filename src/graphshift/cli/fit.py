"""``graphshift fit``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.flags import check_owners, flags, given_settings, with_settings
from graphshift.cli.options import (
    Address,
    DataDir,
    EngineName,
    Force,
    Json,
    Log,
    Options,
    dataset_options,
    read_toml,
    stored_partition,
    toml_dataset,
)
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.fitting.fit import FitRequest


_ROOM = "as many as the cluster has room for"
_LIMIT = "what the process may hold, as 4GB: EERM takes its low-memory mode if it has to"


@with_settings
def fit(
    dataset: Annotated[
        str | None, Argument(metavar="DATASET", help="a dataset's name, a TOML file, or a partition's folder")
    ] = None,
    *,
    out: Annotated[Path | None, Option(metavar="DIR", help="where to write; default runs/…")] = None,
    option: Options = None,
    data_dir: DataDir = None,
    resume: Annotated[bool, Option("--resume", help="go on with the run in --out")] = False,
    force: Force = False,
    checkpoint_every: Annotated[float, Option(metavar="S", help="seconds between checkpoints", min=0.0)] = 30.0,
    memory_limit: Annotated[str | None, Option(metavar="SIZE", help=_LIMIT, show_default=False)] = None,
    ensemble: Annotated[
        int | None, Option(metavar="N", min=2, help="train N with consecutive seeds; their mean predicts")
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    workers: Annotated[
        int | None, Option(metavar="N", min=1, help="of --engine ray: how many share the batches", show_default=_ROOM)
    ] = None,
    log: Log = None,
    json_: Json = False,
    **settings: Any,
) -> None:
    """Train a GNN on a dataset, choose the epoch by a named rule, score it on the unseen environments.

    A setting that is not given takes the value that suits the dataset, else the default shown here.
    """
    from graphshift.fitting.ensemble import fit_ensemble, members_of
    from graphshift.fitting.fit import fit_in_folder
    from graphshift.fitting.memory import parse_size
    from graphshift.fitting.on_ray import fit_on_ray
    from graphshift.studies.engines import Engine
    from graphshift.training.loop import Interrupted

    limit = None if memory_limit is None else parse_size(memory_limit, where="--memory-limit")
    given = given_settings(settings)
    if resume and force:
        raise GraphshiftError("--resume and --force: give one; the first goes on, the second starts anew.")
    if dataset is None:
        request = _resumed_request(resume, out, given, option, data_dir)
        ensemble = ensemble if ensemble is not None or out is None else members_of(out)
    else:
        request = _request(dataset, given, option, data_dir)
    named = [request.given.get("method", "eerm"), request.given.get("backbone"), request.given.get("seed", 0)]
    named += [f"ensemble{ensemble}"] if ensemble else []
    name = request.options.get("name", request.dataset) if request.dataset == "own" else request.dataset
    folder = out or Path("runs") / "-".join([str(name), *(str(part) for part in named if part is not None)])
    how: dict[str, Any] = {"force": force, "resume": resume, "progress": not json_}
    how |= {"checkpoint_every": checkpoint_every, "log": log or ()}
    where = Engine(engine, address)
    idle = {"--memory-limit": memory_limit, "--ensemble": ensemble} if engine == "ray" else {"--workers": workers}
    for flag, value in idle.items():
        if value is not None:
            why = "--engine ray takes none; leave it out." if engine == "ray" else "it needs --engine ray."
            raise GraphshiftError(f"{flag} is {value}; {why}")
    try:
        if engine == "ray":
            result = fit_on_ray(
                request, folder, workers=workers, address=address, threads=where.threads(workers), **how
            )
        elif ensemble is None:
            result = fit_in_folder(request, folder, memory_limit=limit, **how)
        else:
            result = fit_ensemble(request, folder, ensemble, memory_limit=limit, **how)
    except Interrupted as error:
        raise Interrupted(f"{error} Go on with: graphshift fit --out {folder} --resume") from None
    if not result:  # one of several workers, and not the first
        return
    if json_:
        print(json.dumps(result, indent=2))
    else:
        _show(result, folder)


def _request(dataset: str, given: dict[str, Any], option: list[str] | None, data_dir: Path | None) -> FitRequest:
    from graphshift.estimators.settings import has_setting, make_estimator, short_names
    from graphshift.fitting.fit import FitRequest

    if (stored := stored_partition(dataset)) is not None:
        target = _target_of_rule(given, given.get("method", "eerm"))
        return FitRequest("partition", stored | dataset_options("partition", option, data_dir), given, target)
    if not dataset.endswith(".toml"):
        target = _target_of_rule(given, given.get("method", "eerm"))
        return FitRequest(dataset, dataset_options(dataset, option, data_dir), given, target)
    path = Path(dataset)
    content = read_toml(path)
    name, options = toml_dataset(content, path)
    filed = {short_names().get(k, k): v for k, v in content.items()}
    make_estimator(filed, where=f"{path}: ")
    target = _target_of_rule(given, given.get("method", filed.get("method", "eerm")))
    # What belongs to the file's choice does not belong to another that the command line makes instead.
    chosen = {**filed, **given}
    idle = [k for k in filed if k not in given and not has_setting(k, chosen)]
    for part, usual in (("backbone", None), ("explorer", "reinforce")):
        if f"{part}_options" in filed and given.get(part, filed.get(part, usual)) != filed.get(part, usual):
            idle.append(f"{part}_options")
    if idle := list(dict.fromkeys(idle)):
        now = ", ".join(str(chosen[part]) for part in ("method", "backbone", "explorer") if part in given)
        print(f"graphshift: note: {path}: {', '.join(idle)}: not used with {now}.", file=sys.stderr)
    merged = {k: v for k, v in filed.items() if k not in idle} | given
    return FitRequest(name, options | dataset_options(name, option, data_dir), merged, target)


def _target_of_rule(given: dict[str, Any], method: str) -> str | None:
    """Takes ``--target`` out of the settings where the method has none, so that it is the selection rule's; checks."""
    own = method in flags()["target"].owners
    target: str | None = None if own else given.pop("target", None)
    check_owners(given, method)
    return target


def _resumed_request(
    resume: bool, out: Path | None, given: dict[str, Any], option: list[str] | None, data_dir: Path | None
) -> FitRequest:
    from graphshift.core.parsing import checked_note
    from graphshift.core.storage import read_json
    from graphshift.estimators.settings import has_setting, recorded_estimator
    from graphshift.fitting.fit import FitRequest
    from graphshift.fitting.notes import ConfigNote

    if not resume or out is None:
        raise GraphshiftError("DATASET is missing; name a dataset or a TOML file, or give --out DIR --resume.")
    config = checked_note(ConfigNote, read_json(out / "config.json"), where=str(out / "config.json"))
    settings = recorded_estimator(config.settings, where=f"{out / 'config.json'}: ").settings()
    filed = {k: v for k, v in settings.items() if has_setting(k, settings)}
    name, options = config.dataset, config.options
    return FitRequest(name, options | dataset_options(name, option, data_dir), filed | given, config.target)


def _show(result: dict[str, Any], folder: Path) -> None:
    from graphshift.data.metrics import METRICS
    from graphshift.estimators import METHODS
    from graphshift.report.tables import print_table, show_score
    from graphshift.training.selection import LOOKED, SELECTIONS

    metric, tests, members = METRICS.find(result["metric"]), result["tests"], result.get("members")
    parts = [result["dataset"], METHODS.find(result["method"]).label, result["backbone"]]
    title = " · ".join(str(part) for part in parts if part is not None)
    columns = ["test environment", metric.title]
    if members is None:
        title = f"{title} · seed {result['seed']}"
        majority = {name: show_score(result["majority"].get(name), "accuracy") for name in tests}
        second, last, beside = majority, "", "largest class (%)" if metric.largest_class else None
        chosen = f"{result['selection']} ({metric.show(result['selection_score'])}), "
        pace = result["seconds_per_epoch"]  # a method without epochs has none
        note = (
            (f"epoch {result['best_epoch']} by {chosen}" if pace is not None else chosen)
            + f"{result['seconds']:.1f} s"
            + (f" ({pace:.3f} s an epoch), " if pace is not None else ", ")
            + _memory(result)
        )
    else:
        title, beside = f"{title} · ensemble of {result['ensemble']}", "a member alone, mean"
        second = {name: metric.show(fmean(member["tests"][name] for member in members)) for name in tests}
        last = metric.show(fmean(fmean(member["tests"].values()) for member in members)) if tests else ""
        note = f"epochs by {result['selection']}, {result['seconds']:.1f} s"
    rows = [[name, metric.show(value), second[name]] for name, value in tests.items()]
    if rows:
        rows.append(["mean", metric.show(fmean(tests.values())), last])
    else:  # what there is without tests
        columns[0], rows, beside = "validation", [["mean", metric.show(result["val"]), ""]], None
    columns += [beside] if beside else []
    print_table(title, columns, [row[: len(columns)] for row in rows], note=note)
    for name, found in result.get("target", {}).items():
        print(f"target {name}: {_outlook(found)}; in {folder / 'predictions.csv'}")
    if seen := result.get("trained_with"):
        print(f"trained with unlabelled graphs too: {', '.join(seen)}. A method without them has not seen as much.")
    for text in result.get("warnings", ()):  # of an earlier version there are none
        print(f"note: {text}")
    print(f"written to {folder}")
    if SELECTIONS[result["selection"]].uses_target:
        print(f"selection {result['selection']!r} {LOOKED}.")
    if members is None and SELECTIONS[result["selection"]].uses_tests:
        rule = result["selection"]
        print(f"selection {rule!r} chose the epoch on the tests: an upper bound, not a result to compare with.")


def _memory(result: dict[str, Any]) -> str:
    """The measured peak beside the estimate, which knows nothing of how tables are read."""
    peak, loading = result["peak_rss_mb"] or 0, result.get("loading_mb")
    measured = f"{peak:.0f} MB" if loading is None or loading < peak else f"less than the {peak:.0f} MB of loading"
    return f"{measured} (estimated {result.get('estimated_mb') or 0:.0f})"


def _outlook(found: dict[str, Any]) -> str:
    """What is predicted where nothing is labelled, in one line."""
    from graphshift.data.tasks import class_in_words

    if "shares" not in found:
        return f"{found['nodes']:,} nodes, mean {found['mean']:.4g}, standard deviation {found['deviation']:.4g}"
    largest = sorted(found["shares"].items(), key=lambda item: -item[1])
    shares = ", ".join(f"{class_in_words(name)} {100 * share:.0f} %" for name, share in largest[:5]) + ", …" * (
        len(largest) > 5
    )
    return f"{found['nodes']:,} nodes, {shares}, mean confidence {found['confidence']:.2f}"

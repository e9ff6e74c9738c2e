"""One fit by several workers of a Ray cluster: Ray's torch trainer starts them; each then does what ``fit`` does.

The workers are a group of ``torch.distributed`` (:mod:`graphshift.training.parallel`), as torchrun makes one. They read
a partition from a file system that all nodes share; other data go through Ray's object store, once. The first worker
writes the run's folder there. Where a worker or its node is lost, all begin again at the latest checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from graphshift._version import __version__
from graphshift.core.cluster import RETRIES, check_shared, check_versions, connect, room
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.progress import progress_bar
from graphshift.core.storage import read_json, write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.data.partition.format import MANIFEST
from graphshift.datasets import load
from graphshift.estimators import Estimator, make_estimator
from graphshift.estimators.gnn import GNNEstimator
from graphshift.fitting.fit import FitRequest, check_folder, config_of, fit_in_folder, read_result
from graphshift.training.loop import Interrupted
from graphshift.training.parallel import Team, shared_batches
from graphshift.training.run import Run

_LIMIT: dict[str, Any] = {"controller_failure_limit": RETRIES}  # of starts; Ray does not type it
_LOOKS = 0.5  # seconds between two looks at the history
_STARTS = "900"  # seconds that workers have to start, on a busy machine
_BEGUN, _SAID = "begun", "said.json"  # in the scratch folder: training has begun; warnings of the first worker


def fit_on_ray(
    request: FitRequest,
    folder: Path,
    *,
    workers: int | None = None,
    address: str | None = None,
    threads: int = 1,
    force: bool = False,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    progress: bool = False,
    log: Sequence[str] = (),
) -> dict[str, Any]:
    """Fits with several workers, and writes what :func:`~graphshift.fitting.fit.fit_in_folder` writes.

    Args:
        request: what to fit, in batches of parts or nodes.
        folder: where to write; all nodes see it.
        workers: how many; None for as many as the cluster has room for.
        address: of the cluster; None as in :class:`~graphshift.studies.engines.Engine`.
        threads: of each worker; a node needs as many processors for it.
        force, resume, checkpoint_every, progress, log: as in ``fit_in_folder``.
    """
    data = load(request.dataset, **request.options)
    settings = make_estimator(request.given, data.defaults)
    done, _ = check_folder(folder, config_of(request, settings), force=force, resume=resume)
    if done is not None:
        return done
    connect(address)
    there = room(address, threads)
    workers = workers or there
    if workers > there:
        raise GraphshiftError(
            f"workers is {workers}, and the Ray cluster has room for {there}; give fewer, or add nodes."
        )
    if workers > 1:
        if not isinstance(settings, GNNEstimator):
            raise GraphshiftError(f"method {settings.method} has no GNN to be trained by {workers} workers; give one.")
        shared_batches(settings.batches, Team(0, workers)).check(data.train)
    check_versions()
    stored = request.dataset == "partition"
    scratch = _scratch(folder)
    try:
        token = scratch / "token.json"
        write_json(token, {"graphshift": __version__})
        check_shared([token, *([Path(request.options["folder"]) / MANIFEST] if stored else [])])
        given = {
            "request": request,
            "folder": str(folder.resolve()),
            "scratch": str(scratch),
            "how": {"force": force, "resume": resume, "checkpoint_every": checkpoint_every, "log": list(log)},
            "data": [] if stored else [_put(data)],
            "place": str(Path(request.options["folder"]).resolve()) if stored else "",
            "threads": threads,
        }
        with progress_bar("fit", _epochs(settings) if progress else 0) as report:
            _until_done(given, workers, threads, folder, report)
        for text in read_json(scratch / _SAID) if (scratch / _SAID).is_file() else ():
            warnings.warn(str(text), GraphshiftWarning, stacklevel=2)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return read_result(folder / "result.json")


def _epochs(settings: Estimator) -> int:
    return settings.epochs if isinstance(settings, GNNEstimator) else 0


def _scratch(folder: Path) -> Path:
    """A folder beside the run's, for what Ray and the workers tell each other."""
    try:
        folder.resolve().parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{folder.name}-ray-", dir=folder.resolve().parent))
    except OSError as error:
        raise GraphshiftError(f"{folder.resolve().parent}: cannot be written to: {error.strerror}.") from None


def _put(data: ShiftDataset) -> Any:
    import ray

    return ray.put(data)


def _until_done(
    given: Mapping[str, Any], workers: int, threads: int, folder: Path, report: Callable[[Mapping[str, Any]], None]
) -> None:
    """Runs the workers, again where some were lost. Shows each epoch that the first of them has written."""
    for left in range(RETRIES, -1, -1):
        ended: list[BaseException | None] = []
        thread = threading.Thread(target=_run, args=(given, workers, threads, ended), daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_LOOKS)
                _show(folder, report)
        except KeyboardInterrupt:
            import ray

            ray.shutdown()  # ends the workers
            raise Interrupted("stopped; what the latest checkpoint holds is kept.") from None
        if ended == [None]:
            return
        reason = _reason(ended[0] if ended else None, last=not left)
        if reason:
            raise GraphshiftError(reason)


def _show(folder: Path, report: Callable[[Mapping[str, Any]], None]) -> None:
    with suppress(OSError, ValueError, IndexError):  # while it is written
        report(json.loads(Run(folder).history.read_text(encoding="utf-8").splitlines()[-1]))


def _run(given: Mapping[str, Any], workers: int, threads: int, ended: list[BaseException | None]) -> None:
    """One run of Ray's trainer; what it raised, or None, is put into ``ended``."""
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", _STARTS)
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"  # as Ray has it since 2.51
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    try:
        TorchTrainer(
            _work,
            train_loop_config=dict(given),
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": threads}),
            run_config=RunConfig(
                name="fit", storage_path=given["scratch"], failure_config=FailureConfig(max_failures=0, **_LIMIT)
            ),
        ).fit()
    except BaseException as error:  # whatever it is, the main thread says it
        ended.append(error)
    else:
        ended.append(None)


def _reason(error: BaseException | None, *, last: bool) -> str:
    """Why not to try again; empty if a worker was lost and another try is left."""
    found = list(getattr(error, "worker_failures", {}).values())
    for one in found:
        if isinstance(one, GraphshiftError):
            return str(one)
    if not last:
        return ""
    why = " ".join(f"{type(found[0]).__name__}: {found[0]}" if found else f"{error}").split()
    return (
        f"workers were lost {1 + RETRIES} times ({' '.join(why)[:300]}). What the latest checkpoint holds is kept: go "
        "on with the same command and --resume."
    )


def _work(given: Mapping[str, Any]) -> None:
    """What each worker does. A second try goes on with the run that the first one began."""
    import ray
    import torch

    torch.set_num_threads(given["threads"])
    request, folder, scratch = given["request"], Path(given["folder"]), Path(given["scratch"])
    if given["place"]:  # its digests were compared before the workers were started
        data = load("partition", **{**request.options, "folder": given["place"], "check": False})
    else:
        data = ray.get(given["data"][0])
    how = dict(given["how"])
    if (scratch / _BEGUN).is_file() and (folder / "config.json").is_file():
        how |= {"resume": True, "force": False}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", GraphshiftWarning)
        result = fit_in_folder(request, folder, data=data, prepare=(scratch / _BEGUN).touch, **how)
    if result:
        texts = [str(one.message) for one in said if issubclass(one.category, GraphshiftWarning)]
        write_json(scratch / _SAID, list(dict.fromkeys(texts)))

"""A Ray cluster: connecting with it, how much room it has, and whether its nodes have the same versions."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import require_extra

RETRIES = 3  # of what is lost with its worker or node
_ANSWERS = 600.0  # seconds that a node has to say its versions
_KNOCKS = 10.0  # seconds that an address has to answer


def connect(address: str | None) -> None:
    """Connects this process with a cluster, and says clearly if there is none. What is connected stays so."""
    require_extra("ray", "running fits on a cluster")
    import ray

    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here tells nobody of it
    where = "" if address is None else f" at {address!r}"
    if address is not None and address != "auto":
        _knock(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises plain ones, too
        why = " ".join(str(error).split())[:300]
        raise GraphshiftError(
            f"no Ray cluster can be had{where}: {why} Start one (`ray start --head`), or give --address HOST:PORT."
        ) from None


def _knock(address: str) -> None:
    host, sign, port = address.removeprefix("ray://").rpartition(":")
    if not sign or not port.isdecimal():
        raise GraphshiftError(
            f"address is {address!r}; expected HOST:PORT of a Ray cluster, as 10.0.0.5:6379, or auto."
        )
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCKS).close()
    except (OSError, OverflowError) as error:
        raise GraphshiftError(
            f"no Ray cluster answers at {address!r} ({error}). Start one there (`ray start --head`), or give the "
            "address that it printed."
        ) from None


def nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster that fits can run on: alive, with processors."""
    import ray

    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


def room(address: str | None, threads: int) -> int:
    """How many fits with so many threads the cluster can run at the same time; at least one."""
    connect(address)
    found = sum(int(node["Resources"]["CPU"] // threads) for node in nodes())
    if not found:
        raise GraphshiftError(
            f"the Ray cluster has no node with {threads} processors for a fit; its nodes have "
            f"{[int(node['Resources']['CPU']) for node in nodes()] or 'none'}. Give fewer threads, or add nodes."
        )
    return found


def check_versions() -> None:
    """Refuses a cluster with a node that has another version of graphshift, torch or Python, and names the node."""
    here = _versions()()
    for name, found in _each_node(_versions()):
        if differing := [f"{n} is {found[n]} there and {here[n]} here" for n in here if found[n] != here[n]]:
            raise GraphshiftError(
                f"node {name} of the Ray cluster has other versions: {', '.join(differing)}. Results would differ; "
                "install the same."
            )


def check_shared(files: Sequence[Path]) -> None:
    """Refuses a cluster with a node that does not see these very files, and names the node."""
    digest = _digests([str(path.resolve()) for path in files])
    here = digest()
    for name, found in _each_node(digest):
        for path, there, own in zip(files, found, here, strict=True):
            if there != own:
                what = "does not see" if there is None else "has another file at"
                raise GraphshiftError(
                    f"node {name} of the Ray cluster {what} {path.resolve()}; put the partition and --out on a file "
                    "system that all nodes share, under the same name."
                )


def _each_node(asked: Callable[[], Any]) -> Iterator[tuple[str, Any]]:
    """What a function gives on each node, by the node's name; nodes that leave meanwhile are left out."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    answers = {}
    for node in nodes():
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(num_cpus=0, max_retries=RETRIES)(asked).options(scheduling_strategy=there)
        answers[node["NodeManagerAddress"], node["NodeID"]] = task.remote()
    for (name, id_), answer in answers.items():
        try:
            yield name, ray.get(answer, timeout=_ANSWERS)
        except ray.exceptions.GetTimeoutError:
            raise GraphshiftError(
                f"node {name} of the Ray cluster does not answer; remove it, or start it anew."
            ) from None
        except ray.exceptions.RayTaskError as error:
            raise GraphshiftError(
                f"node {name} of the Ray cluster cannot run graphshift ({error.cause}): install graphshift "
                f"{__version__} there, with what it needs."
            ) from None
        except ray.exceptions.RayError:
            if any(node["NodeID"] == id_ for node in nodes()):
                raise GraphshiftError(
                    f"node {name} of the Ray cluster cannot start a worker; look at its logs."
                ) from None


def _versions() -> Callable[[], dict[str, str]]:
    def versions() -> dict[str, str]:  # Ray sends it as it is: the node may not have this file
        import platform

        import torch

        import graphshift

        return {"graphshift": graphshift.__version__, "torch": torch.__version__, "Python": platform.python_version()}

    return versions


def _digests(paths: Sequence[str]) -> Callable[[], list[int | None]]:
    def digests() -> list[int | None]:
        import zlib
        from pathlib import Path

        return [zlib.crc32(Path(path).read_bytes()) if Path(path).is_file() else None for path in paths]

    return digests

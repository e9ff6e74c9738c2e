"""A Ray cluster of several nodes on this machine, for tests. A busy machine needs longer than Ray waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import pytest

_PATIENCE = 600  # seconds, where Ray has 30


class _SlowClock:
    """The module ``time`` for Ray's wait for a node, which cannot be told otherwise."""

    def monotonic(self) -> float:
        return time.monotonic() * 30 / _PATIENCE

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """A head without processors and so many nodes with one each, ``nodes_of_test``."""
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    small = {"object_store_memory": 80 * 2**20}
    head = {"num_cpus": 0, "include_dashboard": False, **small}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_register_timeout_seconds", "900")
        patch.setenv("RAY_health_check_timeout_ms", "60000")
        patch.setenv("RAY_gcs_server_port_wait_time_s", str(_PATIENCE))
        patch.setattr("ray._private.node.time", _SlowClock())
        own = cluster_utils.Cluster._wait_for_node
        patch.setattr(cluster_utils.Cluster, "_wait_for_node", partialmethod(own, timeout=_PATIENCE))
        try:
            found = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
            found.nodes_of_test = [found.add_node(num_cpus=1, **small) for _ in range(nodes)]
        except Exception as error:  # Ray raises plain ones, too
            pytest.skip(f"Ray cannot start a cluster on this machine in {_PATIENCE} seconds: {error}")
        yield found
        ray.shutdown()
        found.shutdown()

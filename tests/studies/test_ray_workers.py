"""Studies on a real Ray cluster of several nodes, all on this machine; one of them is killed in the middle."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.core import cluster as ray_cluster
from graphshift.studies import Arm, Engine, Plan, Record, ray_workers, run_study
from ray_cluster import cluster_of

ray = pytest.importorskip("ray")

PLAN = Plan(
    "planted",
    [Arm("ERM", {"method": "erm", "epochs": 3}), Arm("EERM", {"method": "eerm", "views": 2, "epochs": 3})],
    range(2),
    {"nodes": 60},
    trials=0,
    in_domain=False,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with cluster_of(2) as found:
        yield found


def what_counts(study: Any) -> list[dict[str, Any]]:
    """Of each record what does not tell where or how fast it ran."""
    found = []
    for record in study.records:
        plain = record.to_json()
        found.append({n: v for n, v in plain.items() if n not in ("seconds", "seconds_per_epoch", "peak_rss_mb")})
    return found


def test_a_node_that_is_killed_costs_nothing_but_its_jobs(cluster: Any, tmp_path: Path) -> None:
    here = run_study(PLAN, workers=0, threads=1)
    engine = Engine("ray", cluster.address)
    first: list[Record] = []

    def kill_a_node(record: Record) -> None:
        if not first:
            cluster.remove_node(cluster.nodes_of_test.pop(), allow_graceful=False)
        first.append(record)

    there = run_study(PLAN, tmp_path / "s", workers=None, engine=engine, report=kill_a_node)
    assert len(first) == 4
    assert what_counts(there) == what_counts(here)
    assert all(record.ok for record in there.records)
    sessions = json.loads((tmp_path / "s" / "provenance.json").read_text())["sessions"]
    assert (sessions[0]["engine"], sessions[0]["workers"]) == ("ray", 2)

    again = run_study(PLAN, tmp_path / "s", engine=engine)  # the ledger has all of them
    assert what_counts(again) == what_counts(here)
    assert len(json.loads((tmp_path / "s" / "provenance.json").read_text())["sessions"]) == 1

    data = gs.load("planted", nodes=60)  # in memory: through the object store
    own = replace(PLAN, dataset=data, options={}, seeds=range(1))
    kept = [record.selections["val"].tests for record in run_study(own, engine=engine, workers=2).records]
    assert kept == [record.selections["val"].tests for record in here.records if record.seed == 0]


def test_a_fit_that_fails_is_a_record(cluster: Any) -> None:
    wild = Arm("wild", {"method": "erm", "epochs": 30, "lr": 1e6, "num_layers": 8})
    study = run_study(replace(PLAN, arms=[wild, PLAN.arms[0]], seeds=range(1)), engine=Engine("ray", cluster.address))
    assert [(record.arm, record.ok) for record in study.records] == [("wild", False), ("ERM", True)]
    assert "training was stopped" in str(study.records[0].reason)


def test_workers_of_another_version_are_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = ray_cluster._versions()()
    other = {**there, "graphshift": "0.0.1"}
    answers = itertools.chain([there], itertools.repeat(other))  # here, then each node
    monkeypatch.setattr(ray_cluster, "_versions", lambda: (lambda found: lambda: found)(next(answers)))
    with pytest.raises(gs.GraphshiftError, match=r"other versions: graphshift is 0\.0\.1 there"):
        run_study(PLAN, engine=Engine("ray", cluster.address))
    monkeypatch.undo()
    monkeypatch.setattr(ray_workers, "__version__", "9.9")
    monkeypatch.setattr(ray_workers, "check_versions", lambda: None)
    with pytest.raises(gs.GraphshiftError, match=r"has graphshift .* and the study 9\.9"):
        run_study(PLAN, engine=Engine("ray", cluster.address))


def test_more_threads_than_any_node_has_are_refused(cluster: Any) -> None:
    with pytest.raises(gs.GraphshiftError, match="no node with 64 processors"):
        run_study(PLAN, engine=Engine("ray", cluster.address), threads=64)


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(gs.GraphshiftError, match="no Ray cluster answers at"):
            run_study(PLAN, engine=Engine("ray", address))
    with pytest.raises(gs.GraphshiftError, match="expected HOST:PORT"):
        run_study(PLAN, engine=Engine("ray", "somewhere"))


def test_engines_are_named() -> None:
    with pytest.raises(gs.GraphshiftError, match="engine is 'slurm'"):
        Engine("slurm")
    with pytest.raises(gs.GraphshiftError, match="it needs engine ray"):
        Engine("local", "127.0.0.1:6379")

"""One fit by two workers of a real Ray cluster; one of them dies in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core import cluster as ray_cluster
from graphshift.fitting import on_ray
from graphshift.fitting.fit import FitRequest
from graphshift.training.batches import PartBatches
from ray_cluster import cluster_of
from sharing import global_batches

pytest.importorskip("ray")

GIVEN = {"method": "erm", "backbone": "sgc", "epochs": 4, "batch_parts": 2, "selection": "last"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with cluster_of(2) as found:
        yield found


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("on_ray") / "p"
    gs.partition(gs.load("planted-structure", nodes=160, tests=1), path, parts=8, by="streaming")
    return path


def request_of(parts: Path, **changes: Any) -> FitRequest:
    return FitRequest("partition", {"folder": parts}, GIVEN | changes)


def dying_once(place: str) -> Callable[[Mapping[str, Any]], None]:
    def work(given: Mapping[str, Any]) -> None:  # Ray sends it as it is
        import os
        from pathlib import Path

        from graphshift.fitting import on_ray
        from graphshift.training.parallel import SharedMethod

        begin = SharedMethod.begin

        def begin_or_die(self: SharedMethod, epoch: int) -> None:
            if epoch == 3 and self.own.rank == 1 and not Path(place).exists():
                Path(place).touch()
                os._exit(1)
            begin(self, epoch)

        SharedMethod.begin = begin_or_die
        on_ray._work(given)

    return work


def test_two_workers_of_which_one_dies_take_the_steps_of_one_process(
    cluster: Any, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, died = tmp_path / "run", tmp_path / "died"
    monkeypatch.setattr(on_ray, "_work", dying_once(str(died)))
    result = on_ray.fit_on_ray(request_of(parts), out, workers=2, address=cluster.address, checkpoint_every=0.0)
    assert died.exists()
    one = gs.ERM(**{n: v for n, v in GIVEN.items() if n != "method"})
    one.fit(gs.load("partition", folder=parts), batches=global_batches(PartBatches(2), 2))
    there = gs.load_model(out / "model")
    for name, array in one.arrays().items():
        assert torch.allclose(there.arrays()[name], array, rtol=1e-4, atol=1e-6), name
    history = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in history] == [1, 2, 3, 4]
    assert [row["loss"] for row in history] == pytest.approx([row["loss"] for row in one.history_], rel=1e-5)
    assert (history[0]["batches"], history[0]["nodes"]) == (4, 160)
    assert result["tests"].keys() == {"T1"}
    assert {path.name for path in tmp_path.iterdir()} == {"run", "died"}  # what workers tell each other is gone

    monkeypatch.undo()  # finished: nothing is started
    again = on_ray.fit_on_ray(request_of(parts), out, workers=2, address="127.0.0.1:1", resume=True)
    assert again == result


def test_what_workers_refuse_is_said_and_nothing_is_written(cluster: Any, tmp_path: Path) -> None:
    given = {"explorer": "reinforce", "epochs": 2, "batch_nodes": 30}  # data that are no partition, too
    request = FitRequest("planted-structure", {"nodes": 120, "tests": 1}, given)
    with pytest.raises(gs.GraphshiftError, match="several workers cannot train this together: explorer Reinforce"):
        on_ray.fit_on_ray(request, tmp_path / "run", workers=2, address=cluster.address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "workers", "why"),
    [
        ({}, 3, "workers is 3, and the Ray cluster has room for 2"),
        ({"batch_parts": None}, 2, "2 workers share the batches of an epoch, and this training has one batch"),
        ({"method": "logistic"}, 2, "method logistic has no GNN"),
    ],
)
def test_what_cannot_be_shared_is_refused_here(
    cluster: Any, parts: Path, tmp_path: Path, changes: dict[str, Any], workers: int, why: str
) -> None:
    request = request_of(parts, **changes)
    if "method" in changes:
        request = FitRequest(request.dataset, request.options, changes)
    with pytest.raises(gs.GraphshiftError, match=why):
        on_ray.fit_on_ray(request, tmp_path / "run", workers=workers, address=cluster.address)
    assert list(tmp_path.iterdir()) == []


def test_more_workers_than_parts_are_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gs.partition(gs.load("planted-structure", nodes=60, tests=1), tmp_path / "p", parts=2, by="streaming")
    monkeypatch.setattr(on_ray, "room", lambda address, threads: 8)
    with pytest.raises(gs.GraphshiftError, match="3 workers cannot share the training graphs"):
        on_ray.fit_on_ray(
            request_of(tmp_path / "p", batch_parts=1), tmp_path / "run", workers=3, address=cluster.address
        )
    assert not (tmp_path / "run").exists()


def test_nodes_that_see_another_folder_are_refused(cluster: Any, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray_cluster.connect(cluster.address)
    files = [parts / "partition.json", parts / "request.json"]
    ray_cluster.check_shared(files)
    here = ray_cluster._digests([str(path) for path in files])()
    for there, why in (([here[0], None], "does not see"), ([7, here[1]], "has another file at .*partition.json")):
        answers = iter([here, there, there])  # here, then each node
        monkeypatch.setattr(ray_cluster, "_digests", lambda _: lambda: next(answers))  # noqa: B023
        monkeypatch.setattr(ray_cluster, "_each_node", lambda asked: [("n1", asked()), ("n2", asked())])
        with pytest.raises(gs.GraphshiftError, match=f"node n1 of the Ray cluster {why}"):
            ray_cluster.check_shared(files)

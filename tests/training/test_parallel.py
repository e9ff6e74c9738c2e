"""One training in two processes of torch.distributed: the step of one process on both batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.estimators.gnn import GNNEstimator
from graphshift.training.batches import NodeBatches, PartBatches
from graphshift.training.parallel import SharedBatches, Team
from sharing import global_batches

PROGRAM = """
import sys
import torch
import graphshift as gs
from graphshift.training.parallel import team
from graphshift.training.run import Run

folder, out, method, given = sys.argv[1:5]
data = gs.load("partition", folder=folder)
model = gs.methods.METHODS[method](**eval(given)).fit(data, run=Run(out, every=0))
if team().leads:
    torch.save([list(model.arrays().values()), model.history_], out + ".pt")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parallel") / "p"
    gs.partition(gs.load("planted-structure", nodes=160, tests=1), path, parts=8, by="streaming")
    return path


def together(count: int, *command: object) -> subprocess.CompletedProcess[str]:
    """The command in so many processes, by torchrun."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*map(str, run)], capture_output=True, text=True, env=environment, check=False)


def test_two_processes_share_the_batches_of_an_epoch(folder: Path) -> None:
    (e,) = gs.load("partition", folder=folder).train
    batches = PartBatches(1)  # of 8 parts; the third worker has two, and none is left for its third step
    epochs = [[list(SharedBatches(batches, Team(rank, 3))([e], epoch)) for rank in range(3)] for epoch in (1, 2)]
    rows = [[torch.cat([b.rows[b.mask] for batch in own for b in batch]) for own in workers] for workers in epochs]
    assert [len(own) for own in epochs[0]] == [3, 3, 3]
    assert [len(batch) for batch in epochs[0][2]].count(0) == 1
    assert torch.equal(torch.cat(rows[0]).sort().values, torch.arange(160))
    limits = [0, *e.stored.begin[[3, 6, 8]].tolist()]
    for found in rows:  # a worker reads the same run of parts in every epoch
        for worker, own in enumerate(found):
            assert torch.equal(own.sort().values, torch.arange(*limits[worker : worker + 2]))
    with pytest.raises(gs.GraphshiftError, match="9 workers cannot share the training graphs"):
        list(SharedBatches(batches, Team(0, 9))([e], 1))


@pytest.mark.parametrize("each", [False, True])
def test_shares_of_several_graphs_hold_every_counted_node_once(each: bool) -> None:
    graphs = [gs.load("planted", nodes=nodes, seed=nodes).train[0] for nodes in (60, 100)]
    batches = NodeBatches(9, (3, 2), each=each)
    shares = [(own, 4) for own in range(4)]
    for epoch in (1, 2):
        steps = [batches.steps(graphs, epoch, share) for share in shares]
        assert [len(one) for one in steps] == [batches.count(graphs, share) for share in shares]
        for number, graph in enumerate(graphs):
            dealt = [units for own in steps for step in own for i, units in step if i == number]
            assert np.array_equal(np.sort(np.concatenate(dealt)), graph.counted.numpy())


def test_two_workers_take_the_steps_of_one_with_the_same_global_batch(folder: Path, tmp_path: Path) -> None:
    program, out = tmp_path / "train.py", tmp_path / "run"
    program.write_text(PROGRAM)
    given = {"backbone": "sgc", "epochs": 3, "batch_parts": 2, "selection": "last"}
    done = together(2, program, folder, out, "erm", repr(given))
    assert done.returncode == 0, done.stderr[-2000:]
    arrays, history = torch.load(f"{out}.pt", weights_only=False)
    assert (history[0]["batches"], history[0]["nodes"]) == (4, 160)

    data = gs.load("partition", folder=folder)
    one = gs.ERM(**given).fit(data, batches=global_batches(PartBatches(2), 2))
    for a, b in zip(arrays, one.arrays().values(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)
    for a, b in zip(history, one.history_, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)


def test_the_command_under_torchrun(folder: Path, tmp_path: Path) -> None:
    fit = ["-m", "graphshift.cli", "fit", folder, "--epochs", 2, "--batch-parts", 2]
    done = together(2, *fit, "--explorer", "random", "--views", 2, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert set(result["tests"]) == {"T1"}
    assert len((tmp_path / "run" / "history.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (gs.EERM("sgc", explorer="random"), ""),
        (gs.EERM("sgc", explorer="reinforce"), "explorer Reinforce keeps what it has learned"),
        (gs.EERM("sgc", explorer="features"), "keeps what it has learned"),
        (gs.GroupDRO("sgc"), "GroupDRO keeps a weight for each group"),
        (gs.DANN("sgc"), "DANN's discriminator"),
    ],
)
def test_what_processes_cannot_share_is_known(folder: Path, model: gs.Estimator, why: str) -> None:
    (e,) = gs.load("partition", folder=folder).train
    assert isinstance(model, GNNEstimator)
    method = model.make_method(model.new_backbone(e.num_features, e.task))
    method.meet([e])
    assert method.apart().startswith(why) if model.method != "eerm" else why in method.apart()
    assert bool(method.apart()) == bool(why)

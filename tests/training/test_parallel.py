"""One training in two processes of torch.distributed: the step of one process on both batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphshift as gs
from graphshift.estimators.gnn import GNNEstimator
from graphshift.training.batches import PartBatches
from graphshift.training.parallel import SharedBatches, Team

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
    batches = PartBatches(3)  # three batches: the second process has none in the second step
    own = [list(SharedBatches(batches, Team(rank, 2))([e], 1)) for rank in range(2)]
    assert [len(one) for one in own] == [2, 2]
    assert own[1][1] == []
    rows = torch.cat([b.rows[b.mask] for one in own for batch in one for b in batch])
    assert torch.equal(rows.sort().values, torch.arange(160))
    with pytest.raises(gs.GraphshiftError, match="3 batches and there are 4 workers"):
        list(SharedBatches(batches, Team(0, 4))([e], 1))


def test_two_workers_take_the_steps_of_one_with_the_same_global_batch(folder: Path, tmp_path: Path) -> None:
    program, out = tmp_path / "train.py", tmp_path / "run"
    program.write_text(PROGRAM)
    given = {"backbone": "sgc", "epochs": 3, "batch_parts": 2, "selection": "last"}
    done = together(2, program, folder, out, "erm", repr(given))
    assert done.returncode == 0, done.stderr[-2000:]
    arrays, history = torch.load(f"{out}.pt", weights_only=False)
    assert (history[0]["batches"], history[0]["nodes"]) == (4, 160)

    batches = PartBatches(2)

    def global_batches(environments, epoch):
        steps = batches.steps(environments, epoch)
        pieces = [batches.batch(environments, epoch, i, step) for i, step in enumerate(steps)]
        return [pieces[i] + pieces[i + 1] for i in range(0, len(pieces), 2)]

    data = gs.load("partition", folder=folder)
    one = gs.ERM(**given).fit(data, batches=global_batches)
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

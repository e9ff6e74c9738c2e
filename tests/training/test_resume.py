"""A run that stopped, however it stopped, goes on to the weights of one that did not: bit for bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.training.run import Run
from scripts import process
from small import identical, without_seconds
from stopping import MODELS, SMALL, CrashError, at_epoch, crash, fit, history_file, stop


class Every(Run):
    """A run whose checkpoints come after every ``epochs`` epochs."""

    def __init__(self, folder: Path, epochs: int) -> None:
        super().__init__(folder)
        self.epochs, self.asked = epochs, 0

    def is_due(self) -> bool:
        self.asked += 1
        return self.asked % self.epochs == 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("every", [1, 3])
def test_a_crashed_run_goes_on_to_the_same_bits(
    name: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS[name]
    weights, history, best = fit(model)
    with monkeypatch.context() as patch:
        at_epoch(model, 6, crash, patch)
        with pytest.raises(CrashError):
            fit(model, Every(tmp_path, every))
    crashed_at = len(history_file(tmp_path))
    assert crashed_at == 5
    _, note = read_tensors(tmp_path / "checkpoint.safetensors")
    assert note["epoch"] == 5 // every * every
    torch.manual_seed(1234)  # the state of the new process is another
    resumed = fit(model, Run(tmp_path))
    assert identical(resumed[0], weights)
    assert resumed[1:] == (history, best)
    assert without_seconds(history_file(tmp_path)) == history


def test_without_a_checkpoint_a_run_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["eerm"]
    with monkeypatch.context() as patch:
        at_epoch(model, 4, crash, patch)
        with pytest.raises(CrashError):
            fit(model, Run(tmp_path, every=1000))
    assert not (tmp_path / "checkpoint.safetensors").exists()
    assert len(history_file(tmp_path)) == 3
    resumed = fit(model, Run(tmp_path, every=1000))
    assert identical(resumed[0], fit(model)[0])
    assert without_seconds(history_file(tmp_path)) == resumed[1]


def test_a_crash_while_the_history_is_cut_to_its_checkpoint_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = stop(tmp_path, monkeypatch)
    before = history_file(stopped)
    assert len(before) == 5
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: crash())
        with pytest.raises(CrashError):
            fit(MODELS["eerm"], Run(stopped))
    assert history_file(stopped) == before


def test_a_finished_run_is_not_trained_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["erm"]
    first = fit(model, Run(tmp_path, every=0))
    at_epoch(model, 1, crash, monkeypatch)
    again = fit(model, Run(tmp_path, every=0))
    assert identical(first[0], again[0])
    assert first[1:] == again[1:]


def test_patience_is_counted_over_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = gs.ERM(patience=2, **SMALL | {"epochs": 50})
    weights, history, best = fit(model)
    assert len(history) == best + 2 < 50
    with monkeypatch.context() as patch:
        at_epoch(model, best + 2, crash, patch)
        with pytest.raises(CrashError):
            fit(model, Run(tmp_path, every=0))
    resumed = fit(model, Run(tmp_path))
    assert identical(resumed[0], weights)
    assert resumed[1:] == (history, best)


def test_seconds_add_up_over_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["erm"]
    with monkeypatch.context() as patch:
        at_epoch(model, 3, crash, patch)
        with pytest.raises(CrashError):
            fit(model, Run(tmp_path, every=0))
    tensors, note = read_tensors(tmp_path / "checkpoint.safetensors")
    write_tensors(tmp_path / "checkpoint.safetensors", tensors, note | {"seconds": 1000.0})
    fit(model, Run(tmp_path))
    assert all(1000 < row["seconds"] < 1100 for row in history_file(tmp_path)[2:])


ARGUMENTS = (
    *("fit", "planted", "-o", "nodes=60", "--epochs", "40", "--hidden", "4", "--dropout", "0.3", "--inner-steps", "2"),
    *("--explorer-lr", "0.5", "--checkpoint-every", "0", "--json"),
)

# Imports once, then forks a child for each start: many kills at little cost. Every third comes at any moment, the
# others soon after the child has begun to write.
KILLER = """
import os, random, signal, sys, time
import graphshift.cli, graphshift.fitting.fit
folder, *arguments = sys.argv[1:]
moments = random.Random(0)
killed = []
def size():
    path = os.path.join(folder, "history.jsonl")
    return os.path.getsize(path) if os.path.exists(path) else -1
while len(killed) < 12:
    before, late = size(), time.monotonic() + 10
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["graphshift", *arguments, "--out", folder, "--resume"]
        graphshift.cli.main()
        os._exit(0)
    while len(killed) % 3 and size() == before and time.monotonic() < late:
        time.sleep(0.001)
    time.sleep(moments.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    killed.append(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)
    if killed[-1] == 0:
        break
print(*killed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_at_any_moment_it_goes_on_to_the_same_weights(graphshift: Any, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    done = process(["-c", KILLER, str(folder), *ARGUMENTS], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(int(signal.SIGKILL)) in done.stdout.split()
    assert graphshift(*ARGUMENTS, "--out", folder, "--resume").status == 0
    assert graphshift(*ARGUMENTS, "--out", tmp_path / "whole").status == 0
    resumed, whole = (read_tensors(f / "model" / "weights.safetensors")[0] for f in (folder, tmp_path / "whole"))
    assert identical(resumed, whole)
    assert without_seconds(history_file(folder)) == without_seconds(history_file(tmp_path / "whole"))
    assert {p.name for p in folder.iterdir()} == {"config.json", "history.jsonl", "model", "result.json"}


def test_a_finished_history_is_whole_for_others(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.history.write_text('{"epoch": 1}\n{"epoch": 2}\n{"epoch": 3, "lo')
    run.mend()
    assert [row["epoch"] for row in history_file(tmp_path)] == [1, 2]

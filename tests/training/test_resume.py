"""A run that stopped, however it stopped, goes on to the weights of one that did not: bit for bit."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import graphshift as gs
from graphshift.cli import main
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.methods import Method
from graphshift.training.callbacks import ProgressBar
from graphshift.training.loop import Interrupted
from graphshift.training.run import Run
from small import OwnModule, identical, without_seconds

EPOCHS = 8
SMALL: dict[str, Any] = {"epochs": EPOCHS, "hidden_channels": 4, "lr": 0.05}
EERM: dict[str, Any] = SMALL | {"views": 2, "edits_per_node": 2, "explorer_lr": 0.5}
MODELS: dict[str, gs.Estimator] = {
    "erm": gs.ERM(dropout=0.5, **SMALL),
    "erm-last": gs.ERM("gat", selection="last", clip=0.1, **SMALL),
    "eerm": gs.EERM(dropout=0.5, inner_steps=2, beta_end=5.0, **EERM),
    "eerm-sgd": gs.EERM(dropout=0.5, explorer_optimizer="sgd", explorer_baseline=0.9, **EERM | {"explorer_lr": 500.0}),
    "eerm-lean": gs.EERM(dropout=0.3, low_memory=True, credit="difference", explorer_weight_decay=0.1, **EERM),
    "groupdro": gs.GroupDRO(group_lr=1.0, **SMALL),  # its weights go on
    "dann": gs.DANN(dropout=0.5, **SMALL),  # so does its discriminator
    "dann-target": gs.DANN(dropout=0.5, target="tests", **SMALL),
    "self-training": gs.SelfTraining(dropout=0.5, target="tests", **SMALL),  # its labels go on
    "pair-align": gs.PairAlign(target="tests", **SMALL),  # and its ratios
    "mixup": gs.Mixup(**SMALL),
    "canet": gs.CaNet(**SMALL),
    "dgi": gs.DGI(**SMALL),
    "tar": gs.TAR(**SMALL),
    "eerm-own": gs.EERM(OwnModule(24, 4, dropout=0.3), explorer="random", selection="id_val", **EERM),
}


class CrashError(Exception):
    pass


class Every(Run):
    """A run whose checkpoints come after every ``epochs`` epochs."""

    def __init__(self, folder: Path, epochs: int) -> None:
        super().__init__(folder)
        self.epochs, self.asked = epochs, 0

    def is_due(self) -> bool:
        self.asked += 1
        return self.asked % self.epochs == 0


def fit(
    model: gs.Estimator, run: Run | None = None, progress: bool = False
) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]], int]:
    data = gs.load("planted", nodes=60)
    fitted = model.fit(data.train, data.val, data.tests, run=run, progress=progress)
    return fitted.backbone_.state_dict(), without_seconds(fitted.history_), fitted.best_epoch_


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C reaches the tests also where they were started in the background, which makes a process deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def at_epoch(
    model: gs.Estimator, epoch: int, action: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """Makes the method do something in the middle of an epoch."""
    made = type(model).make_method

    def make(*args: Any) -> Method:
        method = made(*args)
        steps, step = iter(range(1, 1000)), method.step

        def counting(*args: Any) -> dict[str, float]:
            row = step(*args)
            if next(steps) == epoch:
                action()
            return row

        method.step = counting  # type: ignore[method-assign]
        return method

    monkeypatch.setattr(type(model), "make_method", make)
    return monkeypatch


def crash() -> None:
    raise CrashError


def history_file(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


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
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


# --- Ctrl-C ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_the_epoch_and_saves_it(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS["eerm"]
    handler = signal.getsignal(number)
    with monkeypatch.context() as patch:
        at_epoch(model, 3, lambda: signal.raise_signal(number), patch)
        with pytest.raises(Interrupted, match="stopped after epoch 3 of 8; its state is saved"):
            fit(model, Run(tmp_path, every=1000))
    assert signal.getsignal(number) is handler
    assert read_tensors(tmp_path / "checkpoint.safetensors")[1]["epoch"] == 3
    resumed, whole = fit(model, Run(tmp_path, every=1000)), fit(model)
    assert identical(resumed[0], whole[0])
    assert resumed[1:] == whole[1:]


def test_ctrl_c_between_epochs_is_saved_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag may rise after the question whether to save: then the next epoch is the last."""
    model = MODELS["erm"]
    rows: list[int] = []

    def report(row: dict[str, Any]) -> None:
        rows.append(row["epoch"])
        if len(rows) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressBar, "on_epoch", lambda self, row: report(row))
    with pytest.raises(Interrupted, match="stopped after epoch 4 of 8"):
        fit(model, Run(tmp_path, every=1000), progress=True)
    assert read_tensors(tmp_path / "checkpoint.safetensors")[1]["epoch"] == 4
    assert len(history_file(tmp_path)) == 4
    fit(model, Run(tmp_path, every=1000), progress=True)
    assert rows == [1, 2, 3, 4, *range(1, 9)]  # the bar gets the epochs of before, too


def test_a_second_ctrl_c_acts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["erm"]

    def impatient() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    at_epoch(model, 3, impatient, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as caught:
        fit(model, Run(tmp_path, every=1000))
    assert not isinstance(caught.value, Interrupted)
    assert len(history_file(tmp_path)) == 2


def test_without_a_folder_ctrl_c_acts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["erm"]
    at_epoch(model, 3, lambda: signal.raise_signal(signal.SIGINT), monkeypatch)
    with pytest.raises(KeyboardInterrupt) as caught:
        fit(model)
    assert not isinstance(caught.value, Interrupted)


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that stopped after epoch 5 of 8."""
    with monkeypatch.context() as patch:
        at_epoch(MODELS["eerm"], 6, crash, patch)
        with pytest.raises(CrashError):
            fit(MODELS["eerm"], Run(tmp_path, every=0))
    return tmp_path


def without(folder: Path, part: str) -> None:
    tensors, note = read_tensors(folder / "checkpoint.safetensors")
    kept = {name: t for name, t in tensors.items() if not name.startswith(part)}
    assert len(kept) < len(tensors)
    write_tensors(folder / "checkpoint.safetensors", kept, note)


def with_numbers(folder: Path, name: str, change: Callable[[torch.Tensor], Any]) -> None:
    tensors, note = read_tensors(folder / "checkpoint.safetensors")
    changed = tensors | {name: tensors[name].clone()}
    change(changed[name])
    write_tensors(folder / "checkpoint.safetensors", changed, note)


def with_note(folder: Path, **changes: Any) -> None:
    tensors, note = read_tensors(folder / "checkpoint.safetensors")
    write_tensors(folder / "checkpoint.safetensors", tensors, note | changes)


def with_a_flipped_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 64
    path.write_bytes(content)


DAMAGE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "flipped bit": ("checkpoint.safetensors", with_a_flipped_bit),
    "note's epoch": ("checkpoint.safetensors", lambda path: with_note(path.parent, epoch=[5])),
    "note's seconds": ("checkpoint.safetensors", lambda path: with_note(path.parent, seconds="long")),
    "note's best": ("checkpoint.safetensors", lambda path: with_note(path.parent, best={"": {"epoch": {}}})),
    "truncated": ("checkpoint.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-100])),
    "text": ("checkpoint.safetensors", lambda path: path.write_text("not a checkpoint at all")),
    "other file": ("checkpoint.safetensors", lambda path: safetensors.torch.save_file({"a": torch.ones(1)}, path)),
    "no generator": ("checkpoint.safetensors", lambda path: without(path.parent, "rng.cpu")),
    "no weights": ("checkpoint.safetensors", lambda path: without(path.parent, "method.backbone.layers.0.bias")),
    "no policy": ("checkpoint.safetensors", lambda path: without(path.parent, "method.explorer.0.1.policy.count")),
    "no history": ("history.jsonl", lambda path: path.unlink()),
    "short history": ("history.jsonl", lambda path: path.write_text(path.read_text().split("\n")[0] + "\n")),
    "history not JSON": ("history.jsonl", lambda path: path.write_text("hello\n" * 9)),
    "history not rows": ("history.jsonl", lambda path: path.write_text("3\n" * 9)),
    "history not text": ("history.jsonl", lambda path: path.write_bytes(b"\xff\xfe\n" * 9)),
    "history of others": ("history.jsonl", lambda path: path.write_text('{"epoch": 7}\n' * 9)),
}


NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "explorer.0.1.policy.slot": lambda t: t.fill_(9999),
    "explorer.0.1.policy.count": lambda t: t.fill_(99),
    "explorer.0.1.policy.hand": lambda t: t.fill_(-1),
    "explorer.0.1.policy.mass": lambda t: t.fill_(1e30),
    "explorer.0.1.policy.top": lambda t: t.fill_(math.nan),
    "explorer.0.1.policy.entry": lambda t: t[:, 2].fill_(-1.0),
    "explorer.0.1.policy.shared": lambda t: t.fill_(math.inf),
    "explorer.0.1.policy.steps": lambda t: t.fill_(-5),
    "explorer.0.1.generator": lambda t: t[16:18].fill_(2),
    "optimizer.0.step": lambda t: t.fill_(-1),
    "optimizer.0.exp_avg_sq": lambda t: t.fill_(-1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_no_run_has_are_refused(name: str, stopped: Path) -> None:
    with_numbers(stopped, f"method.{name}", NUMBERS[name])
    with pytest.raises(GraphshiftError, match=r"checkpoint\.safetensors: does not fit this model .*remove it to start"):
        fit(MODELS["eerm"], Run(stopped))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_a_clear_error_that_names_the_file(damage: str, stopped: Path) -> None:
    name, harm = DAMAGE[damage]
    harm(stopped / name)
    with pytest.raises(GraphshiftError) as caught:
        fit(MODELS["eerm"], Run(stopped))
    assert str(caught.value).startswith(f"{stopped / name}: ")


@pytest.mark.parametrize("change", [{"seed": 1}, {"hidden_channels": 5}, {"views": 3}, {"epochs": 9}])
def test_a_checkpoint_of_other_settings_is_refused(change: dict[str, Any], stopped: Path) -> None:
    other = gs.EERM(**MODELS["eerm"].get_params() | change)
    with pytest.raises(GraphshiftError, match=r"checkpoint\.safetensors: .* other settings"):
        fit(other, Run(stopped))
    fit(MODELS["eerm"], Run(stopped))


# --- other processes ---------------------------------------------------------------------------------------------

ARGUMENTS = [
    "fit",
    "planted",
    "-o",
    "nodes=60",
    "--epochs",
    "40",
    "--hidden",
    "4",
    "--dropout",
    "0.3",
    "--inner-steps",
    "2",
    "--explorer-lr",
    "0.5",
    "--checkpoint-every",
    "0",
    "--json",
]

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


def command(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["graphshift", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_at_any_moment_it_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(folder), *ARGUMENTS],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
    )
    killed = [int(word) for word in done.stdout.split()]
    assert killed.count(signal.SIGKILL) >= 3, done.stderr
    assert done.stderr == ""
    command([*ARGUMENTS, "--out", str(folder), "--resume"], monkeypatch)
    command([*ARGUMENTS, "--out", str(tmp_path / "whole")], monkeypatch)
    resumed, whole = (read_tensors(f / "model" / "weights.safetensors")[0] for f in (folder, tmp_path / "whole"))
    assert identical(resumed, whole)
    assert without_seconds(history_file(folder)) == without_seconds(history_file(tmp_path / "whole"))
    assert {p.name for p in folder.iterdir()} == {"config.json", "history.jsonl", "model", "result.json"}


def test_ctrl_c_says_how_to_go_on_and_going_on_gives_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stopped"
    slow = [*ARGUMENTS, "--inner-steps", "12", "--checkpoint-every", "1000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "graphshift.cli", *slow, "--out", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    history = folder / "history.jsonl"
    while not (history.exists() and history.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert message.startswith("graphshift: stopped after epoch ")
    assert message.endswith(f"its state is saved. Go on with: graphshift fit --out {folder} --resume\n")
    assert message.count("\n") == 1
    epoch = len(history_file(folder))
    assert 1 <= epoch < 40
    assert read_tensors(folder / "checkpoint.safetensors")[1]["epoch"] == epoch
    command(["fit", "--out", str(folder), "--resume", "--json"], monkeypatch)
    command([*slow, "--out", str(tmp_path / "whole")], monkeypatch)
    resumed, whole = (read_tensors(f / "model" / "weights.safetensors")[0] for f in (folder, tmp_path / "whole"))
    assert identical(resumed, whole)
    assert without_seconds(history_file(folder)) == without_seconds(history_file(tmp_path / "whole"))


def test_a_finished_history_is_whole_for_others(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.history.write_text('{"epoch": 1}\n{"epoch": 2}\n{"epoch": 3, "lo')
    run.mend()
    assert [row["epoch"] for row in history_file(tmp_path)] == [1, 2]

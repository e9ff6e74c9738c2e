"""Ctrl-C and SIGTERM: the epoch is finished and saved, and the run goes on from there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.storage import read_tensors
from graphshift.training.callbacks import ProgressBar
from graphshift.training.loop import Interrupted
from graphshift.training.run import Run
from small import identical, without_seconds
from stopping import MODELS, at_epoch, fit, history_file


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C reaches the tests also where they were started in the background, which makes a process deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_ctrl_c_says_how_to_go_on_and_going_on_gives_the_same_weights(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stopped"
    given = ("fit", "planted", "-o", "nodes=60", "--epochs", 6, "--hidden", 4, "--dropout", 0.3, "--explorer-lr", 0.5)
    with monkeypatch.context() as patch:
        at_epoch(MODELS["eerm"], 3, lambda: signal.raise_signal(signal.SIGINT), patch)
        answer = graphshift(*given, "--checkpoint-every", 1000, "--json", "--out", folder)
    assert answer.status == 130
    go_on = f"Go on with: graphshift fit --out {folder} --resume"
    assert answer.err == f"graphshift: stopped after epoch 3 of 6; its state is saved. {go_on}\n"
    assert read_tensors(folder / "checkpoint.safetensors")[1]["epoch"] == len(history_file(folder)) == 3
    assert graphshift("fit", "--out", folder, "--resume", "--json").status == 0
    assert graphshift(*given, "--json", "--out", tmp_path / "whole").status == 0
    resumed, whole = (read_tensors(f / "model" / "weights.safetensors")[0] for f in (folder, tmp_path / "whole"))
    assert identical(resumed, whole)
    assert without_seconds(history_file(folder)) == without_seconds(history_file(tmp_path / "whole"))

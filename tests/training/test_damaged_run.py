"""A damaged checkpoint or history is a clear error that names the file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.training.run import Run
from stopping import MODELS, fit, stop


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that stopped after epoch 5 of 8."""
    return stop(tmp_path, monkeypatch)


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

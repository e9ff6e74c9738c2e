"""Fits that stop in the middle of an epoch, for the tests of going on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.methods import Method
from graphshift.training.run import Run
from small import OwnModule, without_seconds

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


def fit(
    model: gs.Estimator, run: Run | None = None, progress: bool = False
) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]], int]:
    """Weights, history and best epoch on a small dataset."""
    data = gs.load("planted", nodes=60)
    fitted = model.fit(data.train, data.val, data.tests, run=run, progress=progress)
    return fitted.backbone_.state_dict(), without_seconds(fitted.history_), fitted.best_epoch_


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
    """What no program expects."""
    raise CrashError


def history_file(folder: Path) -> list[dict[str, Any]]:
    """The epochs that a folder has."""
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of ``eerm`` that stopped after epoch 5 of 8."""
    with monkeypatch.context() as patch:
        at_epoch(MODELS["eerm"], 6, crash, patch)
        with pytest.raises(CrashError):
            fit(MODELS["eerm"], Run(folder, every=0))
    return folder

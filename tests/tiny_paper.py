"""An experiment and an item that run in a second or two, for the tests of ``reproduce``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphshift.lab.paper import EXPERIMENTS, ITEMS, Experiment, Item
from graphshift.studies import Record, job_runner

#: Sixty nodes, two tests, three epochs; ERM has another learning rate in "the code".
TINY = Experiment(
    "tiny",
    "planted",
    "gcn",
    {"views": 2, "edits_per_node": 1, "beta": 1.0, "lr": 0.01, "explorer_lr": 0.01},
    {"nodes": 60, "environments": 4, "degree": 4.0},
    erm={"lr": 0.1},
    code={"directed_edits": True},
    common={"epochs": 3, "hidden_channels": 4},
    seeds=1,
    data_seeds=2,
    trials=2,
    settings=("published", "paper", "fair", "ablation", "explorers"),
)
ITEM = Item(
    "fig99",
    "a tiny study",
    "EERM is above ERM.",
    ("tiny",),
    settings=("published", "fair"),
    shows=("tests", "spurious", "generators"),
)

#: Of the published study: two arms, two data seeds, one seed. Of the fair one: three arms, two trials each, two draws.
PUBLISHED_FITS, FAIR_FITS = 4, 12


def install(monkeypatch: pytest.MonkeyPatch, *, item: Item = ITEM, **changes: Any) -> Experiment:
    """Adds the experiment, with some fields changed, and the item that shows it."""
    experiment = replace(TINY, **changes)
    monkeypatch.setitem(EXPERIMENTS, experiment.name, experiment)
    monkeypatch.setitem(ITEMS, item.name, item)
    return experiment


def counted_fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all fits from now on."""
    done: list[str] = []
    real = job_runner.attempt

    def noted(job: Any, data: Any, *more: Any) -> Record:
        done.append(job.id)
        return real(job, data, *more)

    monkeypatch.setattr(job_runner, "attempt", noted)
    return done


def records(folder: Path) -> list[dict[str, Any]]:
    """The ledger of a study, read without graphshift."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]

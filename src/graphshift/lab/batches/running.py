"""The same fits on the whole graph at once, on sampled neighbours and on parts: one JSON line for each."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from graphshift.core.errors import GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import DATASETS, load
from graphshift.datasets.partitions import partition
from graphshift.estimators import make_estimator
from graphshift.lab.paper.reproducing import absent

#: What is trained, with the dataset's own settings otherwise.
METHODS: Mapping[str, Mapping[str, Any]] = {"ERM": {"method": "erm"}, "EERM": {"method": "eerm", "explorer": "random"}}

#: How. A batch has a fifth of the nodes, so an epoch five steps; the full batch has one, and five times the epochs.
SAMPLED, PARTS = "sampled neighbours", "parts"
KINDS = ("full batch", SAMPLED, PARTS)
_STEPS, _PARTS, _IN_BATCH, _NEIGHBOURS = 5, 20, 4, "15,10"


@dataclass(frozen=True)
class Case:
    """One fit.

    Attributes:
        dataset, options: the data.
        epochs: of every fit; the best one on validation counts.
        method: of :data:`METHODS`.
        kind: of :data:`KINDS`.
        seed: of the model, and of data that are made.
    """

    dataset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 30
    method: str = "ERM"
    kind: str = KINDS[0]
    seed: int = 0

    @property
    def key(self) -> str:
        """Its name in the ledger."""
        return f"{self.dataset} {dict(self.options)}, {self.epochs} epochs, {self.method}, {self.kind}, {self.seed}"


def cases(seeds: int = 5, *, quick: bool = False) -> list[Case]:
    """All fits of one seed before those of the next."""
    made = {"nodes": 100} if quick else {"nodes": 100_000, "tests": 4}
    about: list[tuple[str, Mapping[str, Any]]] = [("planted-structure", made)]
    if not quick:
        about.append(("pubmed-temporal", {}))
    epochs = {kind: (2 if quick else 30) * (_STEPS if kind == KINDS[0] else 1) for kind in KINDS}
    return [
        Case(name, {**options, "seed": seed} if options else {}, epochs[kind], method, kind, seed)
        for seed in range(seeds)
        for name, options in about
        for method in METHODS
        for kind in KINDS
    ]


def record_of(case: Case, data_dir: Path | None) -> dict[str, Any] | None:
    """The record of one fit; None where its files are not there."""
    return None if absent(case.dataset, data_dir) else measured(case, data_dir)


def measured(case: Case, data_dir: Path | None) -> dict[str, Any]:
    """The record of one fit: the scores of its best epoch on validation, and what an epoch took."""
    given: dict[str, Any] = {**METHODS[case.method], "epochs": case.epochs, "seed": case.seed}
    where = {"data_dir": data_dir} if data_dir is not None and "data_dir" in DATASETS[case.dataset].options else {}
    data = load(case.dataset, **case.options, **where)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        if case.kind == SAMPLED:
            most = max(int(e.mask.sum()) for e in data.train)
            given |= {"batch_nodes": -(-most // _STEPS), "neighbours": _NEIGHBOURS}
        if case.kind == PARTS:
            given |= {"batch_parts": _IN_BATCH}
            data = _divided(data, Path(folder))
        model = make_estimator(given, data.defaults).fit(data)
        scores = {one.name: model.score(one) for one in data.tests}
    about = {"case": case.key, "dataset": case.dataset, "method": case.method, "kind": case.kind, "seed": case.seed}
    score = {"metric": data.task.metric, "val": model.best_score_, "tests": scores, "mean": fmean(scores.values())}
    steps = sum(row.get("batches", 1) for row in model.history_)
    return {**about, **score, "epoch": model.best_epoch_, "steps": steps, "seconds": model.seconds_ / case.epochs}


def _divided(data: ShiftDataset, folder: Path) -> ShiftDataset:
    """The dataset as parts on disk. The streaming partitioner comes with graphshift, METIS does not."""
    partition(data, folder / "parts", parts=_PARTS, by="streaming")
    return load("partition", folder=folder / "parts")

"""Fits a handful of arms on each case and keeps what each rule could see, with the test scores that judge the rules."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from graphshift.core.errors import GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import DATASETS, load
from graphshift.estimators import Ensemble, Estimator, Predictor, make_estimator
from graphshift.lab.paper.reproducing import absent
from graphshift.shift.estimating import estimate_score

#: The arms, the simplest first; each with the dataset's own settings otherwise.
ARMS: dict[str, dict[str, Any]] = {
    "ERM, mlp": {"method": "erm", "backbone": "mlp"},
    "ERM, gcn": {"method": "erm", "backbone": "gcn"},
    "ERM, sage": {"method": "erm", "backbone": "sage"},
    "EERM random, gcn": {"method": "eerm", "backbone": "gcn", "explorer": "random"},
    "EERM gradient, gcn": {"method": "eerm", "backbone": "gcn", "explorer": "gradient"},
    "EERM features, gcn": {"method": "eerm", "backbone": "gcn", "explorer": "features"},
}

#: The mean of one model of every arm.
COMMITTEE = "committee"


@dataclass(frozen=True)
class Case:
    """One dataset as it is used here.

    Attributes:
        experiment: its name in tables; draws of one dataset share it.
        dataset, options: the data.
        draw: seed of the models, and of data that are made.
        epochs: of every fit.
    """

    experiment: str
    dataset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    draw: int = 0
    epochs: int = 60

    @property
    def key(self) -> str:
        """Its name in the ledger."""
        return f"{self.experiment}, {self.draw}, {self.epochs} epochs"


_CITATION = [(a, b) for a in ("acm", "citation", "dblp") for b in ("acm", "citation", "dblp") if a != b]


def cases(draws: int = 1, *, quick: bool = False) -> list[Case]:
    """All cases, a draw of every dataset before the next; those whose split is fixed and that cost much have one.

    Args:
        draws: of the others.
        quick: the two made datasets alone, small.
    """
    return list(_quick() if quick else _cases(draws))


def _cases(draws: int) -> Iterator[Case]:
    for draw in range(draws):
        for name in ("planted-structure", "planted"):
            yield Case(name, name, {"nodes": 500, "seed": draw}, draw, 40)
        yield Case("cbas", "cbas", {}, draw, 40)
        yield Case("pubmed-temporal", "pubmed-temporal", {}, draw, 40)
        yield Case("cora", "cora", {"seed": draw}, draw, 40)
        if draw == 0:
            yield Case("twitch", "twitch", {}, draw, 30)
            for source, target in _CITATION:
                yield Case(f"citation {source} → {target}", "citation", {"source": source, "target": target}, draw, 20)
            yield Case("photo", "photo", {"seed": draw}, draw, 30)
            schools = {"training": "hopkins", "val": "Yale4", "tests": "Brown11,Reed98"}
            yield Case("facebook-100", "facebook100", schools, draw, 20)


def _quick() -> Iterator[Case]:
    for name in ("planted-structure", "planted"):
        yield Case(name, name, {"nodes": 200, "seed": 0}, 0, 10)


def record_of(case: Case, data_dir: Path | None) -> dict[str, Any] | None:
    """The record of one case; None where its files are not there."""
    return None if absent(case.dataset, data_dir) else measured(case, data_dir)


def measured(case: Case, data_dir: Path | None) -> dict[str, Any]:
    """The record of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        data = _load(case, data_dir)
        arms: dict[str, Any] = {}
        members: list[Estimator] = []
        for name, settings in ARMS.items():
            given = {**settings, "epochs": case.epochs, "seed": case.draw}
            model = make_estimator(given, data.defaults).fit(data, target="tests", also=["target"])
            own = seen(model, data) | {"epoch": model.best_epoch_}
            arms[name] = {"val": own, "target": own, "seconds": round(model.seconds_, 1)}
            by_target = model.also_["target"]
            if by_target.epoch != model.best_epoch_:
                other = copy.deepcopy(model)
                other.take(by_target)
                other.calibrate(data.val)
                arms[name]["target"] = seen(other, data) | {"epoch": by_target.epoch}
            members.append(model)
        committee = Ensemble(members)
        committee.calibrate(data.val)
        arms[COMMITTEE] = {"val": seen(committee, data)}
    about = {"case": case.key, "experiment": case.experiment, "draw": case.draw, "metric": data.task.metric}
    return {**about, "epochs": case.epochs, "arms": arms}


def seen(model: Predictor, data: ShiftDataset) -> dict[str, Any]:
    """The validation score, every estimate on the tests, and apart from these the true scores, which judge.

    What the estimates come to is not kept: it follows from weights that are learned elsewhere.
    """
    estimates = estimate_score(model, data.tests, data.val)
    assert isinstance(estimates, dict)  # of several graphs
    return {
        "validation": fmean(model.score(e) for e in data.val),
        "estimates": {
            name: {"held_out": one.held_out, "by": {kind: round(value, 5) for kind, value in one.by.items()}}
            for name, one in estimates.items()
        },
        "tests": model.score(data.tests),
    }


def _load(case: Case, data_dir: Path | None) -> ShiftDataset:
    folder = {"data_dir": data_dir} if data_dir is not None and "data_dir" in DATASETS[case.dataset].options else {}
    return load(case.dataset, **case.options, **folder)

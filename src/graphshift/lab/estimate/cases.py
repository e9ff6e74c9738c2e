"""The datasets and models on which estimates are compared with the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import load
from graphshift.estimators.base import Estimator
from graphshift.methods.eerm import EERM
from graphshift.methods.erm import ERM
from graphshift.methods.logistic import Logistic

#: Untuned models, quick to train: how right estimates are is asked, not how good models are.
ARMS: Mapping[str, Callable[[], Estimator]] = {
    "ERM, gcn": lambda: ERM("gcn", epochs=60),
    "ERM, sage": lambda: ERM("sage", epochs=60),
    "EERM random, gcn": lambda: EERM("gcn", explorer="random", epochs=40),
    "EERM gradient, gcn": lambda: EERM("gcn", explorer="gradient", epochs=30),
    "ERM, mlp": lambda: ERM("mlp", epochs=60),
    "logistic regression": lambda: Logistic(),
}

#: Schools that train, validate and test; the leaderboard's are larger.
_SCHOOLS = {
    "training": ["Caltech36", "Amherst41", "Johns Hopkins55"],
    "val": ["Yale4"],
    "tests": ["Reed98", "Brown11", "WashU32", "Carnegie49", "Princeton12"],
}


@dataclass(frozen=True)
class Case:
    """One draw, or one split, of a dataset.

    Attributes:
        dataset: what is left out together when something is learned.
        name: of the draw.
        options: of the dataset.
        arms: names from :data:`ARMS`.
        eerm: settings of EERM, which takes long on large graphs.
    """

    dataset: str
    name: str
    options: Mapping[str, Any]
    arms: tuple[str, ...] = tuple(ARMS)
    eerm: Mapping[str, Any] = field(default_factory=dict)

    def model(self, arm: str) -> Estimator:
        """An unfitted model."""
        made = ARMS[arm]()
        return made.set_params(**self.eerm) if isinstance(made, EERM) else made

    def load(self, data_dir: Path | None) -> ShiftDataset:
        """The data."""
        made = self.dataset in ("planted", "planted-structure", "cbas")
        where = {} if data_dir is None or made else {"data_dir": data_dir}
        return load(self.dataset, **self.options, **where)


def cases(*, quick: bool = False) -> Iterator[Case]:
    """All of them; ``quick`` has one small draw alone."""
    if quick:
        yield Case("planted-structure", "planted-structure 0", {"nodes": 300, "seed": 0}, ("ERM, gcn", "ERM, mlp"))
        return
    for seed in range(3):
        yield Case("planted-structure", f"planted-structure {seed}", {"nodes": 800, "seed": seed})
    for seed in range(2):
        yield Case("planted", f"planted {seed}", {"nodes": 800, "seed": seed})
    yield Case("pubmed-temporal", "pubmed-temporal", {})
    yield Case("twitch", "twitch", {})
    for source in ("acm", "dblp", "citation"):
        yield Case("citation", f"citation from {source}", {"source": source})
    for shift in ("concept", "covariate"):
        yield Case("cbas", f"cbas {shift}", {"shift": shift})
    yield Case("cora", "cora", {}, eerm={"epochs": 20, "views": 3})
    yield Case("facebook100", "facebook100", _SCHOOLS, eerm={"epochs": 10, "views": 3})
    yield Case("photo", "photo", {}, ("ERM, gcn", "ERM, sage"))

"""Fits one model for each dataset and measures what it promised on the tests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets import load
from graphshift.estimators.sets import PredictionSets
from graphshift.methods.erm import ERM
from graphshift.shift.auditing.audit import audit
from graphshift.shift.auditing.flipping import flip_edges, random_flip
from graphshift.shift.calibrating import calibrate_to
from graphshift.shift.reliability import curves_of

EPOCHS = 100
COVERAGE, ERROR = 0.9, 0.05
WEIGHTS = ("none", "auto", "features", "copies", "moved")
FLIPPED = 12  # nodes
_AUDITED = ("planted-structure", "planted", "pubmed-temporal", "cora", "twitch")
_FLIPPED = _AUDITED[:4]  # a random search takes thousands of predictions
_MOST = 50  # random edits


class Case(NamedTuple):
    """A dataset with its options."""

    dataset: str
    options: Mapping[str, Any]
    draw: int

    @property
    def key(self) -> str:
        """Its name in the ledger."""
        return f"{self.dataset}, {self.draw}"


_GENERATED = {"generator": "gcn", "variant": "authors", "redraw": True}
_FACEBOOK = {"training": "hopkins", "tests": "Brown11,Reed98,Columbia2,Virginia63"}
_REAL: dict[str, Mapping[str, Any]] = {
    "pubmed-temporal": {},
    "citation": {},
    "twitch": {},
    "cora": _GENERATED,
    "photo": _GENERATED,
    "facebook100": _FACEBOOK,
}
_MADE = ("planted-structure", "planted")


def cases(data_dir: Path | None, *, draws: int = 3, nodes: int | None = None) -> list[Case]:
    """Every dataset; made ones several times.

    Args:
        data_dir: where the raw files are.
        draws: of the made datasets.
        nodes: of these; None for their default. A number leaves out the real ones.
    """
    size = {} if nodes is None else {"nodes": nodes}
    found = [Case(name, {"seed": draw, **size}, draw) for draw in range(draws) for name in _MADE]
    place = {} if data_dir is None else {"data_dir": data_dir}
    return found + [Case(name, {**options, **place}, 0) for name, options in _REAL.items() if nodes is None]


def record_of(case: Case, epochs: int = EPOCHS, flipped: int = FLIPPED) -> dict[str, Any] | None:
    """The record of one case; None where its files are not there.

    Args:
        case: from :func:`cases`.
        epochs: of each fit.
        flipped: nodes whose prediction is to be flipped.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        try:
            data = load(case.dataset, **case.options)
        except GraphshiftError:
            return None
        model = ERM(epochs=epochs, seed=case.draw).fit(data)
        model.explore(data.val)
        tests = {e.name: on_test(model, e, data.val) for e in data.tests}
        record = {"case": case.key, "dataset": case.dataset, "draw": case.draw, "epochs": epochs, "tests": tests}
        record |= {"audit": _audited(model, data)} if case.dataset in _AUDITED else {}
        return record | ({"flips": _flips(model, data.val[0], flipped)} if case.dataset in _FLIPPED else {})


def on_test(model: Any, environment: Environment, validation: Sequence[Environment]) -> dict[str, Any]:
    """What was promised and what came of it on one test; its labels are looked at last."""
    rows = environment.single.cpu().numpy()
    aimed = calibrate_to(model, environment, validation)
    sets = {w: aimed.predict_set(environment, COVERAGE, weights=w) for w in WEIGHTS}
    sets["copies"] = model.predict_set(environment, COVERAGE, weights="copies")
    sets["auto"] = model.predict_set(environment, COVERAGE)
    assert environment.y is not None
    truth = environment.y.cpu().numpy()
    y = truth[rows]
    shown = {
        "raw": (model, False),
        "validation": (model, True),
        "target": (model, "target"),
        "moved": (aimed, "target"),
    }
    assert aimed.explored_ is not None
    found: dict[str, Any] = {"nodes": len(y), "graph_aware": aimed.explored_.temperature.graph_aware}
    for name, (one, how) in shown.items():
        found[name] = curves_of(y, one.predict_proba(environment, calibrated=how)[rows]).to_json()
    for name, one in (("abstain", model), ("abstain_moved", aimed)):
        answers = one.predict_or_abstain(environment, ERROR)
        said, wrong = answers.answered[rows], answers.predictions[rows] != y
        found[name] = {"share": float(said.mean()), "error": float(wrong[said].mean()) if said.any() else None}
        found[name] |= {"refused": answers.refused}
    found["sets"] = {}
    for name, one in sets.items():
        assert isinstance(one, PredictionSets)
        covered, sizes = one.covers(truth)[rows], one.sizes[rows]
        found["sets"][name] = {"coverage": float(covered.mean()), "size": float(sizes.mean()), "used": one.weights}
    return found


def _audited(model: Any, data: ShiftDataset) -> dict[str, Any]:
    """Of the training and the first validation graph."""
    train, val = data.train[0], data.val[0]
    graphs = [train, val] if val.name != train.name else [train]
    found = audit(model, graphs, flips=0)
    lost = {one.graph: {what: one.lost(what) for what in one.broken} for one in found.leanings}
    record: dict[str, Any] = {"verdict": found.verdict, "crutch": found.crutch, "lost": lost}
    spurious = set(data.facts.get("spurious_columns", ()))
    if spurious and found.moved:
        columns = list(found.moved)
        labels = [column in spurious for column in columns]
        if 0 < sum(labels) < len(labels):
            values = np.array([found.moved[column] for column in columns])
            record["spurious_auroc"] = float(roc_auc_score(labels, values))
            record["columns"] = [len(columns), sum(labels)]
    return record


def _flips(model: Any, environment: Environment, number: int) -> dict[str, Any]:
    """Sizes of edits that flip, of nodes that both searches flip; None counts as not flipped."""
    random = np.random.default_rng(0)
    nodes = random.choice(environment.counted.numpy(), min(number, environment.counted.numel()), replace=False)
    sizes = []
    for node in nodes.tolist():
        one, other = flip_edges(model, environment, node), random_flip(model, environment, node, most=_MOST, tries=5)
        sizes.append([None if found is None else found.size for found in (one, other)])
    return {"environment": environment.name, "sizes": sizes, "most": [10, _MOST]}

"""How sure a model is, and how right: what ``result.json`` says of probabilities, thresholds and unlabelled targets."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import metrics as sk

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS
from graphshift.estimators import Predictor
from graphshift.estimators.confidence import sigmoid

_GAP = 0.1  # between confidence and accuracy, that is told of


def assurance(model: Predictor, data: ShiftDataset) -> dict[str, Any]:
    """Of the validation and test environments: accuracy, mean confidence and calibration error; empty in regression.

    Returns:
        ``confidence`` with the ``temperature`` (None without validation graphs) and, by role and environment,
        ``nodes``, ``accuracy``, ``confidence`` and ``ece`` of raw probabilities, and under ``calibrated`` the last two
        of calibrated ones. In binary tasks ``threshold`` too: the one of the largest F1 on validation, as a calibrated
        ``probability``, and the ``f1`` at it by environment.
    """
    if not model.task_.is_classification:
        return {}
    fitted = model.confidences_.get("")
    found: dict[str, Any] = {"temperature": None if fitted is None else fitted.temperature}
    for role in ("val", "tests"):
        found[role] = {e.name: _assurance(model, e) for e in data.roles[role]}
    if fitted is None or fitted.thresholds is None:
        return {"confidence": found}
    probability = sigmoid(fitted.scaled_logit(fitted.thresholds.choose("auto")))
    scores = {e.name: model.score(with_metric(e, "f1"), threshold="auto") for e in (*data.val, *data.tests)}
    return {"confidence": found, "threshold": {"by": "auto", "probability": probability, "f1": scores}}


def too_sure(result: Mapping[str, Any]) -> list[str]:
    """A sentence on the validation and test environments where the model is much surer than it is right; none else.

    The gap is looked at after calibration, and beyond what so few nodes would show by chance.

    Args:
        result: of a fit, with what :func:`assurance` gave.
    """
    found = []
    for role in ("val", "tests"):
        for name, one in result.get("confidence", {}).get(role, {}).items():
            sure, right = one.get("calibrated", one)["confidence"], one["accuracy"]
            if sure - right > _GAP + 1 / math.sqrt(one["nodes"]):
                found.append(f"{name} ({sure:.2f} sure, {right:.2f} right)")
    if not found:
        return []
    shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    return [
        f"the probabilities are too sure, calibration on validation included, in {shown}: do not rely on them there."
    ]


def _assurance(model: Predictor, environment: Environment) -> dict[str, Any]:
    rows, y = environment.counted.cpu().numpy(), environment.labels.cpu().numpy()
    raw = _probabilities(model, environment, calibrated=False)[rows]
    note: dict[str, Any] = {"nodes": y.size, "accuracy": METRICS["accuracy"].compute(y, raw)} | _sureness(y, raw)
    if model.confidences_:
        note["calibrated"] = _sureness(y, _probabilities(model, environment, calibrated=True)[rows])
    return note


def _sureness(y: NDArray[Any], p: NDArray[np.float64]) -> dict[str, float]:
    return {"confidence": float(p.max(axis=1).mean()), "ece": METRICS["ece"].compute(y, p)}


def _probabilities(model: Predictor, environment: Environment, *, calibrated: bool) -> NDArray[np.float64]:
    found = model.predict_proba(environment, calibrated=calibrated)
    assert isinstance(found, np.ndarray)  # of one graph
    return found


def outlook(model: Predictor, environments: Iterable[Environment]) -> dict[str, dict[str, Any]]:
    """What a model predicts where nothing is labelled, over the nodes that count, by environment.

    Returns:
        ``nodes`` and, for classes, their ``shares`` by name and the mean ``confidence`` (calibrated if the model is);
        in regression the ``mean`` and the ``deviation`` of the values.
    """
    found: dict[str, dict[str, Any]] = {}
    for e in environments:
        table = model.predict_frame(e)[e.mask.cpu().numpy()]
        predicted, note = table["prediction"], {"nodes": len(table)}
        if model.task_.is_classification:
            shares = {str(name): float((predicted == name).mean()) for name in model.classes_}
            confidence = float(table.iloc[:, -len(shares) :].max(axis=1).mean())
            found[e.name] = {**note, "shares": shares, "confidence": confidence}
        else:
            found[e.name] = {**note, "mean": float(predicted.mean()), "deviation": float(predicted.std(ddof=0))}
    return found


def with_metric(environment: Environment, metric: str) -> Environment:
    """The same environment, scored by another metric."""
    return environment.replace(task=dataclasses.replace(environment.task, metric=metric))


def per_class(
    model: Predictor,
    environment: Environment,
    *,
    adapt: str | None = None,
    threshold: float | str | None = None,
    calibrated: bool = False,
) -> dict[str, dict[str, float]]:
    """Precision, recall, F1, the number of counted nodes and of predictions of each class, by its name.

    A class that is never predicted has precision 0, and one without a node recall 0.

    Args:
        model: fitted.
        environment: with labels.
        adapt, threshold, calibrated: as in :meth:`Predictor.predict`.
    """
    how: Any = {"adapt": adapt, "threshold": threshold, "calibrated": calibrated}
    predicted = model.predict(environment, **how)[environment.counted.cpu().numpy()]
    y, labels = environment.labels.cpu().numpy(), range(model.task_.num_classes)
    parts = sk.precision_recall_fscore_support(y, predicted, labels=labels, zero_division=0)
    counts = torch.bincount(torch.as_tensor(predicted), minlength=len(labels)).tolist()
    return {
        str(name): {"precision": float(p), "recall": float(r), "f1": float(f), "nodes": int(n), "predicted": counts[i]}
        for i, (name, p, r, f, n) in enumerate(zip(model.classes_, *parts, strict=True))
    }

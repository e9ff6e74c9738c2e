"""Which columns a model uses, and which of these have moved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Predictor
from graphshift.graph.sparse import Sparse
from graphshift.shift.auditing.breaking import permuted
from graphshift.shift.auditing.measuring import reached

MOST = 100  # columns that are looked at one by one
_REPEATS = 2


def strongest(model: Predictor, environment: Environment, most: int = MOST) -> list[int]:
    """The columns that matter most to first order, in their order; all if there are no more than ``most``.

    A column's weight is |Σ_v x_vc ∂L/∂x_vc|, of dense features without their mean; without a gradient its variance.
    """
    x = environment.x
    if x.shape[1] <= most:
        return list(range(x.shape[1]))
    value = x.value if isinstance(x, Sparse) else x - x.mean(dim=0)
    product = value.square()
    if isinstance(model, GNNEstimator):
        leaf = (x.value if isinstance(x, Sparse) else x).detach().clone().requires_grad_()
        given = Sparse(x.pattern, leaf) if isinstance(x, Sparse) else leaf
        (slope,) = torch.autograd.grad(environment.risk(model.backbone_(given, environment.graph)), leaf)
        product = value * slope
    if isinstance(x, Sparse):
        total = torch.zeros(x.shape[1], device=product.device).index_add_(0, x.pattern.col.long(), product)
    else:
        total = product.sum(dim=0)
    return sorted(total.abs().topk(most).indices.tolist())


def column_drops(model: Predictor, environment: Environment, columns: Sequence[int], seed: int = 0) -> dict[int, float]:
    """By how much the risk rises when each column is permuted among nodes; the mean of two draws (Breiman, 2001)."""
    plain = reached(model, environment).risk
    return {
        column: float(
            np.mean([reached(model, permuted(environment, [column], seed + i)).risk for i in range(_REPEATS)]) - plain
        )
        for column in columns
    }


def moved_columns(
    model: Predictor, source: Environment, target: Environment, columns: Sequence[int]
) -> dict[int, float]:
    """By how much predictions on the target change when what has moved in a column is undone, column by column.

    A column's mean and deviation are made those of the source; a sparse column is multiplied until its mean is. The
    change is the mean over counted nodes of the total variation between class probabilities (of values the mean
    absolute difference). It is large of columns that have moved and that the model uses. Labels are not looked at.
    """
    plain, found = _predicted(model, target), {}
    for column in columns:
        found[column] = float(
            np.abs(_predicted(model, _aligned(source, target, column)) - plain).sum(axis=1).mean() / 2
        )
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def _predicted(model: Predictor, environment: Environment) -> np.ndarray:
    rows = environment.counted.cpu().numpy()
    if model.task_.is_classification:
        return np.asarray(model.predict_proba(environment))[rows]
    return 2 * np.asarray(model.predict(environment))[rows, None]


def _aligned(source: Environment, target: Environment, column: int) -> Environment:
    x, old = target.x, source.x
    if isinstance(x, Sparse):
        assert isinstance(old, Sparse)
        own = x.pattern.col == column
        mean = x.value[own].sum() / x.shape[0]
        wanted = old.value[old.pattern.col == column].sum() / old.shape[0]
        factor = torch.where(mean != 0, wanted / torch.where(mean != 0, mean, torch.ones_like(mean)), 1.0)
        return target.replace(x=Sparse(x.pattern, torch.where(own, x.value * factor, x.value)))
    assert isinstance(old, Tensor)
    here, there = x[:, column], old[:, column].to(x)
    spread = here.std().clamp(min=torch.finfo(x.dtype).tiny)
    changed = x.clone()
    changed[:, column] = (here - here.mean()) * (there.std() / spread if float(here.std()) else 1.0) + there.mean()
    return target.replace(x=changed)

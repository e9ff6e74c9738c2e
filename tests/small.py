"""What the tests of methods, training and models share: tiny environments, a module of a user's own, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.methods import Method
from graphshift.training.loop import Selection
from graphshift.training.selection import SELECTIONS, Roles, mean_score
from reference import random_data


def environments(count: int = 2, nodes: int = 24, classes: int = 3, *, seed: int = 0) -> list[Environment]:
    """Environments of different graphs, some of whose nodes do not count."""
    made = []
    for i in range(count):
        data = random_data(nodes + 4 * i, classes=classes, density=0.15, seed=seed + i)
        data.mask = torch.arange(data.num_nodes) % 4 != i % 4
        made.append(Environment(f"e{i}", data, Task("multiclass" if classes > 2 else "binary", classes)))
    return made


class OwnModule(nn.Module):
    """A user's own PyG model, with dropout and batch normalisation."""

    def __init__(self, features: int = 5, classes: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, 8), GCNConv(8, classes)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.dropout(self.norm(self.first(x, edge_index)).relu()), edge_index)


def gradients_of(method: Method, training: list[Environment]) -> dict[str, Tensor]:
    """The gradients of a step that moves nothing."""
    found: dict[str, Tensor] = {}

    def keep() -> None:
        found.update({n: p.grad.clone() for n, p in method.backbone.named_parameters() if p.grad is not None})

    method.descend = keep  # type: ignore[method-assign]
    method.step(training, 0.0)
    return found


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy that later training does not change."""
    return {name: tensor.clone() for name, tensor in state.items()}


def identical(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Whether two states have the same names and the same bits."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def assert_close(left: Mapping[str, Tensor], right: Mapping[str, Tensor], **tolerance: float) -> None:
    assert left.keys() == right.keys()
    for name in left:
        torch.testing.assert_close(left[name], right[name], **tolerance, msg=lambda m, name=name: f"{name}: {m}")


def without_seconds(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def split(
    rule: str, train: Sequence[Environment], val: Sequence[Environment], tests: Sequence[Environment], seed: int
) -> tuple[list[Environment], list[Environment]]:
    """What a selection rule trains on and selects by."""
    kept, chosen = SELECTIONS.find(rule).split(Roles(train, val, tests, seed))
    return list(kept), list(chosen)


def by(environments: Sequence[Environment]) -> Selection:
    """The epoch with the best mean score on these environments."""
    return Selection(environments, mean_score)

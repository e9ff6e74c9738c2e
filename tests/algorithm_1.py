"""Algorithm 1 of the paper, dense and by autograd, written from its equations: what EERM is compared with.

Every explorer is an N × N matrix of logits with a ``torch.optim`` optimiser; a view is A + B ∘ (Ā − A) as a matrix; the
GCN is products of matrices. Nothing of graphshift is used but the loss −R · log p of :class:`~policies.DensePolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from policies import DensePolicy
from reference import dense_normalised


def drawn(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Columns by the inverse of the distribution function: one for each entry of ``uniform``, ``[nodes, s]``."""
    cumulated = probabilities.cumsum(dim=1)
    cumulated = cumulated / cumulated[:, -1:]
    return torch.searchsorted(cumulated, uniform.to(cumulated.dtype), right=True)


def edited(adjacency: Tensor, columns: Tensor, *, directed: bool) -> Tensor:
    """A + B ∘ (Ā − A) with Ā = 11ᵀ − I − A; B is 1 at every drawn entry and, undirected, at its mirror image."""
    chosen = torch.zeros_like(adjacency).scatter(1, columns.long(), 1.0)
    if not directed:
        chosen = chosen.maximum(chosen.t())
    complement = 1 - torch.eye(len(adjacency), dtype=adjacency.dtype) - adjacency
    return adjacency + chosen * (complement - adjacency)


def dense_gcn(p: Mapping[str, Tensor], x: Tensor, adjacency: Tensor) -> Tensor:
    """Two layers: Â x W + b, batch normalisation by the batch's own moments, ReLU, Â h W + b."""
    mixing = dense_normalised(adjacency)
    h = mixing @ x @ p["layers.0.linear.weight"].t() + p["layers.0.bias"]
    centred = h - h.mean(dim=0)
    h = centred / (centred.square().mean(dim=0) + 1e-5).sqrt() * p["norms.0.weight"] + p["norms.0.bias"]
    return mixing @ h.relu() @ p["layers.1.linear.weight"].t() + p["layers.1.bias"]


class DenseAlgorithm1:
    """Algorithm 1 on one graph.

    Args:
        parameters: θ by name, as a two-layer GCN calls them; copied.
        x, y, mask, adjacency: the graph; ``adjacency`` is dense, ``[nodes, nodes]``.
        views, steps, beta: K, T, β.
        lr, weight_decay: of θ, by AdamW.
        explorer: makes the optimiser of a policy's logits.
        explorer_options: its learning rate and so on.
        directed: whether an edit is one entry of A.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        y: Tensor,
        mask: Tensor,
        adjacency: Tensor,
        *,
        views: int,
        steps: int,
        beta: float,
        lr: float,
        weight_decay: float,
        explorer: type[torch.optim.Optimizer],
        explorer_options: Mapping[str, Any],
        directed: bool,
    ) -> None:
        self.theta = {name: p.detach().double().clone().requires_grad_() for name, p in parameters.items()}
        self.x, self.y, self.mask, self.adjacency = x.double(), y, mask, adjacency.double()
        self.steps, self.beta, self.directed = steps, beta, directed
        self.policies = [DensePolicy(len(x), torch.float64, explorer, **explorer_options) for _ in range(views)]
        self.optimizer = torch.optim.AdamW(self.theta.values(), lr=lr, weight_decay=weight_decay)

    def epoch(self, draw: Callable[[int, int, Tensor], Tensor]) -> list[tuple[list[float], list[float]]]:
        """One pass of the outer loop.

        Args:
            draw: the columns of explorer k in step t, ``[nodes, s]``, given its N × N probabilities: ``draw(t, k, p)``.

        Returns:
            For every step the risks and the log-probabilities of the K views.
        """
        told = []
        for t in range(self.steps):
            with torch.no_grad():
                columns = [draw(t, k, policy.log_softmax().exp()) for k, policy in enumerate(self.policies)]
            logs = [float(p.log_prob(c.long()).detach()) for p, c in zip(self.policies, columns, strict=True)]
            graphs = [edited(self.adjacency, c, directed=self.directed) for c in columns]
            losses = torch.stack([self._risk(graph) for graph in graphs])  # L(G^k, Y; θ)
            count = len(graphs)
            variance = ((losses - losses.sum() / count) ** 2).sum() / (count - 1)  # J_1
            for policy, c in zip(self.policies, columns, strict=True):
                policy.reinforce(c.long(), float(variance.detach()))
            if t == self.steps - 1:
                self.optimizer.zero_grad()
                (variance + self.beta / count * losses.sum()).backward()  # J_2
                self.optimizer.step()
            told.append((losses.tolist(), logs))
        return told

    def _risk(self, adjacency: Tensor) -> Tensor:
        return F.cross_entropy(dense_gcn(self.theta, self.x, adjacency)[self.mask], self.y[self.mask])

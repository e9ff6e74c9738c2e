"""TAR (Zheng et al., ICML 2025, *Topology-Aware Dynamic Reweighting for Distribution Shifts on Graph*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.gnn import GNNEstimator
from graphshift.training.method import Method

Ends = tuple[Tensor, Tensor]

_MOST = 0.5  # of its weight, that a node may lose in a step of the flow


def robust_value(shares: Tensor, losses: Tensor, entropy: float) -> Tensor:
    """F(q) = Σ_i q_i l_i − β Σ_i q_i log q_i: what the weights q of the nodes climb.

    Args:
        shares: q, ``[n]``, positive.
        losses: l, ``[n]``.
        entropy: β.
    """
    return (shares * losses).sum() - entropy * (shares * shares.log()).sum()


def flow(shares: Tensor, losses: Tensor, ends: Ends, entropy: float) -> Tensor:
    """dq_i/dt = Σ_{j ~ i} κ_ij (φ_i − φ_j), φ = ∂F/∂q: the gradient flow of F in the Wasserstein space of a graph.

    κ_ij is the weight of the end that gives: of i and j the one with the smaller φ (Chow et al., 2012). Weight moves
    along edges and none is lost, so Σ_i q_i stays 1; and dF/dt = Σ over edges of κ_ij (φ_i − φ_j)² ≥ 0.

    Args:
        shares, losses, entropy: as in :func:`robust_value`.
        ends: of every edge the two nodes, each edge once.
    """
    slope = losses - entropy * (shares.log() + 1)
    i, j = ends
    gap = slope[i] - slope[j]
    moved = torch.where(gap > 0, shares[j], shares[i]) * gap  # to i; from it if negative
    return torch.zeros_like(shares).index_add_(0, i, moved).index_add_(0, j, -moved)


def worst_shares(losses: Tensor, ends: Ends, *, entropy: float, rate: float, steps: int) -> Tensor:
    """The weights of nodes after some steps of :func:`flow` from equal ones, ``[n]``; they are 1 together.

    No node gives more than half of its weight in a step: a step that would is shortened for all.

    Args:
        losses: of the nodes, ``[n]``.
        ends, entropy: as in :func:`flow`.
        rate: of a step.
        steps: how many.
    """
    shares = torch.full_like(losses, 1 / losses.numel())
    for _ in range(steps if ends[0].numel() else 0):
        change = flow(shares, losses, ends, entropy)
        lost = float((-change / shares).max())
        shares = shares + min(rate, _MOST / max(lost, 1e-12)) * change
    return shares


class TARMethod(Method):
    """Σ_i q_i l_i of each graph, the mean over graphs; q climbs the loss along edges before every step."""

    hparams: TAR

    def __init__(self, backbone: Backbone, hparams: TAR) -> None:
        super().__init__(backbone, hparams)
        self._known: WeakKeyDictionary[Environment, Ends] = WeakKeyDictionary()

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One pass of every training graph, one step."""
        self.backbone.train()
        h, objectives, risks, largest = self.hparams, [], [], 0.0
        for environment in environments:
            output = self.output(environment)[environment.counted]
            losses = node_losses(environment.task, output, environment.labels)
            shares = worst_shares(
                losses.detach(), self._ends(environment), entropy=h.entropy, rate=h.flow_rate, steps=h.flow_steps
            )
            objectives.append((shares * losses).sum())
            risks.append(losses.detach().mean())
            largest = max(largest, float(shares.max()) * shares.numel())
        loss = torch.stack(objectives).mean()
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach()), "risk": float(torch.stack(risks).mean()), "largest_weight": largest}

    def _ends(self, environment: Environment) -> Ends:
        if environment.whole is not None:  # a batch is seen once
            return counted_ends(environment)
        if environment not in self._known:
            self._known[environment] = counted_ends(environment)
        return self._known[environment]


def counted_ends(environment: Environment) -> Ends:
    """The edges between counted nodes, each once, by the nodes' places among the counted."""
    place = torch.full((environment.num_nodes,), -1, device=environment.mask.device)
    place[environment.counted] = torch.arange(environment.counted.numel(), device=place.device)
    receiver, sender, _ = environment.graph.entries
    i, j = place[receiver.long()], place[sender.long()]
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    both = low >= 0
    key = (low * environment.counted.numel() + high)[both].unique()
    count = max(environment.counted.numel(), 1)
    return key // count, key % count


def node_losses(task: Task, output: Tensor, labels: Tensor) -> Tensor:
    """The loss of each node, whose mean is the task's, ``[n]``.

    Args:
        task: which loss.
        output: ``[n, out_channels]``.
        labels: ``[n]``.
    """
    if task.two_logits:
        target = F.one_hot(labels.long(), 2).to(output.dtype)
        return F.binary_cross_entropy_with_logits(output, target, reduction="none").mean(dim=1)
    if task.kind == "multiclass":
        return F.cross_entropy(output, labels, reduction="none")
    if task.kind == "binary":
        return F.binary_cross_entropy_with_logits(output.squeeze(1), labels.to(output.dtype), reduction="none")
    return F.mse_loss(output.squeeze(1), labels, reduction="none")


@METHODS.register("tar", label="TAR")
@dataclass(eq=False, repr=False, kw_only=True)
class TAR(GNNEstimator):
    """The risk under the worst weights of training nodes that a flow along edges reaches from equal ones.

    Args:
        entropy: β, which keeps weights even.
        flow_rate: how far a step of the flow goes.
        flow_steps: how many there are.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = TARMethod
    entropy: float = hparam(0.1, ge=0, le=1e6, search=(0.01, 0.1, 1.0), help="β, which keeps weights even")
    flow_rate: float = hparam(0.1, gt=0, le=1e6, search=(0.01, 0.1, 1.0), help="how far a step of the flow goes")
    flow_steps: int = hparam(5, ge=1, le=1000, help="steps of the flow before each step of the GNN")

    def check_task(self, task: Task) -> None:
        """Of nodes: weight moves along edges between them."""
        refuse_graph_level(task, "method tar, which moves weight along edges between labelled nodes,")

"""The smallest edit of a node's own edges, or of its own columns, that flips what is predicted for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Predictor
from graphshift.explorers.probing import OpaqueError, probed
from graphshift.graph.graph import Graph
from graphshift.graph.keys import reverse
from graphshift.graph.sparse import Sparse

_TRIED = 5  # of the edits that are best to first order, tried in earnest


@dataclass(frozen=True)
class Flip:
    """An edit that flips a prediction.

    Attributes:
        node: whose.
        before, after: the classes by number.
        edits: the other ends of the node's edges that are added or removed, or the columns that are set to their mean.
        found: ``"gradient"`` or ``"random"``.
    """

    node: int
    before: int
    after: int
    edits: tuple[int, ...]
    found: str

    @property
    def size(self) -> int:
        """How many edits."""
        return len(self.edits)


class _Target:
    """The prediction of one node, as a function of edits."""

    def __init__(self, model: Predictor, environment: Environment, node: int) -> None:
        self.model, self.environment, self.node = model, environment, node
        self.scores = self._of(environment)
        self.before = int(self.scores.argmax())

    def margin(self, environment: Environment) -> tuple[float, int]:
        """How far the class of before is ahead, and the likeliest class."""
        scores = self._of(environment)
        return float(_margin(scores, self.before)), int(scores.argmax())

    def _of(self, environment: Environment) -> Tensor:
        p = torch.from_numpy(np.asarray(self.model.predict_proba(environment)))
        return p[self.node].clamp(min=1e-300).log()


def _margin(scores: Tensor, before: int) -> Tensor:
    others = torch.cat([scores[:before], scores[before + 1 :]])
    return scores[before] - others.max()


def flip_edges(model: Predictor, environment: Environment, node: int, *, most: int = 10) -> Flip | None:
    """The smallest edit of a node's own edges that is found, or None within ``most``.

    Pairs of the node and any other are ranked by the gradient of its margin, as the explorer ``gradient`` does; the
    best five are tried, the best is kept, and so on; at the end edits that are not needed are taken back. A model whose
    gradient in edges cannot be followed is searched at random.

    Args:
        model: fitted.
        environment: the graph; labels are not looked at.
        node: by number.
        most: how many edits.
    """
    if not isinstance(model, GNNEstimator):
        return random_flip(model, environment, node, most=most)
    target = _Target(model, environment, node)

    def ranked(chosen: frozenset[int]) -> Iterable[int]:
        current = _edited(environment.graph, node, chosen)
        found = _gains(model, environment, current, node, target.before).argsort(descending=True)
        return (int(one) for one in found if int(one) != node and int(one) not in chosen)

    try:
        return _searched(target, ranked, lambda chosen: _with_edges(environment, node, chosen), most)
    except OpaqueError:
        return random_flip(model, environment, node, most=most)


def flip_columns(model: GNNEstimator, environment: Environment, node: int, *, most: int = 20) -> Flip | None:
    """The fewest columns of a node that flip its prediction when they are set to their mean, or None within ``most``.

    Of sparse features those that are not 0 are set to 0.

    Args:
        model, environment, node, most: as in :func:`flip_edges`.
    """
    target = _Target(model, environment, node)

    def ranked(chosen: frozenset[int]) -> Iterable[int]:
        gains, able = _column_gains(model, _with_columns(environment, node, chosen), node, target.before)
        found = gains.argsort(descending=True)
        return (int(able[one]) for one in found if int(able[one]) not in chosen)

    return _searched(target, ranked, lambda chosen: _with_columns(environment, node, chosen), most)


def random_flip(
    model: Predictor, environment: Environment, node: int, *, most: int = 50, tries: int = 20, seed: int = 0
) -> Flip | None:
    """The smallest of random edits of a node's own edges that flips its prediction; half of the draws remove an edge.

    Args:
        model, environment, node, most: as in :func:`flip_edges`.
        tries: random orders.
        seed: of these.
    """
    target, random = _Target(model, environment, node), np.random.default_rng(seed)
    begin, end = (int(one) for one in environment.graph.pattern.rowptr[node : node + 2])
    own = environment.graph.pattern.col[begin:end].cpu().numpy()
    best: Flip | None = None
    for _ in range(tries):
        chosen: frozenset[int] = frozenset()
        limit = most if best is None else best.size - 1
        for _ in range(limit):
            left = [one for one in own if int(one) not in chosen]
            removes = bool(left) and random.random() < 0.5
            other = int(random.choice(left) if removes else random.integers(environment.num_nodes))
            if other == node or other in chosen:
                continue
            chosen |= {other}
            _, now = target.margin(_with_edges(environment, node, chosen))
            if now != target.before:
                best = Flip(node, target.before, now, tuple(sorted(chosen)), "random")
                break
    return best


def _searched(
    target: _Target,
    ranked: Callable[[frozenset[int]], Iterable[int]],
    edited: Callable[[frozenset[int]], Environment],
    most: int,
) -> Flip | None:
    chosen: frozenset[int] = frozenset()
    for _ in range(most):
        tried = [chosen | {one} for one, _ in zip(ranked(chosen), range(_TRIED), strict=False)]
        if not tried:
            return None
        margins = [target.margin(edited(one)) for one in tried]
        place = int(np.argmin([margin for margin, _ in margins]))
        chosen, now = tried[place], margins[place][1]
        if now != target.before:
            for one in sorted(chosen):
                if len(chosen) > 1 and (other := target.margin(edited(chosen - {one}))[1]) != target.before:
                    chosen, now = chosen - {one}, other
            return Flip(target.node, target.before, now, tuple(sorted(chosen)), "gradient")
    return None


def _edited(graph: Graph, node: int, others: Iterable[int]) -> Graph:
    n = graph.num_nodes
    keys = torch.tensor([node * n + one for one in others], dtype=torch.int64)
    if not keys.numel():
        return graph
    both = torch.cat([keys, reverse(keys, n)]) if graph.undirected else keys
    return graph.flip(both.sort().values.to(graph.device))


def _with_edges(environment: Environment, node: int, others: Iterable[int]) -> Environment:
    return environment.replace(graph=_edited(environment.graph, node, others))


def _gains(model: GNNEstimator, environment: Environment, graph: Graph, node: int, before: int) -> Tensor:
    """By how much flipping the pair of the node and each other lowers its margin, to first order, ``[nodes]``."""
    backbone, n = model.backbone_, graph.num_nodes
    graph = graph.to(torch.device("cpu"))
    with torch.no_grad():
        stem = backbone.stem(environment.x)

    def risk(given: Graph) -> Tensor:
        output = backbone.propagate(stem, given.to(stem.device))
        return -_margin(_log_p(model, output[node]), before)

    others = torch.arange(n, dtype=torch.int32)
    first = torch.zeros(n + 1, dtype=torch.int32)
    first[node + 1 :] = n
    slope = probed(graph, risk).of(first, others, both=graph.undirected)
    begin, end = (int(one) for one in graph.pattern.rowptr[node : node + 2])
    own = graph.pattern.col[begin:end].long()
    weight = torch.full((n,), float(graph.new_weight))
    weight[own] = -(torch.ones(len(own)) if graph.weight is None else graph.weight[begin:end])
    return weight * slope


def _log_p(model: GNNEstimator, output: Tensor) -> Tensor:
    """Logarithms of one node's class probabilities, with a gradient."""
    if model.task_.out_channels > 1:
        return output.log_softmax(dim=0)
    return torch.cat([torch.nn.functional.logsigmoid(-output), torch.nn.functional.logsigmoid(output)])


def _with_columns(environment: Environment, node: int, columns: Iterable[int]) -> Environment:
    x, chosen = environment.x, torch.tensor(sorted(columns), dtype=torch.int64, device=environment.mask.device)
    if isinstance(x, Sparse):
        own = (x.pattern.row == node) & torch.isin(x.pattern.col.long(), chosen)
        return environment.replace(x=Sparse(x.pattern, x.value.masked_fill(own, 0.0)))
    changed = x.clone()
    changed[node, chosen] = x.mean(dim=0)[chosen]
    return environment.replace(x=changed)


def _column_gains(model: GNNEstimator, environment: Environment, node: int, before: int) -> tuple[Tensor, Tensor]:
    """By how much each column's edit lowers the margin, to first order, and the columns."""
    x = environment.x
    leaf = (x.value if isinstance(x, Sparse) else x[node]).detach().clone().requires_grad_()
    if isinstance(x, Sparse):
        changed: Tensor | Sparse = Sparse(x.pattern, leaf)
    else:
        changed = torch.cat([x[:node], leaf.unsqueeze(0), x[node + 1 :]])
    output = model.backbone_(changed, environment.graph)
    (slope,) = torch.autograd.grad(_margin(_log_p(model, output[node]), before), leaf)
    if isinstance(x, Sparse):
        own = ((x.pattern.row == node) & (x.value != 0)).nonzero().squeeze(1)
        return (slope * x.value)[own], x.pattern.col[own].long()
    return slope * (x[node] - x.mean(dim=0)), torch.arange(x.shape[1])

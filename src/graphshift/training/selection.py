"""Which epoch is kept: the named rules, what each looks at, and how it scores the model of an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import torch

from graphshift.backbones import Backbone
from graphshift.backbones.base import computed_once
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.explorers import Gradient, SharedRisk
from graphshift.graph.graph import Graph
from graphshift.methods import Method

#: The named rules for choosing the epoch whose weights are kept.
SELECTIONS: dict[str, str] = {
    "val": "best mean score on the validation environments (the paper's rule)",
    "explored": "best mean score on the validation environments after edits that raise the risk there",
    "id_val": "best mean score on a fifth of the training nodes, held out from training",
    "oracle": "best mean score on the test environments: an upper bound, never a result to compare with",
    "last": "the last epoch; nothing is selected",
}

_HELD_OUT = 0.2


def selection_environments(
    rule: str, train: Sequence[Environment], val: Sequence[Environment], tests: Sequence[Environment], seed: int
) -> tuple[list[Environment], list[Environment]]:
    """The environments to train on and to select by, for a named rule of :data:`SELECTIONS`."""
    if rule not in SELECTIONS:
        raise GraphshiftError(f"selection is {rule!r}; expected one of {', '.join(SELECTIONS)}.")
    if rule == "last":
        return list(train), []
    if rule == "id_val":
        pairs = [_hold_out(environment, derive_seed(seed, 1, i)) for i, environment in enumerate(train)]
        return [kept for kept, _ in pairs], [held for _, held in pairs]
    chosen = tests if rule == "oracle" else val
    if not chosen:
        needed = "test environments: pass `tests`" if rule == "oracle" else "validation environments: pass `val`"
        raise GraphshiftError(
            f"selection {rule!r} needs {needed}, or choose selection 'id_val' (holds out training nodes) or 'last'."
        )
    return list(train), list(chosen)


def further_rules(
    rules: Iterable[str],
    train: Sequence[Environment],
    val: Sequence[Environment],
    tests: Sequence[Environment],
    device: torch.device,
) -> dict[str, list[Environment]]:
    """The environments of rules that share one training; ``id_val`` trains on other nodes, so it cannot."""
    found = {}
    for rule in rules:
        if rule in ("id_val", "last"):
            raise GraphshiftError(
                f"also is {rule!r}; expected 'val', 'explored' or 'oracle', which leave training as it is."
            )
        found[rule] = [e.to(device) for e in selection_environments(rule, train, val, tests, 0)[1]]
    return found


def _hold_out(environment: Environment, seed: int) -> tuple[Environment, Environment]:
    count = environment.counted.numel()
    size = round(_HELD_OUT * count)
    if size < 1 or size == count:
        raise GraphshiftError(
            f"selection 'id_val': environment {environment.name!r} has {count} counted nodes, too few to hold some out."
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    if environment.task.is_classification:
        order = _with_every_class(order, environment.labels.cpu(), size)
    held = torch.zeros_like(environment.mask)
    held[environment.counted[order[:size].to(held.device)]] = True
    return environment.replace(mask=environment.mask & ~held), environment.replace(mask=held)


def _with_every_class(order: torch.Tensor, labels: torch.Tensor, size: int) -> torch.Tensor:
    """The order with a node of every class (of two or more) among the first, and of every class among the others.

    Without the former, rankings have no score; without the latter, a class cannot be learned. Such a node changes
    places with one of the class that has most on the other side.
    """
    order = order.clone()
    for label in labels.unique():
        here, there = labels[order[:size]], labels[order[size:]]
        if not bool((there == label).any()):
            most = there.mode().values
            if int((there == most).sum()) > 1:
                _swap(order, int((here == label).nonzero()[0]), size + int((there == most).nonzero()[0]))
        elif not bool((here == label).any()) and int((there == label).sum()) > 1:
            most = here.mode().values
            if int((here == most).sum()) > 1:
                _swap(order, int((here == most).nonzero()[-1]), size + int((there == label).nonzero()[0]))
    return order


def _swap(order: torch.Tensor, a: int, b: int) -> None:
    order[[a, b]] = order[[b, a]]


def mean_score(method: Method, environments: Sequence[Environment], epoch: int) -> float | None:
    """The mean score of the present model; None where it predicts nothing that is finite."""
    outputs = [method.predict(environment) for environment in environments]
    if not all(bool(torch.isfinite(output).all()) for output in outputs):
        return None
    return fmean(e.score(output) for e, output in zip(environments, outputs, strict=True))


def explored_score(method: Method, environments: Sequence[Environment], epoch: int) -> float | None:
    """The mean score of the present model after edits that raise its risk: what it is worth where shortcuts break.

    Validation data near the training data choose the model that leans on shortcuts most. Here the pairs that the model
    leans on most, to first order, are flipped first (see :func:`misled`). A backbone that does not look at edges has
    the plain score.
    """
    edited = [misled(method.backbone, e, derive_seed(epoch, i)) for i, e in enumerate(environments)]
    return mean_score(method, edited, epoch)


def misled(backbone: Backbone, environment: Environment, seed: int = 0) -> Environment:
    """The environment after the edits that raise a trained model's risk most, to first order.

    At most as many pairs are flipped as there are edges: enough for models that lean on edges to part from those that
    do not. (With a tenth of that they hardly do.)

    Args:
        backbone: the model.
        environment: with labels.
        seed: of the pairs that are tried besides the edges.
    """
    backbone.eval()
    environment = environment.to(next((p.device for p in backbone.parameters()), environment.mask.device))
    with torch.no_grad():
        stem = backbone.stem(environment.x)

    def risk(graph: Graph) -> torch.Tensor:
        with computed_once(backbone):
            return environment.risk(backbone.propagate(stem, graph.to(stem.device)))

    edges = environment.graph.num_edges // (2 if environment.graph.undirected else 1)
    if not edges:
        return environment
    explorer = Gradient(1, aim="raise", budget=edges, seed=seed)
    try:
        view = explorer.propose(environment.graph, SharedRisk(risk))
    except GraphshiftError as error:  # no gradient in the edges
        graph = environment.graph
        without = Graph.from_keys(graph.num_nodes, graph.keys[:0], undirected=graph.undirected)
        with torch.no_grad():
            here, there = (backbone.propagate(stem, one.to(stem.device)) for one in (graph, without))
        if torch.allclose(here, there):  # since they do nothing
            return environment
        raise GraphshiftError(
            "selection 'explored' needs a backbone whose output depends on edge weights: let your module's forward "
            "take `edge_weight`, or choose another rule."
        ) from error
    return environment.replace(graph=view.graph)

"""Selection rules: which epoch is kept. A rule is one function below; ``SELECTIONS`` has them by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import torch

from graphshift.backbones import Backbone
from graphshift.backbones.base import computed_once
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.core.registry import Registry
from graphshift.data.environment import Environment
from graphshift.explorers import Gradient, SharedRisk
from graphshift.graph.graph import Graph
from graphshift.training.loop import Selection
from graphshift.training.method import Method
from graphshift.training.target_score import check_unlabelled, target_score

#: The environments to train on, and those to select by.
Split: TypeAlias = tuple[Sequence[Environment], Sequence[Environment]]

_HELD_OUT = 0.2


@dataclass(frozen=True)
class Roles:
    """The environments of a fit by role, and its seed. ``target`` has no labels."""

    train: Sequence[Environment]
    val: Sequence[Environment]
    tests: Sequence[Environment]
    seed: int
    target: Sequence[Environment] = ()


@dataclass(frozen=True)
class SelectionRule:
    """A named rule that chooses the epoch.

    Attributes:
        name: as in ``selection="val"``.
        split: gives the environments to train on and those to select by.
        help: one line.
        score: how the model of an epoch is scored; the mean score if None is given.
        shares_training: whether it leaves the training environments as they are, so that rules can share a training.
        uses_tests: whether it looks at test labels: an upper bound, never a result to compare with.
        uses_target: whether it looks at unlabelled target graphs; tables mark it.
        has_score: whether it scores epochs, so that settings can be chosen by it as well.
    """

    name: str
    split: Callable[[Roles], Split]
    help: str
    score: Callable[[Method, Sequence[Environment], int], float | None] | None = None
    shares_training: bool = True
    uses_tests: bool = False
    uses_target: bool = False
    has_score: bool = True

    def prepare(self, roles: Roles, device: torch.device) -> tuple[list[Environment], Selection]:
        """The training environments and the selection for :func:`graphshift.training.loop.train`, on a device."""
        train, chosen = self.split(roles)
        return [e.to(device) for e in train], Selection([e.to(device) for e in chosen], self.score or mean_score)


#: What every table says beside a rule that uses the target.
LOOKED = "looked at the unlabelled target"

#: Every selection rule by name.
SELECTIONS: Registry[SelectionRule] = Registry("selection", "graphshift.training.selection", SelectionRule)


def mean_score(method: Method, environments: Sequence[Environment], epoch: int) -> float | None:
    """The mean score of the present model; None where its predictions are not finite."""
    outputs = [method.predict(environment) for environment in environments]
    if not all(bool(torch.isfinite(output).all()) for output in outputs):
        return None
    return fmean(e.score(output) for e, output in zip(environments, outputs, strict=True))


def explored_score(method: Method, environments: Sequence[Environment], epoch: int) -> float | None:
    """The mean score of the present model after edits that raise its risk: its score where shortcuts break.

    Validation data near the training data prefer the model that relies on shortcuts most. So the pairs that the model
    relies on most, to first order, are flipped first (see :func:`adversarially_edited`). A backbone that does not use
    edges has the plain score.
    """
    edited = [adversarially_edited(method.backbone, e, derive_seed(epoch, i)) for i, e in enumerate(environments)]
    return mean_score(method, edited, epoch)


@SELECTIONS.register("val", help="best mean score on the validation environments (the paper's rule)")
def _by_validation(roles: Roles) -> Split:
    return roles.train, _needed(roles.val, "val", "validation environments: pass `val`")


@SELECTIONS.register("explored", help="best mean validation score after edits that raise risk", score=explored_score)
def _by_explored_validation(roles: Roles) -> Split:
    return roles.train, _needed(roles.val, "explored", "validation environments: pass `val`")


@SELECTIONS.register(
    "target",
    help="best score that is expected on the unlabelled target, compared with validation",
    score=target_score,
    uses_target=True,
)
def _by_target(roles: Roles) -> Split:
    val = _needed(roles.val, "target", "validation environments: pass `val`")
    check_unlabelled(roles.target, "selection 'target'")
    what = "unlabelled graphs: pass `target`, as target='tests' (--target tests)"
    return roles.train, [*val, *_needed(roles.target, "target", what)]


@SELECTIONS.register(
    "id_val", help="best mean score on a fifth of the training nodes, held out from training", shares_training=False
)
def _by_held_out_nodes(roles: Roles) -> Split:
    pairs = [_hold_out(environment, derive_seed(roles.seed, 1, i)) for i, environment in enumerate(roles.train)]
    return [kept for kept, _ in pairs], [held for _, held in pairs]


@SELECTIONS.register(
    "oracle", help="best mean score on the test environments: an upper bound, not a result", uses_tests=True
)
def _by_tests(roles: Roles) -> Split:
    return roles.train, _needed(roles.tests, "oracle", "test environments: pass `tests`")


@SELECTIONS.register("last", help="the last epoch; nothing is selected", shares_training=False, has_score=False)
def _last(roles: Roles) -> Split:
    return roles.train, ()


def _needed(environments: Sequence[Environment], rule: str, what: str) -> Sequence[Environment]:
    if not environments:
        raise GraphshiftError(
            f"selection {rule!r} needs {what}, or choose selection 'id_val' (holds out training nodes) or 'last'."
        )
    return environments


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
    kept, y = environment.mask & ~held, environment.y
    if y is None:
        return environment.replace(mask=kept), environment.replace(mask=held)
    known = y.masked_fill(~kept, torch.nan if y.is_floating_point() else -1)
    environment = environment.replace(known_y=known)
    return environment.replace(mask=kept), environment.replace(mask=held)


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
                pair = [int((here == label).nonzero()[0]), size + int((there == most).nonzero()[0])]
                order[pair] = order[pair[::-1]]
        elif not bool((here == label).any()) and int((there == label).sum()) > 1:
            most = here.mode().values
            if int((here == most).sum()) > 1:
                pair = [int((here == most).nonzero()[-1]), size + int((there == label).nonzero()[0])]
                order[pair] = order[pair[::-1]]
    return order


def adversarially_edited(
    backbone: Backbone, environment: Environment, seed: int = 0, share: float = 1.0
) -> Environment:
    """The environment after the edits of edges that raise a trained model's risk most, to first order.

    At most as many pairs are flipped as there are edges. That is enough to separate models that rely on edges from
    those that do not; a tenth of it is not.

    Args:
        backbone: the model.
        environment: with labels.
        seed: of the pairs that are tried besides the edges.
        share: of as many pairs as there are edges, this share is flipped at most.
    """
    backbone.eval()
    environment = environment.to(next((p.device for p in backbone.parameters()), environment.mask.device))
    with torch.no_grad():
        stem = backbone.stem(environment.x)

    def risk(graph: Graph) -> torch.Tensor:
        with computed_once(backbone):
            return environment.risk(backbone.propagate(stem, graph.to(stem.device)))

    edges = round(share * (environment.graph.num_edges // (2 if environment.graph.undirected else 1)))
    if not edges:
        return environment
    explorer = Gradient(1, aim="raise", budget=edges, seed=seed)
    try:
        view = explorer.propose(environment.graph, SharedRisk(risk))
    except GraphshiftError as error:  # no gradient in the edges
        graph = environment.graph
        without = graph.flip(graph.keys)
        with torch.no_grad():
            here, there = (backbone.propagate(stem, one.to(stem.device)) for one in (graph, without))
        if torch.allclose(here, there):  # since they do nothing
            return environment
        raise GraphshiftError(
            "selection 'explored' needs a backbone whose output depends on edge weights: let your module's forward "
            "take `edge_weight`, or choose another rule."
        ) from error
    return environment.replace(graph=view.graph)

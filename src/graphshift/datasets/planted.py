"""``planted``: the paper's artificial shift (its Appendix on Cora and Photo) on a random graph, nothing downloaded."""

from math import inf

import torch
from torch import Tensor

from graphshift.core.randomness import derive_seed
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.making.random_graphs import check_ranges, edges_within_groups, pareto_weights
from graphshift.datasets.reading.assembly import by_place, environment
from graphshift.graph.graph import Graph

_COMMUNITIES = 8


@DATASETS.register("planted", summary="random graph; spurious features change", shift="planted")
def planted(
    nodes: int = 2000,
    *,
    seed: int = 0,
    environments: int = 10,
    classes: int = 4,
    invariant_features: int = 16,
    spurious_features: int = 8,
    strength: float = 1.0,
    shift: float = 1.0,
    degree: float = 8.0,
    version: int = 1,
) -> ShiftDataset:
    """Ten graphs that differ in their spurious features alone: one to train, one to validate, eight to test.

    A random graph has communities and skewed degrees. Invariant features X1 (a community's centre plus noise) decide
    the labels through a random 2-layer GCN: Y = argmax GCN(X1). Spurious features X2 come from a second random GCN
    that reads labels and environment: X2 = GCN([strength · onehot(Y), shift · onehot(e)]) plus noise, exactly in
    version 2. Nodes, edges, labels and X1 are the same in all environments, as in the paper.

    Args:
        nodes: at least 60.
        seed: the same seed gives the same data.
        environments: at least 3; the first trains, the second validates.
        classes: of the labels.
        invariant_features: columns of X1; they come first.
        spurious_features: columns of X2; they come last (``facts["spurious_columns"]``).
        strength: how strongly X2 depends on the labels; 0 leaves no spurious link.
        shift: how much X2 moves between environments; 0 makes all environments alike.
        degree: the mean degree.
        version: 1 adds the environment's row of weights behind the first product with Â, as if Â · 1 were 1; the
            committed results stand on it. 2 is the GCN of both, where the environment weighs Â · 1, which grows with a
            node's degree among nodes of lower degree.
    """
    given, least = locals(), {"nodes": 60, "environments": 3, "classes": 2, "degree": 1, "seed": 0}
    least |= {"invariant_features": 1, "spurious_features": 1, "strength": 0, "shift": 0}
    ranges = {name: (bound, inf) for name, bound in least.items()}
    check_ranges("planted", given, ranges | {"degree": (1, nodes), "version": (1, 2)})
    generator = torch.Generator().manual_seed(derive_seed(seed, 11))
    community = torch.randint(_COMMUNITIES, (nodes,), generator=generator)
    weights = pareto_weights(nodes, 2.8, generator)
    edge_index = edges_within_groups(community, 0.8, degree, weights, generator)
    graph = Graph.from_edge_index(edge_index, nodes, undirected=True)

    centres = torch.randn(_COMMUNITIES, invariant_features, generator=generator)
    x1 = centres[community] + torch.randn(nodes, invariant_features, generator=generator)
    y = _standardised(_random_gcn(x1, graph, 32, classes, generator)).argmax(dim=1)
    onehot = torch.nn.functional.one_hot(y, classes).float()

    first = torch.randn(classes + environments, 32, generator=generator)
    second = torch.randn(32, spurious_features, generator=generator) / 32**0.5
    task = Task("multiclass" if classes > 2 else "binary", classes)
    from_labels = strength * (graph.normalised @ (onehot @ first[:classes]))
    # onehot(e) is the same at every node: its product with the weights is one row of them, which Â multiplies by Â · 1.
    ones = torch.ones(nodes, 1)
    reach = graph.normalised @ ones if version == 2 else ones
    made = []
    for e in range(environments):
        hidden = from_labels + shift * reach * first[classes + e]
        x2 = graph.normalised @ (hidden.relu() @ second)
        x2 = x2 + 0.1 * torch.randn(nodes, spurious_features, generator=generator)
        name = ("train", "val")[e] if e < 2 else f"T{e - 1}"
        made.append(environment(name, torch.cat([x1, x2], dim=1), y, graph, task))
    columns = list(range(invariant_features, invariant_features + spurious_features))
    defaults = {"epochs": 200, "lr": 0.01, "views": 3, "edits_per_node": 1, "beta": 1.0, "explorer_lr": 0.005}
    return ShiftDataset(
        "planted", *by_place(made), facts={"spurious_columns": columns, "version": version}, defaults=defaults
    )


def _random_gcn(x: Tensor, graph: Graph, hidden: int, out: int, generator: torch.Generator) -> Tensor:
    first = torch.randn(x.shape[1], hidden, generator=generator) / x.shape[1] ** 0.5
    second = torch.randn(hidden, out, generator=generator) / hidden**0.5
    return graph.normalised @ (_standardised(graph.normalised @ (x @ first)).relu() @ second)


def _standardised(h: Tensor) -> Tensor:
    """Columns of mean 0 and deviation 1: an argmax over them leaves no class empty."""
    return (h - h.mean(dim=0)) / h.std(dim=0).clamp(min=1e-6)

"""``planted-structure``: the edges are what is spurious. Editing edges is meant for this shift."""

from math import inf

import torch

from graphshift.core.randomness import derive_seed
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.making.random_graphs import check_ranges, edges_within_groups, pareto_weights
from graphshift.datasets.reading.assembly import by_place, environment
from graphshift.graph.graph import Graph


@DATASETS.register("planted-structure", summary="random graphs; homophily falls to 0 over the tests", shift="planted")
def planted_structure(
    nodes: int = 2000,
    *,
    seed: int = 0,
    tests: int = 8,
    classes: int = 3,
    features: int = 16,
    noise: float = 1.0,
    train_homophily: float = 0.8,
    val_homophily: float = 0.6,
    degree: float = 8.0,
) -> ShiftDataset:
    """A label depends on the node's own features and noise; edges join nodes of the same label, less and less so.

    y_v = argmax(x_v W + noise), with the same W everywhere. A share of the edges, the homophily, joins nodes of the
    same label: ``train_homophily`` in training, ``val_homophily`` in validation, and over the tests it falls in equal
    steps from ``val_homophily`` to 0. A GNN that trusts neighbours is right in training and wrong at the end. Every
    environment has nodes of its own.

    Args:
        nodes: of each environment, at least 60.
        seed: the same seed gives the same data.
        tests: number of test environments, at least 1.
        classes: of the labels.
        features: columns of x.
        noise: how much of the label the node's own features do not tell; 0 leaves nothing to neighbours.
        train_homophily: share of edges within classes in training.
        val_homophily: the same in validation.
        degree: the mean degree.
    """
    given = locals()
    ranges = {"nodes": (60, inf), "tests": (1, 10_000), "classes": (2, 1000), "features": (1, 1_000_000)}
    ranges |= {"noise": (0, inf), "seed": (0, inf), "train_homophily": (0, 1), "val_homophily": (0, 1)}
    check_ranges("planted-structure", given, ranges | {"degree": (1, nodes)})
    generator = torch.Generator().manual_seed(derive_seed(seed, 12))
    link = torch.randn(features, classes, generator=generator) / features**0.5
    falling = [val_homophily * (1 - (i + 1) / tests) for i in range(tests)]
    names = ["train", "val", *(f"T{i + 1}" for i in range(tests))]
    homophilies = [train_homophily, val_homophily, *falling]
    task = Task("multiclass" if classes > 2 else "binary", classes)
    made = []
    for name, homophily in zip(names, homophilies, strict=True):
        x = torch.randn(nodes, features, generator=generator)
        y = (x @ link + noise * torch.randn(nodes, classes, generator=generator)).argmax(dim=1)
        weights = pareto_weights(nodes, 2.8, generator)
        edge_index = edges_within_groups(y, homophily, degree, weights, generator)
        graph = Graph.from_edge_index(edge_index, nodes, undirected=True)
        made.append(environment(name, x, y, graph, task))
    facts = {"homophily": dict(zip(names, homophilies, strict=True)), "spurious_columns": []}
    # SAGE weighs a node and its neighbours apart, so it can learn to trust the node; a GCN cannot.
    defaults = {"backbone": "sage", "epochs": 200, "lr": 0.01}
    defaults |= {"views": 3, "edits_per_node": 5, "beta": 1.0, "explorer_lr": 0.005}
    return ShiftDataset("planted-structure", *by_place(made), facts=facts, defaults=defaults)

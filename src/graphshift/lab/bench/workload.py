"""What is timed: steps of ERM and EERM on planted graphs, and the floor, the work that no EERM step can avoid."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from graphshift.backbones import BACKBONES, Backbone
from graphshift.core.randomness import isolated
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets import load
from graphshift.explorers import EXPLORERS, Explorer, Random
from graphshift.graph.graph import Graph
from graphshift.lab.bench.dense import DenseReinforce
from graphshift.methods import EERM, ERM, EERMMethod, ERMMethod, Method

#: What the suite calls its methods.
METHODS = {
    "erm": "ERM",
    "random": "EERM random",
    "reinforce": "EERM reinforce",
    "gradient": "EERM gradient",
    "dense": "EERM dense",
}

_EXPLORERS: dict[str, type[Explorer]] = {**EXPLORERS, "dense": DenseReinforce}
_WIDTH = 32


def planted_environment(nodes: int, *, degree: int = 10, features: int = 64) -> Environment:
    """The training graph of ``planted``; a quarter of its features are spurious."""
    spurious = features // 4
    data = load(
        "planted",
        nodes=nodes,
        degree=float(degree),
        invariant_features=features - spurious,
        spurious_features=spurious,
        environments=3,
    )
    return data.train[0]


def community_environment(
    nodes: int, *, degree: int = 10, features: int = 64, size: int = 1_000, seed: int = 0, moved: float = 0.0
) -> Environment:
    """A graph that can be divided: nodes in communities of ``size``, of whose edges every tenth leads anywhere.

    Communities have consecutive numbers before all nodes are renumbered at random. Labels are noisy signs of features.
    The first feature is higher by ``moved``.
    """
    generator = np.random.default_rng(seed)
    first, second = community_edges(generator, nodes, nodes * degree // 2, size)
    number = generator.permutation(nodes)
    low, high = np.minimum(number[first], number[second]), np.maximum(number[first], number[second])
    keys = np.unique((low * nodes + high)[low != high])
    both = torch.from_numpy(np.sort(np.concatenate([keys, keys % nodes * nodes + keys // nodes])))
    x = torch.from_numpy(generator.standard_normal((nodes, features), dtype=np.float32))
    y = (x[:, :4].sum(dim=1) + torch.from_numpy(generator.standard_normal(nodes, dtype=np.float32)) > 0).long()
    x[:, 0] += moved
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    made = Environment("train", Data(x=x, edge_index=no_edges, y=y), Task("binary", 2))
    return made.replace(graph=Graph.from_keys(nodes, both, undirected=True))


def community_edges(
    generator: np.random.Generator, nodes: int, count: int, size: int = 1_000
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both ends of some edges; repetitions and self-loops are among them."""
    first = generator.integers(0, nodes, count)
    inside = np.minimum(first // size * size + generator.integers(0, size, count), nodes - 1)
    return first, np.where(generator.random(count) < 0.1, generator.integers(0, nodes, count), inside)


def new_backbone(environment: Environment, name: str = "gcn") -> Backbone:
    """An untrained backbone of width 32 and its own depth (two layers, GCNII ten); the same weights every time."""
    with isolated(0, torch.device("cpu")):
        return BACKBONES[name](
            environment.num_features, environment.task.out_channels, hidden_channels=_WIDTH, dropout=0.0
        )


def new_method(
    environment: Environment,
    kind: str,
    *,
    views: int = 3,
    edits: int = 5,
    backbone: str = "gcn",
    low_memory: bool = False,
) -> Method:
    """A method that has taken no step yet.

    Args:
        environment: what it will be trained on.
        kind: ``"erm"``, ``"dense"`` or an explorer's name.
        views: K.
        edits: s.
        backbone: a name from ``BACKBONES``.
        low_memory: one view at a time.
    """
    network = new_backbone(environment, backbone)
    if kind == "erm":
        return ERMMethod(network, ERM())
    make = _EXPLORERS[kind]
    options: dict[str, Any] = (
        {"edits_per_node": edits} if "edits_per_node" in inspect.signature(make).parameters else {}
    )
    return EERMMethod(network, EERM(views=views, low_memory=low_memory), lambda _, k: make(**options, seed=k))


def stepping(method: Method, environment: Environment, times: int = 1) -> Callable[[], None]:
    """A job for a clock: some steps of a method."""

    def steps() -> None:
        for _ in range(times):
            method.step([environment], 0.0)

    return steps


def explorer_bytes(method: Method) -> int:
    """The memory that the policies of all explorers hold; 0 where nothing is learned."""
    policies = [getattr(e, "policy", None) for row in getattr(method, "explorers", []) for e in row]
    return sum(policy.num_bytes for policy in policies if policy is not None)


class Floor:
    """K forward and backward passes on K fixed graphs of the edited size, already in the backbone's format.

    No drawing, no editing, no sorting, no optimiser: what is left of an EERM step if everything else were free. The
    graphs are views that a random explorer proposed once; the clock's warm-up makes their formats.

    Args:
        environment: the graph.
        views: K.
        edits: s.
        backbone: a name from ``BACKBONES``.
    """

    def __init__(self, environment: Environment, *, views: int = 3, edits: int = 5, backbone: str = "gcn") -> None:
        self.environment, self.backbone = environment, new_backbone(environment, backbone).train()
        self.graphs = [Random(edits, seed=100 + k).propose(environment.graph).graph for k in range(views)]

    def passes(self) -> None:
        """The floor: every pass on its own."""
        for graph in self.graphs:
            self.environment.risk(self.backbone(self.environment.x, graph)).backward()

    def passes_from_one_stem(self) -> None:
        """The stricter floor: what needs no edges is computed once, and its gradient once."""
        stem = self.backbone.stem(self.environment.x)
        risks = [self.environment.risk(self.backbone.propagate(stem, graph)) for graph in self.graphs]
        torch.stack(risks).sum().backward()

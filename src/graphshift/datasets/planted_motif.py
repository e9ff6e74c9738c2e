"""``planted-motif``: whole graphs have labels, and a part of each that has nothing to do with its label is spurious."""

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.randomness import derive_seed
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.making.random_graphs import check_ranges
from graphshift.datasets.reading.assembly import by_place

#: What decides the label, in the order of the classes: five nodes each, as a list of edges.
MOTIFS: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "cycle": ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0)),
        "house": ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)),  # a square and a roof
        "crane": ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 4)),  # a braced square and a hook
    }
)
_MOTIF_NODES = 5


def tree(nodes: int) -> list[tuple[int, int]]:
    """A binary tree, filled row by row."""
    return [((node - 1) // 2, node) for node in range(1, nodes)]


def ladder(nodes: int) -> list[tuple[int, int]]:
    """Two rails with rungs between them; the last node of an odd number has no rung."""
    rails = [(node, node + 2) for node in range(nodes - 2)]
    return rails + [(node, node + 1) for node in range(0, nodes - 1, 2)]


def wheel(nodes: int) -> list[tuple[int, int]]:
    """A hub, node 0, joined to every node of a ring."""
    ring = [(node, node + 1 if node + 1 < nodes else 1) for node in range(1, nodes)]
    return ring + [(0, node) for node in range(1, nodes)]


#: What goes with the label in training, in the order of the classes.
BASES: Mapping[str, Callable[[int], list[tuple[int, int]]]] = MappingProxyType(
    {"tree": tree, "ladder": ladder, "wheel": wheel}
)


@DATASETS.register(
    "planted-motif",
    summary="small graphs; a motif decides the label, the rest goes with it in training alone",
    shift="planted",
    note="graphs have labels; counted: graphs",
)
def planted_motif(
    graphs: int = 300,
    *,
    seed: int = 0,
    tests: int = 4,
    bias: float = 0.9,
    val_bias: float = 0.6,
    base_nodes: int = 10,
    features: int = 0,
) -> ShiftDataset:
    """Every graph is a base with a motif joined to it by one edge; the motif is its label.

    The motifs are a cycle, a house and a crane, the bases a tree, a ladder and a wheel. A graph has the base of its
    class's place with probability ``bias`` in training and ``val_bias`` in validation, else one of the other two; over
    the tests that probability falls in equal steps from 1/3, where base and label are independent, to 0. So a model
    that looks at the base is right in training and wrong at the end. Features say nothing. The design is that of
    Spurious-Motif (Wu et al., ICLR 2022, *Discovering Invariant Rationales for GNNs*), with motifs drawn by us.

    Args:
        graphs: of each environment, at least 30.
        seed: the same seed gives the same data.
        tests: number of test environments, at least 1.
        bias: in training, the probability that base and motif belong together.
        val_bias: the same in validation.
        base_nodes: the mean size of a base; sizes go from 3/4 to 5/4 of it.
        features: random columns of x, uniform from 0 to 1, beside one of ones.
    """
    given = locals()
    ranges = {"graphs": (30, inf), "tests": (1, 10_000), "bias": (0, 1), "val_bias": (0, 1), "seed": (0, inf)}
    check_ranges("planted-motif", given, ranges | {"base_nodes": (8, 10_000), "features": (0, 1_000_000)})
    generator = torch.Generator().manual_seed(derive_seed(seed, 19))
    falling = [(1 - i / max(tests - 1, 1)) / 3 for i in range(tests)]
    names, biases = ["train", "val", *(f"T{i + 1}" for i in range(tests))], [bias, val_bias, *falling]
    made, facts = [], {}
    for name, own in zip(names, biases, strict=True):
        environment, bases = _environment(name, graphs, own, base_nodes, features, generator)
        made.append(environment)
        facts[name] = bases
    about = {"bias": dict(zip(names, biases, strict=True)), "bases": facts, "class_names": tuple(MOTIFS)}
    # A sum over neighbours tells motifs of ones apart; Â of the GCN, and means, do not.
    defaults = {"backbone": "gcn-unnormalised", "num_layers": 4, "readout": "max", "epochs": 100, "lr": 0.01}
    defaults |= {"views": 3, "edits_per_node": 1, "beta": 1.0, "explorer_lr": 0.005}
    return ShiftDataset("planted-motif", *by_place(made), facts=about, defaults=defaults)


def _environment(
    name: str, graphs: int, bias: float, base_nodes: int, features: int, generator: torch.Generator
) -> tuple[Environment, Tensor]:
    """The environment, and the place of every graph's base."""
    classes = len(MOTIFS)
    y = torch.randint(classes, (graphs,), generator=generator)
    other = (y + torch.randint(1, classes, (graphs,), generator=generator)) % classes
    bases = torch.where(torch.rand(graphs, generator=generator) < bias, y, other)
    least, most = round(0.75 * base_nodes), round(1.25 * base_nodes)
    sizes = torch.randint(least, most + 1, (graphs,), generator=generator)
    at_base = (torch.rand(graphs, generator=generator) * sizes).long()
    at_motif = torch.randint(_MOTIF_NODES, (graphs,), generator=generator)
    motifs, shapes = list(MOTIFS.values()), list(BASES.values())
    ends, begin = [], 0
    for label, base, size, here, there in zip(*(t.tolist() for t in (y, bases, sizes, at_base, at_motif)), strict=True):
        motif = [(size + a, size + b) for a, b in motifs[label]]
        edges = [*shapes[base](size), *motif, (here, size + there)]
        ends += [(begin + a, begin + b) for a, b in edges]
        begin += size + _MOTIF_NODES
    one_way = torch.tensor(ends).t()
    batch = torch.repeat_interleave(torch.arange(graphs), sizes + _MOTIF_NODES)
    x = torch.cat([torch.ones(begin, 1), torch.rand(begin, features, generator=generator)], dim=1)
    edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
    task = Task("multiclass", classes, level="graph")
    return Environment(name, Data(x=x, edge_index=edge_index, y=y, batch=batch), task), bases

"""What tests of graphs with labels share: small random graphs, many of them in one environment."""

from __future__ import annotations

import torch
from torch_geometric.data import Batch, Data

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from reference import random_data

#: One graph has a single node.
SIZES = (4, 1, 6, 3, 5)


def graphs(sizes: tuple[int, ...] = SIZES, *, classes: int = 2, seed: int = 0, **options: bool) -> list[Data]:
    """Random graphs with a label each; the mean of their features goes with it."""
    made = []
    for i, size in enumerate(sizes):
        data = random_data(size, seed=seed + i, classes=1, **options)
        data.y = torch.tensor([i % classes])
        data.x = data.x + data.y
        made.append(data)
    return made


def environment(
    name: str = "train", count: int = 20, *, classes: int = 2, seed: int = 0, **options: bool
) -> Environment:
    """An environment of graphs of several sizes; every fourth does not count."""
    sizes = tuple(SIZES[i % len(SIZES)] for i in range(count))
    batch = Batch.from_data_list(graphs(sizes, classes=classes, seed=seed, **options))
    batch.mask = torch.arange(count) % 4 != 3
    return Environment(name, batch, Task("binary" if classes == 2 else "multiclass", classes, level="graph"))


def dataset(classes: int = 2) -> ShiftDataset:
    """Training, validation and two tests."""
    made = [environment(name, classes=classes, seed=100 * i) for i, name in enumerate(("train", "val", "T1", "T2"))]
    return ShiftDataset("small graphs", made[:1], made[1:2], made[2:])

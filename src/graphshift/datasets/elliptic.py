"""``elliptic``: Bitcoin transactions in 49 time steps and payments between them; which are illicit (Weber et al.)."""

import warnings
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from graphshift.core.errors import GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.reading.files import Source, cached, require
from graphshift.datasets.reading.fixed_csv import Table, read_table
from graphshift.datasets.temporal import Period, subgraph

#: The paper's split by role: five training steps, one validation group, nine test groups.
PERIODS = {
    "train": tuple(Period(f"step {step}", step, step) for step in range(7, 12)),
    "val": (Period("steps 12-16", 12, 16),),
    "tests": (Period("T1", 17, 17), *(Period(f"T{i + 2}", 18 + 4 * i, 21 + 4 * i) for i in range(8))),
}
_STEPS, _FEATURES, _PARSER = 49, 165, 1

#: The raw files: features, classes, edges.
SOURCES = tuple(
    Source(f"elliptic/elliptic_txs_{part}.csv", home="Kaggle, ellipticco/elliptic-data-set (needs a free login)")
    for part in ("features", "classes", "edgelist")
)


@DATASETS.register(
    "elliptic",
    summary="Bitcoin transactions in 49 time steps; which are illicit",
    shift="temporal",
    origin="Weber et al. 2019 (Kaggle)",
    sources=SOURCES,
    figure="rates",
)
def elliptic(
    *, metric: str = "macro_f1", one_way: bool = False, two_logits: bool = False, data_dir: str | Path | None = None
) -> ShiftDataset:
    """Elliptic: time steps 7–11 train (one environment each), 12–16 validate, 17–49 test in nine groups, T1–T9.

    A node is a transaction with 165 features (those of its own and of its neighbourhood; id and time step are
    dropped), an edge a payment flow. Illicit is class 1, licit class 0; transactions of unknown class stay in the
    graph and do not count. A group (validation, T1 = {17}, T2 = {18–21}, …, T9 = {46–49}) is one environment: the
    graphs of its steps side by side, scored together. Edges between steps, of which the published file has none, are
    dropped with a warning.

    Args:
        metric: ``"macro_f1"``, or ``"f1"`` of the illicit class; any other of binary classification works too.
        one_way: use a payment only in its own direction, as the authors' code does; by default both ways.
        two_logits: a logit for each class, as the authors' code has (:class:`~graphshift.data.tasks.Task`).
        data_dir: the folder that holds ``elliptic/elliptic_txs_features.csv`` and so on; None for
            ``$GRAPHSHIFT_DATA`` or the user's cache folder. The files are not downloaded: Kaggle asks for a login.
    """
    task = Task("binary", 2, metric, two_logits)
    features, classes, edges = require("elliptic", SOURCES, data_dir).values()
    parts = cached("elliptic", [features, classes, edges], _PARSER, {}, lambda: _parse(features, classes, edges))
    step, y, edge_index = parts["step"], parts["y"], parts["edge_index"]
    within = step[edge_index[0]] == step[edge_index[1]]
    if not bool(within.all()):
        warnings.warn(
            f"{edges}: {int((~within).sum())} edges join transactions of different time steps and are dropped; a "
            "snapshot has only its own.",
            GraphshiftWarning,
            stacklevel=2,
        )
        edge_index = edge_index[:, within]
    if not one_way:
        edge_index = to_undirected(edge_index, num_nodes=y.numel())
    whole = Environment("elliptic", Data(x=parts["x"], edge_index=edge_index, y=y, mask=y >= 0), task)
    roles = {role: [subgraph(whole, p.contains(step), p.name) for p in periods] for role, periods in PERIODS.items()}
    model = {"backbone": "sage", "num_layers": 5, "hidden_channels": 32, "epochs": 200, "lr": 2e-4, "weight_decay": 0.0}
    eerm = {"views": 3, "edits_per_node": 5, "beta": 1.0, "explorer_lr": 1e-4}
    by_backbone = {"gprgnn": {"num_layers": 2, "lr": 0.01, "explorer_lr": 0.005}}
    defaults = {**model, **eerm, "by_backbone": by_backbone, "by_method": {"erm": {"lr": 0.01}}}
    steps = {p.name: (p.first, p.last) for periods in PERIODS.values() for p in periods}
    return ShiftDataset("elliptic", **roles, defaults=defaults, facts={"steps": steps, "one_way": one_way})


def _parse(features: Path, classes: Path, edges: Path) -> dict[str, Tensor]:
    columns = [f"feature {i}" for i in range(1, _FEATURES + 1)]
    kinds = {"txId": "int64", "time step": "int64"} | dict.fromkeys(columns, "float32")
    table = read_table(features, kinds, header=False)
    step = table.column("time step")
    table.refuse((step < 1) | (step > _STEPS), "time step", f"a step from 1 to {_STEPS}")
    index = _Index(table, "txId")
    label_table = read_table(classes, {"txId": "int64", "class": "str"})
    label = label_table.frame["class"].map({"1": 1, "2": 0, "unknown": -1}).to_numpy(dtype=float, na_value=np.nan)
    label_table.refuse(np.isnan(label), "class", "1 (illicit), 2 (licit) or unknown")
    _Index(label_table, "txId")  # refuses repeated ids
    y = np.full(len(table), -2, dtype=np.int64)
    y[index.find(label_table, "txId")] = label.astype(np.int64)
    table.refuse(y == -2, "txId", f"a transaction that {classes.name} has a class for")
    edge_table = read_table(edges, {"txId1": "int64", "txId2": "int64"})
    edge_index = np.stack([index.find(edge_table, name) for name in ("txId1", "txId2")])
    x = torch.from_numpy(table.frame[columns].to_numpy(copy=True))
    return {"x": x, "step": torch.tensor(step), "y": torch.from_numpy(y), "edge_index": torch.from_numpy(edge_index)}


class _Index:
    """The rows of a table by the ids of one column, which are in no order and may not repeat."""

    def __init__(self, table: Table, name: str) -> None:
        ids = table.column(name)
        self.path = table.path
        self.order = np.argsort(ids, kind="stable")
        self.ids = ids[self.order]
        again = np.zeros(ids.size, dtype=bool)
        again[self.order[1:]] = self.ids[1:] == self.ids[:-1]
        table.refuse(again, name, "each transaction once")

    def find(self, table: Table, name: str) -> NDArray[np.int64]:
        """The rows that another table's column names."""
        wanted = table.column(name)
        place = np.searchsorted(self.ids, wanted).clip(max=self.ids.size - 1)
        table.refuse(self.ids[place] != wanted, name, f"a transaction of {self.path.name}")
        return self.order[place]

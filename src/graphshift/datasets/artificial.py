"""``cora`` and ``photo``: the paper's artificial shift (its Appendix on Cora and Photo) on two real graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.randomness import derive_seed
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.making.gnn_generators import GENERATORS, WIDTH
from graphshift.datasets.reading.amazon import photo_graph
from graphshift.datasets.reading.planetoid import planetoid_graph, planetoid_sources
from graphshift.datasets.reading.raw_graph import RawGraph
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern, Sparse

_ENVIRONMENTS = 10
_VARIANTS = ("paper", "authors")
_MOST_DRAWS = 1000

#: Cora's files.
CORA_SOURCES = planetoid_sources(
    "cora",
    "cora/raw",
    {
        "x": (22119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
        "tx": (148025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
        "allx": (257305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
        "y": (4054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
        "ty": (28135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
        "ally": (47959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
        "graph": (59847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
        "test.index": (5000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
    },
)

# Settings that the paper's Cora and Photo share, then what the authors' code sets apart.
_COMMON = {
    "epochs": 200,
    "weight_decay": 1e-3,
    "hidden_channels": 32,
    "num_layers": 2,
    "edits_per_node": 1,
    "beta": 1.0,
}
_CORA = {"explorers": 10, "lr": 0.005, "explorer_lr": 0.001}
_CORA_SGC = {"explorers": 5, "lr": 0.005, "explorer_lr": 0.005}
_PHOTO = {"explorers": 5, "lr": 0.01, "explorer_lr": 0.005}


def cora(
    *,
    generator: str = "gcn",
    variant: str = "paper",
    seed: int = 0,
    redraw: bool = False,
    data_dir: str | Path | None = None,
) -> ShiftDataset:
    """Cora's 2,708 papers in ten environments that differ in ten spurious columns alone.

    The given features X1 decide the labels through a random GNN, Y = argmax GNN(X1) over 10 outputs; another random
    GNN makes the spurious columns X2 out of the labels and the environment. Environment 0 trains, 1 validates, 2–9
    are the tests T1–T8; all nodes count. Outputs that are nobody's argmax are left out of the classes.

    A draw is degenerate if fewer than 3 classes have 1 % of the nodes each, or one has over 90 %: that is warned of,
    or drawn again with ``redraw``. ``facts`` has ``classes_used``, ``class_shares``, ``majority``, ``draws`` and
    ``spurious_columns``.

    Args:
        generator: the random GNNs: ``"gcn"`` (two layers of width 10, ReLU), ``"sgc"`` (two hops) or ``"gat"`` (two
            layers of two heads of width 10, ELU).
        variant: ``"paper"`` gives labels and environment to one GNN, X2 = GNN([onehot(Y), onehot(e)]); ``"authors"``
            is their code, X2 = GNN(onehot(Y)) + Linear(onehot(e)): environments differ by one constant vector.
        seed: the same seed gives the same data.
        redraw: draw again, from seeds derived from ``seed``, until the draw is not degenerate.
        data_dir: the folder of raw files; None for ``$GRAPHSHIFT_DATA`` or the user's cache.
    """
    defaults = _CORA_SGC if generator == "sgc" else _CORA

    def read() -> RawGraph:
        return planetoid_graph("cora", "cora", CORA_SOURCES, data_dir)[0]

    return _planted_shift("cora", read, generator, variant, seed, redraw, defaults)


def photo(
    *,
    generator: str = "gcn",
    variant: str = "paper",
    seed: int = 0,
    redraw: bool = False,
    data_dir: str | Path | None = None,
) -> ShiftDataset:
    """Amazon-Photo's 7,650 goods in ten environments that differ in ten spurious columns alone.

    Made as :func:`cora` is, and with the same rule for degenerate draws, which are common here.

    Args:
        generator: the random GNNs: ``"gcn"``, ``"sgc"`` or ``"gat"``, as for :func:`cora`.
        variant: ``"paper"`` or ``"authors"``, as for :func:`cora`.
        seed: the same seed gives the same data.
        redraw: draw again, from seeds derived from ``seed``, until the draw is not degenerate.
        data_dir: the folder of raw files; None for ``$GRAPHSHIFT_DATA`` or the user's cache.
    """
    return _planted_shift("photo", lambda: photo_graph(data_dir), generator, variant, seed, redraw, _PHOTO)


def _planted_shift(
    name: str,
    read: Callable[[], RawGraph],
    generator: str,
    variant: str,
    seed: int,
    redraw: bool,
    defaults: Mapping[str, Any],
) -> ShiftDataset:
    for option, value, allowed in (("generator", generator, tuple(GENERATORS)), ("variant", variant, _VARIANTS)):
        if value not in allowed:
            raise GraphshiftError(f"{name}: {option} is {value!r}; expected one of {', '.join(allowed)}.")
    if not isinstance(seed, int) or seed < 0:
        raise GraphshiftError(f"{name}: seed is {seed!r}; expected a whole number of at least 0.")
    raw = read()
    graph = Graph.from_edge_index(raw.edge_index, raw.y.numel(), undirected=True)
    x1 = Sparse.from_torch(raw.x)
    draw = _draw(name, x1, graph, generator, variant, seed, redraw)

    used, y = draw.classes.unique(return_inverse=True)
    shares = draw.classes.bincount(minlength=WIDTH) / y.numel()
    appended = _Appended(x1, WIDTH)
    task = Task("multiclass", used.numel())
    data = Data(x=appended.with_columns(draw.spurious[0]).to_torch(), edge_index=raw.edge_index, y=y)
    first = Environment("train", data, task)
    # Graph, labels and the pattern of x are one for all environments: only the values of x are stored ten times.
    others = [
        first.replace(name="val" if e == 1 else f"T{e - 1}", x=appended.with_columns(draw.spurious[e]))
        for e in range(1, _ENVIRONMENTS)
    ]
    facts = {
        "generator": generator,
        "variant": variant,
        "seed": seed,
        "draws": draw.draws,
        "classes_used": used.numel(),
        "class_outputs": used.tolist(),
        "class_shares": [round(float(share), 6) for share in shares[used]],
        "majority": round(float(shares.max()), 6),
        "degenerate": _degenerate(shares),
        "spurious_columns": list(range(x1.shape[1], x1.shape[1] + WIDTH)),
    }
    return ShiftDataset(name, [first], others[:1], others[1:], defaults={**_COMMON, **defaults}, facts=facts)


class _Draw(NamedTuple):
    classes: Tensor  # the argmax of each node, out of WIDTH outputs
    spurious: list[Tensor]  # X2 of each environment, [nodes, WIDTH]
    draws: int


def _draw(name: str, x1: Sparse, graph: Graph, generator: str, variant: str, seed: int, redraw: bool) -> _Draw:
    for draws in range(1, _MOST_DRAWS + 1):
        random = torch.Generator().manual_seed(derive_seed(seed, 31, draws))
        classes = GENERATORS[generator](x1.shape[1], random)(x1, graph).argmax(dim=1)
        shares = classes.bincount(minlength=WIDTH) / classes.numel()
        if not redraw or not _degenerate(shares):
            break
    else:
        raise GraphshiftError(f"{name}: {_MOST_DRAWS} draws with generator {generator!r} were all degenerate.")
    if _degenerate(shares):
        found = (
            f"{name}: with generator {generator!r} and seed {seed}, {int((shares >= 0.01).sum())} classes have 1 % of "
            f"the nodes or more and the largest has {float(shares.max()):.1%}; a draw is degenerate with fewer than 3 "
            "or with over 90 %. Take another seed, or redraw=True for the next one that is not."
        )
        if int((shares > 0).sum()) < 2:
            raise GraphshiftError(found)
        warnings.warn(found, GraphshiftWarning, stacklevel=4)
    onehot = F.one_hot(classes, WIDTH).float()
    identity = torch.eye(_ENVIRONMENTS)
    if variant == "paper":
        gnn = GENERATORS[generator](WIDTH + _ENVIRONMENTS, random)
        nodes = classes.numel()
        spurious = [gnn(torch.cat([onehot, row.expand(nodes, -1)], dim=1), graph) for row in identity]
    else:
        shared = GENERATORS[generator](WIDTH, random)(onehot, graph)
        # torch.nn.Linear's initialisation: uniform within 1 / sqrt(inputs), bias as well.
        bound = _ENVIRONMENTS**-0.5
        weight = (2 * torch.rand(_ENVIRONMENTS + 1, WIDTH, generator=random) - 1) * bound
        spurious = [shared + row for row in weight[:-1] + weight[-1]]
    return _Draw(classes, spurious, draws)


def _degenerate(shares: Tensor) -> bool:
    return int((shares >= 0.01).sum()) < 3 or float(shares.max()) > 0.9


class _Appended:
    """A sparse matrix with dense columns behind it, still sparse; the pattern is made once for any values of them."""

    def __init__(self, x: Sparse, columns: int) -> None:
        rows, width = x.shape
        more = torch.arange(rows + 1) * columns
        self.count = x.value.numel() + rows * columns
        self.old = torch.arange(x.value.numel()) + more[x.pattern.row]
        self.new = (x.pattern.rowptr[1:] + more[:-1]).unsqueeze(1) + torch.arange(columns)
        col = x.pattern.col.new_empty(self.count)
        col[self.old] = x.pattern.col
        col[self.new] = torch.arange(width, width + columns, dtype=col.dtype).expand(rows, -1)
        self.value = x.value
        self.pattern = Pattern(x.pattern.rowptr + more, col, (rows, width + columns))

    def with_columns(self, dense: Tensor) -> Sparse:
        value = self.value.new_empty(self.count)
        value[self.old], value[self.new] = self.value, dense
        return Sparse(self.pattern, value)

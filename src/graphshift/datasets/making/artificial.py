"""The paper's artificial shift (its Appendix on Cora and Photo) on a real graph; ``cora`` and ``photo`` share it."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.randomness import derive_seed
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.making.gnn_generators import GENERATORS, VERSIONS, WIDTH, Maker
from graphshift.datasets.reading.raw_graph import RawGraph
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern, Sparse

_ENVIRONMENTS = 10
_VARIANTS = ("paper", "authors")
_MOST_DRAWS = 1000

# Hyper-parameters that the paper's Cora and Photo share.
_COMMON = {"epochs": 200, "weight_decay": 1e-3, "hidden_channels": 32, "num_layers": 2}
_COMMON |= {"edits_per_node": 1, "beta": 1.0}


def artificial_shift(
    name: str,
    read: Callable[[], RawGraph],
    generator: str,
    variant: str,
    seed: int,
    redraw: bool,
    version: int,
    defaults: Mapping[str, Any],
) -> ShiftDataset:
    """Ten environments of one graph, which differ in ten spurious columns; see :func:`~graphshift.datasets.cora.cora`.

    ``read`` gives the graph, after the options were checked; ``defaults`` come beside those that both datasets share.
    """
    for option, value, allowed in (("generator", generator, [*GENERATORS]), ("variant", variant, [*_VARIANTS])):
        if value not in allowed:
            raise GraphshiftError(f"{name}: {option} is {value!r}; {expected_one_of(value, allowed)}")
    if not isinstance(seed, int) or seed < 0:
        raise GraphshiftError(f"{name}: seed is {seed!r}; expected a whole number of at least 0.")
    if version not in VERSIONS:
        raise GraphshiftError(f"{name}: version is {version!r}; expected one of {', '.join(map(str, VERSIONS))}.")
    raw = read()
    graph = Graph.from_edge_index(raw.edge_index, raw.y.numel(), undirected=True)
    x1 = Sparse.from_torch(raw.x)
    draw = _draw(name, x1, graph, generator, variant, seed, redraw, VERSIONS[version][generator])

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
    found = [round(float(share), 6) for share in shares[used]]
    facts = {"generator": generator, "variant": variant, "version": version, "seed": seed, "draws": draw.draws}
    facts |= {"classes_used": used.numel(), "class_outputs": used.tolist(), "class_shares": found}
    facts |= {"majority": round(float(shares.max()), 6), "degenerate": _degenerate(shares)}
    facts |= {"spurious_columns": list(range(x1.shape[1], x1.shape[1] + WIDTH))}
    return ShiftDataset(name, [first], others[:1], others[1:], defaults={**_COMMON, **defaults}, facts=facts)


class _Draw(NamedTuple):
    classes: Tensor  # the argmax of each node, out of WIDTH outputs
    spurious: list[Tensor]  # X2 of each environment, [nodes, WIDTH]
    draws: int


def _draw(
    name: str, x1: Sparse, graph: Graph, generator: str, variant: str, seed: int, redraw: bool, make: Maker
) -> _Draw:
    for draws in range(1, _MOST_DRAWS + 1):
        random = torch.Generator().manual_seed(derive_seed(seed, 31, draws))
        classes = make(x1.shape[1], random)(x1, graph).argmax(dim=1)
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
        gnn = make(WIDTH + _ENVIRONMENTS, random)
        nodes = classes.numel()
        spurious = [gnn(torch.cat([onehot, row.expand(nodes, -1)], dim=1), graph) for row in identity]
    else:
        shared = make(WIDTH, random)(onehot, graph)
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

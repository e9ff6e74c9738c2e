"""Environments cut out of one graph whose nodes carry a time: what had been seen by then, or one moment alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.graph.blocks import Blocks
from graphshift.graph.sparse import Sparse
from graphshift.graph.subgraphs import induced, rows_of


class Period(NamedTuple):
    """A span of time, both ends included; ``first`` None means that it has no beginning."""

    name: str
    first: int | float | None
    last: int | float

    def contains(self, time: Tensor) -> Tensor:
        """Which times lie in the period, bool, shaped as ``time``."""
        inside = time <= self.last
        return inside if self.first is None else inside & (time >= self.first)


def inductive_environments(
    whole: Environment, time: Tensor, periods: Sequence[Period], *, training: int = 1
) -> list[Environment]:
    """One environment for each period: the graph as it stood at the period's end, counting the period's own nodes.

    No graph contains the future: it is induced by the nodes with ``time <= period.last``, in their old order, without
    edges from later nodes. Of these, the nodes in the period that count in ``whole`` count. They keep their time: that
    of ``whole`` where it has one, such as the day of what ``time`` knows by the year. All graphs hold nodes that train,
    and know their labels (``known_y``).

    Args:
        whole: the graph with all nodes, of which ``x`` (dense or sparse), edges, labels and mask are taken.
        time: of each node, ``[nodes]``; numbers without NaN.
        periods: in order of time and without overlap, so that no node counts twice. Plain tuples work too.
        training: how many of them, the first ones, train.
    """
    if time.shape != (whole.num_nodes,):
        found, expected = list(time.shape), f"[{whole.num_nodes}], one for each node"
        raise GraphshiftError(f"{whole.name}: `time` has shape {found}; expected {expected}.")
    if bool(time.isnan().any()):
        node = int(time.isnan().nonzero()[0])
        raise GraphshiftError(f"{whole.name}: {int(time.isnan().sum())} nodes have no time, first node {node}.")
    timed = whole.replace(time=time) if whole.time is None else whole
    environments: list[Environment] = []
    learned = torch.zeros_like(whole.mask)
    previous: Period | None = None
    for period in (Period(*p) for p in periods):
        where = f"{whole.name}: period {period.name!r}"
        if period.first is not None and period.first > period.last:
            raise GraphshiftError(f"{where} begins at {period.first}, after its end at {period.last}.")
        if previous is not None and (period.first is None or period.first <= previous.last):
            raise GraphshiftError(
                f"{where} begins at {'no time' if period.first is None else period.first}, and {previous.name!r} "
                f"before it ends at {previous.last}: nodes would count in both. Let it begin later."
            )
        counted = period.contains(time) & whole.mask
        if len(environments) < training:
            learned = learned | counted
        known = with_known(timed, learned)
        environments.append(subgraph(known, time <= period.last, period.name, counted=counted))
        previous = period
    return environments


def with_known(environment: Environment, nodes: Tensor) -> Environment:
    """The environment with the labels of some nodes (bool ``[nodes]``), those that train, as known ones."""
    y = environment.y
    return environment if y is None else environment.replace(known_y=y.masked_fill(~nodes, _unknown(y)))


def _unknown(y: Tensor) -> float:
    return torch.nan if y.is_floating_point() else -1


def subgraph(whole: Environment, items: Tensor, name: str, *, counted: Tensor | None = None) -> Environment:
    """The environment induced by some nodes (bool ``[nodes]``) of another one, in their old order.

    Where small graphs have labels it has some of these (bool ``[graphs]``). ``whole`` was checked, so its parts are not
    checked again; ``counted`` replaces its mask.
    """
    mask = (whole.mask if counted is None else counted)[items]
    if not bool(mask.any()):
        raise GraphshiftError(
            f"{whole.name}: environment {name!r} would have {mask.numel()} {whole.items} and none that counts; choose "
            "others."
        )
    optional = {name: getattr(whole, name) for name in ("y", "time", "known_y", "further_y")}
    kept = {name: None if part is None else part[items] for name, part in optional.items()}
    blocks = whole.graph.blocks
    nodes = items if blocks is None else items[blocks.batch]
    rows = nodes.nonzero().squeeze(1).numpy()
    graph = induced(whole.graph, rows)
    if blocks is not None:
        graph = graph.in_blocks(Blocks.of((items.cumsum(dim=0) - 1)[blocks.batch[nodes]]))
    x = rows_of(whole.x, rows) if isinstance(whole.x, Sparse) else whole.x[nodes]
    ids = None if whole.ids is None else whole.ids[items.cpu().numpy()]
    return whole.replace(name=name, x=x, graph=graph, mask=mask, ids=ids, **kept)

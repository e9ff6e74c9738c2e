"""The explorer interface: propose a view, learn from a reward, reset, save."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphshift.core.errors import GraphshiftError
from graphshift.data.checks import checked_graph
from graphshift.data.environment import Environment
from graphshift.graph import kernels
from graphshift.graph.graph import Graph, keys_of, reverse
from graphshift.graph.sparse import Sparse

#: A differentiable risk of a graph under the present model: what explorers that follow gradients ask for.
Risk = Callable[..., Tensor]

#: Features as environments have them, and what an explorer may do to them.
Features: TypeAlias = Tensor | Sparse
Change: TypeAlias = Callable[[Features], Features]


class SharedRisk:
    """A risk that the explorers of one graph ask in turn; what one of them has computed the others need not.

    Args:
        risk: of a graph under the present model and, where features are given, of a graph and a change of them.
        x: the features, for explorers that change them.
    """

    def __init__(self, risk: Risk, x: Features | None = None) -> None:
        self.risk, self.x = risk, x
        self._kept: dict[str, Any] = {}

    def __call__(self, graph: Graph, change: Change | None = None) -> Tensor:
        """The risk of a graph; with ``change``, of changed features."""
        return self.risk(graph) if change is None else self.risk(graph, change)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What was made under this name; made now if it was not."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


class View:
    """The graph, or the features, that one explorer makes of an environment.

    Attributes:
        change: what is done to the features; None leaves them.

    Args:
        graph: the edited graph.
        flips: the keys ``row * nodes + column`` that differ from the environment's graph, sorted; on an undirected
            graph both directions are among them.
        actions: the columns drawn for each node, ``[nodes, edits_per_node]``; None where nothing was drawn.
        log_prob: log p(actions), the sum over all nodes and draws (Appendix A); 0 where nothing is learned.
    """

    def __init__(
        self, graph: Graph, flips: Tensor | None = None, actions: Tensor | None = None, log_prob: float = 0.0
    ) -> None:
        self.graph, self.actions, self.log_prob = graph, actions, log_prob
        self.change: Change | None = None
        self._again: Callable[[], Graph] | None = None
        self._lists: tuple[Tensor, Tensor, bool] | None = None
        if flips is not None:
            self.__dict__["flips"] = flips

    @classmethod
    def of_actions(cls, graph: Graph, actions: Tensor, log_prob: float, *, directed: bool = False) -> View:
        """The view in which the drawn pairs of ``graph`` are flipped, as :func:`apply_actions` does."""
        again = partial(graph.flip_rows, actions, directed=directed)
        view = cls(again(), None, actions, log_prob)
        view._again = again
        return view

    @classmethod
    def of_lists(cls, graph: Graph, first: Tensor, columns: Tensor, *, directed: bool = False) -> View:
        """The view in which row n's pairs with ``columns[first[n] : first[n + 1]]`` are flipped.

        Args:
            graph: what to edit.
            first, columns: int32.
            directed: flip single entries also in an undirected graph.
        """
        home = graph.to(torch.device("cpu"))
        directed = directed and bool(columns.numel())  # without a flip it stays as it is
        again = partial(home.flip_lists, first, columns, directed=directed)
        view = cls(again().to(graph.device))
        view._again = lambda: again().to(graph.device)
        view._lists = (first, columns, graph.undirected and not directed)
        return view

    def forget(self) -> None:
        """Drops what can be made again: the graph if its actions are known, else the forms that were made of it."""
        if self._again is None:
            self.graph.forget()
        else:
            self.__dict__.pop("graph", None)

    def __getattr__(self, name: str) -> Graph:
        # Only asked for what is not there: a graph that was forgotten is made again.
        again: Callable[[], Graph] | None = self.__dict__.get("_again")
        if name == "graph" and again is not None:
            self.graph = again()
            return self.graph
        raise AttributeError(f"View has no attribute {name!r}")

    @cached_property
    def flips(self) -> Tensor:
        """The keys that differ from the environment's graph, sorted. Made when asked for: training never asks."""
        if self._lists is not None:
            first, columns, both = self._lists
            n = self.graph.num_nodes
            keys = torch.repeat_interleave(torch.arange(n), first.diff().long()) * n + columns.long()
            return torch.unique(torch.cat([keys, reverse(keys, n)]) if both else keys)
        if self.actions is None:
            raise GraphshiftError("a view without actions needs its flips: View(graph, flips).")
        return keys_of(self.actions, self.graph.num_nodes, both=self.graph.undirected)

    @property
    def edge_index(self) -> Tensor:
        """PyG's ``edge_index`` of the edited graph."""
        return self.graph.edge_index

    @property
    def edge_weight(self) -> Tensor | None:
        """The weights of the edited graph's edges; None if it has none."""
        return self.graph.weight


class Explorer(BaseTransform):
    """The paper's context generator: makes views of one environment and learns which of them raise the variance.

    One explorer learns one graph: it takes its size from the first graph that it sees. Explorers are PyG transforms
    too: ``explorer(data)`` gives a copy of ``data`` with edited edges.

    A subclass implements :meth:`propose` and, if it learns, :meth:`learn`, :meth:`reset`, :meth:`state` and
    :meth:`load_state`. All randomness comes from ``self.generator``.

    Args:
        edits_per_node: s, the number of actions drawn for each node.
        directed: flip single entries also in an undirected graph, as the paper's formula has it. By default an
            undirected graph stays undirected: an edit flips both directions.
        seed: of the explorer's own random generator.
    """

    #: Whether `propose` needs the risk: true for explorers that follow its gradient with respect to edge weights.
    needs_risk = False
    #: Whether its views have features of their own.
    changes_features = False
    #: Whether explorers of this kind may work at the same time, each in a thread: they share nothing but what `look`
    #: computed, and draw from their own generator alone.
    side_by_side = False

    def __init__(self, edits_per_node: int = 5, *, directed: bool = False, seed: int = 0) -> None:
        if edits_per_node < 1:
            raise GraphshiftError(f"edits_per_node is {edits_per_node}; expected at least 1.")
        self.edits_per_node, self.directed, self.seed = edits_per_node, directed, seed
        self.generator = torch.Generator().manual_seed(seed)

    learns = False
    edits_edges = True

    @abstractmethod
    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Makes a view of the graph.

        Args:
            graph: what to edit.
            risk: the risk of a graph under the present model, differentiable in the graph's weights; given to
                explorers with ``needs_risk``.
        """

    def look(self, graph: Graph, risk: SharedRisk) -> bool:
        """Computes what explorers of one graph share, before they propose; by default nothing.

        Args:
            graph: on the CPU.
            risk: keeps what is computed.

        Returns:
            Whether explorers that may work at the same time may do so now: not if they still have to ask for the risk.
        """
        return not self.needs_risk

    def learn(self, view: View, reward: float) -> None:
        """Makes views like this one more likely, the more so the larger the reward. By default nothing is learned."""

    def reset(self) -> None:
        """Forgets what was learned; the random generator goes on."""

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on exactly: the learned state and the generator's."""
        return {"generator": self.generator.get_state()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        self.generator.set_state(state["generator"])

    def forward(self, data: Data) -> Data:
        """A copy of the data with edited edges: the explorer as a PyG transform."""
        others = [k for k in data.keys() if data.is_edge_attr(k) and k not in ("edge_index", "edge_weight")]  # noqa: SIM118
        if others:
            raise GraphshiftError(
                f"the data have {', '.join(others)} for each edge, and added edges have none; drop them first, or keep "
                "one number for each edge as `edge_weight`."
            )
        view = self.propose(data)
        result = data.clone()
        result.edge_index = view.edge_index
        if view.edge_weight is not None:
            result.edge_weight = view.edge_weight
        return result


def as_graph(graph: Graph | Environment | Data) -> Graph:
    """The structure of whatever a user may pass for a graph. A ``Data`` is checked and sorted at every call."""
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, Environment):
        return graph.graph
    if not isinstance(graph, Data):
        raise GraphshiftError(f"expected a torch_geometric.data.Data or an Environment, found {type(graph).__name__}.")
    return checked_graph("graph", graph, int(graph.num_nodes or 0))


def apply_actions(graph: Graph, actions: Tensor, *, directed: bool = False) -> tuple[Graph, Tensor]:
    """Flips the drawn pairs: A_k = A + B_k ∘ (complement(A) − A), Eq. 5, where B_k marks the actions.

    B_k is Boolean, so a pair that is drawn twice is flipped once; in an undirected graph this holds for (n, m) and
    (m, n) together.

    Args:
        graph: the graph to edit.
        actions: the columns drawn for each row, ``[nodes, draws]``.
        directed: flip only the entry (n, m), also in an undirected graph.

    Returns:
        The edited graph, and the keys that were flipped.
    """
    n = graph.num_nodes
    if actions.dim() != 2 or actions.shape[0] != n or actions.is_floating_point():
        raise GraphshiftError(
            f"actions have shape {list(actions.shape)} and type {actions.dtype}; expected whole numbers, a row for "
            f"each of the graph's {n} nodes."
        )
    if actions.numel() and (int(actions.min()) < 0 or int(actions.max()) >= n):
        raise GraphshiftError(
            f"actions lie between {int(actions.min())} and {int(actions.max())}; expected nodes, from 0 to {n - 1}."
        )
    if bool((actions == torch.arange(n, device=actions.device).unsqueeze(1)).any()):
        raise GraphshiftError("actions name a node as its own neighbour; a self-loop is never flipped.")
    return graph.flip_rows(actions, directed=directed), keys_of(
        actions, graph.num_nodes, both=graph.undirected and not directed
    )


def joined(graph: Graph, first: Tensor, listed: Tensor) -> Tensor:
    """For each listed column whether the row has an edge there.

    Args:
        graph: on the CPU.
        first: row n's columns are ``listed[first[n] : first[n + 1]]``; int32.
        listed: int32.
    """
    rowptr, col = graph.pattern.rowptr, graph.pattern.col
    if kernels.fits(rowptr, col, first, listed):
        return kernels.joined(rowptr, col, first, listed)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), first.diff().long())
    return torch.isin(rows * graph.num_nodes + listed.long(), graph.keys)

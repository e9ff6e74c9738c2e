"""The explorer interface: propose a view, learn from a reward, reset, save."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import check_rng_state
from graphshift.core.registry import Registry
from graphshift.data.checks import checked_graph
from graphshift.data.environment import Environment
from graphshift.explorers.probing import Scores
from graphshift.graph.graph import Graph
from graphshift.graph.kernels.checks import check_other_nodes
from graphshift.graph.keys import flipped_keys
from graphshift.graph.sparse import Sparse

#: A differentiable risk of a graph under the present model: what explorers that follow gradients ask for.
Risk = Callable[..., Tensor]

#: Features as environments have them, and what an explorer may do to them.
Features: TypeAlias = Tensor | Sparse
Change: TypeAlias = Callable[[Features], Features]


class SharedRisk:
    """A risk that the explorers of one graph ask in turn; what one of them has computed the others need not.

    Attributes:
        scores: the derivative of the risk in the weight of any pair; None if unknown (or see ``is_opaque``).
        is_opaque: the backbone uses the graph in a way that scores cannot be computed for.
        edge_gains: what deleting each edge adds to the risk, by whether both directions go together.
        deviation: the standard deviation of each feature column; None if unknown.
        mask_slope, flip_slope: what masking each column, or flipping each entry, adds to the risk; None if unknown.

    Args:
        risk: of a graph under the present model and, where features are given, of a graph and a change of them.
        x: the features, for explorers that change them.
    """

    def __init__(self, risk: Risk, x: Features | None = None) -> None:
        self.risk, self.x = risk, x
        self.scores: Scores | None = None
        self.is_opaque = False
        self.edge_gains: dict[bool, Tensor] = {}
        self.deviation: Tensor | None = None
        self.mask_slope: Tensor | None = None
        self.flip_slope: Tensor | None = None

    def __call__(self, graph: Graph, change: Change | None = None) -> Tensor:
        """The risk of a graph; with ``change``, of changed features."""
        return self.risk(graph) if change is None else self.risk(graph, change)


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
        self.actions, self.log_prob = actions, log_prob
        self.change: Change | None = None
        self._graph: Graph | None = graph
        self._flips = flips
        #: Makes the graph, and finds the flips, of a view that is known by its edits.
        self._make: Callable[[], Graph] | None = None
        self._find: Callable[[], Tensor] | None = None

    @classmethod
    def of_actions(cls, graph: Graph, actions: Tensor, log_prob: float, *, directed: bool = False) -> View:
        """The view in which the drawn pairs of ``graph`` are flipped, as :func:`apply_actions` does."""
        view = cls._made(graph, lambda home: home.flip_rows(actions, directed=directed))
        view.actions, view.log_prob = actions, log_prob
        view._find = lambda: _flipped(actions, both=graph.undirected and not directed)
        return view

    @classmethod
    def of_lists(cls, graph: Graph, first: Tensor, columns: Tensor, *, directed: bool = False) -> View:
        """The view in which row n's pairs with ``columns[first[n] : first[n + 1]]`` are flipped; both int32."""
        directed = directed and bool(columns.numel())  # without a flip it stays as it is
        view = cls._made(graph, lambda home: home.flip_lists(first, columns, directed=directed))
        view._find = lambda: flipped_keys(first, columns, both=graph.undirected and not directed)
        return view

    @classmethod
    def _made(cls, graph: Graph, edited: Callable[[Graph], Graph]) -> View:
        """The view that an edit on the CPU makes, whose graph can be dropped and made again."""
        home = graph.to(torch.device("cpu"))
        view = cls(edited(home).to(graph.device))
        view._make = lambda: edited(home).to(graph.device)
        return view

    @property
    def graph(self) -> Graph:
        """The edited graph; after :meth:`forget` it is made again from the edits."""
        if self._graph is None:
            assert self._make is not None
            self._graph = self._make()
        return self._graph

    def forget(self) -> None:
        """Frees memory: drops the graph if the edits are known, else the forms that were made of it."""
        if self._make is None:
            self.graph.forget()
        else:
            self._graph = None

    @property
    def flips(self) -> Tensor:
        """The keys that differ from the environment's graph, sorted. Found when asked for: training never asks."""
        if self._flips is None:
            if self._find is None:
                raise GraphshiftError("this view was made without its flips: View(graph, flips).")
            self._flips = self._find()
        return self._flips

    @property
    def edge_index(self) -> Tensor:
        """PyG's ``edge_index`` of the edited graph."""
        return self.graph.edge_index

    @property
    def edge_weight(self) -> Tensor | None:
        """The weights of the edited graph's edges; None if it has none."""
        return self.graph.weight

    @property
    def edge_attr(self) -> Tensor | None:
        """The features of the edited graph's edges; None if it has none."""
        return self.graph.edge_attr


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

    #: Whether it learns from rewards: whether the class has a `learn` of its own. Set for every subclass.
    learns: bool = False
    #: Whether its views have other edges than the environment.
    edits_edges: bool = True
    #: Whether its views have other features than the environment.
    changes_features: bool = False
    #: Whether `propose` needs the risk.
    needs_risk: bool = False
    #: Whether it needs the risk's gradient with respect to edge weights, so a backbone that uses edges.
    follows_edges: bool = False
    #: Whether explorers of this kind may work at the same time, each in a thread: they share nothing but what `prepare`
    #: computed, and draw from their own generator alone.
    side_by_side: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.learns = cls.learn is not Explorer.learn

    def __init__(self, edits_per_node: int = 5, *, directed: bool = False, seed: int = 0) -> None:
        if edits_per_node < 1:
            raise GraphshiftError(f"edits_per_node is {edits_per_node}; expected at least 1.")
        self.edits_per_node, self.directed, self.seed = edits_per_node, directed, seed
        self.generator = torch.Generator().manual_seed(seed)

    @abstractmethod
    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Makes a view of the graph.

        Args:
            graph: what to edit.
            risk: the risk of a graph under the present model, differentiable in the graph's weights; given to
                explorers with ``needs_risk``.
        """

    def look_at(self, rows: Tensor | None, nodes: int) -> None:
        """Says which nodes of a larger graph the next one has: batches show parts of it. None: it is the whole graph.

        An explorer that learns something about nodes keeps it by their numbers in the whole, or refuses batches.

        Args:
            rows: of each node of the next graph its number in the whole, increasing.
            nodes: of the whole.
        """
        if rows is not None and self.learns:
            raise GraphshiftError(
                f"explorer {type(self).__name__} learns about the nodes of one graph and cannot tell them apart in "
                "batches; train on the whole graph, or give it a look_at(rows, nodes) of its own."
            )

    def prepare(self, graph: Graph, risk: SharedRisk) -> None:
        """Computes what explorers of one graph (on the CPU) share and ``risk`` keeps, before they propose."""

    def is_prepared(self, graph: Graph, risk: SharedRisk) -> bool:
        """Whether :meth:`propose` will not ask for the risk any more. Only then may explorers propose in threads."""
        return not self.needs_risk

    def learn(self, view: View, reward: float) -> None:
        """Makes views like this one more likely, the more so the larger the reward. By default nothing is learned."""

    def reset(self) -> None:
        """Forgets what was learned; the random generator stays where it is."""

    def state(self) -> dict[str, Tensor]:
        """All that is needed to continue exactly: the learned state and the generator's."""
        return {"generator": self.generator.get_state()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        check_rng_state(state["generator"])
        self.generator.set_state(state["generator"])

    @classmethod
    def learned_bytes(cls, nodes: int, steps: int, **options: Any) -> tuple[int, int]:
        """The memory of what an explorer has learned after so many steps, and what growing it needs beside, bytes."""
        return 0, 0

    def forward(self, data: Data) -> Data:
        """A copy of the data with edited edges: the explorer as a PyG transform."""
        known = ("edge_index", "edge_weight", "edge_attr")
        others = [k for k in data.keys() if data.is_edge_attr(k) and k not in known]  # noqa: SIM118
        if others:
            raise GraphshiftError(
                f"the data have {', '.join(others)} for each edge, and added edges have none; drop them first, or keep "
                "them as `edge_weight` (one number for each edge) or `edge_attr`."
            )
        view = self.propose(data)
        result = data.clone()
        result.edge_index = view.edge_index
        if view.edge_weight is not None:
            result.edge_weight = view.edge_weight
        if view.edge_attr is not None:
            result.edge_attr = view.edge_attr
        return result


#: Every explorer by name.
EXPLORERS: Registry[type[Explorer]] = Registry("explorer", "graphshift.explorers")


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
    (m, n) together, unless ``directed``. Gives the edited graph, and the keys that were flipped.

    Args:
        graph: the graph to edit.
        actions: the columns drawn for each row, ``[nodes, draws]``.
        directed: flip only the entry (n, m), also in an undirected graph.
    """
    check_other_nodes(actions, graph.num_nodes, graph.within)
    return graph.flip_rows(actions, directed=directed), _flipped(actions, both=graph.undirected and not directed)


def _flipped(actions: Tensor, *, both: bool) -> Tensor:
    """The keys that ``actions``, ``[nodes, draws]``, flip; sorted, each once. A node's own stands for no edit."""
    nodes, draws = actions.shape
    keys = flipped_keys(torch.arange(nodes + 1) * draws, actions.cpu().flatten(), both=both)
    return keys[keys % (nodes + 1) != 0]

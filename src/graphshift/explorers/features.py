"""Explorers that change features: columns shifted, scaled or masked, entries flipped, within a bound."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Change, Explorer, Features, Risk, SharedRisk, View, as_graph
from graphshift.explorers.gradient import Gradient, checked_aim
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Shifted, Sparse

#: What can be done to features, and the bound that is taken if none is given.
KINDS: dict[str, float] = {"mask": 0.5, "shift": 0.25, "scale": 0.5, "flip": 0.05}

_RATE, _LEAST = 0.2, 0.01  # of the bound: how far the column with the steepest slope goes in a step, at most and least
_LONGER, _SHORTER = 1.2, 0.5  # what a step's length is multiplied by if the slope still points along the last, or back


@EXPLORERS.register("features")
class FeatureExplorer(Explorer):
    """Moves feature columns where the present model's risk rises (or falls) most, within a bound.

    - ``"shift"``: adds up to ``bound`` standard deviations to each column;
    - ``"scale"``: multiplies each column by a number from 1 − bound to 1 + bound;
    - ``"mask"``: sets the columns to zero that matter most, a share ``bound`` of all;
    - ``"flip"``: of features that are 0 or 1, flips the entries that matter most: ``bound`` times as many as are 1. Of
      sparse features only ones are flipped, to zero.

    All nodes are treated alike but for ``"flip"``: another place or time shifts a whole column. Shift and scale follow
    the risk's gradient from where they are (projected gradient ascent). Steps shrink where the slope turns against the
    last one, as it does beyond a maximum; risks of two epochs would not tell, for the model has learned in between;
    mask and flip are chosen anew, and one backward pass serves all explorers of a graph. First order says little about
    how to lower the risk by removing whole columns: an explorer of kind ``"mask"`` with that aim leaves them.

    Each view spares some columns, drawn anew: else explorers with the same aim would make the same view, and K > 2
    would be copies.

    Args:
        kind: one of :data:`KINDS`.
        bound: how far; None for what :data:`KINDS` has.
        aim: as in :class:`~graphshift.explorers.Gradient`.
        spared: the chance of each column to stay as it is in a view.
        seed: of the explorer's own random generator; decides on the aim where none is given.
    """

    edits_edges = False
    changes_features = True
    needs_risk = True
    side_by_side = True

    def __init__(
        self,
        *,
        kind: str = "mask",
        bound: float | None = None,
        aim: str | None = None,
        spared: float = 0.25,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        if not isinstance(kind, str) or kind not in KINDS:
            raise GraphshiftError(f"explorer kind is {kind!r}; expected one of {', '.join(KINDS)}.")
        if bound is not None and not 0 < bound <= (1e6 if kind == "shift" else 1):
            most = "a positive number" if kind == "shift" else "a number above 0, at most 1"
            raise GraphshiftError(f"explorer bound is {bound}; kind {kind!r} expects {most}.")
        if not 0 <= spared < 1:
            raise GraphshiftError(f"explorer spared is {spared}; expected a number from 0, below 1.")
        self.kind, self.bound, self.spared = kind, KINDS[kind] if bound is None else bound, spared
        self.aim = checked_aim(aim, seed)
        self._still = self.aim == "leave" or (self.aim == "lower" and kind == "mask")
        #: Where each column is, from −1 to 1 of the bound; of shift and scale.
        self.place: Tensor | None = None
        self._rate, self._step = _RATE, torch.zeros(())
        self._slope: Tensor | None = None

    def prepare(self, graph: Graph, risk: SharedRisk) -> None:
        """The backward pass: of this explorer's own features, or one for all explorers of the graph."""
        if self._still:
            return
        if risk.x is None:
            raise GraphshiftError(
                "explorer 'features' needs the risk as a function of features too: propose(graph, SharedRisk(risk, x))."
            )
        if self.kind == "mask":
            if risk.mask_slope is None:
                risk.mask_slope = -_column_slopes(graph, risk, None, added=False)  # masked, a column goes from 1 to 0
            self._slope = risk.mask_slope
        elif self.kind == "flip":
            if risk.flip_slope is None:
                risk.flip_slope = _entry_slopes(graph, risk, risk.x)
            self._slope = risk.flip_slope
        else:
            self._slope = _column_slopes(graph, risk, self._moved(risk), added=self.kind == "shift")
            along = float((self._slope * self._step.to(self._slope)).sum()) * (1 if self.aim == "raise" else -1)
            self._rate = min(max(self._rate * (_SHORTER if along < 0 else _LONGER), _LEAST), _RATE)

    def is_prepared(self, graph: Graph, risk: SharedRisk) -> bool:
        """Once the backward pass is done."""
        return self._still or self._slope is not None

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """The graph as it is, with changed features."""
        given = as_graph(graph)
        view = View(given, torch.empty(0, dtype=torch.int64))
        risk = risk if isinstance(risk, SharedRisk) else SharedRisk(risk or (lambda _: torch.zeros(())))
        if self._slope is None:
            self.prepare(given, risk)
        if self._still:
            return view
        assert self._slope is not None
        assert risk.x is not None
        gains, x = self._slope if self.aim == "raise" else -self._slope, risk.x
        self._slope, moves = None, self._drawn(x)
        if self.kind in ("shift", "scale"):
            step = self._rate * gains / gains.abs().max().clamp(min=torch.finfo(gains.dtype).tiny)
            before = torch.zeros_like(step) if self.place is None else self.place.to(step)
            self.place = (before + step).clamp(-1, 1)
            self._step = self.place - before
            view.change = _Columns(self._moved(risk) * moves, self.kind == "shift")
        elif self.kind == "mask":
            best = (gains * moves).topk(max(round(self.bound * gains.numel()), 1))
            gone = torch.zeros_like(gains).index_fill_(0, best.indices[best.values > 0], 1.0)
            view.change = _Columns(-gone, False)
        else:
            view.change = _flipped(x, gains * (moves[x.pattern.col] if isinstance(x, Sparse) else moves), self.bound)
        return view

    def _drawn(self, x: Features) -> Tensor:
        """1 for the columns that this view may change, 0 for those that it spares."""
        width = x.shape[1]
        moves = torch.rand(width, generator=self.generator) >= self.spared if self.spared else torch.ones(width)
        return moves.to(device=x.device, dtype=x.dtype)

    def _moved(self, risk: SharedRisk) -> Tensor:
        """How far each column is: as a multiple of itself, or in its own unit."""
        x = risk.x
        assert x is not None
        unit = _units(risk) if self.kind == "shift" else torch.ones(x.shape[1], dtype=x.dtype, device=x.device)
        return unit * 0 if self.place is None else self.bound * self.place.to(unit) * unit

    def reset(self) -> None:
        """Columns go back to where they were."""
        self.place, self._rate, self._step = None, _RATE, torch.zeros(())

    def state(self) -> dict[str, Tensor]:
        """The generator's, where the columns are, and the last step."""
        own = {"step": self._step, "rate": torch.tensor(self._rate, dtype=torch.float64)}
        return super().state() | own | ({} if self.place is None else {"place": self.place})

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        super().load_state(state)
        self.place = state.get("place")
        self._rate, self._step = float(state["rate"]), state["step"]


@EXPLORERS.register("mixed")
class MixedExplorer(Explorer):
    """Edges as :class:`~graphshift.explorers.Gradient` flips them and features as :class:`FeatureExplorer` moves them.

    Args:
        edits_per_node, directed, candidates: of the edges.
        kind, bound, spared: of the features.
        aim: of both.
        seed: of the explorer's own random generator.
    """

    changes_features = True
    needs_risk = True
    follows_edges = True
    side_by_side = True

    def __init__(
        self,
        edits_per_node: int = 5,
        *,
        kind: str = "mask",
        bound: float | None = None,
        aim: str | None = None,
        spared: float = 0.25,
        candidates: int | None = None,
        directed: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        self.edges = Gradient(edits_per_node, aim=aim, candidates=candidates, directed=directed, seed=seed)
        self.features = FeatureExplorer(kind=kind, bound=bound, aim=aim, spared=spared, seed=seed)
        self.generator = self.features.generator = self.edges.generator  # one, so that one state says where it is

    def prepare(self, graph: Graph, risk: SharedRisk) -> None:
        """Both backward passes."""
        self.features.prepare(graph, risk)
        self.edges.prepare(graph, risk)

    def is_prepared(self, graph: Graph, risk: SharedRisk) -> bool:
        """Once both backward passes are done."""
        return self.features.is_prepared(graph, risk) and self.edges.is_prepared(graph, risk)

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """The edited graph with changed features."""
        change = self.features.propose(graph, risk).change
        view = self.edges.propose(graph, risk)
        view.change = change
        return view

    def reset(self) -> None:
        """Columns go back to where they were."""
        self.features.reset()

    def state(self) -> dict[str, Tensor]:
        """The generator's, and where the columns are."""
        return self.features.state() | self.edges.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        self.features.load_state(state)
        self.edges.load_state(state)


@dataclass(frozen=True)
class _Columns:
    """x + moved, or x · (1 + moved)."""

    moved: Tensor
    added: bool

    def __call__(self, x: Features) -> Features:
        if isinstance(x, Sparse):
            if self.added:
                return Shifted(x, self.moved)
            return Sparse(x.pattern, x.value * (1 + self.moved)[x.pattern.col])
        return x + self.moved if self.added else x * (1 + self.moved)


def _column_slopes(graph: Graph, risk: SharedRisk, moved: Tensor | None, *, added: bool) -> Tensor:
    """What moving each column a little further than ``moved`` (None: from where it is) adds to the risk.

    With ``added`` columns are shifted, by units of their standard deviation; else multiplied.
    """
    x = risk.x
    assert x is not None
    place = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device) if moved is None else moved.clone()
    place.requires_grad_()
    slope = _gradient(risk(graph, _Columns(place, added)), place)
    return slope * _units(risk) if added else slope


def _entry_slopes(graph: Graph, risk: SharedRisk, x: Features) -> Tensor:
    """What flipping each entry adds to the risk: (1 − 2 x) ∂L/∂x; of sparse features the entries that are 1."""
    value = x.value if isinstance(x, Sparse) else x
    if not bool(((value == 0) | (value == 1)).all()):
        raise GraphshiftError("explorer 'features': kind 'flip' expects features that are 0 or 1; choose another kind.")
    leaf = value.detach().clone().requires_grad_()
    changed: Features = Sparse(x.pattern, leaf) if isinstance(x, Sparse) else leaf
    here = risk(graph, lambda _: changed)
    return (1 - 2 * value) * _gradient(here, leaf)


def _flipped(x: Features, gains: Tensor, bound: float) -> Change:
    ones = int((x.value if isinstance(x, Sparse) else x).sum())
    flat = gains.flatten()
    best = flat.topk(min(max(round(bound * ones), 1), flat.numel()))
    chosen = best.indices[best.values > 0]

    def change(x: Features) -> Features:
        value = (x.value if isinstance(x, Sparse) else x).clone()
        at = value.view(-1)
        at[chosen] = 1 - at[chosen]
        return Sparse(x.pattern, value) if isinstance(x, Sparse) else value

    return change


def _units(risk: SharedRisk) -> Tensor:
    """What a shift of 1 is in each column: its standard deviation, computed once for all explorers."""
    if risk.deviation is None:
        assert risk.x is not None
        risk.deviation = _deviation(risk.x)
    return risk.deviation


def _deviation(x: Features) -> Tensor:
    """The standard deviation of every column; of sparse features from their non-zeros alone."""
    if isinstance(x, Tensor):
        return x.std(dim=0, correction=0)
    col, zeros = x.pattern.col.long(), torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
    mean = zeros.index_add(0, col, x.value) / x.shape[0]
    square = zeros.index_add(0, col, x.value.square()) / x.shape[0]
    return (square - mean.square()).clamp(min=0).sqrt()


def _gradient(value: Tensor, leaf: Tensor) -> Tensor:
    found = torch.autograd.grad(value, leaf, allow_unused=True)[0] if value.requires_grad else None
    return torch.zeros_like(leaf) if found is None else found

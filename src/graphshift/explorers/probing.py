"""To first order, what a unit of weight at any pair of nodes does to the risk: for all pairs by one backward pass.

A backbone uses a graph by products such as M h, where M is A, or A with its degrees. Let g be the risk's gradient in
the product's result. A weight w_nm, of an edge or of a pair that is none, enters the product at one place, so

    M = A:                        ∂L/∂w_nm = <g_n, h_m>,
    M = D^-1/2 (A + I) D^-1/2:    ∂L/∂w_nm = i_n i_m <g_n, h_m> + q_n,
                                  q_n = −½ i_n² (<g_n, (M h)_n> + <(Mᵀ g)_n, h_n>)

with i = D^-1/2: the second term is by way of node n's degree. What a backbone does with degrees itself (SAGE divides by
them) adds ∂L/∂d_n. So pairs need not be in the graph to be scored, and the forward pass costs what the graph does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphshift import native
from graphshift.graphs import Graph, Normalised
from graphshift.sparse import Sparse

__all__ = ["OpaqueError", "Probe", "Scores", "probed"]

_CHUNK = 1 << 20  # numbers that the plain version gathers at a time


class OpaqueError(Exception):
    """A backbone asked for something of the graph that a probe cannot follow."""


@dataclass
class _Product:
    """One product M h: what went in, what came out, and the gradients on the way back."""

    h: Tensor
    normalised: bool
    value: Tensor | None = None  # M h
    gradient: Tensor | None = None  # g
    back: Tensor | None = None  # Mᵀ g


class _Watched:
    """Stands for a matrix that a backbone multiplies by, and keeps what the scores need."""

    def __init__(self, matrix: Sparse | Normalised, products: list[_Product], leaves: list[Tensor]) -> None:
        self.matrix, self.products, self.leaves = matrix, products, leaves

    def __matmul__(self, h: Tensor) -> Tensor:
        # A tensor of its own, whose gradient is this product's alone even if h is used elsewhere too.
        inner = h.view_as(h) if h.requires_grad else h.detach().requires_grad_()
        if inner.is_leaf:
            self.leaves.append(inner)
        product = _Product(h.detach(), isinstance(self.matrix, Normalised))
        out = self.matrix @ inner
        if product.normalised:
            product.value = out.detach().clone()  # backbones go on in place
        out.register_hook(lambda g: setattr(product, "gradient", g.detach()))
        inner.register_hook(lambda g: setattr(product, "back", g.detach()))
        self.products.append(product)
        return out


class Probe:
    """A graph as backbones see it, which watches what they do with it.

    It has what the built-in backbones multiply by. A backbone that asks for anything else (GAT for the edges, a module
    of a user's own for ``edge_index``) cannot be followed: :class:`OpaqueError`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.num_nodes, self.undirected = graph, graph.num_nodes, graph.undirected
        self.products: list[_Product] = []
        self.leaves: list[Tensor] = []
        self._degree: Tensor | None = None

    def to(self, device: torch.device) -> Probe:
        """Moves the graph; the same probe goes on."""
        self.graph = self.graph.to(device)
        return self

    @property
    def normalised(self) -> _Watched:
        """Â, watched."""
        return _Watched(self.graph.normalised, self.products, self.leaves)

    @property
    def adjacency(self) -> _Watched:
        """A, watched."""
        return _Watched(self.graph.adjacency, self.products, self.leaves)

    @property
    def degree(self) -> Tensor:
        """The degrees, which have a gradient here."""
        if self._degree is None:
            self._degree = self.graph.degree.detach().clone().requires_grad_()
            self.leaves.append(self._degree)
        return self._degree

    def __getattr__(self, name: str) -> Any:
        raise OpaqueError(name)

    def scores(self) -> Scores:
        """What the backward pass left."""
        root = (self.graph.degree + 1).rsqrt().detach()
        dtype = self.products[0].h.dtype if self.products else root.dtype
        add = torch.zeros(self.num_nodes, dtype=dtype, device=root.device)
        if self._degree is not None and self._degree.grad is not None:
            add += self._degree.grad
        parts = []
        for product in self.products:
            if product.gradient is None:  # the risk does not depend on it
                continue
            if product.normalised:
                assert product.value is not None
                assert product.back is not None
                inner = (product.gradient * product.value).sum(dim=1) + (product.back * product.h).sum(dim=1)
                add -= 0.5 * root.square() * inner
            parts.append((product.gradient.cpu(), product.h.cpu(), product.normalised))
        return Scores(parts, root.cpu(), add.cpu())


@dataclass(frozen=True)
class Scores:
    """The derivative of a risk in the weight of any pair.

    Attributes:
        products: g and h of each product, and whether it is normalised.
        root: D^-1/2, with self-loops.
        add: what comes by way of the row's degree.
    """

    products: list[tuple[Tensor, Tensor, bool]]
    root: Tensor
    add: Tensor

    def of(self, first: Tensor, listed: Tensor, *, both: bool, skip: bool = False) -> Tensor:
        """∂L/∂w of listed pairs.

        Args:
            first: row n's pairs are with ``listed[first[n] : first[n + 1]]``; int32.
            listed: columns; int32.
            both: the weights of (n, m) and (m, n) move together.
            skip: leave pairs with m < n at 0, where the reverse entry has them too.
        """
        found = torch.zeros(listed.numel(), dtype=self.add.dtype)
        added = False
        for left, right, normalised in self.products:
            scale = self.root if normalised else None
            add = None if added else self.add
            added = True
            if native.fits(first, listed, left, right, scale, add):
                native.add_scores(found, first, listed, left, right, scale=scale, add=add, both=both, skip=skip)
            else:
                _add_plainly(found, first, listed, left, right, scale, add, both, skip)
        return found


def _add_plainly(
    out: Tensor, first: Tensor, listed: Tensor, left: Tensor, right: Tensor, scale: Tensor | None, add: Tensor | None,
    both: bool, skip: bool,
) -> None:  # fmt: skip
    """As ``native.add_scores``."""
    rows = torch.repeat_interleave(torch.arange(first.numel() - 1), first.diff().long())
    chosen = (listed >= rows).nonzero().squeeze(1) if skip else torch.arange(listed.numel())
    for part in chosen.split(max(_CHUNK // max(left.shape[1], 1), 1)):
        row, col = rows[part], listed[part].long()
        score = (left[row] * right[col]).sum(dim=1)
        if both:
            score = score + (left[col] * right[row]).sum(dim=1)
        if scale is not None:
            score = score * scale[row] * scale[col]
        if add is not None:
            score = score + (add[row] + add[col] if both else add[row])
        out[part] += score


def probed(graph: Graph, risk: Callable[[Any], Tensor]) -> Scores:
    """One forward and one backward pass of a risk.

    Args:
        graph: at which to differentiate.
        risk: of a graph under the present model.

    Raises:
        OpaqueError: the model uses the graph in a way that cannot be followed.
    """
    probe = Probe(graph)
    value = risk(probe)
    if not probe.leaves or not value.requires_grad:
        raise OpaqueError("products")
    value.backward(inputs=probe.leaves)  # no other gradient is touched
    return probe.scores()

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

from graphshift.graph import kernels
from graphshift.graph.graph import Graph, Normalised
from graphshift.graph.sparse import Sparse

_LINE = 16  # numbers in a line of the cache


class OpaqueError(Exception):
    """A backbone asked for something of the graph that a probe cannot follow."""


@dataclass
class _Product:
    """One product M h: what went in, what came out, and the gradients in the backward pass."""

    h: Tensor  # a tensor of its own, whose gradient is this product's alone even if the backbone's is used elsewhere
    normalised: bool
    value: Tensor | None = None  # M h
    gradient: Tensor | None = None  # g
    back: Tensor | None = None  # Mᵀ g


class _Watched:
    """Stands for a matrix that a backbone multiplies by, and keeps what the scores need."""

    def __init__(self, matrix: Sparse | Normalised, products: list[_Product]) -> None:
        self.matrix, self.products = matrix, products

    def __matmul__(self, h: Tensor) -> Tensor:
        own = h.view_as(h) if h.requires_grad else h.detach().requires_grad_()
        product = _Product(own, isinstance(self.matrix, Normalised))
        out = self.matrix @ product.h
        if product.normalised:
            product.value = out.detach().clone()  # backbones change it in place
        out.register_hook(lambda g: setattr(product, "gradient", g.detach()))
        self.products.append(product)
        return out


class Probe:
    """A graph as backbones see it, which watches what they do with it.

    It has what the built-in backbones multiply by. A backbone that asks for anything else (GAT for the edges, a module
    of a user's own for ``edge_index``) cannot be followed: :class:`OpaqueError`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.num_nodes, self.undirected = graph, graph.num_nodes, graph.undirected
        self.blocks = graph.blocks
        self.products: list[_Product] = []
        self._degree: Tensor | None = None

    def to(self, device: torch.device) -> Probe:
        """Moves the graph; the same probe keeps watching."""
        self.graph = self.graph.to(device)
        return self

    @property
    def normalised(self) -> _Watched:
        """Â, watched."""
        return _Watched(self.graph.normalised, self.products)

    @property
    def adjacency(self) -> _Watched:
        """A, watched."""
        return _Watched(self.graph.adjacency, self.products)

    @property
    def degree(self) -> Tensor:
        """The degrees, which have a gradient here."""
        if self._degree is None:
            self._degree = self.graph.degree.detach().clone().requires_grad_()
        return self._degree

    def __getattr__(self, name: str) -> Any:
        raise OpaqueError(name)

    def scores(self, risk: Tensor) -> Scores:
        """The backward pass, of what the risk was made of here (else :class:`OpaqueError`) and nothing else."""
        sources = [product.h for product in self.products] + ([] if self._degree is None else [self._degree])
        if not sources or not risk.requires_grad:
            raise OpaqueError("products")
        found = torch.autograd.grad(risk, sources, allow_unused=True)
        for product, back in zip(self.products, found, strict=False):  # the degree's comes last
            product.back = back
        by_degree = None if self._degree is None else found[-1]
        root = (self.graph.degree + 1).rsqrt().detach()
        dtype = self.products[0].h.dtype if self.products else root.dtype
        add = torch.zeros(self.num_nodes, dtype=dtype, device=root.device)
        if by_degree is not None:
            add += by_degree
        left, right = [], []
        for product in self.products:
            if product.back is None:  # the risk does not depend on it
                continue
            assert product.gradient is not None
            g, h = product.gradient, product.h.detach()
            if product.normalised:
                assert product.value is not None
                add -= 0.5 * root.square() * ((g * product.value).sum(dim=1) + (product.back * h).sum(dim=1))
                g, h = g * root.unsqueeze(1), h * root.unsqueeze(1)
            left.append(g)
            right.append(h)
        width = sum(g.shape[1] for g in left)
        pad = add.new_zeros(self.num_nodes, -2 * width % _LINE)
        return Scores(torch.cat([*left, *right, pad], dim=1).to(dtype).cpu(), width, add.cpu())


@dataclass(frozen=True)
class Scores:
    """The derivative of a risk in the weight of any pair: <g_n, h_m> + add_n.

    Attributes:
        table: for each node its g, then its h, of all products one after the other, with i of both nodes in them, then
            zeros up to whole lines of the cache; so a pair's score needs two rows and nothing else.
        width: of g and of h.
        add: what comes by way of the row's degree.
    """

    table: Tensor
    width: int
    add: Tensor

    def of(self, first: Tensor, listed: Tensor, *, both: bool, skip: bool = False) -> Tensor:
        """∂L/∂w of listed pairs, row n's with ``listed[first[n] : first[n + 1]]``; int32.

        With ``both`` the weights of (n, m) and (m, n) move together; ``skip`` leaves pairs with m < n at 0.
        """
        return kernels.score(first, listed, self.table, self.width, self.add, both=both, skip=skip)

    def of_random(self, graph: Graph, each: int, seed: int, *, both: bool) -> tuple[Tensor, Tensor]:
        """Random pairs, ``each`` for every node, and what joining them adds to the risk: both ``[nodes * each]``.

        A drawn pair that is an edge already adds nothing: it is scored with the edges.
        """
        csr, scores = (graph.pattern.rowptr, graph.pattern.col), (self.table, self.width, self.add)
        weight = float(graph.new_weight)
        return kernels.score_random(csr, each, seed, scores, both=both, weight=weight, within=graph.within)


def probed(graph: Graph, risk: Callable[[Any], Tensor]) -> Scores:
    """One forward and one backward pass of a risk; :class:`OpaqueError` if the graph's use cannot be followed."""
    probe = Probe(graph)
    return probe.scores(risk(probe))

"""``adapt="beliefs"``: belief propagation along the edges of the target, for models that do not use edges.

The model's probabilities are evidence about each node. How often classes are joined is estimated on the unlabelled
graph by expectation maximisation. Belief propagation puts both together (Pearl, 1982; for communities, Decelle et al.,
2011). So edges help where neighbours share classes, and as well where they avoid each other's; where they say nothing
about classes, nothing happens.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.data.pieces import standing_for
from graphshift.estimators.adaptation import estimated_prior
from graphshift.graph.graph import Graph
from graphshift.graph.keys import reverse

if TYPE_CHECKING:
    from graphshift.estimators.base import Estimator

_STEPS, _KEPT = 30, 0.5  # of propagation, and how much of an old message stays
_FITTING = 5  # rounds in which class shares are fitted, after each step
_MOST, _ENTRIES = 50_000, 5_000_000  # edges that rates are estimated on, and entries of the table of their pairs
_REHEARSED = 2_000_000  # edges times classes of a validation graph: above, every fit would take seconds longer
_TINY = 1e-12


class Ends:
    """Every edge in both directions, each once, without loops.

    Attributes:
        receiver, sender: of each entry, int64; sorted by receiver.
        back: the place of the reversed entry.

    Args:
        graph: directed edges count in both directions; weights do not count.
    """

    def __init__(self, graph: Graph) -> None:
        nodes = graph.num_nodes
        keys = (
            graph.keys.cpu() if graph.undirected else torch.cat([graph.keys, reverse(graph.keys, nodes)]).cpu().unique()
        )
        keys = keys[keys // max(nodes, 1) != keys % max(nodes, 1)]
        self.receiver, self.sender = keys // max(nodes, 1), keys % max(nodes, 1)
        self.back = torch.searchsorted(keys, reverse(keys, nodes) if nodes else keys)


def pair_rates(evidence: Tensor, prior: Tensor, ends: Ends) -> Tensor:
    """P(i, j): how often an edge joins classes i and j, ``[classes, classes]``, symmetric, its sum 1.

    That of largest likelihood, Σ_edges log Σ_ij P_ij e_u(i) e_v(j), by expectation maximisation. It is the estimate of
    a class prior whose classes are pairs.

    Args:
        evidence: e_v(i) = p(x_v | i) up to a constant for each node, ``[nodes, classes]``, float64.
        prior: of the classes, where the maximisation begins.
        ends: of the edges; of many, some are drawn.
    """
    classes = prior.numel()
    once = (ends.receiver < ends.sender).nonzero().squeeze(1)
    most = min(_MOST, max(_ENTRIES // classes**2, 1000))
    if len(once) > most:
        once = once[torch.randperm(len(once), generator=torch.Generator().manual_seed(0))[:most]]
    start = (prior.unsqueeze(1) * prior).flatten()
    one, other = evidence[ends.receiver[once]], evidence[ends.sender[once]]
    both = (one.unsqueeze(2) * other.unsqueeze(1)).flatten(1) * start
    both = both / both.sum(dim=1, keepdim=True).clamp(min=torch.finfo(both.dtype).tiny)
    found = estimated_prior(torch.cat([both, both.view(-1, classes, classes).mT.flatten(1)]), start)[0]
    return found.view(classes, classes)


def gain(evidence: Tensor, rates: Tensor, ends: Ends) -> float:
    """How much likelier the edges are with these rates than if classes did not matter to them, less its price (BIC).

    Σ_edges log(e_uᵀ P e_v / (e_uᵀ m mᵀ e_v)) − k/2 log(edges), m the marginals of P, k = C(C − 1)/2 free numbers.
    """
    once = ends.receiver < ends.sender
    one, other, marginal = evidence[ends.receiver[once]], evidence[ends.sender[once]], rates.sum(dim=1)
    joint = ((one @ rates) * other).sum(dim=1).clamp(min=_TINY).log()
    apart = (one @ marginal).clamp(min=_TINY).log() + (other @ marginal).clamp(min=_TINY).log()
    classes = rates.shape[0]
    return float((joint - apart).sum()) - classes * (classes - 1) / 4 * math.log(max(len(one), 1))


def beliefs(
    evidence: Tensor,
    prior: Tensor,
    rates: Tensor,
    ends: Ends,
    *,
    steps: int = _STEPS,
    kept: float = _KEPT,
    fitted: bool = True,
) -> Tensor:
    """b_v(i) ∝ π_i e_v(i) f_i Π_u m_uv(i), ``[nodes, classes]``; m_uv(i) ∝ Σ_j P_ij / (P_i P_j) b_u∖v(j).

    b_u∖v is the belief of u without what v told it. f keeps the classes' shares among ends of edges at those of P:
    without it a class that is ahead takes everything, since edges alone do not say how large classes are.

    Args:
        evidence, ends: as in :func:`pair_rates`.
        prior: π, the shares of the classes.
        rates: P.
        steps: of propagation; on a tree, its longest path makes beliefs exact (with ``kept`` 0 and ``fitted`` False).
        kept: share of an old message (its logarithm) that stays.
        fitted: whether there is f; else it is 1.
    """
    shares = rates.sum(dim=1)
    ratio = rates / (shares.unsqueeze(1) * shares).clamp(min=_TINY)
    own = (evidence * prior).clamp(min=_TINY).log()
    degree = torch.bincount(ends.receiver, minlength=len(own)).to(own.dtype).unsqueeze(1)
    told, field = own.new_zeros(len(ends.receiver), own.shape[1]), torch.zeros_like(shares)
    for step in range(steps + 1):
        total = own.index_add(0, ends.receiver, told)
        for _ in range(_FITTING if fitted and len(told) else 0):
            now = (degree * (total + field).softmax(dim=1)).sum(dim=0) / degree.sum()
            field = field + shares.clamp(min=_TINY).log() - now.clamp(min=_TINY).log()
        if step < steps:
            without = ((total + field)[ends.sender] - told[ends.back]).softmax(dim=1)
            told = kept * told + (1 - kept) * (without @ ratio).clamp(min=_TINY).log()
    return (total + field).softmax(dim=1)


def propagated(probabilities: Tensor, prior: Tensor, graph: Graph) -> tuple[Tensor, str]:
    """Probabilities with what edges say, and why they are as before; empty if they are not.

    Args:
        probabilities: of a model that does not look at edges, ``[nodes, classes]``.
        prior: shares of the classes in training.
        graph: unlabelled.
    """
    evidence = torch.where(prior > 0, probabilities.double() / prior.clamp(min=_TINY), 0.0)
    ends = Ends(graph)
    if not len(ends.receiver):
        return probabilities, "it has no edges"
    rates = pair_rates(evidence, prior, ends)
    if gain(evidence, rates, ends) <= 0:
        return probabilities, "its edges say nothing sure about the nodes' classes"
    return beliefs(evidence, prior, rates, ends), ""


def unfit(model: Estimator) -> str:
    """What a model would have to be; empty if it is."""
    if not model.task_.is_classification or model.task_.is_graph_level:
        return "classes of nodes"
    return "a model that does not look at edges (an MLP, or tables without neighbours)" if model.uses_edges else ""


def rehearsed(model: Estimator, graphs: Sequence[Environment]) -> list[float] | None:
    """The mean score of labelled graphs without beliefs and with them, as if each were a target; None if it has none.

    Args:
        model: which was not trained on them.
        graphs: the validation graphs, as a rule; large ones are left out.
    """
    if unfit(model):
        return None
    graphs = [standing_for(e).to(model._device()) for e in graphs]
    graphs = [e for e in graphs if e.graph.num_edges * model.task_.num_classes <= _REHEARSED]
    if not graphs:
        return None
    outputs = [model._plain_output(e, ()) for e in graphs]
    with_it = [_with_edges(model, e, one)[0] for e, one in zip(graphs, outputs, strict=True)]
    try:
        return [
            fmean(e.score(o.to(e.mask.device)) for e, o in zip(graphs, of, strict=True)) for of in (outputs, with_it)
        ]
    except GraphshiftError:  # the metric is not defined there, as ROC-AUC where all nodes are of one class
        return None


def believed(model: Estimator, environment: Environment) -> Tensor:
    """The output with what edges say; the model's own, and a warning, where that is not safe."""
    if environment.stored is not None:
        raise GraphshiftError(
            f"environment {environment.name!r} is predicted piece by piece, and adapt 'beliefs' needs all of it at "
            "once: leave it out."
        )
    output, known, sign = model._plain_output(environment, ()), model.rehearsed_, model.task_.scorer.sign
    if known is None:
        few = f"of at most {_REHEARSED:,} edges times classes"
        why = f"there was no validation graph with a score, and {few}, to rehearse it on"
    elif sign * (known[1] - known[0]) < 0:
        why = f"on the validation graphs the score goes from {known[0]:.3f} to {known[1]:.3f}"
    else:
        output, why = _with_edges(model, environment, output)
    if why:
        message = f"environment {environment.name!r}: the model was left as it is (beliefs): {why}."
        warnings.warn(message, GraphshiftWarning, stacklevel=5)
    return output


def _with_edges(model: Estimator, environment: Environment, output: Tensor) -> tuple[Tensor, str]:
    task, known = model.task_, model.confidences_.get("")
    p = task.probabilities(output if known is None else known.scaled(output, task))
    found, why = propagated(p.cpu(), model.prior_, environment.graph)
    return (output, why) if why else (task.output_of(found), "")

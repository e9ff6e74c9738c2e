"""Sections 2.1 and 4.1: Eq. 6, Lemma 1, Theorems 1 and 2, and where Eq. 4 leads."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshift.lab.theory import graphs as g
from graphshift.lab.theory import objectives as o
from graphshift.lab.theory.cases import CASES, INVARIANT, WHOLE
from graphshift.lab.theory.information import conditional, entropy
from graphshift.lab.theory.statement import EXACT, SMALL_BETA, Statement
from graphshift.lab.theory.worlds import World, encoded, fitted, partitions

_SPURIOUS_ONLY = (0, 1, 0, 1)


def _world(name: str) -> World:
    return CASES[name].world


def _gap(world: World, encoder: tuple[int, ...]) -> float:
    return o.invariance_gap(world.train, world.weights, encoder)


def _eq_6() -> Statement:
    graphs, training = g.outcomes(0.5), g.ego_law(g.outcomes(0.9))
    law = g.ego_law(graphs)
    p, q = g.conditional_of(law), g.conditional_of(training)
    over_graphs, over_nodes = g.divergence_over_graphs(graphs, p, q), g.divergence_over_nodes(law, p, q)
    return Statement(
        "Eq. 6",
        "the divergence over graphs and nodes is that of one node's ego-graph and label",
        abs(over_graphs - over_nodes) < EXACT,
        {"graphs": over_graphs, "nodes": over_nodes},
        "two-node graphs, all enumerated: {graphs:.4f} over graphs, {nodes:.4f} over nodes",
    )


def _section_2() -> Statement:
    own, shared = g.coupling(g.outcomes(0.9)), g.coupling(g.outcomes(0.9, shared=True))
    return Statement(
        "Section 2.1",
        "given the graph, labels are independent",
        abs(shared) < EXACT,
        {"own": own, "shared": shared},
        "I(y₁; y₂ | G) = {own:.3f} if a spurious feature follows its own node's label, {shared:.3f} if it follows the "
        "neighbours' labels too, as in Section 3.1",
        "no feature depends on the labels of two nodes",
    )


def _lemma_1_invariance() -> Statement:
    worst = 0.0
    for name in CASES:
        world = _world(name)
        for encoder in partitions(4):
            rows = conditional(encoded(world.train, encoder))
            inputs = encoded(world.train, encoder).sum(axis=2)
            pooled = conditional(encoded(world.mixture, encoder))
            apart = float((abs(rows - pooled).max(axis=2) * (inputs > 0)).max())
            worst += (apart > 1e-6) != (_gap(world, encoder) > 1e-12)
    return Statement(
        "Lemma 1",
        "invariance p(y|z, e) = p(y|z) ⇔ I(y; e | z) = 0",
        worst == 0,
        {"disagreements": worst, "checked": 15 * len(CASES)},
        "{disagreements:.0f} disagreements over {checked:.0f} encoders",
    )


def _lemma_1_sufficiency() -> Statement:
    found = {name: _best(name) for name in ("spurious", "covariate")}
    return Statement(
        "Lemma 1",
        "sufficiency y = c*(r) + n ⇔ I(y; r) is the largest I(y; z)",
        abs(found["spurious"][0] - found["spurious"][1]) < EXACT,
        {"r": found["spurious"][0], "all": found["spurious"][1], "r_covariate": found["covariate"][0]}
        | {"all_covariate": found["covariate"][1]},
        "spurious: I(y; r) = {r:.3f}, but I(y; r, r̄) = {all:.3f}; covariate: {r_covariate:.3f} and {all_covariate:.3f}",
        "r̄ says nothing of y beyond r, so it is not made from y (Section 3.1's is)",
    )


def _best(name: str) -> tuple[float, float]:
    world = _world(name)
    return o.sufficiency(world, INVARIANT), max(o.sufficiency(world, encoder) for encoder in partitions(4))


def _theorem_1_mean() -> Statement:
    worst = 0.0
    for name in CASES:
        world = _world(name)
        label = entropy(world.mixture.sum(axis=0))
        for encoder in partitions(4):
            mean, _ = o.mean_and_variance(world, fitted(world.mixture, encoder))
            worst = max(worst, abs(mean - (label - o.sufficiency(world, encoder))))
    return Statement(
        "Theorem 1.1",
        "the least mean risk on top of z is H(y) − I(y; z)",
        worst < EXACT,
        {"error": worst, "checked": 15 * len(CASES)},
        "largest difference over {checked:.0f} encoders: {error:.9f}",
    )


def _theorem_1_jensen() -> Statement:
    q = np.array([0.9, 0.1])  # q(y | z) for z = 0, 1, and z a fair coin
    inside, outside = float(-np.log(q).mean()), float(-np.log(q.mean()))
    return Statement(
        "Theorem 1, proof",
        "E_z[−log q(y|z)] ≤ −log E_z[q(y|z)]",
        inside <= outside,
        {"left": inside, "right": outside},
        "q = 0.9 or 0.1 with equal chance: {left:.2f} on the left, {right:.2f} on the right",
        "the other sign, as in Lemma 2; both sides are equal if the encoder is deterministic",
        mended=False,
    )


def _theorem_1_variance() -> Statement:
    world = _world("cancelling")
    _, variance = o.mean_and_variance(world, fitted(world.mixture, _SPURIOUS_ONLY))
    other = _world("spurious")
    _, blind = o.mean_and_variance(other, np.full((4, 2), 0.5))
    gap, whole = _gap(world, _SPURIOUS_ONLY), _gap(other, WHOLE)
    return Statement(
        "Theorem 1.2, proof",
        "I(y; e | z) ≤ √(variance of the risks)",
        gap <= math.sqrt(variance) + EXACT,
        {"gap": gap, "variance": variance, "blind": blind, "whole": whole},
        "cancelling, z = r̄ with its best classifier: variance {variance:.1f}, I(y; e | z) = {gap:.3f}; spurious, "
        "z = (r, r̄) and q = ½: variance {blind:.1f}, I(y; e | z) = {whole:.3f}",
        "instead: equal risks say something about the predictor, not about z; see Eq. 4 below",
        mended=False,
    )


def _theorem_1_least() -> Statement:
    world, other = _world("uneven"), _world("spurious")
    least = o.chosen_encoder(world, 0)
    _, variance = o.mean_and_variance(world, world.ideal)
    _, smallest = o.mean_and_variance(world, fitted(world.mixture, least))
    return Statement(
        "Theorem 1.2",
        "the variance is least at a z with I(y; e | z) = 0",
        _gap(world, least) < 1e-12,
        {"variance": variance, "smallest": smallest, "gap": _gap(world, least)}
        | {"even": o.mean_and_variance(other, other.ideal)[1]},
        "uneven: z = r has I(y; e | z) = 0 and variance {variance:.3f}, the least variance is {smallest:.0e} at a z "
        "with I(y; e | z) = {gap:.3f}; spurious: z = r has variance {even:.3f}",
        "y = c*(r) + n with n independent of r: then the risk of f* = p(y|r) is H(n) everywhere",
    )


def _theorem_2_conditions() -> Statement:
    world = _world("spurious")
    largest = max(o.sufficiency(world, e) for e in partitions(4))
    both = [e for e in partitions(4) if _gap(world, e) < 1e-12 and o.sufficiency(world, e) > largest - EXACT]
    gaps = [_gap(world, e) for e in partitions(4) if o.sufficiency(world, e) > largest - EXACT]
    return Statement(
        "Theorem 2",
        "some z meets both conditions: I(y; e | z) = 0 and the largest I(y; z)",
        bool(both),
        {"gap": min(gaps), "both": len(both)},
        "spurious: {both:.0f} of 15 encoders; the largest I(y; z) needs r̄, and then I(y; e | z) = {gap:.3f}",
        "I(y; z) largest among the encoders with I(y; e | z) = 0",
    )


def _theorem_2_erm() -> Statement:
    apart = {}
    for name in ("covariate", "cancelling", "spurious"):
        world = _world(name)
        apart[name] = float(abs(conditional(world.mixture) - world.ideal).max())
    error = max(apart["covariate"], apart["cancelling"])
    return Statement(
        "Theorem 2 (ours)",
        "where some z meets both conditions as written, ERM's predictor is f* already",
        error < EXACT,
        {"error": error, "spurious": apart["spurious"]},
        "largest difference {error:.9f} in covariate and cancelling, {spurious:.2f} in spurious, where no z does. If "
        "I(y; z) is the largest, it is I(y; x), so p(y|z) = p(y|x)",
    )


def _theorem_2_minimax() -> Statement:
    found = {}
    for name in ("spurious", "narrow"):
        world = _world(name)
        invariant = [e for e in partitions(4) if _gap(world, e) < 1e-12]
        best = max(invariant, key=lambda e: (round(o.sufficiency(world, e), 12), -max(e)))
        q = fitted(world.mixture, best)
        found[name] = float(o.risks(world.every, q).max()), o.minimax(world.every)[0]
    return Statement(
        "Theorem 2",
        "the best invariant predictor solves Eq. 2",
        found["narrow"][0] < found["narrow"][1] + 1e-6,
        {"f": found["spurious"][0], "least": found["spurious"][1], "f_narrow": found["narrow"][0]}
        | {"least_narrow": found["narrow"][1]},
        "worst risk {f:.3f}, the least possible {least:.3f} (spurious); narrow: {f_narrow:.3f} and {least_narrow:.3f}",
        "an environment in which r̄ is independent of r and y is among those that count",
    )


def _eq_4_limit() -> Statement:
    found: dict[str, float] = {}
    for name in ("spurious", "enough", "few", "uneven", "alike"):
        world = _world(name)
        q = o.path(world, (1.0, 0.01, SMALL_BETA))[-1]
        found[name] = float(o.risks(world.every, q).max() - o.risks(world.every, world.ideal).max())
    return Statement(
        "Eq. 4",
        "as β → 0 the minimiser tends to f*",
        max(found.values()) < 0.01,
        found,
        "worst risk above that of f* at β = 1e-4: spurious {spurious:.3f}, enough {enough:.3f}; few {few:.3f}, "
        "uneven {uneven:.3f}, alike {alike:.3f}",
        "f* has equal risks in training, and the affine hull of the training environments has one in which r̄ is "
        "independent of r and y",
    )


#: In the paper's order; each computes its numbers when called.
STATEMENTS: tuple[Callable[[], Statement], ...] = (
    _section_2,
    _eq_6,
    _lemma_1_invariance,
    _lemma_1_sufficiency,
    _theorem_1_mean,
    _theorem_1_jensen,
    _theorem_1_variance,
    _theorem_1_least,
    _theorem_2_conditions,
    _theorem_2_erm,
    _theorem_2_minimax,
    _eq_4_limit,
)

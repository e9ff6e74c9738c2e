"""The discrete models that are run, and the numbers of each: all encoders, Eq. 4 along β, the error and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphshift.lab.theory import objectives as o
from graphshift.lab.theory.bounds import errors
from graphshift.lab.theory.information import Array, conditional
from graphshift.lab.theory.worlds import World, agreeing, described, environment, fitted, partitions

#: β of the path, falling: from ERM to the variance.
BETAS = tuple(10.0 ** (exponent / 2) for exponent in range(4, -9, -1))
QUICK_BETAS = (10.0, 0.1, 0.001)
INVARIANT = (0, 0, 1, 1)
WHOLE = (0, 1, 2, 3)
NOISE = 0.25
#: Noise that depends on r: y is not c*(r) + n with independent n.
UNEVEN = (0.05, 0.4)


@dataclass(frozen=True)
class Case:
    """One model.

    Attributes:
        name: what tables call it.
        title: what is special about it, in a few words.
        world: its environments.
        new: p_e'(x, y) of the environment on which the error is measured.
    """

    name: str
    title: str
    world: World
    new: Array


def _even(channel: Sequence[Sequence[float]]) -> Array:
    return environment((NOISE, NOISE), channel)


def _agree(rho: float) -> Array:
    return _even(agreeing(rho))


def _apart(on_one: float, on_zero: float) -> Array:
    """r̄ = 1 with one probability if y = 1 and with another if y = 0."""
    return _even([[on_zero, on_zero], [on_one, on_one]])


def _of_right(on_zero: float, on_one: float) -> Array:
    """r̄ goes with r, not with y: r̄ = 1 with one probability if r = 0 and with another if r = 1."""
    return _even([[on_zero, on_one], [on_zero, on_one]])


def _uneven(rho: float, right: float) -> Array:
    return environment(UNEVEN, agreeing(rho), (1 - right, right))


def _case(name: str, title: str, train: Sequence[Array], every: Sequence[Array], new: Array) -> Case:
    weights = np.full(len(train), 1 / len(train))
    return Case(name, title, World(np.stack(train), weights, np.stack(every), INVARIANT), new)


_CORNERS = [_apart(a, b) for a in (0, 1) for b in (0, 1)]
_ANY = [_agree(0), _agree(1)]

#: All cases by name. In all but ``uneven`` p(r) = ½ and y = r ⊕ n with p(n = 1) = ¼.
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        _case("spurious", "r̄ = y with probability 0.9 and 0.7", [_agree(0.9), _agree(0.7)], _ANY, _agree(0.1)),
        _case(
            "covariate",
            "r̄ is made from r, not from y",
            [_of_right(0.1, 0.9), _of_right(0.3, 0.6)],
            [_of_right(a, b) for a in (0, 1) for b in (0, 1)],
            _of_right(0.9, 0.1),
        ),
        _case("cancelling", "r̄ = y with probability 0.9 and 0.1", [_agree(0.9), _agree(0.1)], _ANY, _agree(0.0)),
        _case(
            "uneven",
            "the noise depends on r, and p(r) on e",
            [_uneven(0.7, 0.2), _uneven(0.9, 0.8)],
            [_uneven(rho, right) for rho in (0, 1) for right in (0.2, 0.8)],
            _uneven(0.1, 0.5),
        ),
        _case(
            "narrow",
            "r̄ = y with 0.6 to 0.95 in every environment",
            [_agree(0.9), _agree(0.7)],
            [_agree(0.6), _agree(0.95)],
            _agree(0.6),
        ),
        _case("alike", "r̄ = y with 0.8 in both", [_agree(0.8), _agree(0.8)], _ANY, _agree(0.1)),
        _case(
            "few",
            "p(r̄ = 1 | y) is 0.3, 0.9 and 0.2, 0.8 for y = 0, 1",
            [_apart(0.9, 0.3), _apart(0.8, 0.2)],
            _CORNERS,
            _agree(0.1),
        ),
        _case(
            "enough",
            "the same, and 0.1, 0.9",
            [_apart(0.9, 0.3), _apart(0.8, 0.2), _apart(0.9, 0.1)],
            _CORNERS,
            _agree(0.1),
        ),
        _case("certain", "r̄ = y always", [_agree(1.0), _agree(1.0)], _ANY, _agree(0.5)),
    )
}


def definition(case: Case, betas: Sequence[float]) -> dict[str, Any]:
    """What the numbers of a case follow from, for JSON."""
    world = case.world
    return {
        "train": world.train.tolist(),
        "weights": world.weights.tolist(),
        "every": world.every.tolist(),
        "new": case.new.tolist(),
        "betas": list(betas),
    }


def measured(case: Case, betas: Sequence[float]) -> dict[str, Any]:
    """All numbers of a case, for JSON: every encoder with its best classifier, f*, and the minimisers along β."""
    world = case.world
    ideal_mean, ideal_variance = o.mean_and_variance(world, world.ideal)
    return {
        "case": case.name,
        "title": case.title,
        "definition": definition(case, betas),
        "ideal": {"mean": ideal_mean, "variance": ideal_variance, "worst": _worst(world, world.ideal)},
        "minimax": o.minimax(world.every)[0],
        "encoders": [_of_encoder(case, encoder) for encoder in partitions(world.train.shape[1])],
        "chosen": {
            "mean": described(o.chosen_encoder(world, np.inf)),
            "variance": described(o.chosen_encoder(world, 0)),
        },
        "path": _path(case, betas),
    }


def _of_encoder(case: Case, encoder: tuple[int, ...]) -> dict[str, Any]:
    world = case.world
    q = fitted(world.mixture, encoder)
    mean, variance = o.mean_and_variance(world, q)
    return {
        "encoder": described(encoder),
        "cells": list(encoder),
        "information": o.sufficiency(world, encoder),
        "gap": o.invariance_gap(world.train, world.weights, encoder),
        "mean": mean,
        "variance": variance,
        "worst": _finite(_worst(world, q)),
        "new": {name: _finite(value) for name, value in asdict(errors(world.mixture, case.new, encoder, q)).items()},
    }


def _path(case: Case, betas: Sequence[float]) -> list[dict[str, Any]]:
    world, rows = case.world, []
    if (conditional(world.mixture) == 0).any():  # the log loss has no minimiser with finite logits
        return []
    for beta, q in zip(betas, o.path(world, betas), strict=True):
        mean, variance = o.mean_and_variance(world, q)
        new = errors(world.mixture, case.new, WHOLE, q)
        chosen = o.chosen_encoder(world, beta)
        rows.append(
            {
                "beta": beta,
                "q": q[:, 1].tolist(),
                "mean": mean,
                "variance": variance,
                "worst": _worst(world, q),
                "information": o.predicted_information(world, q),
                "gap": o.predicted_gap(world, q),
                "error": new.error,
                "paper": new.paper,
                "repaired": new.repaired,
                "encoder": described(chosen),
                "encoder_worst": _worst(world, fitted(world.mixture, chosen)),
            }
        )
    return rows


def _worst(world: World, q: Array) -> float:
    return float(o.risks(world.every, q).max())


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if np.isfinite(value) else None

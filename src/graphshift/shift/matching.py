"""Copies of a labelled graph that are moved towards an unlabelled one, as far as this shows where.

Edges: as many between nodes of two classes, and as many in all, as the target shows. Features: mean and deviation of
every column. Labels stay, so the model's score on the copies is known.
"""

from __future__ import annotations

import numpy as np

from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.shift.comparing.edges import fitted
from graphshift.shift.moving import moved_features, rewired
from graphshift.shift.reference import Reference

#: What a copy can be moved in.
MOVES = {"edges": "edges and their number", "features": "columns of features", "both": "edges and features"}

_DENSER = (0.1, 4.0)  # by what the mean degree may be multiplied


def matched_copies(
    environment: Environment, reference: Reference, target: Environment, seed: int = 0
) -> dict[str, Environment]:
    """Copies by what was moved, from :data:`MOVES`; edges stay where the target does not show its own.

    Args:
        environment: with labels.
        reference: of it.
        target: labels are not looked at.
        seed: of the edges and entries that are drawn.
    """
    random, found = np.random.default_rng(derive_seed(seed, 41)), {}
    moved = environment
    pairs = reference.pairs_of(target, environment) if environment.graph.num_edges else None
    if pairs is not None:
        degree = float(target.graph.degree.cpu()[target.counted.cpu()].mean())
        denser = float(np.clip(degree / max(reference.degree, 1e-9), *_DENSER))
        wanted = fitted(pairs, reference.pairs.sum(axis=1))  # what edges say, with the classes as they are here
        moved = environment.replace(graph=rewired(environment.graph, reference.classes, wanted, random, denser))
        found["edges"] = moved
    found["features"] = moved_features(environment, target, random)
    found["both"] = found["features"].replace(graph=moved.graph)
    return found

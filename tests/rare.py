"""A rare class in three graphs and a model of it, for the tests that only read them."""

from __future__ import annotations

import functools

import torch

import graphshift as gs


@functools.cache
def rare_data() -> gs.ShiftDataset:
    """A rare class 1 in three graphs."""
    made = []
    for seed, name in enumerate(("train", "val", "test")):
        graph = gs.load("planted", nodes=300, seed=seed).train[0].data
        graph.y = ((graph.y == 1) & (torch.arange(300) % 2 == 0)).long()
        made.append(gs.Environment(name, graph))
    return gs.ShiftDataset("rare", *([one] for one in made))


@functools.cache
def rare_model() -> gs.Estimator:
    """A model of :func:`rare_data`."""
    return gs.ERM(epochs=60, hidden_channels=16, lr=0.05, selection="last").fit(rare_data())

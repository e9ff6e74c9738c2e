"""Whose statistics batch normalisation uses, for the length of a ``with`` block."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from graphshift.core.errors import GraphshiftError

BatchNorm = nn.modules.batchnorm._NormBase


def batch_norms(module: nn.Module) -> list[BatchNorm]:
    """The layers that normalise by statistics kept from training."""
    return [m for m in module.modules() if isinstance(m, BatchNorm) and m.running_mean is not None]


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Forward passes in training mode leave the running statistics as they are."""
    norms = [m for m in module.modules() if isinstance(m, BatchNorm)]
    with _set([norm for norm in norms if norm.training and norm.track_running_stats], tracked=False):
        yield


@contextmanager
def running_statistics(module: nn.Module) -> Iterator[None]:
    """Normalises by the running statistics, those of the graphs as they are, also in training mode.

    By its own statistics, a view whose columns are all shifted alike would not differ from the graph at all.
    """
    with _set([norm for norm in batch_norms(module) if norm.training], training=False):
        yield


@contextmanager
def own_statistics(module: nn.Module) -> Iterator[None]:
    """Normalises by mean and variance of what passes now; the running statistics stay as they are."""
    norms = batch_norms(module)
    if not norms:
        raise GraphshiftError(
            f"adapt is 'norm' and {type(module).__name__} has no batch normalisation (of the backbones gcn, sage and "
            "gat have); leave it out."
        )
    with _set(norms, training=True, tracked=False):
        yield


@contextmanager
def _set(norms: list[BatchNorm], *, training: bool | None = None, tracked: bool | None = None) -> Iterator[None]:
    """Sets the switches of layers that are given, and sets them back afterwards."""
    before = [(norm.training, norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training = norm.training if training is None else training
        norm.track_running_stats = norm.track_running_stats if tracked is None else tracked
    try:
        yield
    finally:
        for norm, switches in zip(norms, before, strict=True):
            norm.training, norm.track_running_stats = switches

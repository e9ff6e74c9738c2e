"""Which statistics batch normalisation uses, for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from graphshift.core.errors import GraphshiftError


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._NormBase]:
    """The layers that normalise by statistics kept from training."""
    found = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    return [norm for norm in found if norm.running_mean is not None]


@contextmanager
def own_statistics(module: nn.Module) -> Iterator[None]:
    """Batch normalisation by mean and variance of what passes now; those of training stay as they are."""
    norms = batch_norms(module)
    if not norms:
        raise GraphshiftError(
            f"adapt is 'norm' and {type(module).__name__} has no batch normalisation (of the backbones gcn, sage and "
            "gat have); leave it out."
        )
    before = [(norm.training, norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training, norm.track_running_stats = True, False
    try:
        yield
    finally:
        for norm, (training, tracked) in zip(norms, before, strict=True):
            norm.training, norm.track_running_stats = training, tracked


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Forward passes that only look leave the running statistics of batch normalisation as they are."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    norms = [norm for norm in norms if norm.training and norm.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


@contextmanager
def running_statistics(module: nn.Module) -> Iterator[None]:
    """Batch normalisation by the statistics kept from the graphs as they are, which is what a shifted graph meets.

    By its own, a view whose columns are all shifted alike would not differ from the graph at all.
    """
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._NormBase) and m.training]
    norms = [norm for norm in norms if norm.running_mean is not None]
    for norm in norms:
        norm.training = False
    try:
        yield
    finally:
        for norm in norms:
            norm.training = True

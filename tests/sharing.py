"""The batches of one process that are those of several workers together."""

from __future__ import annotations

from graphshift.training.batches import Batches, Pieces


def global_batches(batches: Pieces, workers: int) -> Batches:
    """A step has what the workers have in it; all have as many steps."""

    def found(environments, epoch):
        own = [batches.steps(environments, epoch, (rank, workers)) for rank in range(workers)]
        return [
            [
                piece
                for rank, step in enumerate(together)
                for piece in batches.batch(environments, epoch, workers * number + rank, step)
            ]
            for number, together in enumerate(zip(*own, strict=True))
        ]

    return found

"""The comparisons of two graphs that say how often shifts are found, and the record of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.lab.shift.halves import halves, real_graphs
from graphshift.lab.shift.planting import NAMES, STRENGTHS, made_pair
from graphshift.shift.comparing.compare import compare_graphs

DRAWS = 20  # of each planted shift
HALVINGS = 4  # of each real graph
_FIRST = 100  # draws below served to develop the test


class Case(NamedTuple):
    """One comparison of two graphs."""

    kind: str  #: ``"halves"`` or ``"planted"``
    what: str  #: the graph, or the block that moved
    strength: str
    draw: int
    make: Callable[[], tuple[Environment, Environment]]

    @property
    def key(self) -> str:
        """Its name in the ledger."""
        return f"{self.kind}, {self.what}, {self.strength}, {self.draw}"


def cases(data_dir: Path | None, *, draws: int = DRAWS, halvings: int = HALVINGS) -> Iterator[Case]:
    """Every comparison: halves of the real graphs whose files are there, then planted shifts."""
    kept: dict[str, Environment] = {}
    for draw in range(_FIRST, _FIRST + halvings):
        for name, read in real_graphs(data_dir):
            yield Case("halves", name, "none", draw, partial(_halved, kept, name, read, draw))
    for place in (1, 0, 2):
        for block, strengths in STRENGTHS.items():
            for draw in range(_FIRST, _FIRST + draws):
                yield Case("planted", block, NAMES[place], draw, partial(made_pair, block, strengths[place], draw))


def _halved(
    kept: dict[str, Environment], name: str, read: Callable[[], Environment], draw: int
) -> tuple[Environment, Environment]:
    if name not in kept:  # it is read once
        kept[name] = read()
    return halves(kept[name], draw)


def record_of(case: Case) -> dict[str, Any] | None:
    """The record of one comparison; None where the files of its graph are not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        try:
            source, target = case.make()
        except GraphshiftError:
            return None
        found = compare_graphs(source, target, seed=case.draw)
    blocks = {b.name: {"p": b.p, "evidence": round(b.evidence, 3), "effect": b.effect} for b in found.blocks}
    record = {"case": case.key, "kind": case.kind, "what": case.what, "strength": case.strength, "draw": case.draw}
    return {**record, "moved": [block.name for block in found.moved], "blocks": blocks}

"""Runs the comparisons that a ledger lacks: one JSON line each, so that a run can be stopped and continued."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.lab.ledger import records_of, run_cases
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


def run_shift(
    ledger: Path,
    data_dir: Path | None,
    *,
    draws: int = DRAWS,
    halvings: int = HALVINGS,
    force: bool = False,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """The records of all comparisons; those that the ledger has are not made again.

    Args:
        ledger: the file of JSON lines.
        data_dir: where the raw files of datasets are; graphs that are not there are left out.
        draws: of each planted shift.
        halvings: of each real graph.
        force: begin a new ledger.
        report: called with the number of comparisons done, as ``{"epoch": 3}``.
    """
    wanted = cases(data_dir, draws=draws, halvings=halvings)
    return run_cases(ledger, "shift", wanted, _measured, force=force, report=report)


def shown_shift(ledger: Path) -> list[dict[str, Any]]:
    """The records of a ledger."""
    return records_of(ledger, "shift")


def _measured(case: Case) -> dict[str, Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        try:
            source, target = case.make()
        except GraphshiftError:  # the files of this graph are not there
            return None
        found = compare_graphs(source, target, seed=case.draw)
    blocks = {b.name: {"p": b.p, "evidence": round(b.evidence, 3), "effect": b.effect} for b in found.blocks}
    record = {"case": case.key, "kind": case.kind, "what": case.what, "strength": case.strength, "draw": case.draw}
    return {**record, "moved": [block.name for block in found.moved], "blocks": blocks}

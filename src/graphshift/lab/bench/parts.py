"""The parts of the suite by name. Light: the command line reads it for its help and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of


@dataclass(frozen=True)
class Part:
    """One part of the suite.

    Args:
        section: ``"bars"``, ``"curves"``, ``"backbones"`` or ``"explorers"``; naming a section chooses all its parts.
        module: below ``graphshift.lab.bench``; its ``run`` measures.
        what: one line.
    """

    section: str
    module: str
    what: str


#: Every part by name, in the order in which they run.
PARTS: dict[str, Part] = {
    "floor": Part("bars", "bars.floor", "EERM's step over the work that cannot be avoided"),
    "gradient": Part("bars", "bars.gradient", "explorers that follow the gradient beside random ones"),
    "exponent": Part("bars", "bars.exponent", "how the step's time grows with nodes"),
    "million": Part("bars", "bars.million", "peak memory at a million nodes"),
    "batches": Part("bars", "bars.batches", "training on parts beside the full batch: time and peak memory"),
    "reach": Part("bars", "bars.reach", "100 million edges: tables into parts, an epoch of EERM, prediction"),
    "ray": Part("bars", "bars.on_ray", "a study and one training on a Ray cluster of two nodes, beside none"),
    "shift": Part(
        "bars", "bars.comparison", "what has moved between two graphs of a million nodes: time and peak memory"
    ),
    "twitch": Part("bars", "bars.twitch", "a real graph with sparse features: time, and the policies' memory"),
    "cora": Part("bars", "bars.cora", "an epoch with validation, EERM over ERM"),
    "dense": Part("bars", "bars.dense", "our explorer beside a dense N × N one"),
    "pyg": Part("bars", "bars.pyg", "an ERM step beside PyG's own GCN"),
    "tables": Part("bars", "bars.own_tables", "messy tables of 300,000 nodes: loading and 20 epochs"),
    "start": Part("bars", "bars.start", "a whole fit of one epoch beside the import of PyG"),
    "serving": Part("bars", "bars.serving", "requests on loopback beside the bare model call"),
    "curves": Part("curves", "curves", "time and memory against nodes, views, edits, degree and features"),
    "backbones": Part("backbones", "backbones", "every backbone, normal and in low-memory mode"),
    "explorers": Part("explorers", "explorers", "every explorer beside random edits"),
}

SECTIONS = tuple(dict.fromkeys(part.section for part in PARTS.values()))

_LARGE = ("exponent", "million", "batches", "reach", "ray", "shift", "tables")

#: What ``--check`` runs again: the bars that stay at 100,000 nodes or fewer.
CHECKED = tuple(name for name, part in PARTS.items() if part.section == "bars" and name not in _LARGE)


def chosen_parts(only: Sequence[str] | None, *, default: Sequence[str] = tuple(PARTS)) -> list[str]:
    """The parts that were asked for, in the suite's order.

    Args:
        only: names of parts or sections; None or none for the default.
        default: what runs if nothing was asked for.
    """
    if not only:
        return list(default)
    known = dict.fromkeys([*SECTIONS, *PARTS])
    for name in only:
        if name not in known:
            raise GraphshiftError(f"--only is {name!r}; {expected_one_of(name, list(known))}")
    return [name for name, part in PARTS.items() if name in only or part.section in only]

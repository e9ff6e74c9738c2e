"""An audit in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphshift.shift.auditing.audit import Leaning

_LEANS = 0.1  # of the score, that is lost when edges are rewired
_HARDLY = 0.02  # mean change of probabilities that is worth a word
_NAMED = 5


def verdict(
    leanings: Sequence[Leaning],
    parts: Mapping[str, Sequence[int]],
    moved: Mapping[int, float],
    names: Sequence[str],
    crutch: bool,
) -> str:
    """One or two sentences."""
    first = leanings[0]
    metric, lost = first.metric.label, first.lost("rewired")
    shown = f"{100 * lost:.0f} % of its {metric} goes when they are rewired"
    said = f"Leans on edges: {shown}" if lost >= _LEANS else f"Hardly leans on edges: {shown}"
    others = [f"{100 * one.lost('rewired'):.0f} % on {one.graph}" for one in leanings[1:]]
    said += f" on {first.graph}" + (f" ({', '.join(others)})" if others else "") + ". "
    values = {name: first.metric.sign * value for name, value in first.blocks.values.items() if name != "edges"}
    best = max(values, key=values.__getitem__)
    listed = ", ".join(names[column] for column in list(parts[best])[:10])
    share = values[best] / total if (total := sum(max(v, 0.0) for v in values.values())) > 0 else 0.0
    if share > 0:
        said += f"Of what columns carry, {100 * share:.0f} % is in the {best}: {listed}"
        said += " and more. " if len(parts[best]) > 10 else ". "
    if crutch:
        said += (
            f"Edges are a crutch: without them {100 * first.lost('dropped'):.0f} % of the {metric} is lost on "
            f"{first.graph} and {100 * leanings[-1].lost('dropped'):.0f} % on {leanings[-1].graph}. "
        )
    far = [names[column] for column, change in moved.items() if change >= _HARDLY][:_NAMED]
    if far:
        said += f"Columns that have moved most and that it uses: {', '.join(far)}."
    return said.strip()

"""Estimated against true scores, a panel for each dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.lab.estimate.tables import answers
from graphshift.report.figures import COLOURS, can_draw, new_figure, plain, save_both

_ACROSS = 4


def draw_estimate(records: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draws ``estimate-scatter``: crosses are validation scores, circles estimates, empty where refused."""
    if not can_draw():
        return []
    every = answers(records)
    names = list(dict.fromkeys(pair["dataset"] for pair, *_ in every))
    down = -(-len(names) // _ACROSS)
    figure = new_figure(2.6 * min(len(names), _ACROSS), 2.6 * down + 0.4)
    panels = figure.subplots(down, min(len(names), _ACROSS), squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        own = [one for one in every if one[0]["dataset"] == name]
        truth = [100 * pair["truth"] for pair, *_ in own]
        axes.scatter(truth, [100 * p["held_out"] for p, *_ in own], marker="x", s=12, color=COLOURS[4], linewidth=0.7)
        said = [100 * one.value for _, one, _ in own]
        faces = ["white" if refused else COLOURS[0] for *_, refused in own]
        axes.scatter(truth, said, s=14, facecolors=faces, edgecolors=COLOURS[0], linewidth=0.8, zorder=3)
        ends = [min(truth + said) - 3, max(truth + said) + 3]
        axes.plot(ends, ends, color="black", linewidth=0.8)
        axes.set_title(name, fontsize=9)
        plain(axes, "y")
        axes.tick_params(labelsize=7)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.supxlabel("true score", fontsize=9)
    figure.supylabel("estimated without labels", fontsize=9)
    figure.suptitle("circles: estimate (empty: refused); crosses: validation score", fontsize=10)
    folder.mkdir(parents=True, exist_ok=True)
    return save_both(figure, folder / "estimate-scatter")

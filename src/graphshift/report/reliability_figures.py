"""Reliability diagrams and risk–coverage curves, a panel for each graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphshift.estimators.answering import Answers
from graphshift.report.figures import COLOURS, new_figure, plain
from graphshift.shift.reliability import Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours of the kinds of probabilities.
SHADES = {"raw": COLOURS[4], "validation": COLOURS[1], "target": COLOURS[0], "moved": COLOURS[2]}

_ACROSS, _MOST = 4, 16  # panels in a row, and in a figure


def reliability_figure(panels: Mapping[str, Mapping[str, Sequence[Curves]]]) -> Figure:
    """The share of right predictions over their confidence; on the line probabilities are right.

    Args:
        panels: by title, the curves of each kind of probabilities. Of several there are thin lines, and a thick one of
            all their nodes.
    """
    figure, grid = _panels(panels)
    for axes, (title, kinds) in zip(grid, panels.items(), strict=False):
        axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
        for kind, curves in kinds.items():
            for one in curves if len(curves) > 1 else ():
                _, sure, right = zip(*one.bins, strict=True)
                axes.plot(sure, right, color=SHADES[kind], linewidth=0.6, alpha=0.35)
            count, sure, right = _pooled(curves)
            ece = 100 * float(np.mean([one.ece for one in curves]))
            axes.plot(sure, right, color=SHADES[kind], linewidth=1.6, label=f"{kind}: {ece:.1f} %")
            axes.scatter(sure, right, s=60 * count / count.sum(), color=SHADES[kind], zorder=3)
        axes.set_title(title, fontsize=9)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
    _finish(figure, grid, panels, "confidence", "share that is right", "lower right")
    return figure


def risk_figure(panels: Mapping[str, Mapping[str, Sequence[Curves]]]) -> Figure:
    """The share of wrong predictions among the surest ones; low is good.

    Args:
        panels: as of :func:`reliability_figure`.
    """
    figure, grid = _panels(panels)
    every = np.linspace(0.02, 1, 50)
    for axes, (title, kinds) in zip(grid, panels.items(), strict=False):
        for kind, curves in kinds.items():
            lines = [np.interp(every, *np.array(one.curve).T) for one in curves]
            for line in lines if len(lines) > 1 else ():
                axes.plot(every, line, color=SHADES[kind], linewidth=0.6, alpha=0.35)
            area = 100 * float(np.mean([one.aurc for one in curves]))
            axes.plot(every, np.mean(lines, axis=0), color=SHADES[kind], linewidth=1.6, label=f"{kind}: {area:.2f} %")
        axes.set_title(title, fontsize=9)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(bottom=0)
    _finish(figure, grid, panels, "share answered, the surest first", "share that is wrong", "best")
    return figure


def answers_figure(found: Answers) -> Figure:
    """What is expected of answers: the share of wrong ones over how many there are, and where answering ends."""
    figure = new_figure(4.2, 3.0)
    axes = figure.subplots()
    falling = -np.sort(-found.right)
    share = np.arange(1, len(falling) + 1) / max(len(falling), 1)
    axes.plot(share, np.cumsum(1 - falling) / np.arange(1, len(falling) + 1), color=COLOURS[0])
    axes.axhline(found.error, color=COLOURS[3], linewidth=1, linestyle="--", label=f"allowed: {100 * found.error:g} %")
    answered = float(found.answered.mean()) if len(falling) else 0.0
    axes.axvline(answered, color=COLOURS[4], linewidth=1, label=f"answered: {100 * answered:.0f} %")
    axes.set(xlabel="share answered, the surest first", ylabel="share expected to be wrong", xlim=(0, 1.02))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    plain(axes, "y")
    return figure


def _panels(panels: Mapping[str, Any]) -> tuple[Figure, list[Any]]:
    count = min(len(panels), _MOST)
    across = min(count, _ACROSS)
    down = -(-count // across)
    figure = new_figure(2.7 * across + 0.4, 2.6 * down + 0.4)
    return figure, list(figure.subplots(down, across, squeeze=False).ravel())


def _finish(figure: Figure, grid: list[Any], panels: Mapping[str, Any], x: str, y: str, place: str) -> None:
    for axes in grid[: len(panels)]:
        axes.legend(frameon=False, fontsize=6.5, loc=place)
        axes.tick_params(labelsize=7)
        plain(axes, "y")
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel(x, fontsize=9)
    figure.supylabel(y, fontsize=9)
    if len(panels) > _MOST:
        figure.suptitle(f"the first {_MOST} of {len(panels)} graphs", fontsize=9)


def _pooled(curves: Sequence[Curves]) -> tuple[Any, Any, Any]:
    """The bins of all nodes: how many, their mean confidence, the share that is right."""
    every = np.array([row for one in curves for row in one.bins])
    order = np.argsort(every[:, 1], kind="stable")
    every = every[order]
    # Bins are of equal width: means that are of one bin of 15 in two graphs lie within it.
    places = np.clip(np.ceil(every[:, 1] * 15).astype(int) - 1, 0, 14)
    count, sure, right = (
        np.bincount(places, weights=w, minlength=15) for w in (every[:, 0], *(every[:, 0:1] * every[:, 1:]).T)
    )
    there = count > 0
    return count[there], sure[there] / count[there], right[there] / count[there]

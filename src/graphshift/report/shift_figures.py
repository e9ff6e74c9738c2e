"""Pictures of what has moved, as SVG text for a page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from graphshift.report.figures import COLOURS, new_figure, plain
from graphshift.shift.comparing.compare import Comparison
from graphshift.shift.comparing.features import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _ORANGE = COLOURS[0], COLOURS[1]
_MOST_CLASSES, _WRITTEN = 20, 6  # of a heat map, and up to which its numbers are written into it


def svg_of(figure: Figure) -> str:
    """The figure as SVG; the same bytes for the same picture."""
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "graphshift", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def overview(found: Comparison) -> str:
    """The evidence for each block, as SVG."""
    return svg_of(overview_figure(found))


def overview_figure(found: Comparison) -> Figure:
    """The evidence for each block beside what chance gives."""
    figure = new_figure(6.4, 2.4)
    axes = figure.subplots()
    names = [block.name for block in found.blocks][::-1]
    values = [max(block.evidence, 0.0) if block.p is not None else 0.0 for block in found.blocks][::-1]
    moved = [block.moved for block in found.blocks][::-1]
    axes.barh(names, values, color=[_ORANGE if one else "#BBBBBB" for one in moved])
    axes.set_xscale("symlog", linthresh=3)
    axes.set_xlabel("evidence: deviations beyond what exchanging communities gives")
    plain(axes, "x")
    return figure


def columns_figure(rows: list[dict[str, Any]]) -> str:
    """Both distributions of each column."""
    across = min(5, len(rows))
    down = -(-len(rows) // across)
    figure = new_figure(2.1 * across, 1.7 * down)
    grid = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    for axes, row in zip(grid, rows, strict=False):
        _distribution(axes, row["histogram"])
        axes.set_title(named(row)[:22], fontsize=8)
    for axes in grid[len(rows) :]:
        axes.set_visible(False)
    grid[0].legend(["source", "target"], fontsize=7, frameon=False)
    return svg_of(figure)


def _distribution(axes: Any, found: dict[str, Any]) -> None:
    for name, colour, offset in (("source", _BLUE, -0.2), ("target", _ORANGE, 0.2)):
        if "values" in found:
            places = np.arange(len(found["values"])) + offset
            axes.bar(places, found[name], width=0.4, color=colour)
            axes.set_xticks(range(len(found["values"])), [f"{v:.3g}" for v in found["values"]])
        else:
            axes.stairs(found[name], found["bins"], color=colour, fill=offset < 0, alpha=0.55 if offset < 0 else 1)
    axes.tick_params(labelsize=7)
    axes.set_yticks([])
    plain(axes, "x")


def degrees_figure(details: dict[str, Any]) -> str:
    """The shares of nodes by degree."""
    figure = new_figure(5.6, 2.6)
    axes = figure.subplots()
    for name, colour in (("source", _BLUE), ("target", _ORANGE)):
        found = details[name]["degrees"]
        axes.plot(np.array(found["from"]) + 1, found["share"], marker="o", markersize=3, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("degree + 1 (beginning of the bin)")
    axes.set_ylabel("share of nodes")
    axes.legend(frameon=False)
    plain(axes, "y")
    return svg_of(figure)


def shares_figure(details: dict[str, Any]) -> str:
    """Class shares side by side."""
    names = details["classes"][:40]
    figure = new_figure(max(4.0, 0.5 * len(names) + 1.5), 2.6)
    axes = figure.subplots()
    places = np.arange(len(names))
    for name, colour, offset in (("source", _BLUE, -0.2), ("target", _ORANGE, 0.2)):
        axes.bar(places + offset, details[name][: len(names)], width=0.4, color=colour, label=name)
    axes.set_xticks(places, [str(name)[:14] for name in names], rotation=0 if len(names) < 8 else 60)
    axes.set_ylabel("share of nodes")
    axes.legend(frameon=False)
    plain(axes, "y")
    return svg_of(figure)


def pairs_figure(details: dict[str, Any]) -> str | None:
    """Heat maps of the classes of neighbours, given a node's; None with very many classes."""
    count = len(details["classes"])
    if count > _MOST_CLASSES or "source" not in details:
        return None
    figure = new_figure(8.4, 2.9)
    tables = [np.array(details["source"]), np.array(details["target"])]
    shown = [*tables, tables[1] - tables[0]]
    for axes, table, title in zip(figure.subplots(1, 3), shown, ("source", "target", "difference"), strict=True):
        span = max(float(np.abs(shown[2]).max()), 0.05)
        how: dict[str, Any] = (
            {"cmap": "PuOr_r", "vmin": -span, "vmax": span}
            if title == "difference"
            else {"cmap": "Blues", "vmin": 0, "vmax": 1}
        )
        image = axes.imshow(table, **how)
        axes.set_title(title)
        for (row, column), value in np.ndenumerate(table):
            if count <= _WRITTEN:
                colour = "white" if abs(value) > 0.6 * how["vmax"] else "black"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
        names = [str(name)[:8] for name in details["classes"]]
        axes.set_xticks(range(count), names, fontsize=7, rotation=60 if count > 4 else 0)
        axes.set_yticks(range(count), names, fontsize=7)
        axes.set_xlabel("class of a neighbour")
        figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
    return svg_of(figure)


def similarity_figure(details: dict[str, Any]) -> str:
    """How much neighbours share of a node's features, along each leading direction."""
    figure = new_figure(5.6, 2.6)
    axes = figure.subplots()
    places = np.arange(len(details["slopes"]["source"]))
    for name, colour, offset in (("source", _BLUE, -0.2), ("target", _ORANGE, 0.2)):
        axes.bar(places + offset, details["slopes"][name], width=0.4, color=colour, label=name)
    axes.set_xticks(places, [str(place + 1) for place in places])
    axes.set_xlabel("leading direction of the features")
    axes.set_ylabel("share that neighbours have")
    axes.legend(frameon=False)
    plain(axes, "y")
    return svg_of(figure)

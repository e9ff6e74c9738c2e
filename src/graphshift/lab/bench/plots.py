"""The curves as pictures: PNG to look at, SVG to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.lab.bench.curves import AXES, Point, exponents_of, on_axis, own_memory
from graphshift.lab.bench.workload import METHODS
from graphshift.report.figures import COLOURS, can_draw, new_figure

#: The pictures' names, without the suffix.
PLOTS = ("curves-nodes", "curves-others")

_MARKERS = ("o", "s", "^", "D", "x")
_QUANTITIES = ("time of a step (ms)", "memory of data and training (MB)")


def draw_curves(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draws what the part ``curves`` measured; nothing if it was not run.

    Args:
        results: the content of ``results.json``.
        folder: where the pictures go.
    """
    points = results["parts"].get("curves", {}).get("data", {}).get("points", [])
    if not points or not can_draw():
        return []
    present = [axis for axis in AXES if any(point["axis"] == axis for point in points)]
    groups = (["nodes"] if "nodes" in present else [], [axis for axis in present if axis != "nodes"])
    written = []
    for name, axes in zip(PLOTS, groups, strict=True):
        if axes:
            figure = _figure(results, points, axes)
            for suffix in ("png", "svg"):
                path = folder / f"{name}.{suffix}"
                figure.savefig(path, dpi=110)
                written.append(path)
    return written


def _figure(results: Mapping[str, Any], points: Sequence[Point], axes: Sequence[str]) -> Any:
    with_memory = any(point["memory"] for point in points if point["axis"] in axes)
    quantities = _QUANTITIES if with_memory else _QUANTITIES[:1]
    # Against nodes: time and memory side by side. Against several things: time above, memory below, one scale a row.
    if len(axes) == 1:
        figure = new_figure(5.2 * len(quantities), 4.9)
        panels = figure.subplots(1, len(quantities), squeeze=False).T
    else:
        figure = new_figure(3.6 * len(axes), 0.8 + 3.6 * len(quantities))
        panels = figure.subplots(len(quantities), len(axes), squeeze=False, sharey="row")
    for row, quantity in enumerate(quantities):
        for column, axis in enumerate(axes):
            _panel(panels[row][column], points, axis, row)
            if column == 0:
                panels[row][column].set_ylabel(quantity)
    base, about = results["parts"]["curves"]["data"]["base"], results["about"]
    rest = ", ".join(f"{AXES[name]} = {value:,}" for name, value in base.items() if [name] != list(axes))
    threads = "one thread" if about["threads"] == 1 else f"{about['threads']} threads"
    what = AXES[axes[0]] if len(axes) == 1 else "one thing at a time"
    figure.suptitle(
        f"One training step against {what} (2-layer GCN of width 32, log-log)\n{rest}; {threads}", fontsize=10
    )
    return figure


def _panel(panel: Any, points: Sequence[Point], axis: str, quantity: int) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    panel.set(xscale="log", yscale="log", xlabel=AXES[axis])
    seen: list[float] = []
    for (kind, name), colour, marker in zip(METHODS.items(), COLOURS[: len(METHODS)], _MARKERS, strict=True):
        line = [(point["value"], _amount(point, quantity)) for point in on_axis(points, axis, kind)]
        line = [(x, y) for x, y in line if y > 0]
        if line:
            slope = exponents_of(points, axis, kind)[quantity]
            label = name if slope is None else f"{name}, exponent {slope:.2f}".replace("-", "−")
            xs, ys = zip(*line, strict=True)
            panel.plot(xs, ys, color=colour, marker=marker, markersize=5, linewidth=1.5, label=label)
            seen += ys
    panel.set_xticks(sorted({point["value"] for point in points if point["axis"] == axis}))
    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    panel.xaxis.set_major_formatter(plain)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if seen and max(seen) < 100 * min(seen) else (1,)))
    panel.yaxis.set_major_formatter(plain)
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    # Below the axis: over the curves a legend would hide some of them.
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=8, frameon=False)


def _amount(point: Point, quantity: int) -> float:
    return 1e3 * float(point["seconds"]) if quantity == 0 else (own_memory(point) or 0.0) / 1e6

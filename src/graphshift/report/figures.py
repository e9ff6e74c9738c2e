"""Figures of studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal

from graphshift.data.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Colours that colour-blind readers can tell apart (Okabe and Ito), in the order of arms.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F", "#CC79A7")
_MARKERS = ("o", "s", "^", "D", "x", "v")


def draw_study(records: Sequence[Mapping[str, Any]], path: Path, *, title: str) -> None:
    """Draws each arm's score on every test environment (mean and deviation over seeds), and its distribution.

    Args:
        records: of :func:`graphshift.studies.flat`.
        path: of the picture; its suffix says the format.
        title: above the picture.
    """
    from matplotlib.figure import Figure

    metric = METRICS.find(records[0]["metric"])
    arms = list(dict.fromkeys(record["arm"] for record in records))
    tests = list(records[0]["tests"])
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    for i, arm in enumerate(arms):
        colour, marker = COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)]
        own = [record for record in records if record["arm"] == arm]
        values = [[metric.scale * record["tests"][name] for record in own] for name in tests]
        means = [fmean(v) for v in values]
        deviations = [stdev(v) if len(v) > 1 else 0.0 for v in values]
        beside = [
            j + 0.09 * (i - (len(arms) - 1) / 2) for j in range(len(tests))
        ]  # so that bars do not hide each other
        left.plot(beside, means, marker=marker, color=colour, label=arm)
        left.errorbar(beside, means, yerr=deviations, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2)
        for j, key in enumerate(("mean", "worst")):
            points = [metric.scale * record[key] for record in own]
            place = [j + 0.18 * (i - (len(arms) - 1) / 2)] * len(points)
            right.scatter(place, points, color=colour, marker=marker, s=22, alpha=0.8)
            right.hlines(fmean(points), place[0] - 0.07, place[0] + 0.07, color=colour, linewidth=2)
    if all(name in record["majority"] for record in records for name in tests):  # not so in regression
        majority = [metric.scale * fmean(record["majority"][name] for record in records) for name in tests]
        left.plot(tests, majority, color="black", linestyle=":", linewidth=1, label="always the largest class")
    left.set(xlabel="test environment", ylabel=metric.title, title="each unseen environment (bar: ± std over seeds)")
    left.set_xticks(range(len(tests)), tests)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    right.set_xticks([0, 1], ["mean of tests", "worst test"])
    right.set(title="each seed (bar: mean)", ylabel=metric.title)
    for axes in (left, right):
        axes.grid(axis="y", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def save_both(figure: Figure, path: Path) -> list[Path]:
    """Saves a figure as PNG and SVG.

    Args:
        figure: what was drawn.
        path: without suffix.
    """
    import matplotlib

    both = [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg")]
    # No date and no random ids: the same study draws the same file. Text stays text: small, searchable.
    with matplotlib.rc_context({"svg.hashsalt": "graphshift", "svg.fonttype": "none"}):
        figure.savefig(both[0], dpi=130)
        figure.savefig(both[1], metadata={"Date": None})
    return both


def plain(axes: Axes, grid: Literal["x", "y"]) -> None:
    """No frame, and a light grid across the values, behind them."""
    axes.grid(axis=grid, alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)

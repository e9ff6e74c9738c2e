"""The demo's figure: each arm's scores on every test environment, and their distribution over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from graphshift.data.metrics import METRICS
from graphshift.report.figures import COLOURS, new_figure
from graphshift.studies import Row

_MARKERS = ("o", "s", "^", "D", "x", "v")


def draw_demo(rows: Sequence[Row], path: Path, *, title: str) -> None:
    """Draws each arm's score on every test environment (mean and deviation over seeds), and its distribution.

    Args:
        rows: final runs, of :func:`graphshift.studies.rows_of`.
        path: of the picture; its suffix says the format.
        title: above the picture.
    """
    metric = METRICS[rows[0].metric]
    scale = metric.scale
    arms = list(dict.fromkeys(row.arm for row in rows))
    tests = list(rows[0].tests)
    figure = new_figure(10.5, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    for i, arm in enumerate(arms):
        colour, marker = COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)]
        own = [row for row in rows if row.arm == arm]
        values = [[scale * row.tests[name] for row in own] for name in tests]
        means = [fmean(v) for v in values]
        deviations = [stdev(v) if len(v) > 1 else 0.0 for v in values]
        beside = [
            j + 0.09 * (i - (len(arms) - 1) / 2) for j in range(len(tests))
        ]  # so that bars do not hide each other
        left.plot(beside, means, marker=marker, color=colour, label=arm)
        left.errorbar(beside, means, yerr=deviations, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2)
        for j, key in enumerate(("mean", "worst")):
            points = [scale * getattr(row, key) for row in own]
            place = [j + 0.18 * (i - (len(arms) - 1) / 2)] * len(points)
            right.scatter(place, points, color=colour, marker=marker, s=22, alpha=0.8)
            right.hlines(fmean(points), place[0] - 0.07, place[0] + 0.07, color=colour, linewidth=2)
    if all(name in row.record.majority for row in rows for name in tests):  # not so in regression
        majority = [scale * fmean(row.record.majority[name] for row in rows) for name in tests]
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

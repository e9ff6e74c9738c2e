"""The demo's figure: each arm's scores on every test environment, and their distribution over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.report.figures import COLOURS, new_figure

_MARKERS = ("o", "s", "^", "D", "x", "v")


def draw_demo(records: Sequence[Mapping[str, Any]], path: Path, *, title: str) -> None:
    """Draws each arm's score on every test environment (mean and deviation over seeds), and its distribution.

    Args:
        records: of :func:`graphshift.studies.flat`.
        path: of the picture; its suffix says the format.
        title: above the picture.
    """
    metric = METRICS.find(records[0]["metric"])
    scale = metric.scale
    arms = list(dict.fromkeys(record["arm"] for record in records))
    tests = list(records[0]["tests"])
    figure = new_figure(10.5, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    for i, arm in enumerate(arms):
        colour, marker = COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)]
        own = [record for record in records if record["arm"] == arm]
        values = [[scale * record["tests"][name] for record in own] for name in tests]
        means = [fmean(v) for v in values]
        deviations = [stdev(v) if len(v) > 1 else 0.0 for v in values]
        beside = [
            j + 0.09 * (i - (len(arms) - 1) / 2) for j in range(len(tests))
        ]  # so that bars do not hide each other
        left.plot(beside, means, marker=marker, color=colour, label=arm)
        left.errorbar(beside, means, yerr=deviations, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2)
        for j, key in enumerate(("mean", "worst")):
            points = [scale * record[key] for record in own]
            place = [j + 0.18 * (i - (len(arms) - 1) / 2)] * len(points)
            right.scatter(place, points, color=colour, marker=marker, s=22, alpha=0.8)
            right.hlines(fmean(points), place[0] - 0.07, place[0] + 0.07, color=colour, linewidth=2)
    if all(name in record["majority"] for record in records for name in tests):  # not so in regression
        majority = [scale * fmean(record["majority"][name] for record in records) for name in tests]
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

"""Figures of many methods on many datasets: the difference of each from ERM, and the scores by selection rule."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from graphshift.data.metrics import METRICS
from graphshift.lab.leaderboard.tables import own_arms
from graphshift.lab.paper.items import Item
from graphshift.lab.paper.reproducing import Finished
from graphshift.report.figures import COLOURS, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_ACROSS = 3
_MARKERS = ("o", "D", "s", "x")


def draw_methods(item: Item, studies: Sequence[Finished]) -> Figure:
    """Each arm's distance to ERM with the same backbone, mean and worst test, with its interval; a panel a dataset."""
    most = max(len(own_arms(study)) for study in studies)
    figure, panels = _grid(studies, 0.21 * most + 0.9)
    for axes, study in zip(panels, studies, strict=False):
        arms = [arm for arm in own_arms(study) if arm.difference.mean_test]
        scale = METRICS.find(study.summary.metric).scale
        for i, arm in enumerate(reversed(arms)):
            both = ((arm.difference.mean_test, COLOURS[0], 0.13), (arm.difference.worst_test, COLOURS[3], -0.13))
            for found, colour, shift in both:
                if found is None or found.low is None or found.high is None:
                    continue
                axes.hlines(i + shift, scale * found.low, scale * found.high, color=colour, linewidth=1.2)
                axes.scatter(
                    scale * found.mean,
                    i + shift,
                    s=16,
                    facecolors=colour if found.decided else "white",
                    edgecolors=colour,
                    zorder=3,
                )
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(arms)), [arm.arm for arm in reversed(arms)], fontsize=7)
        axes.set_title(study.experiment.name, fontsize=9)
        axes.set_xlabel("points" if scale == 100 else METRICS.find(study.summary.metric).title, fontsize=8)
        plain(axes, "x")
        axes.tick_params(axis="x", labelsize=8)
    _legend(figure, [("mean test", COLOURS[0], "o"), ("worst test", COLOURS[3], "o")])
    figure.suptitle(
        f"{item.name}: ahead of ERM with the same backbone (95 % intervals; filled: significant)", fontsize=11
    )
    return figure


def draw_variance(item: Item, studies: Sequence[Finished]) -> Figure | None:
    """Where the variance of the views' risks goes during training, by explorer; a panel a dataset."""
    curves = {study.experiment.name: _curves(study) for study in studies}
    shown = [study for study in studies if curves[study.experiment.name]]
    if not shown:
        return None
    figure, panels = _grid(shown, 2.3)
    names = list(dict.fromkeys(name for study in shown for name in curves[study.experiment.name]))
    for axes, study in zip(panels, shown, strict=False):
        for name, (epochs, variances) in curves[study.experiment.name].items():
            colour, style = _line(names.index(name))
            axes.plot(epochs, variances, color=colour, linestyle=style, linewidth=1.3)
        axes.set(yscale="log")
        axes.set_title(study.experiment.name, fontsize=9)
        axes.set_xlabel("epoch", fontsize=8)
        plain(axes, "y")
        axes.tick_params(labelsize=8)
    panels[0].set_ylabel("variance of the risks", fontsize=8)
    _legend(figure, [(name, *_line(i)) for i, name in enumerate(names)])
    figure.suptitle(f"{item.name}: what explorers do to the variance during training (mean over runs)", fontsize=11)
    return figure


def _curves(study: Finished) -> dict[str, tuple[list[float], list[float]]]:
    """By arm with the experiment's own backbone: epochs, and the mean variance there."""
    found = {}
    for arm in own_arms(study):
        own = [row.curve for row in study.of(arm.arm) if row.curve]
        if own and arm.backbone == study.experiment.backbone:
            longest = max((curve["epoch"] for curve in own), key=len)
            whole = [curve["variance"] for curve in own if curve["epoch"] == longest]  # others ended early
            found[arm.arm.split(", ")[0]] = (longest, [fmean(values) for values in zip(*whole, strict=True)])
    return found


def draw_rules(item: Item, studies: Sequence[Finished]) -> Figure:
    """Each arm's mean test score by each rule of selection; a panel a dataset."""
    figure, panels = _grid(studies, 2.2)
    rules = [entry.rule for entry in studies[0].summary.selections]
    for axes, study in zip(panels, studies, strict=False):
        scale = METRICS.find(study.summary.metric).scale
        names = list(dict.fromkeys(arm.arm for arm in study.summary.arms))
        for arm in study.summary.arms:
            k = rules.index(arm.selection)
            if arm.mean_test.mean is None:
                continue
            y = len(names) - 1 - names.index(arm.arm) + 0.16 * (1.5 - k)
            mean, std = scale * arm.mean_test.mean, scale * (arm.mean_test.std or 0.0)
            axes.errorbar(mean, y, xerr=std, fmt=_MARKERS[k], color=COLOURS[k], markersize=4.5, elinewidth=0.9)
        axes.set_yticks(range(len(names)), list(reversed(names)), fontsize=8)
        axes.set_title(study.experiment.name, fontsize=9)
        axes.set_xlabel(f"mean test {METRICS.find(study.summary.metric).title}", fontsize=8)
        plain(axes, "x")
        axes.tick_params(axis="x", labelsize=8)
    notes = {entry.rule: entry.note for entry in studies[0].summary.selections}
    labels = [f"{rule} ({notes[rule]})" if notes[rule] else rule for rule in rules]
    _legend(figure, [(label, COLOURS[k], _MARKERS[k]) for k, label in enumerate(labels)])
    figure.suptitle(f"{item.name}: by the rule that chose epoch and setting (± std over runs)", fontsize=11)
    return figure


def _grid(studies: Sequence[Finished], height: float) -> tuple[Figure, list[Any]]:
    """As many panels as there are studies, three in a row."""
    across = min(len(studies), _ACROSS)
    down = -(-len(studies) // across)
    figure = new_figure(max(4.3 * across, 8), height * down + 0.8)
    panels = [axes for row in figure.subplots(down, across, squeeze=False) for axes in row]
    for axes in panels[len(studies) :]:
        axes.set_visible(False)
    return figure, panels


def _line(i: int) -> tuple[str, str]:
    """Colour and style of the i-th line: dashed where the colours begin again."""
    return COLOURS[i % len(COLOURS)], "-" if i < len(COLOURS) else "--"


def _legend(figure: Figure, entries: Sequence[tuple[str, str, str]]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for text, colour, look in entries:  # a line's style, or a marker
        handle = Line2D([], [], color=colour, markersize=5, label=text)
        handle.set(linestyle=look) if look in ("-", "--") else handle.set(linestyle="none", marker=look)
        handles.append(handle)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)

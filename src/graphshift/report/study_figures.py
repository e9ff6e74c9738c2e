"""Figures of a study: test environments, seeds, tuning; each as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.report.figures import COLOURS, can_draw, new_figure, plain, save_both
from graphshift.report.study_tables import rule_label
from graphshift.studies import Row, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

Rows = Sequence[Row]


def draw_figures(summary: Summary, rows: Mapping[str, Rows], folder: Path) -> list[Path]:
    """Draws ``environments-RULE``, ``seeds-RULE`` for each rule, and ``tuning-RULE`` where something was tuned.

    Args:
        summary: of a study.
        rows: the final runs by rule, from :meth:`graphshift.studies.Study.rows`.
        folder: where the pictures go; made if need be.
    """
    if not can_draw():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for entry in summary.selections:
        rule = entry.rule
        if rows[rule] and summary.tests:
            written += save_both(_environments(summary, rows[rule], rule), folder / f"environments-{rule}")
            written += save_both(_seeds(summary, rows[rule], rule), folder / f"seeds-{rule}")
        if any(t.selection == rule and t.score is not None for t in summary.tuning):
            written += save_both(_tuning(summary, rule), folder / f"tuning-{rule}")
    return written


def study_figure(summary: Summary, rows: Rows, rule: str, kind: str) -> Figure:
    """One of ``"environments"``, ``"seeds"`` and ``"tuning"``, as an object; what has nothing to show is an error."""
    if kind == "tuning":
        if not any(t.selection == rule and t.score is not None for t in summary.tuning):
            raise GraphshiftError("figure: nothing was tuned in this study.")
        return _tuning(summary, rule)
    if not rows or not summary.tests:
        raise GraphshiftError("figure: this study has no finished run with tests.")
    return (_environments if kind == "environments" else _seeds)(summary, rows, rule)


class _Style:
    """Every arm has its colour and marker, the same in all figures; every backbone its line for the limit."""

    def __init__(self, summary: Summary) -> None:
        self.arms = summary.arm_names()
        self.scale = METRICS.find(summary.metric).scale
        self.label = METRICS.find(summary.metric).title

    def of(self, arm: str) -> dict[str, Any]:
        i = self.arms.index(arm)
        # Colours and markers have different periods, so that no two of the first 24 arms look alike.
        return {"color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}

    def beside(self, arm: str, width: float = 0.6) -> float:
        """How far from a tick an arm's points stand, so that they do not hide each other."""
        n = len(self.arms)
        return 0.0 if n == 1 else width * (self.arms.index(arm) / (n - 1) - 0.5)


_DASHES = ((0, (6, 2)), (0, (2, 1)), (0, (8, 2, 1, 2)), (0, (4, 1, 1, 1, 1, 1)))


def _title(summary: Summary, what: str, rule: str) -> str:
    return f"{summary.dataset}: {what}\nepoch and setting chosen by {rule_label(summary, rule)}"


def _environments(summary: Summary, rows: Rows, rule: str) -> Figure:
    """Each arm's runs on every test environment: points, and the mean with its standard deviation."""
    style, tests = _Style(summary), summary.tests
    figure = new_figure(max(6.5, min(1.5 + len(tests) * (0.45 + 0.16 * len(style.arms)), 16)), 4.8)
    axes = figure.subplots()
    for arm in style.arms:
        own = [row for row in rows if row.arm == arm]
        if not own:
            continue
        look = style.of(arm)
        entry = next(a for a in summary.arms if a.arm == arm and a.selection == rule)
        for j, name in enumerate(tests):
            points = [style.scale * row.tests[name] for row in own]
            left = j + style.beside(arm) - 0.25 / (len(style.arms) + 2)  # beside the mean, not under it
            axes.scatter([left] * len(points), points, s=9, alpha=0.5, linewidths=0, **look)
        means = [style.scale * (entry.environments[name].mean or 0.0) for name in tests]
        deviations = [style.scale * (entry.environments[name].std or 0.0) for name in tests]
        places = [j + style.beside(arm) for j in range(len(tests))]
        bars: dict[str, Any] = {"ms": 6, "capsize": 2.5, "elinewidth": 1.1, "linestyle": ""}
        axes.errorbar(places, means, yerr=deviations, **look, **bars, label=entry.marked)
    levels: list[tuple[Mapping[str, float], dict[str, Any]]] = []  # by test, and how the line looks
    for i, (backbone, limit) in enumerate(summary.limits.items()):
        means_of = {name: both.mean or 0.0 for name, both in limit.environments.items()}
        look = {"color": "black", "linestyle": _DASHES[i % 4], "label": f"in-domain limit, {backbone}"}
        levels.append((means_of, look))
    if len(summary.majority) == len(tests):
        levels.append((summary.majority, {"color": "#7F7F7F", "linestyle": ":", "label": "always the largest class"}))
    for values, look in levels:
        for j, name in enumerate(tests):
            if name in values:
                once = look if j == 0 else look | {"label": None}
                axes.plot([j - 0.4, j + 0.4], [style.scale * values[name]] * 2, linewidth=1.3, **once)
    axes.set_xticks(range(len(tests)), tests)
    axes.set_xlim(-0.6, len(tests) - 0.4)
    axes.set(xlabel="test environment", ylabel=style.label)
    axes.set_title(_title(summary, "each unseen environment (points: runs; bar: mean ± std)", rule), fontsize=10)
    plain(axes, "y")
    figure.legend(loc="outside lower center", ncols=min(3, len(style.arms) + 1), frameon=False, fontsize=8.5)
    return figure


def _seeds(summary: Summary, rows: Rows, rule: str) -> Figure:
    """The distribution over seeds of the mean and of the worst test score; grey lines join a backbone's same seeds."""
    style = _Style(summary)
    arms = [arm for arm in style.arms if any(row.arm == arm for row in rows)]
    figure = new_figure(9.5, 1.7 + 0.55 * len(arms))
    both = figure.subplots(1, 2, sharey=True)
    places = {arm: len(arms) - 1 - i for i, arm in enumerate(arms)}
    for axes, key, name in zip(both, ("mean", "worst"), ("mean of the tests", "worst test"), strict=True):
        by_pair: dict[Any, list[tuple[float, int]]] = {}
        for arm in arms:
            own = [row for row in rows if row.arm == arm]
            values = [style.scale * getattr(row, key) for row in own]
            for row, value in zip(own, values, strict=True):
                pair = (row.record.backbone, *row.seeds)
                by_pair.setdefault(pair, []).append((value, places[arm]))
            axes.scatter(values, [places[arm]] * len(values), s=30, alpha=0.75, linewidths=0, zorder=3, **style.of(arm))
            place, colour = places[arm], style.of(arm)["color"]
            axes.vlines(fmean(values), place - 0.28, place + 0.28, color=colour, linewidth=2.5, zorder=4)
        for line in by_pair.values():
            axes.plot(*zip(*line, strict=True), color="#7F7F7F", alpha=0.25, linewidth=0.7, zorder=1)
        if key == "mean":
            for i, (backbone, limit) in enumerate(summary.limits.items()):
                look = {"color": "black", "linewidth": 1.2, "linestyle": _DASHES[i % 4]}
                axes.axvline(style.scale * limit.mean, **look, label=f"in-domain limit, {backbone}")
        axes.set(xlabel=style.label, title=name)
        axes.title.set_fontsize(10)
        plain(axes, "x")
    both[0].set_yticks(list(places.values()), list(places))
    both[0].set_ylim(-0.6, len(arms) - 0.4)
    figure.suptitle(_title(summary, "each run (bar: mean; grey lines join the same seeds)", rule), fontsize=10)
    if both[0].get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _tuning(summary: Summary, rule: str) -> Figure:
    """Every trial's score against each setting that was tuned, one panel for each; a ring marks what was chosen."""
    style = _Style(summary)
    settings = [t for t in summary.tuning if t.selection == rule and t.score is not None]
    names = list(dict.fromkeys(name for t in settings for name in t.settings))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(max(3.6 * columns, 5.5), 2.7 * lines + 1.1)
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for i, axes in enumerate(panels.flat):
        if i >= len(names):
            axes.set_visible(False)
            continue
        name = names[i]
        values = sorted({t.settings[name] for t in settings if name in t.settings}, key=_order)
        for arm in style.arms:
            own = [t for t in settings if t.arm == arm and name in t.settings]
            if not own:
                continue
            for t in own:
                place = values.index(t.settings[name]) + style.beside(arm, 0.5)
                scores = [style.scale * score for score in t.scores]
                look = style.of(arm) | {"label": arm if t is own[0] else None}
                axes.scatter([place] * len(scores), scores, s=22, alpha=0.7, linewidths=0, **look)
                if t.chosen:
                    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.2}
                    axes.scatter([place], [style.scale * (t.score or 0.0)], s=90, zorder=4, **ring)
        axes.set_xticks(range(len(values)), [f"{v:g}" if isinstance(v, float) else str(v) for v in values])
        axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_xlabel(name)
        axes.tick_params(labelsize=8)
        plain(axes, "y")
        if i % columns == 0:
            axes.set_ylabel(f"{rule} {style.label}")
    failed = sum(t.failed for t in summary.tuning if t.selection == rule)
    title = f"{summary.dataset}: tuning, every trial's score by {rule_label(summary, rule)}"
    lost = f"; {failed} failed trials are not shown" if failed else ""
    figure.suptitle(f"{title}\nring: chosen, at the mean of its trials{lost}", fontsize=10)
    handles: dict[str, Any] = {}
    for axes in panels.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _order(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, int | float) else (1, str(value))

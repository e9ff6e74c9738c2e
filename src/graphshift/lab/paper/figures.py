"""Figures of the paper's items, in its manner: boxes by test environment, spurious columns, generators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal

from graphshift.data.metrics import METRICS
from graphshift.lab.paper import Item
from graphshift.lab.paper.exploring import BOUNDED, Explored
from graphshift.lab.paper.reproducing import Finished
from graphshift.report.figures import COLOURS, can_draw, new_figure, plain, save_both

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, Any]:
    figure = new_figure(max(width * columns, 5), height * rows + 0.8)
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_tests(item: Item, studies: Sequence[Finished]) -> Figure:
    """Fig. 2a, 4, 5: the distribution over runs on every test; a row for each setting."""
    settings = list(dict.fromkeys(study.setting for study in studies))
    groups = list(dict.fromkeys(study.experiment.name for study in studies))
    figure, panels = _panels(len(settings), len(groups), 4.6 if len(groups) > 1 else 8, 2.7)
    by_place = {(study.setting, study.experiment.name): study for study in studies}
    names: dict[str, str] = {}
    for i, setting in enumerate(settings):
        for j, experiment in enumerate(groups):
            axes = panels[i][j]
            study = by_place.get((setting, experiment))
            if study is None:
                axes.set_visible(False)
                continue
            arms = [arm for arm in study.arms if study.of(arm)]
            scale, tests = _scale(study), study.summary.tests
            for k, arm in enumerate(arms):
                colour = names.setdefault(_method(arm), COLOURS[len(names) % len(COLOURS)])
                values = [[scale * row.tests[test] for row in study.of(arm)] for test in tests]
                _boxes(axes, values, k, len(arms), colour)
            axes.set_xticks(range(len(tests)), tests, fontsize=8, rotation=30 if max(map(len, tests)) > 5 else 0)
            axes.set_title(f"{experiment}: {setting}", fontsize=9)
            axes.set_ylabel(METRICS.find(study.summary.metric).title, fontsize=8)
            _plain(axes, "y")
    _legend(figure, names)
    figure.suptitle(f"{item.name}: {item.title}", fontsize=11)
    return figure


def draw_spurious(item: Item, studies: Sequence[Finished]) -> Figure | None:
    """Fig. 2b: training accuracy with all columns, and with the spurious ones zeroed at inference."""
    bars: list[tuple[str, str, list[float], list[float]]] = []
    for study in studies:
        for arm in study.arms:
            own = [row for row in study.of(arm) if row.train_without_spurious is not None]
            if own:
                everything, without = (
                    [100 * getattr(row, key) for row in own] for key in ("train", "train_without_spurious")
                )
                bars.append((f"{study.experiment.name}\n{study.setting}", arm, everything, without))
    if not bars:
        return None
    places = list(dict.fromkeys(bar[0] for bar in bars))
    figure, panels = _panels(1, 1, max(1.25 * len(places) + 2, 6), 3.4)
    axes = panels[0][0]
    names: dict[str, str] = {}
    for p, place in enumerate(places):
        own_bars = [bar for bar in bars if bar[0] == place]
        for k, (_, arm, everything, without) in enumerate(own_bars):
            colour = names.setdefault(_method(arm), COLOURS[len(names) % len(COLOURS)])
            x = p + 0.8 * (k - (len(own_bars) - 1) / 2) / len(own_bars)
            width = 0.36 / len(own_bars)
            for at, values, alpha in ((x - width / 2, everything, 1.0), (x + width / 2, without, 0.45)):
                deviation = stdev(values) if len(values) > 1 else 0
                axes.bar(at, fmean(values), width, color=colour, alpha=alpha, yerr=deviation, error_kw={"lw": 0.8})
    axes.set_xticks(range(len(places)), places, fontsize=8)
    axes.set(ylabel="training accuracy (%)", ylim=(0, 105))
    _plain(axes, "y")
    _legend(figure, names)
    figure.suptitle(f"{item.name}: full colour all columns, pale without the spurious ones (mean ± std)", fontsize=10)
    return figure


def draw_generators(item: Item, studies: Sequence[Finished]) -> Figure:
    """Fig. 2c: the mean of the tests by generator; a panel for each setting."""
    settings = list(dict.fromkeys(study.setting for study in studies))
    figure, panels = _panels(1, len(settings), 3.6, 2.9)
    names: dict[str, str] = {}
    for axes, setting in zip(panels[0], settings, strict=True):
        own = [study for study in studies if study.setting == setting]
        for p, study in enumerate(own):
            for k, arm in enumerate(study.arms):
                colour = names.setdefault(_method(arm), COLOURS[len(names) % len(COLOURS)])
                values = [_scale(study) * row.mean for row in study.of(arm) if row.mean is not None]
                if values:
                    _boxes(axes, [values], k, len(study.arms), colour, at=p)
        axes.set_xticks(range(len(own)), [study.experiment.name for study in own], fontsize=8)
        axes.set_title(setting, fontsize=9)
        _plain(axes, "y")
    panels[0][0].set_ylabel(f"mean test {METRICS.find(studies[0].summary.metric).title}")
    _legend(figure, names)
    figure.suptitle(f"{item.name}: by the GNN that generates the data", fontsize=11)
    return figure


def draw_one_change(item: Item, study: Finished) -> Figure:
    """Each arm's mean test score, and where the variance of the risks goes during training."""
    figure, panels = _panels(1, 2, 5.6, 0.34 * len(study.arms) + 1.2)
    left, right = panels[0]
    arms = [arm for arm in study.arms if study.of(arm)]
    for i, arm in enumerate(arms):
        colour = COLOURS[i % len(COLOURS)]
        values = [_scale(study) * row.mean for row in study.of(arm) if row.mean is not None]
        left.scatter(values, [len(arms) - 1 - i] * len(values), s=16, alpha=0.6, color=colour, linewidths=0)
        left.vlines(fmean(values), len(arms) - 1.35 - i, len(arms) - 0.65 - i, color=colour, linewidth=2.5)
        curves = [row.curve for row in study.of(arm) if row.curve]
        if curves:
            means = [fmean(values) for values in zip(*(curve["variance"] for curve in curves), strict=True)]
            right.plot(curves[0]["epoch"], means, color=colour, label=arm, linewidth=1.4)
    left.set_yticks(range(len(arms)), list(reversed(arms)), fontsize=8)
    left.set_xlabel(f"mean test {METRICS.find(study.summary.metric).title} (bar: mean)")
    right.set(xlabel="epoch", ylabel="variance of the views' risks", yscale="log")
    right.legend(fontsize=7, frameon=False)
    _plain(left, "x")
    _plain(right, "y")
    figure.suptitle(f"{item.name}: {study.experiment.name}, one thing changed at a time", fontsize=11)
    return figure


def draw_exploring(records: Sequence[Explored], folder: Path) -> list[Path]:
    """Draws how the variance rises as explorers learn: a row for each dataset, a column for each s and reward.

    A panel has the exact policy where it was run, and else the bounded one, which its title says.

    Args:
        records: of :func:`graphshift.lab.paper.exploring.explore_all`.
        folder: where the picture goes.
    """
    if not can_draw():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    datasets = list(dict.fromkeys(record.dataset for record in records))
    columns = sorted(
        {(r.edits_per_node, r.learner.removesuffix(BOUNDED)) for r in records if "normalised" not in r.learner}
    )
    there = {(r.dataset, r.edits_per_node, r.learner) for r in records}
    rates = sorted({record.lr for record in records})
    figure, panels = _panels(len(datasets), len(columns), 2.9, 1.9)
    for i, dataset in enumerate(datasets):
        for j, (edits, reward) in enumerate(columns):
            axes, learner = panels[i][j], reward if (dataset, edits, reward) in there else reward + BOUNDED
            for lr in rates:
                own = [
                    r
                    for r in records
                    if (r.dataset, r.edits_per_node, r.learner, r.lr) == (dataset, edits, learner, lr)
                ]
                if not own:
                    continue
                ratios = [[v / r.random for v in r.curve["variance"]] for r in own]
                means = [fmean(values) for values in zip(*ratios, strict=True)]
                colour = COLOURS[rates.index(lr) % len(COLOURS)]
                axes.plot(own[0].curve["step"], means, color=colour, label=f"lr {lr:g}", linewidth=1.3)
            axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
            axes.axhline(5, color="black", linewidth=0.8, linestyle="--")
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter("")  # where less than a decade is shown, its parts would be written out
            axes.set_title(f"{dataset}: s = {edits}, {learner}", fontsize=8)
            _plain(axes, "y")
            if i == len(datasets) - 1:
                axes.set_xlabel("explorer steps", fontsize=8)
        panels[i][0].set_ylabel("variance ÷ random's", fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    figure.suptitle("the GNN stands still; dotted: random edits, dashed: five times their variance", fontsize=10)
    return save_both(figure, folder / "exploring-curves")


def _boxes(
    axes: Axes, values: Sequence[Sequence[float]], k: int, arms: int, colour: str, *, at: float | None = None
) -> None:
    places = [(j if at is None else at) + 0.8 * (k - (arms - 1) / 2) / arms for j in range(len(values))]
    drawn = axes.boxplot(
        values,
        positions=places,
        widths=0.6 / arms,
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": "black", "linewidth": 1},
        flierprops={"markersize": 2.5},
    )
    for box in drawn["boxes"]:
        box.set(facecolor=colour, alpha=0.7, linewidth=0.7)


def _method(arm: str) -> str:
    return arm.split(", ")[0]


def _scale(study: Finished) -> float:
    return METRICS.find(study.summary.metric).scale


def _legend(figure: Figure, names: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name, alpha=0.8) for name, colour in names.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)


def _plain(axes: Axes, grid: Literal["x", "y"]) -> None:
    plain(axes, grid)
    axes.tick_params(labelsize=8)

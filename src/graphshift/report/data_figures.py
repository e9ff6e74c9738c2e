"""Pictures of datasets: the paper's appendix figures, and one for any dataset that shows what moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import require_extra
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse
from graphshift.report.figures import COLOURS, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Rows = Sequence[Mapping[str, Any]]

_ROLES = {"train": COLOURS[0], "val": COLOURS[4], "tests": COLOURS[3]}  # blue, grey, red: as the scales of _degrees
_MOST_CLASSES = 8  # with a colour of their own
_OTHERS = "#DDDDDD"
_SUFFIXES = (".png", ".svg", ".pdf")
_SAMPLE = 2000  # nodes of a t-SNE
_COMPONENTS = 50  # that a PCA leaves for it


def checked_figure(kind: str, path: Path) -> None:
    """Checks what can be checked before the data are loaded."""
    if kind not in FIGURES:
        raise GraphshiftError(f"the kind of picture is {kind!r}; expected one of {', '.join(FIGURES)}.")
    if path.suffix.lower() not in _SUFFIXES:
        raise GraphshiftError(f"{path}: expected a name that ends in {', '.join(_SUFFIXES)}.")
    if not path.parent.is_dir():
        raise GraphshiftError(f"{path}: there is no folder {path.parent}.")
    require_extra("matplotlib", "drawing figures")


def draw_dataset(data: ShiftDataset, rows: Rows, path: Path, *, kind: str = "overview") -> None:
    """Draws a picture (.png, .svg, .pdf; one of :data:`FIGURES`) of a dataset from its ``dataset_statistics``."""
    checked_figure(kind, path)
    labelled = [row for row in rows if row["role"] != "target"]  # most panels show labels
    FIGURES[kind](data, labelled).savefig(path, dpi=110)


def _sizes(data: ShiftDataset, rows: Rows) -> Figure:
    """Node numbers, densities and maximum degrees: the paper's figure on Facebook-100."""
    columns = [("nodes", "nodes", "{:,.0f}"), ("density", "density", "{:.4f}")]
    columns.append(("maximum_degree", "maximum degree", "{:,.0f}"))
    return _bar_panels(data, rows, columns, "sizes, densities and degrees")


def _rates(data: ShiftDataset, rows: Rows) -> Figure:
    """Label rates and positive rates: the paper's figure on Elliptic."""
    if not data.task.is_classification:
        raise GraphshiftError(f"dataset {data.name!r}: its labels are no classes, so there are no rates to draw.")
    second = ("majority", "largest class among the labelled (%)")
    if data.task.kind == "binary":
        second = ("positive_rate", "positive among the labelled (%)")
    percent = [{**row, "label_rate": 100 * row["label_rate"], second[0]: 100 * row[second[0]]} for row in rows]
    columns = (("label_rate", "labelled nodes (%)", "{:.1f}"), (*second, "{:.1f}"))
    return _bar_panels(data, percent, columns, "label rates")


def _tsne(data: ShiftDataset, rows: Rows) -> Figure:
    """A t-SNE of training, validation and test nodes, a panel for each test: the paper's figure on Arxiv."""
    from matplotlib.lines import Line2D

    groups = [("train", data.train), ("val", data.val), *(("tests", [e]) for e in data.tests)]
    groups = [(role, group) for role, group in groups if group]
    share = _SAMPLE // len(groups)
    random = np.random.default_rng(0)
    samples = [_sample(group, share, random) for _, group in groups]
    points = _embedded(np.concatenate(samples))
    group_of = np.repeat(np.arange(len(groups)), [len(sample) for sample in samples])
    seen = [i for i, (role, _) in enumerate(groups) if role != "tests"]
    panels: list[int | None] = [i for i, (role, _) in enumerate(groups) if role == "tests"] or [None]
    shift = {row["environment"]: row["feature_shift"] for row in rows}
    figure, axes = _grid(len(panels), 4, (3.6, 3.7))
    for panel, ax in zip(panels, axes, strict=True):
        shown = np.flatnonzero(np.isin(group_of, [*seen, *([] if panel is None else [panel])]))
        shown = random.permutation(shown)  # so that no group hides another
        colours = np.array([_ROLES[role] for role, _ in groups])[group_of[shown]]
        ax.scatter(points[shown, 0], points[shown, 1], c=colours, s=9, alpha=0.7, linewidths=0)
        ax.set(xticks=[], yticks=[])
        if panel is not None:
            name = groups[panel][1][0].name
            ax.set_title(name if shift[name] is None else f"{name}  (x shift {shift[name]:.2f})", fontsize=10)
    handles = []
    for role, group in {"train": data.train, "val": data.val, "tests": data.tests}.items():
        if group:
            label = _role_label(role, group)
            handles.append(Line2D([], [], linestyle="", marker="o", color=_ROLES[role], label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(f"{data.name}: t-SNE of the nodes' features ({len(points):,} nodes that count)")
    return figure


def _overview(data: ShiftDataset, rows: Rows) -> Figure:
    """Labels, degrees, homophily and mean features of any dataset, environment by environment."""
    figure, (labels, degrees, joined, features) = _grid(4, 2, (5.6, 3.4))
    names = [row["environment"] for row in rows]
    colours = [_ROLES[row["role"]] for row in rows]
    if data.task.is_classification:
        _class_shares(labels, rows)
        homophily = [100 * (row["homophily"] or 0.0) for row in rows]
        joined.bar(names, homophily, color=colours)
        joined.set(ylabel="edges (%)", ylim=(0, 100), title="homophily: edges that join equal labels")
    else:
        labels.boxplot([e.labels.numpy() for e in data.environments], tick_labels=names, showfliers=False)
        labels.set(title="labels (box: quartiles)")
        joined.bar(names, [row["average_degree"] for row in rows], color=colours)
        joined.set(title="average degree")
    _degrees(degrees, data)
    features.bar(names, [row["feature_shift"] or 0.0 for row in rows], color=colours)
    features.set(ylabel="in training deviations", title="mean features: distance from training")
    for ax in (labels, joined, features):
        _name_ticks(ax, names)
    _role_legend(figure, rows)
    figure.suptitle(data.name)
    return figure


#: What can be drawn, by name.
FIGURES: dict[str, Callable[[ShiftDataset, Rows], Figure]] = {
    "overview": _overview,
    "sizes": _sizes,
    "rates": _rates,
    "tsne": _tsne,
}


def _grid(panels: int, most: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    columns = min(panels, most)
    lines = -(-panels // columns)
    figure = new_figure(columns * size[0], lines * size[1] + 0.7)
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def _bar_panels(data: ShiftDataset, rows: Rows, columns: Sequence[tuple[str, str, str]], title: str) -> Figure:
    """Horizontal bars, so that names can be read; one panel for each column of the statistics."""
    figure = new_figure(1.2 + 3.4 * len(columns), 1.6 + 0.28 * len(rows))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for ax, (key, label, form) in zip(panels, columns, strict=True):
        values = [row[key] for row in rows]
        bars = ax.barh([row["environment"] for row in rows], values, color=[_ROLES[row["role"]] for row in rows])
        ax.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
        ax.set(xlabel=label, xlim=(0, 1.22 * max(values) or 1))
        plain(ax, "x")
    panels[0].invert_yaxis()
    _role_legend(figure, rows)
    figure.suptitle(f"{data.name}: {title}")
    return figure


def _role_legend(figure: Figure, rows: Rows) -> None:
    from matplotlib.patches import Patch

    roles = dict.fromkeys(row["role"] for row in rows)
    handles = [Patch(color=_ROLES[role], label=_ROLE_NAMES[role]) for role in roles]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


_ROLE_NAMES = {"train": "training", "val": "validation", "tests": "test"}


def _role_label(role: str, group: Sequence[Environment]) -> str:
    return _ROLE_NAMES[role] + (f" ({', '.join(e.name for e in group)})" if role != "tests" and len(group) < 4 else "")


def _class_shares(ax: Axes, rows: Rows) -> None:
    """Stacked bars; beyond eight classes the largest of training stand for themselves, the others together."""
    from matplotlib import colormaps

    shares = 100 * np.array([row["class_shares"] for row in rows])
    training = [row["role"] == "train" for row in rows]
    many = shares.shape[1] > _MOST_CLASSES
    largest = np.argsort(-shares[training].mean(axis=0), kind="stable")[:_MOST_CLASSES]
    order = largest if many else range(shares.shape[1])
    names = [row["environment"] for row in rows]
    bottom = np.zeros(len(rows))
    # Another scale than that of the roles, and one that is told apart by its lightness.
    for colour, k in zip(colormaps["viridis"](np.linspace(0.1, 0.88, len(order))), order, strict=True):
        ax.bar(names, shares[:, k], bottom=bottom, color=colour, label=f"class {k}", edgecolor="white", linewidth=0.4)
        bottom += shares[:, k]
    if many:
        ax.bar(names, 100 - bottom, bottom=bottom, color=_OTHERS, label="others")
    ax.set(ylabel="nodes that count (%)", ylim=(0, 100), title="class shares")
    _side_legend(ax, reverse=True)


def _degrees(ax: Axes, data: ShiftDataset) -> None:
    from matplotlib import colormaps

    first = data.train[0].graph
    shared = all(
        e.graph is first or (e.num_nodes == first.num_nodes and torch.equal(e.graph.keys, first.keys))
        for e in data.environments
    )
    lines: list[tuple[Environment, Any, str]] = []
    for group, scale, style in ((data.train, "Blues", "-"), (data.val, "Greys", "--"), (data.tests, "Oranges", "-")):
        shades = colormaps[scale](np.linspace(0.45, 1.0, len(group)) if len(group) > 1 else [0.8])
        lines += [(e, shade, style) for e, shade in zip(group, shades, strict=False)]
    for e, colour, style in lines[: 1 if shared else None]:
        degree, share = _ccdf(e.graph.pattern.rowptr.diff().numpy())
        label = "all: they share one graph" if shared else e.name
        ax.plot(degree, share, style, color=colour, linewidth=1.4, label=label)
    ax.set(xscale="log", yscale="log", xlabel="degree d", ylabel="share of nodes", title="nodes of degree d or more")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    if shared:
        ax.legend(fontsize=7, frameon=False)
    else:
        _side_legend(ax)


def _side_legend(ax: Axes, *, reverse: bool = False) -> None:
    ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=reverse)


def _ccdf(degree: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every degree from 1 that occurs, and the share of nodes with it or more."""
    values, counts = np.unique(degree, return_counts=True)
    share = counts[::-1].cumsum()[::-1] / degree.size
    return values[values > 0], share[values > 0]


def _name_ticks(ax: Axes, names: Sequence[str]) -> None:
    crowded = sum(map(len, names)) > 45
    ax.tick_params(axis="x", labelrotation=35 if crowded else 0, labelsize=8)
    if crowded:
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
    plain(ax, "y")


def _sample(group: Sequence[Environment], share: int, random: np.random.Generator) -> NDArray[np.float32]:
    """The features of counted nodes of some environments, drawn without replacement."""
    places = list(chain.from_iterable(((i, node) for node in e.counted.tolist()) for i, e in enumerate(group)))
    drawn = np.array(places)[random.permutation(len(places))[:share]]
    return np.concatenate([_features(e, drawn[drawn[:, 0] == i, 1]) for i, e in enumerate(group)])


def _features(environment: Environment, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    x = environment.x
    if not isinstance(x, Sparse):
        return np.asarray(x[nodes])
    parts = (x.value.numpy(), x.pattern.col.numpy(), x.pattern.rowptr.numpy())
    return np.asarray(scipy.sparse.csr_array(parts, shape=x.shape)[nodes].toarray())


def _embedded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    reduced = PCA(min(_COMPONENTS, *x.shape), random_state=0).fit_transform(x)
    perplexity = min(30.0, (len(x) - 1) / 3)
    return np.asarray(TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(reduced))

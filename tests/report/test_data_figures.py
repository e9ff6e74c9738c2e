from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets import DATASETS
from graphshift.datasets.planted import planted
from graphshift.datasets.statistics import dataset_statistics
from graphshift.report import data_figures
from graphshift.report.data_figures import FIGURES, draw_dataset
from reference import random_data


@pytest.fixture(autouse=True)
def _few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_figures, "_SAMPLE", 60)


def made(
    classes: int = 2, tests: int = 2, val: int = 1, *, sparse: bool = False, regression: bool = False
) -> ShiftDataset:
    environments = []
    for i in range(2 + val + tests):
        data = random_data(20 * classes if classes > 2 else 40, classes=classes, density=0.05, seed=i)
        data.mask = torch.arange(data.num_nodes) % 4 != 0
        data.x = data.x.to_sparse_csr() if sparse else data.x
        data.y = data.y.float() if regression else data.y
        task = Task("regression", 0) if regression else Task("multiclass" if classes > 2 else "binary", classes)
        environments.append(Environment(f"step {i}", data, task))
    return ShiftDataset("own", environments[:2], environments[2 : 2 + val], environments[2 + val :])


def drawn(kind: str, data: ShiftDataset) -> Figure:
    return FIGURES[kind](data, dataset_statistics(data))


def texts(figure: Figure) -> list[str]:
    return [t.get_text() for ax in figure.axes for t in (*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts)]


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_every_kind_is_written(tmp_path: Path, kind: str, suffix: str) -> None:
    data = made()
    path = tmp_path / f"{kind}.{suffix}"
    draw_dataset(data, dataset_statistics(data), path, kind=kind)
    assert path.stat().st_size > 5000


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.parametrize(
    "data",
    [made(classes=12, sparse=True), made(tests=0, val=0), planted(60), made(tests=6)],
    ids=["many classes", "training alone", "one graph", "many tests"],
)
def test_every_kind_takes_every_dataset(tmp_path: Path, kind: str, data: ShiftDataset) -> None:
    drawn(kind, data).savefig(tmp_path / "figure.png")


def test_sizes_shows_the_statistics() -> None:
    data = made()
    rows = dataset_statistics(data)
    figure = FIGURES["sizes"](data, rows)
    assert [ax.get_xlabel() for ax in figure.axes] == ["nodes", "density", "maximum degree"]
    for ax, key in zip(figure.axes, ("nodes", "density", "maximum_degree"), strict=True):
        assert [bar.get_width() for bar in ax.patches] == [row[key] for row in rows]
    assert "step 4" in texts(figure)
    assert f"{rows[0]['density']:.4f}" in texts(figure)


def test_rates() -> None:
    data = made()
    rows = dataset_statistics(data)
    left, right = FIGURES["rates"](data, rows).axes
    assert [bar.get_width() for bar in left.patches] == [100 * row["label_rate"] for row in rows]
    assert [bar.get_width() for bar in right.patches] == [100 * row["positive_rate"] for row in rows]
    assert "largest class" in drawn("rates", made(classes=3)).axes[1].get_xlabel()


def test_regression(tmp_path: Path) -> None:
    data = made(regression=True)
    drawn("overview", data).savefig(tmp_path / "overview.png")
    with pytest.raises(GraphshiftError, match="its labels are no classes"):
        drawn("rates", data)


def test_class_shares_fill_the_bars() -> None:
    for classes in (3, 12):
        axes = drawn("overview", made(classes=classes)).axes[0]
        heights = np.array([[bar.get_height() for bar in group] for group in axes.containers])
        assert heights.sum(axis=0) == pytest.approx(100)
        assert len(heights) == min(classes, 9)  # eight classes and the others


def test_degrees_are_drawn_once_if_the_graph_is_one() -> None:
    assert len(drawn("overview", planted(60)).axes[1].lines) == 1
    data = made()
    lines = drawn("overview", data).axes[1].lines
    assert len(lines) == 5
    degree = torch.bincount(data.train[0].graph.edge_index[1], minlength=40).numpy()
    for d, share in lines[0].get_xydata():
        assert share == pytest.approx((degree >= d).mean())


def test_tsne_has_a_panel_for_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_figures, "_SAMPLE", 2000)
    data = made(tests=3, sparse=True)
    figure = drawn("tsne", data)
    assert [ax.get_title().split("  ")[0] for ax in figure.axes] == ["step 3", "step 4", "step 5"]
    # Training counts 30 nodes in each of two environments, validation and tests 30 each.
    assert [ax.collections[0].get_offsets().shape[0] for ax in figure.axes] == [120, 120, 120]
    monkeypatch.setattr(data_figures, "_SAMPLE", 50)
    few = drawn("tsne", data)
    assert [ax.collections[0].get_offsets().shape[0] for ax in few.axes] == [30, 30, 30]
    assert "(50 nodes" in few.get_suptitle()


def test_tsne_is_the_same_each_time() -> None:
    first, second = (drawn("tsne", made(tests=1)).axes[0].collections[0].get_offsets() for _ in range(2))
    assert np.array_equal(first, second)


def test_every_dataset_names_a_figure() -> None:
    assert {entry.figure for entry in DATASETS.values()} <= set(FIGURES)


def test_mistakes(tmp_path: Path) -> None:
    data = made()
    for kind, path, message in (
        ("pie", tmp_path / "a.png", "expected one of overview, sizes, rates, tsne"),
        ("rates", tmp_path / "a.txt", "expected a name that ends in .png"),
        ("rates", tmp_path / "no" / "a.png", "there is no folder"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            draw_dataset(data, [], path, kind=kind)

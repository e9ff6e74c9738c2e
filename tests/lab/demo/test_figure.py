"""The demo's figure shows the numbers of its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from graphshift.lab.demo.figure import draw_demo
from graphshift.studies import Row
from tiny_studies import row


def rows(metric: str = "accuracy", *, arms: tuple[str, ...] = ("ERM", "EERM"), seeds: int = 2) -> list[Row]:
    majority = {} if metric == "mse" else {"T1": 0.25, "T2": 0.35}
    return [
        row(
            arm,
            {"T1": 0.5 + 0.1 * a + 0.02 * seed, "T2": 0.3 + 0.1 * a + 0.04 * seed},
            seed=seed,
            metric=metric,
            majority=majority,
        )
        for a, arm in enumerate(arms)
        for seed in range(seeds)
    ]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved."""
    seen: list[Figure] = []
    real = Figure.savefig

    def save(self: Figure, *args: Any, **options: Any) -> None:
        seen.append(self)
        real(self, *args, **options)

    monkeypatch.setattr(Figure, "savefig", save)
    return seen


def test_every_arm_is_drawn_with_its_means(drawn: list[Figure], tmp_path: Path) -> None:
    draw_demo(rows(), tmp_path / "study.png", title="a title")
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "study.png").stat().st_size > 5000
    (figure,) = drawn
    left, right = figure.axes
    lines = {str(line.get_label()): list(line.get_ydata()) for line in left.lines}
    assert lines["ERM"] == pytest.approx([51, 32])
    assert lines["EERM"] == pytest.approx([61, 42])
    assert lines["always the largest class"] == pytest.approx([25, 35])
    assert figure.get_suptitle() == "a title"
    assert left.get_ylabel() == "accuracy (%)"
    points = sorted(float(y) for c in right.collections if hasattr(c, "get_offsets") for _, y in c.get_offsets() if y)
    expected = sorted(100 * score for r in rows() for score in (r.mean, r.worst))
    assert all(any(abs(point - e) < 1e-6 for point in points) for e in expected)


def test_regression_and_one_seed_are_drawn_too(drawn: list[Figure], tmp_path: Path) -> None:
    draw_demo(rows("mse", seeds=1), tmp_path / "study.svg", title="errors")
    assert "<svg" in (tmp_path / "study.svg").read_text()
    left = drawn[0].axes[0]
    lines = {str(line.get_label()): list(line.get_ydata()) for line in left.lines}
    assert lines["ERM"] == pytest.approx([0.5, 0.3])  # not per cent
    assert "always the largest class" not in lines


def test_more_arms_than_colours_are_drawn(drawn: list[Figure], tmp_path: Path) -> None:
    names = tuple(f"arm {i}" for i in range(9))
    draw_demo(rows(arms=names), tmp_path / "study.png", title="many")
    assert {str(line.get_label()) for line in drawn[0].axes[0].lines} >= set(names)

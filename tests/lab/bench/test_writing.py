"""The files of a run: JSON, Markdown and plots."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from bench_small import results_with
from graphshift.core.errors import GraphshiftError
from graphshift.lab.bench.outcome import Measurement
from graphshift.lab.bench.plots import draw_curves
from graphshift.lab.bench.writing import write_tables


def curves(*axes: str, memory: bool = True) -> dict[str, Any]:
    """Results whose time grows with exponent 1 for ERM and 2 for the dense explorer, and memory with half of it."""
    powers = {"erm": 1.0, "dense": 2.0}
    points = [
        {
            "axis": axis,
            "value": value,
            "at": {},
            "method": method,
            "seconds": 1e-6 * value**power,
            "memory": {"before": 5, "peak": 5 + int(1e6 * value ** (power / 2))} if memory else None,
        }
        for axis in axes
        for value in (1_000, 2_000, 8_000)
        for method, power in powers.items()
    ]
    base = {"nodes": 2_000, "views": 3, "edits": 5, "degree": 10, "features": 64}
    return results_with(part="curves", data={"base": base, "points": points})


def texts(path: Path) -> str:
    return "".join(ElementTree.parse(path).getroot().itertext()) + path.read_text(encoding="utf-8")


def test_plots_are_drawn_as_png_and_svg_with_their_exponents(tmp_path: Path) -> None:
    written = draw_curves(curves("nodes", "views", "degree"), tmp_path)
    names = ["curves-nodes.png", "curves-nodes.svg", "curves-others.png", "curves-others.svg"]
    assert [path.name for path in written] == names
    assert written[0].read_bytes().startswith(b"\x89PNG")
    told = texts(written[1])  # text is drawn as shapes, beside which matplotlib notes it
    for label in (
        "ERM, exponent 1.00",
        "EERM dense, exponent 2.00",
        "ERM, exponent 0.50",
        "nodes N",
        "time of a step (ms)",
    ):
        assert label in told


def test_only_what_was_measured_is_drawn(tmp_path: Path) -> None:
    assert draw_curves(results_with(), tmp_path) == []
    (png, svg) = draw_curves(curves("degree", memory=False), tmp_path)
    assert (png.name, svg.name) == ("curves-others.png", "curves-others.svg")
    assert "memory of data" not in texts(svg)


def test_everything_is_written_and_old_plots_go(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "bench"
    write_tables(curves("nodes"), folder)
    draw_curves(curves("nodes"), folder)
    assert {p.name for p in folder.iterdir()} == {"results.json", "results.md", "curves-nodes.png", "curves-nodes.svg"}
    (folder / "mine.txt").write_text("mine")
    results = results_with(Measurement("a", "what", 1.0, bar=2.0))
    write_tables(results, folder)
    draw_curves(results, folder)
    assert {p.name for p in folder.iterdir()} == {"results.json", "results.md", "mine.txt"}
    assert json.loads((folder / "results.json").read_text()) == results
    assert "| what | 1.00× | ≤ 2× | yes |" in (folder / "results.md").read_text()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphshiftError, match="cannot be made ready"):
        write_tables(results_with(), tmp_path / "file" / "bench")

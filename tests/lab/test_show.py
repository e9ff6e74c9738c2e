"""``graphshift toy`` and ``graphshift demo``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOY = ("toy", "--nodes", 50, "--environments", 30, "--repeats", 2, "--sigma", 1.0, "--beta", 1.0)


def test_the_toy_says_what_is_learned_beside_the_closed_forms(graphshift: Any) -> None:
    answer = graphshift(*TOY, "--json")
    assert (answer.status, answer.err) == (0, "")
    rows = json.loads(answer.out)
    assert {row["objective"] for row in rows} == {"erm", "variance", "eerm"}
    assert {row["sigma"] for row in rows} == {1.0}
    table = graphshift(*TOY)
    assert table.err == ""
    for row in rows:
        assert f"{row['theta1']:.3f}, {row['theta2']:.3f}" in table.out
    for word in ("closed form", "paper claims", "any, 0", "50 nodes", "eerm β=1"):
        assert word in table.out


def test_the_toys_seed_decides(graphshift: Any) -> None:
    first, again, other = (graphshift(*TOY, "--seed", seed, "--json").out for seed in (1, 1, 2))
    assert first == again != other


def test_the_toys_figure_is_drawn_and_not_overwritten(graphshift: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "toy.png"
    answer = graphshift(*TOY, "--out", path)
    assert answer.status == 0
    assert f"loss surfaces drawn to {path}" in answer.out
    picture = path.read_bytes()
    assert picture.startswith(b"\x89PNG")
    answer = graphshift(*TOY, "--out", path, "--seed", 3)
    assert answer.status == 2
    assert answer.err.startswith(f"graphshift: {path}: exists; nothing was changed.")
    assert path.read_bytes() == picture
    assert graphshift(*TOY, "--out", path, "--seed", 3, "--force").status == 0
    assert path.read_bytes() != picture


def test_the_demo_runs(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("demo", "--seeds", 2, "--nodes", 60, "--epochs", 1, "--out", tmp_path / "demo", "--json")
    assert (answer.status, answer.err) == (0, "planted: 12 fits …\nplanted-structure: 12 fits …\n")
    assert json.loads(answer.out) == json.loads((tmp_path / "demo" / "results.json").read_text())
    assert {p.suffix for p in (tmp_path / "demo").iterdir()} == {".json", ".png"}

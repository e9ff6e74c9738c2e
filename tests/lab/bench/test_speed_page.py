"""The page on speed says what the committed run measured."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_answer_has_the_numbers_of_the_committed_run() -> None:
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    answer = page.split("## The answer")[1].split("\n## ")[0]
    measured = (ROOT / "benchmarks/results.md").read_text(encoding="utf-8")
    numbers = re.findall(r"[\d.]+(?:×| GB)", answer)
    assert numbers
    assert [number for number in numbers if f"| {number} |" not in measured] == []

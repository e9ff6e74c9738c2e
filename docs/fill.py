"""Puts tables and figures of results/ into the pages: `python docs/fill.py` after `graphshift reproduce all --show`.

A page names a file of results/ between two comments. What stands between them is replaced by the file, or by some of
its tables, counted from 1:

    <!-- begin results/fig2/short.md -->
    <!-- end -->
    <!-- begin results/fig2/short.md#1 -->
    <!-- end -->
    <!-- begin results/fig2/short.md#2-5 -->
    <!-- end -->

Figures that a page shows from images/reproduction/ are copied there from results/, and so is the leaderboard's page.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(
    ROOT / "docs" / name
    for name in (
        "reproduction.md",
        "leaderboard.md",
        "how-to/explorers.md",
        "how-to/shift.md",
        "how-to/trust.md",
        "how-to/watch.md",
        "how-to/choose.md",
        "how-to/recommend.md",
        "theory.md",
        "scale.md",
    )
)
BLOCK = re.compile(r"<!-- begin (results/\S+) -->\n.*?<!-- end -->", re.DOTALL)
FIGURE = re.compile(r"images/reproduction/((\w+)-[\w-]+\.png)")


def tables(name: str) -> dict[int, str]:
    """The tables that a block asks for, by their place in the file: ``results/fig2/short.md#2-5`` or all of it."""
    path, _, part = name.partition("#")
    found = re.split(r"\n\n(?=\*\*)", (ROOT / path).read_text(encoding="utf-8").strip())
    first, last = (int(n) for n in (part.split("-") * 2)[:2]) if part else (1, len(found))
    return {number: found[number - 1] for number in range(first, last + 1)}


def filled(text: str) -> str:
    """A page's text with every block made anew."""

    def block(match: re.Match[str]) -> str:
        content = "\n\n".join(tables(match[1]).values())
        return f"<!-- begin {match[1]} -->\n{content}\n<!-- end -->"

    return BLOCK.sub(block, text)


def main() -> None:
    """Fills all pages."""
    board = ROOT / "results/leaderboard/board.html"
    if board.exists():
        shutil.copyfile(board, ROOT / "docs/board.html")
    for page in PAGES:
        text = filled(page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")
        for name, item in FIGURE.findall(text):
            source = ROOT / "results" / item / name
            if source.exists():
                target = ROOT / "docs/images/reproduction" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


if __name__ == "__main__":
    main()

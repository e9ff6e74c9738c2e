"""Puts tables and figures of results/ into the pages: `python docs/fill.py` after `graphshift reproduce all --show`.

A page names a file of results/ between two comments, and whatever stands between them is replaced:

    <!-- begin results/fig2/short.md -->
    <!-- end -->

Figures that a page shows from images/reproduction/ are copied there from results/.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(ROOT / "docs" / name for name in ("reproduction.md", "benchmark.md", "how-to/explorers.md"))
BLOCK = re.compile(r"<!-- begin (results/\S+) -->\n.*?<!-- end -->", re.DOTALL)
FIGURE = re.compile(r"images/reproduction/((\w+)-[\w-]+\.png)")


def filled(text: str) -> str:
    """A page's text with every block made anew."""

    def block(match: re.Match[str]) -> str:
        content = (ROOT / match[1]).read_text(encoding="utf-8").strip()
        return f"<!-- begin {match[1]} -->\n{content}\n<!-- end -->"

    return BLOCK.sub(block, text)


def main() -> None:
    """Fills all pages."""
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

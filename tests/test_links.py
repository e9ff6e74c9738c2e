"""Every link of the documentation leads somewhere: files, and headings in them. Other sites are not asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
]
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?ms)^ *(```|~~~).*?^ *\1", "", text))


def anchors(page: Path) -> set[str]:
    """As mkdocs makes them of headings, and those that are given."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r'(?m)^--8<-- "([^"]+\.md)"', text):  # what is put in its place
        text += (ROOT / name).read_text(encoding="utf-8")
    found, seen = set(re.findall(r"(?:id|name)=\"([^\"]+)\"|\{ ?#([\w-]+)", text)), {}
    names = {one for pair in found for one in pair if one}
    for heading in re.findall(r"(?m)^#+ +(.+?)\s*#*$", re.sub(r"(?ms)^```.*?^```", "", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        slug = slug.encode("ascii", "ignore").decode()
        names.add(slug if slug not in seen else f"{slug}_{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return names


def target_of(page: Path, link: str) -> Path:
    path = (page.parent / link).resolve() if link else page
    if "notebooks" in path.parts and path.suffix == ".md":  # made of the notebook when the site is built
        return path.with_suffix(".ipynb")
    return path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = target_of(page, path)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_every_page_is_in_the_navigation() -> None:
    shown = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md")]
    pages += [p.relative_to(ROOT / "docs").with_suffix(".md") for p in (ROOT / "docs").rglob("*.ipynb")]
    assert [str(page) for page in pages if f" {page.as_posix()}\n" not in shown] == []
    for page in re.findall(r": ([\w/-]+\.md)\n", shown):
        assert target_of(ROOT / "docs" / "index.md", page).exists(), page


def test_a_wrong_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading: here\n[a](#a-heading-here) [b](none.md) [c](#nothing) `[d](code)` [e](https://x.y)\n")
    with pytest.raises(AssertionError, match=r"\['none.md', '#nothing'\]"):
        test_links_lead_somewhere(page)


@pytest.mark.parametrize("page", [p for p in PAGES if "8" in p.read_text()], ids=lambda page: page.name)
def test_files_that_a_page_puts_in_are_there(page: Path) -> None:
    """A formatter once wrote `--8 < --`, and readers saw that line in place of the program."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if re.match(r"-+\s*8\s*<", line):
            named = re.fullmatch(r'--8<-- "([^"]+)"', line)
            assert named, line
            assert (ROOT / named[1]).is_file(), line

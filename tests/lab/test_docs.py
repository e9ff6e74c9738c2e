"""The Python that the README and the docs show runs, and the site builds."""

import re
from pathlib import Path

import pytest

from scripts import run

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = ["README.md", "docs/index.md"]


@pytest.mark.parametrize("page", SNIPPETS)
def test_python_on_the_page_runs(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    # The pages show full sizes; the same code is run with few nodes.
    code = (
        "\n".join(blocks)
        .replace(", nodes=1000", "")
        .replace('load("planted-structure"', 'load("planted-structure", nodes=100')
    )
    assert "nodes=100)" in code
    script = tmp_path / "page.py"
    script.write_text(code, encoding="utf-8")
    assert "EERM" in run([str(script)], tmp_path)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_the_documentation_builds(tmp_path):
    pytest.importorskip("mkdocs", reason="documentation tools are not installed")
    run(
        ["-m", "mkdocs", "build", "--strict", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path / "site")],
        tmp_path,
    )
    page = (tmp_path / "site" / "concepts.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert "arithmatex" not in page

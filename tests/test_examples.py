"""The examples run, and so does the Python that the README and the docs show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SNIPPETS = ["README.md", "docs/index.md"]


def run(arguments, folder):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GRAPHSHIFT_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example(example, tmp_path):
    if example.stem == "lightning_module":
        pytest.importorskip("lightning", reason="lightning is an extra")
    assert run([str(example)], tmp_path).strip()


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

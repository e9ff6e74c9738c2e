"""The notebooks of the documentation run, and what is committed has been run and is shown whole."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def module(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_of_docs", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason="the notebooks need Jupyter")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    found = module("docs/notebooks.py").executed(path, tmp_path, small=True)
    shown = [output for cell in found.cells for output in cell.get("outputs", ())]
    assert not any(output["output_type"] == "error" for output in shown)
    assert any("image/png" in output.get("data", {}) for output in shown)  # figures show themselves
    if path.stem != "gallery":  # pictures alone
        assert any("text/html" in output.get("data", {}) for output in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_committed_was_run_from_top_to_bottom(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not any(output["output_type"] == "error" for output in outputs)
    assert "parameters" in cells[0].metadata["tags"]
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|work|Users)/", text)  # no folder of somebody's machine
    assert len(text) < 1_000_000


def test_the_site_shows_output_and_pictures() -> None:
    pytest.importorskip("nbconvert")
    pages_of = module("docs/hooks/notebooks.py").pages_of
    for path in NOTEBOOKS:
        files = pages_of(path)
        page = files[f"{path.stem}.md"]
        assert isinstance(page, str)
        assert page.startswith("# ")
        assert f"]({path.name})" in page
        pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
        assert pictures
        assert set(pictures) == set(files) - {f"{path.stem}.md"}
        assert f"notebooks/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

"""The examples run."""

from pathlib import Path

import pytest

from scripts import run

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example(example, tmp_path):
    if example.stem == "lightning_module":
        pytest.importorskip("lightning", reason="lightning is an extra")
    assert run([str(example)], tmp_path).strip()

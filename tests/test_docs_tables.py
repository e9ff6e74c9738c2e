"""The generated tables of the pages follow from the registries."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs/tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", tables().pages(), ids=lambda path: path.stem)
def test_a_page_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables().filled(text) == text, "run `python docs/tables.py`"


def test_every_kind_of_table_is_shown() -> None:
    shown = [m[1] for page in tables().pages() for m in tables().BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert len(shown) == len(set(shown))
    assert set(tables().TABLES) <= set(shown)

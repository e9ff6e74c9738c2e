"""The parsed-data cache of every dataset test is its own, and the real files are found beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHSHIFT_DATA", raising=False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real files, as their authors publish them."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not here: {SHARED} does not exist")
    return SHARED

"""A finished run that the tests of commands read, and tables as a user has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from votes import write_spain, write_tables


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run. Tests only read it."""
    from graphshift.fitting.fit import FitRequest, fit_in_folder

    folder = tmp_path_factory.mktemp("fitted") / "run"
    given = {"method": "erm", "epochs": 2, "hidden_channels": 4}
    fit_in_folder(FitRequest("planted", {"nodes": 60}, given), folder)
    return folder


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """People of four countries and who knows whom."""
    return write_tables(tmp_path)


@pytest.fixture
def spain(tables: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """New tables: the nodes and edges of ES alone."""
    return write_spain(tmp_path)

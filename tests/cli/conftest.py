"""A finished run that the tests of commands read."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run. Tests only read it."""
    from graphshift.fitting.fit import FitRequest, fit_in_folder

    folder = tmp_path_factory.mktemp("fitted") / "run"
    given = {"method": "erm", "epochs": 2, "hidden_channels": 4}
    fit_in_folder(FitRequest("planted", {"nodes": 60}, given), folder)
    return folder

"""Runs the command in this process, as the console script does, and gives status and output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphshift.cli import main


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def graphshift(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> Command:
    """``graphshift("fit", "planted", ...)`` in an empty working folder."""
    monkeypatch.chdir(tmp_path_factory.mktemp("working"))

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["graphshift", *map(str, arguments)])
        capsys.readouterr()
        status: object = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        output = capsys.readouterr()
        assert isinstance(status, int)
        return Answer(status, output.out, output.err)

    return run


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run. Tests only read it."""
    from graphshift.fitting.fit import FitRequest, fit_in_folder

    folder = tmp_path_factory.mktemp("fitted") / "run"
    given = {"method": "erm", "epochs": 2, "hidden_channels": 4}
    fit_in_folder(FitRequest("planted", {"nodes": 60}, given), folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def files_of() -> Callable[[Path], dict[str, bytes]]:
    return contents

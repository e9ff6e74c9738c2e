"""What tests share: the command line in this process, and small seeded graphs (``reference.py`` makes them)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch_geometric.data import Data

from graphshift.cli import main
from graphshift.graph import kernels
from graphshift.graph.kernels import native
from reference import KINDS, random_data
from tiny_fits import contents

settings.register_profile("graphshift", derandomize=True, deadline=None, database=None, max_examples=80)
settings.load_profile("graphshift")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """Everything made in the test is float64, so that comparisons can be tight."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=["kernels", "plain"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once with the kernels in C, once without."""
    if request.param == "plain":
        monkeypatch.setattr(native, "LIBRARY", None)
    elif not kernels.available():
        pytest.skip("the kernels are not compiled")
    return request.param


@pytest.fixture
def undirected() -> Data:
    return random_data()


@pytest.fixture
def directed() -> Data:
    return random_data(directed=True)


@pytest.fixture
def weighted() -> Data:
    return random_data(weighted=True)


@pytest.fixture(params=KINDS, ids=str)
def any_data(request: pytest.FixtureRequest) -> Data:
    """Each of undirected, directed, weighted, and directed and weighted."""
    return random_data(**KINDS[request.param])


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


@pytest.fixture
def files_of() -> Callable[[Path], dict[str, bytes]]:
    return contents

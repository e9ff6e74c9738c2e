"""Small seeded graphs that many tests share, as PyG ``Data``; ``reference.py`` makes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from torch_geometric.data import Data

from reference import KINDS, random_data

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

"""Tests that hold for the kernels and for the plain code alike run with each."""

from __future__ import annotations

import pytest

from graphshift.graph import kernels
from graphshift.graph.kernels import native


@pytest.fixture(params=["kernels", "plain"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once with the kernels in C, once without."""
    if request.param == "plain":
        monkeypatch.setattr(native, "LIBRARY", None)
    elif not kernels.available():
        pytest.skip("the kernels are not compiled")
    return request.param

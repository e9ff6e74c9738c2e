"""Tests that hold for the kernels and for the plain code alike run with each."""

from __future__ import annotations

import os

import pytest

from graphshift.graph import kernels
from graphshift.graph.kernels import native

if path := os.environ.get("SANITIZED_KERNELS"):  # `make sanitize`
    native.LIBRARY = native.load(path)
    assert native.LIBRARY is not None


@pytest.fixture(params=["kernels", "plain"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once with the kernels in C, once without."""
    if request.param == "plain":
        monkeypatch.setattr(native, "LIBRARY", None)
    elif not kernels.available():
        pytest.skip("the kernels are not compiled")
    return request.param

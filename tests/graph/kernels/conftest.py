"""The kernels of another build, such as one with sanitizers."""

from __future__ import annotations

import os

from graphshift.graph.kernels import native

if path := os.environ.get("SANITIZED_KERNELS"):  # `make sanitize`
    native.LIBRARY = native.load(path)
    assert native.LIBRARY is not None

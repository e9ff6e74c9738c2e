"""Whether the kernels are there, when they are used, and that all works without them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from unittest.mock import patch

import pytest
import torch

from graphshift.core.errors import GraphshiftWarning
from graphshift.graph import kernels
from graphshift.graph.kernels import native

needs_kernels = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
@pytest.mark.skipif(os.environ.get("GRAPHSHIFT_NATIVE") == "0", reason="the kernels are not wanted")
def test_the_kernels_are_there_where_there_is_a_compiler() -> None:
    assert kernels.available()


@needs_kernels
def test_what_fits() -> None:
    assert native.fits()
    assert native.fits(torch.zeros(2), torch.zeros(2, dtype=torch.int32), None)
    assert native.fits(torch.zeros(2), count=2**29 - 1)


@needs_kernels
@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.float16),
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(2, requires_grad=True),
        torch.zeros(2, device="meta"),
    ],
    ids=["float64", "float16", "int64", "learned", "elsewhere"],
)
def test_what_does_not_fit(tensor: torch.Tensor) -> None:
    assert not native.fits(tensor)
    assert not native.fits(torch.zeros(2), None, tensor)


@needs_kernels
def test_indices_that_need_more_bits_do_not_fit() -> None:
    assert not native.fits(torch.zeros(2), count=2**29)


@needs_kernels
def test_kernels_of_another_version_are_not_used() -> None:
    with patch.object(native, "INTERFACE", -1), pytest.warns(GraphshiftWarning, match="another version"):
        assert native.load() is None
    assert native.load() is not None


def test_nothing_fits_without_kernels() -> None:
    with patch.object(native, "LIBRARY", None):
        assert not kernels.available()
        assert not native.fits()


SMALL_FIT = """
import json
from graphshift.graph import kernels
from graphshift.graph.kernels import native
from graphshift import EERM
from graphshift.datasets.planted import planted
data = planted(80, environments=3)
model = EERM(hidden_channels=8, epochs=4, views=2, edits_per_node=2, inner_steps=2, explorer_lr=0.5)
model.fit(data.train, val=data.val)
print(json.dumps({"native": kernels.available(), "losses": [row["loss"] for row in model.history_]}))
"""


def test_an_environment_variable_leaves_the_kernels_unused_and_all_works_without(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A fit in a process of its own; the same fit here, with kernels if there are any, comes to the same."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_FIT],
        env=os.environ | {"GRAPHSHIFT_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    without = json.loads(done.stdout)
    assert without["native"] is False
    assert len(without["losses"]) == 4
    exec(SMALL_FIT, {})
    here = json.loads(capsys.readouterr().out)
    assert here["native"] == kernels.available()
    assert here["losses"] == pytest.approx(without["losses"], rel=1e-4)

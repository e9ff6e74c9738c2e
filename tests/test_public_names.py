"""The public names are there, and asking for the package alone imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import graphshift as gs


def test_every_public_name_resolves_and_is_documented() -> None:
    for name in dir(gs):
        assert getattr(gs, name) is not None
        if name not in ("DATASETS", "METHODS", "__version__"):
            assert getattr(gs, name).__doc__, name


def test_names_are_what_they_say() -> None:
    from graphshift.datasets import load
    from graphshift.methods import METHODS, Estimator

    for estimator in METHODS.values():
        assert getattr(gs, estimator.__name__) is estimator
        assert issubclass(estimator, Estimator)
    assert gs.load is load
    assert gs.__version__[0].isdigit()
    assert gs.methods.variance is gs.variance
    assert "gcn" in gs.backbones.BACKBONES
    assert "reinforce" in gs.explorers.EXPLORERS


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'graphshift' has no attribute 'EREM'"):
        gs.EREM  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, graphshift\n"
        "heavy = {'torch', 'torch_geometric', 'sklearn', 'scipy', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

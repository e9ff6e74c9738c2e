"""The public names are there, and asking for the package alone imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import graphshift as gs


@pytest.mark.parametrize("name", gs.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(gs, name) is not None
    assert name in dir(gs)


def test_names_are_what_they_say() -> None:
    from graphshift.datasets import load
    from graphshift.estimators import EERM, ERM, Model

    assert gs.ERM is ERM
    assert gs.EERM is EERM
    assert issubclass(gs.ERM, Model)
    assert gs.load is load
    assert gs.__version__[0].isdigit()
    assert gs.risks.variance is gs.variance
    assert "gcn" in gs.backbones.BACKBONES
    assert "reinforce" in gs.explorers.EXPLORERS


def test_names_are_sorted_and_documented() -> None:
    assert sorted(gs.__all__) == sorted(set(gs._HOMES) | set(gs._MODULES) | {"__version__"})  # and ruff sorts them
    assert len(set(gs.__all__)) == len(gs.__all__)
    for name in gs.__all__:
        if name not in ("DATASETS", "__version__"):
            assert getattr(gs, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'graphshift' has no attribute 'EREM'"):
        gs.EREM  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, graphshift\n"
        "heavy = {'torch', 'torch_geometric', 'sklearn', 'scipy', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

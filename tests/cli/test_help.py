"""``--help`` and ``--version``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

import graphshift as gs
from graphshift.backbones import BACKBONES
from graphshift.cli.app import app
from graphshift.methods import METHODS

HEAVY = ("torch", "torch_geometric", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "optuna", "graphshift.lab")


@pytest.mark.parametrize("command", ["fit", "score", "predict", "toy", "demo", "bench"])
def test_every_command_explains_itself(command: str) -> None:
    answer = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert answer.exit_code == 0
    assert f"graphshift {command}" in answer.output.replace("root", "graphshift")
    assert "--json" in answer.output


def test_no_name_is_broken_in_a_terminal_of_80_columns() -> None:
    words = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "80", "TERM": "dumb"}).output.replace(",", " ")
    assert not {*METHODS, *BACKBONES} - set(words.split())


def test_the_version_is_the_packages(graphshift: Any) -> None:
    answer = graphshift("--version")
    assert (answer.status, answer.out, answer.err) == (0, f"{gs.__version__}\n", "")


def test_python_runs_the_package() -> None:
    done = subprocess.run([sys.executable, "-m", "graphshift", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{gs.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    """One process for all commands; ``graphshift.lab`` is not light either: it comes when a command runs."""
    code = f"""
import sys
from graphshift.cli import main
for command in ((), ("fit",), ("compare",), ("recommend",), ("data",), ("bench",), ("reproduce",), ("toy",)):
    sys.argv = ["graphshift", *command, "--help"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    assert not {set(HEAVY)} & set(sys.modules), (command, {set(HEAVY)} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == 8

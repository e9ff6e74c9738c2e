"""What is told of the machine is enough, and names nobody."""

from __future__ import annotations

import getpass
import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from graphshift.lab.bench import machine


def test_machine_versions_and_date_are_there() -> None:
    about = machine.about(3)
    assert about["threads"] == 3
    assert about["native"] in (True, False)
    assert about["machine"]["cpu"]
    assert about["machine"]["cores"] >= 1
    assert about["machine"]["memory_gb"] > 0
    assert about["versions"]["python"] == platform.python_version()
    assert all(about["versions"][name] for name in ("torch", "torch_geometric", "numpy", "graphshift"))
    assert about["date"].endswith("UTC")


def test_neither_host_nor_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.dumps(machine.about(1))
    for private in (platform.node(), str(Path.home()), str(Path.cwd())):
        assert len(private) < 4 or private not in told
    assert len(getpass.getuser()) < 5 or getpass.getuser() not in told


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_only_a_checkout_of_the_package_itself_has_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "graphshift"
    (package / "bench").mkdir(parents=True)
    (package / "_version.py").write_text("")
    monkeypatch.setattr(machine, "__file__", str(package / "lab" / "bench" / "machine.py"))

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def told() -> tuple[object, object]:
        about = machine.about(1)
        return about["commit"], about["dirty"]

    assert told() == (None, None)  # no checkout
    git("init")
    (tmp_path / "other").write_text("")
    git("add", "other")
    git("commit", "-m", "other")
    assert told() == (None, None)  # a checkout of something else around an installed package
    git("add", "src")
    git("commit", "-m", "src")
    commit, dirty = told()
    assert isinstance(commit, str)
    assert len(commit) == 40
    assert dirty is False
    (tmp_path / "other").write_text("changed, but not the package")
    assert told() == (commit, False)
    (package / "_version.py").write_text("changed")
    assert told() == (commit, True)

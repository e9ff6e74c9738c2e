"""Where results come from is written down, and who made them is not."""

from __future__ import annotations

import getpass
import json
import platform
from pathlib import Path

import torch

from graphshift import __version__
from graphshift.studies.provenance import public_command, session


def test_a_session_names_versions_hardware_and_threads_and_nobody() -> None:
    found = session(["graphshift", "compare", "planted"], workers=2, threads=3)
    assert found["command"] == "graphshift compare planted"
    assert (found["workers"], found["threads_per_worker"]) == (2, 3)
    assert found["versions"]["graphshift"] == __version__
    assert found["versions"]["torch"] == torch.__version__
    assert found["hardware"]["cores"] >= 1
    assert found["started"].endswith("+00:00")
    assert found["git"] is None or len(found["git"]["commit"]) == 40
    text = json.dumps(found)
    assert f'"{platform.node()}"' not in text
    assert f"/{getpass.getuser()}" not in text


def test_paths_of_this_machine_are_cut_from_the_command() -> None:
    words = [
        "graphshift",
        "compare",
        "own.toml",
        "--out",
        "/home/jo/a b",
        "--data-dir=/data/raw",
        "-o",
        "x=/home/jo/n.csv",
    ]
    assert public_command(words) == "graphshift compare own.toml --out 'a b' --data-dir=raw -o x=n.csv"
    assert public_command(["graphshift", "--out", "~/studies/one"]) == "graphshift --out one"
    assert public_command(["x", "runs/one", str(Path.cwd())]) == f"x runs/one {Path.cwd().name}"
    assert public_command([]) is None

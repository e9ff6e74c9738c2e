"""A partition's folder stands where a dataset's name does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_commands_take_a_partition_folder(graphshift: Callable[..., Any], tmp_path: Path) -> None:
    folder, run, out = tmp_path / "p", tmp_path / "run", tmp_path / "p.csv"
    options = ["-o", "nodes=200", "-o", "tests=2", "--by", "streaming"]
    told = graphshift("partition", "planted-structure", *options, "--parts", 6, "--out", folder)
    assert f"graphshift fit {folder} --batch-parts 4" in told.out.replace("\n", " ")
    assert graphshift("fit", folder, "--method", "erm", "--epochs", 2, "--batch-parts", 3, "--out", run).status == 0
    assert graphshift("score", run, folder).status == 0
    assert graphshift("predict", run, folder, "--out", out).status == 0
    assert len(out.read_text().splitlines()) == 1 + 4 * 200
    assert (
        "T1 is in a partition folder: 6 of its 6 parts stand for it"
        in graphshift("estimate", run, folder, "--no-copies").out
    )
    assert "parts stand for it" in graphshift("shift", f"{folder}:train", f"{folder}:T2").out
    resumed = graphshift("fit", folder, "--method", "erm", "--epochs", 2, "--batch-parts", 3, "--out", run, "--resume")
    assert resumed.status == 0

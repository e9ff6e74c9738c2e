"""A partition that is stopped, or finds too little room, loses nothing that is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import graphshift as gs
from graphshift.data.partition import writing
from graphshift.data.partition.writing import check_disk
from graphshift.datasets import partitions


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted-structure", nodes=200, tests=2)


@pytest.fixture(scope="module")
def folder(data: gs.ShiftDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("partition") / "p"
    gs.partition(data, path, parts=5, by="streaming")
    return path


def test_too_little_disk_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(gs.GraphshiftError, match=r"needs about 1000000000\.00 GB"):
        check_disk(tmp_path / "new" / "folder", 10**18)


def test_an_interrupted_partition_is_resumed_and_nothing_is_overwritten(
    data: gs.ShiftDataset, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, written = tmp_path / "p", []
    true = partitions.write_environment

    def killed(*given):
        written.append(1)
        if len(written) == 2:
            (given[0]).mkdir(parents=True)
            (given[0] / "x.npy").write_bytes(b"half")
            raise KeyboardInterrupt
        return true(*given)

    monkeypatch.setattr(partitions, "write_environment", killed)
    with pytest.raises(KeyboardInterrupt):
        gs.partition(data, out, parts=5, by="streaming")
    with pytest.raises(gs.GraphshiftError, match="is not finished"):
        gs.load("partition", folder=out)
    with pytest.raises(gs.GraphshiftError, match="nothing was changed"):
        gs.partition(data, out, parts=5, by="streaming")
    with pytest.raises(gs.GraphshiftError, match="parts is 5 there and 6 here"):
        gs.partition(data, out, parts=6, by="streaming", resume=True)
    (out / ".partition.json.123.tmp").write_text("half")  # of a process that was killed
    gs.partition(data, out, parts=5, by="streaming", resume=True)
    (out / ".preparation.json.123.tmp").write_text("half")
    (out / "work").mkdir()
    gs.partition(data, out, parts=5, by="streaming", resume=True)
    assert {path.name for path in out.iterdir()} == {path.name for path in folder.iterdir()}
    for path in sorted((folder / "environments").glob("*/*.npy")):
        assert path.read_bytes() == (out / "environments" / path.parent.name / path.name).read_bytes()
    assert (folder / "partition.json").read_text() == (out / "partition.json").read_text()


def test_a_disk_that_gets_full_costs_nothing_that_is_written(
    data: gs.ShiftDataset, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, reserved = tmp_path / "p", []

    def full(file: int, size: int) -> None:
        reserved.append(size)
        if len(reserved) == 4:  # of the second environment
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing, "reserve", full)
    with pytest.raises(gs.GraphshiftError, match=r"no room is left on its disk .* go on with --resume"):
        gs.partition(data, out, parts=5, by="streaming")
    assert [path.parent.name for path in out.glob("environments/*/environment.json")] == ["000-train"]
    gs.partition(data, out, parts=5, by="streaming", resume=True)
    assert (folder / "partition.json").read_text() == (out / "partition.json").read_text()

"""A folder that we own: nothing else is removed, one process writes, and kills leave no obstacle."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.core.folders import OwnedFolder, differences


@pytest.fixture
def folder(tmp_path: Path) -> OwnedFolder:
    return OwnedFolder(tmp_path / "deep" / "own", "config.json", ("notes.txt", "parts"), members="member-*")


def names(folder: OwnedFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()}


def test_what_is_ours_is_replaced_and_nothing_else(folder: OwnedFolder) -> None:
    assert not folder.is_occupied()
    assert folder.read() is None
    folder.replace({"a": 1})
    assert folder.is_occupied()
    for place in ("parts", "member-1", "member-mine"):
        (folder.path / place).mkdir()
        (folder.path / place / "file").write_text("x")
    (folder.path / "member-1" / "config.json").write_text("{}")
    for name in ("notes.txt", "mine.txt", ".notes.txt.12.tmp"):
        (folder.path / name).write_text("x")
    folder.replace({"a": 2})
    assert folder.read() == {"a": 2}
    assert names(folder) == {"config.json", "member-mine", "mine.txt"}


@pytest.mark.parametrize(
    ("files", "left"), [(("a.safetensors",), {".tmp", ".tmpnotes", "mine.tmp"}), (("a.txt",), {".tmpZnvwcN"})]
)
def test_only_half_written_files_of_our_own_are_leftovers(
    tmp_path: Path, files: tuple[str, ...], left: set[str]
) -> None:
    """safetensors writes ``.tmp`` and six letters first; where we write none, such a file is somebody else's."""
    folder = OwnedFolder(tmp_path, "config.json", files)
    (tmp_path / f".{files[0]}.7.tmp").write_text("half")
    assert not folder.is_occupied()
    for name in (".tmpZnvwcN", ".tmp", ".tmpnotes", "mine.tmp", ".config.json.3.tmp"):
        (tmp_path / name).write_text("half")
    assert folder.is_occupied()
    folder.remove_leftovers()
    assert names(folder) == {".tmp", ".tmpnotes", "mine.tmp"} | left


def test_one_process_writes_and_a_failure_leaves_no_folder(folder: OwnedFolder) -> None:
    with folder.locked(), pytest.raises(GraphshiftError, match="is writing there"), folder.locked():
        pass
    assert folder.path.is_dir()
    folder.path.rmdir()
    with pytest.raises(KeyError), folder.locked():
        raise KeyError
    assert not folder.path.exists()
    with pytest.raises(NotADirectoryError), folder.locked():
        _write_and_fail(folder.path / "kept")
    assert names(folder) == {"kept"}


def _write_and_fail(path: Path) -> None:
    path.write_text("x")
    (path / "below").mkdir()


def test_a_file_is_not_a_folder(folder: OwnedFolder) -> None:
    folder.path.parent.mkdir()
    folder.path.write_text("mine")
    with pytest.raises(GraphshiftError, match="is a file"):
        folder.is_occupied()
    with pytest.raises(GraphshiftError, match="cannot be made"), folder.locked():
        pass


def test_differences_are_named_with_both_values() -> None:
    there = {"a": 1, "b": {"c": 2, "d": {"e": 3}}, "gone": 0}
    here = {"a": 1, "b": {"c": 5, "d": {"e": 4}}, "new": 1}
    assert differences(there, here, where="f") == [
        "b.c is 2 there and 5 here",
        "b.d.e is 3 there and 4 here",
        "gone is 0 there and None here",
        "new is None there and 1 here",
    ]
    assert differences([], here, where="f.json") == ["f.json is damaged"]
    assert differences({"b": 1}, {"b": {}}, where="f.json") == ["b is damaged"]

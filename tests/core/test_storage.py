"""Files are written whole or not at all, and what is damaged is named. Nothing is ever unpickled."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json, read_tensors, write_json, write_tensors, write_text


def test_tensors_and_note_come_back_as_they_were(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 4),
        "b": torch.tensor(7),
        "empty": torch.empty(5, 0),
        "bool": torch.tensor([True, False]),
        "turned": torch.arange(6.0).reshape(2, 3).t(),
        "inf": torch.tensor([float("-inf")]),
        "state": torch.get_rng_state(),
    }
    write_tensors(tmp_path / "t.safetensors", tensors, {"epoch": 3, "score": 0.1})
    back, note = read_tensors(tmp_path / "t.safetensors")
    assert note == {"epoch": 3, "score": 0.1}
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)


def test_tensors_that_share_memory_are_written_each(tmp_path: Path) -> None:
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    whole = torch.arange(8.0)
    tensors = {**tied.state_dict(), "whole": whole, "part": whole[2:5]}
    write_tensors(tmp_path / "t.safetensors", tensors)
    back, note = read_tensors(tmp_path / "t.safetensors")
    assert note is None
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert back.keys() == tensors.keys()


def test_json_comes_back_as_it_was_and_is_readable(tmp_path: Path) -> None:
    content = {"β": [1, 2.5, None, True], "nested": {"σ": "ok"}}
    write_json(tmp_path / "c.json", content)
    assert read_json(tmp_path / "c.json") == content
    text = (tmp_path / "c.json").read_text(encoding="utf-8")
    assert "β" in text
    assert text.count("\n") > 5


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_files_have_the_permissions_that_the_umask_says(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_tensors(tmp_path / "t.safetensors", {"a": torch.zeros(3)})
        write_json(tmp_path / "c.json", {})
        write_text(tmp_path / "t.txt", "text")
        write_tensors(tmp_path / "t.safetensors", {"a": torch.zeros(4)})  # and when it is replaced
    finally:
        os.umask(before)
    assert {p.name: oct(p.stat().st_mode & 0o777) for p in tmp_path.iterdir()} == dict.fromkeys(
        ("t.safetensors", "c.json", "t.txt"), oct(mode)
    )


def test_json_without_a_meaning_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "c.json", {"score": float("nan")})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "match"),
    [(b'{"a": 1', "not JSON"), (b"hello", "not JSON"), (b"\xff\xfe\x00", "not JSON"), (b"", "not JSON")],
)
def test_damaged_json_is_named(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(GraphshiftError, match=match) as caught:
        read_json(tmp_path / "c.json")
    assert str(caught.value).startswith(f"{tmp_path / 'c.json'}: ")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for read in (read_json, read_tensors):
        with pytest.raises(GraphshiftError, match="no such file") as caught:
            read(tmp_path / "none")
        assert str(tmp_path / "none") in str(caught.value)
        with pytest.raises(GraphshiftError, match=r"cannot be read|not a whole") as caught:
            read(tmp_path)
        assert str(tmp_path) in str(caught.value)


def damaged(path: Path, how: str) -> None:
    good = safetensors.torch.save({"a": torch.randn(64)}, metadata={"graphshift": "{"} if how == "note" else None)
    content = {
        "truncated": good[:-10],
        "header": good[:6],
        "empty": b"",
        "text": b"this is a text file, not a model\n" * 4,
        "length": b"\xff" * 8 + good[8:],
        "note": good,
        "pickle": pickle.dumps({"a": [1, 2, 3]}),
    }[how]
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "header", "empty", "text", "length", "note", "pickle"])
def test_damaged_tensors_are_named(tmp_path: Path, how: str) -> None:
    damaged(tmp_path / "w.safetensors", how)
    with pytest.raises(GraphshiftError, match="damaged") as caught:
        read_tensors(tmp_path / "w.safetensors")
    assert str(caught.value).startswith(f"{tmp_path / 'w.safetensors'}: ")


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["BOMB"],)


def test_a_malicious_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "exploded"
    monkeypatch.setenv("BOMB", str(target))
    for i, content in enumerate((pickle.dumps(Bomb()), pickle.dumps({"weights": Bomb()}, protocol=0))):
        path = tmp_path / f"{i}.safetensors"
        path.write_bytes(content)
        with pytest.raises(GraphshiftError, match="damaged"):
            read_tensors(path)
    torch.save(Bomb(), tmp_path / "zip.safetensors")
    with pytest.raises(GraphshiftError, match="damaged"):
        read_tensors(tmp_path / "zip.safetensors")
    assert not target.exists()
    pickle.loads(pickle.dumps(Bomb()))  # it would have
    assert target.exists()


@pytest.mark.parametrize("what", ["json", "text", "tensors"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    write = {
        "json": lambda: write_json(path, {"a": 1}),
        "text": lambda: write_text(path, "new"),
        "tensors": lambda: write_tensors(path, {"a": torch.ones(3)}),
    }[what]

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(GraphshiftError, match="cannot be written: No space left on device") as caught:
            write()
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    write()
    assert path.read_bytes() != b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_is_full_for_safetensors_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.safetensors").write_text("old")

    def full(*_: Any, **__: Any) -> None:
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(GraphshiftError, match=r"cannot be written: .*No space left on device") as caught:
        write_tensors(tmp_path / "w.safetensors", {"a": torch.ones(3)})
    assert str(tmp_path / "w.safetensors") in str(caught.value)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_a_path_below_a_file_is_named_itself_not_the_temporary(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "new.txt", tmp_path / "none" / "new.txt"):
        with pytest.raises(GraphshiftError, match="cannot be written") as caught:
            write_text(path, "new")
        assert str(caught.value).startswith(f"{path}: ")

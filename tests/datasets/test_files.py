"""Raw files: where they are looked for, downloads that leave nothing half-written, and the cache of parsed data."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.reading import files
from graphshift.datasets.reading.files import Source, cached, data_directory, require, verify

CONTENT = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Answers ``/good``; sends half of ``/short`` and ``/silent``; knows nothing else. Counts what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []

    def source(self, name: str, path: str = "", **known: object) -> Source:
        return Source(path or f"set/{name}", f"http://127.0.0.1:{self.server_port}/{name}", **known)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unmeasured":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        whole = self.path in ("/good", "/unmeasured")
        self.wfile.write(CONTENT if whole else CONTENT[: len(CONTENT) // 2])
        if self.path == "/silent":
            self.wfile.flush()
            time.sleep(1.0)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(files, "_TIMEOUT", 5.0)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield running
        running.shutdown()


def everything(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_data_directory_given_then_environment_then_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHSHIFT_CACHE")
    monkeypatch.setattr(files.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data_directory(None) == tmp_path / "xdg" / "graphshift" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_directory(None) == tmp_path / "home" / ".cache" / "graphshift" / "data"
    monkeypatch.setattr(files.sys, "platform", "darwin")
    assert data_directory(None) == tmp_path / "home" / "Library" / "Caches" / "graphshift" / "data"
    monkeypatch.setattr(files.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_directory(None) == tmp_path / "local" / "graphshift" / "data"
    monkeypatch.setenv("GRAPHSHIFT_DATA", str(tmp_path / "env"))
    assert data_directory(None) == tmp_path / "env"
    assert data_directory("~/mine") == tmp_path / "home" / "mine"


def test_a_file_as_data_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphshiftError, match="file: the data directory is a file"):
        data_directory(tmp_path / "file")


def test_files_that_are_there_are_not_asked_for(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "good").write_text("mine")
    assert require("demo", [server.source("good")], tmp_path) == {"set/good": tmp_path / "set" / "good"}
    assert server.asked == []


@pytest.mark.parametrize("name", ["good", "unmeasured"])
def test_download(tmp_path: Path, server: Server, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = server.source(name, sha256=DIGEST, size=len(CONTENT))
    found = require("demo", [source, server.source("good", "deep/er/second")], tmp_path)
    assert found[f"set/{name}"].read_bytes() == CONTENT
    assert found["deep/er/second"].read_bytes() == CONTENT
    assert everything(tmp_path) == ["deep/er/second", f"set/{name}"]
    assert capsys.readouterr() == ("", ""), "no bar before two seconds"
    assert require("demo", [source], tmp_path) == {f"set/{name}": tmp_path / "set" / name}
    assert len(server.asked) == 2


def test_slow_downloads_show_a_bar(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BAR_AFTER", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    require("demo", [server.source("good"), server.source("good", "set/second.csv")], tmp_path)
    out, err = capsys.readouterr()
    assert out == ""
    assert "second.csv" in err
    assert "1.0/1.0 MB" in err


@pytest.mark.parametrize(
    ("name", "known", "reason"),
    [
        ("good", {"sha256": "0" * 64}, f"its SHA-256 is {DIGEST}; expected {'0' * 64}"),
        ("good", {"size": 1000}, "more than the 1000 bytes expected"),
        ("good", {"size": 10**9}, f"{len(CONTENT)} bytes came; expected 1000000000"),
        ("short", {}, f"expected {len(CONTENT)}"),
        ("missing", {}, "HTTP 404 Not Found"),
    ],
    ids=["digest", "too large", "too small", "truncated", "404"],
)
def test_failed_downloads_leave_nothing(
    tmp_path: Path, server: Server, name: str, known: dict[str, object], reason: str
) -> None:
    with pytest.raises(GraphshiftError, match="the download failed") as caught:
        require("demo", [server.source(name, **known)], tmp_path)
    assert reason in str(caught.value)
    assert everything(tmp_path) == []


def test_a_server_that_falls_silent_is_given_up(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_TIMEOUT", 0.2)
    with pytest.raises(GraphshiftError, match=r"no answer for 0\.2 s"):
        require("demo", [server.source("silent")], tmp_path)
    assert everything(tmp_path) == []


def test_interrupted_download_leaves_nothing(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []

    def interrupt(bar: object, count: int) -> None:
        parts.extend(everything(tmp_path))
        raise KeyboardInterrupt

    monkeypatch.setattr(files._Bar, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        require("demo", [server.source("good")], tmp_path)
    assert parts == [f"set/.good.{os.getpid()}.part"], "it was under way"
    assert everything(tmp_path) == []


def test_parts_of_killed_processes_are_swept(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set").mkdir()
    dead, alive = tmp_path / "set" / ".good.1.part", tmp_path / "set" / ".good.2.part"
    for part in (dead, alive):
        part.write_bytes(b"half")
    os.utime(dead, (0, 0))
    require("demo", [server.source("good")], tmp_path)
    assert everything(tmp_path) == ["set/.good.2.part", "set/good"]


def test_offline_one_error_lists_every_file(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "there").write_text("")
    port = server.server_port
    server.shutdown()
    server.server_close()
    sources = [
        Source("set/there", "http://127.0.0.1:1/there"),
        Source("set/one", f"http://127.0.0.1:{port}/one", home="the one archive"),
        Source("set/two", f"http://127.0.0.1:{port}/two"),
        Source("set/three", home="Kaggle, behind a login"),
        Source("set/four"),
        Source("set/five", "file:///etc/hostname/none"),
    ]
    with pytest.raises(GraphshiftError) as caught:
        require("demo", sources, tmp_path)
    text = str(caught.value)
    assert text.startswith(f"dataset 'demo': 5 of 6 files are missing in {tmp_path}.")
    assert "GRAPHSHIFT_DATA" in text
    for name in ("one", "two", "three", "four", "five"):
        assert f"put it at: {tmp_path / 'set' / name}\n" in f"{text}\n"
    assert "from: http://127.0.0.1" in text
    assert "· the one archive" in text
    assert "cannot be downloaded automatically\n    from: Kaggle, behind a login" in text
    assert text.count("Connection refused") == 2, "the second file of a dead host is listed and not waited for"
    assert "set/there:" not in text


def test_verify(tmp_path: Path) -> None:
    for name in ("right", "wrong", "grown", "unknown"):
        (tmp_path / name).write_bytes(CONTENT)
    sources = [
        Source("right", sha256=DIGEST, size=len(CONTENT)),
        Source("wrong", sha256="0" * 64),
        Source("grown", size=3),
        Source("unknown"),
        Source("missing", sha256=DIGEST),
    ]
    rows = {row["path"]: (row["present"], row["size"], row["sha256"]) for row in verify("demo", sources, tmp_path)}
    size = len(CONTENT)
    assert rows == {
        "right": (True, size, "ok"),
        "wrong": (True, size, "wrong"),
        "grown": (True, size, "wrong"),
        "unknown": (True, size, "unknown"),
        "missing": (False, None, "unknown"),
    }


class Parser:
    """Counts how often it parses; two of its tensors share memory and one is empty."""

    def __init__(self) -> None:
        self.calls = 0
        base = torch.arange(12.0).view(3, 4)
        self.result = {
            "base": base,
            "columns": base.t(),
            "flags": torch.tensor([True, False]),
            "none": torch.empty(0, 2),
            "number": torch.tensor(7),
        }

    def __call__(self) -> dict[str, Tensor]:
        self.calls += 1
        return self.result


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw.csv").write_bytes(CONTENT)
    return tmp_path / "raw.csv"


def check(found: dict[str, Tensor], parser: Parser) -> None:
    assert found.keys() == parser.result.keys()
    for name, tensor in parser.result.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype


def test_cached_parses_once(raw: Path) -> None:
    parser = Parser()
    for _ in range(3):
        check(cached("demo", [raw], 1, {"a": 1}, parser), parser)
    assert parser.calls == 1


def test_cached_key(raw: Path) -> None:
    parser = Parser()
    cached("demo", [raw], 1, {"a": 1}, parser)
    for name, version, options in (("other", 1, {"a": 1}), ("demo", 2, {"a": 1}), ("demo", 1, {"a": 2})):
        cached(name, [raw], version, options, parser)
    assert parser.calls == 4
    raw.write_bytes(CONTENT[::-1])
    cached("demo", [raw], 1, {"a": 1}, parser)
    assert parser.calls == 5, "other content of the same size"


def test_unchanged_files_are_not_hashed_again(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = Parser()
    cached("demo", [raw], 1, {}, parser)
    monkeypatch.setattr(files, "_digest", lambda file: pytest.fail("hashed again"))
    cached("demo", [raw], 1, {}, parser)
    assert parser.calls == 1


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        flip_last_byte,
    ],
    ids=["empty", "garbage", "truncated", "one value"],
)
def test_damaged_cache_is_rebuilt(raw: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    parser = Parser()
    cached("demo", [raw], 1, {}, parser)
    (stored,) = (tmp_path / "cache" / "parsed").glob("demo-*.safetensors")
    damage(stored)
    check(cached("demo", [raw], 1, {}, parser), parser)
    assert parser.calls == 2
    check(cached("demo", [raw], 1, {}, parser), parser)
    assert parser.calls == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"%s": 3}', '{"%s": [1, 2, 3, 4]}', "null"])
def test_damaged_memory_of_digests(raw: Path, tmp_path: Path, text: str) -> None:
    parser = Parser()
    cached("demo", [raw], 1, {}, parser)
    (tmp_path / "cache" / "parsed" / "digests.json").write_text(text.replace("%s", str(raw)))
    cached("demo", [raw], 1, {}, parser)
    assert parser.calls == 1
    known = json.loads((tmp_path / "cache" / "parsed" / "digests.json").read_text())
    assert known[str(raw)][3] == DIGEST


def test_unwritable_cache_costs_time_only(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    parser = Parser()
    for _ in range(2):
        check(cached("demo", [raw], 1, {}, parser), parser)
    assert parser.calls == 2


def test_cached_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"gone\.csv: cannot be read: No such file"):
        cached("demo", [tmp_path / "gone.csv"], 1, {}, Parser())

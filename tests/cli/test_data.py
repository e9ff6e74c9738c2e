from __future__ import annotations

import hashlib
import json
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graphshift.cli import main
from graphshift.datasets import DATASETS, Entry
from graphshift.datasets.planted import planted
from graphshift.datasets.reading.files import Source

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the user's folders or the network."""
    monkeypatch.setenv("GRAPHSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHSHIFT_DATA", raising=False)
    real = urllib.request.urlopen

    def urlopen(request: Any, *args: Any, **options: Any) -> Any:
        if request.full_url.startswith("file:"):
            return real(request, *args, **options)
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["graphshift", "data", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return Result(int(exit.value.code or 0), found.out, found.err)

    return call


@pytest.fixture
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not here: {SHARED} does not exist")
    return SHARED


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of three files: one with a digest, one without, one that cannot be fetched. Returns their home."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.txt").write_bytes(b"first")
    (home / "b.txt").write_bytes(b"second")
    digest = hashlib.sha256(b"first").hexdigest()
    sources = [
        Source("tiny/a.txt", (home / "a.txt").as_uri(), digest, 5),
        Source("tiny/b.txt", (home / "b.txt").as_uri()),
        Source("tiny/c.txt", home="a friend of yours"),
    ]
    entry = Entry("tiny", planted, "three files", "temporal", "here", sources)
    monkeypatch.setitem(DATASETS._members, "tiny", entry)
    return home


def test_list(run: Run, tmp_path: Path) -> None:
    plain, found = run("list", "--data-dir", tmp_path), run("list", "--data-dir", tmp_path, "--json")
    assert plain.status == found.status == 0
    rows = {row["dataset"]: row for row in found.json["datasets"]}
    assert set(rows) == set(DATASETS) - {"own", "partition"}
    assert found.json["data_dir"] == str(tmp_path)
    assert (rows["twitch"]["files"], rows["twitch"]["present"], rows["planted"]["files"]) == (21, 0, 0)
    assert all(name in plain.out for name in rows)
    assert "0 of 21" in plain.out


def test_list_counts_what_is_there(run: Run, tiny: Path, tmp_path: Path) -> None:
    run("fetch", "tiny", "--data-dir", tmp_path / "data")
    assert "2 of 3" in run("list", "--data-dir", tmp_path / "data").out


def test_info(run: Run) -> None:
    found = run("info", "planted-structure", "-o", "nodes=80", "--json").json
    assert (found["dataset"], found["shift"], found["metric"], found["classes"]) == (
        "planted-structure",
        "planted",
        "accuracy",
        3,
    )
    assert [e["role"] for e in found["environments"]] == ["train", "val"] + ["tests"] * 8
    assert {e["nodes"] for e in found["environments"]} == {80}
    plain = run("info", "planted-structure", "-o", "nodes=80")
    assert plain.status == 0
    for word in ("density", "max. degree", "homophily", "label rate", "class shares", "T8", "planted shift"):
        assert word in plain.out


def test_info_of_real_data(run: Run, shared_data: Path) -> None:
    found = run("info", "twitch", "--data-dir", shared_data, "-o", "one_way=true")
    assert found.status == 0
    for number in ("9,498", "153,138", "0.0034", "3,475", "directed edges", "positive (%)", "-o one_way=true"):
        assert number in found.out
    facebook = run("info", "facebook100", "--data-dir", shared_data, "-o", "training=Reed98", "-o", "val=Caltech36")
    assert facebook.status == 0
    assert "Penn94, Texas80 are not in" in facebook.err
    assert "384,526" in facebook.out


def test_info_draws(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    assert f"drawn to {picture}" in run("info", "planted", "-o", "nodes=60", "--figure", picture).out
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = run("info", "planted", "-o", "nodes=60", "--figure", picture)
    assert (again.status, "exists; nothing was changed" in again.err) == (2, True)
    forced = run("info", "planted", "-o", "nodes=60", "--figure", picture, "--kind", "sizes", "--force", "--json")
    assert forced.status == 0
    assert len(forced.json["environments"]) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nosuch"], "dataset is 'nosuch'; expected one of arxiv, cbas, "),
        (["verify", "twich"], "Did you mean 'twitch'?"),
        (["fetch", "nosuch"], "dataset is 'nosuch'"),
        (["make", "nosuch", "--out", "new"], "dataset is 'nosuch'"),
        (["info", "own"], "graphshift init NODES EDGES"),
        (["info", "nosuch", "--data-dir", "."], "dataset is 'nosuch'"),
        (["info", "planted", "-o", "nodes"], "expected NAME=VALUE"),
        (["info", "planted", "-o", "node=500"], "Did you mean 'nodes'?"),
        (["info", "planted", "-o", "nodes=5"], "nodes is 5; expected at least 60"),
        (["info", "planted", "--data-dir", "."], "is built in and reads no files"),
        (["info", "planted", "--figure", "a.docx"], "expected a name that ends in .png"),
        (["info", "planted", "--figure", "nowhere/a.png"], "there is no folder"),
        (["info", "planted", "--figure", "a.png", "--kind", "pie"], "expected one of overview, sizes, rates, tsne"),
        (["info", "planted", "--kind", "rates"], "--kind needs --figure"),
        (["make", "planted", "--out", "."], "exists; nothing was changed"),
        (["make", "planted", "--out", "new", "--max-mb", "1"], "would have about"),
        (["make", "planted"], "'--out'"),
        (["make", "cora", "--out", "new"], "ind.cora.graph"),
        (["info", "elliptic"], "elliptic_txs_features.csv"),
    ],
)
def test_mistakes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(*arguments)
    assert found.status == 2
    assert message in found.err
    assert not found.out
    assert not (tmp_path / "new").exists()


def test_verify_a_real_copy(run: Run, shared_data: Path, tmp_path: Path) -> None:
    shutil.copytree(shared_data / "cora", tmp_path / "cora")
    good = run("verify", "cora", "--data-dir", tmp_path, "--json")
    assert good.status == 0
    assert good.json["ok"]
    assert {(row["present"], row["sha256"]) for row in good.json["files"]} == {(True, "ok")}
    graph, features = tmp_path / "cora/raw/ind.cora.graph", tmp_path / "cora/raw/ind.cora.tx"
    content = bytearray(graph.read_bytes())
    content[1000] ^= 1
    graph.write_bytes(content)
    features.unlink()
    bad = run("verify", "cora", "--data-dir", tmp_path)
    assert bad.status == 2
    assert "wrong" in bad.out
    assert "2 of 8 files are missing or wrong" in bad.err
    assert "ind.cora.graph: not what its authors publish" in bad.err
    assert "ind.cora.tx: missing" in bad.err
    assert "ind.cora.x:" not in bad.err
    assert not run("verify", "cora", "--data-dir", tmp_path, "--json").json["ok"]


def test_verify_without_a_digest(run: Run, tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "data" / "tiny")
    (tmp_path / "data" / "tiny" / "c.txt").touch()
    found = run("verify", "tiny", "--data-dir", tmp_path / "data", "--json")
    assert found.status == 0
    assert [row["sha256"] for row in found.json["files"]] == ["ok", "unknown", "unknown"]
    assert run("verify", "tiny", "--data-dir", tmp_path / "data").status == 0


def test_fetch(run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    found = run("fetch", "tiny", "--data-dir", data)
    assert found.status == 2  # what can be had is there, what cannot is told
    assert "a friend of yours" in found.err
    assert "tiny/a.txt" not in found.err
    assert (data / "tiny" / "b.txt").read_bytes() == b"second"
    (data / "tiny" / "c.txt").touch()
    (data / "tiny" / "b.txt").unlink()
    assert "3 files in" in run("fetch", "tiny", "--data-dir", data).out
    assert run("fetch", "tiny", "--data-dir", data, "--json").json["fetched"] == 0


def test_fetch_refuses_what_has_another_digest(run: Run, tiny: Path, tmp_path: Path) -> None:
    (tiny / "a.txt").write_bytes(b"worst")
    found = run("fetch", "tiny", "--data-dir", tmp_path / "data")
    assert found.status == 2
    assert "its SHA-256 is" in found.err
    assert not (tmp_path / "data" / "tiny" / "a.txt").exists()


def test_fetch_offline(run: Run, tmp_path: Path) -> None:
    found = run("fetch", "cora", "--data-dir", tmp_path / "data")
    assert found.status == 2
    assert "8 of 8 files are missing" in found.err
    assert "no network in tests" in found.err
    assert f"put it at: {tmp_path / 'data/cora/raw/ind.cora.x'}" in found.err


@pytest.mark.parametrize("command", ["verify", "fetch"])
def test_built_in_data_have_no_files(run: Run, command: str) -> None:
    assert "planted is built in" in run(command, "planted").out
    assert run(command, "planted", "--json").json["dataset"] == "planted"


def test_make(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    found = run("make", "planted", "-o", "nodes=60", "--out", out)
    assert (found.status, found.err) == (0, "")
    assert "10 environments with 600 nodes" in found.out
    assert sorted(p.name for p in out.iterdir()) == ["dataset.toml", "edges.csv", "nodes.csv"]
    assert run("make", "planted", "-o", "nodes=60", "--out", out).status == 2
    again = run("make", "planted", "-o", "nodes=70", "--out", out, "--force", "--json").json
    assert again["nodes"] == 700
    assert again["written"][str(out / "nodes.csv")] == (out / "nodes.csv").stat().st_size


def test_a_bar_appears_when_it_takes_long(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphshift.cli.data._BAR_AFTER", -1.0)
    assert not run("make", "planted", "-o", "nodes=60", "--out", tmp_path / "tables").err
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    found = run("make", "planted", "-o", "nodes=60", "--out", tmp_path / "again", "--json")
    assert found.json["environments"] == 10  # nothing but JSON on standard output
    assert "writing" in found.err


def test_help_is_quick(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphshift.datasets", None)  # importing it would fail
    assert "fetch" in run("--help").out

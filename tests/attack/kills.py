"""Kills at every file operation: the same command must then end as if nothing had happened."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack import made
from attack.child import Outcome, command, run

_COST = ("seconds", "seconds_per_epoch", "peak_rss_mb", "loading_mb", "estimated_mb")
_AUDITED = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "open")


def hooked(
    work: Callable[[], Any], folder: Path, *, at: int, torn: bool, count: Path | None = None
) -> Callable[[], None]:
    """The work with a kill at the ``at``-th operation on files in a folder, or with a list of them in ``count``."""

    def go() -> None:
        seen, home = [0], str(folder)
        fsync = os.fsync

        def operation(path: str | None) -> None:
            seen[0] += 1
            if seen[0] == at:
                if torn and path is not None and path.endswith(".jsonl"):  # half a line came to the disk
                    with_half = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                    os.write(with_half, b'{"epoch": 3, "lo')
                os.kill(os.getpid(), signal.SIGKILL)
            if count is not None:
                mine = os.open(count, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.write(mine, f"{path}\n".encode())
                os.close(mine)

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            if event not in _AUDITED or not isinstance(arguments[0], str | os.PathLike):
                return
            path = os.path.abspath(os.fspath(arguments[0]))
            writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT)
            if path.startswith(home) and writes:
                operation(path if event == "open" else None)

        def synced(handle: int) -> None:
            operation(None)
            fsync(handle)
            operation(None)

        sys.addaudithook(watch)
        os.fsync = synced
        work()

    return go


def kinds() -> dict[str, tuple[Callable[[Path], None], Callable[[Path], Callable[[], Any]]]]:
    """By name: what makes the folder ready, and the command that is killed and given again."""
    small = made.SMALL

    def fit(*words: Any) -> Callable[[Path], Callable[[], Any]]:
        return lambda place: command("fit", *words, *small, "--out", place / "out", "--resume")

    planted = ("planted", "-o", "nodes=60")
    here = ("--out", "out", "--resume", "--json")  # in the case's own folder

    def two_members(place: Path) -> None:
        run(command("fit", *planted, "--method", "erm", "--ensemble", 2, *small, "--out", place / "out"), place)

    return {
        "erm": (_nothing, fit(*planted, "--method", "erm")),
        "eerm": (_nothing, fit(*planted, "--views", 2, "--edits-per-node", 2)),
        "tables": (_nothing, fit("my.toml")),
        "logistic": (_nothing, lambda place: command("fit", *planted, "--method", "logistic", *here)),
        "ensemble": (_nothing, fit(*planted, "--method", "erm", "--ensemble", 3)),
        "larger ensemble": (two_members, fit(*planted, "--method", "erm", "--ensemble", 3)),
        "resumed": (
            lambda place: made.interrupted_fit(place / "out"),
            lambda place: command("fit", *here, "--checkpoint-every", 0),
        ),
        "study": (_nothing, lambda place: lambda: made.study(place / "out")),
        "partition": (_nothing, lambda place: command("partition", "my.toml", *made.PARTS, "--resume", "--out", "out")),
    }


def _nothing(place: Path) -> None:
    """Most need nothing to be ready."""


def digest(folder: Path) -> str:
    """What must be the same however often it was killed: weights, results, tables and histories without their cost."""
    from safetensors.torch import load_file

    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name == "provenance.json":
            continue
        total.update(str(path.relative_to(folder)).encode())
        if path.suffix == ".safetensors":
            for name, tensor in sorted(load_file(path).items()):
                total.update(name.encode() + tensor.numpy().tobytes())
        elif path.suffix == ".jsonl":
            rows = [json.dumps(_plain(json.loads(line)), sort_keys=True) for line in path.read_text().splitlines()]
            total.update("\n".join(rows if path.name == "history.jsonl" else sorted(rows)).encode())
        elif path.suffix == ".json":
            content = json.dumps(_plain(json.loads(path.read_text())), sort_keys=True)
            total.update(content.replace(str(folder.parent), "").encode())
        else:
            total.update(path.read_bytes())
    return total.hexdigest()


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {n: _plain(v) for n, v in content.items() if n not in (*_COST, "provenance")}
    return [_plain(one) for one in content] if isinstance(content, list) else content


def cases(base: Path, scratch: Path) -> Iterator[tuple[str, Callable[[Path], str]]]:
    """A name and a test for every kill point; the test gives what is wrong."""
    for kind, (prepare, work) in kinds().items():
        place = made.fresh(scratch / "reference", base)
        ended = run(lambda prepare=prepare, place=place: prepare(place), place)
        ready = scratch / f"ready-{kind}"
        shutil.rmtree(ready, ignore_errors=True)
        shutil.copytree(place, ready)
        counter = scratch / "count"
        counter.unlink(missing_ok=True)
        ended = run(hooked(work(place), place / "out", at=-1, torn=False, count=counter), place)
        if ended.problem():
            raise SystemExit(f"{kind}: the reference failed: {ended.problem()}\n{ended.text}")
        expected, operations = digest(place / "out"), counter.read_text().splitlines()
        step = 4 if len(operations) > 200 else 1  # an ensemble's members are fits like the others
        for at, path in enumerate(operations, 1):
            if not at % step:
                yield f"kill {kind} at {at}", _killed(ready, work, at, False, expected)
            if path.endswith(".jsonl"):
                yield f"kill {kind} at {at}, in the middle of a line", _killed(ready, work, at, True, expected)


def _killed(
    ready: Path, work: Callable[[Path], Callable[[], Any]], at: int, torn: bool, expected: str
) -> Callable[[Path], str]:
    def test(place: Path) -> str:
        made.fresh(place, ready)
        again = work(place)
        first = run(hooked(again, place / "out", at=at, torn=torn), place)
        if first.status != -signal.SIGKILL:
            return first.problem() or "was not killed"
        ended: Outcome = run(again, place)
        if ended.problem() or ended.status:
            return f"cannot go on: {ended.problem() or ended.text.strip()[-200:]}"
        return "" if digest(place / "out") == expected else "another result"

    return test

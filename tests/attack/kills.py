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

_COST = ("seconds", "seconds_per_epoch", "peak_rss_mb", "estimated_mb")
_AUDITED = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "open")


def hooked(
    work: Callable[[], Any], folder: Path, *, at: int, torn: bool, count: Path | None = None
) -> Callable[[], None]:
    """The work with a kill at the ``at``-th operation on files in a folder, or with a count of them."""

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
                mine = os.open(f"{count}", os.O_WRONLY | os.O_CREAT)
                os.pwrite(mine, f"{seen[0]:9d}".encode(), 0)
                os.close(mine)

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            if event not in _AUDITED or not isinstance(arguments[0], str | os.PathLike):
                return
            path = os.path.abspath(os.fspath(arguments[0]))
            writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT)
            if path.startswith(home) and writes:
                operation(path)

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
        return lambda place: command("fit", *words, *small, "--out", place / "run", "--resume")

    planted = ("planted", "-o", "nodes=60")
    nothing: Callable[[Path], None] = lambda place: None  # noqa: E731

    def two_members(place: Path) -> None:
        run(command("fit", *planted, "--method", "erm", "--ensemble", 2, *small, "--out", place / "run"), place)

    return {
        "erm": (nothing, fit(*planted, "--method", "erm")),
        "eerm": (nothing, fit(*planted, "--views", 2, "--edits-per-node", 2)),
        "tables": (nothing, lambda place: command("fit", place / "my.toml", *small, "--out", place / "run", "--resume")),
        "logistic": (nothing, lambda place: command("fit", *planted, "--method", "logistic", "--json", "--out", place / "run", "--resume")),
        "ensemble": (nothing, fit(*planted, "--method", "erm", "--ensemble", 3)),
        "larger ensemble": (two_members, fit(*planted, "--method", "erm", "--ensemble", 3)),
        "resumed": (lambda place: made.interrupted_fit(place / "run"), lambda place: command("fit", "--out", place / "run", "--resume", "--json", "--checkpoint-every", 0)),
        "study": (nothing, lambda place: lambda: made.study(place / "run")),
    }  # fmt: skip


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
        ended = run(hooked(work(place), place / "run", at=-1, torn=False, count=counter), place)
        if ended.problem():
            raise SystemExit(f"{kind}: the reference failed: {ended.problem()}\n{ended.text}")
        expected, operations = digest(place / "run"), int(counter.read_bytes())
        for torn in (False, True):
            for at in range(1, operations + 1) if not torn else range(2, operations + 1, 4):
                yield f"kill {kind} at {at}{' torn' * torn}", _killed(ready, place, work, at, torn, expected)


def _killed(
    ready: Path, home: Path, work: Callable[[Path], Callable[[], Any]], at: int, torn: bool, expected: str
) -> Callable[[Path], str]:
    def test(place: Path) -> str:
        made.fresh(place, ready)
        again = work(place)
        first = run(hooked(again, place / "run", at=at, torn=torn), place)
        if first.status != -signal.SIGKILL:
            return first.problem() or "was not killed"
        ended: Outcome = run(again, place)
        if ended.problem() or ended.status:
            return f"cannot go on: {ended.problem() or ended.text.strip()[-200:]}"
        return "" if digest(place / "run") == expected else "another result"

    return test

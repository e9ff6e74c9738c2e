"""Studies that are killed at any time: nothing is lost, and no worker outlives its study."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attack.kills import _plain

_PLAN = ("planted", "-o", "nodes=60", "--seeds", "2", "--tune", "2", "--methods", "erm,eerm", "--explorers", "random")
_PLAN += ("--set", "epochs=3", "--set", "views=2", "--no-in-domain", "--workers", "2", "--threads-per-worker", "1")
_PATIENCE = 2.0  # seconds that a worker may need to be gone


def _compare(folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "graphshift.cli", "compare", *_PLAN, "--out", str(folder)]
    return subprocess.Popen(words, cwd=folder.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _workers(parent: int) -> list[int]:
    """The workers that a study started, by the number that it gave them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[-2] == str(parent).encode() and words[-3].endswith(b"studies/worker.py"):
            found.append(int(entry.name))
    return found


def _numbers(folder: Path) -> str:
    return json.dumps(_plain(json.loads((folder / "summary.json").read_text())), sort_keys=True)


def cases(scratch: Path, seed: int, kills: int) -> Iterator[tuple[str, Callable[[Path], str]]]:
    """One study that is killed so many times and then finished, beside one that was left alone."""
    yield f"{kills} kills of compare", lambda place: _killed(scratch, seed, kills)


def _killed(scratch: Path, seed: int, kills: int) -> str:
    rng, whole, torn = random.Random(seed), scratch / "study-whole", scratch / "study-torn"
    alone = _compare(whole)
    started = time.monotonic()
    _, error = alone.communicate(timeout=600)
    took = time.monotonic() - started
    if alone.returncode:
        return f"the study that was left alone failed: {error.decode()[-300:]}"
    for _ in range(kills):
        study = _compare(torn)
        time.sleep(rng.uniform(0.1, 0.9) * took)
        os.kill(study.pid, signal.SIGKILL)
        study.communicate()
        until = time.monotonic() + _PATIENCE
        while (left := _workers(study.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        if left:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return f"{len(left)} workers outlived their study by {_PATIENCE} s"
    last = _compare(torn)
    _, error = last.communicate(timeout=600)
    if last.returncode:
        return f"the study could not be finished: {error.decode()[-300:]}"
    return "" if _numbers(whole) == _numbers(torn) else "the study that was killed has other numbers"

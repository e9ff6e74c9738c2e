"""Runs something in a forked child, where it may do its worst, and says how it ended.

Everything slow is imported before the fork, so a case costs what it does and not what Python's start does.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS, MEGABYTES = 60.0, 2048.0
_ROOM = 4 * 1024**3  # address space beyond the parent's, so that a case cannot take the machine down


@dataclass(frozen=True)
class Outcome:
    """How a child ended.

    Attributes:
        status: its exit status; negative for the signal that killed it.
        text: its standard output and error.
        seconds: how long it took, without the time that it waited for a core.
        megabytes: the most memory that it held beside what it was forked with, and a start of 350 MB.
    """

    status: int
    text: str
    seconds: float
    megabytes: float

    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if self.seconds >= SECONDS:
            where = [line.strip() for line in self.text.splitlines() if line.startswith("  File")]
            return f"hangs: over {SECONDS:.0f} s, in {' < '.join(where[:4])}"
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        if "Traceback (most recent call last)" in self.text:
            return "traceback: " + self.text.strip().splitlines()[-1][:150]
        if self.status not in (0, 2):
            return f"status {self.status}: {self.text.strip()[-150:]}"
        if self.status == 2 and len(self.text.strip()) > 20_000:
            return f"a message of {len(self.text):,} characters"
        if self.megabytes > MEGABYTES:
            return f"{self.megabytes:.0f} MB"
        return ""


def command(*words: Any) -> Callable[[], None]:
    """A ``graphshift`` command."""

    def run() -> None:
        from graphshift.cli import main

        sys.argv = ["graphshift", *map(str, words)]
        main()

    return run


def run(work: Callable[[], Any], folder: Path, *, seconds: float = SECONDS) -> Outcome:
    """Does the work in a child, in a folder."""
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        gc.freeze()
        pid = os.fork()
        if not pid:
            _be_child(work, folder, output.fileno())
        handle, waited = os.pidfd_open(pid), 0.0
        try:
            while not select.select([handle], [], [], 0.5)[0]:
                waited = _waited(pid)
                if time.monotonic() - started - waited >= seconds:
                    os.kill(pid, signal.SIGKILL)
                    break
        finally:
            os.close(handle)
        _, status, used = os.wait4(pid, 0)
        took = time.monotonic() - started - waited
        output.seek(0)
        text = output.read(200_000).decode(errors="replace")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    beside = max(used.ru_maxrss - own, 0) / 1024 + 350
    return Outcome(os.waitstatus_to_exitcode(status), text, took, beside)


def _waited(pid: int) -> float:
    """Seconds that a process was ready and had no core: on a busy machine that is no hang."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):  # it has ended, or this kernel does not count
        return 0.0


def _be_child(work: Callable[[], Any], folder: Path, output: int) -> None:
    status = 0
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        os.chdir(folder)
        faulthandler.dump_traceback_later(0.8 * SECONDS, file=2)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _ROOM, size + _ROOM))
        work()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        from graphshift.core.errors import GraphshiftError

        status = 2 if isinstance(error, GraphshiftError) else 1
        print(error) if status == 2 else traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

"""A worker: a process that takes jobs as lines of JSON and answers with records, until its study ends or dies.

Started as ``python graphshift/studies/worker.py PARENT`` rather than with ``multiprocessing``: nothing of the caller's
``__main__`` is imported again, so studies can be started from a script without a guard. By its path rather than by its
name: its package imports torch, which takes seconds, and a study that dies meanwhile must not leave it behind.
"""

import ctypes
import json
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from queue import SimpleQueue
from typing import Any


def main() -> None:
    """Reads the first line (dataset, options, threads), says that it is ready, then runs job after job."""
    _end_with_parent(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints must not end up among the answers
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    config = json.loads(lines.get())

    import torch

    from graphshift.studies.job_runner import JobRunner, Log
    from graphshift.studies.jobs import Job

    torch.set_num_threads(config["threads"])
    warnings.simplefilter("ignore")  # the study itself has shown the warnings about the data

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content, allow_nan=False) + "\n")
        answers.flush()

    data = None
    if "data" in config:  # in memory: the study itself has written this file, in a folder that only it can enter
        with Path(config["data"]).open("rb") as file:
            data = pickle.load(file)
    runner = JobRunner(config["dataset"], config["options"], data, Log(**config["log"]))
    answer({"ready": True})
    while True:
        answer(runner.run(Job(**json.loads(lines.get()))).to_json())


def _end_with_parent(parent: int) -> None:
    """Has this process end when its study does, whatever it is doing then: by the system on Linux, else by looking.

    The closed pipe says so too, but only to a thread that gets its turn, and not while a long import has it.
    """
    if sys.platform == "linux":
        set_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_signal, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before
        os._exit(0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


def _listen(lines: SimpleQueue[str]) -> None:
    """Passes lines on. When the study has gone, however it went, so has this process."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()

"""Real processes: workers that die, studies that are killed, and the same numbers afterwards."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from graphshift.cli import main
from graphshift.core.errors import GraphshiftError
from graphshift.studies import pool, run_study, running
from tiny_studies import ERM, OPTIONS, plan, without_cost

#: Nothing here takes so long, on any machine: it ends a test that would wait for ever.
HANGS = 1800


#: A worker that starts at once: it keeps to the protocol, and is killed over the first job that anybody gets.
FAKE = """
import json, os, pathlib, signal, sys
here = pathlib.Path(sys.argv[1])
json.loads(sys.stdin.readline())
print(json.dumps({"ready": True}), flush=True)
with (here / "started").open("a") as file:
    file.write("x")
for line in sys.stdin:
    job = json.loads(line)
    try:
        (here / "victim").open("x").write(job["id"])
        os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        tests = {"T1": 0.5, "T2": 0.25}
        chosen = {rule: {"epoch": 1, "score": 0.5, "val": 0.5, "tests": tests} for rule in job["rules"]}
        names = ("id", "kind", "arm", "dataset", "data_seed", "trial", "tuned", "environment", "settings")
        record = {name: job[name] for name in names} | {"status": "ok", "reason": None, "metric": "accuracy"}
        record |= {name: job["settings"][name] for name in ("method", "backbone", "seed")} | {"explorer": None}
        record |= {"selections": chosen, "majority": {}, "seconds": 1.0, "seconds_per_epoch": 1.0, "variance": None}
        print(json.dumps(record | {"peak_rss_mb": 1.0, "threads": 1, "version": "0"}), flush=True)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_dies_costs_its_fit_alone(workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fake.py").write_text(FAKE)
    monkeypatch.setattr(pool, "_WORKER", (str(tmp_path / "fake.py"), str(tmp_path)))
    study = run_study(plan(), tmp_path / "s", workers=workers, threads=1)
    states = {record.id: record.status for record in study.records}
    assert len(states) == 10
    assert [id_ for id_, status in states.items() if status == "failed"] == [(tmp_path / "victim").read_text()]
    assert study.summary.failed[0].reason == (
        "the worker that ran it was lost: killed by SIGKILL (out of memory, perhaps)."
    )
    if workers == 1:  # with two, the other may do all the rest before a third has started
        assert (tmp_path / "started").read_text() == "xx"  # another took its place


def test_a_worker_that_ends_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ending = (
        "import sys; sys.stdin.readline(); print('{}', flush=True); sys.stdin.readline(); sys.exit('no such library')"
    )
    monkeypatch.setattr(pool, "_WORKER", ("-c", ending))
    study = run_study(plan(arms=[ERM], trials=0, seeds=[0]), workers=1, threads=1)
    assert study.records[0].reason == "the worker that ran it was lost: ended with status 1: no such library."


def test_a_worker_is_gone_as_soon_as_its_study_is() -> None:
    busy = (
        "import importlib.util, queue, sys, threading, time\n"
        "spec = importlib.util.spec_from_file_location('worker', sys.argv[1])\n"
        "worker = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(worker)\n"
        "threading.Thread(target=worker._listen, args=(queue.SimpleQueue(),), daemon=True).start()\n"
        "print('at work', flush=True)\n"
        "time.sleep(7200)"
    )
    path = Path(pool.__file__).with_name("worker.py")
    worker = subprocess.Popen([sys.executable, "-c", busy, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"at work\n"
        assert worker.poll() is None
        assert worker.stdin is not None
        worker.stdin.close()  # which is what the system does when a study is killed
        assert worker.wait(timeout=HANGS) == 0
    finally:
        worker.kill()


def test_workers_that_cannot_start_end_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_WORKER", ("-c", "raise SystemExit('broken')"))
    with pytest.raises(GraphshiftError, match="workers cannot be started; the last one ended with status 1: broken"):
        run_study(plan(), workers=2, threads=1)


COMPARE = [
    "compare",
    "planted",
    *(f"-o{name}={value}" for name, value in OPTIONS.items()),
    "--methods",
    "erm,eerm",
    "--explorers",
    "random",
    "--backbones",
    "gcn",
    "--seeds",
    "2",
    "--tune",
    "3",
    "--set",
    "epochs=60",
    "--set",
    "views=2",
    "--set",
    "hidden=4",
    "--threads-per-worker",
    "1",
    "--no-in-domain",
]


#: The command, which stops for ever when its worker has been given a job after a number of others.
STOPPING = """
import sys, time
from graphshift.cli import main
from graphshift.studies.pool import Pool
left, start = int(sys.argv.pop(1)), Pool.start
def start_and_stop(self, job):
    global left
    start(self, job)
    if left == 0:
        print("stopped", flush=True)
        time.sleep(1e6)
    left -= 1
Pool.start = start_and_stop
main()
"""


def test_a_study_killed_at_any_moment_ends_with_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, after = tmp_path / "study", random.randint(1, 8)
    results = folder / "results.jsonl"
    study = subprocess.Popen(
        [sys.executable, "-c", STOPPING, str(after), *COMPARE, "--out", folder], stdout=subprocess.PIPE, text=True
    )
    try:
        assert study.stdout is not None
        assert study.stdout.readline() == "stopped\n"
        workers = psutil.Process(study.pid).children()
    finally:
        study.kill()  # the study alone: its workers have to notice
    study.communicate()
    kept = results.read_bytes()
    assert len(kept.splitlines()) == after
    assert len(workers) == 1
    assert not psutil.wait_procs(workers, timeout=HANGS)[1]
    assert not (folder / "table.txt").exists()

    # What is left, and an undisturbed study, both in this process: workers or not must not matter either.
    monkeypatch.setattr(running.Session, "_run_in_workers", lambda self, display: self._run_here(display, None))
    monkeypatch.setattr("graphshift.report.study_report.draw_figures", lambda *_: [])
    for out in (folder, tmp_path / "whole"):
        monkeypatch.setattr(sys, "argv", ["graphshift", *COMPARE, "--out", str(out)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    assert results.read_bytes().startswith(kept)
    ids = [json.loads(line)["id"] for line in results.read_text().splitlines()]
    assert len(ids) == len(set(ids)) == 10
    ours, theirs = (json.loads((out / "summary.json").read_text()) for out in (folder, tmp_path / "whole"))
    assert without_cost(ours) == without_cost(theirs)
    tables = [(out / "table.txt").read_text().split("cost of the runs")[0] for out in (folder, tmp_path / "whole")]
    assert tables[0] == tables[1]


def test_a_worker_does_not_outlive_a_study_that_dies_while_it_starts(tmp_path: Path) -> None:
    """The study here starts a worker and dies before the worker has imported anything."""
    script = (
        "import os, subprocess, sys\n"
        "worker = subprocess.Popen([sys.executable, '-P', sys.argv[1], str(os.getpid())], stdin=subprocess.PIPE)\n"
        "os.set_inheritable(worker.stdin.fileno(), True)\n"
        "if os.fork():  # whose copy of the pipe stays open: that it closes cannot be what ends the worker\n"
        "    print(worker.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "import time; time.sleep(7200)\n"
    )
    path = Path(pool.__file__).with_name("worker.py")
    study = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert study.stdout is not None
        worker = psutil.Process(int(study.stdout.readline()))
        psutil.wait_procs([worker], timeout=HANGS)
        assert not worker.is_running()
    finally:
        for process in psutil.process_iter():
            if process.pid != study.pid and _group(process) == study.pid:
                process.kill()
        study.wait()


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:
        return None

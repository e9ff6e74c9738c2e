"""``make attack``: hostile inputs and kills, with a table of how they ended.

Nothing may end by a signal of its own, with a traceback, after more than 60 s or with more than 2 GB; no input may run
code; what was killed must go on with the same command and end with the same weights, results and tables.

    python -m attack.run [--size 1.0] [--seed 0] [--only hostile|kills|studies] [--lanes 2] [--match TEXT]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

Case = tuple[str, str, Callable[[Path], str]]


def main() -> None:
    """Runs all parts and exits with status 1 if anything fell short."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=float, default=1.0, help="share of the random hostile inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["hostile", "kills", "studies"])
    parser.add_argument("--lanes", type=int, default=2, help="cases at the same time")
    parser.add_argument("--match", default="", help="only cases whose name has this")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        os.environ["GRAPHSHIFT_CACHE"] = str(Path(folder) / "cache")
        scratch = Path(folder).resolve()
        base = _make(scratch / "base")
        found = _run(given, base, scratch)
    _show(found, time.monotonic() - started)
    raise SystemExit(1 if any(problem for _, _, problem in found) else 0)


def _make(base: Path) -> Path:
    """Imports everything that is slow, once, and makes the files that are attacked."""
    import torch

    from attack import made, raw
    from attack.child import command, run

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    base.mkdir(parents=True)
    ensemble = ("fit", "planted", "-o", "nodes=60", "--method", "erm", "--ensemble", 2, *made.SMALL)
    for work in (
        lambda: raw.make(base),
        lambda: made.make_tables(base),  # pyarrow's threads, once started here, would not survive the forks
        command("fit", base / "my.toml", *made.SMALL, "--out", base / "run"),
        command(*ensemble, "--out", base / "ensemble"),
        lambda: made.interrupted_fit(base / "begun"),
        lambda: made.study(base / "study"),
        command("partition", base / "my.toml", *made.PARTS, "--out", base / "parts"),
        lambda: made.half_partition(base),
    ):
        ended = run(work, base)
        if ended.status:
            raise SystemExit(f"the files to attack could not be made:\n{ended.text}")
    # Once here as well, so that what is imported late is there before the forks.
    made.interrupted_fit(base.parent / "warm")
    made.study(base.parent / "warm-study")
    return base


def _cases(given: argparse.Namespace, base: Path, scratch: Path) -> Iterator[Case]:
    from attack import hostile, kills, studies

    parts: dict[str, Callable[[], Iterator[tuple[str, Callable[[Path], str]]]]] = {
        "hostile": lambda: hostile.cases(base, given.seed, given.size),
        "kills": lambda: kills.cases(base, scratch),
        "studies": lambda: studies.cases(scratch, given.seed, 20),
    }
    number = 0
    for part, cases in parts.items():
        if given.only in (None, part):
            for name, test in cases():
                number += 1
                if given.match in name and not number % given.every:
                    yield part, name, test


def _run(given: argparse.Namespace, base: Path, scratch: Path) -> list[tuple[str, str, str]]:
    """The cases in lanes, each a process that takes every n-th case; part, name and problem of each."""
    lanes = []
    for lane in range(given.lanes):
        report = scratch / f"lane-{lane}.jsonl"
        pid = os.fork()
        if not pid:
            _lane(given, base, scratch / f"lane-{lane}", lane, report)
        lanes.append((pid, report))
    for pid, _ in lanes:
        os.waitpid(pid, 0)
    found = [json.loads(line) for _, report in lanes for line in report.read_text().splitlines()]
    return [tuple(one) for one in found]


def _lane(given: argparse.Namespace, base: Path, own: Path, lane: int, report: Path) -> None:
    status = 0
    try:
        own.mkdir()
        with report.open("w") as file:
            for number, (part, name, test) in enumerate(_cases(given, base, own)):
                if number % given.lanes != lane:
                    continue
                try:
                    problem = test(own / "place")
                except Exception:
                    problem = "the attack itself failed: " + traceback.format_exc()[-600:]
                if problem:
                    print(f"  {part}: {name}: {problem}", flush=True)
                file.write(json.dumps([part, name, problem]) + "\n")
                file.flush()
    except BaseException:
        traceback.print_exc()
        report.open("a").write(json.dumps(["lane", str(lane), "ended early"]) + "\n")
        status = 1
    finally:
        sys.stdout.flush()
        os._exit(status)


def _show(found: list[tuple[str, str, str]], seconds: float) -> None:
    def kind_of(part: str, name: str) -> tuple[str, str]:
        return part, name.split(" at ")[0].removeprefix("kill ") if part == "kills" else name.split()[0]

    kinds = Counter(kind_of(part, name) for part, name, _ in found)
    wrong = Counter(kind_of(part, name) for part, name, problem in found if problem)
    print(f"\n{'part':10} {'kind':22} {'cases':>7} {'short of it':>12}")
    for (part, kind), count in sorted(kinds.items()):
        print(f"{part:10} {kind:22} {count:7,} {wrong[part, kind]:12,}")
    total = Counter(part for part, _, _ in found)
    said = (
        f"{total['hostile']:,} hostile inputs, {total['kills']:,} kill points, {20 * total['studies']} kills of studies"
    )
    print(f"\n{said} in {seconds / 60:.1f} min; {sum(wrong.values()):,} fell short.")


if __name__ == "__main__":
    main()

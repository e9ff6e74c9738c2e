"""Runs the parts of the suite. What fails is kept with its reason; what was measured before Ctrl-C is kept too."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from graphshift.core.progress import error_console
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.machine import about
from graphshift.lab.bench.parts import PARTS
from graphshift.lab.bench.sizes import SIZES
from graphshift.lab.bench.tables import FORMAT


def run_suite(
    names: Sequence[str],
    size: str = "full",
    *,
    threads: int | None = None,
    data_dir: Path | None = None,
    save: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Runs parts of the suite and gives what ``results.json`` holds.

    Args:
        names: of parts.
        size: a name from ``SIZES``.
        threads: for torch, here and in the processes that are started; None for as many as torch takes.
        data_dir: where the raw files of datasets are.
        save: called with the results so far after each part.

    Returns:
        The results; ``"stopped"`` names the part in which Ctrl-C came, or is None.
    """
    # Threads that spin while they wait disturb what is timed next. Torch reads this when it starts its threads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    before = torch.get_num_threads()
    threads = threads or before
    torch.set_num_threads(threads)
    sizes = SIZES[size]
    results: dict[str, Any] = {
        "format": FORMAT,
        "about": about(threads),
        "size": size,
        "sizes": asdict(sizes),
        "stopped": None,
        "parts": {},
    }
    try:
        with tempfile.TemporaryDirectory(prefix="graphshift-bench-") as folder, _progress(names) as tell:
            for name in names:
                tell(name, None)
                bench = Bench(sizes, Path(folder), threads, data_dir, partial(tell, name))
                results["stopped"] = name if _run_part(name, bench) else None
                if not bench.outcome.is_empty:
                    results["parts"][name] = bench.outcome.as_json()
                if save is not None and results["parts"]:
                    save(results)
                if results["stopped"]:
                    break
    finally:
        torch.set_num_threads(before)
    return results


def _run_part(name: str, bench: Bench) -> bool:
    """Runs one part; whether it was stopped by Ctrl-C."""
    started = time.monotonic()
    try:
        import_module(f"graphshift.lab.bench.{PARTS[name].module}").run(bench)
    except KeyboardInterrupt:
        return True
    except Exception as error:
        bench.failed("the whole part", error)
    finally:
        bench.outcome.seconds = time.monotonic() - started
        gc.collect()
    return False


@contextmanager
def _progress(names: Sequence[str]) -> Iterator[Callable[[str, str | None], None]]:
    """A bar over the parts with what is under way; lines on standard error where there is no terminal."""
    console = error_console()
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("parts"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))

        def tell(name: str, text: str | None) -> None:
            about_it = f"{name}: {text or PARTS[name].what}"
            progress.update(task, completed=list(names).index(name), description=about_it)
            if text is None and not console.is_terminal:  # no bar there
                print(f"{about_it} …", file=sys.stderr, flush=True)

        yield tell

"""What a user waits for: a whole ``graphshift fit`` of one epoch beside the mere import of PyG."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence

from graphshift.datasets.reading.files import data_directory
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.memory import child_environment
from graphshift.lab.bench.timing import in_turns

_BAR = 2.0


def run(bench: Bench) -> None:
    """Measures both as processes, in turns."""
    what = "`graphshift fit cora --epochs 1` over `import torch_geometric`"
    if not bench.has_data("cora"):
        bench.measured("fit-over-import", what, None, bar=_BAR, reason="the files of cora are not there (--data-dir)")
        return
    counter = itertools.count()
    given = ["--data-dir", str(data_directory(bench.data_dir))]

    def fit() -> None:
        out = str(bench.folder / f"fit-{next(counter)}")
        _process(bench, ["-m", "graphshift.cli", "fit", "cora", "--epochs", "1", "--out", out, *given])

    with bench.stage("a fit beside an import"):
        jobs = [fit, lambda: _process(bench, ["-c", "import torch_geometric"])]
        fitted, imported = in_turns(jobs, rounds=bench.sizes.starts)
        bench.outcome.data |= {"fit": fitted, "import": imported}
        bench.measured("fit-over-import", what, fitted / imported, bar=_BAR)


def _process(bench: Bench, arguments: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=child_environment(bench.threads), check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[:4])} ended with {done.returncode}: {done.stderr.strip()[-200:]}")

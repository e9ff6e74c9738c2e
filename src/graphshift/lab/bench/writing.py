"""The results as files: ``results.json`` and ``results.md``; ``plots`` draws the pictures beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import write_json, write_text
from graphshift.lab.bench.plots import PLOTS
from graphshift.lab.bench.tables import markdown


def write_tables(results: Mapping[str, Any], folder: Path) -> None:
    """Writes ``results.json`` and ``results.md``, and removes the plots of an earlier run; all else there stays.

    Args:
        results: of :func:`graphshift.lab.bench.suite.run_suite`, or what there is of them.
        folder: made if need be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in PLOTS:
            for suffix in ("png", "svg"):
                (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise GraphshiftError(f"{folder}: cannot be made ready: {error.strerror}.") from None
    write_json(folder / "results.json", results)
    write_text(folder / "results.md", markdown(results))

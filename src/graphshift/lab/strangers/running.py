"""Writes a stranger's tables, runs ``init`` and ``recommend`` on them, and looks at the test labels last."""

from __future__ import annotations

import re
import tempfile
import time
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.registry import expected_one_of
from graphshift.data.metrics import METRICS
from graphshift.datasets import load
from graphshift.datasets.tables.describe import describe_tables
from graphshift.lab.strangers.making import MADE, Stranger
from graphshift.lab.strangers.real import REAL
from graphshift.lab.strangers.reference import reference_scores
from graphshift.studies.recommending import Recommendation, recommend_on


@dataclass(frozen=True)
class Case:
    """A stranger, and how long they are willing to wait.

    Attributes:
        name: in :data:`MADE` or :data:`REAL`.
        draw: seed of what is made.
        budget: seconds.
    """

    name: str
    draw: int = 0
    budget: float = 60.0

    @property
    def key(self) -> str:
        """Its name in the ledger."""
        return f"{self.name}, {self.draw}, {self.budget:g} s"

    def tables(self, data_dir: Path | None) -> Stranger:
        """Its tables."""
        if self.name in REAL:
            return REAL[self.name](data_dir)
        return MADE[self.name](np.random.default_rng([self.draw, crc32(self.name.encode())]))


def cases(draws: int = 1, *, names: str | None = None, budget: float = 60.0, quick: bool = False) -> list[Case]:
    """All of them, or those of these names, with commas between; ``quick`` has a small made one alone."""
    if quick:
        return [Case("visits", 0, 5.0)]
    made = [Case(name, draw, budget) for draw in range(draws) for name in MADE]
    known = [*made, *(Case(name, 0, budget) for name in REAL)]
    wanted = [*MADE, *REAL] if names is None else [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in MADE and name not in REAL:
            raise GraphshiftError(f"--experiments has {name!r}; {expected_one_of(name, [*MADE, *REAL])}")
    return [case for case in known if case.name in wanted]


def record_of(case: Case, data_dir: Path | None, workers: int) -> dict[str, Any] | None:
    """The record of one case; None where its files are not there."""
    try:
        stranger = case.tables(data_dir)
    except GraphshiftError:
        return None
    return measured(case, stranger, workers)


def measured(case: Case, stranger: Stranger, workers: int) -> dict[str, Any]:
    """The record of one case.

    Args:
        case: from :func:`cases`.
        stranger: its tables.
        workers: of ``recommend``.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        paths = [Path(folder) / name for name in ("nodes.csv", "edges.csv")]
        for table, path in zip((stranger.nodes, stranger.edges), paths, strict=True):
            table.to_csv(path, index=False)
        options = options_of(describe_tables(*paths, base=folder, **stranger.asked), stranger, Path(folder))
        before = time.monotonic()
        found = recommend_on("own", options, budget=case.budget, workers=workers)
        seconds = time.monotonic() - before
        data = load("own", **options)
        references = reference_scores(stranger.nodes, options, data)
    about = {"case": case.key, "stranger": case.name, "draw": case.draw, "budget": case.budget}
    about |= {"seconds": round(seconds, 1), "metric": data.task.metric, "nodes": len(stranger.nodes)}
    about["roles"] = {role: [e.name for e in own] for role, own in data.roles.items()}
    return {**about, "references": references, **_chosen(found)}


def options_of(text: str, stranger: Stranger, folder: Path) -> dict[str, Any]:
    """What the file that ``init`` wrote says of the data, with the user's changes."""
    if "environments" in stranger.changes:  # whatever was proposed is taken back
        pattern = (
            r"(?m)^(environments|train|val|tests|unlabelled|time|train_until|val_until|test_until|target_until) = "
        )
        text = re.sub(pattern, r"# \1 = ", text)
    for option, line in stranger.changes.items():
        text = re.sub(rf"(?m)^(# )?{option} = .*$", "", text) + line + "\n"
    options: dict[str, Any] = tomllib.loads(text)["data"]
    return options | {name: str(folder / options[name]) for name in ("nodes", "edges")}


def _chosen(found: Recommendation) -> dict[str, Any]:
    frame = found.frame
    sign = METRICS[found.study.plan.metric].sign
    own = frame[frame["recommended"]].iloc[0]
    best = frame.loc[(sign * frame["mean_test"]).idxmax()]
    rows = [
        {"name": r["candidate"], "score": r["score"], "test": r["mean_test"], "seconds": r["seconds"]}
        for _, r in frame.iterrows()
    ]
    size = found.size
    return {
        "chosen": {"name": own["candidate"], "score": own["score"], "test": own["mean_test"]},
        "best": {"name": best["candidate"], "test": best["mean_test"]},
        "size": {"seeds": size.seeds, "trials": size.trials, "epochs": size.epochs, "leave_out": size.leave_out},
        "places": list(found.places),
        "candidates": rows,
        "dropped": dict(found.dropped),
        "notes": list(found.notes),
    }

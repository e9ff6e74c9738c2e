"""Studies that run in a second or two, for the tests of studies, reports and commands."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.studies import Arm, Plan, Record, Row, Study, run_study
from graphshift.studies.records import Selected

#: Sixty nodes, two tests, four epochs.
OPTIONS = {"nodes": 60, "environments": 4, "degree": 4.0}
TINY = {"epochs": 4, "hidden_channels": 4}
ERM = Arm("ERM", {"method": "erm", **TINY}, {"lr": [0.01, 0.1]})
RANDOM = Arm(
    "EERM random",
    {"method": "eerm", "explorer": "random", "views": 2, **TINY},
    {"lr": [0.01, 0.1], "edits_per_node": [1, 2]},
)


def plan(**changes: Any) -> Plan:
    """A plan with two arms, two seeds and three trials each."""
    given: dict[str, Any] = {"arms": [ERM, RANDOM], "seeds": [0, 1], "options": OPTIONS, "trials": 3}
    return Plan("planted", **given | changes)


@functools.cache
def everything() -> Study:
    """A finished study with every rule and the in-domain limit. Tests only read it."""
    whole = plan(seeds=[0, 1, 2], selections=("val", "id_val", "oracle"), in_domain=True)
    return run_study(whole, workers=0, threads=1)


def record(**changes: Any) -> Record:
    """A run that finished; ``selected`` are changes of what ``val`` chose."""
    selected = {"epoch": 1, "score": 0.5, "val": 0.5, "tests": {"T1": 0.5}} | changes.pop("selected", {})
    given: dict[str, Any] = {
        "kind": "run",
        "id": "run / ERM",
        "dataset": "planted",
        "arm": "ERM",
        "method": "erm",
        "backbone": "gcn",
        "explorer": None,
        "data_seed": None,
        "seed": 0,
        "trial": None,
        "tuned": {},
        "environment": None,
        "settings": {},
        "status": "ok",
        "metric": "accuracy",
        "selections": {"val": Selected(**selected)},
        "threads": 1,
        "version": "0",
    }
    return Record(**given | changes)


def row(arm: str, tests: dict[str, float], *, val: float | None = None, **changes: Any) -> Row:
    """A final run of an arm with these scores; ``changes`` are of its record."""
    return Row(record=record(arm=arm, **changes), rule="val", arm=arm, val=val, tests=tests)


def without_cost(content: Any) -> Any:
    """What must be the same however a study was run: all but times, memory and where it was run."""
    drop = ("seconds", "seconds_per_epoch", "peak_rss_mb", "provenance", "threads")
    if isinstance(content, dict):
        return {name: without_cost(value) for name, value in content.items() if name not in drop}
    if isinstance(content, list):
        return [without_cost(value) for value in content]
    return content


class Untouchable(Environment):
    """A test environment that tells when anybody looks at it."""

    def __init__(self) -> None:
        """Nothing is set: whatever is asked for is missing."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"somebody looked at the tests: {name}")


def guarded(data: ShiftDataset) -> ShiftDataset:
    """The data with tests that nobody may look at."""
    copy = replace(data)
    object.__setattr__(copy, "tests", (Untouchable(), Untouchable()))
    return copy

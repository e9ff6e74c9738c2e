"""What does not fit gets the command with ``partition``; what is read in parts is not counted as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import graphshift as gs
from graphshift.fitting.memory.advice import advice
from graphshift.fitting.memory.estimating import estimate

HELD = 300_000_000  # the process, as if it were so


def test_what_cannot_fit_is_told_how_to_be_partitioned() -> None:
    data = gs.load("planted", nodes=4_000)
    settings = gs.EERM("gcn", explorer="random").resolved(data.defaults)
    whole = estimate(data, settings, resident=HELD)
    told = advice(data, settings, whole.parts["process"] + 600_000, resident=HELD)
    found = re.search(r"partition DATA --parts (\d+) --out FOLDER`, then `graphshift fit FOLDER --batch-parts 4", told)
    assert found is not None, told
    assert int(found[1]) >= 8
    assert "of 4,000 nodes" in told


def test_a_fit_on_parts_is_estimated_by_a_batch(tmp_path: Path) -> None:
    whole = gs.load("planted", nodes=3_000)
    data = gs.partition(whole, tmp_path / "p", parts=30, by="streaming", hops=0)
    settings = gs.EERM("gcn", explorer="random", batch_parts=2).resolved(data.defaults)
    on_parts, at_once = (estimate(d, s, resident=HELD).parts for d, s in ((data, settings), (whole, settings)))
    assert on_parts["activations"] < 0.1 * at_once["activations"]
    learning = settings.replace(explorer="reinforce")
    policies = [estimate(d, learning, resident=HELD).parts["policies"] for d in (data, whole)]
    assert policies[0] >= policies[1]  # kept for every node of the whole

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from graphshift.lab.shift import running
from graphshift.lab.shift.halves import halves, real_graphs
from graphshift.lab.shift.planting import STRENGTHS, made_pair, planted
from graphshift.lab.shift.tables import shift_tables

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def test_planted_shifts_are_compared_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "STRENGTHS", {"labels": STRENGTHS["labels"]})
    wanted = list(running.cases(None, draws=1, halvings=0))
    found = [record for case in wanted if (record := running.record_of(case)) is not None]
    assert [record["case"] for record in found] == [case.key for case in wanted]
    assert [record["strength"] for record in found] == ["middle", "weak", "strong"]
    alarms, named = shift_tables(found)
    assert alarms.rows[-1][1] == "0"
    assert named.rows[2][:3] == ["labels", "strong (0.5)", "1"]


def test_halves_of_a_graph_that_is_not_here_are_left_out(tmp_path: Path) -> None:
    first = next(running.cases(tmp_path, draws=0, halvings=1))
    assert first.kind == "halves"
    assert running.record_of(first) is None


def test_tables_count() -> None:
    def record(kind: str, what: str, moved: list[str], strength: str = "none") -> dict[str, object]:
        return {"kind": kind, "what": what, "strength": strength, "moved": moved}

    records = [record("halves", "Reed98", []), record("halves", "twitch DE", ["edges"])]
    records += [record("planted", "edges", moved, "weak") for moved in (["edges"], ["labels", "edges"], [])]
    alarms, named = shift_tables(records)
    assert alarms.rows[-1] == ["all", "2", "1", "50.0", "edges 1"]
    assert named.rows == [["edges", "weak (0.1)", "3", "67", "33", "33"]]


def test_halves_are_whole_communities_of_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not here: {SHARED} does not exist")
    monkeypatch.setenv("GRAPHSHIFT_CACHE", str(tmp_path))
    whole = dict(real_graphs(SHARED))["Reed98"]()
    one, other = halves(whole, 0)
    assert one.num_nodes + other.num_nodes == whole.num_nodes
    assert abs(one.num_nodes - other.num_nodes) < 0.1 * whole.num_nodes
    cut = whole.graph.num_edges - one.graph.num_edges - other.graph.num_edges
    assert cut < 0.5 * whole.graph.num_edges  # a random half cuts half


def test_planted_shifts_move_one_thing() -> None:
    source, _ = made_pair("labels", 0.0, 0, nodes=300)
    generator = np.random.default_rng(0)
    edges = planted(source, "edges", 0.4, generator)
    assert torch.equal(edges.x, source.x)  # type: ignore[arg-type]
    assert float((edges.graph.degree - source.graph.degree).abs().mean()) < 0.3  # but for loops and doubles
    fewer = planted(source, "structure", 0.5, generator)
    assert fewer.graph.num_edges == pytest.approx(source.graph.num_edges / 2, rel=0.1)
    shares = torch.bincount(planted(source, "labels", 0.2, generator).labels, minlength=4)
    assert float(shares[:2].sum()) < float(shares[2:].sum())
    assert json.dumps(STRENGTHS)

"""``graphshift fit --ensemble``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import graphshift as gs

SMALL: dict[str, Any] = {"epochs": 4, "hidden_channels": 4}


def test_a_flag_trains_one(graphshift: Any, tmp_path: Path) -> None:
    run = ("fit", "planted", "-o", "nodes=60", "--method", "erm", "--epochs", "4", "--hidden", "4", "--seed", "5")
    answer = graphshift(*run, "--ensemble", "3", "--out", tmp_path / "e")
    assert answer.status == 0
    assert "ensemble of 3" in answer.out
    result = json.loads((tmp_path / "e" / "result.json").read_text())
    assert [member["seed"] for member in result["members"]] == [5, 6, 7]
    data = gs.load("planted", nodes=60)
    alone = [gs.ERM(seed=seed, **SMALL, lr=0.01).fit(data.train, data.val) for seed in (5, 6, 7)]
    assert result["tests"] == gs.Ensemble(alone).score(data.tests)
    scored = graphshift("score", tmp_path / "e", "planted", "-o", "nodes=60", "--json")
    assert json.loads(scored.out)["tests"] == result["tests"]
    predicted = graphshift("predict", tmp_path / "e", "planted", "-o", "nodes=60", "--out", tmp_path / "p.csv")
    assert predicted.status == 0
    refused = graphshift(*run, "--ensemble", "3", "--out", tmp_path / "e")
    assert refused.status == 2
    assert "exists and is not empty; nothing was changed" in refused.err


def test_it_goes_on_without_being_told_what_it_was(graphshift: Any, tmp_path: Path) -> None:
    run = ("fit", "planted", "-o", "nodes=60", "--method", "erm", "--epochs", "4", "--hidden", "4")
    graphshift(*run, "--ensemble", "2", "--out", tmp_path / "e")
    before = json.loads((tmp_path / "e" / "result.json").read_text())
    (tmp_path / "e" / "result.json").unlink()
    (tmp_path / "e" / "member-2" / "result.json").unlink()
    answer = graphshift("fit", "--out", tmp_path / "e", "--resume", "--json")
    assert answer.status == 0
    assert json.loads(answer.out)["tests"] == before["tests"]
    graphshift(*run, "--seed", "3", "--out", tmp_path / "e", "--force")
    single = json.loads((tmp_path / "e" / "result.json").read_text())
    scored = graphshift("score", tmp_path / "e", "planted", "-o", "nodes=60", "--json")
    assert json.loads(scored.out)["tests"] == single["tests"]

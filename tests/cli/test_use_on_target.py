"""A fit with an unlabelled target: its predictions are written, and nothing is scored on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import graphshift as gs
from votes import VOTES


@pytest.fixture
def target_run(graphshift: Any, tables: tuple[Path, Path], tmp_path: Path) -> Any:
    """The printed output of a fit whose environment ES has no labels that may be used."""
    (tmp_path / "votes.toml").write_text(VOTES.replace("tests = ", "unlabelled = "))
    answer = graphshift("fit", tmp_path / "votes.toml", "--out", tmp_path / "run")
    assert answer.status == 0, answer.err
    return answer


def test_fit_writes_predictions_for_the_target_and_says_what_they_are(
    graphshift: Any, target_run: Any, spain: tuple[Path, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    result, table = json.loads((run / "result.json").read_text()), pd.read_csv(run / "predictions.csv")
    assert list(table.columns) == ["id", "environment", "role", "counted", "prediction", "p(north)", "p(south)"]
    assert sorted(table["id"]) == sorted(pd.read_csv(spain[0])["id"])
    assert set(table["role"]) == {"target"}
    shares = {name: (table["prediction"] == name).mean() for name in ("north", "south")}
    found = result["target"]["ES"]
    assert (found["nodes"], found["shares"]) == (15, shares)
    assert found["confidence"] == pytest.approx(table[["p(north)", "p(south)"]].max(axis=1).mean(), rel=1e-4)
    assert result["tests"] == {}
    assert f"target ES: 15 nodes, {max(shares, key=shares.get)} {100 * max(shares.values()):.0f} %" in target_run.out
    assert "votes · ERM · gcn · seed 0" in target_run.out
    assert "validation" in target_run.out


def test_predict_includes_the_target_and_score_leaves_it_out(graphshift: Any, target_run: Any, tmp_path: Path) -> None:
    run, toml = tmp_path / "run", tmp_path / "votes.toml"
    assert graphshift("predict", run, toml, "--out", tmp_path / "p.csv").status == 0
    table = pd.read_csv(tmp_path / "p.csv")
    assert table["role"].value_counts().to_dict() == {"train": 30, "val": 15, "target": 15}
    own = table[table["role"] == "target"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, pd.read_csv(run / "predictions.csv"))
    found = json.loads(graphshift("score", run, toml, "--json").out)
    assert (set(found["train"]), set(found["val"]), found["tests"]) == ({"DE", "AT"}, {"FR"}, {})
    assert "target" not in found


def test_a_run_that_is_replaced_leaves_no_predictions_of_the_old_one(
    graphshift: Any, target_run: Any, tmp_path: Path
) -> None:
    (tmp_path / "votes.toml").write_text(VOTES)
    assert graphshift("fit", tmp_path / "votes.toml", "--out", tmp_path / "run", "--force").status == 0
    assert not (tmp_path / "run" / "predictions.csv").exists()


def test_an_ensemble_predicts_the_target_too(graphshift: Any, tables: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "votes.toml").write_text(VOTES.replace("tests = ", "unlabelled = "))
    answer = graphshift("fit", tmp_path / "votes.toml", "--ensemble", 2, "--out", tmp_path / "run", "--json")
    assert answer.status == 0
    result, model = json.loads(answer.out), gs.load_model(tmp_path / "run")
    table = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert result["target"]["ES"]["nodes"] == len(table) == 15
    assert result["confidence"]["temperature"] == model.confidences_[""].temperature
    data = gs.load("own", **json.loads((tmp_path / "run" / "config.json").read_text())["options"])
    expected = model.predict_frame(data.target)
    assert table["prediction"].tolist() == expected["prediction"].tolist()
    assert table["p(south)"].tolist() == pytest.approx(expected["p(south)"], rel=1e-5)

"""``graphshift score`` and ``predict``: a saved model at work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import graphshift as gs

DATA = ("planted", "-o", "nodes=60")


@pytest.mark.parametrize("part", ["", "model"])
def test_scores_are_the_models(graphshift: Any, fitted: Path, part: str) -> None:
    answer = graphshift("score", fitted / part, *DATA, "--json")
    assert (answer.status, answer.err) == (0, "")
    found = json.loads(answer.out)
    data, model = gs.load("planted", nodes=60), gs.load_model(fitted / "model")
    assert found == {
        "dataset": "planted", "metric": "accuracy", "train": model.score(data.train), "val": model.score(data.val),
        "tests": model.score(data.tests),
    }  # fmt: skip
    assert found["tests"] == json.loads((fitted / "result.json").read_text())["tests"]


def test_a_table_shows_every_environment(graphshift: Any, fitted: Path) -> None:
    answer = graphshift("score", fitted, *DATA)
    assert (answer.status, answer.err) == (0, "")
    data, model = gs.load("planted", nodes=60), gs.load_model(fitted / "model")
    for e in data.environments:
        (line,) = [line for line in answer.out.splitlines() if f"│ {e.name} " in line]
        assert f"{100 * model.score(e):.1f}" in line
        assert f"{100 * e.majority:.1f}" in line
    assert "accuracy (%)" in answer.out


def test_other_data_are_scored_too(graphshift: Any, fitted: Path) -> None:
    answer = graphshift("score", fitted, "planted", "-o", "nodes=80", "-o", "seed=3", "--json")
    model = gs.load_model(fitted / "model")
    assert json.loads(answer.out)["tests"] == model.score(gs.load("planted", nodes=80, seed=3).tests)


def test_a_toml_file_names_the_dataset_and_options_override_it(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    (tmp_path / "data.toml").write_text('dataset = "planted"\n[options]\nnodes = 500\nseed = 3\n')
    answer = graphshift("score", fitted, tmp_path / "data.toml", "-o", "nodes=80", "--json")
    assert answer.status == 0
    model = gs.load_model(fitted / "model")
    assert json.loads(answer.out)["tests"] == model.score(gs.load("planted", nodes=80, seed=3).tests)


def test_predictions_are_written(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    answer = graphshift("predict", fitted, *DATA, "--out", path)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == f"600 predictions written to {path}\n"
    table = pd.read_csv(path)
    assert len(table) == 600
    model, data = gs.load_model(fitted / "model"), gs.load("planted", nodes=60)
    for e in data.environments:
        assert list(table[table["environment"] == e.name]["prediction"]) == list(model.predict(e))


def test_predictions_are_replaced_only_with_force(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("mine")
    answer = graphshift("predict", fitted, *DATA, "--out", path)
    assert answer.status == 2
    assert (
        answer.err
        == f"graphshift: {path}: exists; nothing was changed. Replace it (--force), or choose another --out.\n"
    )
    assert path.read_text() == "mine"
    answer = graphshift("predict", fitted, *DATA, "--out", path, "--force", "--json")
    assert json.loads(answer.out) == {"written": str(path), "nodes": 600}
    assert len(pd.read_csv(path)) == 600

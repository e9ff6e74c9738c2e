"""``graphshift score`` and ``predict``: a saved model on datasets."""

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
        "dataset": "planted",
        "metric": "accuracy",
        "adapt": None,
        "train": model.score(data.train),
        "val": model.score(data.val),
        "tests": model.score(data.tests),
    }
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


def test_the_unlabelled_graph_can_be_used_and_is_said_to_be(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    data, model = gs.load("planted", nodes=60), gs.load_model(fitted / "model")
    answer = graphshift("score", fitted, *DATA, "--adapt", "norm", "--json")
    found = json.loads(answer.out)
    assert (found["adapt"], found["tests"]) == ("norm", model.score(data.tests, adapt="norm"))
    assert "without its labels" in graphshift("score", fitted, *DATA, "--adapt", "norm").out
    answer = graphshift("score", fitted, *DATA, "--adapt", "gtrans", "--json")  # which no temperature belongs to
    assert json.loads(answer.out)["tests"] == model.score(data.tests, adapt="gtrans")
    answer = graphshift("predict", fitted, *DATA, "--adapt", "norm", "--out", tmp_path / "p.csv")
    assert answer.status == 0
    table = pd.read_csv(tmp_path / "p.csv")
    for environment in data.environments:
        own = table[table["environment"] == environment.name]
        assert own["prediction"].tolist() == model.predict(environment, adapt="norm").tolist()
    answer = graphshift("score", fitted, *DATA, "--adapt", "mean")
    assert answer.status == 2
    assert "adapt is 'mean'; expected norm, prior" in answer.err


def test_prediction_sets_are_columns(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    answer = graphshift("predict", fitted, *DATA, "--out", path, "--coverage", 0.8, "--weights", "none")
    assert (answer.status, answer.err) == (0, "")
    table = pd.read_csv(path, dtype={"set": str}, keep_default_na=False)
    data, model = gs.load("planted", nodes=60), gs.load_model(fitted / "model")
    for e in data.tests:
        found = model.predict_set(e, 0.8, weights="none")
        own = table[table["environment"] == e.name]
        assert own["set_size"].tolist() == found.sizes.tolist()
        expected = ["|".join(str(k) for k in range(len(row)) if row[k]) for row in found.members]
        assert own["set"].tolist() == expected
    answer = graphshift("predict", fitted, *DATA, "--out", tmp_path / "q.csv", "--weights", "none")
    assert answer.status == 2
    assert "give --coverage too" in answer.err
    answer = graphshift("predict", fitted, *DATA, "--out", tmp_path / "q.csv", "--coverage", "90")
    assert (answer.status, "coverage is 90.0; expected a share" in answer.err) == (2, True)


def test_a_page_has_the_pictures_of_the_tests(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = graphshift("score", fitted, *DATA, "--page", page)
    assert (answer.status, answer.err) == (0, "")
    assert f"page: {page}" in answer.out
    text = page.read_text()
    data, model = gs.load("planted", nodes=60), gs.load_model(fitted / "model")
    found = gs.reliability(model, data.tests, data.val)
    for row in found.rows():
        assert f">{row[-1]}<" in text
    assert text.count("<svg") == 2
    again = graphshift("score", fitted, *DATA, "--page", page)
    assert (again.status, "--force" in again.err) == (2, True)


def test_copies_are_moved_to_each_graph(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "p.csv", tmp_path / "q.csv"
    how = ("--coverage", 0.8, "--abstain", 0.8)
    answer = graphshift("predict", fitted, *DATA, "--out", path, *how)
    assert (answer.status, answer.err) == (0, "")
    table, data = pd.read_csv(path), gs.load("planted", nodes=60)
    test, model = data.tests[-1], gs.load_model(fitted / "model")
    aimed = gs.calibrate_to(model, test, data.val)
    own = table[table["environment"] == test.name]
    assert own["set_size"].tolist() == aimed.predict_set(test, 0.8).sizes.tolist()
    assert (own["reason"].isna() == aimed.predict_or_abstain(test, 0.8).answered).all()
    answered = table["reason"].isna()
    assert f"answered: {answered.sum():,} of {len(table):,}" in answer.out
    assert answered.any()
    error = f"{100 * (1 - table['p_right'][answered]).mean():.1f} % are expected to be wrong"
    assert error in answer.out
    answer = graphshift("predict", fitted, *DATA, "--out", other, *how, "--no-move-copies")
    assert answer.status == 0, answer.err
    own = pd.read_csv(other)[table["environment"] == test.name]
    assert own["set_size"].tolist() == model.predict_set(test, 0.8).sizes.tolist()
    assert (own["reason"].isna() == model.predict_or_abstain(test, 0.8).answered).all()


def test_copies_that_cannot_be_moved_are_told(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "q.csv")
    answer = graphshift("predict", fitted, *DATA, *out, "--move-copies")
    assert (answer.status, "give --coverage, --abstain or" in answer.err) == (2, True)
    answer = graphshift("predict", fitted / "model", *DATA, *out, "--abstain", 0.3, "--move-copies")
    assert (answer.status, "needs the validation graphs" in answer.err) == (2, True)
    answer = graphshift("predict", fitted / "model", *DATA, *out, "--abstain", 0.3)
    assert (answer.status, "less safe" in answer.err) == (0, True)
    own, model = pd.read_csv(tmp_path / "q.csv"), gs.load_model(fitted / "model")
    test = gs.load("planted", nodes=60).tests[0]
    reasons = own["reason"][own["environment"] == test.name]
    assert (reasons.isna() == model.predict_or_abstain(test, 0.3).answered).all()

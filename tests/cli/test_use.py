"""``graphshift score`` and ``predict``: a saved model at work."""

from __future__ import annotations

import json
import tomllib
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


# --- tables of one's own -----------------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """People of four countries and who knows whom."""
    countries = ["DE", "AT", "FR", "ES"]
    people = [(f"{c}{i}", c, 20 + 7 * i % 50, "north" if i % 3 else "south") for c in countries for i in range(15)]
    pd.DataFrame(people, columns=["id", "country", "age", "vote"]).to_csv(tmp_path / "nodes.csv", index=False)
    friends = [(f"{c}{i}", f"{c}{(i + step) % 15}") for c in countries for i in range(15) for step in (1, 4)]
    pd.DataFrame(friends, columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path / "nodes.csv", tmp_path / "edges.csv"


def test_a_first_toml_is_written_for_tables_and_not_overwritten(
    graphshift: Any, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "my.toml"
    answer = graphshift("init", *tables, "--out", path)
    assert (answer.status, answer.err) == (0, "")
    assert f"graphshift fit {path}" in answer.out
    content = tomllib.loads(path.read_text())
    assert "data" in content
    before = path.read_bytes()
    answer = graphshift("init", *tables, "--out", path)
    assert answer.status == 2
    assert answer.err.startswith(f"graphshift: {path}: exists; nothing was changed.")
    assert path.read_bytes() == before
    answer = graphshift("init", tmp_path / "none.csv", tables[1], "--out", tmp_path / "other.toml")
    assert answer.status == 2
    assert answer.err.startswith("graphshift: ")
    assert "none.csv" in answer.err
    assert not (tmp_path / "other.toml").exists()


def test_tables_are_fitted_and_new_ones_predicted_by_their_own_ids(
    graphshift: Any, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "my.toml").write_text(
        'method = "erm"\nepochs = 2\nhidden = 4\n[data]\nnodes = "nodes.csv"\nedges = "edges.csv"\nlabel = "vote"\n'
        'environments = "country"\ntrain = ["DE", "AT"]\nval = ["FR"]\ntests = ["ES"]\n'
    )
    answer = graphshift("fit", tmp_path / "my.toml", "--out", tmp_path / "run", "--json")
    assert (answer.status, answer.err) == (0, "")
    assert set(json.loads(answer.out)["tests"]) == {"ES"}
    answer = graphshift("predict", tmp_path / "run", tmp_path / "my.toml", "--out", tmp_path / "known.csv")
    assert (answer.status, answer.err) == (0, "")
    known = pd.read_csv(tmp_path / "known.csv")
    assert sorted(known["id"]) == sorted(pd.read_csv(tables[0])["id"])
    assert set(known["environment"]) == {"DE", "AT", "FR", "ES"}
    fresh = pd.read_csv(tables[0]).query("country == 'ES'").drop(columns="vote")
    fresh.to_csv(tmp_path / "new.csv", index=False)
    pd.read_csv(tables[1]).query("source.str.startswith('ES')").to_csv(tmp_path / "new_edges.csv", index=False)
    answer = graphshift(
        "predict", tmp_path / "run", tmp_path / "new.csv", tmp_path / "new_edges.csv", "--out", tmp_path / "new_p.csv"
    )
    assert (answer.status, answer.err) == (0, "")
    new = pd.read_csv(tmp_path / "new_p.csv").set_index("id")
    assert set(new["prediction"]) <= {"north", "south"}
    again = known[known["environment"] == "ES"].set_index("id")["prediction"]
    assert new["prediction"].to_dict() == again.to_dict()


def test_the_unlabelled_graph_can_be_used_and_is_said_to_be(graphshift: Any, fitted: Path, tmp_path: Path) -> None:
    data, model = gs.load("planted", nodes=60), gs.load_model(fitted / "model")
    answer = graphshift("score", fitted, *DATA, "--adapt", "norm", "--json")
    found = json.loads(answer.out)
    assert (found["adapt"], found["tests"]) == ("norm", model.score(data.tests, adapt="norm"))
    assert "without its labels" in graphshift("score", fitted, *DATA, "--adapt", "norm").out
    answer = graphshift("predict", fitted, *DATA, "--adapt", "norm", "--out", tmp_path / "p.csv")
    assert answer.status == 0
    table = pd.read_csv(tmp_path / "p.csv")
    for environment in data.environments:
        own = table[table["environment"] == environment.name]
        assert own["prediction"].tolist() == model.predict(environment, adapt="norm").tolist()
    answer = graphshift("score", fitted, *DATA, "--adapt", "mean")
    assert answer.status == 2
    assert "adapt is 'mean'; expected norm, prior" in answer.err

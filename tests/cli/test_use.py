"""``graphshift score`` and ``predict``: a saved model at work."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn import metrics as sk

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
    assert f"graphshift recommend {path}" in answer.out
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


# --- tables, thresholds, metrics -----------------------------------------------------------------------------------

OWN = """method = "erm"
epochs = 3
hidden = 4
[data]
nodes = "nodes.csv"
edges = "edges.csv"
label = "vote"
positive = "south"
environments = "country"
train = ["DE", "AT"]
val = ["FR"]
tests = ["ES"]
"""


@pytest.fixture
def run(graphshift: Any, tables: tuple[Path, Path], tmp_path: Path) -> Path:
    """A run that was fitted on tables; ES is the test."""
    (tmp_path / "votes.toml").write_text(OWN)
    assert graphshift("fit", tmp_path / "votes.toml", "--out", tmp_path / "run", "--json").status == 0
    return tmp_path / "run"


@pytest.fixture
def spain(tables: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """New tables: the nodes and edges of ES alone."""
    pd.read_csv(tables[0]).query("country == 'ES'").to_csv(tmp_path / "es.csv", index=False)
    pd.read_csv(tables[1]).query("source.str.startswith('ES')").to_csv(tmp_path / "es_edges.csv", index=False)
    return tmp_path / "es.csv", tmp_path / "es_edges.csv"


def test_labelled_tables_are_scored_as_the_environment_that_they_are(
    graphshift: Any, run: Path, spain: tuple[Path, Path]
) -> None:
    answer = graphshift("score", run, *spain, "--json")
    assert (answer.status, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert found["tables"] == {"es": json.loads((run / "result.json").read_text())["tests"]["ES"]}
    shown = graphshift("score", run, *spain).out
    assert f"{100 * found['tables']['es']:.1f}" in shown
    assert "largest class (%)" in shown
    unlabelled = pd.read_csv(spain[0]).drop(columns="vote")
    unlabelled.to_csv(spain[0], index=False)
    answer = graphshift("score", run, *spain)
    assert answer.status == 2
    assert "no node has a label in column 'vote', so nothing can be scored; use `graphshift predict`" in answer.err


def test_options_of_new_tables_are_taken_and_others_refused_with_the_nearest(
    graphshift: Any, run: Path, spain: tuple[Path, Path], tmp_path: Path
) -> None:
    with open(spain[1], "a") as file:
        file.write("ES0,nobody\n")
    out = tmp_path / "p.csv"
    for command in (("predict", run, *spain, "--out", out), ("score", run, *spain)):
        answer = graphshift(*command)
        assert answer.status == 2
        assert "'nobody' is not among the ids" in answer.err
        answer = graphshift(*command, "-o", "unknown_ids=drop")
        assert answer.status == 0
        assert "left out 1 with an end that is not among the nodes" in answer.err
        answer = graphshift(*command, "-o", "unknown_id=drop", "--force" if command[0] == "predict" else "--json")
        assert answer.status == 2
        assert "unknown_id is not an option of new tables; expected one of unknown_ids, feature_file," in answer.err
        assert "Did you mean 'unknown_ids'?" in answer.err
    assert len(pd.read_csv(out)) == 15


def test_one_table_alone_says_that_the_other_is_missing(
    graphshift: Any, run: Path, spain: tuple[Path, Path], tmp_path: Path
) -> None:
    answer = graphshift("predict", run, spain[0], "--out", tmp_path / "p.csv")
    assert answer.status == 2
    assert answer.err == f"graphshift: {spain[0]}: a table of edges is missing; give it after the table of nodes.\n"
    answer = graphshift("score", run, *spain, "--data-dir", tmp_path)
    assert (answer.status, "--data-dir" in answer.err) == (2, True)


def test_the_same_columns_for_a_dataset_and_for_tables(
    graphshift: Any, run: Path, spain: tuple[Path, Path], tmp_path: Path
) -> None:
    assert graphshift("predict", run, tmp_path / "votes.toml", "--out", tmp_path / "a.csv").status == 0
    assert graphshift("predict", run, *spain, "--out", tmp_path / "b.csv").status == 0
    whole, new = pd.read_csv(tmp_path / "a.csv"), pd.read_csv(tmp_path / "b.csv")
    assert list(new.columns) == ["id", "environment", "prediction", "p(north)", "p(south)"]
    assert list(whole.columns) == ["id", "environment", "role", "counted", *new.columns[2:]]
    own = whole[whole["environment"] == "ES"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[["id", *new.columns[2:]]], new.drop(columns="environment"))


def test_raw_probabilities_are_the_models(graphshift: Any, run: Path, spain: tuple[Path, Path], tmp_path: Path) -> None:
    model = gs.load_model(run)
    graph = model.prepare(*spain)
    for name, flags, calibrated in (("a.csv", (), True), ("b.csv", ("--raw",), False)):
        assert graphshift("predict", run, *spain, "--out", tmp_path / name, *flags).status == 0
        found = pd.read_csv(tmp_path / name)["p(south)"]
        assert found.tolist() == pytest.approx(model.predict_proba(graph, calibrated=calibrated)[:, 1], rel=1e-5)


def test_a_threshold_decides(graphshift: Any, run: Path, spain: tuple[Path, Path], tmp_path: Path) -> None:
    model, out = gs.load_model(run), tmp_path / "p.csv"
    graph = model.prepare(*spain)
    middle = float(pd.Series(model.predict_proba(graph, calibrated=True)[:, 1]).median())
    answer = graphshift("predict", run, *spain, "--out", out, "--threshold", middle)
    assert (answer.status, answer.err) == (0, "")
    table = pd.read_csv(out)
    assert 0 < (table["prediction"] == "south").sum() < 15
    high, low = (table.loc[table["prediction"] == name, "p(south)"] for name in ("south", "north"))
    assert high.min() >= middle - 1e-5
    assert low.max() <= middle + 1e-5
    assert graphshift("predict", run, *spain, "--out", out, "--threshold", "recall=1.0", "--force").status == 0
    assert pd.read_csv(out)["prediction"].tolist() == list(
        model.preparation_.decode(model.predict(graph, threshold="recall=1.0"))
    )
    scored = json.loads(graphshift("score", run, *spain, "--threshold", middle, "--json").out)
    truth = pd.read_csv(spain[0]).set_index("id")["vote"]
    right = [prediction == truth[node] for node, prediction in zip(table["id"], table["prediction"], strict=True)]
    assert scored["tables"]["es"] == pytest.approx(sum(right) / 15)
    for wrong in ("2", "best", "recall=7"):
        answer = graphshift("predict", run, *spain, "--out", tmp_path / "q.csv", "--threshold", wrong)
        assert (answer.status, "threshold is " in answer.err) == (2, True)
        assert not (tmp_path / "q.csv").exists()


def test_other_metrics_and_classes_are_shown_by_name(
    graphshift: Any, run: Path, spain: tuple[Path, Path], tmp_path: Path
) -> None:
    command = ("score", run, *spain, "--metric", "average_precision", "--metric", "precision@5", "--per-class")
    found = json.loads(graphshift(*command, "--json").out)
    model = gs.load_model(run)
    graph = model.prepare(*spain)
    p, y = model.predict_proba(graph)[:, 1], graph.y.numpy()
    assert found["metrics"]["average_precision"]["tables"]["es"] == sk.average_precision_score(y, p)
    assert found["metric"] == "average_precision"
    predicted = model.predict(graph)
    precision, recall, f1, support = sk.precision_recall_fscore_support(y, predicted, zero_division=0)
    assert found["per_class"]["es"] == {
        name: {
            "precision": precision[k],
            "recall": recall[k],
            "f1": f1[k],
            "nodes": support[k],
            "predicted": (predicted == k).sum(),
        }
        for k, name in enumerate(("north", "south"))
    }
    shown = graphshift(*command).out
    assert "average precision (%)" in shown
    assert "precision at 5 (%)" in shown
    assert "largest class" not in shown
    assert "│ es          │ south │" in shown
    answer = graphshift("score", run, *spain, "--metric", "auc")
    assert answer.status == 2
    assert "metric is 'auc'; for a binary task expected one of" in answer.err
    whole = graphshift("score", run, tmp_path / "votes.toml", "--metric", "ece", "--raw", "--json")
    raw = json.loads((run / "result.json").read_text())["confidence"]["tests"]["ES"]["ece"]
    assert json.loads(whole.out)["tests"]["ES"] == pytest.approx(raw)


# --- an unlabelled target ------------------------------------------------------------------------------------------


@pytest.fixture
def target_run(graphshift: Any, tables: tuple[Path, Path], tmp_path: Path) -> Any:
    """The printed output of a fit whose environment ES has no labels that may be used."""
    (tmp_path / "votes.toml").write_text(OWN.replace("tests = ", "unlabelled = "))
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
    (tmp_path / "votes.toml").write_text(OWN)
    assert graphshift("fit", tmp_path / "votes.toml", "--out", tmp_path / "run", "--force").status == 0
    assert not (tmp_path / "run" / "predictions.csv").exists()


def test_an_ensemble_predicts_the_target_too(graphshift: Any, tables: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "votes.toml").write_text(OWN.replace("tests = ", "unlabelled = "))
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
    path = tmp_path / "p.csv"
    how = ("--coverage", 0.8, "--abstain", 0.3, "--move-copies")
    answer = graphshift("predict", fitted, *DATA, "--out", path, *how)
    assert (answer.status, answer.err) == (0, "")
    table, data = pd.read_csv(path), gs.load("planted", nodes=60)
    test = data.tests[-1]
    aimed = gs.calibrate_to(gs.load_model(fitted / "model"), test, data.val)
    own = table[table["environment"] == test.name]
    assert own["set_size"].tolist() == aimed.predict_set(test, 0.8).sizes.tolist()
    assert (own["reason"].isna() == aimed.predict_or_abstain(test, 0.3).answered).all()
    answer = graphshift("predict", fitted, *DATA, "--out", tmp_path / "q.csv", "--move-copies")
    assert (answer.status, "give --coverage, --abstain or" in answer.err) == (2, True)
    answer = graphshift("predict", fitted / "model", *DATA, "--out", tmp_path / "q.csv", *how)
    assert (answer.status, "needs the validation graphs" in answer.err) == (2, True)

"""``graphshift score`` and ``predict`` on tables of a user's own: options, columns, thresholds, metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn import metrics as sk

import graphshift as gs
from votes import VOTES


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


@pytest.fixture
def run(graphshift: Any, tables: tuple[Path, Path], tmp_path: Path) -> Path:
    """A run that was fitted on tables; ES is the test."""
    (tmp_path / "votes.toml").write_text(VOTES)
    assert graphshift("fit", tmp_path / "votes.toml", "--out", tmp_path / "run", "--json").status == 0
    return tmp_path / "run"


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
    lowest = model.threshold_of("recall=1.0", calibrated=True)
    predicted = model.predict_proba(graph, calibrated=True)[:, 1] > lowest
    assert (model.predict(graph, threshold="recall=1.0") == 1).tolist() == predicted.tolist()
    shown = graphshift("score", run, *spain, "--threshold", "recall=1.0").out
    assert f"is predicted above a probability of {lowest:.3g}." in " ".join(shown.split())
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

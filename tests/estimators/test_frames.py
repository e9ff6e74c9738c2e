"""Tables of predictions, and new tables that a model prepares as those of its training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from rare import rare_data, rare_model


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return rare_data()


@pytest.fixture(scope="module")
def model() -> gs.Estimator:
    return rare_model()


def test_a_frame_has_ids_environments_classes_and_probabilities(model: gs.Estimator, data: gs.ShiftDataset) -> None:
    (test,) = data.tests
    named = test.replace(ids=np.array([f"n{i}" for i in range(300)]))
    for graphs in (named, [named]):
        table = model.predict_frame(graphs)
        assert list(table.columns) == ["id", "environment", "prediction", "p(0)", "p(1)"]
        assert table["id"].tolist() == named.ids.tolist()
        assert set(table["environment"]) == {"test"}
        assert np.array_equal(table["prediction"], model.predict(test))
        np.testing.assert_array_equal(table[["p(0)", "p(1)"]], model.predict_proba(test, calibrated=True))
    raw = model.predict_frame([test, data.val[0]], calibrated=False)
    assert raw["id"].tolist() == [*range(300)] * 2
    np.testing.assert_array_equal(raw["p(1)"][:300], model.predict_proba(test)[:, 1])


def test_a_model_of_graphs_reads_no_tables(model: gs.Estimator) -> None:
    with pytest.raises(GraphshiftError, match=r"not trained on tables, so it cannot read nodes\.csv"):
        model.prepare("nodes.csv", "edges.csv")
    with pytest.raises(GraphshiftError, match="it cannot read these tables"):
        model.prepare(pd.DataFrame(), pd.DataFrame())


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": [f"p{i}" for i in range(120)], "age": random.normal(size=120)})
    nodes["vote"] = np.where(nodes["age"] + 0.3 * random.normal(size=120) > 0, "north", "south")
    nodes["land"] = np.repeat(["DE", "FR", "ES"], 40)
    edges = pd.DataFrame([(f"p{i}", f"p{i + 1}") for i in range(119) if i % 40 != 39], columns=["source", "target"])
    return nodes, edges


def test_a_model_of_tables_prepares_new_ones_by_its_own_preparation(tmp_path: Path) -> None:
    nodes, edges = tables()
    data = gs.from_tables(
        nodes, edges, label="vote", environments="land", train="DE", val="FR", tests="ES", metric="f1"
    )
    model = gs.ERM(epochs=5, hidden_channels=4).fit(data)
    model.save(tmp_path / "model")
    model = gs.load_model(tmp_path / "model")
    assert model.classes_ == ("north", "south")
    fresh = nodes[nodes["land"] == "ES"]
    fresh_edges = edges[edges["source"].isin(fresh["id"])]
    graph = model.prepare(fresh, fresh_edges, name="new")
    assert graph.ids.tolist() == fresh["id"].tolist()
    assert model.score(graph) == model.score(data.tests[0])
    table, known = model.predict_frame(graph), model.predict_frame(data.tests)
    pd.testing.assert_frame_equal(table.drop(columns="environment"), known.drop(columns="environment"))
    assert set(table["prediction"]) <= {"north", "south"}
    assert list(table.columns) == ["id", "environment", "prediction", "p(north)", "p(south)"]

    other = fresh.rename(columns={"id": "who"}).assign(age=["?", *fresh["age"][1:].astype(str)])
    other.to_csv(tmp_path / "new.csv", sep=";", index=False)
    pd.concat([fresh_edges, pd.DataFrame({"source": ["p80"], "target": ["p999"]})]).to_csv(
        tmp_path / "edges.csv", sep=";", index=False
    )
    files = (tmp_path / "new.csv", tmp_path / "edges.csv")
    how = {"id": "who", "separator": ";", "missing": "?"}
    with pytest.raises(GraphshiftError, match="'p999' is not among the ids"):
        model.prepare(*files, **how)
    with pytest.warns(gs.GraphshiftWarning, match="left out 1 with an end that is not"):
        graph = model.prepare(*files, **how, unknown_ids="drop")
    assert graph.ids.tolist() == fresh["id"].tolist()
    for wrong, words in (
        ({"unknown_id": "drop"}, "unknown_id is not an option of new tables"),
        ({"unknown_id": "drop"}, "Did you mean 'unknown_ids'?"),
        ({"unknown_ids": "skip"}, "unknown_ids is 'skip'; expected 'error' or 'drop'"),
        ({"separator": ";;"}, "separator is ';;'"),
    ):
        with pytest.raises(GraphshiftError) as caught:
            model.prepare(*files, **wrong)
        assert words in str(caught.value)


def test_the_feature_file_of_new_tables_is_named(tmp_path: Path) -> None:
    nodes, edges = tables()
    x = np.random.default_rng(0).random((120, 3))
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_array(x))
    scipy.sparse.save_npz(tmp_path / "new.npz", scipy.sparse.csr_array(2 * x[80:]))
    roles = {"environments": "land", "train": "DE", "val": "FR", "tests": "ES"}
    data = gs.from_tables(nodes, edges, label="vote", feature_file=tmp_path / "x.npz", **roles)
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    fresh = nodes[nodes["land"] == "ES"]
    fresh_edges = edges[edges["source"].isin(fresh["id"])]
    graph = model.prepare(fresh, fresh_edges, feature_file=tmp_path / "new.npz")
    expected, _ = data.facts["preparation"].environment(fresh, fresh_edges, feature_file=tmp_path / "new.npz")
    assert graph.fingerprint() == expected.fingerprint()
    assert graph.fingerprint() != data.tests[0].replace(name="graph").fingerprint()
    with pytest.raises(GraphshiftError, match="feature_file is missing"):
        model.prepare(fresh, fresh_edges)


@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")
def test_reasons_against_a_new_prior_name_the_class() -> None:
    nodes, edges = tables()
    nodes.loc[(nodes["land"] == "FR") & (nodes["vote"] == "south"), "vote"] = None
    nodes.loc[40, "vote"] = "south"
    data = gs.from_tables(nodes, edges, label="vote", environments="land", train="DE", val="FR", tests="ES")
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    with pytest.warns(gs.GraphshiftWarning, match="class south has 1 labelled nodes to calibrate on"):
        model.predict(data.tests[0], adapt="prior")

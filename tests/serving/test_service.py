"""The service says what ``predict`` says, for graphs, rows of tables and changed nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators.predictor import Predictor
from graphshift.serving.service import Service
from served import body_of, client, tables
from small import environments

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")


def chances(answer: Any) -> np.ndarray:
    return np.array([list(one["probabilities"].values()) for one in answer.json()["predictions"]])


def test_predictions_are_those_of_the_model(plain: tuple[Predictor, Any]) -> None:
    model, graph = plain
    answer = client(Service(model)).post("/predict", json=body_of(graph))
    assert answer.status_code == 200
    frame = model.predict_frame(graph)
    predictions = answer.json()["predictions"]
    assert [one["id"] for one in predictions] == list(range(graph.num_nodes))
    assert [one["prediction"] for one in predictions] == frame["prediction"].tolist()
    np.testing.assert_allclose(chances(answer), model.predict_proba(graph, calibrated=True), atol=1e-9)
    raw = client(Service(model)).post("/predict", json=body_of(graph) | {"calibrated": False, "adapt": "norm"})
    np.testing.assert_allclose(chances(raw), model.predict_proba(graph, adapt="norm"), atol=1e-9)


def test_rows_of_tables_are_prepared(tabular: tuple[Predictor, Path]) -> None:
    model, _ = tabular
    nodes, edges = tables(40, seed=3)
    body = {"nodes": nodes.drop(columns="fraud").to_dict("records"), "edges": edges.to_dict("records")}
    answer = client(Service(model)).post("/predict", json=body | {"threshold": 0.3})
    assert answer.status_code == 200, answer.text
    frame = model.predict_frame(model.prepare(nodes.drop(columns="fraud"), edges), threshold=0.3)
    assert [one["prediction"] for one in answer.json()["predictions"]] == frame["prediction"].tolist()
    assert [one["id"] for one in answer.json()["predictions"]] == nodes["id"].tolist()
    np.testing.assert_allclose(chances(answer), frame[["p(no)", "p(yes)"]], atol=1e-9)
    about = client(Service(model)).get("/model").json()
    assert (about["classes"], about["id"], about["graph"]) == (["no", "yes"], "id", None)
    json.loads(json.dumps(about))


def test_changed_nodes_of_a_graph(plain: tuple[Predictor, Any]) -> None:
    model, graph = plain
    service = Service(model, graph)
    width = graph.num_features
    changed = {
        "nodes": [{"id": 3, "x": [1.0] * width}, {"id": "new", "x": [0.5] * width}],
        "edges": [{"source": "new", "target": 3}, {"source": 3, "target": "new"}],
    }
    answer = client(service).post("/predict/changed", json=changed)
    assert answer.status_code == 200, answer.text
    whole = body_of(graph)
    whole["nodes"][3]["x"] = [1.0] * width
    whole["nodes"].append(changed["nodes"][1])
    whole["edges"] += changed["edges"]
    expected = client(service).post("/predict", json=whole).json()["predictions"]
    assert answer.json()["predictions"] == [expected[3], expected[-1]]
    every = client(service).post("/predict/changed", json=changed | {"every_node": True})
    assert every.json()["predictions"] == expected
    before = client(service).post("/predict/changed", json={"nodes": [], "every_node": True}).json()["predictions"]
    assert before == client(service).post("/predict", json=body_of(graph)).json()["predictions"]  # nothing was kept


def test_an_edge_that_is_sent_again_has_the_weight_that_was_sent(plain: tuple[Predictor, Any]) -> None:
    model, graph = plain
    source, target = graph.graph.edge_index[:, 0].tolist()
    sent = {"nodes": [], "edges": [{"source": source, "target": target, "weight": 5.0}], "every_node": True}
    answer = client(Service(model, graph)).post("/predict/changed", json=sent)
    whole = body_of(graph)
    whole["edges"] = [edge | {"weight": 1.0} for edge in whole["edges"]]
    whole["edges"][0]["weight"] = 5.0
    assert answer.json() == client(Service(model)).post("/predict", json=whole).json()


def test_changed_rows_of_tables(graphshift: Any, tabular: tuple[Predictor, Path]) -> None:
    from graphshift.cli.serve import _base

    model, folder = tabular
    base = _base(model, str(folder / "nodes.csv"), folder / "edges.csv", None, None, None)
    sent = {"nodes": [{"id": "n004", "income": 99.5, "job": "cook"}, {"id": "x1", "income": 1, "job": "nurse"}]}
    sent["edges"] = [{"source": "x1", "target": "n004"}]
    answer = client(Service(model, base)).post("/predict/changed", json=sent)
    assert answer.status_code == 200, answer.text
    nodes, edges = tables()
    nodes = nodes.drop(columns=["fraud", "town"])
    nodes = pd.concat([nodes[nodes["id"] != "n004"], pd.DataFrame(sent["nodes"])], ignore_index=True)
    edges = pd.concat([edges, pd.DataFrame(sent["edges"])], ignore_index=True).drop_duplicates()
    frame = model.predict_frame(model.prepare(nodes, edges)).tail(2)
    assert [one["id"] for one in answer.json()["predictions"]] == ["n004", "x1"]
    np.testing.assert_allclose(chances(answer), frame[["p(no)", "p(yes)"]], atol=1e-9)
    answer = client(Service(model)).post("/predict/changed", json=sent)
    assert (answer.status_code, "started without a graph" in answer.text) == (404, True)
    only = {"nodes": [], "edges": [{"source": "n004", "target": "n005"}], "every_node": True}
    answer = client(Service(model, base)).post("/predict/changed", json=only)
    assert answer.status_code == 200, answer.text
    nodes, edges = tables()
    edges = pd.concat([edges, pd.DataFrame(only["edges"])], ignore_index=True).drop_duplicates()
    frame = model.predict_frame(model.prepare(nodes.drop(columns=["fraud", "town"]), edges))
    np.testing.assert_allclose(chances(answer), frame[["p(no)", "p(yes)"]], atol=1e-9)


def test_other_models_are_served_too() -> None:
    training, val = environments(2)
    members = [gs.ERM(epochs=2, hidden_channels=4, seed=seed).fit(training, val) for seed in (0, 1)]
    for model in (gs.Forest(trees=5).fit(training, val), gs.Ensemble(members)):
        answer = client(Service(model)).post("/predict", json=body_of(val))
        assert answer.status_code == 200, answer.text
        expected = model.predict_proba(val, calibrated=bool(model.confidences_))
        np.testing.assert_allclose(chances(answer), expected, atol=1e-9)
        assert client(Service(model)).get("/model").status_code == 200


def test_the_page_and_the_description(plain: tuple[Predictor, Any]) -> None:
    web = client(Service(plain[0], plain[1]), token="12345678")
    page = web.get("/")
    assert page.status_code == 200
    assert "POST /predict/changed" in page.text
    assert "http" not in page.text.replace("http://HOST:PORT", "")  # nothing is loaded from elsewhere
    described = web.get("/openapi.json").json()
    assert described["openapi"].startswith("3.")
    assert set(described["paths"]) == {"/health", "/model", "/predict", "/predict/changed"}
    schema = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    trust = {"abstain", "coverage", "weights", "shift"}
    assert set(schema["properties"]) == trust | {"nodes", "edges", "unknown_ids", "adapt", "threshold", "calibrated"}
    assert web.get("/health").json()["status"] == "ok"


def test_the_kind_of_graph_must_fit_the_model(plain: tuple[Predictor, Any], tabular: tuple[Predictor, Path]) -> None:
    with pytest.raises(GraphshiftError, match="a dataset and the name of an environment"):
        Service(plain[0], tables())
    with pytest.raises(GraphshiftError, match="a table of nodes and a table of edges"):
        Service(tabular[0], plain[1])


def test_sets_answers_and_the_shift_flag_are_the_models() -> None:
    data = gs.load("planted-structure", nodes=300)
    model = gs.ERM("sage", epochs=15).fit(data)
    graph = data.tests[-1]
    asking = body_of(graph) | {"coverage": 0.9, "weights": "copies", "abstain": 0.3, "shift": True}
    refused = client(Service(model)).post("/predict", json=asking)
    assert (refused.status_code, "model.explore" in refused.json()["detail"]) == (422, True)
    model.explore(data.val)
    answer = client(Service(model, graph)).post("/predict", json=asking)
    assert answer.status_code == 200, answer.text
    found, sets = model.predict_or_abstain(graph, 0.3), model.predict_set(graph, 0.9, weights="copies")
    for i, one in enumerate(answer.json()["predictions"]):
        assert one["set"] == np.flatnonzero(sets.members[i]).tolist()
        assert one["answer"] == (int(found.predictions[i]) if found.answered[i] else "I don't know")
        assert (one["reason"], one["p_right"]) == (found.reasons[i], pytest.approx(found.right[i]))
    assert answer.json()["shift"]["moved"] is True  # homophily is 0 there
    same = client(Service(model)).post("/predict", json=body_of(data.val[0]) | {"shift": True})
    assert same.json()["shift"]["moved"] is False
    changed = client(Service(model, graph)).post(
        "/predict/changed", json={"nodes": asking["nodes"][:2], "coverage": 0.5, "abstain": 0.1}
    )
    assert [{"set", "answer"} <= one.keys() for one in changed.json()["predictions"]] == [True, True]
    few = client(Service(model)).post("/predict", json=asking | {"nodes": asking["nodes"][:3], "edges": []})
    assert few.status_code == 200, few.text
    assert few.json()["shift"]["moved"] is None


def test_copies_are_moved_to_the_graph_of_a_request_and_once_to_that_of_the_service() -> None:
    data = gs.load("planted-structure", nodes=300)
    model = gs.ERM("sage", epochs=15).fit(data)
    model.explore(data.val)
    first, last = data.tests[0].unlabelled(), data.tests[-1].unlabelled()
    calibrator = gs.Calibrator(model, data.val)
    service = Service(model, first, calibrator=calibrator)
    asking = {"coverage": 0.9, "abstain": 0.3}
    answer = client(service).post("/predict", json=body_of(last) | asking)
    assert answer.status_code == 200, answer.text
    aimed, based = (gs.calibrate_to(model, graph, data.val) for graph in (last, first))
    found, sets = aimed.predict_or_abstain(last, 0.3), aimed.predict_set(last, 0.9)
    predictions = answer.json()["predictions"]
    assert answer.json()["copies"] == "moved to this graph"
    assert [one["set"] for one in predictions] == [np.flatnonzero(row).tolist() for row in sets.members]
    assert [one["reason"] for one in predictions] == found.reasons.tolist()
    assert sets.members.mean() > model.predict_set(last, 0.9).members.mean()  # it is not what it was before

    few = body_of(first)["nodes"][:30]
    answer = client(service).post("/predict/changed", json={"nodes": few, "every_node": True} | asking)
    assert answer.json()["copies"] == "moved to the graph of the service"
    found = based.predict_or_abstain(first, 0.3)
    assert [one["reason"] for one in answer.json()["predictions"]] == found.reasons.tolist()
    many = {"nodes": body_of(last)["nodes"][:31], "every_node": True}
    assert client(service).post("/predict/changed", json=many | asking).json()["copies"] == "moved to this graph"
    half = {"nodes": [], "edges": body_of(last)["edges"][: first.graph.num_edges // 2], "every_node": True}
    assert client(service).post("/predict/changed", json=half | asking).json()["copies"] == "moved to this graph"
    assert client(service).get("/model").json()["copies"] == "moved to the graph of the service"

    plain = client(Service(model)).post("/predict", json=body_of(last) | asking).json()
    assert plain["copies"] == "in all directions"
    unpromised = client(service).post("/predict", json=body_of(last)).json()
    assert "copies" not in unpromised
    assert unpromised == client(Service(model)).post("/predict", json=body_of(last)).json()


def test_the_features_of_a_request_are_moved_to_where_training_stored_sparse_ones() -> None:
    random = np.random.default_rng(0)
    graphs = []
    for name, rate in (("train", 0.5), ("val", 0.5), ("test", 0.2)):
        y = random.integers(0, 2, 200)
        x = (random.random((200, 6)) < np.where(y[:, None] == np.arange(6) % 2, rate, rate / 4)).astype(np.float32)
        edges = torch.from_numpy(random.integers(0, 200, (2, 400)))
        graph = Data(x=torch.from_numpy(x).to_sparse(), edge_index=edges, y=torch.from_numpy(y))
        graphs.append(gs.Environment(name, graph))
    train, val, test = graphs
    model = gs.ERM("mlp", epochs=20).fit(train, val)
    model.explore(val)
    aimed = gs.calibrate_to(model, test, val)
    body = {"nodes": [{"id": i, "x": row} for i, row in enumerate(test.x.to_dense().tolist())]}
    body["edges"] = [{"source": a, "target": b} for a, b in test.graph.edge_index.t().tolist()]
    service = Service(model, calibrator=gs.Calibrator(model, val))
    answer = client(service).post("/predict", json=body | {"abstain": 0.1}).json()
    expected = aimed.predict_or_abstain(test, 0.1).right
    assert [one["p_right"] for one in answer["predictions"]] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("size", [1e17, 1e20, 1e38])
def test_a_graph_with_huge_features_is_answered_or_refused(size: float) -> None:
    data = gs.load("planted", nodes=60)
    model = gs.ERM(epochs=3).fit(data)
    model.explore(data.val)
    service, body = Service(model, calibrator=gs.Calibrator(model, data.val)), body_of(data.tests[0])
    body["nodes"][0]["x"][0] = size
    answer = client(service).post("/predict", json=body | {"abstain": 0.3, "coverage": 0.9})
    if size < 1e18:
        assert (answer.status_code, answer.json()["copies"]) == (200, "moved to this graph")
    else:
        assert (answer.status_code, "column 0 of `x` in environment 'request'" in answer.text) == (422, True)


def test_intervals_are_served_in_the_users_unit(tmp_path: Path) -> None:
    nodes, edges = tables(90)
    nodes["fraud"] = nodes["income"] * 1000.123
    split = {"environments": "town", "train": "a", "val": "b", "tests": "c"}
    data = gs.from_tables(nodes, edges, label="fraud", **split)
    model = gs.ERM("mlp", epochs=3).fit(data)
    body = {"nodes": nodes.drop(columns="fraud").to_dict("records"), "edges": edges.to_dict("records"), "coverage": 0.5}
    answer = client(Service(model)).post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    for one in answer.json()["predictions"]:
        assert one["interval"][0] <= one["prediction"] <= one["interval"][1]
    assert answer.json()["predictions"][0]["prediction"] > 1000
    asked = client(Service(model)).post("/predict", json=body | {"abstain": 0.1})
    assert (asked.status_code, "values" in asked.json()["detail"]) == (422, True)

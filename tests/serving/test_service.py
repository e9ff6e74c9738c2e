"""The service says what ``predict`` says, refuses what it should, and survives 200 hostile requests."""

from __future__ import annotations

import json
import math
import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators.predictor import Predictor
from graphshift.serving.limits import Limits
from graphshift.serving.service import Service
from small import environments

pytest.importorskip("fastapi", reason="pip install 'graphshift[serve]'")
httpx = pytest.importorskip("httpx")
from fastapi.testclient import TestClient  # noqa: E402

from graphshift.serving.app import create_app  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")


def client(service: Service, **how: Any) -> TestClient:
    return TestClient(create_app(service, **how), base_url="http://localhost", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def plain() -> tuple[Predictor, Any]:
    training, val = environments(2)
    return gs.ERM(epochs=3, hidden_channels=4).fit(training, val), val


def tables(nodes: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    drawn = np.random.default_rng(seed)
    table = pd.DataFrame({"id": [f"n{i:03}" for i in range(nodes)], "income": drawn.normal(50, 10, nodes).round(3)})
    table["job"] = drawn.choice(["nurse", "cook"], nodes)
    table["town"] = np.where(np.arange(nodes) < nodes // 3, "a", np.where(np.arange(nodes) < 2 * nodes // 3, "b", "c"))
    table["fraud"] = np.where(table["income"] + drawn.normal(0, 3, nodes) > 50, "yes", "no")
    ends = drawn.integers(0, nodes, (2, 3 * nodes))
    ends = ends[:, ends[0] != ends[1]]
    return table, pd.DataFrame({"source": table["id"][ends[0]].values, "target": table["id"][ends[1]].values})


@pytest.fixture(scope="module")
def tabular(tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, Path]:
    """A model that was fitted on CSV files, and their folder."""
    folder = tmp_path_factory.mktemp("tables")
    for name, table in zip(("nodes.csv", "edges.csv"), tables(), strict=True):
        table.to_csv(folder / name, index=False)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        split = {"environments": "town", "train": "a", "val": "b", "tests": "c"}
        data = gs.from_tables(folder / "nodes.csv", folder / "edges.csv", label="fraud", **split)
    return gs.ERM(epochs=3, hidden_channels=4).fit(data), folder


def body_of(environment: Any) -> dict[str, Any]:
    nodes = [{"id": i, "x": row} for i, row in enumerate(environment.x.tolist())]
    edges = [{"source": a, "target": b} for a, b in environment.graph.edge_index.t().tolist()]
    return {"nodes": nodes, "edges": edges}


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


def test_a_token_is_asked_for(plain: tuple[Predictor, Any]) -> None:
    web = client(Service(plain[0]), token="open sesame".replace(" ", "-"))
    for headers in ({}, {"Authorization": "Bearer open"}, {"Authorization": "open-sesame"}, {"Authorization": "é"}):
        encoded = {name: value.encode("utf-8") for name, value in headers.items()}
        assert web.get("/model", headers=encoded).status_code == 401
        assert web.post("/predict", json=body_of(plain[1]), headers=encoded).status_code == 401
    good = {"Authorization": "Bearer open-sesame"}
    assert web.post("/predict", json=body_of(plain[1]), headers=good).status_code == 200


def test_another_host_is_refused(plain: tuple[Predictor, Any]) -> None:
    web = client(Service(plain[0]))
    assert web.get("/model", headers={"Host": "evil.example"}).status_code == 400
    assert web.get("/model", headers={"Host": "127.0.0.1:8000"}).status_code == 200
    assert web.get("/model", headers={"Host": "[::1]:8000"}).status_code == 200
    assert client(Service(plain[0]), hosts=None).get("/model", headers={"Host": "any"}).status_code == 200


def test_sizes_and_times_are_limited(plain: tuple[Predictor, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, graph = plain
    body = body_of(graph)
    web = client(Service(model, graph, Limits(nodes=graph.num_nodes, edges=graph.graph.num_edges)))
    assert web.post("/predict", json=body).status_code == 200
    more = body | {"nodes": [*body["nodes"], {"id": "z", "x": [0.0] * graph.num_features}]}
    assert web.post("/predict", json=more).status_code == 413
    assert web.post("/predict", json=body | {"edges": body["edges"] + body["edges"][:1]}).status_code == 413
    assert web.post("/predict/changed", json={"nodes": more["nodes"][-1:]}).status_code == 413
    web = client(Service(model, limits=Limits(bytes=1000)))
    assert web.post("/predict", content=b"x" * 1001).status_code == 413
    assert web.post("/predict", content=iter([b"x" * 600, b"x" * 600])).status_code == 413  # chunked, length unknown
    assert web.post("/predict", content=b"x" * 1000).status_code == 422
    free = threading.Event()
    slow = Service(model, limits=Limits(seconds=0.2, waiting=1))
    monkeypatch.setattr(slow, "predict", lambda content: free.wait(20) and b"{}")
    with client(slow) as web:
        first = web.post("/predict", json={})
        assert (first.status_code, "no answer within 0.2 s" in first.text) == (504, True)
        assert web.post("/predict", json={}).status_code == 503  # the first is still computed, though nobody waits
        free.set()
        end = time.monotonic() + 20
        while (status := web.post("/predict", json={}).status_code) == 503 and time.monotonic() < end:
            time.sleep(0.01)
        assert status == 200


def test_a_body_that_does_not_come_is_not_waited_for(plain: tuple[Predictor, Any]) -> None:
    import asyncio

    app = create_app(Service(plain[0], limits=Limits(seconds=0.05)))
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": [(b"host", b"localhost")]}
    asyncio.run(app(scope, never, send))
    assert sent[0]["status"] == 408


def test_a_failure_inside_says_nothing_of_the_inside(
    plain: tuple[Predictor, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(plain[0])

    def broken(content: bytes) -> bytes:
        raise RuntimeError("/home/secret")

    monkeypatch.setattr(service, "predict", broken)
    answer = client(service).post("/predict", json={})
    assert (answer.status_code, "secret" in answer.text) == (500, False)


def test_the_kind_of_graph_must_fit_the_model(plain: tuple[Predictor, Any], tabular: tuple[Predictor, Path]) -> None:
    with pytest.raises(GraphshiftError, match="a dataset and the name of an environment"):
        Service(plain[0], tables())
    with pytest.raises(GraphshiftError, match="a table of nodes and a table of edges"):
        Service(tabular[0], plain[1])


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"x": ["a"] * 16}, r"nodes\[1\]\.x\[0\]: Input should be a valid number"),
        ({"id": {}}, r"nodes\[1\]\.id: expected a string, boolean, integer, number or array"),
        ({"age": float("nan")}, r"nodes\[1\]\.age: NaN or infinite; expected a finite number"),
        ({"x": 3, "id": [1, {}]}, r"nodes\[1\]\.id\[1\]: Input should be a valid number"),
    ],
)
def test_the_place_of_a_mistake_is_named(plain: tuple[Predictor, Any], node: dict[str, Any], said: str) -> None:
    good = {"id": "a", "x": [0.0] * 16}
    body = json.dumps({"nodes": [good, good | node]})  # a client's own writer refuses NaN
    answer = client(Service(plain[0])).post("/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert re.match(said, answer.json()["detail"]), answer.json()


def hostile(width: int) -> Iterator[tuple[str, bytes]]:
    """Two hundred bodies and more that no honest client sends; what each is, and its bytes."""
    good = {"nodes": [{"id": "a", "x": [0.0] * width}, {"id": "b", "x": [1.0] * width}]}
    good["edges"] = [{"source": "a", "target": "b"}]
    text = json.dumps(good).encode()
    for i in range(0, len(text), max(len(text) // 40, 1)):
        yield f"cut at {i}", text[:i]
    drawn = random.Random(0)
    for i in range(40):
        damaged = bytearray(text)
        for _ in range(3):
            damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
        yield f"damaged {i}", bytes(damaged)
    values: list[Any] = [None, True, -1, 10**400, 1.5, "", "x" * 10_000, "\x00", "\ud800", [], [[]], {}, {"a": {}}]
    for value in values:
        yield f"body {value!r:.20}", json.dumps(value).encode()
        asked = ("abstain", "coverage", "weights", "shift")
        for name in ("nodes", "edges", "adapt", "threshold", "calibrated", "unknown_ids", *asked):
            yield f"{name} {value!r:.20}", json.dumps(good | {name: value}).encode()
        yield f"a node {value!r:.20}", json.dumps(good | {"nodes": [value]}).encode()
        for name in ("id", "x"):
            yield f"{name} {value!r:.20}", json.dumps(good | {"nodes": [good["nodes"][0] | {name: value}]}).encode()
        for name in ("source", "target", "weight"):
            changed = good["edges"][0] | {name: value}
            yield f"{name} {value!r:.20}", json.dumps(good | {"edges": [changed]}).encode()
    for word in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e39", b"9" * 5000):
        yield f"number {word[:9]!r}", text.replace(b"0.0", word)
    yield "deep lists", b"[" * 100_000
    yield "deep objects", b'{"nodes":' * 50_000
    yield "twice", json.dumps(good | {"nodes": good["nodes"] * 2}).encode()
    yield "unknown field", json.dumps(good | {"feature_file": "/etc/passwd"}).encode()
    yield "a path", json.dumps(good | {"nodes": "/etc/passwd"}).encode()
    yield "loops", json.dumps(good | {"edges": [{"source": "a", "target": "a"}] * 50}).encode()
    yield "other bytes", bytes(range(256)) * 20
    yield "gzip", b"\x1f\x8b\x08" + b"\x00" * 100


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


def test_two_hundred_hostile_requests(plain: tuple[Predictor, Any], tabular: tuple[Predictor, Path]) -> None:
    """Each is answered with 200 (harmless after all) or one sentence; then an honest one is answered as before."""
    model, graph = plain
    web = client(Service(model, graph, Limits(bytes=2_000_000)))
    expected = web.post("/predict", json=body_of(graph)).json()
    count = 0
    for path in ("/predict", "/predict/changed"):
        for what, content in hostile(graph.num_features):
            answer = web.post(path, content=content, headers={"content-type": "application/json"})
            assert answer.status_code in (200, 413, 422), (path, what, answer.status_code, answer.text)
            found = answer.json()
            if answer.status_code == 200:
                for one in found["predictions"]:
                    assert math.isclose(sum(one["probabilities"].values()), 1, abs_tol=1e-6), what
            else:
                assert isinstance(found["detail"], str), what
                assert 0 < len(found["detail"]) <= 2000, what
                assert "Traceback" not in found["detail"]
            count += 1
    assert count >= 400
    assert web.post("/predict", json=body_of(graph)).json() == expected
    rows = client(Service(tabular[0]))
    cells: list[Any] = [None, True, -1, 10**30, 1e300, "", "x" * 10_000, "\x00", "2020-13-45", "=1+1", [1.0], {}]
    for cell in cells:
        for column in ("id", "income", "job", "town", "fraud", "other"):
            sent = {
                "nodes": [{"id": "a", "income": 1, "job": "cook", column: cell}, {"id": "b", "income": 2, "job": "x"}]
            }
            answer = rows.post("/predict", json=sent)
            assert answer.status_code in (200, 422), (column, cell, answer.text)
    for method, path in (
        ("GET", "/predict"),
        ("PUT", "/predict"),
        ("POST", "/"),
        ("GET", "/../etc/passwd"),
        ("GET", "/x"),
    ):
        assert rows.request(method, path).status_code in (404, 405)

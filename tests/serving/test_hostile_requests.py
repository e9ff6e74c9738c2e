"""Four hundred bodies that no honest client sends: each gets one sentence, and an honest one is answered as before."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.estimators.predictor import Predictor
from graphshift.serving.limits import Limits
from graphshift.serving.service import Service
from served import body_of, client

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")


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


def hostile(width: int, **asked_too: Any) -> Iterator[tuple[str, bytes]]:
    """Two hundred bodies and more that no honest client sends; what each is, and its bytes."""
    good = {"nodes": [{"id": "a", "x": [0.0] * width}, {"id": "b", "x": [1.0] * width}]}
    good["edges"] = [{"source": "a", "target": "b"}]
    good |= asked_too
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


def test_hostile_requests_that_ask_for_promises() -> None:
    """Copies are moved to what is sent, whatever it is."""
    data = gs.load("planted", nodes=60)
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    model.explore(data.val)
    graph = data.tests[0].unlabelled()
    web = client(Service(model, graph, Limits(bytes=2_000_000), gs.Calibrator(model, data.val)))
    asked, answered = {"abstain": 0.3, "coverage": 0.9}, 0
    expected = web.post("/predict", json=body_of(graph) | asked).json()
    for what, content in hostile(graph.num_features, **asked):
        answer = web.post("/predict", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 413, 422), (what, answer.status_code, answer.text)
        assert isinstance(answer.json()["detail" if answer.status_code != 200 else "notes"], str | list), what
        answered += answer.status_code == 200
    assert answered > 0  # what is harmless after all
    assert web.post("/predict", json=body_of(graph) | asked).json() == expected

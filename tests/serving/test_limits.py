"""The service refuses what it should: strangers, other hosts, too much, too long; and says nothing of its inside."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from graphshift.estimators.predictor import Predictor
from graphshift.serving.limits import Limits
from graphshift.serving.service import Service
from served import body_of, client

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")


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
        while (status := web.post("/predict", json={}).status_code) in (503, 504):  # until the first is done
            time.sleep(0.01)
        assert status == 200


def test_a_body_that_does_not_come_is_not_waited_for(plain: tuple[Predictor, Any]) -> None:
    app = client(Service(plain[0], limits=Limits(seconds=0.05))).app
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

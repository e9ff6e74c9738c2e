"""``graphshift serve``: what it refuses before it listens, and a real process on a free port."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs

pytest.importorskip("fastapi", reason="pip install 'graphshift[serve]'")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    data = gs.load("planted", nodes=60, environments=4)
    gs.ERM(epochs=2, hidden_channels=4).fit(data).save(tmp_path / "model")
    return tmp_path / "model"


def test_mistakes_are_told_before_it_listens(graphshift: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("token").write_text("short\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases = [
            (("--port", port), "cannot listen there"),
            (("--host", "no.such.host.invalid"), "cannot listen there"),
            (("--token-file", "token"), "token has 5 characters"),
            (("--token-file", "none"), "no such file"),
            (("--environment", "T1"), "--environment needs DATASET"),
            (("planted",), "--environment is missing; expected one of train, val, T1"),
            (("planted", "--environment", "T99"), "--environment is 'T99'"),
            (("nodes.csv",), "a table of edges is missing"),
            (("nodes.csv", "edges.csv"), "was not fitted on tables"),
        ]
        for given, said in cases:
            port_of = () if "--port" in given else ("--port", 0)
            answer = graphshift("serve", model, *given, *port_of)
            assert (answer.status, said in answer.err) == (2, True), (given, answer.err)
    assert graphshift("serve", "nothing", "--port", 0).status == 2
    monkeypatch.setenv("GRAPHSHIFT_TOKEN", "")
    assert "GRAPHSHIFT_TOKEN: the token has 0 characters" in graphshift("serve", model, "--port", 0).err
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'graphshift[serve]'" in graphshift("serve", model).err


def test_the_service_has_the_validation_graphs_of_a_run(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphshift.serving import app

    services: list[Any] = []

    def taken(service: Any, **how: Any) -> Any:
        services.append(service)
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "create_app", taken)
    run = tmp_path / "run"
    small = ("-o", "nodes=60", "-o", "environments=4")
    fitted = graphshift("fit", "planted", *small, "--epochs", 2, "--out", run)
    assert fitted.status == 0, fitted.err
    assert graphshift("serve", run, "planted", *small, "--environment", "T1", "--port", 0).err == ""
    assert graphshift("serve", run, "--port", 0, "--no-move-copies").err == ""
    moved, plain = services
    data = gs.load("planted", nodes=60, environments=4)
    aimed = gs.calibrate_to(gs.load_model(run), data.tests[0], data.val)
    assert moved.on_base.predict_or_abstain(data.tests[0]).right.tolist() == (
        aimed.predict_or_abstain(data.tests[0]).right.tolist()
    )
    assert (plain.calibrator, plain.about()["copies"]) == (None, "in all directions")
    told = graphshift("serve", run / "model", "--port", 0)
    assert (told.status, "less safe" in told.err) == (0, True)
    needed = graphshift("serve", run / "model", "--port", 0, "--move-copies")
    assert (needed.status, "needs the validation graphs" in needed.err) == (2, True)


def test_a_real_service_answers_and_ends_on_ctrl_c(model: Path) -> None:
    data = gs.load("planted", nodes=60, environments=4)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GRAPHSHIFT_TOKEN": "open-sesame",
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = [sys.executable, "-m", "graphshift.cli", "serve", str(model), "planted", "-o", "nodes=60"]
    command += ["-o", "environments=4", "--environment", "T1", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"serving {model} on http://127.0.0.1:")
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        body = json.dumps({"nodes": [], "every_node": True})
        connection.request("POST", "/predict/changed", body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 401
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/predict/changed", body, {"Authorization": "Bearer open-sesame"})
        answer = connection.getresponse()
        predictions = json.loads(answer.read())["predictions"]
        assert answer.status == 200
        expected = gs.load_model(model).predict(data.tests[0])
        assert [one["prediction"] for one in predictions] == expected.tolist()
        connection.close()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert (process.returncode, rest.strip()) == (0, "stopped.")
    finally:
        process.kill()
        process.wait()

"""Methods without a GNN on the command line: fitted, resumed, averaged, predicted with and compared like the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshift as gs

FOREST = ("fit", "planted", "--method", "forest", "-o", "nodes=60", "--trees", 6)


def test_a_run_is_like_any_other(graphshift: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    answer = graphshift(*FOREST, "--columns", "all", "--out", out)
    assert (answer.status, answer.err) == (0, "")
    assert "planted · Random forest · seed 0" in answer.out
    assert "epoch" not in answer.out
    result = json.loads((out / "result.json").read_text())
    assert (result["backbone"], result["best_epoch"], result["seconds_per_epoch"]) == (None, 0, None)
    config = json.loads((out / "config.json").read_text())["settings"]
    assert config["columns"] == "all"
    assert "backbone" not in config
    data = gs.load("planted", nodes=60)
    model = gs.load_model(out / "model")
    assert {e.name: model.score(e) for e in data.tests} == result["tests"]
    again = gs.Forest(trees=6, columns="all").fit(data)
    np.testing.assert_array_equal(again.predict_proba(data.tests[0]), model.predict_proba(data.tests[0]))

    before = (out / "result.json").read_bytes()
    assert graphshift(*FOREST, "--out", out).status == 2  # nothing is overwritten unasked
    assert graphshift("fit", "--out", out, "--resume").status == 0
    assert (out / "result.json").read_bytes() == before
    (out / "result.json").unlink()
    assert graphshift("fit", "--out", out, "--resume").status == 0  # begun and not finished: fitted again
    assert json.loads((out / "result.json").read_text())["tests"] == result["tests"]
    assert graphshift(*FOREST, "--trees", 3, "--out", out, "--force").status == 0
    assert json.loads((out / "config.json").read_text())["settings"]["trees"] == 3

    table = tmp_path / "table.csv"
    answer = graphshift("predict", out, "planted", "-o", "nodes=60", "--out", table)
    assert (answer.status, answer.err) == (0, "")
    assert table.read_text().count("\n") > 60


def test_an_ensemble(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*FOREST, "--ensemble", 2, "--out", tmp_path / "both")
    assert (answer.status, answer.err) == (0, "")
    result = json.loads((tmp_path / "both" / "result.json").read_text())
    members = [member["tests"]["T1"] for member in result["members"]]
    assert len(members) == 2
    assert result["warnings"] == [] or isinstance(result["warnings"][0], str)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--method", "forest", "--hidden", 4], "--hidden needs a method that trains a GNN; the method is forest."),
        (["--method", "erm", "--trees", 4], "--trees needs --method forest; the method is erm."),
        (["--method", "forest", "--columns", "some"], "columns is 'some'; it should be 'plain', 'ranks', 'structure',"),
        (["--method", "forest", "--trees", 0], "trees is 0; it should be greater than or equal to 1"),
        (["--method", "logistic", "--c", 0], "c is 0.0; it should be greater than 0"),
        (["--method", "label-propagation", "--alpha", 1], "alpha is 1.0; it should be less than 1"),
    ],
)
def test_what_does_not_fit_is_told(given: list[Any], message: str, graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("fit", "planted", "-o", "nodes=60", *given, "--out", tmp_path / "run")
    assert answer.status == 2
    assert message in answer.err
    assert not (tmp_path / "run").exists()


def test_they_are_compared(graphshift: Any, tmp_path: Path) -> None:
    methods = ("compare", "planted", "--methods", "erm,forest,majority", "--seeds", 2, "--tune", 2)
    small = ("-o", "nodes=60", "--set", "epochs=2", "--set", "trees=5", "--workers", 1, "--out", tmp_path / "study")
    answer = graphshift(*methods, *small)
    assert answer.status == 0, answer.err
    summary = json.loads((tmp_path / "study" / "summary.json").read_text())
    assert {arm["method"]: arm["backbone"] for arm in summary["arms"]} == {
        "erm": "gcn",
        "forest": None,
        "majority": None,
    }
    assert all(arm["failed"] == 0 for arm in summary["arms"])

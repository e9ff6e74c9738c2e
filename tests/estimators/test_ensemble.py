"""Ensembles: the mean of probabilities, kept and read back, trained by one flag, resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators.loading import load_model
from graphshift.fitting.ensemble import fit_ensemble
from graphshift.fitting.fit import FitRequest, fit_in_folder
from small import environments

SMALL: dict[str, Any] = {"epochs": 4, "hidden_channels": 4}


@pytest.fixture(scope="module")
def members() -> list[gs.Estimator]:
    train, val = environments(2, nodes=60)
    return [gs.ERM(seed=seed, **SMALL).fit(train, val) for seed in range(3)]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("adapt", [None, "norm"])
def test_it_predicts_the_mean_of_probabilities(classes: int, adapt: str | None) -> None:
    train, val = environments(2, nodes=60, classes=classes)
    models = [gs.ERM(seed=seed, **SMALL).fit(train, val) for seed in range(3)]
    ensemble = gs.Ensemble(models)
    mean = np.mean([model.predict_proba(val, adapt=adapt) for model in models], axis=0)
    np.testing.assert_allclose(ensemble.predict_proba(val, adapt=adapt), mean, atol=1e-12)
    np.testing.assert_array_equal(ensemble.predict(val, adapt=adapt), mean.argmax(axis=1))
    counted = val.counted.numpy()
    assert val.y is not None
    right = mean.argmax(axis=1)[counted] == val.y.numpy()[counted]
    assert ensemble.score(val, adapt=adapt) == pytest.approx(right.mean())


def test_it_predicts_the_mean_of_values() -> None:
    train, val = (
        Data(x=e.x, y=torch.randn(e.num_nodes), edge_index=e.graph.edge_index) for e in environments(2, nodes=40)
    )
    models = [gs.ERM(seed=seed, **SMALL).fit(train, val) for seed in range(2)]
    expected = np.mean([model.predict(val) for model in models], axis=0)
    np.testing.assert_allclose(gs.Ensemble(models).predict(val), expected)
    with pytest.raises(GraphshiftError, match="has no probabilities"):
        gs.Ensemble(models).predict_proba(val)


def test_it_is_kept_and_read_back(members: list[gs.Estimator], tmp_path: Path) -> None:
    ensemble = gs.Ensemble(members)
    ensemble.save(tmp_path / "e")
    again = load_model(tmp_path / "e")
    assert isinstance(again, gs.Ensemble)
    (val,) = environments(1, nodes=60, seed=5)
    np.testing.assert_array_equal(again.predict_proba(val), ensemble.predict_proba(val))
    with pytest.raises(GraphshiftError, match="holds an ensemble already"):
        ensemble.save(tmp_path / "e")
    ensemble.save(tmp_path / "e", overwrite=True)


@pytest.mark.parametrize("note", [{"format": 1}, {"format": 1, "members": 0}, {"format": 9, "members": 3}, {}])
def test_a_damaged_description_is_named(note: dict[str, Any], members: list[gs.Estimator], tmp_path: Path) -> None:
    gs.Ensemble(members).save(tmp_path / "e")
    (tmp_path / "e" / "ensemble.json").write_text(json.dumps(note))
    with pytest.raises(GraphshiftError, match=r"ensemble\.json: field `(members|format)`"):
        load_model(tmp_path / "e")


def test_a_missing_member_is_named(members: list[gs.Estimator], tmp_path: Path) -> None:
    gs.Ensemble(members).save(tmp_path / "e")
    shutil.rmtree(tmp_path / "e" / "member-2")
    with pytest.raises(GraphshiftError, match="member-2"):
        load_model(tmp_path / "e")


@pytest.mark.filterwarnings("ignore:fit. ")  # a class with one node, or none
def test_members_must_fit_together(members: list[gs.Estimator]) -> None:
    with pytest.raises(GraphshiftError, match="no members"):
        gs.Ensemble([])
    (wider,) = environments(1, classes=4)
    other = gs.ERM(selection="last", **SMALL).fit(wider)
    with pytest.raises(GraphshiftError, match="differ in task or number of features"):
        gs.Ensemble([members[0], other])


REQUEST = FitRequest("planted", {"nodes": 60}, {"method": "erm", "seed": 5, **SMALL})


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_ensemble(REQUEST, tmp_path / "whole", 3)
    fit_ensemble(REQUEST, tmp_path / "part", 2)
    before = (tmp_path / "part" / "member-1" / "result.json").stat().st_mtime_ns
    more = fit_ensemble(REQUEST, tmp_path / "part", 3, resume=True)
    assert (tmp_path / "part" / "member-1" / "result.json").stat().st_mtime_ns == before
    assert more["tests"] == whole["tests"]
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphshiftError, match="is a file"):
        fit_ensemble(REQUEST, tmp_path / "file", 2)
    with pytest.raises(GraphshiftError, match="holds an ensemble of 3, and 2 are asked for; it can grow, not shrink"):
        fit_ensemble(REQUEST, tmp_path / "part", 2, resume=True)
    assert fit_ensemble(REQUEST, tmp_path / "part", 3, resume=True) == more


def test_a_run_and_an_ensemble_never_share_a_folder(tmp_path: Path) -> None:
    data = gs.load("planted", nodes=60)
    other = FitRequest("planted", {"nodes": 60}, {"method": "erm", "seed": 9, **SMALL})
    fit_in_folder(other, tmp_path / "r")
    for resume in (False, True):
        with pytest.raises(GraphshiftError, match=r"not empty|ensemble is None there and 2 here"):
            fit_ensemble(REQUEST, tmp_path / "r", 2, resume=resume)
    together = fit_ensemble(REQUEST, tmp_path / "r", 2, force=True)
    assert not (tmp_path / "r" / "model").exists()
    assert gs.load_model(tmp_path / "r").score(data.tests) == together["tests"]
    with pytest.raises(GraphshiftError, match="ensemble is 2 there and None here"):
        fit_in_folder(other, tmp_path / "r", resume=True)
    (tmp_path / "r" / "notes.txt").write_text("mine")
    alone = fit_in_folder(other, tmp_path / "r", force=True)
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "config.json",
        "history.jsonl",
        "model",
        "notes.txt",
        "result.json",
    ]
    assert gs.load_model(tmp_path / "r" / "model").score(data.tests) == alone["tests"]


def test_an_ensemble_that_replaces_another_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit_ensemble(REQUEST, tmp_path / "e", 3)
    anew = FitRequest("planted", {"nodes": 60}, {"method": "erm", "seed": 9, **SMALL})

    def stop_at_the_second(request: FitRequest, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if request.given["seed"] == 10:
            raise KeyboardInterrupt
        return fit_in_folder(request, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("graphshift.fitting.ensemble.fit_in_folder", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            fit_ensemble(anew, tmp_path / "e", 3, force=True)
    assert not (tmp_path / "e" / "result.json").exists()
    assert not (tmp_path / "e" / "ensemble.json").exists()
    with pytest.raises(GraphshiftError, match=r"settings\.seed is 9 there and 5 here"):
        fit_ensemble(REQUEST, tmp_path / "e", 3, resume=True)
    found = fit_ensemble(anew, tmp_path / "e", 3, resume=True)
    assert found["tests"] == fit_ensemble(anew, tmp_path / "whole", 3)["tests"]


def test_what_cannot_be_fitted_leaves_what_is_there(tmp_path: Path) -> None:
    before = fit_ensemble(REQUEST, tmp_path / "e", 2)
    with pytest.raises(GraphshiftError, match="memory limit"):
        fit_ensemble(REQUEST, tmp_path / "e", 2, force=True, memory_limit=1)
    assert fit_ensemble(REQUEST, tmp_path / "e", 2, resume=True) == before


def test_saving_one_kind_does_not_hide_behind_the_other(members: list[gs.Estimator], tmp_path: Path) -> None:
    data = gs.load("planted", nodes=60)
    one, both = gs.ERM(**SMALL).fit(data.train, data.val), gs.Ensemble(members)
    both.save(tmp_path)
    with pytest.raises(GraphshiftError, match="holds an ensemble already"):
        one.save(tmp_path)
    one.save(tmp_path, overwrite=True)
    assert isinstance(gs.load_model(tmp_path), gs.ERM)
    with pytest.raises(GraphshiftError, match="holds a model already"):
        both.save(tmp_path)
    both.save(tmp_path, overwrite=True)
    assert isinstance(gs.load_model(tmp_path), gs.Ensemble)

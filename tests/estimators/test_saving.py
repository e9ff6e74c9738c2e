"""A saved model predicts the same bits; a damaged one is named, and none is replaced unasked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from small import OwnModule, identical

SMALL: dict[str, Any] = {"epochs": 3, "hidden_channels": 4}


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=60)


@pytest.fixture(scope="module")
def fitted(data: gs.ShiftDataset) -> gs.Estimator:
    return gs.EERM(views=2, dropout=0.2, **SMALL).fit(data.train, data.val)


@pytest.fixture
def saved(fitted: gs.Estimator, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def test_saving_needs_a_fit(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        gs.ERM().save(tmp_path / "none")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["eerm", "gat", "own", "regression"])
def test_a_loaded_model_predicts_the_same_bits(kind: str, data: gs.ShiftDataset, tmp_path: Path) -> None:
    train, val = data.train[0].data, data.val[0].data
    if kind == "regression":
        train.y, val.y = train.x[:, 0], val.x[:, 0]
    model: gs.Estimator = {
        "eerm": lambda: gs.EERM(views=2, beta=3.0, **SMALL),
        "gat": lambda: gs.ERM("gat", num_layers=3, backbone_options={"heads": 2}, **SMALL),
        "own": lambda: gs.ERM(OwnModule(24, 4), **SMALL),
        "regression": lambda: gs.ERM("gprgnn", **SMALL),
    }[kind]().fit(train, val)
    model.save(tmp_path / "deep" / "model")
    torch.manual_seed(99)
    loaded = gs.load_model(tmp_path / "deep" / "model", backbone=OwnModule(24, 4) if kind == "own" else None)
    assert type(loaded) is type(model)
    assert identical(loaded.backbone_.state_dict(), model.backbone_.state_dict())
    assert np.array_equal(loaded.predict(val), model.predict(val))
    assert loaded.score(val) == model.score(val)
    ours, theirs = loaded.get_params(), model.get_params()
    if kind == "own":
        del ours["backbone"], theirs["backbone"]
    for name in {"backbone_options", "explorer_options"} & set(theirs):
        theirs[name] = theirs[name] or {}
    assert ours == theirs
    assert (loaded.best_epoch_, loaded.best_score_) == (model.best_epoch_, model.best_score_)
    loaded.fit(train, val)  # and it can be trained again
    if kind != "own":
        assert identical(loaded.backbone_.state_dict(), model.backbone_.state_dict())
    files = {"held_out.safetensors", "model.json", "weights.safetensors"}
    learned = {"source.safetensors"} if kind != "regression" else set()
    assert {p.name for p in (tmp_path / "deep" / "model").iterdir()} == files | learned


def test_tied_weights_are_saved_and_loaded(data: gs.ShiftDataset, tmp_path: Path) -> None:
    def tied() -> nn.Module:
        module = OwnModule(24, 4)
        module.norm.bias = module.first.bias
        return module

    model = gs.ERM(tied(), **SMALL).fit(data.train, data.val)
    model.save(tmp_path / "model")
    loaded = gs.load_model(tmp_path / "model", backbone=tied())
    assert np.array_equal(loaded.predict_proba(data.tests[0]), model.predict_proba(data.tests[0]))


def test_an_own_module_is_asked_for(data: gs.ShiftDataset, tmp_path: Path) -> None:
    gs.ERM(OwnModule(24, 4), **SMALL).fit(data.train, data.val).save(tmp_path)
    with pytest.raises(GraphshiftError, match=r"your own module 'OwnModule'; pass one of that class"):
        gs.load_model(tmp_path)
    with pytest.raises(GraphshiftError, match=r"weights\.safetensors: does not fit"):
        gs.load_model(tmp_path, backbone=OwnModule(24, 7))


def test_a_model_is_not_overwritten_unasked(fitted: gs.Estimator, saved: Path, data: gs.ShiftDataset) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    other = gs.ERM(**SMALL).fit(data.train, data.val)
    with pytest.raises(GraphshiftError, match=r"holds a model already.*overwrite=True"):
        other.save(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    other.save(saved, overwrite=True)
    assert type(gs.load_model(saved)) is gs.ERM


def test_a_folder_that_cannot_be_made_is_told(fitted: gs.Estimator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(GraphshiftError, match="cannot be made") as caught:
            fitted.save(folder)
        assert str(folder) in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def changed(path: Path, **fields: Any) -> None:
    note = json.loads((path / "model.json").read_text()) | fields
    (path / "model.json").write_text(json.dumps({k: v for k, v in note.items() if v != "DROP"}))


def reshaped(path: Path) -> None:
    tensors, note = read_tensors(path / "weights.safetensors")
    write_tensors(
        path / "weights.safetensors",
        {k: v.repeat(2) if v.dim() else v for k, v in tensors.items() if v.dim() < 2},
        note,
    )


DAMAGE: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "truncated": ("weights.safetensors", lambda m: os.truncate(m / "weights.safetensors", 500), "damaged"),
    "wrong tensors": ("weights.safetensors", reshaped, "does not fit model.json"),
    "no weights": ("weights.safetensors", lambda m: (m / "weights.safetensors").unlink(), "no such file"),
    "pickle": ("weights.safetensors", lambda m: torch.save({}, m / "weights.safetensors"), "damaged"),
    "half JSON": ("model.json", lambda m: os.truncate(m / "model.json", 60), "not JSON"),
    "not a model": ("model.json", lambda m: (m / "model.json").write_text('{"name": 3}'), "`format` is missing"),
    "a list": ("model.json", lambda m: (m / "model.json").write_text("[1]"), "`format` is missing"),
    "newer": ("model.json", lambda m: changed(m, format=99, graphshift="9.9"), "version 9.9: upgrade graphshift"),
    "no task": ("model.json", lambda m: changed(m, task="DROP"), "damaged"),
    "odd task": ("model.json", lambda m: changed(m, task=[1]), "damaged"),
    "odd width": ("model.json", lambda m: changed(m, features="wide"), "damaged"),
    "odd settings": ("model.json", lambda m: changed(m, settings="none"), "damaged"),
    "wrong setting": ("model.json", lambda m: changed(m, settings={"method": "erm", "epochs": -1}), "epochs is -1"),
    "20 million features": (
        "weights.safetensors",
        lambda m: changed(m, features=20_000_000),
        "does not fit model.json",
    ),
    "huge prior": ("model.json", lambda m: changed(m, prior=[1e308, -1e308, 1.0, 0.0]), "a prior has"),
    "no text": ("model.json", lambda m: changed(m, own_backbone=[1]), "field `own_backbone`"),
    "negative width": ("model.json", lambda m: changed(m, features=-3), "field `features`"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_model_is_a_clear_error_that_names_the_file(damage: str, saved: Path) -> None:
    name, harm, match = DAMAGE[damage]
    harm(saved)
    with pytest.raises(GraphshiftError, match=match) as caught:
        gs.load_model(saved)
    assert str(caught.value).startswith(f"{saved / name}: ")


def test_what_is_no_model_folder_is_told(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(GraphshiftError, match="this is a file; expected the folder"):
        gs.load_model(tmp_path / "text")
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "none", tmp_path / "text" / "below"):
        with pytest.raises(GraphshiftError, match=r"there is no model\.json") as caught:
            gs.load_model(folder)
        assert str(folder) in str(caught.value)


def test_a_model_made_for_a_missing_device_loads_on_the_cpu(
    saved: Path, data: gs.ShiftDataset, fitted: gs.Estimator
) -> None:
    settings = json.loads((saved / "model.json").read_text())["settings"]
    changed(saved, settings=settings | {"device": "mps"})
    assert np.array_equal(gs.load_model(saved).predict(data.tests[0]), fitted.predict(data.tests[0]))
    shutil.rmtree(saved)

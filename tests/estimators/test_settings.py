"""Settings: each that is unknown or impossible is named, with what is expected; defaults stand in one place."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.base import clone

import graphshift as gs
from graphshift.core.declared import declared_names
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparams_of
from graphshift.estimators import METHODS, hyper_parameters, make_estimator, recorded_estimator
from graphshift.estimators.settings import has_setting, setting_names


def message(values: dict[str, Any], where: str = "") -> str:
    with pytest.raises(GraphshiftError) as caught:
        make_estimator(values, where=where)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("epochs", 0, "1"),
        ("epochs", 2.5, "integer"),
        ("epochs", "many", "integer"),
        ("hidden_channels", 0, "1"),
        ("dropout", 1.0, "less than 1"),
        ("lr", 0, "greater than 0"),
        ("lr", float("nan"), "finite"),
        ("lr", float("inf"), "finite"),
        ("lr", "fast", "number"),
        ("lr", 1e39, "1000000"),
        ("clip", 0, "greater than 0"),
        ("device", "tpu", "'cpu', 'cuda' or 'mps'"),
        ("backbone_options", 3, "dictionary"),
        ("views", 1, "2"),
        ("explorer_baseline", 1, "less than 1"),
        ("credit", "mine", "'shared' or 'difference'"),
        ("low_memory", "perhaps", "boolean"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_is_expected(name: str, value: Any, expected: str) -> None:
    text = message({name: value}, where="file.toml: ")
    assert text.startswith(f"file.toml: {name} is {value!r}; ")
    assert expected in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "wrong", "near"),
    [
        ("method", "eermm", "eerm"),
        ("backbone", "sagee", "sage"),
        ("explorer", "gradiant", "gradient"),
        ("selection", "vall", "val"),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_the_names_and_the_nearest(
    name: str, wrong: str, near: str
) -> None:
    text = message({name: wrong})
    assert repr(wrong) in text
    assert f"Did you mean {near!r}" in text


def test_an_unknown_setting_is_named_with_the_known_ones() -> None:
    text = message({"epoch": 3})
    assert text.startswith("epoch is not a setting")
    assert "'epochs'" in text
    assert all(name in text for name in setting_names())


def test_every_problem_is_told_one_a_line() -> None:
    lines = message({"epochs": 0, "lr": -1}).split("\n")
    assert {line.split()[0] for line in lines} == {"epochs", "lr"}


def test_the_old_name_of_views_answers_with_the_new_one() -> None:
    assert "views" in message({"explorers": 3})
    with pytest.raises(GraphshiftError, match="views"):
        gs.EERM(explorers=3)


def test_short_names_mean_the_long_ones() -> None:
    made = make_estimator({"layers": 5, "hidden": 7})
    assert (made.num_layers, made.hidden_channels) == (5, 7)


def test_a_setting_of_another_method_is_refused_with_the_methods_that_have_it() -> None:
    assert message({"method": "erm", "beta": 2.0}).startswith("beta needs method eerm")
    assert "irm" in message({"method": "eerm", "penalty": 2.0})


@pytest.mark.parametrize(
    ("explorer", "name"), [("random", "explorer_lr"), ("gradient", "inner_steps"), ("features", "edits_per_node")]
)
def test_a_setting_that_the_explorer_does_not_use_is_refused(explorer: str, name: str) -> None:
    assert name in message({"explorer": explorer, name: 1})
    assert not has_setting(name, {"explorer": explorer})
    assert has_setting(name, {"explorer": "reinforce"})


@pytest.mark.parametrize("name", METHODS)
def test_a_class_has_its_hyper_parameters_and_defaults_from_one_declaration(name: str) -> None:
    estimator = METHODS[name]
    parameters = dict(inspect.signature(estimator).parameters)
    assert parameters.keys() == hparams_of(estimator).keys()
    made = estimator()
    assert {n: getattr(made, n) for n in parameters} == {n: a.default for n, a in hparams_of(estimator).items()}
    assert made.settings() == {"method": name, **{n: a.default for n, a in hparams_of(estimator).items()}}
    assert getattr(gs, estimator.__name__) is estimator
    assert make_estimator({"method": name}).settings() == made.resolved().settings()


def test_a_backbone_made_by_hand_has_the_width_and_depth_of_an_estimators() -> None:
    from graphshift.backbones.base import DEPTH, WIDTH

    assert (gs.ERM().hidden_channels, gs.ERM().num_layers) == (WIDTH, DEPTH)


def test_names_read_from_the_source_are_those_that_importing_gives() -> None:
    from graphshift.backbones import BACKBONES
    from graphshift.explorers import EXPLORERS
    from graphshift.training.selection import SELECTIONS

    for registry in (METHODS, BACKBONES, EXPLORERS, SELECTIONS):
        assert declared_names(registry.package) == list(registry)


def test_flags_read_from_the_source_are_those_that_importing_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshift.cli import flags

    read = flags.flags.__wrapped__()
    monkeypatch.setattr(flags, "wanted_plugins", lambda: ["something"])
    assert flags.flags.__wrapped__() == read


def test_what_was_not_given_takes_the_datasets_default() -> None:
    defaults = {"lr": 0.5, "backbone": "sage", "beta": 9.0, "by_backbone": {"gat": {"lr": 0.25}}}
    defaults |= {"by_method": {"eerm": {"epochs": 7}}}
    assert gs.ERM().resolved(defaults).settings() == gs.ERM("sage", lr=0.5).settings()
    assert gs.ERM("gat").resolved(defaults).lr == 0.25
    assert gs.ERM(lr=0.01).resolved(defaults).lr == 0.01  # given, though it is the general default
    assert gs.EERM(views=2).resolved(defaults).settings() == make_estimator({"views": 2}, defaults).settings()
    assert (gs.EERM().resolved(defaults).beta, gs.EERM().resolved(defaults).epochs) == (9.0, 7)
    copy = clone(gs.ERM(lr=0.01))
    assert (copy.resolved(defaults).lr, copy.resolved(defaults).backbone) == (0.01, "sage")
    assert gs.ERM().set_params(lr=0.02).resolved(defaults).lr == 0.02


def test_the_same_request_gives_the_same_bits_in_python_and_on_the_command_line(tmp_path: Any) -> None:
    from graphshift.fitting.fit import FitRequest, fit_in_folder
    from small import identical

    given = {"method": "eerm", "seed": 3, "epochs": 3}
    fit_in_folder(FitRequest("planted-structure", {"nodes": 80}, given), tmp_path / "run")
    data = gs.load("planted-structure", nodes=80)
    model = gs.EERM(seed=3, epochs=3)
    model.fit(data)
    there = gs.load_model(tmp_path / "run" / "model")
    assert model.settings_["backbone"] == "sage"  # the dataset's
    assert there.settings() == model.settings_
    assert identical(there.backbone_.state_dict(), model.backbone_.state_dict())


def test_records_of_earlier_versions_are_read() -> None:
    old = {"method": "eerm", "explorers": 5, "penalty": 2.0, "groups": 4, "beta": 0.5, "explorer": "own-of-somebody"}
    made = recorded_estimator(old)
    assert (made.views, made.beta, made.explorer) == (5, 0.5, "own-of-somebody")
    with pytest.raises(GraphshiftError, match="colour"):
        recorded_estimator({"method": "erm", "colour": "red"})
    with pytest.raises(GraphshiftError, match="settings"):
        recorded_estimator([1])  # type: ignore[arg-type]


def test_settings_are_checked_once_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gs.load("planted-structure", nodes=60, tests=1)
    checks: list[Any] = []
    original = hyper_parameters.checked
    monkeypatch.setattr(hyper_parameters, "checked", lambda *args, **how: checks.append(1) or original(*args, **how))
    estimator = make_estimator({"method": "erm", "epochs": 1}, data.defaults)
    estimator.fit(data)
    assert len(checks) == 1
    estimator.epochs = "many"  # type: ignore[assignment]  # what was changed since is checked again
    with pytest.raises(GraphshiftError, match="epochs is 'many'"):
        estimator.fit(data)

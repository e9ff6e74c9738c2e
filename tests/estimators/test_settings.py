"""Settings: each that is unknown or impossible is named, with what is expected."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from graphshift.backbones import GCN
from graphshift.core.errors import GraphshiftError
from graphshift.estimators import METHODS, Model
from graphshift.estimators.settings import EERM_ONLY, OWNERS, Settings, idle_settings, validated


def message(values: dict[str, Any], where: str = "") -> str:
    with pytest.raises(GraphshiftError) as caught:
        validated(values, where=where)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("epochs", 0, "greater than or equal to 1"),
        ("epochs", -3, "greater than or equal to 1"),
        ("epochs", 2.5, "a valid integer"),
        ("epochs", "many", "a valid integer"),
        ("hidden_channels", 0, "greater than or equal to 1"),
        ("num_layers", 0, "greater than or equal to 1"),
        ("dropout", 1.0, "less than 1"),
        ("dropout", -0.1, "greater than or equal to 0"),
        ("lr", 0, "greater than 0"),
        ("lr", float("nan"), "finite"),
        ("lr", float("inf"), "finite"),
        ("lr", "fast", "a valid number"),
        ("lr", 1e39, "less than or equal to 1000000"),
        ("weight_decay", 1e39, "less than or equal to 1000000"),
        ("explorer_lr", 1e39, "less than or equal to 1000000000000"),
        ("explorer_weight_decay", 1e39, "less than or equal to 1000000"),
        ("weight_decay", -1, "greater than or equal to 0"),
        ("clip", 0, "greater than 0"),
        ("patience", 0, "greater than or equal to 1"),
        ("seed", -1, "greater than or equal to 0"),
        ("method", "magic", "'erm', 'eerm', 'irm'"),
        ("selection", "best", "'val', 'explored', 'id_val', 'oracle' or 'last'"),
        ("device", "tpu", "'cpu', 'cuda' or 'mps'"),
        ("backbone", 3, "a valid string"),
        ("backbone_options", 3, "a valid dictionary"),
        ("edits_per_node", 0, "greater than or equal to 1"),
        ("inner_steps", 0, "greater than or equal to 1"),
        ("beta", -1, "greater than or equal to 0"),
        ("beta_end", -1, "greater than or equal to 0"),
        ("explorer_lr", -1, "greater than or equal to 0"),
        ("explorer_weight_decay", -1, "greater than or equal to 0"),
        ("explorer_baseline", 1, "less than 1"),
        ("explorer_optimizer", "rmsprop", "'adam' or 'sgd'"),
        ("credit", "mine", "'shared' or 'difference'"),
        ("low_memory", "perhaps", "a valid boolean"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_is_expected(name: str, value: Any, expected: str) -> None:
    text = message({name: value}, where="file.toml: ")
    assert text.startswith(f"file.toml: {name} is {value!r}; it should be ")
    assert expected in text
    assert "\n" not in text


def test_an_unknown_setting_is_named_with_the_known_ones() -> None:
    text = message({"epoch": 3})
    assert text.startswith("epoch is not a setting")
    assert all(name in text for name in Settings.model_fields)


def test_every_problem_is_told_one_a_line() -> None:
    lines = message({"epochs": 0, "lr": -1, "colour": "red"}).split("\n")
    assert len(lines) == 3
    assert {line.split()[0] for line in lines} == {"epochs", "lr", "colour"}


@pytest.mark.parametrize("explorers", [1, 0, -2])
def test_fewer_than_two_explorers_are_refused_with_the_reason(explorers: int) -> None:
    text = message({"explorers": explorers})
    assert f"explorers is {explorers}" in text
    assert "at least 2" in text
    assert "variance" in text
    assert validated({"views": 2}).explorers == 2


def test_short_names_mean_the_long_ones() -> None:
    settings = validated({"layers": 5, "hidden": 7})
    assert (settings.num_layers, settings.hidden_channels) == (5, 7)
    assert settings == validated({"num_layers": 5, "hidden_channels": 7})


def test_settings_do_not_change_once_made() -> None:
    with pytest.raises(ValueError, match="frozen"):
        validated({}).epochs = 3  # type: ignore[misc]


@pytest.mark.parametrize("estimator", METHODS.values())
def test_estimators_have_the_settings_and_their_defaults(estimator: type[Model]) -> None:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(estimator.__init__).parameters.items()
        if name != "self"
    }
    options = {"backbone_options", "explorer_options"} & set(defaults)
    assert all(defaults.pop(name) is None for name in options)  # no mutable default; {} in the settings
    names = set(Settings.model_fields) - {"method"} - set(idle_settings(estimator._method))
    assert set(defaults) == names - options
    settings = Settings()
    assert defaults == {name: getattr(settings, name) for name in defaults}
    assert estimator()._settings() == settings.model_copy(update={"method": estimator._method})


def test_a_setting_belongs_to_the_methods_that_take_it() -> None:
    for name, estimator in METHODS.items():
        own = {setting for setting, owners in OWNERS.items() if name in owners}
        if name == "eerm":
            assert own == set(EERM_ONLY)
            continue
        backbone = GCN(2, 2)
        method = estimator().make_method(backbone, validated({"method": name}))
        taken: set[str] = set()
        for kind in type(method).__mro__[:-2]:
            taken |= set(inspect.signature(kind.__init__).parameters)
        assert own == taken - {"self", "backbone", "lr", "weight_decay", "clip", "others", "args", "kwargs"}, name


def test_eerm_only_settings_are_those_of_the_explorers_and_the_objective() -> None:
    assert set(EERM_ONLY) == {
        "explorer",
        "explorer_options",
        "explorers",
        "edits_per_node",
        "inner_steps",
        "beta",
        "beta_end",
        "explorer_lr",
        "explorer_optimizer",
        "explorer_weight_decay",
        "explorer_baseline",
        "credit",
        "reset_explorers",
        "directed_edits",
        "low_memory",
    }

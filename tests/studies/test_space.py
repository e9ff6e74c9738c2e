"""The paper's search space, cut to what each arm can use; and spaces of a user's own."""

from __future__ import annotations

from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.studies import crossed_arms, paper_space, space_from_table

RATES = (0.0001, 0.0002, 0.001, 0.005, 0.01)


def test_the_papers_space_is_as_published() -> None:
    assert paper_space({"method": "erm"}) == {"lr": RATES}
    assert paper_space({"method": "eerm"}) == {
        "lr": RATES,
        "explorer_lr": (0.0001, 0.001, 0.005, 0.01),
        "beta": (0.2, 0.5, 1.0, 2.0, 3.0),
        "edits_per_node": (1, 5, 10),
        "inner_steps": (1, 5),
    }
    for explorer in ("random", "gradient"):  # they do not learn: no learning rate, no T
        assert set(paper_space({"method": "eerm", "explorer": explorer})) == {"lr", "beta", "edits_per_node"}


def test_what_is_given_is_not_tuned() -> None:
    assert set(paper_space({"method": "eerm", "lr": 0.1, "beta": 1.0})) == {
        "explorer_lr",
        "edits_per_node",
        "inner_steps",
    }


def test_methods_backbones_and_explorers_make_arms() -> None:
    arms = crossed_arms(
        ["erm", "eerm"], ["gcn", "gat"], ["reinforce", "random"], common={"epochs": 7, "views": 4, "inner_steps": 2}
    )
    assert [arm.name for arm in arms] == [
        "ERM, gcn",
        "EERM reinforce, gcn",
        "EERM random, gcn",
        "ERM, gat",
        "EERM reinforce, gat",
        "EERM random, gat",
    ]
    assert arms[0].settings == {"method": "erm", "backbone": "gcn", "epochs": 7}
    assert arms[1].settings == {
        "method": "eerm",
        "backbone": "gcn",
        "explorer": "reinforce",
        "epochs": 7,
        "views": 4,
        "inner_steps": 2,
    }
    assert arms[2].settings == {"method": "eerm", "backbone": "gcn", "explorer": "random", "epochs": 7, "views": 4}
    assert set(arms[1].space or ()) == {"lr", "explorer_lr", "beta", "edits_per_node"}
    assert set(arms[2].space or ()) == {"lr", "beta", "edits_per_node"}


def test_without_backbones_the_dataset_decides() -> None:
    arms = crossed_arms(["erm", "eerm"], None, ["gradient"])
    assert [arm.name for arm in arms] == ["ERM", "EERM gradient"]
    assert all("backbone" not in arm.settings for arm in arms)


def test_a_setting_for_nobody_is_refused() -> None:
    with pytest.raises(GraphshiftError, match="beta: no arm uses it"):
        crossed_arms(["erm"], ["gcn"], ["reinforce"], common={"beta": 1.0})


def test_an_own_space_is_shared_or_by_method() -> None:
    table: dict[str, Any] = {
        "lr": [0.1, 0.2],
        "eerm": {"beta": [1, 2], "explorer_lr": [0.5]},
        "erm": {"dropout": [0.0, 0.5]},
    }
    space = space_from_table(table, ["erm", "eerm"])
    assert space["erm"] == {"lr": [0.1, 0.2], "dropout": [0.0, 0.5]}
    assert space["eerm"] == {"lr": [0.1, 0.2], "beta": [1, 2], "explorer_lr": [0.5]}
    arms = crossed_arms(["erm", "eerm"], ["gcn"], ["random"], space=space)
    assert [arm.space for arm in arms] == [space["erm"], {"lr": [0.1, 0.2], "beta": [1, 2]}]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"magic": {"lr": [0.1]}}, r"f: \[magic\] .*expected one of .*eerm"),
        ({"speed": [1]}, "f: speed is not a setting; expected one of method"),
        ({"erm": {"speed": [1]}}, r"f: \[erm\] speed is not a setting"),
        ({"backbone": ["gcn"]}, "f: backbone .*is not tuned within an arm"),
        ({"lr": 0.1}, r"f: lr is 0\.1; expected a list of values"),
        ({"lr": []}, r"f: lr is \[\]; expected a list of values"),
        ({"lr": [[0.1]]}, r"f: lr is \[\[0\.1\]\]; expected numbers"),
        ({"beta": [1.0]}, r"f: beta .*method erm; put it under \[eerm\]"),
    ],
)
def test_a_space_that_does_not_fit_is_explained(table: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        space_from_table(table, ["erm", "eerm"], where="f: ")

"""A plan that cannot be fair or cannot be run is refused before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.studies import Arm, Plan
from graphshift.studies.plan import trainings, tuning_seeds

A = Arm("a", {"method": "erm"}, {"lr": [0.1]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": []}, "plan: arms is empty; expected at least one"),
        ({"arms": [A, A]}, "plan: arms has 'a' twice"),
        ({"seeds": []}, "plan: seeds is empty"),
        ({"seeds": [1, 1]}, "plan: seeds has 1 twice"),
        ({"seeds": [-1]}, "plan: seeds has -1; expected whole numbers of at least 0"),
        ({"seeds": [True]}, "plan: seeds has True; expected whole numbers"),
        ({"data_seeds": []}, "plan: data_seeds is empty"),
        ({"data_seeds": [0.5]}, "plan: data_seeds has 0.5; expected whole numbers"),
        ({"data_seeds": [0, 1], "crossed": False}, "plan: 2 data_seeds and 1 seeds cannot be paired"),
        ({"selections": []}, "plan: selections is empty"),
        ({"selections": ["last"]}, "selections has 'last'; expected one of explored, id_val, oracle, target, val"),
        ({"trials": -1}, "plan: trials is -1; expected 0"),
        ({"arms": [Arm("a", {"seed": 1})]}, "arm 'a': seed is set by the plan"),
        ({"arms": [Arm("a", {}, {"selection": ["val"]})]}, "arm 'a': selection is set by the plan"),
        ({"arms": [Arm("a", {"lr": 1.0}, {"lr": [0.1]})]}, "arm 'a': lr is fixed and also in its space"),
        ({"arms": [Arm("a", {}, {"lr": []})]}, r"arm 'a': space: lr is \[\]; expected a list of values"),
        ({"arms": [Arm("a", {}, {"lr": "0.1"})]}, "arm 'a': space: lr is '0.1'; expected a list"),
        ({"arms": [Arm("a", baseline="b")]}, "arm 'a': baseline is 'b'"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        Plan("planted", **{"arms": [A], "seeds": [0]} | changes)


def test_every_arm_gets_the_same_draws() -> None:
    assert Plan("d", [A], [3, 4]).draws == [(None, 3), (None, 4)]
    assert Plan("d", [A], [3, 4], data_seeds=[7, 8]).draws == [(7, 3), (7, 4), (8, 3), (8, 4)]
    assert Plan("d", [A], [3, 4], data_seeds=[7, 8], crossed=False).draws == [(7, 3), (8, 4)]


def test_tuning_never_uses_a_final_seed() -> None:
    finals = [10_000, 10_002, 5]
    assert tuning_seeds(finals, 3) == [10_001, 10_003, 10_004]
    assert tuning_seeds([], 2) == [10_000, 10_001]


def test_rules_share_a_training_unless_it_is_another() -> None:
    assert trainings(["val"]) == [("val",)]
    assert trainings(["id_val"]) == [("id_val",)]
    assert trainings(["oracle", "id_val", "val"]) == [("oracle", "val"), ("id_val",)]


def test_what_is_written_down_has_no_folder_of_this_machine(tmp_path: Path) -> None:
    options = {"data_dir": tmp_path, "nodes": str(tmp_path / "nodes.csv"), "edges": tmp_path / "e.csv", "degree": 3.0}
    assert Plan("own", [A], [0], options).public_options() == {"nodes": "nodes.csv", "edges": "e.csv", "degree": 3.0}

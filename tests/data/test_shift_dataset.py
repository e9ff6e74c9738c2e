"""What only shows when environments stand side by side."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from reference import random_data


def env(name: str, *, y: list[int] | None = None, task: Task | None = None, **changes: int) -> Environment:
    data = random_data(num_nodes=len(y) if y else 6, **changes)
    if y is not None:
        data.y = torch.tensor(y)
    return Environment(name, data, task)


def refused(words: list[str], *args: object, **roles: object) -> None:
    with pytest.raises(GraphshiftError) as caught:
        ShiftDataset("cities", *args, **roles)
    for word in ["dataset 'cities'", *words]:
        assert word in str(caught.value)


def test_roles_and_task() -> None:
    train, val, test = [env("a"), env("b")], [env("c")], (e for e in [env("d"), env("e")])
    data = ShiftDataset("cities", train, val, test, facts={"spurious_columns": [3]})
    assert [e.name for e in data.environments] == ["a", "b", "c", "d", "e"]
    assert (data.train, data.val) == (tuple(train), tuple(val))
    assert isinstance(data.tests, tuple)
    assert data.task == Task("binary", 2)
    assert data.facts["spurious_columns"] == [3]
    for word in ("'cities'", "binary", "accuracy", "train ['a', 'b']", "val ['c']", "tests ['d', 'e']"):
        assert word in repr(data)


def test_validation_and_tests_may_be_missing() -> None:
    assert ShiftDataset("cities", [env("a")]).environments[0].name == "a"


def test_training_may_not() -> None:
    refused(["no training environment"], [], tests=[env("a")])


@pytest.mark.parametrize("role", ["train", "val", "tests", "target"])
def test_names_widths_and_tasks_fit_together_over_all_roles(role: str) -> None:
    def with_one_more(more: Environment) -> dict[str, list[Environment]]:
        roles = {"train": [env("a", features=5)]}
        return roles | {role: [*roles.get(role, []), more]}

    refused(["two environments are called 'a'"], **with_one_more(env("a", features=5)))
    refused(["'b' has 7 features", "'a' has 5", "same columns"], **with_one_more(env("b", features=7)))
    for other in (Task("binary", 2, "roc_auc"), Task("multiclass", 2), Task("regression", 0)):
        refused(["'b'", other.kind, other.metric, "'a'", "one task"], **with_one_more(env("b", task=other)))


def bare(name: str) -> Environment:
    data = random_data()
    return Environment(name, Data(x=data.x, edge_index=data.edge_index), Task("binary", 2))


def test_labels_are_there_but_in_the_target() -> None:
    for roles in ({"train": [env("a"), bare("b")]}, {"val": [bare("b")]}, {"tests": [bare("b")]}):
        refused(["'b' has no labels `y`"], **{"train": [env("a")]} | roles)
    assert ShiftDataset("cities", [env("a")], target=[bare("b")]).target[0].y is None


def test_a_target_is_carried_without_its_labels_and_stands_apart() -> None:
    labelled, unlabelled = env("d"), bare("e")
    data = ShiftDataset("cities", [env("a")], [env("b")], [env("c")], target=[labelled, unlabelled])
    assert {role: [e.name for e in found] for role, found in data.roles.items()} == {
        "train": ["a"],
        "val": ["b"],
        "tests": ["c"],
        "target": ["d", "e"],
    }
    assert [e.y for e in data.target] == [None, None]
    assert data.target[1] is unlabelled
    assert labelled.y is not None  # the environment that was given is left alone
    assert data.target[0].x is labelled.x
    assert [e.name for e in data.environments] == ["a", "b", "c"]
    assert "target ['d', 'e']" in repr(data)
    assert ShiftDataset("cities", [env("a")]).target == ()
    assert "target" not in repr(ShiftDataset("cities", [env("a")]))


def test_a_class_that_only_the_target_has_is_no_mistake() -> None:
    task = Task("multiclass", 3)
    with pytest.warns(GraphshiftWarning, match="class 2 of 3"):  # its labels are not looked at
        ShiftDataset("cities", [env("a", y=[0, 1, 0], task=task)], target=[env("b", y=[2, 2, 2], task=task)])


@pytest.mark.parametrize("role", ["val", "tests"])
def test_a_class_that_training_never_sees_is_counted_where_it_is_scored(role: str) -> None:
    task = Task("multiclass", 4)
    train = [env("a", y=[0, 1, 0, 1], task=task), env("b", y=[0, 0, 0, 0], task=task)]
    roles = {"val": [env("c", y=[0, 1, 1], task=task)], "tests": [env("d", y=[0, 1, 1], task=task)]}
    roles[role].insert(0, env("e", y=[0, 2, 2, 3], task=task))
    with pytest.warns(GraphshiftWarning, match=r"class 2, 3 is never in training.*\(3 of e\) count as wrong"):
        ShiftDataset("cities", train, **roles)
    alone = [env("a", y=[0, 0, 0, 0], task=task)]
    refused(["training has class 0 alone", "class 1, 2, 3", "two classes"], alone, **roles)


def test_a_class_in_any_training_environment_is_seen() -> None:
    task = Task("multiclass", 3)
    train = [env("a", y=[0, 1, 0], task=task), env("b", y=[2, 2, 2], task=task)]
    assert len(ShiftDataset("cities", train, tests=[env("c", y=[0, 1, 2], task=task)]).environments) == 3


def test_a_class_is_not_seen_outside_the_mask() -> None:
    task = Task("multiclass", 3)
    for hidden in range(3):
        data = random_data(num_nodes=3)
        data.y = torch.tensor([0, 1, 2])
        data.mask = data.y != hidden
        with pytest.warns(GraphshiftWarning, match=rf"class {hidden} is never in training.*\(1 of c\)"):
            ShiftDataset("cities", [Environment("a", data, task)], tests=[env("c", y=[0, 1, 2], task=task)])


def test_a_class_that_nobody_has_is_a_warning() -> None:
    task = Task("multiclass", 3)
    with pytest.warns(GraphshiftWarning, match=r"dataset 'cities': class 1 of 3 has no node anywhere"):
        ShiftDataset("cities", [env("a", y=[0, 2, 0], task=task)], tests=[env("b", y=[0, 2, 2], task=task)])


def test_one_node_is_enough_for_a_test_and_too_few_for_training() -> None:
    one = Environment("one", Data(x=torch.ones(1, 5), edge_index=torch.empty(2, 0).long(), y=torch.tensor([1])))
    assert ShiftDataset("cities", [env("a")], val=[one]).val[0].num_nodes == 1
    refused(["training environment 'one' has one node", "at least two"], [env("a"), one])


def test_a_dataset_does_not_change() -> None:
    data = ShiftDataset("cities", [env("a")])
    with pytest.raises(AttributeError):
        data.train = ()  # type: ignore[misc]


def test_messages_call_classes_by_name() -> None:
    three = Task("multiclass", 3)
    train, val = env("a", y=[0, 1, 0, 1], task=three), env("b", y=[0, 1, 2, 1], task=three)
    facts = {"class_names": ("red", "green", "blue")}
    with pytest.warns(GraphshiftWarning, match="class 'blue' is never in training"):
        ShiftDataset("mine", [train], [val], facts=facts)
    with pytest.warns(GraphshiftWarning, match="class 'blue' of 3 has no node anywhere"):
        ShiftDataset("mine", [train], facts=facts)
    assert ShiftDataset("mine", [val], facts=facts).class_names == facts["class_names"]
    assert ShiftDataset("mine", [val]).class_names == ("0", "1", "2")

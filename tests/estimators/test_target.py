"""Training with an unlabelled target: what a method may see, that labels are out of reach, and that it is said."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.estimators.target import MARK, MEANING
from graphshift.fitting.memory import estimate
from graphshift.methods import METHODS
from graphshift.methods.coral import CORALMethod
from graphshift.report.study_tables import as_csv, main_tables
from graphshift.studies import Arm, run_study
from small import identical
from tiny_studies import ERM, TINY, plan

SMALL: dict[str, Any] = {"epochs": 4, "hidden_channels": 4, "dropout": 0.2}
USERS = [name for name, method in METHODS.items() if method.uses_target and method.uses_backbone]


@pytest.fixture(scope="module")
def data() -> ShiftDataset:
    return gs.load("planted", nodes=60, environments=4)


def relabelled(environments: Sequence[Environment]) -> list[Environment]:
    """The same graphs with other labels."""
    return [e.replace(y=(e.y + 1) % 4, known_y=(e.y + 2) % 4) for e in environments if e.y is not None]


def test_a_graph_without_labels_has_nothing_that_tells_them() -> None:

    graph = gs.Environment("g", gs.load("planted", nodes=60).train[0].data)

    rich = graph.replace(known_y=graph.y, further_y=torch.full((60, 1), -1))
    bare = rich.unlabelled()
    assert (bare.y, bare.known_y, bare.further_y) == (None, None, None)
    truth = {value for value in (rich.y, rich.known_y, rich.further_y) if value is not None}
    assert not [name for name, value in vars(bare).items() if any(value is one for one in truth)]
    with pytest.raises(GraphshiftError, match="no labels"):
        _ = bare.labels


@pytest.mark.parametrize("name", USERS)
def test_the_labels_of_the_tests_change_nothing_and_their_graphs_do(data: ShiftDataset, name: str) -> None:
    def fitted(tests: Sequence[Environment]) -> dict[str, torch.Tensor]:
        return METHODS[name](target="tests", **SMALL).fit(data.train, data.val, tests).arrays()  # type: ignore[call-arg]

    assert identical(fitted(data.tests), fitted(relabelled(data.tests)))
    moved = [e.replace(x=e.x * -3) for e in data.tests]  # type: ignore[operator]
    assert not identical(fitted(data.tests), fitted(moved))


@pytest.mark.parametrize("name", USERS)
def test_the_three_ways_to_give_a_target_are_one(data: ShiftDataset, name: str, tmp_path: Path) -> None:
    whole = dataclasses.replace(data, tests=(), target=data.tests)
    by_role = METHODS[name](**SMALL).fit(whole)
    plain = {n: v for n, v in data.defaults.items() if n in by_role.settings() and n not in SMALL}
    by_argument = METHODS[name](**SMALL | plain).fit(data.train, data.val, target=data.tests)
    by_tests = METHODS[name](target="tests", **SMALL).fit(data)
    assert identical(by_role.arrays(), by_argument.arrays())
    assert identical(by_role.arrays(), by_tests.arrays())
    assert by_role.target_ == by_tests.target_ == [e.name for e in data.tests]
    by_tests.save(tmp_path)
    again = gs.load_model(tmp_path)
    assert again.target_ == by_tests.target_
    assert again.score(data.tests) == by_tests.score(data.tests)


def test_what_cannot_be_is_refused(data: ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match=r"erm does not train with the target; .*coral.* can"):
        gs.ERM(**SMALL).fit(data.train, data.val, target=data.tests)
    with pytest.raises(GraphshiftError, match="dann does not train with the target"):
        gs.DANN(target="none", **SMALL).fit(data.train, data.val, target=data.tests)
    with pytest.raises(GraphshiftError, match="features"):
        gs.DANN(**SMALL).fit(data.train, target=gs.load("planted-structure", nodes=60).tests[0])
    with pytest.raises(GraphshiftError, match="two environments are called 'train'"):
        gs.DANN(**SMALL).fit(data.train, target=data.train)
    with pytest.raises(GraphshiftError, match="no test environments"):
        gs.DANN(target="tests", **SMALL).fit(data.train)


@pytest.mark.parametrize("name", [name for name in USERS if getattr(METHODS[name], "needs_target", False)])
def test_a_method_that_needs_a_target_says_so(data: ShiftDataset, name: str) -> None:
    with pytest.raises(GraphshiftError, match=f"method {name} trains with an unlabelled target, .*--target tests"):
        METHODS[name](**SMALL).fit(data)


def test_a_blend_hands_the_target_on(data: ShiftDataset) -> None:
    members = [{"method": "coral", "target": "tests", **SMALL}, {"method": "erm", **SMALL}]
    model = gs.Blend(members=members).fit(data)
    alone = gs.CORAL(target="tests", **SMALL).fit(data)
    assert identical(model.members_[0].arrays(), alone.arrays())
    assert (list(model.members_[1].target_), model.target_) == ([], alone.target_)


def test_coral_and_dann_align_the_source_with_the_target(data: ShiftDataset) -> None:
    """One group has every training node, the other every node of the target; the risk is the source's alone."""
    estimator = gs.CORAL(target="tests", penalty=0.5, **SMALL | {"dropout": 0.0}).resolved()
    target = [e.unlabelled() for e in data.tests]
    backbone = estimator.new_backbone(24, data.task)
    method = CORALMethod(backbone, estimator)
    method.target = target
    backbone.train()
    with torch.no_grad():
        hidden, output = backbone.represent(backbone.stem(data.train[0].x), data.train[0].graph)
        theirs = torch.cat([backbone.represent(backbone.stem(e.x), e.graph)[0] for e in target])
    difference = torch.cov(hidden.t()) - torch.cov(theirs.t())
    expected = (hidden.mean(0) - theirs.mean(0)).square().mean() + difference.square().mean()
    numbers = method.step(data.train, 0.0)
    assert numbers["penalty"] == pytest.approx(float(expected), rel=1e-4)
    assert numbers["risk"] == pytest.approx(float(data.train[0].risk(output)), rel=1e-5)
    told = gs.DANN(target="tests", **SMALL).fit(data).history_[0]["told_apart"]
    nodes = data.train[0].num_nodes, sum(e.num_nodes for e in data.tests)
    assert told * sum(nodes) == pytest.approx(round(told * sum(nodes)), abs=1e-3)  # a share of all these nodes


def test_a_study_marks_what_has_seen_the_target() -> None:
    arms = [ERM, Arm("CORAL", {"method": "coral", "target": "tests", **TINY})]
    study = run_study(plan(arms=arms, trials=0, adapt=("norm",)), workers=0, threads=1)
    table = main_tables(study.summary)[0]
    assert [row[0] for row in table.rows] == ["ERM", "ERM, + norm", f"CORAL {MARK}", f"CORAL, + norm {MARK}"]
    assert MEANING in table.note
    assert all(MEANING in finding.text for finding in study.summary.findings if "CORAL" in finding.arm)
    assert not any(MEANING in finding.text for finding in study.summary.findings if "CORAL" not in finding.arm)
    assert as_csv(study.summary).count('[""T1"", ""T2""]') == 2
    records = {record.arm: record.trained_with for record in study.records}
    assert records == {"ERM": [], "CORAL": ["T1", "T2"]}


def test_memory_counts_the_target(data: ShiftDataset) -> None:
    large = gs.load("planted", nodes=3000, environments=4)
    without, with_it = (estimate(large, gs.CORAL(target=how), resident=0).parts for how in ("none", "tests"))
    assert with_it["activations"] == 3 * without["activations"]  # two tests of the training graph's size


def test_the_command_trains_with_the_tests_and_says_so(graphshift: Any, tmp_path: Path) -> None:
    fit = ("fit", "planted", "-o", "nodes=60", "--method", "coral", "--epochs", 3, "--out", tmp_path / "run")
    answer = graphshift(*fit, "--target", "tests")
    assert answer.status == 0
    assert "trained with unlabelled graphs too: T1, T2" in answer.out
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["trained_with"] == [f"T{i}" for i in range(1, 9)]
    answer = graphshift(*fit, "--target", "none", "--resume")
    assert (answer.status, "target" in answer.err) == (2, True)
    answer = graphshift("fit", "planted", "--method", "erm", "--target", "tests")
    assert (answer.status, "does not look at it" in answer.err) == (2, True)

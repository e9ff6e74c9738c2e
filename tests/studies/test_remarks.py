"""A study says so where a GNN is below a simple model, and where an arm is its own baseline, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.studies import Arm, Plan, remarks, run_study
from graphshift.studies.pool import cores, default_threads
from tiny_studies import record

pytestmark = pytest.mark.filterwarnings("ignore")


def unlike(name: str, seed: int) -> gs.Environment:
    """Columns that say the class, and edges between unlike nodes alone."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (200,), generator=generator)
    x = torch.stack([y * 2.0 - 1, torch.rand(200, generator=generator)], dim=1) + 0.5 * torch.rand(
        200, 2, generator=generator
    )
    ends = torch.randint(0, 200, (2, 4000), generator=generator)
    return gs.Environment(name, Data(x=x, edge_index=ends[:, y[ends[0]] != y[ends[1]]], y=y), gs.Task("binary", 2))


def test_a_gnn_below_a_simple_model_is_said_with_the_likely_reason() -> None:
    data = gs.ShiftDataset("mine", [unlike("a", 0)], [unlike("b", 1)], [unlike("c", 2)])
    arms = [
        Arm("Logistic regression", {"method": "logistic"}),
        Arm("ERM", {"method": "erm", "epochs": 3, "lr": 0.0001}),
    ]
    study = run_study(Plan(data, arms, range(3)), workers=0, threads=1)  # type: ignore[arg-type]
    first, second, *rest = study.summary.notes
    assert first.startswith("The best GNN on validation, ERM (")
    assert first.endswith("is below Logistic regression (100.0), which uses no GNN.")
    assert second.startswith("On the tests ERM (")
    assert "In training 0 % of edges join nodes of one class" in rest[-1]


def test_a_gnn_below_the_largest_class_is_said() -> None:
    data = gs.ShiftDataset("mine", [unlike("a", 0)], [unlike("b", 1)], [unlike("c", 2)])
    swapped = replace(data, tests=[e.replace(y=1 - e.y) for e in data.tests if e.y is not None])  # other codes there
    study = run_study(
        Plan(swapped, [Arm("ERM", {"method": "erm", "epochs": 60, "backbone": "mlp"})], [0]), workers=0, threads=1
    )  # type: ignore[arg-type]
    assert any("is below the largest class in c (" in note for note in study.summary.notes)


def test_an_arm_that_is_its_own_baseline_says_why() -> None:
    """Two arms with one model: their scores cannot differ."""
    data = gs.ShiftDataset("mine", [unlike("a", 0)], [unlike("b", 1)], [unlike("c", 2)])
    tiny = {"epochs": 2, "hidden_channels": 4}
    arms = [Arm("ERM", {"method": "erm", **tiny}), Arm("again", {"method": "erm", **tiny}, baseline="ERM")]
    study = run_study(Plan(data, arms, range(3)), workers=0, threads=1)  # type: ignore[arg-type]
    (said,) = [note for note in study.summary.notes if "very scores" in note]
    assert said.startswith("again has the very scores of ERM: what it adds to the risk is zero on these data")


def test_arms_that_all_say_the_largest_class_are_one_sentence() -> None:
    """A method without a GNN adds nothing to a risk, whatever its scores are."""
    graphs = [unlike(name, seed) for seed, name in enumerate("abc")]
    train, val, test = (e.replace(y=(torch.arange(e.num_nodes) >= 150).long()) for e in graphs)  # nothing shows it
    data = gs.ShiftDataset("mine", [train], [val], [test])
    arms = [
        Arm("ERM", {"method": "erm", "epochs": 5, "lr": 0.05, "backbone": "mlp"}),
        Arm("Largest class", {"method": "majority"}),
        Arm("Label propagation", {"method": "label-propagation"}),
    ]
    study = run_study(Plan(data, arms, range(2)), workers=0, threads=1)  # type: ignore[arg-type]
    said = [note for note in study.summary.notes if "very scores" in note]
    assert said == [
        "Largest class and Label propagation have the very scores of ERM: those of always saying the largest class."
    ]
    runs = [record(method="forest", backbone=None, majority={"T1": 0.4})]
    assert remarks._why_same(runs, "val") == ""
    assert remarks._why_same([record(method="forest", majority={"T1": 0.5})], "val").startswith("those of always")


@pytest.mark.parametrize(
    ("settings", "epoch", "why"),
    [
        # The penalty counts from the epoch e with (e - 1) / (11 - 1) of at least 0.5: from the sixth.
        ({"anneal": 0.5, "epochs": 11, "penalty": 1.0}, 5, "its penalty counts only after the epochs that were chosen"),
        ({"anneal": 0.5, "epochs": 11, "penalty": 1.0}, 6, "what it adds to the risk is zero"),
        ({"anneal": 0.0, "epochs": 11, "penalty": 0.0}, 6, "the weight of its penalty is 0"),
    ],
)
def test_why_a_method_is_its_baseline(settings: dict[str, Any], epoch: int, why: str) -> None:
    runs = [record(settings=settings, selected={"epoch": epoch})]
    assert remarks._why_same(runs, "val").startswith(why)


def test_threads_are_those_that_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads(2) == 3
    for nothing in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert default_threads(1) == cores()
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert default_threads(10_000) == 1

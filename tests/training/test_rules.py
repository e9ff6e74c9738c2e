"""One training for several rules: each finds what it would find alone, also after a resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import graphshift as gs
from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.methods import Method
from graphshift.training.loop import TrainingResult, train
from graphshift.training.run import Run
from small import by, identical

SETTINGS: dict[str, Any] = {"hidden_channels": 4, "lr": 0.1, "dropout": 0.3, "epochs": 14}


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=60)


class Scripted(Method):
    """Reaches given scores, epoch by epoch: for each environment a list; its one weight counts the epochs."""

    def __init__(self, scores: dict[str, list[float]]) -> None:
        super().__init__(Counting(), gs.ERM())
        self.scores = scores

    def step(self, environments: Sequence[gs.Environment], progress: float) -> dict[str, float]:
        self.backbone.count.data += 1
        return {"loss": 1.0}

    def predict(self, environment: gs.Environment) -> Tensor:
        right = round(10 * self.scores[environment.name][int(self.backbone.count) - 1])
        y = torch.arange(10) % 2
        return torch.where((torch.arange(10) < right) == y.bool(), 5.0, -5.0).unsqueeze(1)


class Counting(Backbone):
    """A backbone that only counts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = torch.nn.Parameter(torch.zeros(()))

    def stem(self, x: Any) -> Tensor:
        return x

    def propagate(self, h: Tensor, graph: Any) -> Tensor:
        return h


def environment(name: str) -> gs.Environment:
    y = torch.arange(10) % 2
    return gs.Environment(name, Data(x=torch.ones(10, 1), edge_index=torch.tensor([[0], [1]]), y=y))


SCORES = {"a": [0.2, 0.8, 0.5, 0.5, 0.5, 0.9], "b": [0.5, 0.1, 0.6, 0.4, 0.7, 0.2]}


@pytest.mark.parametrize(
    ("patience", "main", "other", "length"), [(None, 6, 5, 6), (1, 2, 1, 3), (2, 2, 5, 6), (3, 2, 5, 6)]
)
def test_every_rule_keeps_its_own_epoch_and_its_own_patience(
    patience: int | None, main: int, other: int, length: int
) -> None:
    a, b = environment("a"), environment("b")
    result = train(Scripted(SCORES), [environment("train")], by([a]), epochs=6, patience=patience, also={"b": by([b])})
    for epoch, weights, expected in (
        (result.best.epoch, result.best.weights, main),
        (result.also["b"].epoch, result.also["b"].weights, other),
    ):
        assert (epoch, weights["count"].item()) == (expected, expected)
    assert result.also["b"].score == SCORES["b"][other - 1]
    assert len(result.history) == length
    for name, chosen in (("a", main), ("b", other)):  # alone, each finds the same
        alone = train(Scripted(SCORES), [environment("train")], by([environment(name)]), epochs=6, patience=patience)
        assert alone.best.epoch == chosen


@pytest.mark.parametrize("patience", [None, 2], ids=["to the end", "impatient"])
@pytest.mark.parametrize("estimator", [gs.ERM, gs.EERM])
def test_each_rule_finds_what_it_would_find_alone(
    estimator: type[gs.Estimator], patience: int | None, data: gs.ShiftDataset
) -> None:
    more = {"views": 2, "edits_per_node": 1} if estimator is gs.EERM else {}
    made = {**SETTINGS, **more, "patience": patience}
    both = estimator(**made).fit(data.train, data.val, data.tests, also=["oracle"])
    alone = {
        rule: estimator(selection=rule, **made).fit(data.train, data.val, data.tests) for rule in ("val", "oracle")
    }
    assert identical(both.backbone_.state_dict(), alone["val"].backbone_.state_dict())
    assert (both.best_epoch_, both.best_score_) == (alone["val"].best_epoch_, alone["val"].best_score_)
    other = both.also_["oracle"]
    assert identical(other.weights, alone["oracle"].backbone_.state_dict())
    assert (other.epoch, other.score) == (alone["oracle"].best_epoch_, alone["oracle"].best_score_)
    assert len(both.history_) == max(len(model.history_) for model in alone.values())


def test_history_has_the_scores_of_every_rule(data: gs.ShiftDataset) -> None:
    model = gs.ERM(**SETTINGS).fit(data.train, data.val, data.tests, also=["oracle"])
    assert max(row["oracle"] for row in model.history_) == model.also_["oracle"].score
    assert gs.ERM(**SETTINGS).fit(data.train, data.val).also_ == {}


def test_a_resumed_training_keeps_what_further_rules_chose(tmp_path: Path) -> None:
    class CrashError(Exception):
        pass

    class Crashing(Run):
        def record(self, row: dict[str, Any]) -> None:
            super().record(row)
            if row["epoch"] == 5:
                raise CrashError

    scores = {
        "a": [0.2, 0.8, 0.5, 0.5, 0.5, 0.9],
        "b": [0.5, 0.1, 0.6, 0.4, 0.2, 0.2],
    }  # b's best comes before the crash
    a, b = environment("a"), environment("b")

    def run(folder: Run) -> TrainingResult:
        return train(Scripted(scores), [environment("train")], by([a]), epochs=6, also={"b": by([b])}, run=folder)

    with pytest.raises(CrashError):
        run(Crashing(tmp_path, 0))
    assert json.loads((tmp_path / "history.jsonl").read_text().splitlines()[-1])["epoch"] == 5
    resumed = run(Run(tmp_path, 0))
    assert (resumed.best.epoch, resumed.best.weights["count"].item()) == (6, 6)
    assert (resumed.also["b"].epoch, resumed.also["b"].score) == (3, 0.6)
    assert resumed.also["b"].weights["count"].item() == 3
    assert [row["b"] for row in resumed.history] == scores["b"]


def test_a_run_with_other_rules_is_not_resumed(data: gs.ShiftDataset, tmp_path: Path) -> None:
    gs.ERM(**SETTINGS).fit(data.train, data.val, run=Run(tmp_path, 0))
    with pytest.raises(GraphshiftError, match="other settings or other data"):
        gs.ERM(**SETTINGS).fit(data.train, data.val, data.tests, also=["oracle"], run=Run(tmp_path, 0))


@pytest.mark.parametrize("rule", ["id_val", "last"])
def test_a_rule_that_changes_training_cannot_share_it(rule: str, data: gs.ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match=f"also is '{rule}'; expected one of 'explored', 'oracle', 'target'"):
        gs.ERM(**SETTINGS).fit(data.train, data.val, also=[rule])


def test_a_further_rule_needs_its_environments(data: gs.ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match="selection 'oracle' needs test environments"):
        gs.ERM(**SETTINGS).fit(data.train, data.val, also=["oracle"])
    state = torch.get_rng_state()
    gs.ERM(selection="last", **SETTINGS).fit(data.train, data.val, also=["val"])
    assert torch.equal(torch.get_rng_state(), state)

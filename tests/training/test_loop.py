"""The training loop: which epoch is kept by which rule, when it stops, what it writes, what it never looks at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import graphshift as gs
from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.methods import Method
from graphshift.training.batches import one_by_one
from graphshift.training.callbacks import Callback
from graphshift.training.loop import TrainingResult, train
from graphshift.training.run import Run
from graphshift.training.selection import SELECTIONS
from small import by, environments, identical, split, without_seconds

TEN = torch.arange(10) % 2


def scripted_environment(name: str, metric: str = "accuracy") -> Environment:
    task = Task("regression", 0) if metric == "mse" else Task("binary", 2, metric)
    y = TEN.float() if metric == "mse" else TEN
    return Environment(name, Data(x=torch.ones(10, 1), edge_index=torch.tensor([[0], [1]]), y=y), task)


class Remembering(Backbone):
    """Its one weight is the number of the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = torch.nn.Parameter(torch.zeros(()))

    def stem(self, x: Any) -> Tensor:
        return x

    def propagate(self, h: Tensor, graph: Any) -> Tensor:
        return h


class Scripted(Method):
    """Reaches given scores, epoch by epoch: for each environment a list."""

    def __init__(self, scores: dict[str, list[float]], losses: list[float] | None = None) -> None:
        super().__init__(Remembering(), gs.ERM())
        self.scores, self.losses, self.looked = scores, losses, []

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        epoch = int(self.backbone.epoch) + 1
        self.backbone.epoch.data.fill_(epoch)
        return {"loss": self.losses[epoch - 1] if self.losses else 1.0 / epoch, "progress": progress}

    def predict(self, environment: Environment) -> Tensor:
        self.looked.append(environment.name)
        score = self.scores[environment.name][int(self.backbone.epoch) - 1]
        if environment.task.kind == "regression":
            return (TEN + math.sqrt(score)).unsqueeze(1)
        if math.isnan(score):
            return torch.full((10, 1), score)
        right = torch.arange(10) < round(10 * score)
        return torch.where(right == TEN.bool(), 5.0, -5.0).unsqueeze(1)


def run_script(scores: dict[str, list[float]], metric: str = "accuracy", **options: Any) -> TrainingResult:
    select_by = [scripted_environment(name, metric) for name in scores]
    length = max((len(s) for s in scores.values()), default=5)
    return train(
        Scripted(scores), [scripted_environment("train", metric)], by(select_by), **{"epochs": length} | options
    )


@pytest.mark.parametrize(
    ("scores", "best", "score"),
    [
        ({"a": [0.2, 0.8, 0.5]}, 2, 0.8),
        ({"a": [0.9, 0.8, 0.5]}, 1, 0.9),
        ({"a": [0.1, 0.2, 0.3]}, 3, 0.3),
        ({"a": [0.2, 0.8, 0.5, 0.8, 0.8]}, 2, 0.8),  # the first of equals
        ({"a": [0.0, 0.0]}, 1, 0.0),
        ({"a": [0.9, 0.6, 0.1], "b": [0.1, 0.6, 0.9]}, 2, 0.6),  # the mean over environments
    ],
)
def test_the_epoch_with_the_best_mean_score_is_kept(scores: dict[str, list[float]], best: int, score: float) -> None:
    result = run_script(scores)
    assert (result.best.epoch, result.best.weights["epoch"].item()) == (best, best)
    assert result.best.score == pytest.approx(score)
    means = [np.mean(column) for column in zip(*scores.values(), strict=True)]
    assert [row["val"] for row in result.history] == pytest.approx(means)


def test_a_metric_of_which_less_is_better_is_minimised() -> None:
    result = run_script({"a": [0.4, 0.1, 0.3, 0.1]}, metric="mse")
    assert (result.best.epoch, result.best.weights["epoch"].item()) == (2, 2)
    assert result.best.score == pytest.approx(0.1)


def test_without_environments_to_select_by_the_last_epoch_is_kept() -> None:
    result = run_script({}, epochs=4)
    assert (result.best.epoch, result.best.score, result.best.weights["epoch"].item()) == (4, None, 4)
    assert all("val" not in row for row in result.history)


@pytest.mark.parametrize(
    ("patience", "length"),
    [(None, 8), (1, 3), (2, 4), (3, 8)],  # best at 2, better at 5: patience 3 gets there
)
def test_early_stopping_waits_as_long_as_asked(patience: int | None, length: int) -> None:
    result = run_script({"a": [0.1, 0.5, 0.5, 0.4, 0.6, 0.1, 0.1, 0.1]}, patience=patience)
    assert len(result.history) == length
    assert result.best.epoch == (5 if length > 4 else 2)


def test_progress_goes_from_0_to_1() -> None:
    assert [row["progress"] for row in run_script({}, epochs=5).history] == [0, 0.25, 0.5, 0.75, 1]
    assert [row["progress"] for row in run_script({}, epochs=1).history] == [0]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_a_number_stops_with_an_explanation(loss: float) -> None:
    method = Scripted({"a": [0.1] * 5}, [1.0, 1.0, loss, 1.0, 1.0])
    with pytest.raises(GraphshiftError, match=f"loss became {loss} at epoch 3.*learning rate.*clip"):
        train(method, [scripted_environment("train")], by([scripted_environment("a")]), epochs=5)
    assert int(method.backbone.epoch) == 3


@pytest.mark.parametrize("metric", ["accuracy", "mse"])
def test_predictions_that_are_not_numbers_stop_with_an_explanation(metric: str) -> None:
    """scikit-learn would refuse them with words of its own, or take NaN for a class."""
    with pytest.raises(GraphshiftError, match=r"predictions .* NaN or infinite at epoch 2; .* learning rate"):
        run_script({"a": [0.1, math.nan, 0.1]}, metric)


def test_weights_that_are_not_numbers_stop_with_an_explanation() -> None:
    class Exploding(Scripted):
        def step(self, *args: Any) -> dict[str, float]:
            row = super().step(*args)
            self.backbone.epoch.data.fill_(math.inf)
            return row

    with pytest.raises(GraphshiftError, match=r"weights became NaN or infinite at epoch 1; .* learning rate"):
        train(Exploding({}), [scripted_environment("train")], by([]), epochs=1)


def test_the_report_and_the_file_get_every_row(tmp_path: Path) -> None:
    told: list[Any] = []

    class Telling(Callback):
        def on_start(self, epochs: int) -> None:
            told.append(epochs)

        def on_epoch(self, row: Mapping[str, Any]) -> None:
            told.append(row)

        def on_end(self, result: TrainingResult | None) -> None:
            told.append(result)

    result = run_script({"a": [0.1, 0.3, 0.2]}, run=Run(tmp_path), callbacks=[Telling()])
    assert told == [3, *result.history, result]
    written = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert written == result.history
    assert [row["epoch"] for row in written] == [1, 2, 3]
    assert [row["loss"] for row in written] == [1.0, 1 / 2, 1 / 3]
    assert [row["val"] for row in written] == pytest.approx([0.1, 0.3, 0.2])
    seconds = [row["seconds"] for row in written]
    assert 0 < seconds[0] <= seconds[1] <= seconds[2] == result.seconds


@pytest.mark.parametrize("estimator", [gs.ERM, gs.EERM])
def test_a_fitted_model_has_the_weights_of_the_best_epoch(estimator: type[gs.Estimator]) -> None:
    (train_,) = gs.load("planted", nodes=60).train
    wrong = train_.replace(name="wrong", y=(train_.y + 1) % 4)  # the better the fit, the worse the score
    model = estimator(epochs=12, lr=0.1).fit(train_, wrong)
    scores = [row["val"] for row in model.history_]
    assert scores[-1] < max(scores) == model.best_score_ == scores[model.best_epoch_ - 1]
    assert model.score(wrong) == model.best_score_


def test_history_of_eerm_has_the_parts_of_the_objective() -> None:
    data = gs.load("planted", nodes=60)
    model = gs.EERM(epochs=2, views=2, hidden_channels=4).fit(data.train, data.val)
    for row in model.history_:
        assert set(row) == {"epoch", "loss", "variance", "risk", "beta", "val", "seconds"}


# --- selection rules ---------------------------------------------------------------------------------------------


def test_rules_choose_their_environments() -> None:
    train_, val, tests = environments(2), environments(1, seed=5), environments(1, seed=6)
    assert split("val", train_, val, tests, 0) == (train_, val)
    assert split("oracle", train_, val, tests, 0) == (train_, tests)
    assert split("last", train_, val, tests, 0) == (train_, [])
    assert split("explored", train_, val, tests, 0) == (train_, val)
    assert set(SELECTIONS) == {"val", "explored", "target", "oracle", "last", "id_val"}


def test_id_val_holds_a_fifth_of_the_counted_nodes_out() -> None:
    originals = environments(2, nodes=60)
    kept, held = split("id_val", originals, environments(1), [], 3)
    for original, k, h in zip(originals, kept, held, strict=True):
        assert not (k.mask & h.mask).any()
        assert torch.equal(k.mask | h.mask, original.mask)
        assert int(h.mask.sum()) == round(0.2 * int(original.mask.sum()))
        assert torch.equal(k.counted, k.mask.nonzero().squeeze(1))  # nothing cached is carried over
        assert torch.equal(h.labels, original.y[h.mask])
    again = split("id_val", originals, [], [], 3)[1]
    other = split("id_val", originals, [], [], 4)[1]
    assert torch.equal(again[0].mask, held[0].mask)
    assert not torch.equal(other[0].mask, held[0].mask)


def test_id_val_never_trains_on_what_it_holds_out() -> None:
    (original,) = environments(1, nodes=60)
    (held,) = split("id_val", [original], [], [], 0)[1]
    scrambled = original.replace(y=torch.where(held.mask, (original.y + 1) % 3, original.y))
    fits = [gs.EERM(epochs=4, views=2, hidden_channels=4, selection="id_val").fit(e) for e in (original, scrambled)]
    losses = [[row["loss"] for row in fit.history_] for fit in fits]
    assert losses[0] == losses[1]
    assert [row["val"] for row in fits[0].history_] != [row["val"] for row in fits[1].history_]


@pytest.mark.parametrize(
    ("rule", "given", "match"),
    [
        ("val", {"tests": True}, "selection 'val' needs validation environments: pass `val`.*'id_val'.*'last'"),
        ("oracle", {"val": True}, "selection 'oracle' needs test environments: pass `tests`"),
        ("best", {"val": True}, "selection is 'best'; expected one of explored, id_val, last, oracle, target, val"),
    ],
)
def test_a_rule_without_its_environments_is_a_clear_error(rule: str, given: dict[str, bool], match: str) -> None:
    other = environments(1, seed=9)
    val, tests = other if given.get("val") else [], other if given.get("tests") else []
    with pytest.raises(GraphshiftError, match=match):
        split(rule, environments(1), val, tests, 0)


def test_too_few_nodes_to_hold_out_are_named() -> None:
    (e,) = environments(1)
    e = e.replace(name="tiny", mask=torch.arange(e.num_nodes) < 2)
    with pytest.raises(GraphshiftError, match="'tiny' has 2 counted nodes, too few"):
        split("id_val", [e], [], [], 0)


@pytest.mark.parametrize("rule", ["val", "id_val", "last", "oracle"])
def test_only_oracle_looks_at_the_tests(rule: str) -> None:
    data = gs.load("planted", nodes=60)
    scrambled = [e.replace(y=e.y[torch.randperm(e.num_nodes)]) for e in data.tests]
    fits = [
        gs.ERM(epochs=5, hidden_channels=4, selection=rule).fit(data.train, data.val, tests)
        for tests in (data.tests, scrambled)
    ]
    same = without_seconds(fits[0].history_) == without_seconds(fits[1].history_)
    assert same == (rule != "oracle")
    if rule != "oracle":
        assert identical(fits[0].backbone_.state_dict(), fits[1].backbone_.state_dict())


# --- determinism -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        gs.ERM(epochs=3, hidden_channels=4, dropout=0.5),
        gs.EERM(epochs=3, hidden_channels=4, dropout=0.5, views=2, inner_steps=2, explorer_lr=1.0),
        gs.EERM("gat", epochs=2, hidden_channels=4, views=2, explorer="random", selection="id_val"),
    ],
    ids=["erm", "eerm", "random"],
)
def test_the_same_seed_gives_the_same_bits_and_the_user_keeps_their_random_state(model: gs.Estimator) -> None:
    data = gs.load("planted", nodes=60)
    torch.manual_seed(1)
    first = model.fit(data.train, data.val)
    history, weights = without_seconds(first.history_), first.backbone_.state_dict()
    torch.manual_seed(2)
    np.random.seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    second = model.fit(data.train, data.val)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)
    assert without_seconds(second.history_) == history
    assert identical(second.backbone_.state_dict(), weights)
    third = type(model)(**model.get_params() | {"seed": 1}).fit(data.train, data.val)
    assert not identical(third.backbone_.state_dict(), weights)
    assert without_seconds(third.history_) != history


def test_weight_decay_shrinks_weights() -> None:
    data = gs.load("planted", nodes=60)
    norms = []
    for decay in (0.0, 5.0):
        model = gs.ERM("mlp", epochs=30, weight_decay=decay, selection="last").fit(data.train)
        norms.append(sum(p.square().sum().item() for p in model.backbone_.parameters()))
    assert norms[1] < 0.5 * norms[0]


# --- batches -----------------------------------------------------------------------------------------------------


def test_an_epoch_goes_through_its_batches_and_reports_their_mean() -> None:
    seen: list[list[str]] = []

    class Watching(Scripted):
        def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
            seen.append([e.name for e in environments])
            return {"loss": float(len(seen)), "progress": progress}

    training = [scripted_environment("a"), scripted_environment("b")]
    result = train(Watching({}), training, by([]), epochs=2, batches=one_by_one)
    assert seen == [["a"], ["b"], ["a"], ["b"]]
    assert [(row["loss"], row["progress"]) for row in result.history] == [(1.5, 0.0), (3.5, 1.0)]
    with pytest.raises(GraphshiftError, match="batches gave nothing"):
        train(Watching({}), training, by([]), epochs=1, batches=lambda environments, epoch: [])


@pytest.mark.parametrize("estimator", [gs.EERM, gs.IRM, gs.GroupDRO, gs.DANN], ids=lambda e: e.__name__)
def test_every_method_trains_on_batches_and_resumes_to_the_same_bits(estimator: type, tmp_path: Path) -> None:
    """Batches in an order that changes from epoch to epoch."""

    def turns(environments: Sequence[Environment], epoch: int) -> list[Sequence[Environment]]:
        return [[e] for e in (environments if epoch % 2 else reversed(environments))]

    training, val = environments(3, nodes=40), environments(1, nodes=40, seed=9)
    options: dict[str, Any] = {"epochs": 6, "hidden_channels": 4, "lr": 0.05}
    options |= {"views": 2, "explorer_lr": 1.0} if estimator is gs.EERM else {"group_by": "degree"}
    whole = estimator(**options).fit(training, val[0].replace(name="val"), batches=turns)
    plain = estimator(**options).fit(training, val[0].replace(name="val"))
    assert without_seconds(plain.history_) != without_seconds(whole.history_)

    class StopError(Exception):
        pass

    class Stopping(Callback):
        def on_epoch(self, row: Mapping[str, Any]) -> None:
            if row["epoch"] == 3:
                raise StopError

    run = Run(tmp_path / "run", every=0.0)
    with pytest.raises(StopError):
        estimator(**options).fit(training, val[0].replace(name="val"), batches=turns, run=run, callbacks=[Stopping()])
    resumed = estimator(**options).fit(training, val[0].replace(name="val"), batches=turns, run=Run(run.folder, 0.0))
    assert without_seconds(resumed.history_) == without_seconds(whole.history_)
    assert identical(resumed.backbone_.state_dict(), whole.backbone_.state_dict())

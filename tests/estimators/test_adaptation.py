"""Using the unlabelled graph: batch statistics, the class prior by expectation maximisation, and when it is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import Tensor
from torch_geometric.data import Data

import graphshift as gs
from graphshift.backbones import make_backbone
from graphshift.backbones.batchnorm import own_statistics
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import (
    ADAPTATIONS,
    Calibration,
    calibrated_to,
    estimated_prior,
    parts_of,
    reweighted,
)
from graphshift.estimators.loading import load_model
from small import OwnModule, environments, identical

MEANS = torch.tensor([[0.0, 0.0], [1.6, 0.0], [0.0, 1.6]], dtype=torch.float64)


def drawn(prior: list[float], count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of three normal distributions, and which."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(prior, dtype=torch.float64), count, replacement=True, generator=generator)
    return MEANS[labels] + torch.randn(count, 2, generator=generator, dtype=torch.float64), labels


def posterior(points: Tensor, prior: Tensor) -> Tensor:
    """Bayes' rule, with the true densities."""
    return (prior.log() - 0.5 * (points.unsqueeze(1) - MEANS).square().sum(dim=2)).softmax(dim=1)


OLD = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def test_reweighting_is_bayes_rule() -> None:
    new = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    points, _ = drawn([1, 1, 1], 50, 0)
    torch.testing.assert_close(reweighted(posterior(points, OLD), OLD, new), posterior(points, new))
    never = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    assert not reweighted(posterior(points, OLD), never, new)[:, 2].any()


@pytest.mark.parametrize("new", [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.02, 0.9, 0.08]])
def test_the_estimated_prior_is_the_true_one_and_of_largest_likelihood(new: list[float]) -> None:
    points, labels = drawn(new, 6000, 1)
    probabilities = posterior(points, OLD)
    found, settled = estimated_prior(probabilities, OLD)
    assert settled
    shares = torch.bincount(labels, minlength=3) / labels.numel()
    torch.testing.assert_close(found, shares.double(), atol=0.02, rtol=0)

    def cost(free: np.ndarray[Any, Any]) -> float:  # −log-likelihood of the mixture, over the simplex
        prior = torch.tensor(np.append(free, 0.0)).softmax(dim=0)
        return -float((probabilities * (prior / OLD)).sum(dim=1).log().mean())

    best = optimize.minimize(cost, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12})
    expected = torch.tensor(np.append(best.x, 0.0)).softmax(dim=0)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("old", [[0.5, 0.3, 0.2], [0.6, 0.4, 0.0]])
def test_long_strides_end_where_plain_steps_do(old: list[float]) -> None:
    """Saerens's steps, one by one and very many, of a model that hardly tells classes apart."""
    points, _ = drawn([0.1, 0.2, 0.7], 400, 3)
    before = torch.tensor(old, dtype=torch.float64)
    probabilities = (0.2 * posterior(points, OLD).log()).softmax(dim=1)
    expected = before
    for _ in range(20_000):
        expected = reweighted(probabilities, before, expected).mean(dim=0)
    found, settled = estimated_prior(probabilities, before)
    assert settled
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert float(found.sum()) == pytest.approx(1)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0])
def test_calibration_undoes_what_makes_estimates_wrong(sharpness: float) -> None:
    """Scores that are too flat or too sharp by a factor: the temperature that finds shares best takes it out."""
    graphs = [drawn(prior, 4000, seed) for seed, prior in enumerate([[0.2, 0.2, 0.6], [0.1, 0.6, 0.3]])]
    scores = [sharpness * posterior(points, OLD).log() for points, _ in graphs]
    found = calibrated_to(scores, [labels for _, labels in graphs], OLD)
    assert found.temperature == pytest.approx(sharpness, rel=0.2)
    assert found.error < 0.03
    labels = torch.cat([labels for _, labels in graphs])
    probabilities = found.probabilities(torch.cat(scores))
    for i in range(3):
        torch.testing.assert_close(found.confusion[i], probabilities[labels == i].mean(dim=0))
    assert found.nodes.tolist() == torch.bincount(labels).tolist()
    again = Calibration.from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()


def test_several_priors_are_estimated_at_once() -> None:
    points, _ = drawn([0.1, 0.2, 0.7], 500, 0)
    several = torch.stack([posterior(points, OLD), (2 * posterior(points, OLD).log()).softmax(dim=1)])
    together, _ = estimated_prior(several, OLD)
    for one, probabilities in zip(together, several, strict=True):
        torch.testing.assert_close(one, estimated_prior(probabilities, OLD)[0], atol=1e-5, rtol=0)


def calibration(count: int = 3000, seed: int = 0) -> Calibration:
    points, labels = drawn(OLD.tolist(), count, seed)
    return calibrated_to([posterior(points, OLD).log()], [labels], OLD)


def test_a_shift_of_the_prior_alone_is_accepted_and_others_are_refused() -> None:
    fitted = calibration()
    points, _ = drawn([0.1, 0.2, 0.7], 3000, 2)
    prior, refused = fitted.prior_on(posterior(points, OLD).log())
    assert refused is None
    assert prior.tolist() == pytest.approx([0.1, 0.2, 0.7], abs=0.04)
    moved, _ = drawn(OLD.tolist(), 3000, 3)
    _, refused = fitted.prior_on(posterior(moved * 0.2 + 0.7, OLD).log())  # the points themselves have moved
    assert refused is not None
    assert "more has shifted" in refused


def test_what_cannot_be_calibrated_is_refused() -> None:
    points, labels = drawn(OLD.tolist(), 300, 0)
    scores = posterior(points, OLD).log()
    few = calibrated_to([scores[labels < 2]], [labels[labels < 2]], OLD)
    assert "class 2 has 0 labelled nodes" in str(few.prior_on(posterior(points, OLD).log())[1])
    blind = calibrated_to([OLD.log().repeat(300, 1)], [labels], OLD)
    assert "hardly tells some classes apart" in str(blind.prior_on(scores)[1])
    absent = calibrated_to([scores], [labels], torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64))
    assert "class 2 is not in training" in str(absent.prior_on(scores)[1])
    most, which = drawn([0.9, 0.05, 0.05], 300, 1)
    wrong = calibrated_to([posterior(most, OLD).log()], [2 - which], OLD)
    assert wrong.error > 0.2
    assert "on the validation graphs it would be" in str(wrong.prior_on(scores)[1])


@pytest.mark.parametrize("name", ["gcn", "sage", "gat"])
def test_own_statistics_are_those_of_the_graph(name: str) -> None:
    (e,) = environments(1)
    torch.manual_seed(0)
    backbone = make_backbone(name, 5, 3, hidden_channels=6, num_layers=3, dropout=0.4).eval()
    before = {key: tensor.clone() for key, tensor in backbone.state_dict().items()}
    twin = copy.deepcopy(backbone).train()
    twin.dropout = 0.0
    with torch.no_grad(), own_statistics(backbone):
        found = backbone(e.x, e.graph)
    torch.testing.assert_close(found, twin(e.x, e.graph).detach())
    assert not torch.allclose(found, backbone(e.x, e.graph), atol=1e-3)
    assert identical(backbone.state_dict(), before)
    assert not any(norm.training or not norm.track_running_stats for norm in backbone.norms)


def shifted(count: int, prior: list[float], seed: int, name: str) -> Environment:
    points, labels = drawn(prior, count, seed)
    data = Data(x=points.float(), y=labels, edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=count)
    return Environment(name, data, Task("multiclass", 3))


@pytest.fixture(scope="module")
def model() -> gs.Estimator:
    train, val = shifted(2000, OLD.tolist(), 0, "train"), shifted(2000, OLD.tolist(), 1, "val")
    return gs.ERM("mlp", epochs=150, lr=0.02).fit(train, val)


def test_the_prior_of_a_graph_helps_to_predict_it(model: gs.Estimator, tmp_path: Path) -> None:
    test = shifted(4000, [0.05, 0.1, 0.85], 2, "test")
    plain, adapted = model.score(test), model.score(test, adapt="prior")
    points, labels = drawn([0.05, 0.1, 0.85], 4000, 2)
    best = float(
        (posterior(points, torch.tensor([0.05, 0.1, 0.85], dtype=torch.float64)).argmax(dim=1) == labels)
        .double()
        .mean()
    )
    assert adapted > plain + 0.03
    assert adapted > best - 0.02
    hidden = test.replace(y=None)
    assert (model.predict(hidden, adapt="prior") == model.predict_proba(hidden, adapt="prior").argmax(axis=1)).all()
    assert (model.predict(hidden, adapt="prior") != model.predict(hidden)).any()
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_proba(hidden, adapt="prior"), model.predict_proba(hidden, adapt="prior")
    )


def test_predictions_and_scores_learn_the_prior_from_the_same_nodes(model: gs.Estimator) -> None:
    """The nodes that count: others, of training say, may have another prior."""
    test = shifted(4000, [0.05, 0.1, 0.85], 2, "test")
    assert test.y is not None
    mask = (test.y == 2) | (torch.arange(4000) % 2 == 0)
    data = Data(x=test.x, y=test.y, edge_index=torch.empty(2, 0, dtype=torch.int64), mask=mask)
    found = model.predict(data, adapt="prior")
    assert found.shape == (4000,)
    assert model.score(data, adapt="prior") == float((found[mask.numpy()] == test.y[mask].numpy()).mean())
    data.mask = torch.zeros(4000, dtype=torch.bool)  # says nothing
    np.testing.assert_array_equal(model.predict(data, adapt="prior"), model.predict(test, adapt="prior"))


def test_one_node_has_no_statistics_of_its_own() -> None:
    (e,) = environments(1, nodes=30)
    lonely = Data(x=e.x[:1], edge_index=torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(GraphshiftError, match=r"has one node.*adapt is 'norm', which needs at least two"):
        gs.ERM("gcn", epochs=1, selection="last").fit(e).predict(lonely, adapt="norm")


def test_an_unsafe_prior_is_left_as_it_is_and_told(model: gs.Estimator) -> None:
    test = shifted(1000, OLD.tolist(), 3, "moved")
    moved = test.replace(x=test.x * 0.2 + 0.7)
    with pytest.warns(GraphshiftWarning, match="environment 'moved': the class prior was left as it is: two estimates"):
        found = model.predict_proba(moved, adapt="prior")
    np.testing.assert_array_equal(found, model.predict_proba(moved))


def test_two_classes_are_adapted_alike() -> None:
    def made(prior: float, seed: int, name: str) -> Environment:
        points, labels = drawn([prior, 1 - prior, 0.0], 3000, seed)
        data = Data(x=points.float(), y=labels, edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=3000)
        return Environment(name, data, Task("binary", 2))

    fitted = gs.ERM("mlp", epochs=100, lr=0.02).fit(made(0.5, 0, "train"), made(0.5, 1, "val"))
    test = made(0.1, 2, "test")
    assert fitted.score(test, adapt="prior") > fitted.score(test) + 0.02
    probabilities = np.asarray(fitted.predict_proba(test, adapt="prior"))
    before = np.asarray(fitted.predict_proba(test))[:, 0].mean()
    assert abs(probabilities[:, 0].mean() - 0.1) < 0.7 * abs(before - 0.1)  # the network's own errors stay


def test_weights_that_give_no_finite_prediction_are_an_error() -> None:
    data = gs.load("planted", nodes=60)
    model = gs.ERM("gcn", epochs=1, hidden_channels=4).fit(data)
    with torch.no_grad():
        for weight in model.backbone_.parameters():
            weight.fill_(1e30)
    with pytest.raises(GraphshiftError, match="not finite"):
        model.calibrate(data.val)


def test_held_out_nodes_calibrate_where_there_is_no_validation_graph() -> None:
    train = shifted(1000, OLD.tolist(), 0, "train")
    assert gs.ERM("mlp", epochs=5, selection="id_val").fit(train).calibrations_[""].nodes.sum() == 200
    alone = gs.ERM("mlp", epochs=100, lr=0.02, selection="last").fit(train)
    with pytest.raises(GraphshiftError, match="the model is not calibrated: fit it with a validation graph"):
        alone.predict(train, adapt="prior")
    alone.calibrate(shifted(500, OLD.tolist(), 1, "later"))
    assert alone.predict(train, adapt="prior").shape == (1000,)


def test_held_out_nodes_calibrate_also_where_there_is_a_validation_graph() -> None:
    train, val = shifted(1000, OLD.tolist(), 0, "train"), shifted(300, OLD.tolist(), 1, "val")
    by_nodes = gs.ERM("mlp", epochs=5, selection="id_val").fit(train, val)
    assert by_nodes.calibrations_[""].nodes.sum() == 200
    assert gs.ERM("mlp", epochs=5).fit(train, val).calibrations_[""].nodes.sum() == 300


def test_batch_norms_of_a_module_of_ones_own_are_adapted_with_the_prior() -> None:
    (train,) = environments(1, nodes=120)
    fitted = gs.ERM(OwnModule(), epochs=200, lr=0.03, selection="last").fit(train)
    fitted.calibrate(train)  # labels are random here: only these does it tell apart
    assert fitted.calibrations_.keys() == {"", "norm"}
    plain, norm = fitted.predict_proba(train), fitted.predict_proba(train, adapt="norm")
    assert not np.allclose(norm, plain)
    assert not np.allclose(fitted.predict_proba(train, adapt="norm+prior"), norm)


@pytest.mark.parametrize("wrong", ["", "mean", "norm+", "norm+norm", "prior,norm"])
def test_other_names_are_refused(wrong: str, model: gs.Estimator) -> None:
    with pytest.raises(GraphshiftError, match=rf"adapt is .*expected {', '.join(ADAPTATIONS)}, or norm\+prior"):
        model.predict(shifted(10, OLD.tolist(), 0, "some"), adapt=wrong)


def test_names_are_taken_apart() -> None:
    assert (parts_of(None), parts_of("norm"), parts_of("norm+prior")) == ((), ("norm",), ("norm", "prior"))


def test_what_a_model_has_no_means_for_is_refused(model: gs.Estimator) -> None:
    with pytest.raises(GraphshiftError, match="has no batch normalisation"):
        model.predict(shifted(10, OLD.tolist(), 0, "some"), adapt="norm")
    train, val = environments(2)
    values = [
        Environment(
            e.name, Data(x=e.x, y=torch.randn(e.num_nodes), edge_index=e.graph.edge_index), Task("regression", 0)
        )
        for e in (train, val)
    ]
    fitted = gs.ERM(epochs=2).fit(values[0], values[1])
    assert fitted.calibrations_ == {}
    with pytest.raises(GraphshiftError, match="predicts values, which have no class prior"):
        fitted.predict(values[1], adapt="prior")
    assert fitted.predict(values[1], adapt="norm").shape == (28,)


def test_mistakes_are_named() -> None:
    train, val = environments(2, nodes=60)
    model = gs.ERM(epochs=2, hidden_channels=4).fit(train, val)
    for adapt in (["norm"], 3):
        with pytest.raises(GraphshiftError, match=r"adapt is .*; expected a name, of norm, prior"):
            model.score(val, adapt=adapt)  # type: ignore[arg-type]
    with pytest.raises(GraphshiftError, match="features and the model was trained with"):
        model.calibrate(gs.load("planted", nodes=60, spurious_features=3).val)
    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(GraphshiftError, match="`y`"):
        model.calibrate(Data(x=torch.zeros(60, train.num_features), edge_index=edges))

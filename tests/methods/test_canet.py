"""CaNet: its objective, its drawn environments, its place in fits and studies. The network: test_backbones_dense.py."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

import graphshift as gs
from graphshift.backbones.canet import CaNetwork, divergence_from_uniform
from graphshift.core.errors import GraphshiftError
from graphshift.methods.canet import canet_objective
from graphshift.studies.space import crossed_arms
from small import environments


def test_the_divergence_is_scipys_entropy() -> None:
    logits = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = [stats.entropy(row, [0.25] * 4) for row in torch.softmax(logits, dim=1).numpy()]
    torch.testing.assert_close(divergence_from_uniform(logits), torch.tensor(expected))
    assert divergence_from_uniform(torch.zeros(2, 5)).abs().max() < 1e-6


def test_the_objective_is_the_mean_bound_over_graphs() -> None:
    risks, divergences = torch.tensor([0.5, 1.5]), torch.tensor([0.2, 0.6])
    assert canet_objective(risks, divergences, 2.0).item() == pytest.approx(((0.5 + 0.4) + (1.5 + 1.2)) / 2)


def test_environments_are_drawn_by_their_probabilities_in_training() -> None:
    """Expert k adds 1 to column k, so the result shows what was drawn; at a low temperature nearly one of them."""
    environment = environments(1)[0]
    torch.manual_seed(2)
    network = CaNetwork(environment.num_features, 2, hidden_channels=4, num_layers=1, experts=3)
    mixture, z = network.mixtures[0], torch.ones(environment.num_nodes, 4)
    with torch.no_grad():
        mixture.weight.zero_()
        for k in range(3):
            mixture.weight[k, 4, k] = 1
        draws = torch.cat([mixture(z, environment.graph, 0.01)[0] - z for _ in range(200)])[:, :3]
        expected = torch.softmax(mixture.environment(z[:1]), dim=1)[0]
        mixed = mixture(z, environment.graph)[0] - z
    assert (draws.mean(dim=0) - expected).abs().max() < 4 * math.sqrt(0.25 / len(draws))
    assert ((draws > 0.99) | (draws < 0.01)).float().mean() > 0.9
    torch.testing.assert_close(mixed[0, :3], expected)  # not drawn: the probabilities themselves


def test_a_fit_takes_its_own_network_whatever_the_dataset_prefers() -> None:
    data = gs.load("planted-structure", nodes=60)
    model = gs.CaNet(epochs=2).fit(data)
    assert model.settings_["backbone"] == "canet"
    assert {"risk", "divergence"} <= set(model.history_[0])
    with pytest.raises(GraphshiftError, match="network of its own"):
        gs.CaNet(backbone="gcn", epochs=2).fit(data)


def test_a_study_has_one_arm_of_it() -> None:
    arms = crossed_arms(["erm", "canet"], ["gcn", "sage"], [])
    assert [arm.name for arm in arms] == ["CaNet", "ERM, gcn", "ERM, sage"]

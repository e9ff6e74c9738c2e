"""Resampled nodes: the same draws for every model, and the standard error that theory gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import graphshift as gs
from graphshift.studies import resampling
from graphshift.studies.resampling import DRAWS, nodes_error, resampled_scores

pytestmark = pytest.mark.filterwarnings("ignore")


class Known:
    """A model whose predictions are given."""

    def __init__(self, right: np.ndarray) -> None:
        self.right = right

    def predict_proba(self, environment: gs.Environment, *, adapt: str | None = None) -> np.ndarray:
        assert environment.y is not None
        y = environment.y.numpy()
        guess = np.where(self.right, y, 1 - y)
        return np.eye(2)[guess]


@pytest.fixture(scope="module")
def environment() -> gs.Environment:
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (400,), generator=generator)
    edges = torch.randint(0, 400, (2, 900), generator=generator)
    return gs.Environment("one", Data(x=torch.rand(400, 3, generator=generator), edge_index=edges, y=y))


def test_the_spread_is_that_of_a_share(environment: gs.Environment) -> None:
    right = np.random.default_rng(0).random(400) < 0.7
    drawn = resampled_scores(Known(right), [environment])  # type: ignore[arg-type]
    assert len(drawn) == DRAWS
    share = right.mean()
    assert np.mean(drawn) == pytest.approx(share, abs=0.01)
    assert np.std(drawn, ddof=1) == pytest.approx((share * (1 - share) / 400) ** 0.5, rel=0.25)


def test_errors_that_neighbours_share_widen_the_spread() -> None:
    """Fifty cliques of eight, each right or wrong as a whole: there are fifty draws of a coin, not four hundred."""
    from torch_geometric.data import Data

    clique = np.repeat(np.arange(50), 8)
    edges = torch.tensor(np.argwhere(clique[:, None] == clique).T)
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, 2, (400,), generator=generator)
    graph = gs.Environment("cliques", Data(x=torch.rand(400, 3), edge_index=edges[:, edges[0] != edges[1]], y=y))
    right = (np.arange(50) % 2 == 0)[clique]
    drawn = resampled_scores(Known(right), [graph])  # type: ignore[arg-type]
    assert np.std(drawn, ddof=1) == pytest.approx((0.25 / 50) ** 0.5, rel=0.3)  # 0.071; over nodes 0.025


def test_nodes_that_do_not_count_are_in_no_draw(environment: gs.Environment) -> None:
    mask = torch.zeros(400, dtype=torch.bool)
    mask[:50] = True
    few = environment.replace(mask=mask)
    groups = resampling._groups(few)
    assert sorted(np.concatenate(groups).tolist()) == list(range(50))
    right = np.arange(400) < 50  # the others are all wrong
    assert set(resampled_scores(Known(right), [few])) == {1.0}  # type: ignore[arg-type]


def test_draws_are_shared_so_that_equal_models_differ_by_nothing(environment: gs.Environment) -> None:
    right = np.random.default_rng(1).random(400) < 0.7
    first, second = (resampled_scores(Known(right), [environment]) for _ in range(2))  # type: ignore[arg-type]
    assert first == second
    assert nodes_error([first], [second]) == 0
    other = right.copy()
    other[:20] = ~other[:20]
    paired = nodes_error([first], [resampled_scores(Known(other), [environment])])  # type: ignore[arg-type]
    assert paired is not None
    assert 0 < paired < np.std(first)  # most nodes are the same for both
    assert nodes_error([first], [[]]) is None
    assert nodes_error([], [first]) is None


def test_a_large_graph_is_thinned_and_its_error_is_its_own(
    environment: gs.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = np.random.default_rng(2).random(400) < 0.5
    monkeypatch.setattr(resampling, "_MOST", 100)
    drawn = resampled_scores(Known(right), [environment])  # type: ignore[arg-type]
    assert np.std(drawn, ddof=1) == pytest.approx((0.25 / 400) ** 0.5, rel=0.3)


def test_a_metric_that_a_draw_lacks_has_the_whole_score(environment: gs.Environment) -> None:
    y = torch.zeros(400, dtype=torch.int64)
    y[0] = 1  # most draws have no node of class 1, and a ROC curve needs one
    rare = environment.replace(y=y, task=gs.Task("binary", 2, "roc_auc"))
    drawn = resampled_scores(Known(np.ones(400, dtype=bool)), [rare])  # type: ignore[arg-type]
    assert set(drawn) == {1.0}


def test_the_area_under_the_curve_is_scikit_learns(environment: gs.Environment) -> None:
    random = np.random.default_rng(3)
    y, scores = random.integers(0, 2, 400), random.integers(0, 30, 400) / 30  # with ties
    area = resampling._area_under_roc(y, scores)
    for _ in range(5):
        nodes = random.integers(0, 400, 300)
        assert area(nodes) == pytest.approx(roc_auc_score(y[nodes], scores[nodes]))
    assert np.isnan(area(np.flatnonzero(y == 1)))


def test_other_metrics_are_drawn_fewer_times(environment: gs.Environment) -> None:
    right = np.random.default_rng(4).random(400) < 0.7
    macro = environment.replace(task=gs.Task("binary", 2, "macro_f1"))
    drawn = resampled_scores(Known(right), [macro])  # type: ignore[arg-type]
    assert len(drawn) == resampling.SLOW_DRAWS
    assert np.mean(drawn) == pytest.approx(right.mean(), abs=0.03)

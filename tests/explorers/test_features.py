"""Feature explorers: slopes against finite differences, bounds kept, aims reached, the step's gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import graphshift as gs
from graphshift.backbones import make_backbone
from graphshift.backbones.batchnorm import running_statistics
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers import AIMS, FeatureExplorer, Gradient, MixedExplorer, SharedRisk
from graphshift.explorers.features import KINDS
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.methods import EERMMethod
from small import environments, gradients_of


def problem(kind: str, *, sparse: bool = False, double: bool = True) -> tuple[Environment, SharedRisk]:
    (e,) = environments(1, nodes=40)
    x = e.x.double() if double else e.x
    if kind == "flip" or sparse:
        x = (x > 0.3).to(x) * (1.0 if kind == "flip" else 1.7)
    e = e.replace(x=Sparse.from_torch(x.to_sparse_csr()) if sparse else x)
    if double:
        weight = torch.ones(e.graph.num_edges, dtype=torch.float64)
        e = e.replace(graph=Graph.from_keys(40, e.graph.keys, weight, undirected=e.graph.undirected))
    torch.manual_seed(0)
    network = make_backbone("gcn", 5, 3, hidden_channels=6, num_layers=2, dropout=0.0).eval()
    network = network.double() if double else network
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(60):  # features must matter
        optimizer.zero_grad()
        e.risk(network.train()(e.x, e.graph)).backward()
        optimizer.step()
    network.eval()

    def risk(graph: Graph, change: Callable[[Any], Any] = lambda x: x) -> Tensor:
        return e.risk(network(change(e.x), graph))

    return e, SharedRisk(risk, e.x)


def slopes(e: Environment, risk: SharedRisk, kind: str) -> Tensor:
    explorer = FeatureExplorer(kind=kind, aim="raise")
    explorer.prepare(e.graph, risk)
    assert explorer.is_prepared(e.graph, risk)
    assert explorer._slope is not None
    return explorer._slope


@pytest.mark.parametrize(
    ("kind", "sparse"), [("shift", False), ("shift", True), ("scale", False), ("scale", True), ("mask", True)]
)
def test_slopes_of_columns_are_finite_differences(kind: str, sparse: bool) -> None:
    e, risk = problem(kind, sparse=sparse)
    found, step = slopes(e, risk, kind), 1e-6
    dense = e.x.to_dense() if isinstance(e.x, Sparse) else e.x

    def at(column: int, by: float) -> float:
        moved = dense.clone()
        if kind == "shift":
            moved[:, column] += by * dense[:, column].std(correction=0)
        else:
            moved[:, column] *= 1 + (by if kind == "scale" else -by)
        return float(risk(e.graph, lambda _: moved).detach())

    for column in range(5):
        slope = (at(column, step) - at(column, -step)) / (2 * step)
        assert float(found[column]) == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_slopes_of_entries_are_finite_differences(sparse: bool) -> None:
    e, risk = problem("flip", sparse=sparse)
    found, step = slopes(e, risk, "flip").flatten(), 1e-6
    dense = e.x.to_dense() if isinstance(e.x, Sparse) else e.x
    places = dense.nonzero() if sparse else torch.cartesian_prod(torch.arange(40), torch.arange(5))
    for i in range(0, found.numel(), 7):
        node, column = places[i].tolist()
        moved = dense.clone()
        moved[node, column] += step * (1 - 2 * float(dense[node, column]))
        slope = (float(risk(e.graph, lambda _, moved=moved: moved).detach()) - float(risk(e.graph).detach())) / step
        assert float(found[i]) == pytest.approx(slope, rel=1e-3, abs=1e-8)


@pytest.mark.parametrize(
    ("kind", "sparse"), [*((kind, False) for kind in KINDS), ("shift", True), ("scale", True), ("mask", True)]
)
def test_aims_are_reached_within_the_bound(kind: str, sparse: bool) -> None:
    e, risk = problem(kind, sparse=sparse)
    dense = e.x.to_dense() if isinstance(e.x, Sparse) else e.x
    here, reached = float(risk(e.graph).detach()), {}
    for aim in ("raise", "lower"):
        explorer = FeatureExplorer(kind=kind, aim=aim)
        for _ in range(12):  # more steps than it takes to reach the bound
            risk = SharedRisk(risk.risk, risk.x)
            view = explorer.propose(e.graph, risk)
        assert view.graph is e.graph
        if kind == "mask" and aim == "lower":
            assert view.change is None
            continue
        assert view.change is not None
        reached[aim] = float(risk(e.graph, view.change).detach())
        changed = view.change(e.x)
        moved = (changed.to_dense() if isinstance(changed, Sparse) else changed) - dense
        bound = KINDS[kind]
        if kind == "shift":
            assert (moved.std(dim=0) < 1e-9).all()  # all nodes alike
            assert (moved.abs() <= bound * dense.std(dim=0, correction=0) + 1e-9).all()
        elif kind == "scale":
            assert (moved.abs() <= bound * dense.abs() + 1e-9).all()
        elif kind == "mask":
            assert int((moved != 0).any(dim=0).sum()) <= round(bound * 5)  # of five columns
            assert ((dense + moved)[:, (moved != 0).any(dim=0)] == 0).all()
        else:
            assert 0 < int((moved != 0).sum()) <= round(bound * int(dense.sum()))
            assert set((dense + moved).unique().tolist()) == {0.0, 1.0}
    assert reached["raise"] > here
    assert reached.get("lower", here) < here + 0.01  # a trained model's risk can hardly be lowered


def test_flips_of_sparse_features_turn_ones_off() -> None:
    e, risk = problem("flip", sparse=True)
    view = FeatureExplorer(kind="flip", bound=0.2, aim="raise").propose(e.graph, risk)
    assert view.change is not None
    changed = view.change(e.x)
    assert isinstance(changed, Sparse)
    assert 0 < int((changed.value == 0).sum()) <= round(0.2 * changed.value.numel())
    assert risk(e.graph, view.change) > risk(e.graph)


def test_columns_go_on_from_where_they_are() -> None:
    e, risk = problem("shift")
    explorer, other = FeatureExplorer(kind="shift", aim="raise"), FeatureExplorer(kind="shift", aim="raise")
    explorer.propose(e.graph, risk)
    assert explorer.place is not None
    assert float(explorer.place.abs().max()) == pytest.approx(0.2)
    other.load_state(explorer.state())
    again = [one.propose(e.graph, risk).change for one in (explorer, other)]
    assert again[0] is not None
    assert again[1] is not None
    torch.testing.assert_close(again[0](e.x), again[1](e.x))
    explorer.reset()
    assert explorer.place is None
    view = FeatureExplorer(kind="shift", aim="leave").propose(e.graph, risk)
    assert view.change is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
def test_explorers_with_the_same_aim_make_different_views(kind: str, sparse: bool) -> None:
    """Two of three explorers raise the risk: were their views the same, one of them would be work for nothing."""
    e, risk = problem(kind, sparse=sparse)
    for spared in (0.5, 0.0):
        changed = []
        for seed in range(4):
            view = FeatureExplorer(kind=kind, bound=0.2, aim="raise", spared=spared, seed=seed).propose(e.graph, risk)
            assert view.change is not None
            x = view.change(e.x)
            changed.append(x.to_dense() if isinstance(x, Sparse) else x)
        distinct = [x for i, x in enumerate(changed) if not any(x.equal(y) for y in changed[:i])]
        assert len(distinct) > 1 if spared else len(distinct) == 1


def test_columns_are_spared_as_often_as_asked() -> None:
    e, risk = problem("shift")
    explorer = FeatureExplorer(kind="shift", aim="raise", spared=0.3)
    still = 0
    for _ in range(200):
        view = explorer.propose(e.graph, risk)
        assert view.change is not None
        still += int((view.change(e.x) == e.x).all(dim=0).sum())
    assert 0.25 < still / (200 * e.x.shape[1]) < 0.35  # 1,000 draws: a standard error of 0.0145


def test_mixed_is_both() -> None:
    e, risk = problem("scale", double=False)
    mixed = MixedExplorer(2, kind="scale", aim="raise", spared=0.0, seed=4)
    view = mixed.propose(e.graph, risk)
    assert view.flips.equal(Gradient(2, aim="raise", seed=4).propose(e.graph, risk).flips)
    assert view.change is not None
    alone = FeatureExplorer(kind="scale", aim="raise", spared=0.0).propose(e.graph, risk).change
    assert alone is not None
    torch.testing.assert_close(view.change(e.x), alone(e.x))
    twin = MixedExplorer(2, kind="scale", aim="raise", seed=5)
    mixed.features.spared = twin.features.spared = 0.25
    twin.load_state(mixed.state())
    again, also = (one.propose(e.graph, risk) for one in (mixed, twin))
    assert again.flips.equal(also.flips)
    assert again.change is not None
    assert also.change is not None
    torch.testing.assert_close(again.change(e.x), also.change(e.x))  # the columns spared are part of the state
    mixed.reset()
    assert mixed.features.place is None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kind": "turn"}, "kind is 'turn'; expected one of mask, shift, scale, flip"),
        ({"kind": "mask", "bound": 1.5}, "bound is 1.5; kind 'mask' expects a number above 0, at most 1"),
        ({"kind": "shift", "bound": 0.0}, "bound is 0.0; kind 'shift' expects a positive number"),
        ({"aim": "up"}, "aim is 'up'"),
        ({"spared": 1.0}, "spared is 1.0; expected a number from 0, below 1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], match: str) -> None:
    with pytest.raises(GraphshiftError, match=match):
        FeatureExplorer(**options)


def test_what_cannot_be_done_is_told() -> None:
    e, risk = problem("scale", sparse=True)
    with pytest.raises(GraphshiftError, match="expects features that are 0 or 1"):
        FeatureExplorer(kind="flip").propose(e.graph, risk)
    with pytest.raises(GraphshiftError, match="needs the risk as a function of features"):
        FeatureExplorer(kind="shift").propose(e.graph, lambda graph: risk(graph))


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gcnii"])
@pytest.mark.parametrize("explorer", ["shift", "mask", "mixed"])
@pytest.mark.parametrize("low_memory", [False, True])
def test_a_step_has_the_gradient_of_the_risks_of_changed_features(
    backbone: str, explorer: str, low_memory: bool
) -> None:
    training = environments(2, nodes=30)
    torch.manual_seed(0)
    network = make_backbone(backbone, 5, 3, hidden_channels=6, num_layers=2, dropout=0.0)
    aims = ("raise", "lower")
    make = {
        "shift": lambda m, k: FeatureExplorer(kind="shift", aim=aims[k % 2]),
        "mask": lambda m, k: FeatureExplorer(kind="mask", aim=aims[k % 2]),
        "mixed": lambda m, k: MixedExplorer(1, kind="shift", aim=aims[k % 2], seed=k),
    }[explorer]
    method = EERMMethod(network, gs.EERM(views=2, beta=1.5, low_memory=low_memory), make)
    kept: list[Any] = []
    inner = method._propose
    method._propose = lambda *given: kept.append(inner(*given)) or kept[-1]  # type: ignore[method-assign,func-returns-value]
    found = gradients_of(method, training)
    network.train()
    pairs = [(e, view) for e, row in zip(training, kept[0], strict=True) for view in row]
    with running_statistics(network):  # as a shifted graph meets them
        changed = [e.x if view.change is None else view.change(e.x) for e, view in pairs]
        outputs = [network(x, view.graph) for x, (_, view) in zip(changed, pairs, strict=True)]
        risks = torch.stack([e.risk(output) for (e, _), output in zip(pairs, outputs, strict=True)])
    network.zero_grad()
    (risks.var(correction=1) + 1.5 * risks.mean()).backward()
    for name, parameter in network.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-6)


def test_they_raise_the_variance_over_random_edits() -> None:
    data = gs.load("planted", nodes=200)
    last = {}
    for explorer in ("random", "features", "mixed"):
        model = gs.EERM(explorer=explorer, epochs=20, hidden_channels=8, beta=1.0, lr=1e-6)
        last[explorer] = model.fit(data.train, data.val).history_[-1]["variance"]
    assert last["features"] > 10 * last["random"]
    assert last["mixed"] > 10 * last["random"]


def test_they_go_on_exploring_while_the_model_learns() -> None:
    """A model that gets better from epoch to epoch is no sign that the last step was wrong."""
    data = gs.load("planted", nodes=200)
    made: list[FeatureExplorer] = []

    def explorer(seed: int) -> FeatureExplorer:
        aim = ("raise", "lower")[len(made) % 2]
        made.append(FeatureExplorer(kind="shift", bound=1.0, aim=aim, seed=seed))
        return made[-1]

    model = gs.EERM(explorer=explorer, views=2, epochs=60, hidden_channels=8, lr=0.01).fit(data.train, data.val)
    reached = [one.place.abs().mean().item() for one in made if one.place is not None]
    assert len(reached) == 2
    assert reached[0] > 0.5  # of the bound
    variances = [row["variance"] for row in model.history_]
    assert sum(variances[-20:]) / 20 > 1e-3


def test_steps_shrink_beyond_a_maximum_and_not_before() -> None:
    (e,) = environments(1, nodes=60)
    top = 0.3

    def risk(graph: Any, change: Any = None) -> torch.Tensor:
        moved = (change(e.x) - e.x).mean(dim=0) / e.x.std(dim=0, correction=0)
        return -((moved - top) ** 2).sum()

    explorer = FeatureExplorer(kind="shift", bound=1.0, aim="raise")
    rates = []
    for _ in range(30):
        explorer.propose(e.graph, SharedRisk(risk, e.x))
        rates.append(explorer._rate)
    assert rates[:2] == [0.2, 0.2]  # 0 → 0.2 → 0.4: the second slope still points along
    assert rates[2] == 0.1
    assert min(rates) == 0.01  # it never stands still for good
    assert explorer.place is not None
    torch.testing.assert_close(explorer.place, torch.full_like(explorer.place, top), atol=0.02, rtol=0)


def test_views_that_keep_their_features_are_measured_by_the_same_statistics() -> None:
    """Of kind "mask", only explorers that raise the risk change anything."""
    (e,) = environments(1, nodes=60)
    torch.manual_seed(0)
    network = make_backbone("sage", 5, 3, hidden_channels=6, num_layers=2, dropout=0.0)
    method = EERMMethod(network, gs.EERM(views=2), lambda m, k: FeatureExplorer(kind="mask", aim="lower"))
    method.step([e], 0.0)
    views = [
        [explorer.propose(e.graph, SharedRisk(lambda *_: torch.zeros(()), e.x)) for explorer in method.explorers[0]]
    ]
    assert all(view.change is None for view in views[0])
    found = method.risks_of([e], views)
    network.eval()  # by running statistics
    with torch.no_grad():
        expected = e.risk(network(e.x, e.graph))
    torch.testing.assert_close(found, expected.expand(2))


def test_mixed_explorers_choose_edges_by_the_risk_that_views_are_measured_by() -> None:
    (e,) = environments(1, nodes=60)
    torch.manual_seed(0)
    network = make_backbone("sage", 5, 3, hidden_channels=6, num_layers=2, dropout=0.0)
    asked = []

    class Asking(MixedExplorer):
        def prepare(self, graph: Graph, risk: SharedRisk) -> None:
            asked.append(risk(graph).detach())
            super().prepare(graph, risk)

    method = EERMMethod(network, gs.EERM(views=2, lr=0.0), lambda m, k: Asking(1, aim="leave", seed=k))
    for _ in range(3):
        method.step([e], 0.0)
    nothing = SharedRisk(lambda *_: torch.zeros(()), e.x)
    still = [[explorer.propose(e.graph, nothing) for explorer in method.explorers[0]]]
    asked.clear()
    method.step([e], 0.0)  # the statistics move first, and nothing else does
    torch.testing.assert_close(asked[0], method.risks_of([e], still)[0])


def test_batch_normalisation_does_not_hide_a_shift() -> None:
    """By its own statistics, a graph whose columns are all shifted looks like the graph itself."""
    (e,) = environments(1, nodes=60)
    torch.manual_seed(0)
    network = make_backbone("sage", 5, 3, hidden_channels=6, num_layers=2, dropout=0.0)
    make = lambda m, k: FeatureExplorer(kind="shift", bound=1.0, aim=AIMS[k % 2])  # noqa: E731
    method = EERMMethod(network, gs.EERM(views=2, lr=0.01), make)
    found = [method.step([e], 0.0)["variance"] for _ in range(30)]
    assert max(found) > 1e-3
    norm = network.norms[0]
    with torch.no_grad():
        hidden = network._layer(0).mix(network.stem(e.x), e.graph)
    before = norm.running_mean.clone()
    method.step([e], 0.0)  # moves towards the statistics of the graph as it is, once, whatever the views are
    torch.testing.assert_close(norm.running_mean, 0.9 * before + 0.1 * hidden.mean(dim=0), rtol=1e-4, atol=1e-5)

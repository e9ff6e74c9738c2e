"""A plan together with what is known of its dataset; every arm is checked against it before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import isolated
from graphshift.data.dataset import ShiftDataset
from graphshift.data.diagnosis import remarks
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS
from graphshift.datasets import DATASETS, load
from graphshift.estimators import GNNEstimator, make_estimator, recorded_estimator
from graphshift.estimators.adaptation import parts_of
from graphshift.explorers import EXPLORERS
from graphshift.graph.sparse import Sparse
from graphshift.methods import EERM
from graphshift.studies.plan import Arm, Plan
from graphshift.training.selection import SELECTIONS

#: Of training environments that are left out in turn: so many at most, each with so many counted nodes at least.
_MOST_LEFT_OUT, _FEWEST_NODES = 5, 20

#: Of the nodes of the only training environment: so many must validation have to train in its place.
_SMALLER = 0.1


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan(Plan):
    """A plan that can be run: :func:`resolve` has looked at its dataset."""

    metric: str  #: the name of the dataset's metric
    #: for each role, each environment's name, sizes, and three sums by which changed contents are noticed
    shapes: Mapping[str, list[dict[str, Any]]]
    defaults: Mapping[str, Any]  #: the dataset's own settings
    own_data_seed: int | None  #: that the data are made from where the plan gives none; None if they are not made
    left_out: Sequence[str] = ()  #: the training environments that are left out in turn
    skipped: dict[str, str] = field(default_factory=dict)  #: arms, rules and adaptations that cannot be, and why
    notes: Sequence[str] = ()  #: what the data say about what can be expected of models on them

    @property
    def higher_is_better(self) -> bool:
        """Which way the metric goes."""
        return METRICS[self.metric].higher_is_better

    @property
    def tests(self) -> list[str]:
        """The names of the test environments."""
        return [shape["name"] for shape in self.shapes["tests"]]

    def settings(self, arm: Arm, tuned: Mapping[str, Any] | None = None, **chosen: Any) -> dict[str, Any]:
        """All settings of one fit: the dataset's, then the arm's, then the tuned ones."""
        try:
            return make_estimator({**arm.settings, **(tuned or {}), **chosen}, self.defaults).settings()
        except GraphshiftError as error:
            raise GraphshiftError(f"arm {arm.name!r}: {error}") from None

    def baseline(self, arm: Arm) -> Arm | None:
        """The arm that another is compared with: the one it names, else the ERM arm of its backbone.

        An arm without a backbone is compared with the first ERM arm.
        """
        if arm.baseline is not None:
            return next((other for other in self.arms if other.name == arm.baseline), None)
        own = self.erm_arm(self.settings(arm).get("backbone"))
        return None if own is None or own.name == arm.name else own

    def erm_arm(self, backbone: str | None) -> Arm | None:
        """The first ERM arm with a backbone; None stands for any."""
        both = ((arm, self.settings(arm)) for arm in self.arms)
        found = (arm for arm, own in both if own["method"] == "erm" and backbone in (None, own["backbone"]))
        return next(found, None)

    def backbones(self) -> list[str]:
        """The backbones of the arms, each once; not every arm has one."""
        named = [self.settings(arm).get("backbone") for arm in self.arms]
        return list(dict.fromkeys(name for name in named if name is not None))


def data_of(plan: Plan, data_seed: int | None) -> ShiftDataset:
    """The data of a plan: those in memory, or loaded by name."""
    return load_data(plan.dataset, plan.options, data_seed) if plan.data is None else plan.data


def load_data(dataset: str, options: Mapping[str, Any], data_seed: int | None) -> ShiftDataset:
    """The dataset, made from a data seed where there is one."""
    return load(dataset, **options, **({} if data_seed is None else {"seed": data_seed}))


def resolve(plan: Plan, data: ShiftDataset) -> ResolvedPlan:
    """The plan with what is known of its dataset (made from the first data seed).

    What cannot be is left out, with the reason in ``skipped``; if nothing is left, the first reason is an error.
    """
    skipped: dict[str, str] = {}
    rules = _possible_rules(plan, data, skipped)
    adapt = _possible_ways(plan, data, rules, skipped)
    options = {} if plan.data is not None else DATASETS[plan.dataset].options
    given: dict[str, Any] = {field.name: getattr(plan, field.name) for field in fields(Plan)}
    given |= {"selections": rules, "adapt": adapt, "in_domain": plan.in_domain and bool(data.tests)}
    if plan.expect and (why := unexpected(data)):
        given["expect"], skipped["expected score"] = False, why
    resolved = ResolvedPlan(
        **given,
        metric=data.task.metric,
        shapes={role: [_shape(e) for e in getattr(data, role)] for role in ("train", "val", "tests")},
        defaults=data.defaults,
        own_data_seed=plan.options.get("seed", options["seed"].default) if "seed" in options else None,
        left_out=_left_out(data) if plan.leave_out else (),
        skipped=skipped,
    )
    kept = []
    for arm in resolved.arms:
        try:
            _check_arm(resolved, arm, data)
        except GraphshiftError as error:
            skipped[arm.name] = str(error).removeprefix(f"arm {arm.name!r}: ")
        else:
            kept.append(arm)
    if not any(not arm.joins for arm in kept):
        first = resolved.arms[0].name
        raise GraphshiftError(f"arm {first!r}: {skipped[first]}")
    if len(replace(plan, arms=[arm for arm in kept if not arm.joins]).members()) < 2:
        skipped |= {arm.name: "fewer than two arms are left that it could join" for arm in kept if arm.joins}
        kept = [arm for arm in kept if not arm.joins]
    return replace(resolved, arms=tuple(kept), notes=remarks(data))


def _possible_rules(plan: Plan, data: ShiftDataset, skipped: dict[str, str]) -> tuple[str, ...]:
    """The plan's rules as far as the data have what they look at; held-out training nodes are always there."""
    found = []
    for rule in plan.selections:
        looks = SELECTIONS[rule].uses_target
        if (rule in ("val", "explored") or looks) and not data.val:
            skipped[f"rule {rule}"] = "there are no validation environments"
        elif looks and not (data.target or data.tests):
            skipped[f"rule {rule}"] = "there is no unlabelled target, and there are no tests to take without labels"
        elif looks and not data.task.is_classification:
            skipped[f"rule {rule}"] = "without labels the score of predicted values cannot be estimated"
        elif SELECTIONS[rule].uses_tests and not data.tests:
            skipped[f"rule {rule}"] = "there are no test environments"
        else:
            found.append(rule)
    return tuple(found) or ("id_val",)


def _possible_ways(plan: Plan, data: ShiftDataset, rules: Sequence[str], skipped: dict[str, str]) -> tuple[str, ...]:
    """The plan's adaptations, without those that the data cannot serve."""
    found = []
    for way in plan.adapt:
        if "prior" in parts_of(way) and not data.task.is_classification:
            skipped[f"+ {way}"] = "a regression has no classes, so no class prior"
        elif "prior" in parts_of(way) and not data.val and "id_val" not in rules:
            skipped[f"+ {way}"] = "it needs validation environments to calibrate on, or selection 'id_val'"
        else:
            found.append(way)
    return tuple(found)


def unexpected(data: ShiftDataset) -> str:
    """Why the score on the unlabelled target cannot be estimated; empty if it can."""
    if not (data.target or data.tests):
        return "there is no unlabelled target, and there are no tests to take without labels"
    if not data.task.is_classification:
        return "without labels the score of predicted values cannot be estimated"
    if data.task.is_graph_level:
        return "it is estimated for nodes, and these labels are of whole graphs"
    return "" if data.val else "there are no validation environments to compare it with"


def _left_out(data: ShiftDataset) -> tuple[str, ...]:
    """Training environments that can be left out: large enough, and with no class that only they have.

    The only one there is can be left out if validation can train instead: it has a graph and every class of its own,
    and is not much smaller.
    """
    alone = len(data.train) == 1
    if not data.train or (alone and any(e.known_y is not None for e in (*data.train, *data.val))):
        return ()
    found = []
    for one in data.train:
        others = data.val if alone else [e for e in data.train if e is not one]
        needed = max(_FEWEST_NODES, _SMALLER * int(one.mask.sum())) if alone else 0
        if int(one.mask.sum()) < _FEWEST_NODES or sum(int(e.mask.sum()) for e in others) < needed:
            continue
        if data.task.is_classification:
            known = {int(label) for e in others for label in e.labels.unique()}
            if not {int(label) for e in (one, *data.val) for label in e.labels.unique()} <= known:
                continue
        found.append(one.name)
    step = max(1, -(-len(found) // _MOST_LEFT_OUT))
    return tuple(found[::step])


def _check_arm(plan: ResolvedPlan, arm: Arm, data: ShiftDataset) -> None:
    """An arm whose every fit would fail is refused."""
    estimator = recorded_estimator(plan.settings(arm))
    try:
        estimator.check_task(data.task)
        if isinstance(estimator, GNNEstimator):
            _check_parts(estimator, data)
    except GraphshiftError as error:
        raise GraphshiftError(f"arm {arm.name!r}: {error}") from None
    for name, values in (arm.space or {}).items():
        for value in values:
            plan.settings(arm, {name: value})


def _check_parts(estimator: GNNEstimator, data: ShiftDataset) -> None:
    """The options of backbone and explorer fit, and the two fit together, or they say so."""
    with isolated(0, torch.device("cpu")):
        first = data.train[0]
        backbone = estimator.new_backbone(first.num_features, data.task, first.num_edge_features)
        if isinstance(estimator, EERM):
            estimator.make_explorer(0, 0)
    explorer = getattr(estimator, "explorer", None)
    if explorer is None or backbone.uses_edges:
        return
    kind = EXPLORERS.find(explorer)
    if kind.follows_edges or not kind.changes_features:
        does = "follows the risk along edges" if kind.follows_edges else "edits edges"
        raise GraphshiftError(f"explorer {explorer!r} {does}, and backbone {estimator.backbone!r} uses none.")


def check_data_seeds(plan: Plan) -> None:
    """Refuses data seeds for a dataset that is not made from one, or that has its seed fixed."""
    if plan.data_seeds is None:
        return
    if plan.dataset in DATASETS and "seed" not in DATASETS[plan.dataset].options:
        made = [name for name, entry in DATASETS.items() if "seed" in entry.options]
        raise GraphshiftError(
            f"data_seeds: dataset {plan.dataset!r} is not made from a seed; leave them out ({', '.join(made)} are)."
        )
    if "seed" in plan.options:
        raise GraphshiftError("data_seeds: the dataset's option `seed` is given as well; give one of the two.")


def _shape(environment: Environment) -> dict[str, Any]:
    found = {"name": environment.name, "nodes": environment.num_nodes, "edges": environment.graph.num_edges}
    counted = int(environment.mask.sum())
    found |= {"features": environment.num_features, "counted": counted, "sums": _sums(environment)}
    return found | {"majority": environment.majority}


def _sums(environment: Environment) -> list[float]:
    """Features, edges and labels, each as one number in which every entry has a weight of its own.

    Not a digest: data that are made come out a rounding error apart on another machine, or with other threads.
    """
    x, nodes = environment.x, _weights(environment.num_nodes)
    columns = _weights(environment.num_features)
    if isinstance(x, Sparse):
        value, weight = x.value, nodes[x.pattern.row.long().cpu()] * columns[x.pattern.col.long().cpu()]
    else:
        value, weight = x, nodes.unsqueeze(1) * columns
    value = value.detach().cpu().double()
    graph, y = environment.graph, environment.y
    items, blocks = _weights(environment.num_items), graph.blocks
    labels = torch.zeros_like(items) if y is None else y.detach().cpu().double().nan_to_num().flatten()
    told = (2 * labels.abs() + labels) * items
    told = told if blocks is None else told + blocks.sizes.cpu() * items
    keys = graph.keys.cpu()
    edges = nodes[keys // environment.num_nodes] * nodes.flip(0)[keys % environment.num_nodes]
    edges = edges if graph.weight is None else edges * graph.weight.detach().cpu().double()
    if graph.edge_attr is not None:
        attr = graph.edge_attr.detach().cpu().double()
        edges = edges + edges * ((2 * attr.abs() + attr) * _weights(attr.shape[1])).sum(dim=1)
    # Both signs count upwards, so nothing cancels and the sums can be compared by their relative difference.
    found = [((2 * value.abs() + value) * weight).sum(), edges.sum(), told.sum()]
    return [float(f"{float(one):.9g}") for one in found]


def _weights(count: int) -> torch.Tensor:
    """Numbers from 1 to 2 that lie far apart for neighbours (multiples of the golden ratio)."""
    return 1 + (torch.arange(count, dtype=torch.float64) * 0.6180339887498949) % 1

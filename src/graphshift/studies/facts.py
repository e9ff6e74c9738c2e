"""What a study must know of its dataset; every arm is checked against it before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from graphshift.backbones import BACKBONES
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import isolated
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS
from graphshift.datasets import DATASETS, load
from graphshift.estimators import EERM, make_model, new_backbone
from graphshift.estimators.adaptation import parts_of
from graphshift.estimators.settings import Settings
from graphshift.explorers import EXPLORERS
from graphshift.fitting.fit import complete_settings
from graphshift.graph.sparse import Sparse
from graphshift.studies.plan import Arm, Plan

#: Explorers that need a backbone whose risk depends on edges.
_FOLLOW_EDGES = ("gradient", "mixed")


@dataclass(frozen=True)
class Facts:
    """The dataset as a plan sees it.

    Attributes:
        metric: its name.
        shapes: for each role, each environment's name, nodes, edges, features and counted nodes, and three sums by
            which changed contents are noticed.
        defaults: the dataset's own settings.
        data_seed: the seed that the data are made from where the plan gives none; None if they are not made.
    """

    metric: str
    shapes: Mapping[str, list[dict[str, Any]]]
    defaults: Mapping[str, Any]
    data_seed: int | None

    @property
    def higher_is_better(self) -> bool:
        """Which way the metric goes."""
        return METRICS[self.metric].higher_is_better

    @property
    def tests(self) -> list[str]:
        """The names of the test environments."""
        return [shape["name"] for shape in self.shapes["tests"]]

    def settings(self, arm: Arm, tuned: Mapping[str, Any] | None = None, **chosen: Any) -> Settings:
        """The complete settings of one fit: the dataset's, then the arm's, then the tuned ones."""
        try:
            return complete_settings({**arm.settings, **(tuned or {}), **chosen}, self.defaults)
        except GraphshiftError as error:
            raise GraphshiftError(f"arm {arm.name!r}: {error}") from None

    def baseline(self, plan: Plan, arm: Arm) -> Arm | None:
        """The arm that another is held against: the one it names, else the ERM arm of its backbone."""
        if arm.baseline is not None:
            return plan.arm(arm.baseline)
        own = self.erm_arm(plan, self.settings(arm).backbone)
        return None if own is None or own.name == arm.name else own

    def erm_arm(self, plan: Plan, backbone: str) -> Arm | None:
        """The first ERM arm with a backbone."""
        for arm in plan.arms:
            settings = self.settings(arm)
            if (settings.method, settings.backbone) == ("erm", backbone):
                return arm
        return None

    def backbones(self, plan: Plan) -> list[str]:
        """The backbones of the arms, each once."""
        return list(dict.fromkeys(self.settings(arm).backbone for arm in plan.arms))


def load_data(dataset: str, options: Mapping[str, Any], data_seed: int | None) -> ShiftDataset:
    """The dataset, made from a data seed where there is one."""
    return load(dataset, **options, **({} if data_seed is None else {"seed": data_seed}))


def check(plan: Plan, data: ShiftDataset) -> Facts:
    """Refuses a plan that cannot be run on a dataset, and says what is wrong."""
    if not data.tests:
        raise GraphshiftError(f"dataset {plan.dataset!r} has no test environments, so there is nothing to compare on.")
    if (needing := [rule for rule in ("val", "explored") if rule in plan.selections]) and not data.val:
        raise GraphshiftError(
            f"dataset {plan.dataset!r} has no validation environments, which selection {needing[0]!r} needs; choose "
            "'id_val'."
        )
    facts = Facts(
        data.task.metric,
        {role: [_shape(e) for e in getattr(data, role)] for role in ("train", "val", "tests")},
        data.defaults,
        own_seed(plan),
    )
    if any("prior" in parts_of(way) for way in plan.adapt):
        if not data.task.is_classification:
            raise GraphshiftError(f"adapt 'prior': dataset {plan.dataset!r} is regression and has no classes.")
        if not data.val and "id_val" not in plan.selections:
            raise GraphshiftError(
                f"adapt 'prior' needs validation environments to calibrate on, and dataset {plan.dataset!r} has none; "
                "leave it out, or choose selection 'id_val'."
            )
    for arm in plan.arms:
        settings = facts.settings(arm)
        for what, value, known in (
            ("backbone", settings.backbone, BACKBONES),
            ("explorer", settings.explorer, EXPLORERS),
        ):
            if value not in known:
                raise GraphshiftError(f"arm {arm.name!r}: {what} is {value!r}; expected one of {', '.join(known)}.")
        with isolated(0, torch.device("cpu")):  # its options fit, or it says so
            new_backbone(settings.backbone, settings, data.train[0].num_features, data.task)
        _check_explorer(arm, settings)
        for name, values in (arm.space or {}).items():
            for value in values:
                facts.settings(arm, {name: value})
    return facts


def _check_explorer(arm: Arm, settings: Settings) -> None:
    """An arm whose every fit would fail is no arm."""
    model = make_model(settings)
    if not isinstance(model, EERM):
        return
    try:
        model.make_explorer(settings, 0, 0)
    except GraphshiftError as error:
        raise GraphshiftError(f"arm {arm.name!r}: {error}") from None
    if settings.explorer in _FOLLOW_EDGES and settings.backbone == "mlp":
        raise GraphshiftError(
            f"arm {arm.name!r}: explorer is {settings.explorer!r}, which follows the risk along edges, and backbone "
            "'mlp' uses none; leave one of them out, or compare them in two studies."
        )


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


def own_seed(plan: Plan) -> int | None:
    """The seed that the data are made from when the plan names none."""
    options = DATASETS[plan.dataset].options
    return plan.options.get("seed", options["seed"].default) if "seed" in options else None


def _shape(environment: Environment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "nodes": environment.num_nodes,
        "edges": environment.graph.num_edges,
        "features": environment.num_features,
        "counted": int(environment.mask.sum()),
        "sums": _sums(environment),
    }


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
    labels = torch.zeros_like(nodes) if y is None else y.detach().cpu().double().nan_to_num().flatten()
    keys = graph.keys.cpu()
    edges = nodes[keys // environment.num_nodes] * nodes.flip(0)[keys % environment.num_nodes]
    edges = edges if graph.weight is None else edges * graph.weight.detach().cpu().double()
    # Both signs count upwards, so nothing cancels and the sums can be compared by their relative difference.
    found = [((2 * value.abs() + value) * weight).sum(), edges.sum(), ((2 * labels.abs() + labels) * nodes).sum()]
    return [float(f"{float(one):.9g}") for one in found]


def _weights(count: int) -> torch.Tensor:
    """Numbers from 1 to 2 that lie far apart for neighbours (multiples of the golden ratio)."""
    return 1 + (torch.arange(count, dtype=torch.float64) * 0.6180339887498949) % 1

"""Shift datasets: environments in four roles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphshift.core.html import html_table
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.data.together import check_together

#: Where a dataset's facts name the graphs, not for training, whose features its own were prepared with.
SEEN = "features_from"


@dataclass(frozen=True)
class ShiftDataset:
    """Environments in four roles. The dataset owns its split, its task and its metric.

    Args:
        name: the dataset's name.
        train: environments to learn from, at least one.
        val: environments that select epochs and hyper-parameters. Default: none.
        tests: environments to report scores of. Their labels are never used for selection. Default: none.
        defaults: hyper-parameters that suit this dataset, by name. Those of one backbone or method alone go under
            ``"by_backbone"`` or ``"by_method"``, by its name. Default: none.
        facts: what else is known of the data, such as ``{"spurious_columns": [16, 17]}``. Under ``"ids"`` are the
            nodes' own ids in each environment, by its name; the environments get them. Default: nothing.
        target: unlabelled environments, which a method may use in training. Labels that they have are removed here, so
            that nothing can use them. Default: none.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=60, environments=4)
    >>> data
    ShiftDataset('planted', multiclass, accuracy, train ['train'], val ['val'], tests ['T1', 'T2'])
    >>> data.train[0]
    Environment('train', 60 nodes, 284 edges, 24 features, 60 counted)
    >>> unlabelled = gs.ShiftDataset("mine", data.train, data.val, target=data.tests)
    >>> [environment.y for environment in unlabelled.target]
    [None, None]
    """

    name: str
    train: Sequence[Environment]
    val: Sequence[Environment] = ()
    tests: Sequence[Environment] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    target: Sequence[Environment] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        ids = self.facts.get("ids", {})
        for role in ("train", "val", "tests", "target"):
            found = [e if e.y is None or role != "target" else e.replace(y=None) for e in getattr(self, role)]
            named = [e.replace(ids=ids[e.name]) if e.ids is None and e.name in ids else e for e in found]
            object.__setattr__(self, role, tuple(named))
        others, names = [*self.val, *self.tests], self.facts.get("class_names")
        check_together(self.train, others, self.target, where=f"dataset {self.name!r}", class_names=names)

    @property
    def task(self) -> Task:
        """What is predicted, and how it is scored."""
        return self.train[0].task

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called: ``facts["class_names"]``, else their numbers; none in regression."""
        return tuple(self.facts.get("class_names") or map(str, range(self.task.num_classes)))

    @property
    def roles(self) -> dict[str, Sequence[Environment]]:
        """The environments of each role: ``train``, ``val``, ``tests``, ``target``."""
        return {"train": self.train, "val": self.val, "tests": self.tests, "target": self.target}

    @property
    def environments(self) -> list[Environment]:
        """The environments that have labels: train, val, tests."""
        return [*self.train, *self.val, *self.tests]

    def _repr_html_(self) -> str:
        """For Jupyter: every environment with its size and its classes."""
        names = self.class_names
        rows = []
        for role, environments in self.roles.items():
            for e in environments:
                shown = "–" if e.y is None or e.counted.numel() == 0 else _labels(e, names)
                rows.append([role, e.name, e.num_nodes, e.graph.num_edges, int(e.mask.sum()), shown])
        columns = ["role", "environment", "nodes", "edges", "counted", "labels"]
        kind = f"{self.task.kind}, {self.train[0].num_features:,} features, scored by {self.task.metric}"
        return html_table(f"{self.name}: {kind}", columns, rows)

    def __repr__(self) -> str:
        shown = {role: found for role, found in self.roles.items() if found or role != "target"}
        roles = ", ".join(f"{role} {[e.name for e in found]}" for role, found in shown.items())
        return f"ShiftDataset({self.name!r}, {self.task.kind}, {self.task.metric}, {roles})"


def _labels(environment: Environment, names: Sequence[str]) -> str:
    """The largest classes with their shares, or mean and deviation."""
    labels = environment.labels
    if not environment.task.is_classification:
        return f"mean {float(labels.mean()):.4g}, deviation {float(labels.std(correction=0)):.4g}"
    counts = labels.bincount(minlength=len(names)).tolist()
    largest = sorted(range(len(counts)), key=lambda i: -counts[i])
    shown = [f"{names[i]} {100 * counts[i] / labels.numel():.0f} %" for i in largest[:4]]
    return ", ".join(shown) + (", …" if len(counts) > 4 else "")

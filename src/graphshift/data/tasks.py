"""Tasks: the loss, the shape of a backbone's output, and the metric."""

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.metrics import METRICS, Metric

#: What has a label each: the nodes of a graph, or every graph of many small ones.
LEVELS = ("node", "graph")

_DEFAULT_METRIC = {"binary": "accuracy", "multiclass": "accuracy", "regression": "mse"}


def refuse_graph_level(task: "Task", what: str) -> None:
    """Raises a :class:`GraphshiftError` if graphs have labels, for what is there for nodes alone."""
    if task.is_graph_level:
        raise GraphshiftError(f"{what} is not available for graph-level tasks: it needs a label for each node.")


@dataclass(frozen=True, repr=False)
class Task:
    """What is predicted: binary classification, multiclass classification or regression, and the metric.

    Args:
        kind: ``"binary"`` (one logit, cross-entropy), ``"multiclass"`` (a logit for each class, cross-entropy) or
            ``"regression"`` (one value, squared error).
        num_classes: 2 for binary; at least 2 for multiclass; 0 for regression.
        metric: a name from :data:`graphshift.data.metrics.METRICS`, such as ``"roc_auc"`` or ``"precision@100"``.
            Default: ``"accuracy"``, in regression ``"mse"``.
        two_logits: for binary tasks, a logit for each class and the mean of their two binary cross-entropies, as the
            authors' code of EERM has it; probabilities are their softmax.
        level: what has a label each: ``"node"``, or ``"graph"`` where an environment is many small graphs.

    >>> task = Task("multiclass", 3)
    >>> task.metric, task.out_channels
    ('accuracy', 3)
    >>> output = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # of a backbone, [nodes, out_channels]
    >>> task.predictions(output)
    tensor([0, 2])
    >>> task.score(output, torch.tensor([0, 1]))
    0.5
    """

    kind: str
    num_classes: int
    metric: str = ""
    two_logits: bool = False
    level: str = LEVELS[0]

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise GraphshiftError(f"task: level is {self.level!r}; {expected_one_of(self.level, list(LEVELS))}")
        if self.kind not in _DEFAULT_METRIC:
            raise GraphshiftError(f"task: kind is {self.kind!r}; {expected_one_of(self.kind, list(_DEFAULT_METRIC))}")
        if not self.metric:
            object.__setattr__(self, "metric", _DEFAULT_METRIC[self.kind])
        metric = METRICS.get(self.metric)
        if metric is None or self.kind not in metric.kinds:
            fitting = [name for name, one in METRICS.items() if self.kind in one.kinds]
            expected = expected_one_of(self.metric, fitting)
            raise GraphshiftError(f"task: metric is {self.metric!r}; for a {self.kind} task {expected}")
        if metric.parameter is not None:  # "precision@K" itself, which wants a number for K
            metric.given(self.metric.removeprefix(metric.stem))
        if self.two_logits and self.kind != "binary":
            raise GraphshiftError(f"task: two_logits is for binary tasks, and this one is {self.kind}; leave it out.")
        n = self.num_classes
        fits = {"binary": n == 2, "multiclass": n >= 2, "regression": n == 0}
        if not fits[self.kind]:
            needed = {
                "binary": "2 classes",
                "multiclass": "at least 2 classes",
                "regression": "no classes (num_classes=0)",
            }
            raise GraphshiftError(f"task: a {self.kind} task has {needed[self.kind]}, not {n}.")

    def __repr__(self) -> str:
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.level == LEVELS[0]:
            del shown["level"]
        return f"Task({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def is_graph_level(self) -> bool:
        """Whether graphs have labels, and not nodes."""
        return self.level == "graph"

    @property
    def is_classification(self) -> bool:
        """Whether labels are classes."""
        return self.kind != "regression"

    @property
    def out_channels(self) -> int:
        """How many numbers a backbone gives for a node."""
        return self.num_classes if self.kind == "multiclass" or self.two_logits else 1

    @property
    def scorer(self) -> Metric:
        """The metric itself."""
        return METRICS[self.metric]

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The mean loss l(f(G_v), y_v) over the given nodes.

        Args:
            output: a backbone's output, ``[n, out_channels]``.
            y: labels, ``[n]``: int64 classes, or float values in regression.
        """
        if self.two_logits:
            return F.binary_cross_entropy_with_logits(output, F.one_hot(y.long(), 2).to(output.dtype))
        if self.kind == "multiclass":
            return F.cross_entropy(output, y)
        if self.kind == "binary":
            return F.binary_cross_entropy_with_logits(output.squeeze(1), y.to(output.dtype))
        return F.mse_loss(output.squeeze(1), y)

    def probabilities(self, output: Tensor) -> Tensor:
        """Class probabilities ``[n, num_classes]``; in regression the predicted values ``[n]``. On the CPU, in float64.

        In float32 the sigmoids of 20 and 30 are equal: ranks would be lost, and ties would not fall the same way
        wherever a class is chosen.
        """
        output = output.detach().cpu().double()
        if self.kind == "multiclass" or self.two_logits:
            return output.softmax(dim=1)
        if self.kind == "binary":
            positive = output.squeeze(1).sigmoid()
            return torch.stack([1 - positive, positive], dim=1)
        return output.squeeze(1)

    def class_scores(self, output: Tensor) -> Tensor:
        """Logarithms of the class probabilities, ``[n, num_classes]``, on the CPU, in float64."""
        output = output.detach().cpu().double()
        if self.kind == "multiclass" or self.two_logits:
            return output.log_softmax(dim=1)
        return torch.cat([F.logsigmoid(-output), F.logsigmoid(output)], dim=1)

    def output_of(self, probabilities: Tensor) -> Tensor:
        """A backbone output with these class probabilities: the inverse of :meth:`probabilities`."""
        logarithms = probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
        return logarithms if self.out_channels > 1 else logarithms[:, 1:] - logarithms[:, :1]

    def predictions(self, output: Tensor) -> Tensor:
        """The predicted class (int64) or value of each node, ``[n]``."""
        probabilities = self.probabilities(output)
        return probabilities.argmax(dim=1) if self.is_classification else probabilities

    def score(self, output: Tensor, y: Tensor) -> float:
        """The metric of the given nodes' outputs."""
        return self.scorer.compute(y.cpu().numpy(), self.probabilities(output).numpy())


def class_in_words(name: str) -> str:
    """A class in a sentence: its name, and ``class 2`` if that is a number."""
    return f"class {name}" if name.lstrip("-").replace(".", "", 1).isdigit() else name

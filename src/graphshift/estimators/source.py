"""What a GNN keeps of its labelled graphs, and when that is used: ``adapt="centroids"`` and ``"neighbours"``.

Whether an adaptation is taken is decided without labels of the target. Two things must hold. Its premise, where it has
one: in training, neighbours share classes. And a rehearsal: each validation graph was adapted to like a target, and
the score did not fall by more than a tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.data.environment import Environment
from graphshift.data.pieces import standing_for
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import LEARNED
from graphshift.estimators.centroids import HOPS, centroid_probabilities, class_centroids
from graphshift.estimators.neighbours import adjusted_homophily, aligned, labelled_counts
from graphshift.estimators.tuning import mutual_information
from graphshift.graph.graph import Graph

if TYPE_CHECKING:
    from graphshift.estimators.gnn import GNNEstimator

_FILE = "source.safetensors"
_HOMOPHILY = 0.3  # adjusted, in training, that smoothing over edges needs
_WORSE = 0.05  # on the validation graphs, in the metric's own unit, that is accepted


@dataclass
class Source:
    """Facts of the training graphs under a trained model.

    Attributes:
        centroids: for each of :data:`~graphshift.estimators.centroids.HOPS` the mean smoothed hidden state of each
            class, ``[hops, classes, width]``.
        pairs: how many edges join nodes of two classes, ``[classes, classes]``.
        hops: which of them is used; the rehearsal chooses.
        rehearsed: by adaptation the mean score of the validation graphs without it and with it.
    """

    centroids: Tensor
    pairs: Tensor
    hops: int = 0
    rehearsed: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: GNNEstimator, training: Sequence[Environment]) -> Source:
        """Looks at the training graphs once; for a graph in a partition folder parts stand."""
        training = [standing_for(e).to(model._device()) for e in training]
        shown = [(e, model._represented(e, ())[0]) for e in training]
        centroids = [class_centroids(shown, model.task_, hops) for hops in HOPS]
        return cls(torch.stack(centroids), labelled_counts(training))

    def rehearse(self, model: GNNEstimator, graphs: Sequence[Environment]) -> None:
        """Scores labelled graphs that the model was not trained on, adapted to each as if it were the target."""
        self.rehearsed = {}
        try:
            scores = [self._scores(model, standing_for(e).to(model._device())) for e in graphs]
        except GraphshiftError:  # the metric is not defined there, as ROC-AUC where all nodes are of one class
            return
        if not scores:
            return
        mean = {name: fmean(one[name] for one in scores) for name in scores[0]}
        plain = mean[""]
        self.hops = max(range(len(HOPS)), key=lambda i: model.task_.scorer.sign * mean[f"centroids/{i}"])
        self.rehearsed["centroids"] = plain, mean[f"centroids/{self.hops}"]
        if "neighbours" in mean:
            self.rehearsed["neighbours"] = plain, mean["neighbours"]

    def _scores(self, model: GNNEstimator, graph: Environment) -> dict[str, float]:
        """The score of one labelled graph as it is, by centroids of every number of hops, and by its neighbours."""
        output = model._plain_output(graph, ())
        hidden = model._represented(graph, ())[0]

        def score(found: Tensor) -> float:
            return graph.to(found.device).score(found)

        scores = {"": score(output)}
        for i in range(len(HOPS)):
            scores[f"centroids/{i}"] = score(self._by_centroids(model.task_, hidden, graph.graph, i))
        if model.can_adapt("neighbours"):
            scores["neighbours"] = score(self.adapted(model, graph, output, "neighbours")[0])
        return scores

    def _by_centroids(self, task: Task, hidden: Tensor, graph: Graph, hops: int) -> Tensor:
        return task.output_of(centroid_probabilities(hidden, graph, self.centroids[hops], HOPS[hops]))

    def adapted(self, model: GNNEstimator, environment: Environment, output: Tensor, way: str) -> tuple[Tensor, str]:
        """The output for every node of an unlabelled graph, and why it is not what it should be; empty if it is.

        Args:
            model: whose facts these are.
            environment: the graph.
            output: the model's as it is.
            way: ``"centroids"`` or ``"neighbours"``.
        """
        task = model.task_
        if way == "centroids":
            hidden = model._represented(environment, ())[0]
            return self._by_centroids(task, hidden, environment.graph, self.hops), ""
        before = task.probabilities(output)
        found = model._plain_output(aligned(environment, before, self.pairs), ())
        counted = environment.counted.cpu()
        if not mutual_information(task.probabilities(found)[counted]) >= mutual_information(before[counted]):
            return output, "predictions on the weighted edges say less about the nodes' classes than before"
        return found, ""

    def unsafe(self, way: str, task: Task) -> str:
        """Why an adaptation is not taken on any graph; empty if it may be."""
        if way == "centroids" and (found := adjusted_homophily(self.pairs)) < _HOMOPHILY:
            return (
                f"in training, neighbours share classes too little (adjusted homophily {found:.2f}; at least "
                f"{_HOMOPHILY} is needed)"
            )
        if way not in self.rehearsed:
            return "there was no validation graph with a score to rehearse it on"
        plain, with_it = self.rehearsed[way]
        if not task.scorer.sign * (plain - with_it) <= _WORSE:
            return (
                f"on the validation graphs the score goes from {plain:.3f} to {with_it:.3f} (a fall of {_WORSE} is "
                "accepted)"
            )
        return ""

    def arrays(self) -> dict[str, Tensor]:
        """All of it by name."""
        rehearsed = {f"rehearsed/{way}": torch.tensor(two, dtype=torch.float64) for way, two in self.rehearsed.items()}
        hops = torch.tensor(self.hops, dtype=torch.float64)
        return {"centroids": self.centroids, "pairs": self.pairs, "hops": hops, **rehearsed}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], task: Task) -> Source:
        """What :meth:`arrays` gave; ValueError says what is wrong."""
        classes = task.num_classes
        rehearsed = {name.removeprefix("rehearsed/"): one for name, one in arrays.items() if "/" in name}
        if missing := [name for name in ("centroids", "pairs", "hops") if name not in arrays]:
            raise ValueError(f"array {missing[0]!r} is missing")
        centroids, pairs = arrays["centroids"], arrays["pairs"]
        fit = centroids.dim() == 3 and centroids.shape[:2] == (len(HOPS), classes) and pairs.shape == (classes, classes)
        fit = fit and all(one.shape == (2,) for one in rehearsed.values()) and rehearsed.keys() <= {*LEARNED}
        fit = fit and all(one.dtype == torch.float64 and bool(torch.isfinite(one).all()) for one in arrays.values())
        hops = float(arrays["hops"]) if fit and arrays["hops"].dim() == 0 else -1.0
        if not fit or bool((pairs < 0).any()) or hops not in range(len(HOPS)):
            raise ValueError("arrays have other names, shapes or types than expected, or numbers that cannot be")
        return cls(centroids, pairs, int(hops), {way: (float(two[0]), float(two[1])) for way, two in rehearsed.items()})


def save_source(folder: Path, found: Source | None) -> None:
    """Writes it beside a model; nothing known, no file."""
    if found is None:
        (folder / _FILE).unlink(missing_ok=True)
    else:
        write_tensors(folder / _FILE, found.arrays())


def load_source(folder: Path, task: Task) -> Source | None:
    """What :func:`save_source` wrote; None if it wrote nothing, as earlier versions did."""
    path = folder / _FILE
    if not path.is_file():
        return None
    arrays, _ = read_tensors(path)
    try:
        return Source.from_arrays(arrays, task)
    except (ValueError, RuntimeError, TypeError) as error:
        raise GraphshiftError(f"{path}: {error}: damaged.") from None

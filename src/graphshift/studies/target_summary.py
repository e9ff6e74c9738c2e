"""What a model predicts for unlabelled target environments, and how unlike the training data these are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import MaxAbsScaler

from graphshift.core.stored import Stored
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import class_in_words
from graphshift.estimators.predictor import Predictor
from graphshift.graph.sparse import Sparse

#: Nodes of either side that are looked at to tell them apart.
_MOST = 2_000


@dataclass(frozen=True, kw_only=True)
class TargetSummary(Stored):
    """What a model says of a target environment.

    Attributes:
        environment: its name.
        nodes: the number of nodes that are predicted.
        shares: the share of nodes that each class is predicted for; empty in regression.
        training_shares: the shares of the classes in training; empty in regression.
        confidence: the mean probability of the predicted class; None in regression.
        mean: the mean predicted value; None for classes.
        training_mean: the mean value in training; None for classes.
        columns_apart: how well a logistic regression tells its nodes from training nodes by their columns: the area
            under the ROC curve, cross-validated in two folds; 0.5 is not at all, 1 always. None if it is unknown.
        degrees_apart: the largest difference between the two distributions of degrees (Kolmogorov–Smirnov), 0 to 1.
    """

    environment: str
    nodes: int
    shares: dict[str, float]
    training_shares: dict[str, float]
    confidence: float | None
    mean: float | None
    training_mean: float | None
    columns_apart: float | None
    degrees_apart: float

    def sentence(self) -> str:
        """In words."""
        if self.confidence is None:
            what = f"mean prediction {self.mean:.4g} (in training {self.training_mean:.4g})"
        else:
            largest = sorted(self.shares, key=lambda name: -self.shares[name])[:5]
            pairs = [(name, 100 * self.shares[name], 100 * self.training_shares[name]) for name in largest]
            listed = [f"{class_in_words(name)} {here:.0f} % (in training {there:.0f} %)" for name, here, there in pairs]
            more = f" and {len(self.shares) - 5} more classes" if len(self.shares) > 5 else ""
            what = f"{', '.join(listed)}{more}; mean confidence {100 * self.confidence:.0f} %"
        known = self.columns_apart is not None
        apart = f"by columns {self.columns_apart:.2f} (0.5: not at all, 1: always), " if known else ""
        return (
            f"{self.environment}, {self.nodes:,} nodes: {what}. Told from training nodes {apart}by degrees "
            f"{self.degrees_apart:.2f} (0: the same, 1: apart)."
        )


def target_summaries(model: Predictor, data: ShiftDataset, *, adapt: str | None = None) -> list[TargetSummary]:
    """What a fitted model predicts for each target environment of the data.

    Args:
        model: fitted on the training environments.
        data: with ``target``.
        adapt: as in :meth:`~graphshift.estimators.predictor.Predictor.predict`.
    """
    names = class_names(data)
    found = []
    for environment in data.target:
        counted = environment.counted.cpu().numpy()
        predicted = np.asarray(model.predict(environment, adapt=adapt))[counted]
        shares: dict[str, float] = {}
        known: dict[str, float] = {}
        confidence = mean = training_mean = None
        if data.task.is_classification:
            probabilities = np.asarray(model.predict_proba(environment, adapt=adapt))[counted]
            confidence = float(probabilities.max(axis=1).mean())
            labels = torch.cat([e.labels.cpu() for e in data.train]).numpy()
            for code, name in enumerate(names):
                shares[name] = float((predicted == code).mean())
                known[name] = float((labels == code).mean())
        else:
            mean, training_mean = float(predicted.mean()), float(torch.cat([e.labels for e in data.train]).mean())
        found.append(
            TargetSummary(
                environment=environment.name,
                nodes=int(counted.size),
                shares=shares,
                training_shares=known,
                confidence=confidence,
                mean=mean,
                training_mean=training_mean,
                columns_apart=columns_apart(data.train, environment),
                degrees_apart=degrees_apart(data.train, environment),
            )
        )
    return found


def columns_apart(train: Sequence[Environment], other: Environment) -> float | None:
    """How well nodes of an environment can be told from training nodes by their columns: an area under the ROC curve.

    None where either side has fewer than four nodes.
    """
    random = np.random.default_rng(0)
    ours = scipy.sparse.vstack([_matrix(e) for e in train], format="csr")
    theirs = _matrix(other)
    if min(ours.shape[0], theirs.shape[0]) < 4:
        return None
    sides = [m[random.permutation(m.shape[0])[:_MOST]] for m in (ours, theirs)]
    x = MaxAbsScaler().fit_transform(scipy.sparse.vstack(sides, format="csr"))
    y = np.repeat([0, 1], [side.shape[0] for side in sides])
    model = LogisticRegression(class_weight="balanced", max_iter=200)
    guessed = cross_val_predict(model, x, y, cv=2, method="predict_proba")[:, 1]
    return max(0.5, float(roc_auc_score(y, guessed)))  # below, it is chance


def degrees_apart(train: Sequence[Environment], other: Environment) -> float:
    """The Kolmogorov–Smirnov distance between the degrees of counted nodes."""
    ours = np.concatenate([_degrees(e) for e in train])
    return float(stats.ks_2samp(ours, _degrees(other)).statistic)


def class_names(data: ShiftDataset) -> list[str]:
    """The user's own names of the classes, where the data come from tables; else their numbers."""
    preparation = data.facts.get("preparation")
    names = getattr(getattr(preparation, "label", None), "classes", None)
    return [str(name) for name in names] if names else [str(code) for code in range(data.task.num_classes)]


def _matrix(environment: Environment) -> scipy.sparse.csr_array:
    x, counted = environment.x, environment.counted.cpu().numpy()
    if isinstance(x, Sparse):
        parts = tuple(part.cpu().numpy() for part in (x.value, x.pattern.col, x.pattern.rowptr))
        return scipy.sparse.csr_array(parts, shape=x.shape)[counted]
    return scipy.sparse.csr_array(x.cpu().numpy()[counted])


def _degrees(environment: Environment) -> np.ndarray:
    degrees: np.ndarray = environment.graph.pattern.rowptr.diff().cpu().numpy()
    return degrees[environment.counted.cpu().numpy()]

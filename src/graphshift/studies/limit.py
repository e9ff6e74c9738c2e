"""The in-domain limit: what a backbone reaches on a test graph when it may learn from that graph's own labels."""

import warnings
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold, StratifiedKFold

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.estimators import recorded_estimator
from graphshift.studies.jobs import Job
from graphshift.studies.records import Selected

#: Of the cross-validation on each test graph.
FOLDS = 5


def in_domain(job: Job, data: ShiftDataset) -> dict[str, Any]:
    """Cross-validates ERM on one test environment's counted nodes; fields of a record, whose score is the folds' mean.

    The graph is whole in every fold, and a fold's labels are never seen in its training. The epoch is chosen on a
    fifth of the training folds (rule ``id_val``).
    """
    environment = next(e for e in data.tests if e.name == job.environment)
    scores, epochs, seconds, steps = [], [], 0.0, 0
    for train, test in folds_of(environment, job.settings["seed"]):
        model = recorded_estimator(job.settings).fit(train)
        scores.append(model.score(test))
        epochs.append(model.best_epoch_)
        seconds, steps = seconds + model.seconds_, steps + len(model.history_)
    mean, name = fmean(scores), environment.name
    majority = {} if environment.majority is None else {name: environment.majority}
    chosen = Selected(epoch=fmean(epochs), score=mean, val=None, tests={name: mean})
    found = {"selections": {"in_domain": chosen}, "folds": scores, "majority": majority}
    return found | {"seconds": seconds, "seconds_per_epoch": seconds / max(steps, 1)}


def folds_of(environment: Environment, seed: int) -> list[tuple[Environment, Environment]]:
    """The environment to learn from and the one to score, for each fold; classes are spread evenly over folds."""
    counted = environment.counted.cpu().numpy()
    if counted.size < 2 * FOLDS:
        raise GraphshiftError(
            f"environment {environment.name!r} has {counted.size} counted nodes, too few for {FOLDS} folds."
        )
    kind = StratifiedKFold if environment.task.is_classification else KFold
    splits = kind(FOLDS, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class with fewer nodes than folds is spread as far as it goes
        try:
            pairs = list(splits.split(np.zeros(counted.size), environment.labels.cpu().numpy()))
        except ValueError as error:
            raise GraphshiftError(f"environment {environment.name!r}: no {FOLDS} folds: {error}") from None
    found = []
    for _, held in pairs:
        mask = torch.zeros_like(environment.mask)
        mask[torch.from_numpy(counted[held]).to(mask.device)] = True
        found.append((environment.replace(mask=environment.mask & ~mask), environment.replace(mask=mask)))
    return found

"""One space for the words of source and target: truncated SVD of TF-IDF (Deerwester et al., 1990)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import SEEN, ShiftDataset
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse


def shared_words(data: ShiftDataset, width: int = 256, *, seed: int = 0) -> ShiftDataset:
    """The dataset with features in a joint low-rank space, for word counts: 0 or more, sparse or dense.

    Words of the target that the source hardly uses get a place near words that go with them. The space is made from
    the features of training graphs and of the role ``target``, or of the tests where there is no such role; labels are
    not looked at. Since every method on these data has thereby seen the target, tables mark it.

    Args:
        data: whose features count words.
        width: columns of the space, at most as many as there are words less one.
        seed: of the randomised SVD.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=60, environments=3)
    >>> counts = [e.replace(x=(e.x > 0).float()) for e in data.environments]
    >>> shared_words(gs.ShiftDataset("words", counts[:1], counts[1:2], counts[2:]), width=8).train[0].num_features
    8
    """
    words = data.train[0].num_features
    if not 1 <= width < words:
        raise GraphshiftError(f"shared_words: width is {width}; expected 1 to {words - 1}: there are {words} words.")
    seen = data.target or data.tests
    space = _Space([*data.train, *seen], width, seed)
    roles: dict[str, Any] = {role: [space.placed(e) for e in graphs] for role, graphs in data.roles.items()}
    return replace(data, **roles, facts={**data.facts, SEEN: [e.name for e in seen]})


class _Space:
    """What the graphs' features have in common: a weight for each word, and directions."""

    def __init__(self, environments: Sequence[Environment], width: int, seed: int) -> None:
        features = {id(e.x): e for e in environments}  # graphs may share them: each counts once
        counts = [_counts(e) for e in features.values()]
        together = scipy.sparse.vstack(counts).tocsr()
        self.weights = TfidfTransformer(sublinear_tf=True).fit(together)
        self.directions = TruncatedSVD(width, random_state=seed % 2**32)
        found = self.directions.fit_transform(self.weights.transform(together))
        self.scale = float(np.sqrt(np.square(found).mean())) or 1.0
        self._placed: dict[int, tuple[Tensor | Sparse, Tensor]] = {}

    def placed(self, environment: Environment) -> Environment:
        """The environment with its features in the space; entries have a mean square of 1 over all graphs."""
        key = id(environment.x)
        if key not in self._placed:
            found = self.directions.transform(self.weights.transform(_counts(environment))) / self.scale
            self._placed[key] = environment.x, torch.from_numpy(found.astype(np.float32))
        return environment.replace(x=self._placed[key][1])


def _counts(environment: Environment) -> scipy.sparse.csr_matrix:
    x = environment.x
    if isinstance(x, Sparse):
        parts = (x.value.cpu().numpy(), x.pattern.col.cpu().numpy(), x.pattern.rowptr.cpu().numpy())
        found = scipy.sparse.csr_matrix(parts, shape=tuple(x.shape), dtype=np.float64)
    else:
        found = scipy.sparse.csr_matrix(x.cpu().numpy().astype(np.float64))
    if found.nnz and found.data.min() < 0:
        raise GraphshiftError(
            f"shared_words: environment {environment.name!r} has negative features; expected counts of words."
        )
    return found

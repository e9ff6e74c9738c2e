"""``pubmed-temporal``: PubMed's citations with the papers' real years, cut into periods; each graph knows no future."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.reading.assembly import by_place
from graphshift.datasets.reading.files import Source
from graphshift.datasets.reading.planetoid import planetoid_graph, planetoid_sources
from graphshift.datasets.temporal import Period, inductive_environments
from graphshift.graph.sparse import Sparse

_NAME = "pubmed-temporal"
_HOME = "the years of github.com/nelsonaloysio/pubmed-temporal (Passos et al. 2024), one integer a Planetoid node"
_CLASSES = 3
_YEARS = f"{_NAME}/raw/node_year.npy"

#: PubMed's files: Planetoid's eight, and the year of every node.
_KNOWN = {
    "x": (23172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
    "tx": (405505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
    "allx": (7578385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
    "y": (854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
    "ty": (12135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
    "ally": (224739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
    "graph": (471808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
    "test.index": (6000, "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
}
_YEARS_DIGEST = "12f3952394c6affae50a2cdd7600af1f926c0f1f9134bb269ca9f6e29bf04152"
SOURCES = [*planetoid_sources("pubmed", f"{_NAME}/raw", _KNOWN), Source(_YEARS, None, _YEARS_DIGEST, 157864, _HOME)]


@DATASETS.register(
    "pubmed-temporal",
    summary="papers (19,717) on diabetes by year; its type",
    shift="temporal",
    origin="Yang et al. 2016 (Planetoid); years: Passos et al. 2024",
    sources=SOURCES,
    figure="tsne",
)
def pubmed_temporal(
    *,
    train_until: int = 1992,
    val_until: int = 1997,
    test_until: int | Sequence[int] = (2001, 2005, 2010),
    data_dir: str | Path | None = None,
) -> ShiftDataset:
    """PubMed's 19,717 papers on diabetes by year of publication, 1964–2010: earlier ones train, later ones test.

    Every graph is induced by all papers up to its last year (inductive); only the papers of its own period count.
    The task is the type of diabetes, out of three; the metric is accuracy. ``facts["periods"]`` shows what shifts: the
    counted papers' class shares, their mean degree and the distance of their mean features from the training period's.

    Args:
        train_until: the last year of training.
        val_until: the last year of validation.
        test_until: the last year of each test period.
        data_dir: the folder of raw files; None for ``$GRAPHSHIFT_DATA`` or the user's cache.
    """
    cuts = _checked_cuts(train_until, val_until, test_until)
    raw, files = planetoid_graph(_NAME, "pubmed", SOURCES, data_dir)
    year = _read_years(files[_YEARS], raw.y.numel())
    data = Data(x=raw.x, edge_index=raw.edge_index, y=raw.y, mask=raw.y >= 0)
    whole = Environment(_NAME, data, Task("multiclass", _CLASSES))
    firsts = [int(year.min()), *(cut + 1 for cut in cuts)]
    periods = [Period(f"{first}-{last}", first, last) for first, last in zip(firsts, cuts, strict=False)]
    environments = inductive_environments(whole, year, periods)
    defaults = {"epochs": 200, "lr": 0.003, "weight_decay": 1e-3, "hidden_channels": 32, "num_layers": 2}
    defaults |= {"views": 3, "edits_per_node": 3, "beta": 1.0, "explorer_lr": 0.005}
    facts = {"periods": _movement(environments)}
    return ShiftDataset(_NAME, *by_place(environments), facts=facts, defaults=defaults)


def _checked_cuts(train_until: Any, val_until: Any, test_until: Any) -> list[int]:
    tests = [test_until] if isinstance(test_until, int) else test_until
    if not isinstance(tests, Sequence) or isinstance(tests, str) or not tests:
        raise GraphshiftError(f"{_NAME}: test_until is {test_until!r}; expected a year or a list of years.")
    cuts = [train_until, val_until, *tests]
    for cut in cuts:
        if not isinstance(cut, int) or isinstance(cut, bool):
            raise GraphshiftError(f"{_NAME}: {cut!r} is not a year; expected whole numbers such as 1992.")
    if any(later <= earlier for earlier, later in pairwise(cuts)):
        raise GraphshiftError(
            f"{_NAME}: the last years of train, val and tests are {', '.join(map(str, cuts))}; each must be later than "
            "the one before it."
        )
    return cuts


def _read_years(file: Path, nodes: int) -> Tensor:
    try:
        with open(file, "rb") as stream:
            year = np.load(stream, allow_pickle=False)
    except Exception as error:  # a damaged header raises almost anything
        raise GraphshiftError(
            f"{file}: this is not a whole .npy of numbers ({error}); the file is damaged. Download it again."
        ) from None
    if not isinstance(year, np.ndarray) or year.dtype.kind not in "iu" or year.shape != (nodes,):
        found = f"{year.dtype} {list(year.shape)}" if isinstance(year, np.ndarray) else "an archive of arrays"
        raise GraphshiftError(f"{file}: found {found}; expected one integer year for each of {nodes} nodes.")
    odd = np.flatnonzero((year < 1000) | (year > 2999))
    if odd.size:
        raise GraphshiftError(f"{file}: node {odd[0]} has the year {year[odd[0]]}; expected years such as 1992.")
    return torch.from_numpy(year.astype(np.int64))


def _movement(environments: Sequence[Environment]) -> dict[str, dict[str, Any]]:
    """How the counted nodes of each period differ from those of the first."""
    means = [_mean_features(e) for e in environments]
    return {
        e.name: {
            "nodes": e.num_nodes,
            "counted": e.labels.numel(),
            "class_shares": [round(s, 6) for s in (e.labels.bincount(minlength=_CLASSES) / e.labels.numel()).tolist()],
            "mean_degree": round(float(e.graph.degree[e.counted].mean()), 4),
            "feature_distance": round(float((mean - means[0]).norm()), 6),
        }
        for e, mean in zip(environments, means, strict=True)
    }


def _mean_features(environment: Environment) -> Tensor:
    x = environment.x
    assert isinstance(x, Sparse)
    value = x.value * environment.mask[x.pattern.row]
    return torch.zeros(x.shape[1]).index_add(0, x.pattern.col, value) / environment.mask.sum()

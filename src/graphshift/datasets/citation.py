"""``citation``: papers of three databases (ACM, Citation, DBLP) with common words and topics; any source and target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.reading.assembly import environment
from graphshift.datasets.reading.files import Source, cached, require
from graphshift.datasets.reading.mat5 import read_mat5
from graphshift.datasets.reading.raw_graph import RawGraph, undirected_edges
from graphshift.datasets.shared_words import shared_words
from graphshift.datasets.temporal import with_known
from graphshift.graph.graph import Graph

_PARSER = 1
_WORDS, _CLASSES = 6_775, 5
_HOME = "GitHub, shenxiaocam/ACDNE, folder input (Shen et al. 2020)"
_FILES = {
    "acm": ("acmv9", "ee072387b0ea6599d9e9b4e60957b7b690aae4eb30adb3b9968a1e2c4e36cd74"),
    "citation": ("citationv1", "98f8f96b4d6141ad6d413bbc43116da54462e10a6b5e10d1b056202f82520c25"),
    "dblp": ("dblpv7", "986b5505025a188a2526be37225408bbb1eef2da8b643775ad3f7e1c12768932"),
}

#: The three raw files; their publication states no licence, so nothing fetches them unasked.
SOURCES = tuple(Source(f"citation/raw/{file}.mat", None, digest, home=_HOME) for file, digest in _FILES.values())


@DATASETS.register(
    "citation",
    summary="papers of three databases (ACM, Citation, DBLP); their topic",
    shift="cross-domain",
    origin="Tang et al. 2008 (ArnetMiner), as Shen et al. 2020 publish it",
    sources=SOURCES,
    note="papers with two topics are in the first of them here; micro-F1 counts both.",
)
def citation(
    *,
    source: str = "acm",
    target: str | Sequence[str] = "others",
    val_share: float = 0.2,
    words: int = 0,
    seed: int = 0,
    data_dir: str | Path | None = None,
) -> ShiftDataset:
    """Papers of ACM (before 2008), Citation (before 2008) and DBLP (2004–2008): one database trains, others test.

    A node is a paper, an edge a citation, and the 6,775 features count words; they are the same in all three and stay
    sparse. The label is one of five topics. A paper can have two (581 in ACM, 166 in Citation, 15 in DBLP): training
    takes the first, and the metric, micro-F1, predicts as many topics as the paper has, as the literature does. Metric
    ``accuracy`` leaves these papers out. The target's labels are only for the test score. Validation has held-out
    papers of the source, in the same graph, because nothing else with labels is there in this setting.

    Args:
        source: what trains and validates: ``"acm"``, ``"citation"`` or ``"dblp"``.
        target: what tests, one or more of them, with commas between; ``"others"`` for both others.
        val_share: the share of the source's papers that validates.
        words: columns of a joint low-rank space of the source's and the target's words, made without labels
            (:func:`graphshift.shared_words`); tables mark what is trained on it. 0 leaves the counts.
        seed: draws these, and the space.
        data_dir: the folder that holds ``citation/raw/acmv9.mat`` and so on; None for ``$GRAPHSHIFT_DATA`` or the
            user's cache folder.
    """
    home, away = _names(source, target)
    if not 0 < val_share < 1:
        raise GraphshiftError(f"citation: val_share is {val_share}; expected a share between 0 and 1.")
    files = dict(zip(_FILES, require("citation", SOURCES, data_dir).values(), strict=True))
    whole = _database(home, files[home])
    order = torch.randperm(whole.num_nodes, generator=torch.Generator().manual_seed(derive_seed(seed, 83)))
    held = torch.zeros(whole.num_nodes, dtype=torch.bool)
    held[order[: max(round(val_share * whole.num_nodes), 1)]] = True
    whole = with_known(whole, ~held)
    train, val = whole.replace(name=home, mask=~held), whole.replace(name=f"{home}, held out", mask=held)
    tests = [_database(name, files[name]) for name in away]
    defaults = {"backbone": "gcn", "num_layers": 2, "hidden_channels": 32, "epochs": 200, "lr": 0.01}
    defaults |= {"weight_decay": 1e-3, "views": 3, "edits_per_node": 3, "beta": 1.0, "explorer_lr": 0.005}
    facts = {"source": home, "seed": seed, "several_labels": {e.name: _several(e) for e in (train, val, *tests)}}
    data = ShiftDataset("citation", [train], [val], tests, defaults=defaults, facts=facts)
    return shared_words(data, words, seed=seed) if words else data


def _names(source: Any, target: Any) -> tuple[str, list[str]]:
    names = [name.strip() for name in target.split(",")] if isinstance(target, str) else list(target)
    if names == ["others"]:
        names = [name for name in _FILES if name != source]
    for option, name in (("source", source), *(("target", name) for name in names)):
        if name not in _FILES:
            raise GraphshiftError(f"citation: {option} is {name!r}; {expected_one_of(str(name), list(_FILES))}")
    if source in names or len(set(names)) < len(names) or not names:
        raise GraphshiftError(
            f"citation: source is {source!r} and target {', '.join(names) or 'nothing'}; expected other databases than "
            "the source, each once."
        )
    return source, names


def _several(found: Environment) -> int:
    return int((found.members.sum(dim=1) > 1).sum())


def _database(name: str, path: Path) -> Environment:
    parts = cached(f"citation-{name}", [path], _PARSER, {}, lambda: _parse(path))
    raw = RawGraph.from_tensors(parts)
    graph = Graph.from_edge_index(raw.edge_index, raw.y.numel())
    found = environment(name, raw.x, raw.y, graph, Task("multiclass", _CLASSES, "micro_f1"))
    return found.replace(further_y=parts["further"])


def _parse(path: Path) -> dict[str, Tensor]:
    content = read_mat5(path, ("network", "attrb", "group"))
    A, words, group = content["network"], content["attrb"], _dense(path, "group", content["group"])
    nodes = group.shape[0]
    if not scipy.sparse.issparse(A) or A.shape != (nodes, nodes):
        kind = "a sparse matrix" if scipy.sparse.issparse(A) else "an array"
        raise GraphshiftError(
            f"{path}: `network` is {kind} {list(A.shape)} and `group` has {nodes} rows; expected a square sparse "
            "matrix with a row for each paper."
        )
    if words.shape != (nodes, _WORDS):
        raise GraphshiftError(f"{path}: `attrb` is {list(words.shape)}; expected [{nodes}, {_WORDS}], words of papers.")
    counts = scipy.sparse.csr_matrix(words)
    if not bool(((counts.data >= 0) & np.isfinite(counts.data)).all()):
        raise GraphshiftError(f"{path}: `attrb` has negative or infinite values; expected counts of words.")
    y, further = _labels(path, group)
    A = A.tocoo()
    ends = [torch.from_numpy(end[A.data != 0].astype(np.int64)) for end in (A.row, A.col)]
    raw = RawGraph.from_scipy(counts, y, undirected_edges(ends[0], ends[1], nodes))
    return {**raw.to_tensors(), "further": torch.from_numpy(further)}


def _dense(path: Path, name: str, found: Any) -> NDArray[Any]:
    array: NDArray[Any] = found.toarray() if scipy.sparse.issparse(found) and found.shape[1] == _CLASSES else found
    if scipy.sparse.issparse(array) or array.shape[1] != _CLASSES or not array.shape[0]:
        raise GraphshiftError(f"{path}: `{name}` is {list(array.shape)}; expected [papers, {_CLASSES}].")
    return array


def _labels(path: Path, group: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first class of each paper, and the others, ``[papers, k]``, -1 where there is none."""
    bad = ~np.isin(group, (0, 1)).all(axis=1) | (group.sum(axis=1) == 0)
    if bad.any():
        row = int(bad.argmax())
        expected = "zeros and ones, at least one of them 1"
        raise GraphshiftError(f"{path}: `group` row {row} is {group[row].tolist()}; expected {expected}.")
    classes = np.where(group > 0, np.arange(_CLASSES), _CLASSES)
    classes = np.sort(classes, axis=1)[:, : max(int(group.sum(axis=1).max()), 2)].astype(np.int64)
    return classes[:, 0], np.where(classes[:, 1:] < _CLASSES, classes[:, 1:], -1)

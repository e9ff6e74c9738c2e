"""Datasets own their split, task and metric. One file each; a new one is added to ``DATASETS`` here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.artificial import cora, photo
from graphshift.datasets.arxiv import arxiv
from graphshift.datasets.elliptic import elliptic
from graphshift.datasets.facebook100 import facebook100
from graphshift.datasets.planted import planted
from graphshift.datasets.planted_structure import planted_structure
from graphshift.datasets.pubmed import pubmed_temporal
from graphshift.datasets.tables.from_tables import from_tables
from graphshift.datasets.twitch import twitch, twitch_iid

__all__ = ["DATASETS", "load", "takes_data_dir"]

#: Every dataset by name.
DATASETS: dict[str, Callable[..., ShiftDataset]] = {
    "planted": planted,
    "planted-structure": planted_structure,
    "cora": cora,
    "photo": photo,
    "twitch": twitch,
    "twitch-iid": twitch_iid,
    "facebook100": facebook100,
    "elliptic": elliptic,
    "arxiv": arxiv,
    "pubmed-temporal": pubmed_temporal,
    "own": from_tables,
}


def takes_data_dir(name: str) -> bool:
    """Whether a dataset reads files, so that ``data_dir`` means something to it."""
    return name not in DATASETS or "data_dir" in inspect.signature(DATASETS[name]).parameters


def load(name: str, /, **options: Any) -> ShiftDataset:
    """Loads a dataset by name.

    Args:
        name: a name from :data:`DATASETS`.
        options: of that dataset, such as ``nodes=500``.
    """
    if name not in DATASETS:
        raise GraphshiftError(f"dataset is {name!r}; expected one of {', '.join(DATASETS)}.")
    make = DATASETS[name]
    known = inspect.signature(make).parameters
    for option in options:
        if option not in known:
            raise GraphshiftError(f"dataset {name!r} has no option {option!r}; its options are {', '.join(known)}.")
    needed = [p.name for p in known.values() if p.default is p.empty and p.name not in options]
    if needed:
        raise GraphshiftError(
            f"dataset {name!r} needs {' and '.join(needed)}; `graphshift init NODES EDGES` writes a TOML with them."
        )
    check_types(f"dataset {name!r}", make, options)
    try:
        return make(**options)
    except TypeError as error:
        raise GraphshiftError(f"dataset {name!r}: an option has the wrong type: {error}.") from None

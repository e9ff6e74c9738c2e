"""The ``[data]`` table of a user's TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphshift.datasets.table_options import checked_options
from graphshift.datasets.tables import dataset_from_tables
from graphshift.environments import ShiftDataset
from graphshift.errors import GraphshiftError

__all__ = ["dataset_from_toml_table"]


def dataset_from_toml_table(table: Mapping[str, Any], base: str | Path, *, where: str = "[data] ") -> ShiftDataset:
    """Makes the dataset that a TOML file describes.

    Args:
        table: the file's ``[data]``: ``nodes``, ``edges`` and the options of
            :func:`~graphshift.datasets.tables.from_tables`.
        base: the folder that the paths are relative to: the TOML file's own.
        where: what to put before messages about the options, such as the file's name.
    """
    if not isinstance(table, Mapping):
        raise GraphshiftError(f"{where}is {table!r}; expected a table with nodes, edges and their options.")
    paths = []
    for key in ("nodes", "edges"):
        path = table.get(key)
        if not isinstance(path, str) or not path:
            found = f"{key} is {path!r}" if key in table else f"{key} is missing"
            raise GraphshiftError(
                f'{where}{found}; expected the path of a CSV or Parquet file, as in {key} = "{key}.csv".'
            )
        paths.append(Path(base) / path)
    rest = {key: value for key, value in table.items() if key not in ("nodes", "edges")}
    return dataset_from_tables(paths[0], paths[1], checked_options(rest, where=where))

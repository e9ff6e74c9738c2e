"""The ``[data]`` table of a user's TOML file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.options import checked_options


def options_from_toml_table(table: Mapping[str, Any], base: str | Path, *, where: str = "[data] ") -> dict[str, Any]:
    """Checks the table and gives it as the arguments of :func:`~graphshift.datasets.own.from_tables`.

    Paths are relative to ``base``, the TOML file's folder; ``where`` begins each message.
    """
    if not isinstance(table, Mapping):
        raise GraphshiftError(f"{where}is {table!r}; expected a table with nodes, edges and their options.")
    paths = {}
    for key in ("nodes", "edges", *(["graphs"] if "graphs" in table else [])):
        path = table.get(key)
        if not isinstance(path, str) or not path:
            found = f"{key} is {path!r}" if key in table else f"{key} is missing"
            raise GraphshiftError(f'{where}{found}; expected a path to CSV or Parquet, as in {key} = "{key}.csv".')
        paths[key] = str((Path(base) / path).absolute())
    rest = {key: value for key, value in table.items() if key not in paths}
    for key in ("feature_file", "feature_ids"):
        if isinstance(rest.get(key), str):
            rest[key] = str((Path(base) / rest[key]).absolute())
    checked_options(rest, where=where, graphs="graphs" in paths)
    return {**paths, **rest}

"""Partitions: a dataset, or tables whose edges do not fit into memory, as a folder of parts."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import require_extra
from graphshift.core.folders import differences
from graphshift.core.mapped import FULL
from graphshift.core.progress import progress_bar
from graphshift.core.storage import write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.partition.dividing import DIVIDERS, Divider
from graphshift.data.partition.external import Ends, sorted_rows, write_edges
from graphshift.data.partition.format import FORMAT, MANIFEST, EnvironmentNote, PartitionNote, partition_folder
from graphshift.data.partition.reading import read_partition
from graphshift.data.partition.writing import How, Rows, check_disk, expected_bytes, write_environment
from graphshift.datasets.base import DATASETS
from graphshift.datasets.tables.files import Table, read_table
from graphshift.datasets.tables.from_tables import dataset_from_tables
from graphshift.datasets.tables.graph import Layout, matched, node_ids
from graphshift.datasets.tables.options import checked_options
from graphshift.datasets.tables.preparation import load_preparation
from graphshift.graph.sparse import Sparse

_BLOCK = 2**25  # bytes of a CSV that are read at a time


def partition(
    data: ShiftDataset,
    out: str | Path,
    *,
    parts: int,
    hops: int = 1,
    by: Divider = "auto",
    seed: int = 0,
    memory: float | None = None,
    force: bool = False,
    resume: bool = False,
    progress: bool = False,
) -> ShiftDataset:
    """Writes a dataset as a folder of parts, and gives it back with arrays that are read from there when used.

    The nodes of every environment are divided into parts with few edges between them. The folder's format is open:
    ``.npy`` arrays and a JSON manifest, see the page *Graphs that do not fit*.

    Args:
        data: the dataset.
        out: the folder; it is made. The manifest is written last, so a folder without it is not finished.
        parts: of each environment.
        hops: how far the halo of a part reaches: nodes of other parts that its nodes receive from. With 0 edges to
            other parts are not seen in a batch unless both parts are in it.
        by: ``"metis"``, ``"streaming"`` (linear deterministic greedy, restreamed) or ``"auto"``: METIS if it is
            installed and fits into ``memory``.
        seed: of the division.
        memory: bytes that METIS may take; None for any number.
        force: replace a partition that is there.
        resume: go on with an interrupted one; environments that are written stay.
        progress: show a bar.

    Returns:
        The dataset in the folder, as :func:`open_partition` gives it.
    """
    how = _how(parts, hops, by, seed, memory)
    out = Path(out)
    found = [(role, e) for role, own in data.roles.items() for e in own]
    request = _request(how, data.name, {e.name: e.fingerprint() for _, e in found})
    needed = sum(_bytes(e, e.graph.num_edges) for _, e in found)
    return _write(out, data, how, request, needed, lambda e, _: Rows.of(e), force, resume, progress)


def partition_tables(
    nodes: str | Path,
    edges: str | Path,
    out: str | Path,
    *,
    parts: int,
    hops: int = 1,
    by: Divider = "auto",
    seed: int = 0,
    memory: float | None = None,
    force: bool = False,
    resume: bool = False,
    progress: bool = False,
    **options: Any,
) -> ShiftDataset:
    """The same for two tables, out of core: memory grows with the nodes and their features, not with the edges.

    Args:
        nodes, edges: paths to CSV or Parquet; the edges are read in pieces.
        out, parts, hops, by, seed, memory, force, resume, progress: as in :func:`partition`.
        options: of :func:`graphshift.from_tables`. Those that need the whole graph in memory are refused:
            ``structure``, ``edge_features``, and environments ``"by:PROPERTY"``; so is a table of graphs.
    """
    require_extra("pyarrow", "reading edges in pieces")
    how, out, edges = _how(parts, hops, by, seed, memory), Path(out), Path(edges)
    if options.get("graphs") is not None:
        raise GraphshiftError("graphs: small graphs that have labels are not divided; leave out the partition.")
    o = checked_options(options)
    refused = {"structure": o.structure, "edge_features": o.edge_features, "environments by:…": o.split_property}
    for name, value in refused.items():
        if value:
            raise GraphshiftError(
                f"{name}: needs all edges in memory, and a partition of tables reads them in pieces; leave it out, or "
                "make the dataset in memory and give it to gs.partition."
            )
    if not edges.is_file():
        raise GraphshiftError(f"{edges}: there is no such file.")
    layout = Layout(**{field: getattr(o, field) for field in Layout.model_fields})
    ends = [o.source, o.target, *([o.weight] if o.weight else [])]
    no_edges = pd.DataFrame({name: pd.Series(dtype=object) for name in ends})
    data = dataset_from_tables(nodes, no_edges, o)
    ids = node_ids(read_table(nodes, "node", ids=[o.id], **_reading(layout)), o.id)
    stat = edges.stat()
    sources = {"edges": f"{edges.resolve()} {stat.st_size} {stat.st_mtime_ns}"}
    request = _request(how, data.name, sources | {e.name: e.fingerprint() for e in _all(data)})
    guess = stat.st_size // 8 * (1 + o.undirected)  # a line has 8 bytes or more
    needed = sum(_bytes(e, 0) for e in _all(data)) + 3 * 8 * guess
    raw = out / "work" / "edges.raw"
    weighted = o.weight is not None

    def rows_of(environment: Environment, folder: Path) -> Rows:
        if not raw.is_file():
            raw.parent.mkdir(parents=True, exist_ok=True)
            part = raw.with_suffix(".part")
            write_edges(part, _chunks(edges, layout, ids, str(nodes), o.unknown_ids), len(ids), weighted=weighted)
            part.replace(raw)
        own = data.facts["ids"][environment.name]
        place = np.full(len(ids), -1, dtype=np.int64)
        place[ids.get_indexer(pd.Index(own, tupleize_cols=False))] = np.arange(len(own))
        shutil.rmtree(folder, ignore_errors=True)
        how_edges = {"undirected": o.undirected, "weighted": weighted}
        return sorted_rows(raw, place, environment.num_nodes, folder, **how_edges)

    return _write(out, data, how, request, needed, rows_of, force, resume, progress)


@DATASETS.register("partition")
def open_partition(folder: str | Path, *, check: bool = True, progress: bool = False) -> ShiftDataset:
    """The dataset of a folder that :func:`partition` wrote; its arrays are read when they are used.

    It is ``graphshift.load("partition", folder=…)``.

    Args:
        folder: the folder.
        check: compare every part with its digest and check its numbers, which reads the folder once. Of a folder from
            a stranger never leave it out.
        progress: show a bar where that takes seconds.
    """
    data = read_partition(folder, check=check, progress=progress)
    preparation = load_preparation(folder)
    if preparation is None:
        return data
    return dataclasses.replace(data, facts={**data.facts, "preparation": preparation})


def _how(parts: int, hops: int, by: str, seed: int, memory: float | None) -> How:
    if parts < 1:
        raise GraphshiftError(f"parts is {parts}; expected at least 1.")
    if not 0 <= hops <= 10:
        raise GraphshiftError(f"hops is {hops}; expected a number from 0 to 10.")
    if by not in DIVIDERS:
        raise GraphshiftError(f"by is {by!r}; expected one of {', '.join(DIVIDERS)}.")
    if by == "metis":
        require_extra("pymetis", "dividing a graph by METIS")
    return How(parts, hops, by, seed, memory)  # type: ignore[arg-type]


def _request(how: How, name: str, digests: Mapping[str, str]) -> dict[str, Any]:
    asked = {"parts": how.parts, "hops": how.hops, "by": how.by, "seed": how.seed}
    return {"version": __version__, "format": FORMAT, "dataset": name, "data": dict(digests), **asked}


def _all(data: ShiftDataset) -> list[Environment]:
    return [e for own in data.roles.values() for e in own]


def _bytes(e: Environment, edges: int) -> int:
    values = e.x.value.numel() if isinstance(e.x, Sparse) else None
    more = (4 if e.graph.weight is not None else 0) + 4 * e.num_edge_features
    return expected_bytes(e.num_nodes, edges, e.num_features, sparse_values=values, more=more)


def _write(
    out: Path,
    data: ShiftDataset,
    how: How,
    request: dict[str, Any],
    needed: int,
    rows_of: Callable[[Environment, Path], Rows],
    force: bool,
    resume: bool,
    progress: bool,
) -> ShiftDataset:
    folder = partition_folder(out)
    begun = _begun(out, request, force=force, resume=resume)
    check_disk(out, needed)
    with folder.locked():
        if not begun:
            folder.replace(request)
        else:
            folder.remove_leftovers()
            if (out / MANIFEST).is_file():
                shutil.rmtree(out / "work", ignore_errors=True)
                return open_partition(out, progress=progress)
        try:
            notes = _write_environments(out, data, how, rows_of, progress)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise GraphshiftError(
                f"{out}: no room is left on its disk ({error.strerror}). Environments that are written stay: make "
                "room, then go on with --resume."
            ) from None
        preparation = data.facts.get("preparation")
        if preparation is not None:
            preparation.save(out)
        names: dict[str, Any] = {"name": data.name, "task": dataclasses.asdict(data.task)}
        names |= {"classes": tuple(data.facts.get("class_names") or ())}
        sizes: dict[str, Any] = {
            "features": data.train[0].num_features,
            "parts": how.parts,
            "hops": how.hops,
            "seed": how.seed,
        }
        note = PartitionNote(format=FORMAT, **names, **sizes, defaults=dict(data.defaults), environments=tuple(notes))
        write_json(out / MANIFEST, note.model_dump(mode="json"))
        shutil.rmtree(out / "work", ignore_errors=True)
    return open_partition(out, check=False)


def _write_environments(
    out: Path, data: ShiftDataset, how: How, rows_of: Callable[[Environment, Path], Rows], progress: bool
) -> list[EnvironmentNote]:
    """Writes those that are not written yet."""
    found = [(role, e) for role, own in data.roles.items() for e in own]
    notes = []
    with progress_bar("partition", len(found) if progress else 0, unit="environments") as report:
        for number, (role, environment) in enumerate(found):
            name = f"{number:03d}-{re.sub(r'[^A-Za-z0-9_.-]', '_', environment.name)[:60]}"
            place = out / "environments" / name
            work = out / "work" / name
            rows = Rows.of(environment) if (place / "environment.json").is_file() else rows_of(environment, work)
            notes.append(write_environment(place, environment, role, rows, how))
            del rows
            shutil.rmtree(work, ignore_errors=True)
            report({"epoch": number + 1})
    return notes


def _begun(out: Path, request: dict[str, Any], *, force: bool, resume: bool) -> bool:
    """Whether the folder holds this very partition, begun or finished. Changes nothing."""
    folder = partition_folder(out)
    if not folder.is_occupied() or force:
        return False
    if not resume:
        raise GraphshiftError(
            f"{out}: exists and is not empty; nothing was changed. Resume it (--resume), replace the partition in it "
            "(--force), or choose another --out."
        )
    there = folder.read()
    if differing := differences(there, request, where="request.json"):
        raise GraphshiftError(
            f"{out}: holds another partition, so it cannot be resumed: {'; '.join(differing)}. Give the same data and "
            "options, or another --out."
        )
    return True


def _reading(layout: Layout) -> dict[str, Any]:
    return {"missing": layout.missing, "separator": layout.separator, "encoding": layout.encoding}


def _chunks(path: Path, layout: Layout, ids: pd.Index, nodes: str, unknown_ids: str) -> Iterator[Ends]:
    """The edges of a table in pieces, their ends as numbers of nodes."""
    names = [layout.source, layout.target, *([layout.weight] if layout.weight else [])]
    done = 0
    for frame in _frames(path, names, layout, numeric=pd.api.types.is_numeric_dtype(ids.dtype)):
        table = Table(str(path), frame)
        source, target = (matched(table, ids, frame[name]) for name in (layout.source, layout.target))
        unknown = (source < 0) | (target < 0)
        if unknown.any() and unknown_ids == "error":
            row = int(unknown.argmax())
            column = layout.source if source[row] < 0 else layout.target
            raise GraphshiftError(
                f"{path}: row {done + row + 1}, column {column!r} is {frame[column].iloc[row]!r}, which is not among "
                f'the ids of {nodes}; correct the ids, or say unknown_ids="drop" to leave such edges out.'
            )
        weight = None
        if layout.weight is not None:
            weight = pd.to_numeric(frame[layout.weight], errors="coerce").to_numpy(dtype=np.float32, na_value=np.nan)
            bad = ~(np.isfinite(weight) & (weight > 0))
            if bad.any():
                row = int(bad.argmax())
                raise GraphshiftError(
                    f"{path}: row {done + row + 1}, column {layout.weight!r} is {frame[layout.weight].iloc[row]!r}; "
                    "expected a number above 0."
                )
            weight = weight[~unknown]
        done += len(frame)
        yield Ends(source[~unknown], target[~unknown], weight)


def _frames(path: Path, names: list[str], layout: Layout, *, numeric: bool) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        try:
            for batch in pq.ParquetFile(path).iter_batches(columns=names):
                yield batch.to_pandas()
        except (pa.ArrowInvalid, OSError) as error:
            raise GraphshiftError(f"{path}: cannot be read as Parquet: {error}.") from None
        return
    from pyarrow import csv

    kinds = {name: pa.int64() if numeric else pa.string() for name in (layout.source, layout.target)}
    kinds |= {layout.weight: pa.float64()} if layout.weight else {}
    try:
        reader = csv.open_csv(
            path,
            csv.ReadOptions(block_size=_BLOCK, encoding=layout.encoding or "utf8"),
            csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else layout.separator),
            csv.ConvertOptions(include_columns=names, column_types=kinds),
        )
        for batch in reader:
            yield batch.to_pandas()
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        why = " ".join(str(error).split())[:300]
        raise GraphshiftError(
            f"{path}: cannot be read in pieces: {why}; expected columns {', '.join(names)}."
        ) from None

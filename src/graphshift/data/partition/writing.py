"""Writes one environment of a partition: arrays in the order of parts, chunk by chunk, and its note last."""

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.mapped import reserve
from graphshift.core.parsing import checked_note
from graphshift.core.storage import read_json, write_json
from graphshift.data.environment import Environment
from graphshift.data.partition.dividing import Divider, divide
from graphshift.data.partition.format import EnvironmentNote, digest_of
from graphshift.data.tasks import refuse_graph_level
from graphshift.graph.sparse import Sparse
from graphshift.graph.subgraphs import distinct, entries_of

_ENTRIES = 4_000_000  # of a chunk
_ROWS = 65_536


@dataclass(frozen=True)
class Rows:
    """A graph in CSR form, in the dataset's order of nodes; arrays in memory or memory-mapped.

    Attributes:
        rowptr, col: where the entries are.
        more: what else an entry has, by the array's name: ``weight``, ``edge_attr``.
        undirected: whether each entry has its reverse.
    """

    rowptr: NDArray[np.integer]
    col: NDArray[np.integer]
    more: Mapping[str, NDArray[Any]]
    undirected: bool

    @classmethod
    def of(cls, environment: Environment) -> "Rows":
        """The graph of an environment."""
        graph = environment.graph
        more = {"weight": graph.weight, "edge_attr": graph.edge_attr}
        found = {name: value.numpy() for name, value in more.items() if value is not None}
        return cls(graph.pattern.rowptr.numpy(), graph.pattern.col.numpy(), found, graph.undirected)


@dataclass(frozen=True)
class How:
    """How graphs are divided: see :func:`~graphshift.data.partition.dividing.divide`; ``hops`` is the halo's reach."""

    parts: int
    hops: int = 1
    by: Divider = "auto"
    seed: int = 0
    memory: float | None = None


def expected_bytes(nodes: int, edges: int, features: int, *, sparse_values: int | None = None, more: int = 0) -> int:
    """About what an environment takes on disk; ``more`` is the bytes that an entry has beside its column."""
    of_x = 4 * features * nodes if sparse_values is None else 8 * sparse_values + 4 * nodes
    return of_x + 40 * nodes + (8 + more) * edges


def check_disk(folder: Path, needed: int) -> None:
    """Refuses to begin where the disk has not enough room."""
    there = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise GraphshiftError(
            f"{folder}: the partition needs about {needed / 1e9:.2f} GB, and its disk has {free / 1e9:.2f} GB left; "
            "nothing was written. Make room, or choose another --out."
        )


def write_environment(folder: Path, environment: Environment, role: str, rows: Rows, how: How) -> EnvironmentNote:
    """Divides one environment and writes its arrays, or reads the note if it is written already.

    Args:
        folder: of the environment; ``environment.json`` is written last, so an interrupted one has none.
        environment: features, labels and masks; its own graph is not looked at.
        role: in the dataset.
        rows: its graph.
        how: the division.
    """
    refuse_graph_level(environment.task, "partitioning")
    done = folder / "environment.json"
    if done.is_file():
        return checked_note(EnvironmentNote, read_json(done), where=str(done))
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    asked: dict[str, Any] = {"by": how.by, "seed": how.seed, "memory": how.memory, "undirected": rows.undirected}
    wanted, divided_by = divide(rows.rowptr, rows.col, min(how.parts, environment.num_nodes), **asked)
    place = np.unique(wanted, return_inverse=True)[1]  # METIS may leave a part empty
    order = np.argsort(place, kind="stable")
    begin = np.searchsorted(place[order], np.arange(int(place.max()) + 2))
    _write_nodes(folder, environment, order)
    _write_entries(folder, rows, order)
    found = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    cut = _write_halos(folder, found, begin, how.hops)
    found = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    pairs = itertools.pairwise(begin.tolist())
    note = EnvironmentNote(
        name=environment.name,
        role=role,  # type: ignore[arg-type]
        folder=folder.name,
        nodes=environment.num_nodes,
        edges=len(rows.col),
        undirected=rows.undirected,
        counted=int(environment.mask.sum()),
        cut=cut,
        divided_by=divided_by,
        begin=tuple(begin.tolist()),
        arrays={name: {"dtype": a.dtype.str, "shape": a.shape} for name, a in sorted(found.items())},  # type: ignore[misc]
        digests=tuple(digest_of(found, a, b, part) for part, (a, b) in enumerate(pairs)),
    )
    write_json(done, note.model_dump(mode="json"))
    return note


def _write_nodes(folder: Path, environment: Environment, order: NDArray[np.int64]) -> None:
    _save(folder / "order.npy", order)
    for name in ("y", "mask", "time", "known_y", "further_y"):
        value: Tensor | None = getattr(environment, name)
        if value is not None:
            _save(folder / f"{name}.npy", value.numpy()[order])
    if environment.ids is not None:
        ids = np.asarray(environment.ids)
        ids = np.asarray(ids.tolist()) if ids.dtype == object else ids
        _save(folder / "ids.npy", (ids.astype(str) if ids.dtype == object else ids)[order])
    x = environment.x
    if isinstance(x, Sparse):
        more = {"x_value": x.value.numpy()}
        _permute(folder, x.pattern.rowptr.numpy(), x.pattern.col.numpy(), more, order, None, prefix="x_")
        return
    found = _created(folder / "x.npy", np.float32, tuple(x.shape))
    values = x.numpy()
    for begin in range(0, len(order), _ROWS):
        found[begin : begin + _ROWS] = values[order[begin : begin + _ROWS]]
    found.flush()


def _write_entries(folder: Path, rows: Rows, order: NDArray[np.int64]) -> None:
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    _permute(folder, rows.rowptr, rows.col, rows.more, order, number)


def _permute(
    folder: Path,
    rowptr: NDArray[np.integer],
    col: NDArray[np.integer],
    more: Mapping[str, NDArray[Any]],
    order: NDArray[np.int64],
    number: NDArray[np.int64] | None,
    prefix: str = "",
) -> None:
    """Writes a CSR matrix with its rows in another order and, if ``number`` says so, its columns renumbered."""
    whole = np.int32 if max(len(col), len(order)) < 2**31 else np.int64
    pointer = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(np.diff(rowptr)[order], out=pointer[1:])
    _save(folder / f"{prefix}rowptr.npy", pointer.astype(whole))
    columns = _created(folder / f"{prefix}col.npy", whole, (len(col),))
    others = {name: _created(folder / f"{name}.npy", a.dtype, a.shape) for name, a in more.items()}
    for begin, end in _chunks(pointer):
        at, count = entries_of(rowptr, order[begin:end])
        found = col[at]
        if number is not None:
            found = number[found]
            row = np.repeat(np.arange(end - begin, dtype=np.int64), count)
            sorting = np.argsort(row * len(order) + found, kind="stable")
            found, at = found[sorting], at[sorting]
        first, last = int(pointer[begin]), int(pointer[end])
        columns[first:last] = found
        for name, other in others.items():
            other[first:last] = more[name][at]
    for array in (columns, *others.values()):
        array.flush()


def _chunks(pointer: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of rows that have about :data:`_ENTRIES` entries, or one row."""
    begin, rows = 0, len(pointer) - 1
    while begin < rows:
        end = int(np.searchsorted(pointer, pointer[begin] + _ENTRIES, side="right")) - 1
        end = min(max(end, begin + 1), rows, begin + 64 * _ROWS)
        yield begin, end
        begin = end


def _write_halos(folder: Path, arrays: Mapping[str, NDArray[Any]], begin: NDArray[np.int64], hops: int) -> int:
    """Writes the rows outside each part that it receives from within ``hops``; returns how many entries are cut."""
    rowptr, col = arrays["rowptr"], arrays["col"]
    pointer, cut = [0], 0
    with open(folder / "halo.raw", "wb") as file:
        for first, last in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True):
            direct = np.asarray(col[int(rowptr[first]) : int(rowptr[last])])
            outside = direct[(direct < first) | (direct >= last)]
            cut += len(outside)
            front = distinct(outside).astype(np.int64)
            halo = front[:0]
            for hop in range(hops):
                halo = np.union1d(halo, front)
                if hop + 1 < hops:
                    further = distinct(col[entries_of(rowptr, front)[0]]).astype(np.int64)
                    front = np.setdiff1d(further[(further < first) | (further >= last)], halo)
            file.write(halo.tobytes())
            pointer.append(pointer[-1] + len(halo))
    header = {"descr": "<i8", "fortran_order": False, "shape": (pointer[-1],)}
    with open(folder / "halo.raw", "rb") as raw, open(folder / "halo.npy", "wb") as halos:
        np.lib.format.write_array_header_1_0(halos, header)
        shutil.copyfileobj(raw, halos)
    _save(folder / "haloptr.npy", np.array(pointer, dtype=np.int64))
    (folder / "halo.raw").unlink()
    return cut


def _save(path: Path, array: NDArray[Any]) -> None:
    np.save(path, array, allow_pickle=False)


def _created(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array in a new file; one without elements is written at once, since nothing can be mapped there."""
    if not all(shape):
        _save(path, np.zeros(shape, dtype=dtype))
        return np.load(path, mmap_mode=None).view(_Unmapped)
    found = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    with path.open("r+b") as file:
        reserve(file.fileno(), path.stat().st_size)
    return found


class _Unmapped(np.ndarray):
    """An empty array that can be flushed."""

    def flush(self) -> None:
        """Nothing is to be written."""

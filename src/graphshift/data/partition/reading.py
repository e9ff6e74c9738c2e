"""A partition folder as a shift dataset, whose environments have memory-mapped arrays."""

import os
import weakref
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.mapped import READS, read_rows, release
from graphshift.core.progress import progress_bar
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.partition.checking import (
    Arrays,
    again,
    check_environment,
    check_part,
    check_whole,
    map_array,
    task_of,
)
from graphshift.data.partition.format import MANIFEST, EnvironmentNote, PartitionNote, digest_of, read_manifest
from graphshift.data.tasks import Task
from graphshift.graph.edge_features import EdgeFeatures
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern, Sparse

_LARGE = 2**29  # bytes whose digests take seconds


class Parts:
    """Where the parts of one stored environment are; see :class:`~graphshift.data.environment.Stored`."""

    def __init__(self, note: EnvironmentNote, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.begin, self.arrays = np.array(note.begin, dtype=np.int64), dict(arrays)
        self._files: dict[str, int] = {}  # descriptors
        text = f"{note.name} {note.folder} {note.digests}"
        self.digest = f"{zlib.crc32(text.encode()):08x} " + " ".join(note.digests[:8])

    def halo(self, part: int) -> NDArray[np.int64]:
        """The rows outside a part that its nodes receive from, increasing."""
        first, last = self.arrays["haloptr"][part : part + 2]
        return np.asarray(self.arrays["halo"][int(first) : int(last)])

    def rows(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows of an array, without mapping them."""
        array = self.arrays[name]
        if not (READS and isinstance(array, np.memmap) and array.filename):
            return np.asarray(array[rows])
        if name not in self._files:  # stays open: the folder may be replaced meanwhile
            self._files[name] = os.open(array.filename, os.O_RDONLY)
            weakref.finalize(self, os.close, self._files[name])
        return read_rows(self._files[name], rows, array.shape[1:], array.dtype, array.offset)

    def release(self) -> None:
        """Gives back the pages that were read: mapped files count as the process's memory as long as they are held."""
        for array in self.arrays.values():
            release(array)


def read_partition(folder: str | Path, *, check: bool = True, progress: bool = False) -> ShiftDataset:
    """The dataset that a partition folder holds. Arrays are read when they are used.

    Args:
        folder: that :func:`graphshift.partition` wrote.
        check: compare every part with its digest and check its numbers, which reads the folder once. Of a folder from
            a stranger never leave it out.
        progress: show a bar where that takes seconds.
    """
    folder = Path(folder)
    note, where = read_manifest(folder), str(folder / MANIFEST)
    task, arrays = task_of(note, where), {}
    for one in note.environments:
        check_environment(one, task, note.features, where)
        place = folder / "environments" / one.folder
        arrays[one.name] = {name: map_array(place / f"{name}.npy", about, folder) for name, about in one.arrays.items()}
        check_whole(one, arrays[one.name], str(place))
    if check:
        _check_parts(folder, note, task, arrays, progress=progress)
    roles: dict[str, list[Environment]] = {"train": [], "val": [], "tests": [], "target": []}
    for one in note.environments:
        roles[one.role].append(_environment(one, arrays[one.name], task, note.features))
    facts: dict[str, Any] = {"partition": note} | ({"class_names": note.classes} if note.classes else {})
    return ShiftDataset(note.name, **roles, defaults=note.defaults, facts=facts)


def _check_parts(
    folder: Path, note: PartitionNote, task: Task, arrays: Mapping[str, Arrays], *, progress: bool
) -> None:
    total = sum(len(one.digests) for one in note.environments)
    size = sum(a.nbytes for own in arrays.values() for a in own.values())
    with progress_bar("checking parts", total if progress and size > _LARGE else 0, unit="parts") as report:
        done = 0
        for one in note.environments:
            place = folder / "environments" / one.folder
            for part, expected in enumerate(one.digests):
                if digest_of(arrays[one.name], one.begin[part], one.begin[part + 1], part) != expected:
                    raise GraphshiftError(
                        f"{place}: part {part} (rows {one.begin[part]:,} to {one.begin[part + 1] - 1:,}) is not what "
                        f"was written (crc32): it is damaged, or of another dataset; {again(folder)}"
                    )
                check_part(one, arrays[one.name], part, task, note.features, str(place))
                done += 1
                report({"epoch": done})
            Parts(one, arrays[one.name]).release()


def _environment(
    note: EnvironmentNote, arrays: Mapping[str, NDArray[Any]], task: Task, features_in: int
) -> Environment:
    """Without the checks of :class:`Environment`, which would read everything: they were made before it was written."""
    found = object.__new__(Environment)
    tensors: dict[str, Tensor] = {
        name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items() if array.dtype.kind in "fiub"
    }
    nodes = note.nodes
    features = EdgeFeatures.of(tensors["edge_attr"]) if "edge_attr" in tensors else None
    graph = Graph(
        Pattern(tensors["rowptr"], tensors["col"], (nodes, nodes)),
        tensors.get("weight"),
        undirected=note.undirected,
        edge_features=features,
    )
    if "x" in tensors:
        x: Tensor | Sparse = tensors["x"]
    else:
        x = Sparse(Pattern(tensors["x_rowptr"], tensors["x_col"], (nodes, features_in)), tensors["x_value"])
    found.name, found.task, found.x, found.graph = note.name, task, x, graph
    for name in ("mask", "y", "time", "known_y", "further_y"):
        setattr(found, name, tensors.get(name))
    found.ids = arrays.get("ids")
    found.stored = Parts(note, arrays)
    return found

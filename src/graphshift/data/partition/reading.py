"""A partition folder as a shift dataset, whose environments have memory-mapped arrays."""

import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import progress_bar
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
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
        text = f"{note.name} {note.folder} {note.digests}"
        self.digest = f"{zlib.crc32(text.encode()):08x} " + " ".join(note.digests[:8])

    def halo(self, part: int) -> NDArray[np.int64]:
        """The rows outside a part that its nodes receive from, increasing."""
        first, last = self.arrays["haloptr"][part : part + 2]
        return np.asarray(self.arrays["halo"][int(first) : int(last)])

    def release(self) -> None:
        """Gives back the pages that were read: mapped files count as the process's memory as long as they are held."""
        for array in self.arrays.values():
            held = getattr(array, "_mmap", None)
            if held is not None and hasattr(mmap, "MADV_DONTNEED"):
                held.madvise(mmap.MADV_DONTNEED)


def read_partition(folder: str | Path, *, check: bool = True, progress: bool = False) -> ShiftDataset:
    """The dataset that a partition folder holds. Arrays are read when they are used.

    Args:
        folder: that :func:`graphshift.partition` wrote.
        check: compare every part with its digest, which reads the folder once.
        progress: show a bar where that takes seconds.
    """
    folder = Path(folder)
    note = read_manifest(folder)
    arrays = {one.name: _arrays(folder, one) for one in note.environments}
    if check:
        _check_digests(folder, note, arrays, progress=progress)
    task = Task(**note.task)
    roles: dict[str, list[Environment]] = {"train": [], "val": [], "tests": [], "target": []}
    for one in note.environments:
        roles[one.role].append(_environment(one, arrays[one.name], task, note.features))
    facts: dict[str, Any] = {"partition": note} | ({"class_names": note.classes} if note.classes else {})
    return ShiftDataset(note.name, **roles, defaults=note.defaults, facts=facts)


def _arrays(folder: Path, note: EnvironmentNote) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for name, about in note.arrays.items():
        path = folder / "environments" / note.folder / f"{name}.npy"
        try:
            array = np.load(path, mmap_mode="c" if all(about.shape) else None, allow_pickle=False)
        except FileNotFoundError:
            raise GraphshiftError(f"{path}: there is no such file, and {MANIFEST} names it; {_again(folder)}") from None
        except (OSError, ValueError) as error:
            raise GraphshiftError(f"{path}: cannot be read ({error}); the file is damaged; {_again(folder)}") from None
        if (array.dtype.str, array.shape) != (about.dtype, about.shape):
            raise GraphshiftError(
                f"{path}: holds {array.dtype.str} {list(array.shape)}, and {MANIFEST} says {about.dtype} "
                f"{list(about.shape)}: it is of another dataset, or damaged; {_again(folder)}"
            )
        found[name] = array
    return found


def _check_digests(
    folder: Path, note: PartitionNote, arrays: Mapping[str, Mapping[str, NDArray[Any]]], *, progress: bool
) -> None:
    total = sum(len(one.digests) for one in note.environments)
    size = sum(a.nbytes for own in arrays.values() for a in own.values())
    with progress_bar("checking parts", total if progress and size > _LARGE else 0, unit="parts") as report:
        done = 0
        for one in note.environments:
            for part, expected in enumerate(one.digests):
                if digest_of(arrays[one.name], one.begin[part], one.begin[part + 1], part) != expected:
                    raise GraphshiftError(
                        f"{folder / 'environments' / one.folder}: part {part} (rows {one.begin[part]:,} to "
                        f"{one.begin[part + 1] - 1:,}) is not what was written (crc32): it is damaged, or of another "
                        f"dataset; {_again(folder)}"
                    )
                done += 1
                report({"epoch": done})
            Parts(one, arrays[one.name]).release()


def _again(folder: Path) -> str:
    return f"make the partition again: graphshift partition … --out {folder} --force."


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

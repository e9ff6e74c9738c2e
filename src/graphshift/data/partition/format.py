"""The format of a partition folder (docs/scale.md): what its manifest says, and the digest of each part.

Every environment has a folder of ``.npy`` arrays. Its nodes are sorted by part, so a part is a run of rows of every
array; the manifest says where the runs begin. An edge's ends are numbers of rows.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.folders import OwnedFolder
from graphshift.core.parsing import checked_note
from graphshift.core.storage import read_json

#: Raised when a folder of the older format cannot be read as one of the newer.
FORMAT = 1
MANIFEST = "partition.json"

#: The arrays of an environment by what a row of them is. ``order`` is each row's number in the dataset.
OF_NODES = ("order", "x", "y", "mask", "time", "known_y", "further_y", "ids")
OF_ENTRIES = ("col", "weight", "edge_attr")
OF_VALUES = ("x_col", "x_value")  # of sparse features, with x_rowptr
ALL = (*OF_NODES, "rowptr", *OF_ENTRIES, "x_rowptr", *OF_VALUES, "haloptr", "halo")


class TaskNote(BaseModel, extra="forbid", frozen=True, strict=True):
    """A :class:`~graphshift.data.tasks.Task`."""

    kind: str
    num_classes: int = Field(ge=0)
    metric: str = ""
    two_logits: bool = False
    level: Literal["node"] = "node"  # partitions are of nodes


class ArrayNote(BaseModel, extra="forbid", frozen=True):
    """The type and the shape of one array."""

    dtype: str
    shape: tuple[int, ...]


class EnvironmentNote(BaseModel, extra="forbid", frozen=True):
    """One environment.

    Attributes:
        name, role: as in the dataset.
        folder: of its arrays, in the partition's.
        nodes, edges: how many; an undirected edge counts twice.
        undirected: whether each entry has its reverse.
        counted: how many nodes count in loss and score.
        cut: how many entries lead from one part to another.
        divided_by: ``"metis"`` or ``"streaming"``.
        begin: the first row of each part, and at last the number of rows.
        arrays: what is there.
        digests: crc32 of each part, over its rows of all arrays.
    """

    name: str
    role: Literal["train", "val", "tests", "target"]
    folder: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)
    nodes: int = Field(ge=1)
    edges: int = Field(ge=0)
    undirected: bool
    counted: int = Field(ge=0)
    cut: int = Field(ge=0)
    divided_by: str
    begin: tuple[int, ...]
    arrays: dict[str, ArrayNote]
    digests: tuple[str, ...]


class PartitionNote(BaseModel, extra="forbid", frozen=True):
    """The manifest.

    Attributes:
        format: of the folder.
        graphshift: the version that wrote it.
        name: of the dataset.
        task: of the dataset.
        classes: what they are called.
        features: of a node.
        parts: how many were asked for in each environment.
        hops: how far a part's halo reaches.
        seed: of the division.
        defaults: hyper-parameters that suit the dataset.
        environments: in the order of the dataset.
    """

    format: int
    graphshift: str = __version__
    name: str
    task: TaskNote
    classes: tuple[str, ...]
    features: int = Field(ge=1)
    parts: int = Field(ge=1)
    hops: int = Field(ge=0)
    seed: int
    defaults: dict[str, Any]
    environments: tuple[EnvironmentNote, ...]


def partition_folder(path: Path) -> OwnedFolder:
    """The folder of a partition; ``request.json`` says of what, also before it is finished."""
    return OwnedFolder(path, "request.json", (MANIFEST, "environments", "work", "preparation.json"))


def is_partition(path: str | Path) -> bool:
    """Whether there is a folder of a partition, finished or not."""
    return any((Path(path) / name).is_file() for name in (MANIFEST, "request.json"))


def read_manifest(folder: Path) -> PartitionNote:
    """Reads and checks the manifest alone."""
    path = folder / MANIFEST
    if not path.is_file():
        if (folder / "request.json").is_file():
            raise GraphshiftError(
                f"{folder}: this partition is not finished; go on with it: graphshift partition … --out {folder} "
                "--resume, with what was given before."
            )
        raise GraphshiftError(f"{folder}: there is no {MANIFEST}; expected a folder that `graphshift partition` wrote.")
    content = read_json(path)
    found = content.get("format") if isinstance(content, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise GraphshiftError(
            f"{path}: its format is {found}, and this version of graphshift ({__version__}) reads formats up to "
            f"{FORMAT}; install a newer one, or make the partition again."
        )
    return checked_note(PartitionNote, content, where=str(path))


def digest_of(arrays: Mapping[str, NDArray[Any]], begin: int, end: int, part: int) -> str:
    """crc32 over one part's rows of every array, in the order of :data:`ALL`."""
    found = 0
    for name in ALL:
        if name not in arrays:
            continue
        array, (first, last) = arrays[name], span(arrays, name, begin, end, part)
        first, last = max(first, 0), min(last, len(array))  # pointers of a stranger may lead anywhere
        step = max(1, 2**24 // max(array.dtype.itemsize * int(np.prod(array.shape[1:])), 1))
        for at in range(first, last, step):
            found = zlib.crc32(np.ascontiguousarray(array[at : min(at + step, last)]).view(np.uint8).data, found)
    return f"{found:08x}"


def span(arrays: Mapping[str, NDArray[Any]], name: str, begin: int, end: int, part: int) -> tuple[int, int]:
    """Which rows of an array are those of a part, whose nodes are the rows ``begin`` to ``end - 1``."""
    if name in OF_NODES:
        return begin, end
    if name in ("rowptr", "x_rowptr"):
        return begin, end + 1
    if name == "haloptr":
        return part, part + 2
    first, last, pointer = (part, part + 1, "haloptr") if name == "halo" else (begin, end, "rowptr")
    pointer = "x_rowptr" if name in OF_VALUES else pointer
    return int(arrays[pointer][first]), int(arrays[pointer][last])

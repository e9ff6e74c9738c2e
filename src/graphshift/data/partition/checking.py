"""What a partition folder claims, compared with what it holds: a crc32 finds accidents, and a stranger can write one.

The manifest is checked whole, the numbers part by part beside the digests, so that the folder is read once.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import check_regular
from graphshift.data.partition.format import ALL, MANIFEST, ArrayNote, EnvironmentNote, PartitionNote, span
from graphshift.data.tasks import Task

Arrays = Mapping[str, NDArray[Any]]

_ENTRIES = 2**22  # of an array that are looked at at a time
_WHOLE = ("<i4", "<i8")
_FEATURES = ({"x"}, {"x_rowptr", "x_col", "x_value"})
_NEEDED = {"order", "mask", "rowptr", "col", "haloptr", "halo"}


def again(folder: Path) -> str:
    """What to do with a folder that is damaged."""
    return f"make the partition again: graphshift partition … --out {folder} --force."


def task_of(note: PartitionNote, where: str) -> Task:
    """The task of a manifest whose environments have names and folders of their own."""
    for field in ("name", "folder"):
        if len({getattr(one, field) for one in note.environments}) < len(note.environments):
            raise GraphshiftError(f"{where}: two environments have the same {field}; damaged.")
    task, nodes = Task(**note.task.model_dump()), sum(one.nodes for one in note.environments)
    if task.num_classes > max(nodes, 2):
        raise GraphshiftError(f"{where}: field `task` has {task.num_classes:,} classes for {nodes:,} nodes; damaged.")
    if note.classes and len(note.classes) != task.num_classes:
        found = f"{len(note.classes)} names of {task.num_classes} classes"
        raise GraphshiftError(f"{where}: field `classes` has {found}; damaged.")
    return task


def check_environment(one: EnvironmentNote, task: Task, features: int, where: str) -> None:
    """Checks what a manifest says of an environment: its parts, and which arrays of which type and shape it has."""
    where = f"{where}: environment {one.name!r}"
    begin = np.array(one.begin, dtype=np.float64)  # of any size, without an overflow
    if len(begin) < 2 or begin[0] != 0 or begin[-1] != one.nodes or not bool((np.diff(begin) > 0).all()):
        raise GraphshiftError(f"{where}: field `begin` does not go up from 0 to {one.nodes:,}; damaged.")
    if len(one.digests) != len(begin) - 1:
        raise GraphshiftError(f"{where}: {len(one.digests)} digests for {len(begin) - 1} parts; damaged.")
    there = set(one.arrays)
    missing = (_NEEDED | (set() if one.role == "target" else {"y"})) - there
    if missing or there - set(ALL) or sum(own <= there for own in _FEATURES) != 1:
        raise GraphshiftError(f"{where}: arrays are {', '.join(sorted(there))}; others are expected. Damaged.")
    for name, about in one.arrays.items():
        kinds, shape = _expected(name, one, task, features)
        fits = (about.dtype in kinds if kinds else _is_text(about.dtype)) and len(about.shape) == len(shape)
        if not fits or any(
            size < 0 or wanted not in (-1, size) for size, wanted in zip(about.shape, shape, strict=True)
        ):
            raise GraphshiftError(
                f"{where}: array {name} is {about.dtype} {list(about.shape)}; expected {' or '.join(kinds) or 'text'} "
                f"{list(shape)}, -1 for any number. Damaged."
            )


def _expected(name: str, one: EnvironmentNote, task: Task, features: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The types that an array may have, none for any plain one, and its shape, -1 where any number will do."""
    n, labels = one.nodes, ("<i8",) if task.is_classification else ("<f4",)
    return {
        "order": (_WHOLE, (n,)),
        "x": (("<f4",), (n, features)),
        "y": (labels, (n,)),
        "mask": (("|b1",), (n,)),
        "time": (("<i4", "<i8", "<f4", "<f8"), (n,)),
        "known_y": (labels, (n,)),
        "further_y": (("<i8",), (n, -1)),
        "ids": ((), (n,)),
        "rowptr": (_WHOLE, (n + 1,)),
        "col": (_WHOLE, (one.edges,)),
        "weight": (("<f4",), (one.edges,)),
        "edge_attr": (("<f4",), (one.edges, -1)),
        "x_rowptr": (_WHOLE, (n + 1,)),
        "x_col": (_WHOLE, (-1,)),
        "x_value": (("<f4",), (-1,)),
        "haloptr": (_WHOLE, (len(one.begin),)),
        "halo": (_WHOLE, (-1,)),
    }[name]


def _is_text(dtype: str) -> bool:
    """Whether a type is of texts of a bounded length, or of numbers, which ids may be."""
    return re.fullmatch(r"<U\d{1,5}|[<|][iuf][1248]", dtype) is not None


def map_array(path: Path, about: ArrayNote, folder: Path) -> NDArray[Any]:
    """An array of a partition, memory-mapped, if the file's own header says what the manifest says."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_columns, dtype = read(file)
            offset, size = file.tell(), file.seek(0, 2)
    except FileNotFoundError:
        raise GraphshiftError(f"{path}: there is no such file, and {MANIFEST} names it; {again(folder)}") from None
    except Exception as error:  # whatever the header's reader meets in bytes that are none
        why = " ".join(str(error).split())[:150]
        raise GraphshiftError(f"{path}: cannot be read ({why}); the file is damaged; {again(folder)}") from None
    if (dtype.str, shape, by_columns and len(shape) > 1) != (about.dtype, about.shape, False):
        raise GraphshiftError(
            f"{path}: holds {dtype.str} {list(shape)}, and {MANIFEST} says {about.dtype} {list(about.shape)}: it is of "
            f"another dataset, or damaged; {again(folder)}"
        )
    needed = offset + dtype.itemsize * int(np.prod(shape, dtype=object))
    if size != needed:
        raise GraphshiftError(f"{path}: has {size:,} bytes, expected {needed:,}; the file is damaged; {again(folder)}")
    if not all(shape):
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="c", offset=offset, shape=shape)


def check_whole(one: EnvironmentNote, arrays: Arrays, where: str) -> None:
    """Checks that the rows of every list begin at 0, never go down and end where the list ends, and who counts."""
    for name, of in (("rowptr", "col"), ("x_rowptr", "x_col"), ("haloptr", "halo")):
        if name not in arrays:
            continue
        pointer, entries = arrays[name], len(arrays[of])
        ends = [(at, min(at + _ENTRIES, len(pointer) - 1)) for at in range(0, len(pointer) - 1, _ENTRIES)]
        # Compared, not subtracted: differences wrap around.
        grows = all(bool((pointer[at + 1 : to + 1] >= pointer[at:to]).all()) for at, to in ends)
        if int(pointer[0]) != 0 or int(pointer[-1]) != entries or not grows:
            raise GraphshiftError(f"{where}: {name} does not go up from 0 to {entries:,}, the length of {of}; damaged.")
    if "x_col" in arrays and len(arrays["x_col"]) != len(arrays["x_value"]):
        raise GraphshiftError(f"{where}: x_col and x_value differ in length; damaged.")
    if not (counted := int(arrays["mask"].sum())) or counted != one.counted:
        raise GraphshiftError(f"{where}: mask counts {counted:,} nodes and {MANIFEST} {one.counted:,}; damaged.")


def check_part(one: EnvironmentNote, arrays: Arrays, part: int, task: Task, features: int, where: str) -> None:
    """Checks the numbers of one part: rows and classes that exist, and finite values."""
    n, classes = one.nodes, task.num_classes
    whole = {"order": (0, n), "col": (0, n), "halo": (0, n), "x_col": (0, features)}
    if task.is_classification:
        whole |= {"known_y": (-1, classes), "further_y": (-1, classes)}
    for name in arrays:
        first, last = span(arrays, name, one.begin[part], one.begin[part + 1], part)
        for at in range(first, last, step_of(arrays[name])):
            found = arrays[name][at : min(at + step_of(arrays[name]), last)]
            if name == "y":
                found = found[arrays["mask"][at : at + len(found)]]
                fits = bool(((found >= 0) & (found < classes)).all()) if task.is_classification else _finite(found)
            elif name in whole:
                fits = not found.size or bool(whole[name][0] <= found.min() and found.max() < whole[name][1])
            elif name == "weight":
                fits = _finite(found) and bool((found > 0).all())
            elif name == "known_y":
                fits = not bool(np.isinf(found).any())  # NaN where nothing is known
            else:
                fits = found.dtype.kind != "f" or _finite(found)
            if not fits:
                raise GraphshiftError(
                    f"{where}: part {part}, array {name} has numbers that are not finite, not positive or name rows or "
                    "classes that do not exist; damaged."
                )
    _check_columns(arrays, one.begin[part], one.begin[part + 1], f"{where}: part {part}")


def _check_columns(arrays: Arrays, begin: int, end: int, where: str) -> None:
    """Checks that the columns of every row go up, so that none is there twice, and that no node is beside itself."""
    rowptr, at = arrays["rowptr"], begin
    while at < end:
        most = int(np.searchsorted(rowptr[at : end + 1], int(rowptr[at]) + _ENTRIES, side="right")) - 1
        to = min(at + max(most, 1), end)
        columns = arrays["col"][int(rowptr[at]) : int(rowptr[to])]
        row = np.repeat(np.arange(at, to), np.diff(rowptr[at : to + 1]))
        if not bool(((np.diff(columns) > 0) | (np.diff(row) > 0)).all()) or bool((columns == row).any()):
            raise GraphshiftError(f"{where}: col has columns twice, out of order, or a node beside itself; damaged.")
        at = to


def step_of(array: NDArray[Any]) -> int:
    """How many rows of an array to read at a time."""
    return max(1, _ENTRIES // max(int(np.prod(array.shape[1:])), 1))


def _finite(values: NDArray[Any]) -> bool:
    return bool(np.isfinite(values).all())

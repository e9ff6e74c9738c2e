"""Planetoid's files (Yang et al. 2016): pickles, read by an unpickler that knows data only and can run nothing."""

import pickle
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.reading.files import Folder, Source, cached, require
from graphshift.datasets.reading.raw_graph import RawGraph, checked_csr, undirected_edges

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
_VERSION = 1


def planetoid_sources(name: str, folder: str, known: Mapping[str, tuple[int, str]]) -> list[Source]:
    """The eight files of a Planetoid dataset, called ``name`` there; ``known``: size and SHA-256 of each part."""
    home = "Planetoid (Yang et al. 2016), github.com/kimiyoung/planetoid, folder data"
    url = "https://github.com/kimiyoung/planetoid/raw/master/data"
    return [
        Source(f"{folder}/ind.{name}.{p}", f"{url}/ind.{name}.{p}", size=known[p][0], sha256=known[p][1], home=home)
        for p in _PARTS
    ]


def planetoid_graph(
    dataset: str, name: str, sources: Sequence[Source], data_dir: Folder
) -> tuple[RawGraph, dict[str, Path]]:
    """The graph of a Planetoid dataset (``name`` there), from the cache if it was read before, and all its files."""
    files = require(dataset, sources, data_dir)
    parts = {p: file for p in _PARTS for file in files.values() if file.name == f"ind.{name}.{p}"}
    raw = cached(f"planetoid-{name}", list(parts.values()), _VERSION, {}, lambda: read_planetoid(parts).to_tensors())
    return RawGraph.from_tensors(raw), files


def read_planetoid(files: Mapping[str, Path]) -> RawGraph:
    """Reads the eight files of one dataset.

    Nodes are numbered as Planetoid does: the rows of ``allx``, then the test nodes that ``test.index`` numbers. A
    number that is skipped there (Citeseer's isolated test nodes) is a node without features and without a label.
    """
    x, tx, allx = (_matrix(files[part]) for part in ("x", "tx", "allx"))
    y, ty, ally = (_classes(files[part]) for part in ("y", "ty", "ally"))
    for part, features, labels in (("x", x, y), ("tx", tx, ty), ("allx", allx, ally)):
        if features.shape[1] != allx.shape[1]:
            _swapped(files[part], f"has {features.shape[1]} columns; allx has {allx.shape[1]}")
        expected = (features.shape[0], ally.shape[1])
        if labels.shape != expected:
            _swapped(files[f"{part[:-1]}y"], f"has {labels.shape} rows and classes; {part} and ally have {expected}")
    # x and y are the first rows of allx and ally; a file of another place or dataset is not.
    if x.shape[0] > allx.shape[0] or (x != allx[: x.shape[0]]).nnz or not np.array_equal(y, ally[: y.shape[0]]):
        _swapped(files["x"], f"and {files['y'].name} are not the first rows of allx and ally")
    test = _test_index(files["test.index"], len(allx.indptr) - 1, tx.shape[0])
    num_nodes = int(test.max()) + 1
    # Row i of tx belongs to node test[i]; skipped nodes get an empty row and no class.
    at = (test - allx.shape[0], np.arange(test.size))
    size = (num_nodes - allx.shape[0], test.size)
    place = scipy.sparse.csr_matrix((np.ones(test.size, np.float32), at), shape=size)
    classes = np.zeros((num_nodes, ally.shape[1]), dtype=ally.dtype)
    classes[: ally.shape[0]], classes[test] = ally, ty
    labels = np.where(classes.any(axis=1), classes.argmax(axis=1), -1)
    source, target = _edges(files["graph"], num_nodes)
    edge_index = undirected_edges(torch.from_numpy(source), torch.from_numpy(target), num_nodes)
    return RawGraph.from_scipy(scipy.sparse.vstack([allx, place @ tx], format="csr"), labels, edge_index)


class _Plain:
    """Stands in for a class in a pickle: it keeps what was stored and does nothing with it."""

    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dtype(_Plain):
    pass


class _Array(_Plain):
    pass


class _Matrix(_Plain):
    pass


class _Lists(dict[Any, Any]):
    """Stands in for ``defaultdict(list)``."""

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        """Without this, a pickle could set attributes, even of the class."""
        raise TypeError("a graph has no state")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): _Lists,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    """Knows eight names and gives an inert stand-in for each: not even numpy's or scipy's own code runs."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise _RefusedError(f"{module}.{name}") from None


class _RefusedError(Exception):
    """A name that no Planetoid file needs."""


def _unpickled(file: Path, kind: type) -> Any:
    try:
        with open(file, "rb") as stream:
            content = _Unpickler(stream, encoding="latin1").load()
            rest = len(stream.read())
    except _RefusedError as error:
        raise GraphshiftError(
            f"{file}: the pickle asks for {error}, which no Planetoid file needs; nothing of it was run. Do not trust "
            "this file: download it again."
        ) from None
    except OSError as error:
        raise GraphshiftError(f"{file}: cannot be read: {error.strerror}.") from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise GraphshiftError(
            f"{file}: this is not a whole pickle ({type(error).__name__}: {error}); the file is truncated or damaged. "
            "Delete it and download it again."
        ) from None
    if rest:
        raise GraphshiftError(f"{file}: {rest} bytes follow the end of the pickle; the file is damaged.")
    if not isinstance(content, kind):
        names: dict[type, str] = {_Matrix: "a CSR matrix", _Array: "an array", _Lists: "a graph of lists"}
        found = names.get(type(content), type(content).__name__)
        _swapped(file, f"holds {found}; expected {names[kind]}")
    return content


def _swapped(file: Path, found: str) -> NoReturn:
    raise GraphshiftError(f"{file}: {found}. The file is damaged, or files were swapped; download it again.")


def _array(file: Path, field: str, content: Any) -> np.ndarray:
    """Decodes a pickled ndarray from its shape, type and bytes."""
    try:
        _, shape, dtype, fortran, raw = content.state
        code, order = dtype.arguments[0], dtype.state[1]
        if not re.fullmatch(r"[<>|=]([iu][1248]|f[248]|b1)", order + code):
            raise TypeError(f"type {order}{code}")
        raw = raw.encode("latin1") if isinstance(raw, str) else bytes(raw)
        values = np.frombuffer(raw, np.dtype(order + code)).reshape(shape, order="F" if fortran else "C")
        return values.astype(values.dtype.newbyteorder("="))
    except Exception as error:  # the state is whatever the file says
        why = f"{type(error).__name__} {error}".strip()
        raise GraphshiftError(
            f"{file}: {field} is not a whole array of numbers ({why}); the file is damaged. Delete it and download it "
            "again."
        ) from None


def _matrix(file: Path) -> Any:
    state = _unpickled(file, _Matrix).state
    shape = state.get("_shape") if isinstance(state, dict) else None
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(type(size) is int for size in shape)):
        _swapped(file, f"holds a matrix of shape {shape!r}; expected two numbers")
    data, indices, indptr = (_array(file, f"`{part}`", state.get(part)) for part in ("data", "indices", "indptr"))
    return checked_csr(str(file), data, indices, indptr, shape)


def _classes(file: Path) -> np.ndarray:
    """One-hot classes, ``[rows, classes]``; a row of zeros has none."""
    onehot = _array(file, "the array", _unpickled(file, _Array))
    if onehot.ndim != 2 or 0 in onehot.shape:
        _swapped(file, f"holds an array of shape {list(onehot.shape)}; expected [rows, classes]")
    wrong = np.flatnonzero(((onehot != 0) & (onehot != 1)).any(axis=1) | ((onehot == 1).sum(axis=1) > 1))
    if wrong.size:
        _swapped(file, f"row {wrong[0]} is {onehot[wrong[0]].tolist()}; expected one 1 and else 0 (one-hot)")
    return onehot


def _test_index(file: Path, first: int, count: int) -> np.ndarray:
    """The numbers of the test nodes: ``count`` different ones that begin at ``first``."""
    try:
        lines = file.read_text(encoding="ascii").split()
    except OSError as error:
        raise GraphshiftError(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        _swapped(file, "is not text; expected a node's number on every line")
    for number, line in enumerate(lines, start=1):
        if not re.fullmatch(r"\d{1,9}", line):
            _swapped(file, f"line {number} is {line[:40]!r}; expected a node's number")
    index = np.array(lines, dtype=np.int64)
    if index.size != count:
        _swapped(file, f"has {index.size} lines; tx and ty have {count} rows")
    values, times = np.unique(index, return_counts=True)
    if times.max() > 1:
        _swapped(file, f"names node {values[times.argmax()]} {times.max()} times; expected every test node once")
    if values[0] != first or values[-1] - first > 2 * count:
        _swapped(file, f"numbers nodes {values[0]}…{values[-1]}; expected them to begin at {first}, the rows of allx")
    return index


def _edges(file: Path, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    lists = _unpickled(file, _Lists)
    for node, neighbours in lists.items():
        if type(node) is not int or not isinstance(neighbours, list) or not all(type(n) is int for n in neighbours):
            _swapped(file, f"entry {str(node)[:40]!r} is not a node's number with a list of its neighbours")
    lengths = [len(neighbours) for neighbours in lists.values()]
    try:
        target = np.repeat(np.fromiter(lists, np.int64, len(lists)), lengths)
        source = np.fromiter(chain.from_iterable(lists.values()), np.int64, sum(lengths))
    except OverflowError:
        _swapped(file, f"has node numbers of more than 64 bits; expected 0…{num_nodes - 1}")
    for part in (target, source):
        outside = np.flatnonzero((part < 0) | (part >= num_nodes))
        if outside.size:
            edge = f"{target[outside[0]]} – {source[outside[0]]}"
            _swapped(file, f"has the edge {edge}; nodes are 0…{num_nodes - 1} by allx and test.index")
    return source, target

"""``facebook100``: friendships at American universities in 2005; the gender of a member (Traud et al. 2011)."""

import contextlib
import re
import urllib.parse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.reading.assembly import binary_features, environment
from graphshift.datasets.reading.files import Source, cached, data_directory, require
from graphshift.datasets.reading.mat5 import read_mat5
from graphshift.graph.graph import Graph

#: The paper's three choices of training schools.
TRAINING = {
    "hopkins": ("Johns Hopkins55", "Caltech36", "Amherst41"),
    "bingham": ("Bingham82", "Duke14", "Princeton12"),
    "washu": ("WashU32", "Brandeis99", "Carnegie49"),
}
_VALIDATION = ("Cornell5", "Yale4")
_ATTRIBUTES = ("status", "major", "second major", "dorm", "year", "high school")
_GENDER = 1  # its column in `local_info`
_PARSER = 1
_HOME = "GitHub, sisaman/pyg-datasets, or the Internet Archive's copy of facebook100.zip (Traud et al.)"
_URL = "https://github.com/sisaman/pyg-datasets/raw/main/datasets/facebook100/"
# The paper's 18 schools; None where no digest is known.
_DIGESTS: dict[str, str | None] = {
    "Penn94": None,
    "Amherst41": "3108e4b2edb01be05c5a61147583a40e61012820fff7eebe621dd26018caaf00",
    "Cornell5": "d9ff76ae34e855cb77b0779a3a320f7f73f848901cb13352e2734c17804c4aec",
    "Johns Hopkins55": "fc7243bf257155df03afbc397ab34b5f8eb8e75f40cd1603398e207a033ef50f",
    "Reed98": "d12ec74dc8c6e237385975b976c3709555a83629a1260be693fb688e3446070e",
    "Caltech36": "597d8307f9aaaaf50343e12a22893c203c52b92e1dd5b3fb35e13f19871d6ffa",
    "Berkeley13": "e8bcf00096b9cc18d95d1401ead634c0f5c4303511dc48b5e8056732387ce291",
    "Brown11": "a293f06404e0f36a920d7174c557903cb853a8197bfc392408cc11a3a6f46272",
    "Columbia2": "953865148127d8b8f928785dca899fbef98c70ab39af236dd0c04b78b3c5bd7b",
    "Yale4": "b26052f24d85446be1ced46b9c92515b359226ca470319983ab562266ed5c7f3",
    "Virginia63": "a622e4a936d5dba82fd933d9043b812f86b3cda3bce8412b57abe55a11cf6631",
    "Texas80": None,
    "Bingham82": "bd17acce235256f61f6e556068e376f35d29df0c1c7a08d1055d0f23901f7c89",
    "Duke14": "5a99cb4141b2fbf9af2724b1cbe76151c7dcb36b7a595d91f2389a35d2c41100",
    "Princeton12": "eafe1421449ed10999726d4b5c8f84ff88946dc7fe564974848547076519b56e",
    "WashU32": "dbf280f94ee424657522dd5bfd02d37d74ea7ec2b370723c4a2787b04b50d9ef",
    "Brandeis99": "428b04687900c5c3501126f8c193905662738fce0e48ca8925dd9703009d668c",
    "Carnegie49": "960b8875dc2f19aafe1e435b3c10d5e7004608e7e82f445aa0358befb97c5e50",
}


def _source(school: str) -> Source:
    digest = _DIGESTS.get(school)
    url = _URL + urllib.parse.quote(f"{school}.mat") if digest else None  # nothing unknown is fetched
    return Source(f"fb100/{school}.mat", url, digest, home=_HOME)


#: The raw files of the paper's 18 schools, and of those that train and validate: the others can be done without.
SOURCES = tuple(_source(school) for school in _DIGESTS)
NEEDED = tuple(_source(school) for choice in (*TRAINING.values(), _VALIDATION) for school in choice)


@DATASETS.register(
    "facebook100",
    summary="friendships at American universities in 2005; gender",
    shift="cross-domain",
    origin="Traud et al. 2011",
    sources=SOURCES,
    figure="sizes",
    needed=NEEDED,
)
def facebook100(
    training: str | Sequence[str] = "hopkins",
    *,
    val: str | Sequence[str] = _VALIDATION,
    tests: str | Sequence[str] = ("Penn94", "Brown11", "Texas80"),
    vocabulary: str | Sequence[str] = "seen",
    unknown_gender: str = "masked",
    two_logits: bool = False,
    data_dir: str | Path | None = None,
) -> ShiftDataset:
    """Facebook-100: three schools train, Cornell and Yale validate, Penn, Brown and Texas test, by accuracy.

    A node is a member, an edge a friendship, the label the gender. Features are the other six columns of
    ``local_info`` (status, major, second major, dorm, year, high school) as one-hot columns, kept sparse; "missing"
    (0) is a value with a column of its own. A value that the vocabulary lacks leaves its columns zero.

    Schools of the tests or of the paper's vocabulary whose files are missing are left out with a warning that names
    them; a missing school of training or validation is an error. Any of the hundred schools can be named.

    Args:
        training: a choice of the paper, ``"hopkins"`` (Johns Hopkins, Caltech, Amherst), ``"bingham"`` (Bingham, Duke,
            Princeton) or ``"washu"`` (WashU, Brandeis, Carnegie), or schools by their files' names, as ``"Reed98"``.
        val: validation schools: names, or one string with commas.
        tests: test schools.
        vocabulary: whose values get columns: ``"seen"`` (training and validation schools, so no test graph is looked
            at), ``"paper"`` (its 18 schools, test schools included, as far as they are there) or schools by name.
        unknown_gender: ``"masked"`` (these members stay in the graph and do not count) or ``"class0"`` (they count as
            class 0, as in the authors' code).
        two_logits: a logit for each class, as the authors' code has (:class:`~graphshift.data.tasks.Task`).
        data_dir: the folder that holds ``fb100/Reed98.mat`` and so on; None for ``$GRAPHSHIFT_DATA`` or the user's
            cache folder, to which missing files are downloaded.
    """
    if unknown_gender not in ("masked", "class0"):
        raise GraphshiftError(f"facebook100: unknown_gender is {unknown_gender!r}; expected one of masked, class0.")
    train_schools = _schools("training", TRAINING.get(training, training) if isinstance(training, str) else training)
    val_schools, test_schools = _schools("val", val), _schools("tests", tests)
    words: list[str] | None = None
    if vocabulary == "seen":
        words = train_schools + val_schools
    elif vocabulary != "paper":
        words = _schools("vocabulary", vocabulary)
    must = [*train_schools, *val_schools, *(words or ()), *(s for s in test_schools if s not in _DIGESTS)]
    may = [*test_schools, *(_DIGESTS if words is None else ())]
    files, missing = _available(must, may, data_dir)
    words = [s for s in words or _DIGESTS if s in files]
    left_out = [s for s in test_schools if s in missing]
    if missing:
        warnings.warn(
            f"facebook100: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not in "
            f"{data_directory(data_dir) / 'fb100'}: "
            + (f"left out of the tests {', '.join(left_out)}; " if left_out else "")
            + (f"the vocabulary is that of {len(words)} schools; " if len(missing) > len(left_out) else "")
            + f"download the files from {_HOME}.",
            GraphshiftWarning,
            stacklevel=2,
        )

    schools = {school: _school(school, path) for school, path in files.items()}
    attributes = {school: np.delete(info, _GENDER, axis=1) for school, (_, info) in schools.items()}
    values = [np.unique(np.concatenate([attributes[s][:, i] for s in words])) for i in range(len(_ATTRIBUTES))]
    unseen: dict[str, float] = {}

    def made(school: str) -> Environment:
        graph, info = schools[school]
        x, unseen[school] = _one_hot(attributes[school], values)
        gender = torch.from_numpy(info[:, _GENDER].astype(np.int64))
        mask = gender > 0 if unknown_gender == "masked" else None
        return environment(school, x, (gender == 2).long(), graph, Task("binary", 2, "accuracy", two_logits), mask)

    ends = np.cumsum([v.size for v in values]).tolist()
    train, valid, test = ([made(s) for s in part if s in files] for part in (train_schools, val_schools, test_schools))
    model = {"backbone": "gcn", "num_layers": 2, "hidden_channels": 32, "epochs": 200, "lr": 0.01, "weight_decay": 1e-3}
    eerm = {"views": 3, "edits_per_node": 5, "beta": 1.0, "explorer_lr": 0.005}
    columns = dict(zip(_ATTRIBUTES, zip([0, *ends[:-1]], ends, strict=True), strict=True))
    facts = {"columns": columns, "vocabulary": words, "unseen_values": unseen}
    facts |= {"missing": missing, "unknown_gender": unknown_gender}
    return ShiftDataset("facebook100", train, valid, test, defaults={**model, **eerm}, facts=facts)


def _schools(option: str, schools: str | Sequence[str]) -> list[str]:
    names = [name.strip() for name in schools.split(",")] if isinstance(schools, str) else list(schools)
    for name in names:
        # The name becomes a path: it may not lead out of the folder.
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9 _-]*", name):
            choices = f"{', '.join(TRAINING)} or " if option == "training" else ""
            raise GraphshiftError(f"facebook100: {option} is {name!r}; expected {choices}schools, as Reed98 or Yale4.")
    if not names and option in ("training", "vocabulary"):
        raise GraphshiftError(f"facebook100: {option} names no school; expected one at least.")
    return names


def _available(must: Sequence[str], may: Sequence[str], data_dir: Any) -> tuple[dict[str, Path], list[str]]:
    """The files that are there, by school, and the schools of ``may`` that could not be had."""
    must = list(dict.fromkeys(must))
    may = [school for school in dict.fromkeys(may) if school not in must]
    found = require("facebook100", [_source(s) for s in must], data_dir)
    files = dict(zip(must, found.values(), strict=True))
    with contextlib.suppress(GraphshiftError):  # the caller says which are missing
        require("facebook100", [_source(s) for s in may], data_dir)
    folder = data_directory(data_dir)
    places = {school: folder / _source(school).path for school in may}
    files |= {school: place for school, place in places.items() if place.is_file()}
    return files, [school for school in may if school not in files]


def _school(school: str, path: Path) -> tuple[Graph, NDArray[np.int32]]:
    parts = cached(f"facebook100-{school}", [path], _PARSER, {}, lambda: _parse(path))
    info = parts["info"].numpy()
    return Graph.from_keys(info.shape[0], parts["keys"], undirected=True), info


def _parse(path: Path) -> dict[str, Tensor]:
    content = read_mat5(path, ("A", "local_info"))
    info = _local_info(path, content["local_info"])
    return {"keys": _keys(path, content["A"], info.shape[0]), "info": torch.from_numpy(info)}


def _local_info(path: Path, info: Any) -> NDArray[np.int32]:
    columns = len(_ATTRIBUTES) + 1
    if scipy.sparse.issparse(info) or info.shape[1] != columns:
        kind = "a sparse matrix" if scipy.sparse.issparse(info) else f"an array {list(info.shape)}"
        raise GraphshiftError(f"{path}: `local_info` is {kind}; expected an array [members, {columns}].")
    if not info.shape[0]:
        raise GraphshiftError(f"{path}: `local_info` has no row; expected one for each member.")
    # Comparisons with NaN are false, so the good values are named.
    bad = ~((info >= 0) & (info < 2**31) & (info == np.floor(info)))
    bad[:, _GENDER] |= ~np.isin(info[:, _GENDER], (0, 1, 2))
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        expected = "0 (unknown), 1 or 2" if column == _GENDER else "a whole number, 0 for missing"
        where = f"{path}: `local_info` row {row}, column {column}"
        raise GraphshiftError(f"{where}: found {info[row, column]}; expected {expected}.")
    return info.astype(np.int32)


def _keys(path: Path, A: Any, members: int) -> Tensor:
    if isinstance(A, np.ndarray):
        raise GraphshiftError(f"{path}: `A` is an array {list(A.shape)}; expected a sparse matrix.")
    if A.shape != (members, members):
        raise GraphshiftError(
            f"{path}: `A` is {A.shape[0]} × {A.shape[1]} and `local_info` has {members} rows; expected a square matrix "
            "with a row for each member."
        )
    A.sum_duplicates()
    A.eliminate_zeros()
    column = np.repeat(np.arange(members, dtype=np.int64), np.diff(A.indptr))
    bad = (A.data != 1) | (A.indices == column)
    if bad.any():
        i = int(bad.argmax())
        raise GraphshiftError(
            f"{path}: `A` has {A.data[i]:g} at row {A.indices[i]}, column {column[i]}; expected 0 and 1, and a zero "
            "diagonal."
        )
    keys, backward = column * members + A.indices, np.sort(A.indices.astype(np.int64) * members + column)
    if not np.array_equal(keys, backward):
        key = int(keys[(keys != backward).argmax()])
        raise GraphshiftError(
            f"{path}: `A` differs from its transpose, first near column {key // members}, row {key % members}; "
            "expected a symmetric matrix: friendship is mutual."
        )
    return torch.from_numpy(keys)


def _one_hot(attributes: NDArray[np.int32], values: Sequence[NDArray[np.int32]]) -> tuple[Tensor, float]:
    """The one-hot columns of all attributes side by side, and the share of values that have none."""
    rows, columns, start = [], [], 0
    for i, known in enumerate(values):
        place = np.searchsorted(known, attributes[:, i]).clip(max=known.size - 1)
        row = (known[place] == attributes[:, i]).nonzero()[0]
        rows.append(row)
        columns.append(place[row] + start)
        start += known.size
    row = np.concatenate(rows)
    x = binary_features(row, np.concatenate(columns), (attributes.shape[0], start))
    return x, 1 - row.size / attributes.size

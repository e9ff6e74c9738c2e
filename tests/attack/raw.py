"""Files that users bring beside their tables: sparse features, and the raw files of the datasets that we read."""

from __future__ import annotations

import io
import pickle
import random
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from attack import made
from attack.child import run

Case = tuple[str, Callable[[Path], str]]
Damage = Callable[[bytes, random.Random], bytes]

#: What is loaded of each dataset whose files are attacked.
LOADED: dict[str, dict[str, Any]] = {
    "twitch": {},
    "facebook100": {"train": "One1", "val": "Two2", "tests": "Three3"},
    "elliptic": {},
    "arxiv": {},
    "cora": {},
    "pubmed-temporal": {"train_until": 1992, "val_until": 1993, "test_until": [1994, 1995]},
    "photo": {},
}


def make(base: Path) -> None:
    """Small raw files of every layout, and features beside the tables."""
    from datasets import test_arxiv, test_elliptic, test_facebook100, test_pubmed, test_twitch

    data = base / "data"
    data.mkdir()
    for module in (test_arxiv, test_elliptic, test_facebook100, test_twitch):
        module.written(data)
    _planetoid(data / "cora" / "raw", "cora")
    _planetoid(data / "pubmed-temporal" / "raw", "pubmed")
    np.save(data / "pubmed-temporal" / "raw" / "node_year.npy", test_pubmed.YEARS)
    _photo(data / "photo" / "raw")
    words = _words()
    scipy.sparse.save_npz(base / "words.npz", words)
    scipy.io.mmwrite(base / "words.mtx", words)
    for ending in ("npz", "mtx"):
        text = made.TOML + f'feature_file = "words.{ending}"\n'
        (base / f"words-{ending}.toml").write_text(text)


def _words() -> Any:
    rng = np.random.default_rng(0)
    return scipy.sparse.csr_matrix((rng.random((80, 12)) < 0.3).astype(np.float32))


def _planetoid(folder: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    allx, tx = (scipy.sparse.csr_matrix((rng.random((n, 5)) < 0.6).astype(np.float32)) for n in (6, 4))
    ally, ty = np.eye(3, dtype=np.int32)[[0, 1, 2, 0, 1, 2]], np.eye(3, dtype=np.int32)[[2, 1, 0, 0]]
    graph = defaultdict(list, {0: [1, 2, 2], 1: [0, 3], 2: [0], 3: [1, 9, 3], 8: [7], 9: [3]})
    content = {"x": allx[:2], "tx": tx, "allx": allx, "y": ally[:2], "ty": ty, "ally": ally, "graph": graph}
    folder.mkdir(parents=True)
    for part, value in content.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_bytes(b"8\n6\n9\n7\n")


def _photo(folder: Path) -> None:
    rng = np.random.default_rng(0)
    ring = scipy.sparse.csr_matrix(np.roll(np.eye(20), 1, axis=1))
    attributes = scipy.sparse.csr_matrix((rng.random((20, 6)) < 0.4).astype(np.float32))
    parts: dict[str, Any] = {"labels": np.arange(20) % 4}
    for kind, m in (("adj", ring), ("attr", attributes)):
        parts |= {f"{kind}_data": m.data, f"{kind}_indices": m.indices, f"{kind}_indptr": m.indptr}
        parts[f"{kind}_shape"] = np.array(m.shape)
    folder.mkdir(parents=True)
    np.savez(folder / "amazon_electronics_photo.npz", **parts)


def dataset_cases(base: Path, rng: random.Random, each: int, damaged: Damage) -> Iterator[Case]:
    """Damaged bytes, and numbers in archives that are not what they should be."""
    for name in LOADED:
        folder = {"facebook100": "fb100"}.get(name, name)
        files = sorted(path.relative_to(base) for path in (base / "data" / folder).rglob("*") if path.is_file())
        for i in range(each):
            file = rng.choice(files)
            content = (base / file).read_bytes()
            inside = file.suffix == ".npz" and i % 2
            content = _other_numbers(content, rng) if inside else damaged(content, rng)

            def test(place: Path, file: Path = file, content: bytes = content, name: str = name) -> str:
                made.fresh(place, base)
                (place / file).write_bytes(content)
                return run(lambda: _load(name, place), place).problem()

            yield f"raw {name} {file.name} {i}", test


def _load(name: str, place: Path) -> None:
    import os

    import graphshift as gs

    os.environ["GRAPHSHIFT_CACHE"] = str(place / "cache")
    gs.load(name, data_dir=place / "data", **LOADED[name])


def feature_cases(base: Path, rng: random.Random, each: int, damaged: Damage, fit: Any) -> Iterator[Case]:
    """Sparse features whose bytes are damaged, whose arrays do not fit together, or which unpack to gigabytes."""

    def case(ending: str, content: Callable[[], bytes]) -> Callable[[Path], str]:
        def test(place: Path) -> str:
            made.fresh(place, base)
            run(lambda: (place / f"words.{ending}").write_bytes(content()), place)
            (place / "my.toml").write_text((base / f"words-{ending}.toml").read_text())
            return run(fit(place), place).problem()

        return test

    archive, market = (base / "words.npz").read_bytes(), (base / "words.mtx").read_bytes()
    for i in range(each):
        for ending, content in (
            ("npz", damaged(archive, rng)),
            ("npz", _other_numbers(archive, rng)),
            ("mtx", damaged(market, rng)),
        ):
            yield f"features {ending} {i}", case(ending, lambda content=content: content)
    first = market.partition(b"\n")[0]
    for kind in (np.int32, np.int64):
        around = np.full(81, 3, dtype=kind)  # its differences wrap around: none of them is below 0
        around[:4] = [0, np.iinfo(kind).max, np.iinfo(kind).min, -1]
        parts = {"indptr": around, "indices": np.arange(3, dtype=kind), "data": np.ones(3)}
        yield f"features that wrap {kind.__name__}", case("npz", lambda parts=parts: _archive(**parts, shape=(80, 12)))
    zeros = lambda n: np.zeros(n, dtype=np.int8)  # noqa: E731
    for what, ending, content in (
        ("bomb", "npz", lambda: _archive(indptr=zeros(81), indices=zeros(3 * 10**8), data=zeros(3 * 10**8))),
        ("wide", "npz", lambda: _archive(indptr=zeros(81), indices=zeros(0), data=zeros(0), shape=(80, 2 * 10**9))),
        ("long", "npz", lambda: _archive(indptr=zeros(81), indices=zeros(0), data=zeros(0), shape=(2 * 10**9, 12))),
        ("claims", "mtx", lambda: first + b"\n80 12 900000000000\n1 1 1\n"),
        ("dense", "mtx", lambda: b"%%MatrixMarket matrix array real general\n80 9000000\n1\n"),
        ("wide", "mtx", lambda: first + b"\n80 2000000000 1\n1 1 1\n"),
        ("outside", "mtx", lambda: first + b"\n80 12 1\n81 13 1\n"),
        ("complex", "mtx", lambda: b"%%MatrixMarket matrix coordinate complex general\n80 12 1\n1 1 1 1\n"),
    ):
        yield f"features {ending} {what}", case(ending, content)


def _archive(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **({"format": np.array(b"csr"), "shape": np.array((80, 12))} | arrays))
    return out.getvalue()


def _other_numbers(content: bytes, rng: random.Random) -> bytes:
    """An archive with another number, type or length in one of its arrays."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(sorted(arrays))
        array = arrays[name].copy()
        if array.dtype.kind not in "iuf" or not array.size or rng.random() < 0.2:
            others = [array[None], np.array("x"), np.array(3), np.array([1, 2, 3]), np.array([], dtype=np.int8)]
            others += [np.array([None, 1], dtype=object)]
            arrays[name] = rng.choice(others)
        else:
            limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
            far = [limits.min, limits.max, array.size, 0, 1, *([-1] if array.dtype.kind != "u" else [])]
            if array.dtype.kind == "f":
                far += [np.nan, np.inf]
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(far)
            arrays[name] = array
    out = io.BytesIO()
    np.savez(out, **arrays)
    if rng.random() < 0.1:
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr("data.npy", b"\x93NUMPY")
    return out.getvalue()

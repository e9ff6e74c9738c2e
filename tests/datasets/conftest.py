"""The parsed-data cache of every dataset test is its own, and the real files are found beside the repository."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures of wider scope than a test do not write to the user's cache either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHSHIFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("GRAPHSHIFT_DATA", raising=False)
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSHIFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real files, as their authors publish them."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not here: {SHARED} does not exist")
    return SHARED


@pytest.fixture
def write_planetoid() -> Callable[..., dict[str, Path]]:
    """Writes the eight files of a tiny Planetoid dataset: 6 nodes in ``allx``, 4 test nodes, 5 features, 3 classes.

    Keyword arguments replace parts; those are pickled, or written as they are if they are ``bytes``.
    """

    def write(folder: Path, name: str = "cora", **parts: Any) -> dict[str, Path]:
        random = np.random.default_rng(0)
        allx = scipy.sparse.csr_matrix((random.random((6, 5)) < 0.6).astype(np.float32))
        tx = scipy.sparse.csr_matrix((random.random((4, 5)) < 0.6).astype(np.float32))
        ally, ty = np.eye(3, dtype=np.int32)[[0, 1, 2, 0, 1, 2]], np.eye(3, dtype=np.int32)[[2, 1, 0, 0]]
        graph = defaultdict(list, {0: [1, 2, 2], 1: [0, 3], 2: [0], 3: [1, 9, 3], 8: [7], 9: [3]})
        content: dict[str, Any] = {
            "x": allx[:2],
            "tx": tx,
            "allx": allx,
            "y": ally[:2],
            "ty": ty,
            "ally": ally,
            "graph": graph,
            "test.index": b"8\n6\n9\n7\n",
        } | {part.replace("test_index", "test.index"): value for part, value in parts.items()}
        folder.mkdir(parents=True, exist_ok=True)
        files = {part: folder / f"ind.{name}.{part}" for part in content}
        for part, value in content.items():
            files[part].write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol=4))
        return files

    return write

"""One graph as it comes out of raw files: checked, undirected, features sparse; and as tensors for the cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError

# A damaged width would ask for weights of any size; no file of these datasets has a thousandth of it.
_MOST_COLUMNS = 10_000_000


class RawGraph(NamedTuple):
    """Features, labels and edges of one graph.

    Args:
        x: ``[nodes, features]``, ``torch.sparse_csr``, float32, columns sorted within rows.
        y: ``[nodes]``, int64; -1 for a node without a label.
        edge_index: ``[2, edges]``, both directions of every edge once, no self-loops.
    """

    x: Tensor
    y: Tensor
    edge_index: Tensor

    @classmethod
    def from_scipy(cls, x: Any, y: np.ndarray, edge_index: Tensor) -> RawGraph:
        """Takes features as a scipy CSR matrix."""
        x = scipy.sparse.csr_matrix(x, dtype=np.float32)
        x.sum_duplicates()  # sorts columns as well
        crow, col = (torch.from_numpy(part.astype(np.int64)) for part in (x.indptr, x.indices))
        features = torch.sparse_csr_tensor(crow, col, torch.from_numpy(x.data), x.shape, check_invariants=False)
        return cls(features, torch.from_numpy(y.astype(np.int64)), edge_index)

    def to_tensors(self) -> dict[str, Tensor]:
        """Dense tensors to keep in the cache."""
        csr = {"rowptr": self.x.crow_indices(), "col": self.x.col_indices(), "value": self.x.values()}
        return {**csr, "shape": torch.tensor(self.x.shape), "y": self.y, "edge_index": self.edge_index}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> RawGraph:
        """Takes back what :meth:`to_tensors` gave."""
        rowptr, col, value = (tensors[part] for part in ("rowptr", "col", "value"))
        x = torch.sparse_csr_tensor(rowptr, col, value, tensors["shape"].tolist(), check_invariants=False)
        return cls(x, tensors["y"], tensors["edge_index"])


def checked_csr(where: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> Any:
    """A scipy CSR matrix whose parts fit together, or an error that says which does not."""
    rows, columns = shape
    if rows < 1 or not 1 <= columns <= _MOST_COLUMNS:
        raise GraphshiftError(f"{where}: the matrix is {rows} × {columns}; the file is damaged.")
    for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
        if part.ndim != 1 or part.dtype.kind not in ("iu" if name != "data" else "iufb"):
            raise GraphshiftError(
                f"{where}: `{name}` is {part.dtype} of shape {list(part.shape)}; expected a row of "
                f"{'numbers' if name == 'data' else 'integers'}. The file is damaged or a different file."
            )
    indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    falls = bool((indptr[1:] < indptr[:-1]).any())  # not by differences, which wrap around
    if indptr.size != rows + 1 or indptr[0] != 0 or indptr[-1] != indices.size or falls:
        raise GraphshiftError(
            f"{where}: `indptr` ({indptr.size} entries, from {indptr[:1].tolist()} to {indptr[-1:].tolist()}) does not "
            f"describe {rows} rows of {indices.size} entries. The file is damaged or a different file."
        )
    if data.size != indices.size:
        raise GraphshiftError(f"{where}: {data.size} values for {indices.size} columns; the file is damaged.")
    outside = np.flatnonzero((indices < 0) | (indices >= columns))
    if outside.size:
        row = int(np.searchsorted(indptr, outside[0], side="right")) - 1
        raise GraphshiftError(
            f"{where}: row {row} has an entry in column {indices[outside[0]]}; expected 0…{columns - 1}. "
            "The file is damaged or a different file."
        )
    infinite = np.flatnonzero(~np.isfinite(data))
    if infinite.size:
        row = int(np.searchsorted(indptr, infinite[0], side="right")) - 1
        raise GraphshiftError(
            f"{where}: {infinite.size} values are NaN or infinite, first in row {row}; the file is damaged."
        )
    return scipy.sparse.csr_matrix((data, indices, indptr), shape=shape)


def undirected_edges(source: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Both directions of every edge once, sorted by target; self-loops and repetitions are removed silently.

    Citation files list an edge at both of its ends, some of them twice, so repetitions there mean nothing.
    """
    loop = source == target
    source, target = source[~loop], target[~loop]
    keys = torch.cat([target * num_nodes + source, source * num_nodes + target]).unique()
    return torch.stack([keys % num_nodes, keys // num_nodes])

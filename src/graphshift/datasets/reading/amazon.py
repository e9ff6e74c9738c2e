"""Amazon-Photo in the layout of the GNN benchmark (Shchur et al. 2018): CSR parts in one ``.npz``, no pickles."""

from pathlib import Path

import numpy as np
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.core.unpacking import check_zip
from graphshift.datasets.reading.files import Folder, Source, cached, require
from graphshift.datasets.reading.raw_graph import RawGraph, checked_csr, undirected_edges

_VERSION = 1

#: Photo's one file. It circulates packed in different ways, so no digest is known; its arrays are checked instead.
_FILE, _HOME = "amazon_electronics_photo.npz", "github.com/shchur/gnn-benchmark"
_WHERE = f"the GNN benchmark (Shchur et al. 2018), {_HOME}, folder data/npz"
PHOTO_SOURCES = (Source(f"photo/raw/{_FILE}", f"https://{_HOME}/raw/master/data/npz/{_FILE}", home=_WHERE),)


def photo_graph(data_dir: Folder) -> RawGraph:
    """Amazon-Photo, from the cache if it was read before."""
    (file,) = require("photo", PHOTO_SOURCES, data_dir).values()
    return RawGraph.from_tensors(cached("photo", [file], _VERSION, {}, lambda: read_npz(file).to_tensors()))


def read_npz(file: Path) -> RawGraph:
    """Reads a graph of the GNN benchmark: ``adj_*`` and ``attr_*`` (data, indices, indptr, shape) and ``labels``."""
    parts: dict[str, np.ndarray] = {}
    names = [f"{kind}_{part}" for kind in ("adj", "attr") for part in ("data", "indices", "indptr", "shape")]
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            check_zip(archive.zip, file)
            for name in (*names, "labels"):
                if name not in archive:
                    raise GraphshiftError(
                        f"{file}: there is no array {name!r}; found {', '.join(archive.files)}. This is another file."
                    )
                parts[name] = archive[name]
                if not isinstance(parts[name], np.ndarray):  # numpy gives the bytes of what is no array
                    raise TypeError(f"{name} is not an array")
    except GraphshiftError:
        raise
    except Exception as error:  # damaged archives raise almost anything: zip, zlib, struct, numpy, memory
        raise GraphshiftError(
            f"{file}: this is not a whole .npz of plain arrays ({type(error).__name__}: {error}); the file is damaged. "
            "Delete it and download it again."
        ) from None
    shapes = {}
    for kind in ("adj", "attr"):
        shape = parts[f"{kind}_shape"]
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise GraphshiftError(f"{file}: `{kind}_shape` is {shape.tolist()}; expected rows and columns.")
        shapes[kind] = (int(shape[0]), int(shape[1]))
    rows = shapes["adj"][0]
    labels = parts["labels"]
    if shapes["adj"] != (rows, rows) or shapes["attr"][0] != rows or labels.shape != (rows,):
        raise GraphshiftError(
            f"{file}: adjacency {list(shapes['adj'])}, attributes {list(shapes['attr'])} and labels "
            f"{list(labels.shape)} do not describe the same nodes; the file is damaged."
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise GraphshiftError(f"{file}: `labels` are {labels.dtype} from {labels.min()}; expected classes 0, 1, ….")
    adjacency, attributes = (
        checked_csr(f"{file}: `{k}`", parts[f"{k}_data"], parts[f"{k}_indices"], parts[f"{k}_indptr"], shapes[k])
        for k in ("adj", "attr")
    )
    entries = adjacency.tocoo()
    source, target = (torch.from_numpy(part.astype(np.int64)) for part in (entries.col, entries.row))
    return RawGraph.from_scipy(attributes, labels, undirected_edges(source, target, rows))

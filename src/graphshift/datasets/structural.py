"""``cora-by``, ``photo-by``, ``pubmed-by``: one real graph with its own labels, split by a property of its nodes."""

from dataclasses import replace

from torch_geometric.data import Data

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.cora import SOURCES as CORA
from graphshift.datasets.node_split import ALIKE, split_by
from graphshift.datasets.pubmed import SOURCES as PUBMED
from graphshift.datasets.reading.amazon import PHOTO_SOURCES, photo_graph
from graphshift.datasets.reading.files import Folder
from graphshift.datasets.reading.planetoid import planetoid_graph
from graphshift.datasets.reading.raw_graph import RawGraph

#: Without the years, which only ``pubmed-temporal`` needs.
_PUBMED = [source for source in PUBMED if "/ind." in source.path]
_PLANETOID = "Yang et al. 2016 (Planetoid)"


def _split(name: str, raw: RawGraph, by: str, tests: int, seed: int, alike: bool) -> ShiftDataset:
    data = Data(x=raw.x, edge_index=raw.edge_index, y=raw.y, mask=raw.y >= 0)
    whole = Environment(name, data, Task("multiclass", int(raw.y.max()) + 1))
    made = split_by(whole, by, tests=tests, seed=seed, name=f"{name}-by")
    kept = [e for e in made.tests if alike or e.name != ALIKE]
    return replace(made, tests=kept, defaults={"backbone": "gcn", "epochs": 200, "lr": 0.01, "weight_decay": 1e-3})


@DATASETS.register(
    "cora-by",
    summary="papers (2,708), split by degree, popularity, locality or density; their topic",
    shift="structural",
    origin=_PLANETOID,
    sources=CORA,
)
def cora_by(
    *, by: str = "degree", tests: int = 3, seed: int = 0, alike: bool = False, data_dir: Folder = None
) -> ShiftDataset:
    """Cora with its own seven topics, split by a property of its nodes (:func:`graphshift.split_by`).

    Args:
        by: ``"degree"``, ``"popularity"``, ``"locality"``, ``"density"``, ``"feature"`` or ``"cluster"``.
        tests: how many test environments the far half of the nodes becomes.
        seed: of the draw of training and validation nodes inside the known half.
        alike: test on held-out nodes of the known half, too, as ``alike``.
        data_dir: the folder of raw files; None for ``$GRAPHSHIFT_DATA`` or the user's cache.
    """
    return _split("cora", planetoid_graph("cora-by", "cora", CORA, data_dir)[0], by, tests, seed, alike)


@DATASETS.register(
    "photo-by",
    summary="goods (7,650), split by degree, popularity, locality or density; their kind",
    shift="structural",
    origin="Shchur et al. 2018 (Amazon-Photo)",
    sources=PHOTO_SOURCES,
)
def photo_by(
    *, by: str = "degree", tests: int = 3, seed: int = 0, alike: bool = False, data_dir: Folder = None
) -> ShiftDataset:
    """Amazon-Photo with its own eight kinds of goods, split as :func:`cora_by` does.

    Args:
        by, tests, seed, alike, data_dir: as for :func:`cora_by`.
    """
    return _split("photo", photo_graph(data_dir), by, tests, seed, alike)


@DATASETS.register(
    "pubmed-by",
    summary="papers (19,717) on diabetes, split by degree, popularity, locality or density; its type",
    shift="structural",
    origin=_PLANETOID,
    sources=_PUBMED,
)
def pubmed_by(
    *, by: str = "degree", tests: int = 3, seed: int = 0, alike: bool = False, data_dir: Folder = None
) -> ShiftDataset:
    """PubMed with its three types of diabetes, split as :func:`cora_by` does.

    Args:
        by, tests, seed, alike, data_dir: as for :func:`cora_by`.
    """
    return _split("pubmed", planetoid_graph("pubmed-by", "pubmed", _PUBMED, data_dir)[0], by, tests, seed, alike)

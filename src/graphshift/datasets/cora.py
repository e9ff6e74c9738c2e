"""``cora``: the paper's artificial shift on Cora, a graph of citations."""

from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.base import DATASETS
from graphshift.datasets.making.artificial import artificial_shift
from graphshift.datasets.reading.files import Folder
from graphshift.datasets.reading.planetoid import planetoid_graph, planetoid_sources
from graphshift.datasets.reading.raw_graph import RawGraph

#: Cora's files.
_KNOWN = {
    "x": (22119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
    "tx": (148025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
    "allx": (257305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
    "y": (4054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
    "ty": (28135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
    "ally": (47959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
    "graph": (59847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
    "test.index": (5000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
}
SOURCES = planetoid_sources("cora", "cora/raw", _KNOWN)


@DATASETS.register(
    "cora",
    summary="papers (2,708) in ten environments; made labels and spurious features",
    shift="artificial",
    origin="Yang et al. 2016 (Planetoid); shift after Wu et al. 2022",
    sources=SOURCES,
    note="the paper's 2,703 nodes are a slip, and of its 10 classes those count that some node has.",
)
def cora(
    *,
    generator: str = "gcn",
    variant: str = "paper",
    seed: int = 0,
    redraw: bool = False,
    version: int = 2,
    data_dir: Folder = None,
) -> ShiftDataset:
    """Cora's 2,708 papers in ten environments that differ in ten spurious columns alone.

    The given features X1 decide the labels through a random GNN, Y = argmax GNN(X1) over 10 outputs; another random
    GNN makes the spurious columns X2 out of the labels and the environment. Environment 0 trains, 1 validates, 2–9
    are the tests T1–T8; all nodes count. Outputs that are nobody's argmax are left out of the classes.

    A draw is degenerate if fewer than 3 classes have 1 % of the nodes each, or one has over 90 %. That gives a
    warning, or another draw with ``redraw``. ``facts`` has ``classes_used``, ``class_shares``, ``majority``, ``draws``
    and ``spurious_columns``.

    Args:
        generator: the random GNNs: ``"gcn"`` (two layers of width 10, ReLU), ``"sgc"`` (two hops) or ``"gat"`` (two
            layers of two heads of width 10, ELU).
        variant: ``"paper"`` gives labels and environment to one GNN, X2 = GNN([onehot(Y), onehot(e)]); ``"authors"``
            is their code, X2 = GNN(onehot(Y)) + Linear(onehot(e)): environments differ by one constant vector.
        seed: the same seed gives the same data.
        redraw: draw again, from seeds derived from ``seed``, until the draw is not degenerate.
        version: of the random GNNs. In 2 the SGC generator has the authors' initialisation, uniform weights and a bias;
            in 1 Glorot's weights and no bias, which made its spurious columns 1.7 times as strong. The others are the
            same in both.
        data_dir: the folder of raw files; None for ``$GRAPHSHIFT_DATA`` or the user's cache.
    """
    defaults = {"views": 10, "lr": 0.005, "explorer_lr": 0.001}
    if generator == "sgc":
        defaults |= {"views": 5, "explorer_lr": 0.005}

    def read() -> RawGraph:
        return planetoid_graph("cora", "cora", SOURCES, data_dir)[0]

    return artificial_shift("cora", read, generator, variant, seed, redraw, version, defaults)

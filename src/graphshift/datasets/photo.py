"""``photo``: the paper's artificial shift on Amazon-Photo, a graph of goods that are bought together."""

from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.base import DATASETS
from graphshift.datasets.making.artificial import artificial_shift
from graphshift.datasets.reading.amazon import PHOTO_SOURCES, photo_graph
from graphshift.datasets.reading.files import Folder


@DATASETS.register(
    "photo",
    summary="goods (7,650) in ten environments; made labels and spurious features",
    shift="artificial",
    origin="Shchur et al. 2018 (Amazon-Photo); shift after Wu et al. 2022",
    sources=PHOTO_SOURCES,
    note="of the paper's 10 classes those count that some node has.",
)
def photo(
    *,
    generator: str = "gcn",
    variant: str = "paper",
    seed: int = 0,
    redraw: bool = False,
    version: int = 2,
    data_dir: Folder = None,
) -> ShiftDataset:
    """Amazon-Photo's 7,650 goods in ten environments that differ in ten spurious columns alone.

    Made like :func:`~graphshift.datasets.cora.cora`, with the same rule for degenerate draws, which are common here.

    Args:
        generator: the random GNNs: ``"gcn"``, ``"sgc"`` or ``"gat"``, as for :func:`~graphshift.datasets.cora.cora`.
        variant: ``"paper"`` or ``"authors"``, as for :func:`~graphshift.datasets.cora.cora`.
        seed: the same seed gives the same data.
        redraw: draw again, from seeds derived from ``seed``, until the draw is not degenerate.
        version: of the random GNNs. In 2 the SGC generator has the authors' initialisation, uniform weights and a bias;
            in 1 Glorot's weights and no bias, which made its spurious columns 1.7 times as strong. The others are the
            same in both.
        data_dir: the folder of raw files; None for ``$GRAPHSHIFT_DATA`` or the user's cache.
    """
    defaults = {"views": 5, "lr": 0.01, "explorer_lr": 0.005}
    return artificial_shift("photo", lambda: photo_graph(data_dir), generator, variant, seed, redraw, version, defaults)

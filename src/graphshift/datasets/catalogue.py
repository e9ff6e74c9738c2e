"""Every dataset in a line or two: what it is, what shifts, where it comes from and which files it is read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.artificial import CORA_SOURCES
from graphshift.datasets.arxiv import SOURCES as ARXIV_SOURCES
from graphshift.datasets.elliptic import SOURCES as ELLIPTIC_SOURCES
from graphshift.datasets.facebook100 import NEEDED as FACEBOOK_NEEDED
from graphshift.datasets.facebook100 import SOURCES as FACEBOOK_SOURCES
from graphshift.datasets.pubmed import PUBMED_SOURCES
from graphshift.datasets.reading.amazon import PHOTO_SOURCES
from graphshift.datasets.reading.files import Source
from graphshift.datasets.twitch import SOURCES as TWITCH_SOURCES


@dataclass(frozen=True)
class Entry:
    """One dataset.

    Args:
        name: as in ``graphshift.load``.
        summary: one line.
        shift: what kind: ``"planted"``, ``"artificial"``, ``"cross-domain"`` or ``"temporal"``.
        origin: where the data come from.
        sources: its raw files; none if it is built in.
        figure: the picture that shows it best, a name from :data:`graphshift.report.data_figures.FIGURES`.
        note: what to know when reading its statistics.
        needed: those of its files without which there is no dataset; None for all.
    """

    name: str
    summary: str
    shift: str
    origin: str
    sources: Sequence[Source] = ()
    figure: str = "overview"
    note: str = ""
    needed: Sequence[Source] | None = None


#: Every dataset by name.
CATALOGUE = {
    e.name: e
    for e in (
        Entry("planted", "random graph; spurious features change", "planted", "built in"),
        Entry("planted-structure", "random graphs; homophily falls to 0 over the tests", "planted", "built in"),
        Entry(
            "cora",
            "papers (2,708) in ten environments; made labels and spurious features",
            "artificial",
            "Yang et al. 2016 (Planetoid); shift after Wu et al. 2022",
            CORA_SOURCES,
            note="the paper's 2,703 nodes are a slip, and of its 10 classes those count that some node has.",
        ),
        Entry(
            "photo",
            "goods (7,650) in ten environments; made labels and spurious features",
            "artificial",
            "Shchur et al. 2018 (Amazon-Photo); shift after Wu et al. 2022",
            PHOTO_SOURCES,
            note="of the paper's 10 classes those count that some node has.",
        ),
        Entry(
            "twitch",
            "streamers of seven regions; who uses explicit language",
            "cross-domain",
            "Rozemberczki et al. 2021, as Lim et al. 2021 publish it",
            TWITCH_SOURCES,
            note="the paper's table counts degrees in the files' direction and cuts digits off: -o one_way=true.",
        ),
        Entry(
            "twitch-iid",
            "held-out streamers of DE against those of ENGB: how much is shift",
            "cross-domain",
            "as twitch",
            TWITCH_SOURCES,
        ),
        Entry(
            "facebook100",
            "friendships at American universities in 2005; gender",
            "cross-domain",
            "Traud et al. 2011",
            FACEBOOK_SOURCES,
            "sizes",
            needed=FACEBOOK_NEEDED,
        ),
        Entry(
            "elliptic",
            "Bitcoin transactions in 49 time steps; which are illicit",
            "temporal",
            "Weber et al. 2019 (Kaggle)",
            ELLIPTIC_SOURCES,
            "rates",
        ),
        Entry(
            "arxiv",
            "computer science papers (169,343) by year; 40 subject areas",
            "temporal",
            "Hu et al. 2020 (Open Graph Benchmark)",
            ARXIV_SOURCES,
            "tsne",
        ),
        Entry(
            "pubmed-temporal",
            "papers (19,717) on diabetes by year; its type",
            "temporal",
            "Yang et al. 2016 (Planetoid); years: Passos et al. 2024",
            PUBMED_SOURCES,
            "tsne",
        ),
    )
}


def entry(name: str) -> Entry:
    """The entry of a dataset, or an error that names those there are."""
    if name not in CATALOGUE:
        raise GraphshiftError(f"dataset is {name!r}; expected one of {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]

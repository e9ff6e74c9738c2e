"""Numbers that were published, in per cent, and where they stand. Nothing here was measured by us."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """What somebody reports of one method with one backbone in one experiment.

    Attributes:
        experiment: of :data:`~graphshift.lab.paper.experiments.EXPERIMENTS`.
        label: method and backbone.
        source: who says so.
        tests: mean and standard deviation by test environment; the latter None where it is not given.
        mean: of all tests, where only that is given.
    """

    experiment: str
    label: str
    source: str
    tests: dict[str, tuple[float, float | None]]
    mean: float | None = None


def _facebook(experiment: str, erm: tuple[float, ...], eerm: tuple[float, ...]) -> list[Published]:
    tests = ("Penn94", "Brown11", "Texas80")
    return [
        Published(
            experiment,
            f"{method}, gcn",
            "the paper, Table 2",
            {test: (row[2 * i], row[2 * i + 1]) for i, test in enumerate(tests)},
        )
        for method, row in (("ERM", erm), ("EERM", eerm))
    ]


def _arxiv(label: str, *row: float) -> Published:
    tests = ("2015-2016", "2017-2018", "2019-2020")
    found: dict[str, tuple[float, float | None]] = {t: (row[2 * i], row[2 * i + 1]) for i, t in enumerate(tests)}
    return Published(f"arxiv-{label.split(', ')[1]}", label, "the paper, Table 3", found)


def _citation(label: str, source: str, *row: float) -> list[Published]:
    """Micro-F1 of the tasks A→C, A→D, C→A, C→D, D→A, D→C; how settings were chosen is not stated."""
    names, pairs = {"a": "acm", "c": "citation", "d": "dblp"}, ("ac", "ad", "ca", "cd", "da", "dc")
    return [
        Published(f"citation-{pair}", label, source, {names[pair[1]]: (value, None)})
        for pair, value in zip(pairs, row, strict=True)
    ]


_HAO = "Hao et al., on the same split"
_LOG = "a log of the authors' settings"

#: Of Cora and Photo the paper has plots alone: EERM above ERM on all eight tests.
PUBLISHED: tuple[Published, ...] = (
    *_facebook("facebook-hopkins", (50.48, 1.09, 54.53, 3.93, 53.23, 4.49), (50.64, 0.25, 56.73, 0.23, 55.57, 0.75)),
    *_facebook("facebook-bingham", (50.17, 0.65, 50.43, 4.58, 50.19, 5.81), (50.67, 0.79, 52.76, 3.40, 53.82, 4.88)),
    *_facebook("facebook-washu", (50.83, 0.17, 54.61, 4.75, 56.25, 0.13), (51.52, 0.87, 55.15, 3.22, 56.12, 0.42)),
    _arxiv("ERM, sage", 42.09, 1.39, 39.92, 2.53, 36.72, 2.47),
    _arxiv("EERM, sage", 41.55, 0.68, 40.36, 1.29, 38.95, 1.57),
    _arxiv("ERM, gprgnn", 47.25, 0.55, 45.07, 0.57, 41.53, 0.56),
    _arxiv("EERM, gprgnn", 49.88, 0.49, 48.59, 0.52, 44.88, 0.62),
    *_citation("GCN", "as later work has it", 70.6, 66.2, 66.6, 71.0, 59.1, 68.6),
    *_citation("A2GNN", "as later work has it", 80.8, 76.1, 75.7, 76.4, 73.6, 80.1),
    *_citation("EviGDA", "later work", 83.2, 78.5, 76.1, 79.3, 73.9, 82.2),
    Published("twitch-gcn", "ERM, gcn", _HAO, {}, 51.9),
    Published("twitch-gcn", "EERM, gcn", _HAO, {}, 53.3),
    Published("twitch-gat", "EERM, gat", _HAO, {}, 59.7),
    Published("twitch-gcnii", "EERM, gcnii", _HAO, {}, 59.6),
    Published("twitch-gcn", "the best of all methods there", _HAO, {}, 62.26),
    Published("elliptic-sage", "EERM, sage", _LOG, {}, 63.8),
    Published("elliptic-sage", "ERM, sage, tuned", "later work", {}, 75.1),
    Published("elliptic-sage", "the best of all methods there", "later work", {}, 81.1),
)

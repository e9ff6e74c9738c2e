"""Every table and figure of the paper, under the number that it has there, and what we add to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.lab.paper.experiments import EXPERIMENTS


@dataclass(frozen=True)
class Item:
    """One table or figure.

    Attributes:
        name: what to type.
        title: what it shows.
        claim: what the paper says of it; empty for what is ours.
        experiments: whose studies it shows.
        settings: in which; of those that the experiments have.
        data: the datasets that it describes, each with the kind of picture (or ``"table"``).
        options: of those datasets.
        against: what differences are measured against.
        shows: for studies, which of ``"tests"``, ``"spurious"`` and ``"generators"`` are drawn; ``"methods"`` (with
            ``"variance"``) or ``"rules"`` for items with tables of their own.
    """

    name: str
    title: str
    claim: str = ""
    experiments: tuple[str, ...] = ()
    settings: tuple[str, ...] = ("published", "paper", "fair", "ablation")
    data: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    against: str = "ERM"
    shows: tuple[str, ...] = ("tests",)


_ABOVE = "EERM is above ERM on all eight tests, and loses less when the spurious columns are zeroed."
_ALL = ("tests", "spurious", "generators")


def _appendix() -> list[Item]:
    """Figures 10 to 17: for each dataset the tests with both generators, then the spurious columns with both."""
    found, number = [], 10
    for dataset in ("cora", "photo"):
        for shown, what in (("tests", "tests T1 to T8"), ("spurious", "training accuracy without spurious columns")):
            for generator in ("sgc", "gat"):
                title = f"{dataset.capitalize()}, {generator.upper()} generator: {what}"
                found.append(Item(f"fig{number}", title, _ABOVE, (f"{dataset}-{generator}",), shows=(shown,)))
                number += 1
    return found


#: The training schools of all three choices.
_TRAINING = (
    *("Johns Hopkins55", "Caltech36", "Amherst41"),
    *("Bingham82", "Duke14", "Princeton12"),
    *("WashU32", "Brandeis99", "Carnegie49"),
)

_LEADERBOARD = (
    "structure",
    "features",
    "cora-gcn",
    "cora-sgc",
    "cora-gat",
    "photo-gcn",
    "photo-sgc",
    "photo-gat",
    "twitch-gcn",
    "facebook-hopkins",
    "pubmed",
)

#: Shifts that came later: of these the leaderboard has cells alone.
_MORE_SHIFTS = (
    *("cbas-concept", "cbas-covariate"),
    *(f"citation-{pair}" for pair in ("ac", "ad", "ca", "cd", "da", "dc")),
    *(
        f"{graph}-{by}"
        for graph in ("cora", "photo", "pubmed")
        for by in ("degree", "popularity", "locality", "density")
    ),
)

_ITEMS = (
    Item("toy", "Section 3.1: the motivating example"),
    Item("theory", "Section 4: Theorems 1 to 3 on models small enough to enumerate"),
    Item("shift", "ours: does `graphshift shift` name what moved, and only that?"),
    Item("choosing", "ours: does the rule `target` choose better between models than validation?"),
    Item("strangers", "ours: is what `recommend` chooses ever worse than ten lines of scikit-learn?"),
    Item("batches", "ours: does training on batches cost score, or EERM's advantage?"),
    Item("trust", "ours: is what `predict` promises kept? Coverage, calibration, abstaining, audits"),
    Item("estimate", "ours: is the score that is expected without labels the true one?"),
    Item(
        "table1",
        "the datasets",
        data=tuple(
            (name, "table")
            for name in ("cora", "photo", "twitch", "facebook100", "elliptic", "arxiv", "pubmed-temporal")
        ),
    ),
    Item(
        "fig2",
        "Cora: tests T1 to T8, spurious columns, generators",
        _ABOVE,
        ("cora-gcn", "cora-sgc", "cora-gat"),
        shows=_ALL,
    ),
    Item(
        "fig3",
        "Photo: tests T1 to T8, spurious columns, generators",
        _ABOVE,
        ("photo-gcn", "photo-sgc", "photo-gat"),
        shows=_ALL,
    ),
    Item(
        "fig4",
        "Twitch: five regions with GCN, GAT and GCNII",
        "EERM is significantly above ERM in most cases, by up to 7.0 % of ROC-AUC.",
        ("twitch-gcn", "twitch-gat", "twitch-gcnii"),
    ),
    Item(
        "table2",
        "Facebook-100: three choices of training schools",
        "EERM is above ERM on average on all test graphs, by up to 7.2 %.",
        ("facebook-hopkins", "facebook-bingham", "facebook-washu"),
    ),
    Item(
        "fig5",
        "Elliptic: T1 to T9 with SAGE and GPRGNN",
        "EERM is above ERM by 9.6 % (SAGE) and 10.0 % (GPRGNN) of F1 on average.",
        ("elliptic-sage", "elliptic-gprgnn"),
    ),
    Item(
        "table3",
        "Arxiv: three periods with SAGE and GPRGNN",
        "EERM is above ERM in five cases out of six.",
        ("arxiv-sage", "arxiv-gprgnn"),
    ),
    Item("table4", "Twitch: statistics of the seven graphs", data=(("twitch", "table"),)),
    Item(
        "fig6",
        "Twitch: held-out nodes of DE (IID) against ENGB (OOD)",
        "The score drops clearly from IID to OOD.",
        ("twitch-iid-gcn", "twitch-iid-gat", "twitch-iid-gcnii"),
    ),
    Item(
        "fig7",
        "Facebook-100: sizes, densities and degrees",
        data=(("facebook100", "sizes"),),
        options={"training": _TRAINING},
    ),
    Item("fig8", "Elliptic: label rates", data=(("elliptic", "rates"),)),
    Item("fig9", "Arxiv: t-SNE of training, validation and test nodes", data=(("arxiv", "tsne"),)),
    *_appendix(),
    Item(
        "exploring",
        "Does exploring work? The variance of the risks, learned edits against random ones",
        experiments=("cora-gcn", "photo-gcn", "twitch-gcn", "facebook-hopkins", "pubmed"),
        settings=("explorers",),
    ),
    Item(
        "rewards",
        "Several training graphs: explorers rewarded for the variance of all risks, or of their own graph's",
        experiments=("facebook-hopkins",),
        settings=("rewards",),
        against="the reward of all graphs",
    ),
    Item(
        "trials",
        "How good is the best of n trials? ERM against EERM",
        experiments=("cora-gcn", "pubmed"),
        settings=("fair",),
        shows=("trials",),
    ),
    Item(
        "leaderboard",
        "Every method on every dataset, tuned alike, in three leagues by what they see of the tests",
        experiments=(*_LEADERBOARD, *_MORE_SHIFTS),
        settings=("methods",),
        shows=("methods", "variance"),
    ),
    Item(
        "simple",
        "Methods without a GNN on every dataset, tuned alike, beside ERM",
        experiments=_LEADERBOARD,
        settings=("simple",),
        shows=("methods",),
    ),
    Item(
        "wide",
        "Twitch with a wider search: the backbone's width, dropout and weight decay tuned with the method",
        experiments=("twitch-gcn",),
        settings=("wide",),
        shows=("methods",),
    ),
    Item(
        "selecting",
        "Choosing epoch and setting without test labels: the rules side by side",
        experiments=("structure", "features", "cora-gcn", "photo-gcn", "twitch-gcn", "facebook-hopkins", "pubmed"),
        settings=("selections",),
        shows=("rules",),
    ),
    Item(
        "explorers",
        "Every explorer where edges lie and where features do: scores, and the variance during training",
        experiments=("structure", "features"),
        settings=("kinds",),
        shows=("methods", "variance"),
    ),
    Item(
        "citation",
        "Citation: six tasks with an unlabelled target in training, beside ERM on the source alone",
        experiments=tuple(f"citation-{pair}" for pair in ("ac", "ad", "ca", "cd", "da", "dc")),
        settings=("source", "target", "smooth"),
    ),
    Item(
        "motif",
        "Graphs with labels: ERM against EERM with every explorer, tuned alike",
        experiments=("planted-motif",),
        settings=("graphs",),
        shows=("methods",),
    ),
    Item("temporal", "PubMed-temporal: a temporal shift that is not in the paper", experiments=("pubmed",)),
)

_RENAMED = {"benchmark": "leaderboard"}

#: Every item by name, in the paper's order.
ITEMS: dict[str, Item] = {item.name: item for item in _ITEMS}


def find(name: str) -> Item:
    """The item of that name; a single experiment is one too, in all its settings."""
    if name in EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        if not experiment.settings:
            run = f"graphshift reproduce leaderboard --experiments {name}"
            raise GraphshiftError(f"{name} is an experiment of the leaderboard alone: {run}")
        title = f"the experiment {name}: {experiment.dataset} with {experiment.backbone}"
        return Item(name, title, experiments=(name,), settings=experiment.settings)
    if name in _RENAMED:
        raise GraphshiftError(f"{name} is now called {_RENAMED[name]}: graphshift reproduce {_RENAMED[name]}")
    if name not in ITEMS:
        known = ["all", "list", *ITEMS, *EXPERIMENTS]
        raise GraphshiftError(f"ITEM is {name!r}; {expected_one_of(name, known)}")
    return ITEMS[name]

"""What papers report of methods on the leaderboard's data, with their split. Nothing here was measured by us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from graphshift.estimators.base import METHODS
from graphshift.lab.paper.published import PUBLISHED


@dataclass(frozen=True)
class Claim:
    """A published score of a method, in per cent.

    Attributes:
        score: the mean of the tests that it stands on.
        split: in what its data differ from ours, or that they do not.
        source: who reports it.
    """

    score: float
    split: str
    source: str

    @property
    def text(self) -> str:
        """For a table."""
        return f"{self.score:.1f} ({self.split}; {self.source})"


#: Published labels that are not "METHOD, backbone", as method and backbone.
_LABELS: Mapping[str, tuple[str, str]] = {"A2GNN": ("mmd", "a2gnn"), "GCN": ("erm", "gcn")}

_SAME = "same split"

#: GOOD publishes one draw of CBAS; ours is the mean over ten.
_DRAW = "GOOD's one draw"

#: By experiment, method and backbone: numbers that no table of the paper's items has.
_FURTHER: Mapping[tuple[str, str, str], Claim] = {
    ("twitch-gcn", "dgi", "gcn"): Claim(60.7, _SAME, "Hao et al., Co-Train-DGI"),
    ("cbas-concept", "tar", "gcn"): Claim(87.3, _DRAW, "as published; the table's paper was not noted"),
    ("cbas-concept", "erm", "gcn"): Claim(82.4, _DRAW, "later work"),
    ("cbas-concept", "eerm", "gcn"): Claim(65.7, _DRAW, "later work"),
    ("cora-gcn", "canet", "canet"): Claim(97.3, "its own shift of Cora", "CaNet's paper"),
}


def claim(experiment: str, method: str, backbone: str | None) -> Claim | None:
    """What is published of a method on an experiment's data; None where we know of nothing."""
    found = _FURTHER.get((experiment, method, backbone or ""))
    if found is not None:
        return found
    for one in PUBLISHED:
        if one.experiment == experiment and _who(one.label) == (method, backbone):
            score = fmean(mean for mean, _ in one.tests.values()) if one.mean is None else one.mean
            return Claim(score, _split(experiment, one.tests), one.source.removesuffix(f", on the {_SAME}"))
    return None


def _who(label: str) -> tuple[str, str | None]:
    if label in _LABELS:
        return _LABELS[label]
    name, _, backbone = label.partition(", ")
    return next((m for m, about in METHODS.items() if about.label == name), ""), backbone


def _split(experiment: str, tests: Mapping[str, object]) -> str:
    return f"tests {', '.join(tests)}" if experiment.startswith("facebook") else _SAME

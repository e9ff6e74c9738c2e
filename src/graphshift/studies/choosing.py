"""Chooses a candidate: by validation and by training environments that were left out, with the uncertainty of both.

Test labels are never used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.methods.columns import WITHOUT_EDGES
from graphshift.studies.candidates import SPREADING, uses_edges
from graphshift.studies.plan import COMMITTEE
from graphshift.studies.records import Row, variant_name
from graphshift.studies.remarks import CHOOSES_BY
from graphshift.studies.resampling import nodes_error
from graphshift.studies.running import Study

#: Of a percentage: how much the difference of two candidates is expected to vary between environments before any was
#: seen: of any two, of one that uses edges and one that does not, and of one with an adaptation and one without. What
#: is expected counts as much as one place does. On strangers' tables the differences varied between the places (not the
#: tests) by 1 to 4, 7 (14 for the years of entry at schools) and 5 points.
_BETWEEN_PLACES, _OF_EDGES, _OF_ADAPTING = 0.02, 0.1, 0.05

#: Which candidate is recommended, in words, and why: what :func:`chosen` does.
PREFERENCE = (
    "A blend (the mean of several models) is recommended if it is within one standard error of the best: the order on "
    "a few graphs is partly noise, and a blend is rarely far behind whatever comes out best on the next. Otherwise the "
    "best, or what is simpler, of the same kind, and within one standard error."
)

#: By criterion the rule that chooses epoch and setting, and the score of a run (an attribute of a row).
RULES = {"val": "val", "target": "val", "adversarial_val": "explored"}
SCORES = {"val": "choosing", "target": "choosing", "adversarial_val": "adversarial_val"}

EDITED = "validation after adversarial edits"


@dataclass(frozen=True)
class Expected:
    """What a candidate is expected to score on the unlabelled target.

    Attributes:
        score: the mean over target graphs and seeds; also where no score is promised, for models must be compared.
        low, high: the means of the ends of the intervals of those that are not refused; None if all are.
        count: how many estimates there are: graphs times seeds.
        refused: how many of them are refused.
        reason: why the first of these is.
    """

    score: float
    low: float | None
    high: float | None
    count: int
    refused: int
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A model with its scores.

    Attributes:
        name: in tables.
        arm: of the study.
        adapt: the way of using the unlabelled graph; None for none.
        places: the score in each place that counts: validation (or held-out nodes), environments that were left out.
        score: the mean of these: the choosing score.
        error: its standard error over nodes and seeds; None where it is not known.
        behind: how far it is behind the best candidate; 0 for the best.
        behind_error: the standard error of that, over environments too; None for the best.
        rank: how simple it is; 0 for the simplest. The same with and without adaptation.
        members: of a blend how many models it is the mean of; 1 for any other.
        constant: whether it is the largest class, or the mean.
        expected: on the unlabelled target, where there is one; None if nothing can be said.
        edges: 1 if it uses edges, of a blend the share of its members that do.
    """

    name: str
    arm: str
    adapt: str | None
    places: dict[str, float]
    score: float
    error: float | None
    behind: float
    behind_error: float | None
    rank: int
    members: int = 1
    constant: bool = False
    expected: Expected | None = None
    edges: float = 0.0

    @property
    def blend(self) -> bool:
        """Whether it is a blend."""
        return self.members > 1


@dataclass(frozen=True)
class _Scores:
    """What is known of a candidate: by place its runs' scores, and their resampled scores."""

    arm: str
    adapt: str | None
    rank: int
    settings: Mapping[str, Any]
    runs: dict[str, list[float]]
    drawn: dict[str, list[list[float]]]

    @property
    def edges(self) -> float:
        """The share of its members that use edges."""
        return fmean(_looks_at_edges(one) for one in self.settings.get("members", [self.settings]))


def _looks_at_edges(settings: Mapping[str, Any]) -> bool:
    backbone = settings.get("backbone")
    if backbone is not None:
        return uses_edges(backbone)
    return settings["method"] in SPREADING or settings.get("columns", "plain") not in WITHOUT_EDGES


def rule_of(study: Study, criterion: str) -> str:
    """The selection rule that goes with a criterion: without validation graphs, held-out training nodes."""
    rule = RULES[criterion]
    return rule if rule in study.plan.selections else study.plan.selections[0]


def ranked(study: Study, criterion: str = "val", beside: Study | None = None) -> list[Candidate]:
    """All candidates that finished, the best first.

    Args:
        study: a finished one.
        criterion: ``"val"``; or ``"adversarial_val"``, by validation graphs after the edits that raise each model's
            risk most. Models that do not use edges are then left out: edits cannot change them, which says nothing.
            ``"target"`` ranks as ``"val"`` does.
        beside: a study of further candidates with the same seeds and places; one that lacks a place is left out.
    """
    sign = METRICS[study.plan.metric].sign
    known = _known(study, criterion)
    if not known:
        return []
    shared = [place for place in next(iter(known.values())).runs if all(place in one.runs for one in known.values())]
    further = {} if beside is None else _known(beside, criterion, len(study.plan.arms))
    known |= {name: one for name, one in further.items() if all(place in one.runs for place in shared)}
    scores = {name: fmean(fmean(one.runs[place]) for place in shared) for name, one in known.items()}
    best = max(known, key=lambda name: (sign * scores[name], -known[name].rank))
    found = [
        Candidate(
            name=name,
            arm=one.arm,
            adapt=one.adapt,
            places={place: fmean(one.runs[place]) for place in shared},
            score=scores[name],
            error=_error(one, None, shared),
            behind=sign * (scores[best] - scores[name]),
            behind_error=None if name == best else _behind_error(one, known[best], shared, study.plan.metric),
            rank=one.rank,
            members=1 if one.arm == COMMITTEE.name else len(one.settings.get("members", [one])),
            constant=one.settings["method"] == "majority",
            edges=one.edges,
        )
        for name, one in known.items()
    ]
    return sorted(found, key=lambda one: (one.behind, one.rank))


def chosen(candidates: Sequence[Candidate]) -> Candidate:
    """The widest blend that is close to the best; else the simplest that is close and of its kind.

    :data:`PREFERENCE` says why. Without an adaptation, if such a one is close: an adaptation changes predictions most
    where a graph differs most from validation, for better or worse.

    Args:
        candidates: the best first.
    """
    best = candidates[0]
    close = [one for one in candidates if one.behind <= (one.behind_error or 0.0) and _ways(one) <= _ways(best)]
    if blends := [one for one in close if one.blend]:
        return min(blends, key=lambda one: (_ways(one), -one.members, one.behind))
    alike = [one for one in close if one.edges == best.edges and (one is best or not one.constant)]
    return min(alike, key=lambda one: (one.constant, one.rank, _ways(one), one.behind))


def _ways(one: Candidate) -> int:
    """How many adaptations a candidate uses."""
    return 0 if one.adapt is None else 1 + one.adapt.count("+")


def _known(study: Study, criterion: str, first: int = 0) -> dict[str, _Scores]:
    """What is known of the arms of a study, with and without adaptation; ``first`` is the rank of the first arm."""
    plan, rule = study.plan, rule_of(study, criterion)
    rows, found = study.rows(rule), dict[str, _Scores]()
    ways = (None,) if criterion == "adversarial_val" else (None, *plan.adapt)
    for way in ways:
        for i, arm in enumerate(plan.arms):
            if criterion == "adversarial_val" and not uses_edges(plan.settings(arm).get("backbone")):
                continue
            name = variant_name(arm.name, 1, way)
            own = [row for row in rows if row.arm == name and getattr(row, SCORES[criterion]) is not None]
            if own:
                scores = _of_candidate(study, criterion, rule, own, arm.name, way, first + i)
                same = [one for one in found.values() if one.arm == arm.name and one.runs == scores.runs]
                if not same:  # else the adaptation was not used, or changes nothing
                    found[name] = scores
    return found


def _of_candidate(
    study: Study, criterion: str, rule: str, own: Sequence[Row], arm: str, way: str | None, rank: int
) -> _Scores:
    first = EDITED if criterion == "adversarial_val" else CHOOSES_BY.get(rule, "validation")
    runs = {first: [getattr(row, SCORES[criterion]) for row in own]}
    drawn = {first: [row.resampled.get("val", []) for row in own]}
    left = [r for r in study.records if r.kind == "left_out" and r.ok and r.arm == arm and rule in r.selections]
    for record in () if criterion == "adversarial_val" else left:
        selected, place = record.selections[rule], f"{record.environment} left out"
        scores = selected if way is None else selected.adapted.get(way)
        if scores is not None and record.environment in scores.tests:
            runs.setdefault(place, []).append(scores.tests[record.environment])
            drawn.setdefault(place, []).append(scores.resampled.get("mean", []))
    return _Scores(arm, way, rank, study.plan.settings(study.plan.arm(arm)), runs, drawn)


def _behind_error(one: _Scores, other: _Scores, places: Sequence[str], metric: str) -> float | None:
    """The standard error of a difference for an environment that was not seen: over nodes, seeds and environments.

    One place or two cannot tell by how much differences vary between environments: that is expected
    (:data:`_BETWEEN_PLACES`), and what the places show counts as much as there are of them beyond the first.
    """
    within = _error(one, other, places) or 0.0
    gaps = [fmean(one.runs[place]) - fmean(other.runs[place]) for place in places]
    seen = stdev(gaps) ** 2 if len(gaps) > 1 else 0.0
    expected = _expected_variance(one, other) if METRICS[metric].percent else 0.0
    between = ((len(gaps) - 1) * seen + expected) / len(gaps)
    return (within**2 + between / len(gaps)) ** 0.5 or None


def _expected_variance(one: _Scores, other: _Scores) -> float:
    adapted = one.adapt != other.adapt
    return _BETWEEN_PLACES**2 + (_OF_EDGES * (one.edges - other.edges)) ** 2 + _OF_ADAPTING**2 * adapted


def _error(one: _Scores, other: _Scores | None, places: Sequence[str]) -> float | None:
    """The standard error of a candidate's score, or of its difference to another's, over nodes and seeds.

    Over seeds it is known from the place with most runs, and taken to be the same in the others.
    """
    parts: list[float] = []
    whole = [one.drawn[place] for place in places]
    theirs = [[[0.0] * len(runs[0])] for runs in whole] if other is None else [other.drawn[place] for place in places]
    if all(runs and all(map(len, runs)) for runs in (*whole, *theirs)):
        means = [[_mean_draws(runs) for runs in side] for side in (whole, theirs)]
        if (error := nodes_error(*means)) is not None:
            parts.append(error)
    longest = max(places, key=lambda place: len(one.runs[place]))
    gains = one.runs[longest]
    if other is not None and len(other.runs[longest]) == len(gains):
        gains = [ours - theirs_ for ours, theirs_ in zip(gains, other.runs[longest], strict=True)]
    if len(gains) > 1:
        variance = stdev(gains) ** 2
        parts.append((sum(variance / len(one.runs[place]) for place in places) / len(places) ** 2) ** 0.5)
    return sum(part**2 for part in parts) ** 0.5 if parts else None


def _mean_draws(runs: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(draw) for draw in zip(*runs, strict=True)]

"""Chooses a candidate: by validation and by training environments that were left out, with the uncertainty of both.

Test labels are never used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.studies.candidates import SIMPLICITY, uses_edges
from graphshift.studies.plan import COMMITTEE
from graphshift.studies.records import Row, variant_name
from graphshift.studies.remarks import CHOOSES_BY
from graphshift.studies.resampling import nodes_error
from graphshift.studies.running import Study

#: Of a percentage: a simpler candidate, or a blend, is not preferred if it is further behind than this, however large
#: the error.
_AT_MOST = 0.02

#: Of a percentage: a member of a blend may be further behind than this only within two standard errors.
_MEMBER_AT_MOST = 0.05

#: Of a percentage: how much the difference of two candidates is expected to vary between environments, before any was
#: seen. It counts as much as one place does.
_BETWEEN_PLACES = 0.02

#: Which candidate is recommended, in words, and why: what :func:`chosen` does.
PREFERENCE = (
    "Of the candidates within one standard error and two points of the best, one without a neural network is "
    "preferred: where validation cannot tell them apart, what a network makes of neighbours has more ways to go wrong "
    "in other graphs. Among these, and else among networks, a blend (the mean of several models) is preferred if none "
    "of its models is more than five points (or two standard errors) behind: the order on validation is partly noise, "
    "and a mean of models that err in different places depends on it least; and then the simpler "
    f"({SIMPLICITY}), but not the largest class. An adaptation has to be ahead of the same model without it by more "
    "than that: it changes predictions most where a graph differs most from validation, for better or worse."
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
        blend: whether it is a blend.
        weakest: of a blend how far its weakest member is behind the best that is no blend, and the standard error of
            that.
        constant: whether it is the largest class, or the mean.
        expected: on the unlabelled target, where there is one; None if nothing can be said.
        network: whether it is a neural network, or a blend with one.
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
    blend: bool = False
    weakest: tuple[float, float] = (0.0, 0.0)
    constant: bool = False
    expected: Expected | None = None
    network: bool = False


@dataclass(frozen=True)
class _Scores:
    """What is known of a candidate: by place its runs' scores, and their resampled scores."""

    arm: str
    adapt: str | None
    rank: int
    settings: Mapping[str, Any]
    runs: dict[str, list[float]]
    drawn: dict[str, list[list[float]]]


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
            blend=one.settings["method"] == "blend" and one.arm != COMMITTEE.name,
            constant=one.settings["method"] == "majority",
            network=any("backbone" in member for member in one.settings.get("members", [one.settings])),
        )
        for name, one in known.items()
    ]
    found = [replace(one, weakest=_weakest(study, beside, one, found)) if one.blend else one for one in found]
    return sorted(found, key=lambda one: (one.behind, one.rank))


def _weakest(study: Study, beside: Study | None, blend: Candidate, found: Sequence[Candidate]) -> tuple[float, float]:
    """How far the weakest member of a blend is behind; each member is taken with the adaptation that suits it best.

    Behind the best that is no blend: where a blend is the best of all, its members need not be close to it.
    """
    members = [] if beside is None else beside.plan.settings(beside.plan.arm(blend.arm))["members"]
    least = min((one.behind for one in found if not one.blend), default=0.0)
    behind = []
    for member in members:
        own = [arm.name for arm in study.plan.arms if arm.settings.items() <= member.items()]
        behind += sorted((one.behind - least, one.behind_error or 0.0) for one in found if one.arm in own)[:1]
    return max(behind, default=(0.0, 0.0))


def chosen(candidates: Sequence[Candidate], metric: str) -> Candidate:
    """One without a network, a blend, or the simplest, of those that are close to the best: see :data:`PREFERENCE`.

    Args:
        candidates: the best first.
        metric: by name.
    """
    close = [one for one in candidates if _is_close(one, metric)]
    close = [one for one in close if not (one.network or (one.constant and one.behind > 0))] or close
    if blends := [one for one in close if one.blend and may_join(*one.weakest, metric)]:
        return min(blends, key=lambda one: (_ways(one), one.behind))
    return min(close, key=lambda one: (one.constant and one.behind > 0, one.rank, _ways(one), one.behind))


def _ways(one: Candidate) -> int:
    """How many adaptations a candidate uses."""
    return 0 if one.adapt is None else 1 + one.adapt.count("+")


def may_join(behind: float, error: float, metric: str) -> bool:
    """Whether a model that is so far behind the best, with this standard error, is good enough for a blend."""
    return behind <= max(2 * error, _MEMBER_AT_MOST if METRICS[metric].percent else 0.0)


def _is_close(one: Candidate, metric: str) -> bool:
    """Whether a candidate is within one standard error of the best, and of a percentage within two points."""
    limit = one.behind_error or 0.0
    return one.behind <= (min(limit, _AT_MOST) if METRICS[metric].percent else limit)


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

    Differences vary between environments, and one place or two cannot tell by how much: two points are expected, and
    what the places show counts as much as there are of them beyond the first.
    """
    within = _error(one, other, places) or 0.0
    gaps = [fmean(one.runs[place]) - fmean(other.runs[place]) for place in places]
    seen = stdev(gaps) ** 2 if len(gaps) > 1 else 0.0
    expected = _BETWEEN_PLACES**2 if METRICS[metric].percent else 0.0
    between = ((len(gaps) - 1) * seen + expected) / len(gaps)
    return (within**2 + between / len(gaps)) ** 0.5 or None


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

"""Chooses a candidate: by validation and by training environments that were left out, with the uncertainty of both.

Test labels are never used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from graphshift.data.metrics import METRICS
from graphshift.studies.candidates import SIMPLICITY, uses_edges
from graphshift.studies.records import Row, variant_name
from graphshift.studies.remarks import CHOOSES_BY
from graphshift.studies.resampling import nodes_error
from graphshift.studies.running import Study

#: Of a percentage: a simpler candidate, or a blend, is not preferred if it is further behind than this, however large
#: the error.
_AT_MOST, _BLEND_AT_MOST = 0.01, 0.02

#: Of a percentage: a member of a blend may be further behind than this only within two standard errors.
_MEMBER_AT_MOST = 0.05

#: Which candidate is recommended, in words, and why: what :func:`chosen` does.
PREFERENCE = (
    "A blend (the mean of the best model without a GNN and the best GNN) is recommended where it is within one "
    "standard error and two points of the best, and neither of the two is more than five points (or two standard "
    "errors) behind: under shift the order on validation is partly noise, and a mean of models that err in different "
    "places depends on it least. Elsewhere the simpler of two is preferred within one "
    f"standard error and one point ({SIMPLICITY})."
)

#: By criterion the rule that chooses epoch and setting, and the score of a run (an attribute of a row).
RULES = {"val": "val", "adversarial_val": "explored"}
SCORES = {"val": "choosing", "adversarial_val": "adversarial_val"}

EDITED = "validation after adversarial edits"


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
        behind_error: the standard error of that; None where it is not known.
        rank: how simple it is; 0 for the simplest. The same with and without adaptation.
        blend: whether it is a blend.
        weakest: of a blend how far its weaker member is behind the best, and the standard error of that.
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


@dataclass(frozen=True)
class _Scores:
    """What is known of a candidate: by place its runs' scores, and their resampled scores."""

    arm: str
    adapt: str | None
    rank: int
    blend: bool
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
            behind_error=None if name == best else _error(one, known[best], shared),
            rank=one.rank,
            blend=one.blend,
        )
        for name, one in known.items()
    ]
    found = [replace(one, weakest=_weakest(study, beside, one, found)) if one.blend else one for one in found]
    return sorted(found, key=lambda one: (one.behind, one.rank))


def _weakest(study: Study, beside: Study | None, blend: Candidate, found: Sequence[Candidate]) -> tuple[float, float]:
    """How far the weaker member of a blend is behind; each member is taken with the adaptation that suits it best."""
    members = [] if beside is None else beside.plan.settings(beside.plan.arm(blend.arm))["members"]
    behind = []
    for member in members:
        own = [arm.name for arm in study.plan.arms if arm.settings.items() <= member.items()]
        behind += sorted((one.behind, one.behind_error or 0.0) for one in found if one.arm in own)[:1]
    return max(behind, default=(0.0, 0.0))


def chosen(candidates: Sequence[Candidate], metric: str) -> Candidate:
    """A blend, or the simplest, of those that are close to the best: see :data:`PREFERENCE`.

    Args:
        candidates: the best first.
        metric: by name.
    """
    if blends := [one for one in candidates if one.blend and _is_close(one, _BLEND_AT_MOST, metric)]:
        behind, error = blends[0].weakest
        if behind <= max(2 * error, _MEMBER_AT_MOST if METRICS[metric].percent else 0.0):
            return blends[0]
    return min((one for one in candidates if _is_close(one, _AT_MOST, metric)), key=lambda one: (one.rank, one.behind))


def _is_close(one: Candidate, most: float, metric: str) -> bool:
    """Whether a candidate is within one standard error of the best, and of a percentage within ``most``."""
    limit = one.behind_error or 0.0
    return one.behind <= (min(limit, most) if METRICS[metric].percent else limit)


def _known(study: Study, criterion: str, first: int = 0) -> dict[str, _Scores]:
    """What is known of the arms of a study, with and without adaptation; ``first`` is the rank of the first arm."""
    plan, rule = study.plan, rule_of(study, criterion)
    rows, found = study.rows(rule), dict[str, _Scores]()
    ways = (None, *plan.adapt) if criterion == "val" else (None,)
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
    first = CHOOSES_BY.get(rule, "validation") if criterion == "val" else EDITED
    runs = {first: [getattr(row, SCORES[criterion]) for row in own]}
    drawn = {first: [row.resampled.get("val", []) for row in own]}
    left = [r for r in study.records if r.kind == "left_out" and r.ok and r.arm == arm and rule in r.selections]
    for record in left if criterion == "val" else ():
        selected, place = record.selections[rule], f"{record.environment} left out"
        scores = selected if way is None else selected.adapted.get(way)
        if scores is not None and record.environment in scores.tests:
            runs.setdefault(place, []).append(scores.tests[record.environment])
            drawn.setdefault(place, []).append(scores.resampled.get("mean", []))
    blend = study.plan.settings(study.plan.arm(arm))["method"] == "blend"
    return _Scores(arm, way, rank, blend, runs, drawn)


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

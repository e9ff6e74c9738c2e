"""Choosing with the unlabelled target: what has moved there, and what every candidate is expected to score.

Epoch and setting of a candidate are chosen by validation; the target then decides between candidates
(:data:`~graphshift.shift.choosing.RULE`). No label of the target is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment, as_environments
from graphshift.data.metrics import METRICS
from graphshift.estimators.adaptation import parts_of
from graphshift.estimators.estimating import Estimate
from graphshift.estimators.frames import prepared_target
from graphshift.estimators.predictor import Graphs
from graphshift.shift.choosing import Evidence, choose, gain_over
from graphshift.shift.comparing.compare import Comparison, columns_of, compare_graphs
from graphshift.studies.choosing import Candidate, Expected, chosen, rule_of
from graphshift.studies.records import variant_name
from graphshift.studies.running import Study

#: Targets that are compared with training, the largest first: the others are estimated all the same.
MOST_COMPARED = 3

#: A loss against validation that a reader is warned of, of a percentage.
_LARGE_LOSS = 0.1


def targets_of(data: ShiftDataset) -> Sequence[Environment]:
    """The unlabelled graphs: the role ``target``, else the tests without their labels."""
    return [e.replace(y=None) for e in data.target or data.tests]


def with_target(data: ShiftDataset, target: Graphs | str | None) -> tuple[ShiftDataset, bool]:
    """The data with the unlabelled graphs that were asked for, and whether there are any to choose for.

    Args:
        data: with a role ``target`` of its own, or not.
        target: graphs; ``"tests"``; ``"NODES.csv,EDGES.csv"`` for data of tables; None.
    """
    if target is None:
        return data, bool(data.target)
    if isinstance(target, str) and target == "tests":
        if data.target or not data.tests:
            there = "a target of their own: leave it out" if data.target else "no test environments"
            raise GraphshiftError(f"target is 'tests', and the data have {there}.")
        return data, True
    if isinstance(target, str):
        graphs = [prepared_target(data.facts.get("preparation"), target)]
    else:
        graphs = as_environments(target, data.task, "target", labelled=False)
    return replace(data, target=[*data.target, *graphs]), True


def moved_on(data: ShiftDataset) -> tuple[list[Comparison], list[str]]:
    """What has moved between the training graphs and each of the largest targets; and what could not be told."""
    found, notes = [], []
    every = targets_of(data)
    names = columns_of(data.facts.get("preparation")) | {"class_names": data.class_names or None}
    for target in sorted(every, key=lambda e: -e.num_nodes)[:MOST_COMPARED]:
        try:
            found.append(compare_graphs(data.train, target, **names))
        except GraphshiftError as error:
            notes.append(f"What has moved on {target.name} cannot be told: {str(error).rstrip('.')}.")
    if len(every) > MOST_COMPARED:
        notes.append(f"Only the {MOST_COMPARED} largest of {len(every)} targets were compared with training.")
    return found, notes


def evidence_of(studies: Iterable[Study], found: Sequence[Candidate]) -> dict[str, Evidence]:
    """Of each candidate what is expected of it on the target, over graphs and seeds; those without are left out.

    A correction of class shares is no other model to the estimates, so such a candidate has those of the model without.
    """
    known: dict[str, list[Estimate]] = {}
    for study in studies:
        for row in study.rows(rule_of(study, "val")):
            known.setdefault(row.arm, []).extend(row.expected.values())
    evidence = {}
    for one in found:
        plain = None if one.adapt is None or "norm" not in parts_of(one.adapt) else "norm"
        if estimates := known.get(variant_name(one.arm, 1, plain)):
            evidence[one.name] = Evidence(one.score, estimates)
    return evidence


def expected_of(evidence: Evidence) -> Expected:
    """The evidence in a few numbers."""
    ends = [(one.low, one.high) for one in evidence.estimates if one.expected is not None]
    low, high = (fmean(side) for side in zip(*ends, strict=True)) if ends else (None, None)
    refused = sum(one.expected is None for one in evidence.estimates)
    reasons = evidence.refused
    return Expected(evidence.expected, low, high, len(evidence.estimates), refused, reasons[0] if reasons else "")


def with_expected(found: Sequence[Candidate], evidence: Mapping[str, Evidence], metric: str) -> list[Candidate]:
    """The candidates with what is expected of them, the best expected score first; those without one last."""
    known = [replace(one, expected=expected_of(evidence[one.name])) if one.name in evidence else one for one in found]
    sign = METRICS[metric].sign
    return sorted(known, key=lambda c: (c.expected is None, 0.0 if c.expected is None else -sign * c.expected.score))


def chosen_on_target(
    found: Sequence[Candidate], evidence: Mapping[str, Evidence], metric: str
) -> tuple[Candidate, Candidate]:
    """The candidate to use on the target, and the one that validation prefers.

    Args:
        found: all candidates, the best on validation first.
        evidence: of those whose score on the target can be estimated.
        metric: by name.
    """
    first = chosen(found)
    # A correction of class shares is the same model to the estimates: validation decides about it.
    free = {n: one for n, one in evidence.items() if n == first.name or not _corrects(found, n)}
    if first.name not in free:
        return first, first
    name = choose(free, metric, first.name)
    return next(one for one in found if one.name == name), first


def _corrects(found: Sequence[Candidate], name: str) -> bool:
    one = next(c for c in found if c.name == name)
    return one.adapt is not None and "prior" in parts_of(one.adapt)


def reason_on_target(best: Candidate, first: Candidate, evidence: Mapping[str, Evidence], metric: str) -> str:
    """Why a candidate is to be used on the target, in words."""
    about = METRICS[metric]
    unit = f" {about.unit}" if about.unit else ""
    own = f"validation {about.show(best.score)}"
    if best.name not in evidence:
        return f"{best.name}: {own}. No score can be estimated for it on the target, so validation alone decided"
    expected = expected_of(evidence[best.name])
    said = f"{best.name}: {told(expected, metric)}; {own}"
    if best.name == first.name:
        return f"{said}. Validation prefers it, and no other candidate is clearly expected to be ahead on the target"
    gain = gain_over(evidence[best.name], evidence[first.name], about)
    ahead = f"{about.scale * gain.value:.{about.digits}f} ± {about.scale * gain.error:.{about.digits}f}{unit}"
    return f"{said}. There it is expected to be {ahead} ahead of {first.name}, which validation prefers"


def told(expected: Expected, metric: str) -> str:
    """What is expected on the target, in words."""
    about = METRICS[metric]
    if expected.low is None or expected.high is None:
        return f"no score is promised on the target ({about.show(expected.score)} is the best guess)"
    between = f"{about.show(expected.low)} to {about.show(expected.high)}"
    return f"expected to score {about.show(expected.score)} on the target † ({between})"


def doubts(best: Candidate, metric: str) -> list[str]:
    """When not to trust the answer, in words."""
    about, found = METRICS[metric], []
    expected = best.expected
    if expected is None:
        found.append("Nothing is known of its score on the target: label some nodes there before you act on it.")
    elif expected.refused:
        of = "" if expected.refused == expected.count else f" ({expected.refused} of {expected.count} estimates)"
        found.append(f"Do not count on its score{of}: {expected.reason}.")
    if expected is not None and about.percent and about.sign * (best.score - expected.score) > _LARGE_LOSS:
        lost = f"{about.scale * abs(best.score - expected.score):.0f} {about.unit}"
        found.append(f"It is expected to lose {lost} against validation: label some nodes of the target to be sure.")
    found.append(
        "An estimate knows what the unlabelled graph shows. If labels mean something else there for the same features "
        "and neighbours, nothing shows it."
    )
    return found

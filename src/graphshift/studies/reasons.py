"""A recommendation in words: why this candidate, and what a reader must know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphshift.data.metrics import METRICS
from graphshift.studies.candidates import EXPLORERS, uses_edges
from graphshift.studies.choosing import EDITED, Candidate, rule_of
from graphshift.studies.remarks import below_simple

if TYPE_CHECKING:
    from graphshift.studies.recommending import Answer, Recommendation
    from graphshift.studies.running import Study

#: By what candidates are compared, and when each counts.
CRITERIA: dict[str, str] = {
    "target": "On the unlabelled target",
    "val": "If future graphs differ from training as the validation graphs and left-out environments do",
    "adversarial_val": "If edges may become misleading",
}

#: Above this share of the largest class a reader is told that accuracy says little.
_ONE_CLASS = 0.9


def reason_of(found: Sequence[Candidate], best: Candidate, metric: str) -> str:
    """Why a candidate is recommended, in words."""
    about, places = METRICS[metric], list(best.places)
    of = places[0] if len(places) == 1 else f"the mean of {places[0]} and {', '.join(places[1:])}"
    score = about.show(best.score) + (f" ± {about.scale * best.error:.{about.digits}f}" if best.error else "")
    unit = f" {about.unit}" if about.unit else ""
    if best is not found[0]:
        behind = f"{about.scale * best.behind:.{about.digits}f}"
        far = "as good as" if not float(behind) else f"{behind}{unit} below"
        why = "and simpler"
        if best.blend:
            why = "and a mean of several models is rarely far behind whatever comes out best on the next graph"
        elif best.arm == found[0].arm:
            why = "and does without that adaptation"
        return f"{best.name}: {score} ({of}). It is {far} {found[0].name}, within one standard error, {why}"
    if len(found) == 1:
        return f"{best.name}: {score} ({of})"
    second = found[1]
    ahead = f"{about.scale * second.behind:.{about.digits}f}"
    error = f" ± {about.scale * second.behind_error:.{about.digits}f}" if second.behind_error else ""
    return f"{best.name}: {score} ({of}), the best; {ahead}{error}{unit} above {second.name}, the next"


def notes_on(study: Study, answer: Answer) -> list[str]:
    """A recommended GNN that is below a simple model in the tests, a model that is below the largest class."""
    plan, rule = study.plan, rule_of(study, "val")
    arms = [arm for arm in study.summary.of_rule(rule) if not arm.is_variant]
    found = below_simple(plan, arms)
    own = next(one for one in answer.candidates if one.name == answer.name)
    plain = [one for one in answer.candidates if not one.blend]
    largest = next((one for one in plain if plan.settings(plan.arm(one.arm))["method"] == "majority"), None)
    if largest is not None and own.name != largest.name and own.score <= largest.score and plan.metric == "accuracy":
        found.append("No candidate is better than always predicting the largest class.")
    if found:
        found += plan.notes
    if largest is not None and plan.metric == "accuracy" and largest.score > _ONE_CLASS:
        found.append(
            f"The largest class has {100 * largest.score:.0f} % of the nodes, so accuracy says little about the "
            "others; metric = balanced_accuracy counts every class alike, and for two classes average_precision or "
            "roc_auc the order of the nodes."
        )
    if study.plan.left_out and len(own.places) == 1:
        found.append("Fits without one training environment failed, so validation alone chose.")
    if answer.adapt is not None and "prior" in answer.adapt and len(own.places) == 1:
        found.append("The score with + prior is a little optimistic: its temperature was fitted to the same nodes.")
    return found


def paragraph(found: Recommendation) -> str:
    """The recommendation in a few sentences."""
    answer, plan = found.answer, found.study.plan
    parts = [f"Use {answer.reason}."]
    if answer.adapt is not None:
        parts.append(f"It uses the unlabelled graph that it predicts: predict with adapt={answer.adapt!r}.")
    explorer = EXPLORERS.get(str(answer.settings.get("explorer", "")))
    backbone = answer.settings.get("backbone")
    if explorer:
        parts.append(f"Its explorer is for {explorer}.")
    elif backbone is not None and not uses_edges(str(backbone)):
        parts.append("It does without edges, so they may mislead here.")
    left = len(found.places) - 1
    parts.append(
        f"Chosen by {'validation' if plan.selections[0] == 'val' else 'held-out training nodes'}"
        + (f" and {left} left-out training environment{'s' * (left > 1)}" if left else "")
        + (", and by what is expected on the unlabelled target" if found.criterion == "target" else "")
        + "; test labels were not used."
    )
    parts += [f"From {one.source} to {one.target}: {one.verdict}" for one in found.moved]
    parts += found.notes
    parts += [f"Predicted for {one.sentence()}" for one in found.target]
    if (other := found.answers.get("adversarial_val")) is not None:
        parts.append(f"{CRITERIA['adversarial_val']} ({EDITED}), use {other.reason}.")
    if found.criterion == "val" and not found.target:
        parts.append("Which shift do you expect? This holds if future graphs differ from training as these do.")
        parts.append("Give the graph that you want to predict as target, without labels, and it decides.")
        if other is None:
            parts.append("If edges may come to mean something else, ask for misleading edges too.")
    return " ".join(parts)


def left_out_words(found: Recommendation) -> list[str]:
    """Which candidates were not tried, and why, in words."""
    return [f"{name}: {why}" for name, why in {**found.dropped, **found.skipped}.items()]

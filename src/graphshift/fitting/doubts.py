"""What a result should not pass without a word: a model that is below the largest class, and why that may be."""

from collections.abc import Mapping
from typing import Any

from graphshift.data.dataset import ShiftDataset
from graphshift.data.diagnosis import remarks
from graphshift.data.metrics import METRICS
from graphshift.estimators import METHODS


def warnings_about(result: Mapping[str, Any], data: ShiftDataset) -> list[str]:
    """Sentences to print below a result; none where nothing is wrong.

    Validation and test environments are looked at whose score is below the share of their largest class: whoever
    always said that class would be better. Nothing is said where the metric cannot be compared with that share.

    Args:
        result: of a fit, as ``result.json`` has it; ``confidence`` holds the accuracy by environment.
        data: what was fitted.
    """
    method = METHODS.find(result["method"])
    if not METRICS.find(result["metric"]).largest_class or result["method"] == "majority":
        return []
    below, texts = [], []
    for role in ("val", "tests"):
        for environment in data.roles[role]:
            score, largest = result["confidence"][role][environment.name]["accuracy"], environment.majority
            if largest is not None and score < largest:
                below.append(environment)
                texts.append(f"{environment.name} ({100 * score:.1f} below {100 * largest:.1f})")
    if not below:
        return []
    shown = ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")
    found = [f"{method.label} is below the largest class (%) in {shown}: always to say that class would be better."]
    found += remarks(data, below, edges=method.uses_backbone)
    if method.uses_backbone:
        found.append(
            "Compare it with models without a GNN on the same columns: --method logistic, --method forest, or "
            "graphshift recommend."
        )
    return found

"""What a study found, in one paragraph."""

from collections.abc import Sequence

from graphshift.data.metrics import METRICS
from graphshift.report.study_tables import rule_label
from graphshift.studies import Summary
from graphshift.studies.remarks import main_rule


def main_rule_of(summary: Summary) -> str:
    """The first rule that is allowed, or the first if none is."""
    return main_rule([entry.rule for entry in summary.selections])


def summary_paragraph(summary: Summary) -> str:
    """What was found, what a reader must not miss, what was skipped and what failed."""
    parts = [headline(summary), *summary.notes]
    if summary.skipped:
        parts.append("Skipped: " + "; ".join(f"{one.what} ({one.reason.rstrip('.')})" for one in summary.skipped) + ".")
    if failed := summary.failed:
        first = f"the first: {failed[0].id}: {failed[0].reason}"
        parts.append(f"{len(failed)} fit{'s' * (len(failed) > 1)} failed; {first}")
    return " ".join(parts)


def headline(summary: Summary) -> str:
    """Who is ahead, in a sentence or two: by the main rule, in the mean test score; without tests on validation."""
    rule = main_rule_of(summary)
    found = [d for arm in summary.of_rule(rule) if (d := arm.difference.main) is not None]
    by = "" if rule == "val" else f"By {rule_label(summary, rule)}: "
    score = "choosing score" if not summary.tests else "test score" if len(summary.tests) == 1 else "mean test score"
    if not found:
        return f"{by}No arm could be compared with another."
    known = [difference for difference in found if difference.low is not None]
    if not known:
        leader = max(found, key=lambda difference: difference.mean)
        metric = METRICS.find(summary.metric)
        return f"{by}{leader.sentence(metric.scale, metric.unit)} Take more seeds to compare."
    ahead = [difference for difference in known if difference.decided and difference.mean > 0]
    behind = [difference for difference in known if difference.decided and difference.mean < 0]
    baselines = list(dict.fromkeys(difference.baseline for difference in found))
    against = baselines[0] if len(baselines) == 1 else "its baseline"
    if not ahead and not behind:
        return f"{by}No significant difference (95 %): no arm is ahead of {against} or behind in the {score}."
    if not ahead:
        share = f"{len(behind)} of {len(found)} {_be(len(behind))} behind"
        return f"{by}No arm is significantly ahead of {against} in the {score}; {share}."
    metric = METRICS.find(summary.metric)
    best = max(ahead, key=lambda difference: difference.mean).sentence(metric.scale, metric.unit)
    if len(found) == 1:
        return by + best
    numbers = {"ahead": len(ahead), "behind": len(behind), "undecided": len(found) - len(ahead) - len(behind)}
    shares = [f"{number} {_be(number)} {word}" for word, number in numbers.items() if number]
    return f"{by}{best} Of {len(found)} comparisons, {_and(shares)}."


def _and(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


def _be(number: int) -> str:
    return "is" if number == 1 else "are"

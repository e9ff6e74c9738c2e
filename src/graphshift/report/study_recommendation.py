"""A recommendation as a table, and as the head of its study's page."""

from collections.abc import Sequence
from dataclasses import replace

from graphshift.data.metrics import METRICS, Metric
from graphshift.report.page import Block, Code, Details, Points, Table, Text
from graphshift.report.shift_tables import blocks_table
from graphshift.report.study_tables import StudyTable, show_spread, test_heads
from graphshift.report.tables import show_score
from graphshift.shift.choosing import RULE
from graphshift.studies.choosing import PREFERENCE, Candidate
from graphshift.studies.reasons import left_out_words, paragraph
from graphshift.studies.recommending import Recommendation
from graphshift.training.selection import LOOKED


def candidate_table(found: Recommendation, criterion: str | None = None) -> StudyTable:
    """Every candidate, the best first: its choosing score, where that comes from, and its test scores.

    With a target first of all what is expected on it.
    """
    criterion = criterion or found.criterion
    on_target = criterion == "target"
    study, answer, metric = found.study, found.answers[criterion], METRICS[found.study.plan.metric]
    summaries = found.summaries(criterion)
    places, tests = list(answer.candidates[0].places), test_heads(study.summary)
    shown = places if len(places) > 1 else []
    rows = []
    for one in answer.candidates:
        own = summaries[one.name]
        name = f"→ {one.name}" if one.name == answer.name else one.name
        score = metric.show(one.score)
        score += f" ± {metric.scale * one.error:.{metric.digits}f}" if one.error else ""
        behind = "–" if not one.behind else f"−{metric.scale * one.behind:.{metric.digits}f}"
        behind += f" ± {metric.scale * one.behind_error:.{metric.digits}f}" if one.behind_error else ""
        row = [
            name,
            *(_expected(one, metric) if on_target else ()),
            score,
            behind,
            *(show_score(one.places[place], metric.name) for place in shown),
        ]
        row += [show_spread(scores, metric.name) for scores in (own.mean_test, own.worst_test)[: len(tests)]]
        rows.append([*row, "–" if own.seconds is None else f"{own.seconds:.1f}"])
    size = found.size
    mean = places[0] if len(places) == 1 else f"mean of {len(places)} places"
    tuned = f"{size.trials} tuning trials" if size.trials else "no tuning"
    nodes = "nodes and " * (criterion != "adversarial_val")
    note = (
        f"→ recommended. {metric.title}. Score: {mean}, ± standard error over {nodes}"
        f"seeds. {size.seeds} seed{'s' * (size.seeds != 1)}, {tuned}, {size.epochs} epochs. "
    )
    note += f"†: {LOOKED}. In brackets: no score is promised. {RULE} Validation: " * on_target + PREFERENCE
    note += " Test labels were not used." if tests else ""
    if any(one.adapt for one in answer.candidates):
        note += " +: uses the unlabelled graph that is predicted."
    columns = ["candidate", *(["expected †", "90 of 100 cases"] if on_target else []), "score" if shown else places[0]]
    columns += ["behind the best", *shown, *tests, "seconds a fit"]
    return StudyTable(f"{study.plan.title}: what to use", columns, rows, note)


def _expected(one: Candidate, metric: Metric) -> list[str]:
    """The expected score on the target, in brackets where none is promised, and its interval."""
    known = one.expected
    if known is None:
        return ["–", "–"]
    if known.low is None or known.high is None:
        return [f"({metric.show(known.score)})", "refused"]
    return [metric.show(known.score), f"{metric.show(known.low)} to {metric.show(known.high)}"]


def short_table(table: StudyTable, most: int = 12) -> StudyTable:
    """The first rows of a table, for a terminal; the last says how many more there are."""
    kept = [row for i, row in enumerate(table.rows) if i < most or row[0].startswith("→")]
    if len(kept) == len(table.rows):
        return table
    more = f"{len(table.rows) - len(kept)} more candidates are on the page. "
    return replace(table, rows=kept, note=more + table.note)


def recommendation_blocks(found: Recommendation, command: str | None = None) -> list[Block]:
    """The head of the page: what to use, how to fit it, and all candidates."""
    table = candidate_table(found)
    best = [i for i, row in enumerate(table.rows) if row[0].startswith("→")]
    blocks: list[Block] = [Text(paragraph(found), lead=True, strong=[found.name])]
    blocks += [Code(command)] if command else []
    blocks.append(Table(table, best=best))
    if found.moved:
        blocks.append(Details("What has moved", [Table(blocks_table(one)) for one in found.moved]))
    if "adversarial_val" in found.answers:
        other = replace(candidate_table(found, "adversarial_val"), title="if edges may become misleading")
        blocks.append(Details("If edges may become misleading", [Table(other)]))
    untried: Sequence[str] = left_out_words(found)
    if untried:
        blocks.append(Details(f"Not tried ({len(untried)})", [Points(untried)]))
    return blocks

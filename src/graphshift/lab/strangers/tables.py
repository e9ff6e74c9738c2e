"""What was recommended to each stranger, beside the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.report.study_tables import StudyTable
from graphshift.studies.progress import duration

#: Points that the recommended model may be below the best reference.
BAR = 0.02


def behind(record: Mapping[str, Any]) -> tuple[str, float]:
    """The best reference, and how far the recommended model is below it: less than 0 if it is above."""
    sign = METRICS[record["metric"]].sign
    best = max(record["references"], key=lambda name: sign * record["references"][name])
    return best, sign * (record["references"][best] - record["chosen"]["test"])


def strangers_tables(records: Sequence[Mapping[str, Any]]) -> list[StudyTable]:
    """For each budget a table, with one row for each case."""
    budgets = sorted({record["budget"] for record in records})
    return [_table([one for one in records if one["budget"] == budget], budget) for budget in budgets]


def _table(records: Sequence[Mapping[str, Any]], budget: float) -> StudyTable:
    rows, missed = [], 0
    for record in records:
        show = METRICS[record["metric"]].show
        name, gap = behind(record)
        late = bool(round(gap, 9) > BAR)  # a difference of floats is not exact
        missed += late
        best = record["best"]
        row = [f"{record['stranger']} {record['draw']}", record["metric"]]
        row += [record["chosen"]["name"], show(record["chosen"]["test"]), name, show(record["references"][name])]
        row += [f"{'> ' * late}{0.0 - 100 * gap:+.1f}", f"{best['name']} ({show(best['test'])})"]
        rows.append(row)
    note = (
        "Mean over tests; test labels were looked at when all was done. > : more than two points below the best "
        f"reference: {missed} of {len(records)}. Best arm: the candidate that is best on the tests, which nobody can "
        "choose."
    )
    columns = ["stranger", "metric", "recommended", "test", "best reference", "its test", "points", "best arm"]
    return StudyTable(f"recommend on strangers' tables, in {duration(budget)}", columns, rows, note)

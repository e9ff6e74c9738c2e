"""The theory as tables: statements, cases, encoders, and Eq. 4 along β."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.report.study_tables import StudyTable

Records = Mapping[str, Any]
#: The case whose encoders and path are shown in full.
MAIN = "spurious"


def theory_tables(records: Records) -> list[StudyTable]:
    """Cases, encoders and the path, from what :func:`graphshift.lab.theory.running.run_theory` gave."""
    main = next(case for case in records["cases"] if case["case"] == MAIN)
    return [cases_table(records["cases"]), encoders_table(main), path_table(main)]


def statements_table(records: Records) -> StudyTable:
    """Every statement with its verdict."""
    rows = [
        [row["place"], row["says"], row["verdict"], row["found"], row["needs"] or "–"] for row in records["statements"]
    ]
    columns = ["place", "the paper says", "as written", "computed", "what it needs"]
    return StudyTable("theory: what holds", columns, rows)


def statements_markdown(records: Records) -> str:
    """The same for a page, with text columns to the left."""
    table = statements_table(records)

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + " --- |" * len(table.columns)
    return "\n".join([f"**{table.title}**", "", line(table.columns), rule, *map(line, table.rows)]) + "\n"


def cases_table(cases: Sequence[Records]) -> StudyTable:
    """What mean, variance and Eq. 4 choose in every case, and how bad the worst environment is."""
    rows = []
    for case in cases:
        erm = next(row for row in case["encoders"] if row["encoder"] == "r and r̄")
        last = case["path"][-1] if case["path"] else None
        rows.append(
            [
                case["case"],
                case["title"],
                case["chosen"]["mean"],
                case["chosen"]["variance"],
                _number(erm["worst"]),
                "–" if last is None else _number(last["worst"]),
                _number(case["ideal"]["worst"]),
                _number(case["minimax"]),
            ]
        )
    least = min((row["beta"] for case in cases for row in case["path"]), default=0.0)
    columns = ["case", "what", "least mean: z", "least variance: z", "worst risk: ERM"]
    columns += [f"Eq. 4, β = {least:.0e}", "f*", "least possible"]
    note = "worst risk: log loss in the worst environment; z with its best classifier, Eq. 4 over all predictors."
    return StudyTable("theory: cases", columns, rows, note)


def encoders_table(case: Records) -> StudyTable:
    """All encoders of a case, from the most informative to the least."""
    rows = [
        [
            row["encoder"],
            *(_number(row[name]) for name in ("information", "gap", "mean")),
            _small(row["variance"]),
            _number(row["worst"]),
            *(_number(row["new"][name]) for name in ("error", "lost", "lost_training", "paper", "repaired")),
        ]
        for row in sorted(case["encoders"], key=lambda row: (-round(row["information"], 9), row["cells"]))
    ]
    columns = ["z", "I(y; z)", "I(y; e | z)", "mean risk", "variance", "worst risk", "OOD error", "I_e'(x; y | z)"]
    columns += ["I_e(x; y | z)", "sum of the lemmas", "bound"]
    note = "z: the inputs r r̄ that are told apart, | between them. Classifier: p(y|z). OOD error: at ρ = 0.1."
    return StudyTable(f"theory: every encoder of {case['case']}", columns, rows, note)


def path_table(case: Records) -> StudyTable:
    """The minimiser of Eq. 4 over all predictors along β, and the encoder that Eq. 4 chooses."""
    rows = [
        [
            f"{row['beta']:.1e}",
            _number(row["mean"]),
            _small(row["variance"]),
            _number(row["worst"]),
            _number(row["information"]),
            f"{max(row['gap'], 0):.5f}",
            *(_number(row[name]) for name in ("error", "paper", "repaired")),
            row["encoder"],
        ]
        for row in case["path"]
    ]
    columns = ["β", "mean risk", "variance", "worst risk", "I(y; ŷ)", "I(y; e | ŷ)", "OOD error", "sum of the lemmas"]
    columns += ["bound", "z chosen"]
    note = "ŷ is drawn from q(y|x). Sum and bound: of z = x. z chosen: among encoders with their best classifier."
    return StudyTable(f"theory: Eq. 4 along β, {case['case']}", columns, rows, note)


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{0.0 if abs(value) < 5e-4 else value:.3f}"


def _small(value: float) -> str:
    return "0" if value < 1e-20 else f"{value:.1e}"

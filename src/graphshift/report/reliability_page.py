"""The page of a model's probabilities: how right they are, and what it costs to answer more."""

from __future__ import annotations

from graphshift.report.figures import can_draw
from graphshift.report.page import Block, Facts, Figure, Section, Table, Text, page
from graphshift.report.reliability_figures import reliability_figure, risk_figure
from graphshift.report.shift_figures import svg_of
from graphshift.report.study_tables import StudyTable
from graphshift.shift.reliability import COLUMNS, PROBABILITIES, Reliability


def reliability_page(found: Reliability, title: str) -> str:
    """The page as HTML.

    Args:
        found: what was measured.
        title: of the model and its data.
    """
    panels = {graph: {kind: [one] for kind, one in kinds.items()} for graph, kinds in found.graphs.items()}
    draw = can_draw()
    calibration: list[Block] = [Table(reliability_table(found))]
    answering: list[Block] = []
    if draw:
        text = "The share of right predictions over their confidence; on the line probabilities are right."
        calibration.append(Figure(svg_of(reliability_figure(panels)), f"{text} In the legend ECE."))
        text = "The share of wrong predictions among the surest, over how many are answered."
        answering.append(Figure(svg_of(risk_figure(panels)), f"{text} In the legend AURC."))
    sections = [Section("Calibration", calibration)]
    sections += [Section("Answering the surest", answering)] if answering else []
    shown = {kind for kinds in found.graphs.values() for kind in kinds}
    means = Section(
        "Which probabilities", [Facts({name: PROBABILITIES[name] for name in PROBABILITIES if name in shown})]
    )
    return page(f"How right are the probabilities? {title}", [*sections, means], lead=[Text(verdict(found), lead=True)])


def verdict(found: Reliability) -> str:
    """What came of it in a sentence or two."""
    kinds = next(iter(found.graphs.values()))
    last = list(kinds)[-1]
    before, after = (
        100 * sum(one[kind].ece for one in found.graphs.values()) / len(found.graphs) for kind in ("raw", last)
    )
    names = list(found.graphs)
    where = f"in the mean over {len(names)} graphs" if len(names) > 1 else f"on {names[0]}"
    text = f"Confidence is {before:.1f} points from accuracy {where}"
    return f"{text}." if last == "raw" else f"{text} as it is, and {after:.1f} points {_WORDS[last]}."


_WORDS = {
    "validation": "with one temperature of validation nodes",
    "target": "calibrated to each graph",
    "moved": "calibrated to each graph on copies that are moved to it",
}


def reliability_table(found: Reliability) -> StudyTable:
    """One row for each graph and kind of probabilities."""
    rows = [[f"{row[2]:,}" if i == 2 else str(cell) for i, cell in enumerate(row)] for row in found.rows()]
    note = "ECE: mean distance of confidence and accuracy, 15 bins. AURC: mean share of wrong ones among the surest."
    return StudyTable("how right probabilities are", COLUMNS, rows, note)

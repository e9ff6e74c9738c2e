"""The page of a comparison: the verdict, a picture of each block that moved, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from graphshift.estimators.estimating import Estimate
from graphshift.report import shift_figures as figures
from graphshift.report.figures import can_draw
from graphshift.report.page import Block as PageBlock
from graphshift.report.page import Details, Facts, Figure, Points, Section, Table, Text, page
from graphshift.report.shift_tables import blocks_table, columns_table, estimates_table, told
from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.compare import Comparison


def shift_page(found: Comparison, remarks: Sequence[str] = (), expected: Estimate | None = None) -> str:
    """The page as HTML.

    Args:
        found: the comparison.
        remarks: caveats beside those of the comparison.
        expected: what a model that was trained on the source is expected to score on the target.
    """
    draw = can_draw()
    table = blocks_table(found)
    moved = [i for i, block in enumerate(found.blocks) if block.moved]
    verdict: list[PageBlock] = [Table(table, best=moved)]
    if draw:
        verdict.append(Figure(figures.overview(found), "Evidence for each block; those that moved are orange."))
    sections = [Section("What moved", verdict)]
    if expected is not None:
        by = estimates_table(expected)
        inside: list[PageBlock] = [Text(told(expected)), Details("every estimate", [Table(by)])]
        sections.append(Section("What your model will score there", inside))
    sections.append(Section("What to do", [Points(found.advice)]))
    sections += [Section(block.name.capitalize(), _told(found, block, draw=draw)) for block in found.moved]
    still = [block for block in found.blocks if not block.moved]
    if still:
        others: list[PageBlock] = [Section(block.name.capitalize(), _told(found, block, draw=draw)) for block in still]
        sections.append(Section("What did not move", [Details("the other blocks", others)]))
    caveats = [f"{b.name}: {text}" for b in found.blocks for text in b.caveats] + [*found.caveats, *remarks]
    if caveats:
        sections.append(Section("Caveats", [Points(caveats)]))
    title = f"{found.source} → {found.target}"
    return page(f"Has the graph moved? {title}", sections, lead=[Text(found.verdict, lead=True)])


def _told(found: Comparison, block: Block, *, draw: bool) -> list[PageBlock]:
    result: list[PageBlock] = [Text(block.says)]
    details = block.details
    if block.name == "features" and details.get("columns"):
        table = columns_table(found)
        result += [Table(table)]
        if draw:
            result.append(
                Figure(figures.columns_figure(details["columns"]), "The columns that moved most, in both graphs.")
            )
    elif block.name == "structure" and "source" in details:
        if draw:
            result.append(Figure(figures.degrees_figure(details), "Nodes by degree."))
        first, second = details["source"], details["target"]
        counts, others = ("nodes", "edges", "components"), ("mean_degree", "clustering", "core_number", "density")
        shown = {name: f"{first[name]:,.0f} → {second[name]:,.0f}" for name in counts}
        names = (*others, "largest_component")
        shown |= {name.replace("_", " "): f"{first[name]:.3g} → {second[name]:.3g}" for name in names}
        result.append(Facts(shown))
    elif block.name == "labels" and "classes" in details and draw:
        result.append(Figure(figures.shares_figure(details), "Class shares in both graphs."))
    elif block.name == "edges" and draw and "classes" in details:
        picture = figures.pairs_figure(details)
        if picture:
            result.append(Figure(picture, "The class of a neighbour (column), given the class of a node (row)."))
    elif "slopes" in details and draw:
        result.append(Figure(figures.similarity_figure(details), "How much neighbours share of a node's features."))
    return result

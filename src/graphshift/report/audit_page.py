"""The page of an audit: the verdict, what is lost when edges or columns are broken, pairs of classes, flips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphshift.report.figures import COLOURS, can_draw, new_figure, plain
from graphshift.report.page import Block, Details, Figure, Points, Section, Table, Text, page
from graphshift.report.shift_figures import svg_of
from graphshift.report.study_tables import StudyTable
from graphshift.shift.auditing.audit import BREAKS, Audit, Leaning
from graphshift.shift.auditing.flipping import Flip

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_SHOWN = 10  # columns, pairs


def audit_page(found: Audit, title: str) -> str:
    """The page as HTML."""
    draw = can_draw()
    edges: list[Block] = [Table(broken_table(found)), Text(broken_table(found).note)]
    if draw:
        edges.append(Figure(svg_of(broken_figure(found)), "The score as it is and with edges broken, graph by graph."))
    shares: list[Block] = [Table(blocks_table(found))]
    if draw:
        shares.append(Figure(_blocks_figure(found), "What edges and blocks of columns add to the score."))
    sections = [Section("Edges", edges), Section("Edges and columns", shares), Section("Columns", _columns(found))]
    if found.leanings[0].pairs:
        sections.append(Section("Classes", [Table(pairs_table(found)), Table(classes_table(found))]))
    if found.flips:
        sections.append(Section("Edits that flip a prediction", _flips(found)))
    if found.notes:
        sections.append(Section("Notes", [Points(found.notes)]))
    return page(f"What does the model lean on? {title}", sections, lead=[Text(found.verdict, lead=True)])


def broken_table(found: Audit) -> StudyTable:
    """The score and what is lost, graph by graph."""
    rows = []
    for one in found.leanings:
        cells = [f"{one.metric.show(r.score)} ({100 * one.lost(name):.0f} %)" for name, r in one.broken.items()]
        rows.append([one.graph, one.metric.show(one.plain.score), *cells])
    title = f"{found.leanings[0].metric.title} when edges are broken"
    note = "In brackets the share of the score that is lost. " + " ".join(f"{k}: {what}." for k, what in BREAKS.items())
    return StudyTable(title, ["graph", "as it is", *BREAKS], rows, note)


def blocks_table(found: Audit) -> StudyTable:
    """Shapley values of edges and blocks of columns."""
    names = list(found.leanings[0].blocks.values)
    rows = [[name, *(_value(one, name) for one in found.leanings)] for name in names]
    first = found.leanings[0]
    how = "Computed exactly." if first.blocks.exact else "Of sampled orders, ± standard error."
    unit = first.metric.unit or "the metric's unit"
    note = f"In {unit}: the part of the score that each brings. Together: the score minus that with all broken. {how}"
    heads = ["what", *(one.graph for one in found.leanings)]
    return StudyTable("what edges and columns bring (Shapley values)", heads, rows, note)


def _value(one: Leaning, name: str) -> str:
    scale, error = one.metric.scale, one.blocks.errors[name]
    return f"{scale * one.blocks.values[name]:+.2f}" + (f" ± {scale * error:.2f}" if error else "")


def columns_table(found: Audit) -> StudyTable:
    """The columns that the model uses most."""
    first = found.leanings[0].columns
    order = sorted(first, key=lambda column: -first[column])[:_SHOWN]
    rows = [[found.column_names[c], *(f"{one.columns[c]:+.4f}" for one in found.leanings)] for c in order]
    note = "By how much the mean loss rises when the column's values are shuffled among the nodes."
    return StudyTable("columns that matter most", ["column", *(one.graph for one in found.leanings)], rows, note)


def moved_table(found: Audit) -> StudyTable:
    """The columns that have moved and that the model uses."""
    rows = [[found.column_names[c], f"{100 * change:.1f}"] for c, change in list(found.moved.items())[:_SHOWN]]
    note = (
        f"From {found.leanings[0].graph} to {found.leanings[-1].graph}. By how much probabilities change on average "
        f"when the column gets its mean and deviation of {found.leanings[0].graph} back. No label is needed."
    )
    return StudyTable("columns that have moved and that the model uses", ["column", "change (%)"], rows, note)


def pairs_table(found: Audit) -> StudyTable:
    """The pairs of classes whose edges matter most."""
    first, names = found.leanings[0].pairs, found.class_names
    order = sorted(first, key=lambda pair: -abs(first[pair]))[:_SHOWN]
    rows = []
    for pair in order:
        cells = [f"{one.pairs[pair]:+.4f}" if pair in one.pairs else "–" for one in found.leanings]
        rows.append([f"{names[pair[0]]} – {names[pair[1]]}", *cells])
    note = "By how much the mean loss rises without the edges that join the two classes."
    return StudyTable("pairs of classes", ["edges between", *(one.graph for one in found.leanings)], rows, note)


def classes_table(found: Audit) -> StudyTable:
    """How often each class is right, and what is left of it when edges are rewired."""
    rows = []
    for i, name in enumerate(found.class_names):
        cells = []
        for one in found.leanings:
            ends = one.plain.by_class[i], one.broken["rewired"].by_class[i]
            cells.append("–" if np.isnan(ends[0]) else f"{100 * ends[0]:.0f} → {100 * ends[1]:.0f}")
        rows.append([name, *cells])
    heads = ["class", *(one.graph for one in found.leanings)]
    return StudyTable("right nodes of each class (%), as it is → edges rewired", heads, rows)


def flips_table(found: Audit, kind: str) -> StudyTable:
    """The smallest edits, node by node."""
    rows = [
        [str(one.node), found.class_names[one.before], found.class_names[one.after], _edit(found, kind, one)]
        for one in sorted(found.flips[kind], key=lambda one: one.size)
    ]
    left = found.unflipped[kind]
    note = f"For {left} other node{'s' if left > 1 else ''} no small edit was found." if left else ""
    what = "edges of the node to add or remove" if kind == "edges" else "columns to set to their mean"
    heads = ["node", "predicted before", "after", "edges: to" if kind == "edges" else "columns"]
    return StudyTable(f"smallest edits that flip a prediction: {what}", heads, rows, note)


def _edit(found: Audit, kind: str, flip: Flip) -> str:
    names = [str(one) if kind == "edges" else found.column_names[one] for one in flip.edits]
    return f"{flip.size}: {', '.join(names[:8])}" + (" …" if len(names) > 8 else "")


def _columns(found: Audit) -> list[Block]:
    result: list[Block] = [Table(columns_table(found))]
    if found.moved:
        result.append(Table(moved_table(found)))
    listed = [
        f"{name}: {', '.join(found.column_names[c] for c in own[:50])}" for name, own in found.block_columns.items()
    ]
    return [*result, Details("the blocks", [Points(listed)])]


def _flips(found: Audit) -> list[Block]:
    return [Table(flips_table(found, kind), words=True) for kind, own in found.flips.items() if own or found.unflipped]


def broken_figure(found: Audit) -> Drawing:
    """The score as it is and with edges broken, graph by graph."""
    figure = new_figure(max(4.5, 2.2 * len(found.leanings)), 2.6)
    axes = figure.subplots()
    names = ["as it is", *BREAKS]
    for k, name in enumerate(names):
        values = [
            one.metric.scale * (one.plain if name == "as it is" else one.broken[name]).score for one in found.leanings
        ]
        axes.bar(np.arange(len(values)) + 0.2 * (k - 1.5), values, width=0.19, color=COLOURS[k], label=name)
    axes.set_xticks(range(len(found.leanings)), [one.graph[:20] for one in found.leanings])
    axes.set_ylabel(found.leanings[0].metric.title)
    axes.legend(frameon=False, fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.2))
    plain(axes, "y")
    return figure


def _blocks_figure(found: Audit) -> str:
    names: Sequence[str] = list(found.leanings[0].blocks.values)
    figure = new_figure(6.0, 0.5 * len(names) + 1.2)
    axes = figure.subplots()
    high = 0.8 / len(found.leanings)
    for k, one in enumerate(found.leanings):
        values = [one.metric.scale * one.blocks.values[name] for name in names]
        errors = [one.metric.scale * one.blocks.errors[name] for name in names]
        places = np.arange(len(names)) + high * (k - (len(found.leanings) - 1) / 2)
        axes.barh(
            places,
            values,
            high,
            xerr=None if one.blocks.exact else errors,
            color=COLOURS[k % len(COLOURS)],
            label=one.graph[:20],
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(f"adds to {found.leanings[0].metric.title}")
    axes.legend(frameon=False, fontsize=7)
    plain(axes, "x")
    return svg_of(figure)

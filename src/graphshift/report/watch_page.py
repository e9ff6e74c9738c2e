"""The page of a watch: when the graph moved, what the model is expected to score, and which snapshots alarmed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.report.figures import COLOURS, can_draw, new_figure, plain
from graphshift.report.page import Block, Facts, Figure, Section, Table, Text, page
from graphshift.report.shift_figures import svg_of
from graphshift.report.study_tables import StudyTable
from graphshift.shift.watching import STATUSES, Snapshot

_SHADES = {"steady": COLOURS[2], "moved": COLOURS[1], "alarm": COLOURS[3], "unseen": "#BBBBBB"}


def watch_page(title: str, found: Sequence[Snapshot]) -> str:
    """The page as HTML.

    Args:
        title: what is watched.
        found: the snapshots in their order.
    """
    table = watch_table(title, found)
    alarms = [i for i, one in enumerate(found) if one.alarms]
    blocks: list[Block] = []
    if can_draw():
        blocks.append(
            Figure(
                svg_of(timeline(found)), "Above: expected scores; × where there is none. Below: the blocks that moved."
            )
        )
    blocks.append(Table(table, best=alarms, words=True))
    means = Section("What a status means", [Facts(STATUSES)])
    return page(f"Watching {title}", [Section("Snapshots", blocks), means], lead=[Text(verdict(found), lead=True)])


def verdict(found: Sequence[Snapshot]) -> str:
    """What came of it, in a few sentences."""
    alarms = [one.id for one in found if one.alarms]
    if alarms:
        text = f"{len(alarms)} of {len(found)} snapshots alarm, the first {alarms[0]}."
    else:
        text = f"No alarm in {len(found)} snapshots."
    known = [one for one in found if one.was_right is not None]
    if known:
        right = sum(bool(one.was_right) for one in known)
        text += f" By labels, which decided nothing: {right} of {len(known)} were right to alarm or to be silent."
    return text


def watch_table(title: str, found: Sequence[Snapshot]) -> StudyTable:
    """One row for each snapshot."""
    metric = METRICS.find(found[0].metric)
    checked = any(one.score is not None for one in found)
    rows = []
    for one in found:
        between = "–" if one.low is None or one.high is None else f"{metric.show(one.low)} to {metric.show(one.high)}"
        expected = "refused" if one.refused else metric.show(one.expected)
        row = [one.id, one.status, f"{one.nodes:,}", ", ".join(one.moved) or "–", expected, between]
        if checked:
            right = {None: "–", True: "yes", False: "no"}[one.was_right]
            row += [metric.show(one.score), right]
        rows.append(row)
    columns = ["snapshot", "status", "nodes", "moved", f"expected {metric.title}", "90 of 100 cases"]
    columns += ["true, afterwards", "right"] if checked else []
    first = found[0]
    held = next((one.held_out for one in found if one.held_out is not None), None)
    unit = f" {metric.unit}" if metric.unit else ""
    note = (
        f"On held-out nodes: {metric.show(held)}. An alarm: something moved, and the score is expected to fall by "
        f"{metric.scale * first.drop:g}{unit} or more, or cannot be estimated. Of snapshots in which nothing has moved "
        f"at most {100 * first.level:g} % alarm."
    )
    return StudyTable(f"watching {title}", columns, rows, note)


def timeline(found: Sequence[Snapshot]) -> Any:
    """Expected scores over the snapshots, with what moved below them."""
    metric, places = METRICS.find(found[0].metric), range(len(found))
    figure = new_figure(max(5.6, 0.5 * len(found) + 2.0), 4.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    held = next((one.held_out for one in found if one.held_out is not None), None)
    if held is not None:
        above.axhline(metric.scale * held, color="#555555", linewidth=1, label="held-out nodes")
        limit = metric.scale * (held - metric.sign * found[0].drop)
        above.axhline(
            limit,
            color="#555555",
            linewidth=1,
            linestyle="--",
            label="alarm below" if metric.sign > 0 else "alarm above",
        )
    for i, one in enumerate(found):
        if one.expected is not None and one.low is not None and one.high is not None:
            low, high = metric.scale * one.low, metric.scale * one.high
            above.vlines(i, low, high, color=_SHADES[one.status], linewidth=2, alpha=0.6)
            above.plot(i, metric.scale * one.expected, "o", color=_SHADES[one.status])
        elif one.held_out is not None:
            above.plot(i, metric.scale * one.held_out, "x", color=_SHADES[one.status])
    truth = [(i, metric.scale * one.score) for i, one in enumerate(found) if one.score is not None]
    if truth:
        above.plot(
            *zip(*truth, strict=True), "D", mfc="none", color="black", markersize=5, label="true score, afterwards"
        )
    for status in dict.fromkeys(one.status for one in found):
        above.plot([], [], "o", color=_SHADES[status], label=status)
    if any(one.expected is None and one.held_out is not None for one in found):
        above.plot([], [], "x", color="#555555", label="cannot be estimated")
    above.set_ylabel(metric.title)
    above.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    plain(above, "y")
    _moved(below, found)
    below.set_xticks(places, [one.id for one in found], rotation=60 if len(found) > 6 else 0, fontsize=8)
    return figure


def _moved(axes: Any, found: Sequence[Snapshot]) -> None:
    """Which blocks moved in which snapshot."""
    names = list(dict.fromkeys(name for one in found for name in one.p))
    for i, one in enumerate(found):
        for j, name in enumerate(names):
            if one.p.get(name) is not None:
                colour = COLOURS[1] if name in one.moved else "#DDDDDD"
                axes.plot(i, j, "s", color=colour, markersize=9)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-0.5, len(found) - 0.5)
    axes.set_ylabel("moved (orange)", fontsize=8)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)

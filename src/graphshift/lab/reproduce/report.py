"""Writes down an item of the paper: tables as text and Markdown, figures as PNG and SVG, and a page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.core.storage import write_text
from graphshift.datasets import load
from graphshift.datasets.statistics import dataset_statistics
from graphshift.estimators.base import METHODS
from graphshift.lab.batches.tables import batches_tables
from graphshift.lab.choosing.tables import choosing_tables
from graphshift.lab.estimate.figure import draw_estimate
from graphshift.lab.estimate.tables import estimate_tables
from graphshift.lab.leaderboard.board import board
from graphshift.lab.leaderboard.coverage import coverage
from graphshift.lab.leaderboard.page import board_page, board_tables
from graphshift.lab.leaderboard.tables import dataset_tables, leaderboard_tables, rule_tables
from graphshift.lab.paper import Experiment, Item
from graphshift.lab.paper.exploring import Explored
from graphshift.lab.paper.figures import draw_exploring
from graphshift.lab.paper.reproducing import Finished, finished, quiet
from graphshift.lab.paper.tables import exploring_table, item_tables, long_table, rates_table
from graphshift.lab.paper.trials import trial_tables
from graphshift.lab.reproduce.figures import draw_item
from graphshift.lab.reproduce.page import item_page
from graphshift.lab.shift.tables import shift_tables
from graphshift.lab.strangers.tables import strangers_tables
from graphshift.lab.theory.figure import draw_theory
from graphshift.lab.theory.tables import statements_markdown, statements_table, theory_tables
from graphshift.lab.toy.figure import draw_toy
from graphshift.lab.toy.table import toy_table
from graphshift.lab.toy.toy import run_toy
from graphshift.lab.trust.figures import draw_trust
from graphshift.lab.trust.tables import trust_tables
from graphshift.report.data_figures import draw_dataset
from graphshift.report.study_tables import StudyTable, markdown_table
from graphshift.report.tables import print_table


def short_tables(item: Item, studies: Sequence[Finished]) -> list[StudyTable]:
    """What a terminal and a page of the docs show of an item."""
    if "methods" in item.shows:
        return leaderboard_tables(studies)
    if "rules" in item.shows:
        return rule_tables(studies)
    if "trials" in item.shows:
        return trial_tables(studies)
    return item_tables(item, studies, tests=False)


def write_item(item: Item, studies: Sequence[Finished], folder: Path) -> list[StudyTable]:
    """Writes the tables, findings and figures of an item whose studies were run; gives the tables for a terminal."""
    place, short = folder / item.name, short_tables(item, studies)
    findings: list[str] = []
    if "methods" in item.shows:
        by_study = {study.experiment.name: dataset_tables(study) for study in studies}
        for name, own in by_study.items():
            _write(own, place, name=name)
        full = [*short, *(table for own in by_study.values() for table in own)]
    elif {"rules", "trials"} & {*item.shows}:
        full = short
    else:
        full = item_tables(item, studies)
        findings = [
            f"{study.experiment.name}, {study.setting}: {finding.text}"
            for study in studies
            for finding in study.summary.findings
        ]
    _write(full, place, findings)
    _write(short, place, name="short")
    figures = draw_item(item, studies, place)
    write_text(place / "report.html", item_page(item, studies, short, full, figures, findings))
    return short


def write_leaderboard(item: Item, experiments: Sequence[Experiment], folder: Path) -> list[StudyTable]:
    """Writes the page with all lines, its short tables, and the tables of the earlier studies that are there."""
    lines = board(folder, experiments)
    if not lines:
        return []
    with_methods = [e for e in experiments if "methods" in e.settings]
    studies = [found for e in with_methods if (found := finished(e, "methods", folder)) is not None]
    earlier = write_item(item, studies, folder) if studies else []
    cells = coverage(folder, experiments, list(METHODS), lines)
    tables = board_tables(lines, cells)
    _write(tables, folder / item.name, name="board")
    write_text(folder / item.name / "board.html", board_page(lines, cells))
    return [*earlier, *tables]


def write_exploring(item: Item, records: Sequence[Explored], folder: Path) -> list[StudyTable]:
    """What explorers that learn do to the variance, beside random ones."""
    least = min(record.steps for record in records)
    usual = [record for record in records if record.steps == least]
    short, long = [rates_table(usual)], [record for record in records if record.steps > least]
    _write([exploring_table(usual)], folder / item.name, name="variance")
    _write(short, folder / item.name, name="rates")
    if long:
        short.append(long_table(long))
        _write(short[1:], folder / item.name, name="long")
    draw_exploring(usual, folder / item.name)
    return short


def write_data_item(item: Item, datasets: Sequence[str], folder: Path, data_dir: Path | None) -> list[StudyTable]:
    """Describes those datasets of an item that are there, in a table or a picture."""
    place = folder / item.name
    place.mkdir(parents=True, exist_ok=True)
    tables = []
    for name, kind in item.data:
        if name not in datasets:
            continue
        options: dict[str, Any] = {**item.options, **({} if data_dir is None else {"data_dir": str(data_dir)})}
        with quiet():
            data = load(name, **options)
        rows = dataset_statistics(data)
        if kind != "table":
            draw_dataset(data, rows, place / f"{item.name}-{name}.png", kind=kind)
        tables.append(_statistics(item, name, data.task.metric, rows))
    _write(tables, place)
    return tables


def write_toy(item: Item, folder: Path, *, quick: bool) -> list[StudyTable]:
    """The motivating example beside its closed forms."""
    place = folder / item.name
    place.mkdir(parents=True, exist_ok=True)
    result = run_toy(200, 100, repeats=3) if quick else run_toy()
    draw_toy(result, place / "toy.png")

    columns, rows = toy_table(result, long=False)
    tables = [StudyTable(f"{item.name}: {item.title}", columns, rows, "readings: see the page on the toy example.")]
    _write(tables, place)
    return tables


def write_theory(item: Item, records: Mapping[str, Any], folder: Path) -> list[StudyTable]:
    """What holds of Section 4, with the numbers behind it."""
    place, tables = folder / item.name, theory_tables(records)
    _write(tables, place)
    write_text(place / "statements.md", statements_markdown(records))
    draw_theory(records, place)
    return [statements_table(records), tables[0]]


def write_shift(item: Item, records: Sequence[Mapping[str, Any]], folder: Path) -> list[StudyTable]:
    """How well shifts are named, and how often where there is none."""
    tables = shift_tables(records)
    _write(tables, folder / item.name)
    return tables


def write_batches(item: Item, records: Sequence[Mapping[str, Any]], folder: Path) -> list[StudyTable]:
    """Whether batches cost score."""
    tables = batches_tables(records)
    _write(tables, folder / item.name)
    return tables


def write_choosing(item: Item, records: Sequence[Mapping[str, Any]], folder: Path) -> list[StudyTable]:
    """What each rule chose, and how far behind the best that is."""
    tables = choosing_tables(records)
    _write(tables, folder / item.name)
    return tables


def write_strangers(item: Item, records: Sequence[Mapping[str, Any]], folder: Path) -> list[StudyTable]:
    """What was recommended on tables as strangers bring them, beside scikit-learn and ERM."""
    tables = strangers_tables(records)
    _write(tables, folder / item.name)
    return tables


def write_trust(item: Item, records: Sequence[Mapping[str, Any]], folder: Path) -> list[StudyTable]:
    """What was promised of predictions, and what came of it."""
    place, tables = folder / item.name, trust_tables(records)
    _write(tables, place)
    draw_trust(records, place)
    return tables


def write_estimate(item: Item, records: Sequence[Mapping[str, Any]], folder: Path) -> list[StudyTable]:
    """How right estimates of a score without labels are, each dataset judged by what the others taught."""
    place, tables = folder / item.name, estimate_tables(records)
    _write(tables, place)
    draw_estimate(records, place)
    return tables


def _statistics(item: Item, name: str, metric: str, rows: Sequence[dict[str, Any]]) -> StudyTable:
    columns = [
        "environment",
        "role",
        "nodes",
        "counted",
        "edges",
        "features",
        "classes",
        "density",
        "mean degree",
        "largest degree",
        "largest class (%)",
        "homophily",
    ]
    cells = [
        [
            row["environment"],
            row["role"],
            f"{row['nodes']:,}",
            f"{row['counted']:,}",
            f"{row['edges']:,}",
            f"{row['features']:,}",
            str(row["classes"]),
            f"{row['density']:.4f}",
            f"{row['average_degree']:.1f}",
            f"{row['maximum_degree']:,}",
            "–" if row["majority"] is None else f"{100 * row['majority']:.1f}",
            "–" if row["homophily"] is None else f"{row['homophily']:.2f}",
        ]
        for row in rows
    ]
    return StudyTable(f"{item.name}: {name} (metric: {metric})", columns, cells)


def _write(tables: Sequence[StudyTable], place: Path, findings: Sequence[str] = (), *, name: str = "table") -> None:
    place.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    for table in tables:
        print_table(table.title, table.columns, table.rows, note=table.note, file=text)
        text.write("\n")
    text.write("".join(f"{finding}\n" for finding in findings))
    write_text(place / f"{name}.txt", text.getvalue())
    parts = [markdown_table(table) for table in tables] + ["\n".join(f"- {finding}" for finding in findings)]
    write_text(place / f"{name}.md", "\n\n".join(filter(None, parts)) + "\n")

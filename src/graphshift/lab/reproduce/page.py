"""The page of an item of the paper: what it claims, what was measured, figures, and how to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.lab.paper import SETTINGS, Item
from graphshift.lab.paper.reproducing import Finished
from graphshift.report.page import Block, Code, Details, Facts, Figure, Points, Section, Table, Text, page
from graphshift.report.study_tables import StudyTable


def item_page(
    item: Item,
    studies: Sequence[Finished],
    short: Sequence[StudyTable],
    full: Sequence[StudyTable],
    figures: Sequence[Path],
    findings: Sequence[str],
) -> str:
    """One self-contained HTML page.

    Args:
        item: which.
        studies: what was run for it.
        short: its tables without a column for each test.
        full: its tables with them.
        figures: its pictures; those that are SVG are shown.
        findings: who is ahead, in words.
    """
    lead: list[Block] = [Text(f"The paper: {item.claim}", lead=True)] if item.claim else []
    used = list(dict.fromkeys(study.setting for study in studies))
    shown = [Figure(path, _caption(path, item)) for path in figures if path.suffix == ".svg"]
    sections = [
        Section("What was measured", [Table(table) for table in short]),
        Section("Settings", [Facts({name: SETTINGS[name] for name in used})]),
        Section("Figures", shown),
        Section("Who is ahead", [Points(findings)]),
        Section("Every test", [Details(table.title, [Table(table)]) for table in full]),
        Section("Where it comes from", [_provenance(studies), Code(f"graphshift reproduce {item.name}")]),
    ]
    return page(f"{item.name}: {item.title}", [s for s in sections if s.blocks], lead=lead)


def _caption(path: Path, item: Item) -> str:
    words = path.stem.removeprefix(f"{item.name}-").replace("-", " ")
    return {
        "tests": "Every test environment; boxes over runs.",
        "spurious": "Training accuracy with all columns, and with the spurious ones zeroed.",
        "generators": "The mean of the tests by the GNN that generates the data.",
        "methods": "How far every arm is ahead of ERM with the same backbone.",
        "variance": "Where the variance of the risks goes during training, by explorer.",
        "rules": "The mean of the tests by the rule that chose epoch and setting.",
    }.get(words, f"{words.capitalize()}: one thing changed at a time.")


def _provenance(studies: Sequence[Finished]) -> Facts:
    found = {}
    for study in studies:
        sessions = study.summary.provenance
        versions = dict.fromkeys(_version(session) for session in sessions)
        counts = study.summary.counts
        runs = f"{counts['run'].done} runs, {counts['trial'].done} trials"
        found[f"{study.experiment.name}, {study.setting}"] = f"{runs}; {'; '.join(versions)}"
    return Facts(found)


def _version(session: Mapping[str, Any]) -> str:
    git = session["git"]
    commit = f", commit {git['commit'][:12]}{' with changes' if git['changed'] else ''}" if git else ""
    return f"graphshift {session['versions']['graphshift']}{commit}, {session['started'][:10]}"

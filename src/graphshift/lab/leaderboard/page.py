"""The leaderboard as one page to sort and filter, and as short tables for the docs and a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from graphshift.data.metrics import METRICS
from graphshift.lab.leaderboard.board import LEAGUES, Line
from graphshift.lab.leaderboard.cells import BASELINE
from graphshift.lab.leaderboard.coverage import Cell, counts_table, coverage_table
from graphshift.report.page import Block, Code, Facts, Points, Section, Table, Text, page
from graphshift.report.study_tables import StudyTable, show_difference, show_spread
from graphshift.report.tables import show_score

#: What a row of the page says; the first names it.
_COLUMNS = (
    *("method", "experiment", "mean test", "against ERM (95 %)", "worst test", "validation", "in-domain limit"),
    *("league", "shift", "dataset", "backbone", "chosen by", "metric", "seconds a fit", "MB", "trials", "runs"),
    *("published (%)", "its data and source"),
)
_FILTERS = ("league", "shift", "dataset", "experiment", "backbone", "chosen by")

#: A difference whose interval leaves out 0, as in the other tables.
_AHEAD, _BEHIND = " ▲", " ▼"

ADD = """GRAPHSHIFT_PLUGINS=mine.py graphshift reproduce leaderboard --methods mine --out board
graphshift reproduce leaderboard --show --out board"""
REST = "graphshift reproduce leaderboard --experiments NAME --methods NAME,NAME --workers 2 --out results"


def board_page(lines: Sequence[Line], cells: Sequence[Cell]) -> str:
    """One self-contained HTML page.

    Args:
        lines: of :func:`~graphshift.lab.leaderboard.board.board`.
        cells: of :func:`~graphshift.lab.leaderboard.coverage.coverage`.
    """
    experiments = list(dict.fromkeys(line.experiment.name for line in lines))
    done = sum(cell.state in ("run", "val") for cell in cells)
    lead: list[Block] = [
        Text(
            f"{len(lines)} lines from {len(experiments)} experiments. In one, every method has the same data, "
            "the same draws and as many tuning trials. Test labels chose nothing.",
            lead=True,
        ),
        Facts({league: f"Seen of the tests: {meaning}." for league, meaning in LEAGUES.items()}),
    ]
    reading = Points(
        [
            "Compare lines of one experiment and one league. † marks those that saw the unlabelled tests in training.",
            "`against ERM`: the paired difference of the mean test score to plain ERM with the experiment's backbone, "
            "chosen on validation, with its 95 % interval, in points; ▲ and ▼ where it leaves out 0. Intervals are not "
            "corrected for the number of comparisons.",
            "`chosen by`: the rule that chose epoch and settings. `target` looks at the unlabelled tests.",
            "`in-domain limit`: ERM with this backbone, cross-validated on the tests' own labels.",
            "`seconds a fit` and `MB` (the most that the process held by then) are of shared machines: a rough guide.",
            "`published`: what a paper reports, with its data. Its settings may have been chosen in other ways.",
        ]
    )
    table = Table(_lines_table(lines), filters=[_COLUMNS.index(name) for name in _FILTERS])
    covered = Table(coverage_table(cells), words=True)
    sections = [
        Section("All lines", [table]),
        Section("How to read it", [reading]),
        Section(
            "What has been run",
            [Text(f"{done} of {len(cells)} pairs of a method and an experiment."), covered, Code(REST)],
        ),
        Section("Add your own method", [Text("With the method in `mine.py`, registered as `mine`:"), Code(ADD)]),
    ]
    return page("Leaderboard", sections, lead=lead)


def _lines_table(lines: Sequence[Line]) -> StudyTable:
    ordered = sorted(lines, key=lambda line: (not line.is_baseline, [*LEAGUES].index(line.league)))
    by_experiment = dict.fromkeys(line.experiment.name for line in lines)
    rows = [_row(line) for name in by_experiment for line in ordered if line.experiment.name == name]
    return StudyTable("methods × experiments", list(_COLUMNS), rows)


def _row(line: Line) -> list[str]:
    one, metric, claim = line.summary, line.metric, line.published
    return [
        line.name,
        line.experiment.name,
        show_spread(one.mean_test, metric),
        _against(line),
        show_spread(one.worst_test, metric),
        show_spread(one.val, metric),
        show_score(line.limit, metric),
        line.league,
        line.shift,
        line.experiment.dataset,
        one.backbone or "none",
        one.selection,
        METRICS.find(metric).title,
        "–" if line.seconds is None else f"{line.seconds:.1f}",
        "–" if one.peak_rss_mb is None else f"{one.peak_rss_mb:.0f}",
        str(line.trials),
        str(one.runs),
        f"{claim.score:.1f}" if claim else "–",
        f"{claim.split}; {claim.source}" if claim else "–",
    ]


def _against(line: Line) -> str:
    return show_difference(line.difference, line.metric)[0] + _mark(line)


def _mark(line: Line) -> str:
    if line.difference is None or not line.difference.decided:
        return ""
    return _AHEAD if line.difference.mean > 0 else _BEHIND


def board_tables(lines: Sequence[Line], cells: Sequence[Cell]) -> list[StudyTable]:
    """A table for each league of the experiments that have cells; then what has been run."""
    run = {cell.experiment for cell in cells if cell.state == "run"}
    shown = [line for line in lines if line.experiment.name in run and not _is_detail(line)]
    leagues = [_league(league, [line for line in shown if line.league == league]) for league in LEAGUES]
    return [*(table for table in leagues if table.rows), counts_table(cells)]


def _is_detail(line: Line) -> bool:
    """A way of using the tests with another method than ERM, or an ensemble: the page has it."""
    return line.summary.ensemble > 1 or (line.summary.adapt is not None and line.summary.method != BASELINE)


def _league(league: str, lines: Sequence[Line]) -> StudyTable:
    found: dict[str, dict[str, str]] = {}
    columns = list(dict.fromkeys(line.experiment.name for line in lines))
    for line in lines:
        by = "" if line.summary.selection == "val" else f", by {line.summary.selection}"
        score = show_score(line.summary.mean_test.mean, line.metric)
        found.setdefault(line.name + by, {})[line.experiment.name] = score + _mark(line)
    limits = {line.experiment.name: show_score(line.limit, line.metric) for line in lines if line.is_baseline}
    if any(limit != "–" for limit in limits.values()):
        found["in-domain limit"] = limits
    rows = [[name, *(own.get(column, "–") for column in columns)] for name, own in found.items()]
    metrics = ", ".join(dict.fromkeys(METRICS.find(line.metric).title for line in lines))
    note = (
        f"Seen of the tests: {LEAGUES[league]}. Mean over tests and runs, {metrics}.{_AHEAD} ahead of,{_BEHIND} behind "
        "plain ERM chosen on validation (paired 95 % interval, not corrected for the number of comparisons)."
    )
    return StudyTable(f"league: {league}", ["arm", *columns], rows, note)

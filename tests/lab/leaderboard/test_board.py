"""The leaderboard's lines: leagues, names, differences between studies, and the page that shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.ledger import Ledger
from graphshift.core.storage import read_json, write_json
from graphshift.data.metrics import METRICS
from graphshift.lab.leaderboard.board import LEAGUES, Line, board
from graphshift.lab.leaderboard.cells import place_of
from graphshift.lab.leaderboard.claims import claim
from graphshift.lab.leaderboard.coverage import coverage
from graphshift.lab.leaderboard.page import board_page, board_tables
from graphshift.lab.leaderboard.running import run_leaderboard
from graphshift.lab.paper import EXPERIMENTS, ITEMS, Size
from graphshift.methods import METHODS
from graphshift.studies import Record, compare, rows_of
from html_reading import cells as cells_of_page
from html_reading import read
from tiny_paper import TINY

ROOT = Path(__file__).resolve().parents[3]
SMALL = replace(TINY, name="small", method_trials=2, data_seeds=3, in_domain=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("board")
    how: dict[str, Any] = {"workers": 0, "threads": 1, "progress": False, "said": lambda text: None}
    run_leaderboard(place, [SMALL], ["erm", "coral", "majority"], Size(), **how)
    return place


def by_name(lines: list[Line]) -> dict[tuple[str, str], Line]:
    return {(line.name, line.summary.selection): line for line in lines}


def test_a_line_stands_in_the_league_of_what_it_saw(folder: Path) -> None:
    lines = by_name(board(folder, [SMALL]))
    assert lines["ERM, gcn", "val"].league == "no target"
    assert lines["ERM, gcn", "target"].league == "target at prediction"
    assert lines["ERM, gcn, + prior", "val"].league == "target at prediction"
    assert lines["CORAL, gcn", "val"].league == "no target"
    assert lines["CORAL to target, gcn †", "val"].league == "target in training"
    assert lines["CORAL to target, gcn, + prior †", "val"].league == "target in training"
    assert {line.league for line in lines.values()} == set(LEAGUES)
    assert [key for key, line in lines.items() if line.is_baseline] == [("ERM, gcn", "val")]
    assert lines["ERM, gcn", "val"].difference is None
    assert lines["ERM, gcn", "val"].limit == lines["CORAL, gcn", "val"].limit is not None


def test_differences_pair_the_runs_of_two_studies(folder: Path) -> None:
    """Computed from the ledgers alone."""
    found = by_name(board(folder, [SMALL]))["Largest class", "val"].difference
    means = {}
    for method in ("erm", "majority"):
        records = Ledger(Record, place_of(folder, SMALL, method) / "results.jsonl").records.values()
        rows = [r for r in records if r.kind == "run" and "val" in r.selections]
        means[method] = {r.data_seed: sum(r.selections["val"].tests.values()) / 2 for r in rows}
    gains = [means["majority"][seed] - means["erm"][seed] for seed in (0, 1, 2)]
    assert found is not None
    assert found.mean == pytest.approx(sum(gains) / 3)
    assert (found.seeds, found.low is not None) == (3, True)


def test_studies_of_other_data_are_not_compared(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "b")
    path = place_of(tmp_path / "b", SMALL, "majority") / "plan.json"
    plan = read_json(path)
    plan["data"]["tests"][0]["sums"][0] *= 1.01
    write_json(path, plan)
    lines = by_name(board(tmp_path / "b", [SMALL]))
    assert lines["Largest class", "val"].difference is None
    assert lines["CORAL, gcn", "val"].difference is not None


def test_the_page_and_the_tables_have_every_line(folder: Path) -> None:
    lines = board(folder, [SMALL])
    cells = coverage(folder, [SMALL], ["erm", "coral", "majority", "irm"], lines)
    page = board_page(lines, cells)
    assert "http" not in page.replace("http://www.w3.org", "")
    assert page.count("<script>") == 1
    table = next(read(page).all("table"))
    found = [[cell.text for cell in (*row.all("th"), *row.all("td"))] for row in table.all("tr")]
    assert len(found) == 1 + len(lines)
    first = dict(zip(found[0], found[1], strict=True))
    assert (first["method"], first["league"], first["shift"]) == ("ERM, gcn", "no target", "planted")
    tables = board_tables(lines, cells)
    assert [table.title for table in tables] == [
        *(f"league: {name}" for name in LEAGUES),
        "how many methods have been run",
    ]
    assert tables[-1].rows[0][1:5] == ["3", "0", "0", "1"]


def test_published_numbers_stand_beside_the_method_that_they_are_of() -> None:
    tar = claim("cbas-concept", "tar", "gcn")
    assert tar is not None
    assert tar.text == "87.3 (GOOD's one draw; as published; the table's paper was not noted)"
    a2gnn = claim("citation-ac", "mmd", "a2gnn")
    assert a2gnn is not None
    assert a2gnn.score == 80.8
    facebook = claim("facebook-hopkins", "eerm", "gcn")
    assert facebook is not None
    assert facebook.score == pytest.approx((50.64 + 56.73 + 55.57) / 3)
    assert facebook.split == "tests Penn94, Brown11, Texas80"
    assert claim("citation-ac", "mmd", "gcn") is claim("pubmed", "tar", "gcn") is None


def shown_line(line: Line) -> tuple[str, ...]:
    """Experiment, name, rule, mean test score and difference, written down anew."""
    scale = METRICS[line.metric].scale
    mean, std = line.summary.mean_test.mean, line.summary.mean_test.std
    assert mean is not None
    score = f"{scale * mean:.1f}" + ("" if std is None else f" ± {scale * std:.1f}")
    d, against = line.difference, "–"
    if d is not None:
        against = f"{scale * d.mean:+.1f}"
        if d.low is not None and d.high is not None:
            against += f" [{scale * d.low:+.1f}, {scale * d.high:+.1f}]"
            against += " ▲" if d.low > 0 else " ▼" if d.high < 0 else ""
    return line.experiment.name, line.name, line.summary.selection, score, against


def test_the_committed_lines_are_those_of_the_committed_studies() -> None:
    """Every finished study of the leaderboard's experiments is on the board, with its own means."""
    experiments = [EXPERIMENTS[name] for name in ITEMS["leaderboard"].experiments]
    lines = {(x.experiment.name, x.summary.arm, x.summary.selection): x for x in board(ROOT / "results", experiments)}
    cells = sorted((ROOT / "results").glob("*/leaderboard/*/summary.json"))
    assert cells
    for path in cells:
        experiment, method = path.parts[-4], path.parts[-2]
        assert method in METHODS
        records = list(Ledger(Record, path.parent / "results.jsonl").records.values())
        assert records
        rows = rows_of(records, "target")
        for arm in {row.arm for row in rows if row.adapt is None}:
            scores = [row.mean for row in rows if row.arm == arm]
            assert lines[experiment, arm, "target"].summary.mean_test.mean == pytest.approx(sum(scores) / len(scores))
    page = read((ROOT / "docs/board.html").read_text(encoding="utf-8"))
    shown = {(row[1], row[0], row[11], row[2], row[3]) for row in cells_of_page(next(page.all("table")))}
    made = {shown_line(line) for line in lines.values()}
    assert made <= shown, "run `make page`"
    old = lines["pubmed", "EERM random, gcn", "val"]
    assert old.difference is not None
    own = [*old.rows, *lines["pubmed", "ERM, gcn", "val"].rows]
    assert old.difference.mean == compare(own, "EERM random, gcn", "ERM, gcn").mean

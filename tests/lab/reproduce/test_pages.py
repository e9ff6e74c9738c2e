"""The pages of results say what results/ holds: every table there is made anew from the fits and compared."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from statistics import fmean, stdev
from types import ModuleType

import pytest

from graphshift.core.ledger import Ledger
from graphshift.lab.leaderboard.tables import dataset_tables
from graphshift.lab.paper import EXPERIMENTS, ITEMS
from graphshift.lab.paper.exploring import explored
from graphshift.lab.paper.reproducing import finished, settings_of
from graphshift.lab.paper.tables import exploring_table, long_table, rates_table
from graphshift.lab.reproduce.report import short_tables
from graphshift.report.study_tables import markdown_table
from graphshift.studies import Record, compare, rows_of
from tiny_studies import row

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"
STUDIES = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.glob("*/*/summary.json"))
#: Differences of the ensemble of all methods, tested on their own below.
COMMITTEE = ("+1.6 [+0.3, +2.9]", "+0.6 [+0.2, +1.1]")
#: Scores of the text that no table has: the paper's own claims, and runs that were not kept.
ELSEWHERE = {"7.0", "7.2", "62.2", "68.8", "50.2", "80.7", "66.2", "69.8", "28.4", "80.9", "87.7"}
SHOWN = [name for name, item in ITEMS.items() if item.experiments and (RESULTS / name / "short.md").exists()]


def fill() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fill", ROOT / "docs/fill.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", fill().PAGES, ids=lambda path: path.name)
def test_a_page_has_the_tables_of_results(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert fill().filled(page) == page, "run `make page`"
    assert page.count("<!-- begin results/") == page.count("<!-- end -->") >= 1


@pytest.mark.parametrize("path", fill().PAGES, ids=lambda path: path.name)
def test_a_page_says_everything_once(path: Path) -> None:
    """No heading and no table is there twice, and every table of a file that is shown is there."""
    page = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ .*$", page, re.MULTILINE)
    assert len(headings) == len(set(headings)) > 0
    shown: dict[str, list[int]] = {}
    for match in fill().BLOCK.finditer(page):
        shown.setdefault(match[1].partition("#")[0], []).extend(fill().tables(match[1]))
    for file, numbers in shown.items():
        assert sorted(numbers) == list(fill().tables(file)), file


@pytest.mark.parametrize("path", fill().PAGES[:2], ids=lambda path: path.name)
def test_scores_in_the_text_are_those_of_the_tables(path: Path) -> None:
    """Every difference with its interval, and every number with one decimal, stands in a table of the page."""
    page = path.read_text(encoding="utf-8").replace("−", "-")
    tables = "\n".join(match[0] for match in fill().BLOCK.finditer(page))
    text = re.sub(r"(?s)^```.*?^```", "", fill().BLOCK.sub("", page), flags=re.MULTILINE)
    intervals = re.findall(r"[+-]\d+\.\d \[[^]]*\]", text)
    assert intervals
    assert [found for found in intervals if found not in tables and found not in COMMITTEE] == []
    score = r"(?<![\d.])\d+\.\d(?![\d.])"
    assert set(re.findall(score, text)) - set(re.findall(score, tables)) <= ELSEWHERE


def test_folded_tables_are_rendered() -> None:
    """Markdown inside HTML needs an extension of its own."""
    assert all('<details markdown="1">' in path.read_text(encoding="utf-8") for path in fill().PAGES[:2])
    assert not any("<details>" in path.read_text(encoding="utf-8") for path in fill().PAGES)
    assert "md_in_html" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_leaderboard_page_has_every_dataset_that_was_run() -> None:
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    shown = {match[1].partition("#")[0] for match in fill().BLOCK.finditer(page)}
    run = [name for name in EXPERIMENTS if (RESULTS / name / "methods/summary.json").exists()]
    assert run
    assert {f"results/leaderboard/{name}.md" for name in run} <= shown


@pytest.mark.parametrize("name", SHOWN)
def test_a_table_is_made_of_the_fits(name: str) -> None:
    item = ITEMS[name]
    studies = [found for e, s in settings_of(item, None) if (found := finished(e, s, RESULTS)) is not None]
    expected = {"short": short_tables(item, studies)}
    if "methods" in item.shows:
        expected |= {study.experiment.name: dataset_tables(study) for study in studies}
    for file, tables in expected.items():
        made = "\n\n".join(map(markdown_table, tables))
        assert (RESULTS / name / f"{file}.md").read_text(encoding="utf-8") == made + "\n", "run `make page`"


def test_the_variance_under_explorers_is_that_of_the_cases() -> None:
    records = explored(RESULTS / "exploring/results.jsonl")
    usual, long = ([r for r in records if (r.steps > 200) == is_long] for is_long in (False, True))
    tables = {"variance": exploring_table(usual), "rates": rates_table(usual), "long": long_table(long)}
    for name, table in tables.items():
        made = markdown_table(table)
        assert (RESULTS / f"exploring/{name}.md").read_text(encoding="utf-8") == made + "\n", "run `make page`"


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_is_finished_and_of_an_experiment(study: str) -> None:
    """Its summary's means are those of its lines."""
    name, setting = study.split("/")
    assert setting in EXPERIMENTS[name].settings
    found = finished(EXPERIMENTS[name], setting, RESULTS)
    assert found is not None
    records = list(Ledger(Record, RESULTS / study / "results.jsonl").records.values())
    rows = {entry.rule: rows_of(records, entry.rule) for entry in found.summary.selections}
    for arm in found.summary.arms:
        own = [row.mean for row in rows[arm.selection] if row.arm == arm.arm]
        assert len(own) == arm.runs > 0
        assert arm.mean_test.mean == pytest.approx(sum(own) / len(own))


@pytest.mark.parametrize("path", fill().PAGES, ids=lambda path: path.name)
def test_every_figure_of_a_page_is_there(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    names = [name for name, _ in fill().FIGURE.findall(page)]
    assert names or path.name in (
        "choose.md",
        "recommend.md",
        "shift.md",
        "scale.md",
        "watch.md",
    )  # tables, and pictures that are not of an item
    assert all((ROOT / "docs/images/reproduction" / name).is_file() for name in names)


def test_the_leaderboard_page_has_the_scores_of_the_ensemble_of_all_methods() -> None:
    place = RESULTS / "twitch-gcn/wide"
    runs = json.loads((place / "committee.json").read_text(encoding="utf-8"))["runs"]
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    rows = [
        row("all", run["tests"], val=run["val"], data_seed=run["data_seed"], seed=run["seed"], metric="roc_auc")
        for run in runs
    ]
    values = [[100 * getattr(one, key) for one in rows] for key in ("val", "mean", "worst")]
    scores = " | ".join(f"{fmean(each):.1f} ± {stdev(each):.1f}" for each in values)
    assert f"| ensemble of all methods | {scores} |" in page
    scored = [*rows, *rows_of(list(Ledger(Record, place / "results.jsonl").records.values()), "val")]
    for other, shown in zip(("ERM, gcn", "ERM, gcn, × 5"), COMMITTEE, strict=True):
        found = compare(scored, "all", other)
        mean, low, high = (f"{100 * value:+.1f}" for value in (found.mean, found.low or 0.0, found.high or 0.0))
        assert f"{mean} [{low}, {high}]" == shown
        assert f"| {other} | {shown} |" in page
    best = max(arm["val"]["mean"] for arm in json.loads((place / "summary.json").read_text(encoding="utf-8"))["arms"])
    lead = 100 * (fmean(run["val"] for run in runs) - best)
    assert f"({lead:.2f} points above the next)" in page  # validation chooses the ensemble

"""The pages of results say what results/ holds: every table there is made anew from the fits and compared."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from statistics import fmean, stdev
from types import ModuleType

import pytest

from graphshift.lab.leaderboard.tables import dataset_tables
from graphshift.lab.paper import EXPERIMENTS, ITEMS
from graphshift.lab.paper.exploring import explored
from graphshift.lab.paper.reproducing import finished, settings_of
from graphshift.lab.paper.tables import exploring_table, rates_table
from graphshift.lab.reproduce.report import short_tables
from graphshift.report.study_tables import markdown_table
from graphshift.studies import compare, flat
from graphshift.studies.ledger import Ledger

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"
STUDIES = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.glob("*/*/summary.json"))
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
    page = path.read_text(encoding="utf-8")
    for said in (re.findall(r"^#+ .*$", page, re.MULTILINE), [match[1] for match in fill().BLOCK.finditer(page)]):
        assert said
        assert len(said) == len(set(said))


def test_the_leaderboard_page_has_every_dataset_that_was_run() -> None:
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    shown = {match[1] for match in fill().BLOCK.finditer(page)}
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
    for name, table in (("variance", exploring_table(records)), ("rates", rates_table(records))):
        made = markdown_table(table)
        assert (RESULTS / f"exploring/{name}.md").read_text(encoding="utf-8") == made + "\n", "run `make page`"


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_is_finished_and_of_an_experiment(study: str) -> None:
    """Its summary's means are those of its lines."""
    name, setting = study.split("/")
    assert setting in EXPERIMENTS[name].settings
    found = finished(EXPERIMENTS[name], setting, RESULTS)
    assert found is not None
    records = list(Ledger(RESULTS / study / "results.jsonl").records.values())
    rows = {entry["rule"]: flat(records, entry["rule"]) for entry in found.summary["selections"]}
    for arm in found.summary["arms"]:
        own = [row["mean"] for row in rows[arm["selection"]] if row["arm"] == arm["arm"]]
        assert len(own) == arm["runs"] > 0
        assert arm["mean_test"]["mean"] == pytest.approx(sum(own) / len(own))


@pytest.mark.parametrize("path", fill().PAGES, ids=lambda path: path.name)
def test_every_figure_of_a_page_is_there(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    names = [name for name, _ in fill().FIGURE.findall(page)]
    assert names
    assert all((ROOT / "docs/images/reproduction" / name).is_file() for name in names)


def test_the_page_has_the_committees_scores() -> None:
    place = RESULTS / "twitch-gcn/wide"
    runs = json.loads((place / "committee.json").read_text(encoding="utf-8"))["runs"]
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    rows = [
        {
            **run,
            "arm": "the committee",
            "metric": "roc_auc",
            "mean": fmean(run["tests"].values()),
            "worst": min(run["tests"].values()),
        }
        for run in runs
    ]
    for label, key in (("validation", "val"), ("mean test", "mean"), ("worst test", "worst")):
        values = [row[key] for row in rows]
        assert f"\n{label} (roc_auc, %): {100 * fmean(values):.1f} ± {100 * stdev(values):.1f}\n" in page
    scored = [*rows, *flat(list(Ledger(place / "results.jsonl").records.values()), "val")]
    for other in ("ERM, gcn", "ERM, gcn, × 5"):
        assert compare(scored, "the committee", other).sentence() in page
    best = max(row["val"]["mean"] for row in json.loads((place / "summary.json").read_text(encoding="utf-8"))["arms"])
    assert best < fmean(run["val"] for run in runs)  # validation chooses the committee

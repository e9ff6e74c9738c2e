"""docs/reproduction.md says what results/ holds: every table there is made anew from the fits and compared."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from graphshift.paper import EXPERIMENTS, ITEMS
from graphshift.paper.exploring import explored
from graphshift.paper.reproducing import finished, settings_of
from graphshift.report.paper_tables import exploring_table, item_tables
from graphshift.report.study_tables import markdown_table

ROOT = Path(__file__).resolve().parent.parent
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


def test_the_page_has_the_tables_of_results() -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert fill().filled(page) == page, "run `make page`"
    assert page.count("<!-- begin results/") == page.count("<!-- end -->") >= 5


@pytest.mark.parametrize("name", SHOWN)
def test_a_table_is_made_of_the_fits(name: str) -> None:
    item = ITEMS[name]
    studies = [found for e, s in settings_of(item, None) if (found := finished(e, s, RESULTS)) is not None]
    made = "\n\n".join(markdown_table(table) for table in item_tables(item, studies, tests=False))
    assert (RESULTS / name / "short.md").read_text(encoding="utf-8") == made + "\n", "run `make page`"


def test_the_variance_under_explorers_is_that_of_the_cases() -> None:
    made = markdown_table(exploring_table(explored(RESULTS / "exploring/results.jsonl")))
    assert (RESULTS / "exploring/variance.md").read_text(encoding="utf-8") == made + "\n", "run `make page`"


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_is_finished_and_of_an_experiment(study: str) -> None:
    """Its summary's means are those of its lines."""
    name, setting = study.split("/")
    assert setting in EXPERIMENTS[name].settings
    found = finished(EXPERIMENTS[name], setting, RESULTS)
    assert found is not None
    for arm in found.summary["arms"]:
        own = [row["mean"] for row in found.of(arm["arm"])]
        assert len(own) == arm["runs"] > 0
        assert arm["mean_test"]["mean"] == pytest.approx(sum(own) / len(own))


def test_every_figure_of_the_page_is_there() -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    names = [name for name, _ in fill().FIGURE.findall(page)]
    assert names
    assert all((ROOT / "docs/images/reproduction" / name).is_file() for name in names)

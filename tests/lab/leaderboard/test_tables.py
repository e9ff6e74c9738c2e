"""Tables and figures of many methods on many datasets, against the runs that they are made from."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from scipy import stats

from graphshift.lab.leaderboard.figures import _curves
from graphshift.lab.leaderboard.tables import dataset_tables, leaderboard_tables, rule_tables
from graphshift.lab.paper import Item
from graphshift.lab.paper.reproducing import Finished
from graphshift.lab.reproduce.report import write_item
from graphshift.studies import Arm, Difference, run_study
from graphshift.studies.summary import ArmSummary, Differences
from tiny_paper import TINY
from tiny_studies import RANDOM, plan
from tiny_studies import TINY as SMALL

ARMS = [
    Arm("ERM, gcn", {"method": "erm", "backbone": "gcn", **SMALL}, {"lr": [0.01, 0.1]}),
    replace(RANDOM, name="EERM random, gcn", settings={**RANDOM.settings, "backbone": "gcn"}),
    Arm("ERM, mlp", {"method": "erm", "backbone": "mlp", **SMALL}),
]


@functools.cache
def methods() -> Finished:
    made = plan(arms=ARMS, seeds=[0, 1, 2], trials=2, in_domain=True, adapt=("norm", "prior"), ensemble=2)
    study = run_study(made, workers=0, threads=1)
    return Finished(TINY, "methods", study.summary, {"val": study.rows()})


@functools.cache
def rules() -> Finished:
    guided = replace(RANDOM, name="EERM gradient, gcn", settings={**ARMS[1].settings, "explorer": "gradient"})
    made = plan(arms=[*ARMS[:2], guided], trials=2, selections=("val", "explored", "id_val", "oracle"))
    study = run_study(made, workers=0, threads=1)
    every = ("val", "explored", "id_val", "oracle")
    return Finished(TINY, "selections", study.summary, {rule: study.rows(rule) for rule in every})


def arm(name: str) -> ArmSummary:
    return next(a for a in methods().summary.arms if a.arm == name)


def test_all_methods_stand_beside_each_other_once() -> None:
    overview, _ = leaderboard_tables([methods()])
    assert overview.columns == ["arm", "tiny"]
    assert [row[0] for row in overview.rows] == [
        "ERM",
        "EERM random",
        "ERM, mlp",
        "in-domain limit",
        "largest class (%)",
    ]
    for name, cell in ((r[0], r[1]) for r in overview.rows[:3]):
        own = [row.mean for row in methods().of(f"{name}, gcn" if "mlp" not in name else name)]
        assert cell.split()[0] == f"{100 * fmean(own):.1f}"


@pytest.mark.parametrize(
    ("gains", "mark"), [([0.10, 0.11, 0.12], " ▲"), ([-0.10, -0.11, -0.12], " ▼"), ([0.1, -0.1, 0.05], "")]
)
def test_a_mark_says_what_is_beyond_chance(gains: list[float], mark: str) -> None:
    found = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    assert bool(mark) == (not found.low < 0 < found.high)
    made = Difference("EERM random, gcn", "ERM, gcn", "mean", fmean(gains), found.low, found.high, 3)
    entries = [
        replace(a, difference=Differences(mean_test=made)) if a.arm == made.arm else a for a in methods().summary.arms
    ]
    overview, _ = leaderboard_tables([replace(methods(), summary=replace(methods().summary, arms=entries))])
    cell = next(row[1] for row in overview.rows if row[0] == "EERM random")
    assert re.fullmatch(r"[\d.]+" + mark, cell)


def test_validation_chooses_and_the_tests_tell_what_it_was_worth() -> None:
    _, choices = leaderboard_tables([methods()])
    assert [row[1] for row in choices.rows] == ["one model", "ensembles too", "unlabelled tests too"]
    kinds = {
        "one model": lambda a: a.ensemble == 1 and a.adapt is None,
        "ensembles too": lambda a: a.adapt is None,
        "unlabelled tests too": lambda a: True,
    }
    for row in choices.rows:
        allowed = [a for a in methods().summary.arms if kinds[row[1]](a)]
        best = max(fmean(r.val or 0.0 for r in methods().of(a.arm)) for a in allowed)
        chosen = [r for r in methods().rows if r.arm == row[2]]
        assert fmean(r.val or 0.0 for r in chosen) == pytest.approx(best)
        assert row[4].startswith(f"{100 * fmean(r.mean for r in chosen):.1f} ±")
        first = {r.record.seed: r.mean for r in methods().of("ERM, gcn")}
        gains = [r.mean - first[r.record.seed] for r in chosen]
        if row[2] == "ERM, gcn":
            assert row[6] == "–"
        else:
            assert row[6].startswith(f"{100 * fmean(gains):+.1f}")


def test_each_dataset_has_its_methods_variants_tests_and_settings() -> None:
    scores, variants, tests, chosen = dataset_tables(methods())
    names = ["ERM, gcn", "EERM random, gcn", "ERM, mlp"]
    limits = ["in-domain limit, gcn", "in-domain limit, mlp"]
    assert [row[0] for row in scores.rows] == names + limits
    assert [row[0] for row in tests.rows] == [*names, *limits, "largest class (%)"]
    assert [row[0] for row in chosen.rows] == names
    assert [row[0] for row in variants.rows] == names
    assert variants.columns == ["arm", "one model", "+ norm", "+ prior", "× 2", "× 2 + norm", "× 2 + prior"]
    by_name = {row[0]: dict(zip(variants.columns, row, strict=True)) for row in variants.rows}
    assert by_name["ERM, mlp"]["+ norm"] == "–"  # it has no batch normalisation
    for column, suffix in (("+ norm", ", + norm"), ("× 2", ", × 2"), ("× 2 + norm", ", × 2, + norm")):
        mean = arm(f"EERM random, gcn{suffix}").mean_test.mean
        assert by_name["EERM random, gcn"][column].startswith(f"{100 * mean:.1f} ±")
    assert "looked at the unlabelled test graphs" in variants.note
    assert all(len(row) == len(t.columns) for t in (scores, variants, tests, chosen) for row in t.rows)


def test_rules_stand_beside_each_other_and_the_oracle_is_marked() -> None:
    overview, table = rule_tables([rules()])
    assert [row[1] for row in overview.rows] == list(dict.fromkeys(row[0] for row in table.rows))
    for row in overview.rows:
        assert row[2:6] == [other[3] for other in table.rows if other[0] == row[1]]
        for key, cell in (("mean", row[6]), ("worst", row[7])):
            ours, theirs = (
                {r.record.seed: getattr(r, key) for r in rules().by_rule[rule] if r.arm == row[1]}
                for rule in ("explored", "val")
            )
            assert cell.startswith(f"{100 * fmean(ours[seed] - theirs[seed] for seed in ours):+.1f}")
    assert [row[1] for row in table.rows[:4]] == ["val", "explored", "id_val", "oracle (not allowed: chosen on tests)"]
    assert len(table.rows) == 12
    for row in table.rows:
        rule = row[1].split(" (")[0]
        ours, theirs = (
            {r.record.seed: r.worst for r in rules().by_rule[rule] if r.arm == name}
            for name in (row[0], "EERM random, gcn")
        )
        gain = fmean(ours[seed] - theirs[seed] for seed in ours)
        assert row[7].startswith(f"{100 * gain:+.1f}") if "gradient" in row[0] else row[7] == "–"
    for row in table.rows:
        entry = next(a for a in rules().summary.arms if a.arm == row[0] and a.selection == row[1].split(" (")[0])
        assert row[3].startswith(f"{100 * entry.mean_test.mean:.1f} ±")


@pytest.mark.parametrize(("shown", "made"), [(("methods", "variance"), methods), (("rules",), rules)])
def test_an_item_is_written_with_its_figures_and_page(shown: tuple[str, ...], made: Any, tmp_path: Path) -> None:
    item = Item("table99", "many methods", experiments=("tiny",), settings=(made().setting,), shows=shown)
    tables = write_item(item, [made()], tmp_path)
    place = tmp_path / "table99"
    names = {path.name for path in place.iterdir()}
    expected = {"table.md", "table.txt", "short.md", "short.txt", "report.html"}
    expected |= {f"table99-{one}.{kind}" for one in shown for kind in ("png", "svg")}
    expected |= {"tiny.md", "tiny.txt"} if "methods" in shown else set()
    assert names == expected
    for table in tables:
        assert table.title in (place / "short.md").read_text()
    page = (place / "report.html").read_text()
    assert tables[0].title in page
    assert page.count("<svg") == len(shown)


def test_curves_are_the_means_of_the_runs() -> None:
    ((name, (epochs, variances)),) = _curves(methods()).items()
    assert name == "EERM random"
    own = [row.curve for row in methods().of("EERM random, gcn")]
    assert epochs == own[0]["epoch"]
    assert variances == pytest.approx([fmean(curve["variance"][i] for curve in own) for i in range(len(epochs))])

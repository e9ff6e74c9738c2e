"""The tables of a study can be read by those who read such files, and show the summary's numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from graphshift.report.study_tables import as_csv, as_latex, as_markdown, as_text, main_tables, study_tables
from graphshift.studies import Summary
from tiny_studies import everything

NOTE = "not allowed: chosen on tests"


@pytest.fixture(scope="module")
def summary() -> Summary:
    return everything().summary


@pytest.fixture
def content() -> dict[str, Any]:
    """One to change."""
    return everything().summary.to_json()


def renamed(name: str) -> Summary:
    """With another name for an arm."""
    return Summary.from_json(json.loads(json.dumps(everything().summary.to_json()).replace("EERM random", name)))


def test_every_number_of_the_main_table_is_the_summarys(summary: Summary) -> None:
    table = main_tables(summary)[0]
    assert table.title == "planted: accuracy (%), epoch and setting chosen by val"
    own = summary.of_rule("val")
    assert [row[0] for row in table.rows] == ["ERM", "EERM random"]
    for row, arm in zip(table.rows, own, strict=True):
        cells = dict(zip(table.columns, row, strict=True))
        for column, key in (("validation", "val"), ("mean test", "mean_test"), ("worst test", "worst_test")):
            assert cells[column] == f"{100 * getattr(arm, key).mean:.1f} ± {100 * getattr(arm, key).std:.1f}"
        assert cells["failed"] == "0"
    difference = own[1].difference.mean_test
    assert difference is not None
    cells = dict(zip(table.columns, table.rows[1], strict=True))
    low, high = 100 * difference.low, 100 * difference.high
    assert cells["mean test against ERM (95 %)"] == f"{100 * difference.mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    assert cells["won–tied–lost"] == f"{difference.wins}–{difference.ties}–{difference.losses}"
    assert cells["p"] == ("< 0.001" if difference.p < 0.001 else f"{difference.p:.3f}")
    assert own[1].gap_closed is not None
    assert cells["gap closed"] == own[1].gap_closed.text
    assert table.note == "3 seeds, ± standard deviation over runs; 3 trials of tuning for each arm; paired t intervals."


def test_the_rule_that_looks_at_tests_is_marked_in_every_table(summary: Summary) -> None:
    for table in study_tables(summary):
        text = " ".join([table.title, *table.columns, *(cell for row in table.rows for cell in row)])
        assert ("oracle" in text) == (NOTE in text)
        assert text.count("oracle") == text.count(NOTE)
    rules = [entry for entry in summary.selections if entry.rule == "oracle"]
    only = replace(summary, selections=rules, arms=summary.of_rule("oracle"))
    assert all(NOTE in " ".join([t.title, *(c for row in t.rows for c in row)]) for t in study_tables(only))
    for row in csv.DictReader(io.StringIO(as_csv(summary))):
        assert row["allowed"] == (f"no ({NOTE})" if row["selection"] == "oracle" else "yes")


def test_csv_has_every_number_in_full(summary: Summary) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(summary))))
    assert len(rows) == len(summary.arms)
    for row, arm in zip(rows, summary.arms, strict=True):
        assert (row["arm"], row["selection"]) == (arm.arm, arm.selection)
        assert float(row["mean_test_mean"]) == arm.mean_test.mean
        assert float(row["T2_std"]) == arm.environments["T2"].std
        assert json.loads(row["chosen"]) == arm.chosen
        if arm.difference.worst_test:
            assert float(row["worst_test_difference_low"]) == arm.difference.worst_test.low


def test_markdown_tables_have_a_cell_for_every_column(summary: Summary) -> None:
    blocks = [block for block in as_markdown(summary).split("\n\n") if block.startswith("| ")]
    assert len(blocks) == len(study_tables(summary))
    for block, table in zip(blocks, study_tables(summary), strict=True):
        lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()]
        assert {len(line) for line in lines} == {len(table.columns)}
        assert [cell.strip() for cell in lines[0]] == list(table.columns)
        assert [[cell.strip() for cell in line] for line in lines[2:]] == [list(row) for row in table.rows]
    assert all(f"- {finding.text}" in as_markdown(summary) for finding in summary.findings)
    piped = as_markdown(renamed("P(y|x)"))
    assert r"| P(y\|x) | " in piped
    assert "| P(y|x)" not in piped


def test_latex_is_balanced_and_escaped(summary: Summary) -> None:
    nasty = renamed("A_1 & 50% #2 {x} ~^ $ β")
    for content in (summary, nasty):
        text = as_latex(content)
        open_: list[str] = []
        for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
            if what == "begin":
                open_.append(name)
            else:
                assert open_.pop() == name
        assert open_ == []
        plain = re.sub(r"\\[\\{}&%$#_]", "", text)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        assert text.isascii()
        for rule in ("toprule", "midrule", "bottomrule"):
            assert text.count(rf"\{rule}") == len(study_tables(content))
        bodies = re.findall(r"\\begin\{tabular\}\{(l?r*)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
        for columns, body in bodies:
            rows = [line for line in body.splitlines() if line.endswith(r"\\")]
            assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns)}
        assert not re.search(r"(?<!\\)[#]", text)
    assert r"A\_1 \& 50\% \#2 \{x\} \textasciitilde{}\textasciicircum{} \$ $\beta$" in as_latex(nasty)


def test_text_has_all_tables_and_findings(summary: Summary) -> None:
    text = as_text(summary)
    for table in study_tables(summary):
        assert table.title in text
        assert table.note in text
        for row in table.rows:
            assert all(cell in text for cell in row)
    assert all(finding.text in text for finding in summary.findings)
    assert all(line == line.rstrip() for line in text.splitlines())
    bracketed = as_text(renamed("arm [red]"))
    assert "arm [red]" in bracketed.split("share of the largest class")[0]  # Rich takes it for a colour


def test_arms_without_runs_and_scores_that_are_no_shares_are_shown(content: dict[str, Any]) -> None:
    nothing = {"mean": None, "std": 0.0}
    content["metric"] = "mse"
    content["arms"][1] |= {
        "val": nothing,
        "choosing": nothing,
        "mean_test": nothing,
        "worst_test": nothing,
        "chosen": None,
        "chosen_score": None,
        "chosen_trials": None,
        "difference": {"mean_test": None, "worst_test": None},
        "gap_closed": None,
        "failed": 2,
        "environments": {"T1": nothing, "T2": nothing},
        "seconds_per_epoch": None,
        "peak_rss_mb": None,
    }
    table = main_tables(Summary.from_json(content))[0]
    assert list(table.rows[1]) == ["EERM random", "–", "–", "–", "–", "–", "–", "2"]
    assert table.rows[0][1] == f"{content['arms'][0]['val']['mean']:.4g} ± {content['arms'][0]['val']['std']:.4f}"
    changed = Summary.from_json(content)
    assert "every trial failed" in as_text(changed)
    for form in (as_csv, as_latex, as_markdown):
        assert form(changed)


def test_data_seeds_and_many_comparisons_are_said(content: dict[str, Any]) -> None:
    content["data_seeds"], content["tuning"] = [0, 1, 2], []
    for arm in content["arms"]:
        arm["runs"] = 6
        if arm["difference"]["mean_test"]:
            arm["difference"]["mean_test"] |= {"unit": "data seeds", "p": 1e-9}
    content["arms"].insert(2, deepcopy(content["arms"][1]))
    table = main_tables(Summary.from_json(content))[0]
    assert table.note == (
        "6 runs (3 data seeds), ± standard deviation over runs; no tuning; paired t intervals over data seeds, "
        "not corrected for 2 comparisons."
    )
    assert "< 0.001" in table.rows[1]
    content["arms"][1]["baseline"] = "EERM random"
    assert "mean test against its baseline (95 %)" in main_tables(Summary.from_json(content))[0].columns


def test_rules_side_by_side_have_a_gap_where_all_runs_of_one_failed(content: dict[str, Any]) -> None:
    content["arms"] = [a for a in content["arms"] if (a["arm"], a["selection"]) != ("EERM random", "id_val")]
    table = main_tables(Summary.from_json(content))[-1]
    cells = dict(zip(table.columns, table.rows[1], strict=True))
    assert cells["mean test, id_val"] == cells["worst test, id_val"] == "–"
    assert cells["mean test, val"] != "–"

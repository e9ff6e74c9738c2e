"""The page of a study has all that the study found, says it honestly, and breaks at nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphshift.report.study_figures import draw_figures
from graphshift.report.study_page import study_page
from graphshift.report.study_report import write_report
from graphshift.report.study_tables import study_tables
from graphshift.studies import Record, Study, Summary, rows_of
from html_reading import Element, cells, check_page
from tiny_studies import everything

NOTE = "not allowed: chosen on tests"
NASTY = "<i>\"&' </table><script>"


def page_of(summary: dict[str, Any]) -> str:
    """The page of the study, had this been its summary; without figures."""
    study = everything()
    return study_page(Study(study.plan, study.records, Summary.from_json(summary)), Path("none"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    assert folder / "report.html" in write_report(everything(), folder)
    return folder


@pytest.fixture(scope="module")
def root(folder: Path) -> Element:
    return check_page((folder / "report.html").read_text())


@pytest.fixture
def summary() -> dict[str, Any]:
    """One to change."""
    return everything().summary.to_json()


def section(root: Element, title: str) -> Element:
    (found,) = [s for s in root.all("section") if next(s.all("h2")).text == title]
    return found


def headline(root: Element) -> str:
    return next(p.text for p in next(root.all("header")).all("p"))


def outcome(summary: dict[str, Any], mean: float, low: float | None, high: float | None, rule: str = "val") -> None:
    """Changes what the arm that is not the baseline reaches by a rule."""
    (arm,) = [arm for arm in summary["arms"] if arm["baseline"] and arm["selection"] == rule]
    (erm,) = [arm for arm in summary["arms"] if not arm["baseline"] and arm["selection"] == rule]
    arm["mean_test"]["mean"] = erm["mean_test"]["mean"] + mean
    arm["difference"]["mean_test"] |= {"mean": mean, "low": low, "high": high}


def only(summary: dict[str, Any], rule: str) -> None:
    """Leaves one rule."""
    summary["selections"] = [entry for entry in summary["selections"] if entry["rule"] == rule]
    for name in ("arms", "findings", "tuning"):
        summary[name] = [entry for entry in summary[name] if entry["selection"] == rule]


def test_every_cell_of_every_table_is_there(root: Element) -> None:
    by_caption = {next(table.all("caption")).text: table for table in root.all("table")}
    assert len(by_caption) == len(list(root.all("table")))
    notes = [p.text for p in root.all("p") if p.attributes.get("class") == "note"]
    for table in study_tables(everything().summary):
        assert cells(by_caption[table.title]) == [list(table.columns), *map(list, table.rows)]
        assert any(note.startswith(table.note) for note in notes)


def test_every_finding_is_there_under_its_rule(root: Element) -> None:
    """Folded: the page opens with a paragraph and a table."""
    findings = everything().summary.findings
    folded = list(section(root, "Scores").all("details"))[-3:]
    for rule, details in zip(("val", "id_val", "oracle"), folded, strict=True):
        label = f"{rule} ({NOTE})" if rule == "oracle" else rule
        own = [f.text.removeprefix(f"By {label}: ") for f in findings if f.selection == rule]
        assert len(own) == 2
        assert [item.text for item in details.all("li")] == own
        assert f"chosen by {label} (2 sentences)" in next(details.all("summary")).text
    assert next(next(root.all("main")).all("h2")).text == "Scores"


def test_every_figure_is_there_under_its_rule(root: Element) -> None:
    for title, kind in (("Test environments", "test environment"), ("Runs", "worst"), ("Tuning and settings", "trial")):
        figures = list(section(root, title).all("figure"))
        captions = [next(figure.all("figcaption")).text for figure in figures]
        assert all(kind in caption for caption in captions)
        assert [rule for c in captions for rule in ("by val", "by id_val", "by oracle") if rule in c] == [
            "by val",
            "by id_val",
            "by oracle",
        ]
        for figure, caption in zip(figures, captions, strict=True):
            assert (NOTE in next(figure.all("svg")).text) == ("oracle" in caption)


def test_the_rule_that_looks_at_tests_is_marked_wherever_it_is_named(root: Element) -> None:
    marked = [strong for strong in root.all("strong") if strong.attributes.get("class") == "warning"]
    assert all(strong.text == NOTE for strong in marked)
    body = [e for tag in ("p", "li", "dt", "td", "th", "caption", "figcaption", "summary") for e in root.all(tag)]
    named = [element for element in body if f"oracle ({NOTE})" in element.text]
    assert len(named) > 10
    assert all(any(strong in marked for strong in element.all("strong")) for element in named)
    assert not [e.text for e in body if "by oracle" in e.text and NOTE not in e.text]
    (rule,) = [row for row in root.all("div") if row.tag == "div" and row.text.startswith("Rule oracle")]
    assert NOTE in [strong.text for strong in rule.all("strong")]


@pytest.mark.parametrize(
    ("mean", "low", "high", "said"),
    [
        (0.05, 0.02, 0.08, "EERM random is ahead of ERM by 5.0 points in the mean test score (95 % interval +2.0 to"),
        (-0.05, -0.08, -0.02, "No arm is significantly ahead of ERM in the mean test score; 1 of 1 is behind."),
        (
            0.05,
            -0.02,
            0.12,
            "No significant difference (95 %): no arm is ahead of ERM or behind in the mean test score.",
        ),
        (0.05, None, None, "EERM random is ahead of ERM by 5.0 points in the mean test score (3 seeds: all differ"),
    ],
)
def test_the_headline_says_who_is_ahead_and_whether_that_is_chance(
    summary: dict[str, Any], mean: float, low: float | None, high: float | None, said: str
) -> None:
    outcome(summary, mean, low, high)
    outcome(summary, 0.3, 0.2, 0.4, rule="oracle")  # says nothing
    root = check_page(page_of(summary))
    assert headline(root).startswith(said)
    best = [row for row in root.all("tr") if row.attributes.get("class") == "best"]
    assert [cells(row)[0][0] for row in best] == (["EERM random"] if low == 0.02 else [])
    assert ("green" in section(root, "Scores").text) == bool(best)


def test_the_best_arm_is_set_off_only_if_it_is_the_best(summary: dict[str, Any]) -> None:
    outcome(summary, 0.05, 0.02, 0.08)
    erm = summary["arms"][0]
    assert (erm["arm"], erm["selection"]) == ("ERM", "val")
    erm["mean_test"]["mean"] += 0.2
    assert 'class="best"' not in page_of(summary)
    summary["higher_is_better"] = False
    assert page_of(summary).count('class="best"') == 1


def test_several_comparisons_are_counted(summary: dict[str, Any]) -> None:
    only(summary, "val")
    outcome(summary, 0.05, 0.02, 0.08)
    more = [deepcopy(summary["arms"][1]) | {"arm": name} for name in ("worse", "same")]
    more[0]["difference"]["mean_test"] |= {"mean": -0.1, "low": -0.2, "high": -0.05}
    more[1]["difference"]["mean_test"] |= {"mean": 0.1, "low": -0.2, "high": 0.4}
    summary["arms"][2:2] = more
    root = check_page(page_of(summary))
    assert headline(root).endswith("Of 3 comparisons, 1 is ahead, 1 is behind and 1 is undecided.")
    assert "not corrected for the number of comparisons" in section(root, "How to read it").text


def test_a_rule_that_is_not_allowed_is_no_headline_without_saying_so(summary: dict[str, Any]) -> None:
    last = summary | {"selections": summary["selections"][::-1]}
    assert headline(check_page(page_of(last))).startswith("By id_val: ")  # the first allowed
    only(summary, "oracle")
    outcome(summary, 0.3, 0.2, 0.4, rule="oracle")
    root = check_page(page_of(summary))
    assert headline(root).startswith(f"By oracle ({NOTE}): EERM random is ahead of ERM by 30.0 points")
    assert 'class="best"' not in page_of(summary)


def test_plan_settings_and_provenance_are_shown(root: Element) -> None:
    facts = {
        name.text: value.text
        for title in ("What was compared", "Where it comes from")
        for name, value in zip(section(root, title).all("dt"), section(root, title).all("dd"), strict=True)
    }
    assert facts["Dataset"] == "planted with nodes=60, environments=4, degree=4.0"
    assert facts["Metric"] == "accuracy (%); higher is better"
    assert facts["Arms"] == "ERM; EERM random (against ERM)"
    assert facts["Test environments"] == "2: T1, T2"
    assert facts["Seeds"] == "3: 0, 1, 2"
    assert facts["Tuning"].startswith("3 trials of tuning for each arm")
    runs = everything().summary.counts["run"].done
    assert facts["Fits"] == f"12 trials, {runs} final runs, 2 in-domain limits; 0 failed"
    (session,) = everything().summary.provenance
    assert facts["Started"].replace(" ", "T", 1) == session["started"].replace("+00:00", " UTC")
    assert all(f"{name} {version}" in facts["Versions"] for name, version in session["versions"].items())
    assert facts["Commit"].startswith(session["git"]["commit"] if session["git"] else "not known")
    tables = {next(table.all("caption")).text: cells(table) for table in root.all("table")}
    assert tables["planted: graphs"][1][:2] == [everything().plan.shapes["train"][0]["name"], "training"]
    settings = {name: values for name, *values in tables["settings by arm"]}
    assert settings["setting"] == ["ERM", "EERM random"]
    assert settings["lr"] == ["{0.01, 0.1}"] * 2
    assert settings["edits_per_node"] == ["–", "{1, 2}"]
    assert settings["epochs"] == ["4", "4"]
    assert settings["views"] == ["–", "2"]
    assert settings["low_memory"] == ["–", "no"]
    assert not {"explorer_lr", "inner_steps", "clip"} & set(settings)  # nothing to anybody here
    assert "No fit failed." in section(root, "Failures").text
    assert "from Python" in section(root, "Run it again").text


def test_failures_sessions_and_the_command_are_shown(summary: dict[str, Any]) -> None:
    summary["failed"] = [{"id": f"run / ERM / seed {i}", "kind": "run", "arm": "ERM", "reason": NASTY} for i in (0, 1)]
    summary["provenance"] *= 2
    summary["provenance"][1] = summary["provenance"][0] | {"command": "graphshift compare planted -o 'a=<b>'"}
    summary["provenance"][1]["git"] = {"commit": "abc", "changed": True}
    root = check_page(page_of(summary))
    (table,) = section(root, "Failures").all("table")
    assert cells(table) == [["fit", "reason"], *([f"run / ERM / seed {i}", NASTY] for i in (0, 1))]
    assert next(table.all("caption")).text == "2 fits failed"
    assert len(list(section(root, "Where it comes from").all("details"))) == 2
    assert "abc, with changes" in section(root, "Where it comes from").text
    assert next(section(root, "Run it again").all("pre")).text == "graphshift compare planted -o 'a=<b>'"


def test_a_study_in_which_nothing_came_of_anything_is_shown(summary: dict[str, Any]) -> None:
    nothing = {"mean": None, "std": 0.0}
    for arm in summary["arms"]:
        arm |= {
            "val": nothing,
            "mean_test": nothing,
            "worst_test": nothing,
            "chosen": None,
            "chosen_score": None,
            "difference": {"mean_test": None, "worst_test": None},
            "gap_closed": None,
            "failed": 2,
            "runs": 0,
            "environments": {"T1": nothing, "T2": nothing},
            "seconds_per_epoch": None,
            "peak_rss_mb": None,
        }
    summary |= {"findings": [], "limits": {}, "majority": {}, "tuning": [], "provenance": [], "data_seeds": [0, 1]}
    root = check_page(page_of(summary))
    assert headline(root) == "No arm could be compared with another."
    assert "Nothing was tuned." in section(root, "Tuning and settings").text
    assert "No run finished." in section(root, "Runs").text
    assert not list(root.all("figure"))


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    study, quoted = everything(), json.dumps(NASTY)[1:-1]

    def renamed(content: dict[str, Any]) -> Any:
        return json.loads(json.dumps(content).replace("EERM random", quoted).replace('"planted"', f'"{quoted}"'))

    content = renamed(study.summary.to_json())
    only(content, "val")
    summary = Summary.from_json(content)
    erm, eerm = study.plan.arms
    plan = replace(study.plan, dataset=NASTY, arms=(erm, replace(eerm, name=NASTY)))
    records = [Record.from_json(renamed(record.to_json())) for record in study.records]
    draw_figures(summary, {"val": rows_of(records, "val")}, tmp_path)
    html = study_page(Study(plan, records, summary), tmp_path)
    root = check_page(html)
    assert "<i>" not in html
    assert NASTY in [name.text for name in section(root, "Scores").all("b")]
    assert next(root.all("h1")).text == f"{NASTY}: 2 arms compared"
    assert any(NASTY in text.text for text in root.all("text"))
    by_caption = {next(table.all("caption")).text: table for table in root.all("table")}
    for table in study_tables(summary):
        assert cells(by_caption[table.title]) == [list(table.columns), *map(list, table.rows)]


def test_the_same_study_gives_the_same_bytes(folder: Path) -> None:
    assert study_page(everything(), folder / "figures") == (folder / "report.html").read_text()

"""``graphshift recommend``: what it prints, that it goes on, and what it refuses."""

from __future__ import annotations

import json
import shlex
from html import escape
from pathlib import Path
from typing import Any

import pytest

from graphshift.cli.recommend import fit_command
from graphshift.studies import recommending, running
from graphshift.studies.budget import Cost, Size, Sizing

DATA = ("planted", "-o", "nodes=60", "-o", "environments=4", "-o", "degree=4.0")
TRIED = ["Largest class", "Logistic regression", "ERM, gcn", "EERM gradient, sage"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four candidates, two epochs, two seeds, in this process, whatever the machine's speed."""
    sizing = Sizing(Size(2, 0, 2), TRIED, {"Boosted trees": "it takes about 3 h, more than is left of the budget"}, 1.0)
    monkeypatch.setattr(running.Session, "_run_in_workers", lambda self, display: self._run_here(display, None))
    monkeypatch.setattr(recommending, "timed", lambda plan, *_, **__: ({arm.name: Cost(0.1) for arm in plan.arms}, {}))
    monkeypatch.setattr(recommending, "fitted_to", lambda *_, **__: sizing)


def test_it_says_what_to_use_and_shows_why(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("recommend", *DATA, "--threads-per-worker", 1, "--out", tmp_path / "r")
    assert answer.status == 0
    assert "4 candidates, 2 seeds, no tuning, 2 epochs; about 1 s of 20 min" in answer.err
    assert "not tried: Boosted trees: it takes about 3 h" in answer.err
    content = json.loads((tmp_path / "r" / "recommendation.json").read_text())
    own = content["answers"]["val"]
    assert f"│ → {own['name']}" in answer.out
    assert f"Use {own['reason']}." in answer.out
    assert f"  {own['command']}" in answer.out
    assert "test labels were not used" in answer.out
    assert "Which shift do you expect?" in answer.out
    assert answer.out.count("┏") == 1  # one table, one paragraph
    page = (tmp_path / "r" / "report.html").read_text()
    assert escape(own["command"]) in page
    assert content["dropped"] == {"Boosted trees": "it takes about 3 h, more than is left of the budget"}
    provenance = json.loads((tmp_path / "r" / "provenance.json").read_text())
    assert provenance["sessions"][0]["threads_per_worker"] == 1


def test_the_same_command_goes_on(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = graphshift("recommend", *DATA, "--out", tmp_path / "r", "--json", "--misleading-edges")
    found = json.loads(first.out)
    assert list(found["answers"]) == ["val", "adversarial_val"]
    assert found["answers"]["val"]["command"].startswith("graphshift fit planted --method ")
    monkeypatch.setattr(recommending, "fitted_to", lambda *_, **__: pytest.fail("timed again"))
    ledger = (tmp_path / "r" / "results.jsonl").read_bytes()
    again = graphshift("recommend", *DATA, "--out", tmp_path / "r", "--json", "--misleading-edges")
    assert "the size of the comparison that is there is kept" in again.err
    assert json.loads(again.out)["answers"] == found["answers"]
    assert (tmp_path / "r" / "results.jsonl").read_bytes() == ledger


def test_the_command_can_be_run(graphshift: Any, tmp_path: Path) -> None:
    settings = {"method": "eerm", "backbone": "sage", "explorer": "gradient", "hidden_channels": 4, "epochs": 2}
    assert fit_command("twitch", {}, None, Path("raw")).endswith(" --data-dir raw")
    line = fit_command("planted", settings, ["nodes=60"], None)
    assert line == (
        "graphshift fit planted --method eerm --backbone sage --explorer gradient --hidden 4 --epochs 2 -o nodes=60"
    )
    assert graphshift(*line.split()[1:], "--out", tmp_path / "run").status == 0


def test_settings_of_every_type_come_through_the_command(graphshift: Any, tmp_path: Path) -> None:
    settings = {
        "method": "eerm",
        "backbone": "gat",
        "backbone_options": {"heads": 2},
        "explorer": "features",
        "explorer_options": {"kind": "shift", "bound": 0.5},
        "low_memory": True,
        "reset_explorers": False,
        "hidden_channels": 4,
        "epochs": 2,
        "selection": "explored",
    }
    line = fit_command("planted", settings, ["nodes=60"], None)
    assert graphshift(*shlex.split(line)[1:], "--out", tmp_path / "run").status == 0
    made = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert {name: made[name] for name in settings} == settings


def test_the_command_holds_beside_a_file_with_other_choices(graphshift: Any, tmp_path: Path) -> None:
    """The file's explorer has settings that the recommended one does not know."""
    (tmp_path / "my.toml").write_text(
        'dataset = "planted"\nexplorer = "gradient"\nedits_per_node = 3\nbackbone = "gat"\nselection = "last"\n'
        "[options]\nnodes = 60\n[explorer_options]\ncandidates = 4\n[backbone_options]\nheads = 2\n"
    )
    settings = {"method": "eerm", "backbone": "sage", "explorer": "features", "epochs": 2, "selection": "val"}
    line = fit_command(str(tmp_path / "my.toml"), settings, None, None)
    answer = graphshift(*shlex.split(line)[1:], "--out", tmp_path / "run")
    assert answer.status == 0, answer.err
    assert "not used with eerm, sage, features" in answer.err
    made = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert {name: made[name] for name in settings} == settings


@pytest.mark.parametrize("text", ["", "soon", "0", "5d", "-3m"])
def test_other_times_are_refused(text: str, graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("recommend", *DATA, f"--budget={text}", "--out", tmp_path / "r")
    assert answer.status == 2
    assert "expected a time, as 90s, 20m or 2h" in answer.err
    assert not (tmp_path / "r").exists()


def test_a_folder_with_something_else_is_left_alone(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "plan.json").write_text("{}")
    answer = graphshift("recommend", *DATA, "--out", tmp_path / "r")
    assert answer.status == 2
    assert "plan.json: field `dataset` is missing; damaged." in answer.err


def test_settings_of_a_file_that_no_arm_has_are_set_aside(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(
        'dataset = "planted"\nmethod = "vrex"\npenalty = 10.0\n[options]\nnodes = 60\nenvironments = 4\n'
    )
    answer = graphshift("recommend", tmp_path / "f.toml", "--out", tmp_path / "r")
    assert answer.status == 0
    assert f"{tmp_path / 'f.toml'}: penalty: not used here: no arm has them" in answer.err
    (tmp_path / "f.toml").write_text('dataset = "planted"\nepochs = "x"\n')
    wrong = graphshift("recommend", tmp_path / "f.toml", "--out", tmp_path / "s")
    assert wrong.status == 2
    assert f"{tmp_path / 'f.toml'}: epochs is 'x'" in wrong.err
    assert "timing" not in wrong.err


@pytest.mark.parametrize("text", ["8760h", "169h", "9" * 400 + "h"])
def test_a_budget_of_a_year_is_refused(text: str, graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("recommend", *DATA, f"--budget={text}", "--out", tmp_path / "r")
    assert answer.status == 2
    assert "expected at most 168h" in answer.err
    assert not (tmp_path / "r").exists()


def test_a_target_gives_one_answer_for_it(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("recommend", *DATA, "--target", "tests", "--committee", "--out", tmp_path / "r")
    assert answer.status == 0, answer.err
    content = json.loads((tmp_path / "r" / "recommendation.json").read_text())
    assert list(content["answers"]) == ["target"]
    assert f"  {content['answers']['target']['command']}" in answer.out
    assert "expected †" in answer.out
    assert "Which shift" not in answer.out
    assert "on the unlabelled target; test labels were not used" in " ".join(answer.out.split())
    wrong = graphshift("recommend", *DATA, "--target", "somewhere", "--out", tmp_path / "s")
    assert wrong.status == 2
    assert "target is 'somewhere'; expected 'tests', or" in wrong.err

"""A cell is one method in one experiment: its arms, its budget, and what is left when it was run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json, write_json
from graphshift.lab.leaderboard.board import board
from graphshift.lab.leaderboard.cells import RULES, WAYS, arms_of, fits_of, place_of, plan_of_cell, run_cell
from graphshift.lab.leaderboard.coverage import coverage
from graphshift.lab.leaderboard.running import run_leaderboard, wanted_experiments, wanted_methods
from graphshift.lab.paper import EXPERIMENTS, ITEMS, Size
from graphshift.methods import METHODS
from tiny_paper import TINY, counted_fits

SMALL = replace(TINY, name="small", method_trials=2, in_domain=False)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_of_the_registry_has_a_cell_of_the_same_size(method: str) -> None:
    made = plan_of_cell(EXPERIMENTS["cbas-concept"], method, Size())
    assert (made.trials, len(made.draws), made.selections) == (8, 10, RULES)
    assert {arm.settings["method"] for arm in made.arms} == {method}
    about = METHODS[method]
    sees = [arm.settings.get("target") for arm in made.arms]
    if getattr(about, "needs_target", False):
        assert set(sees) == {"tests"}
    elif getattr(about, "uses_target", False):
        assert sorted(sees) == ["none", "tests"]
        assert {arm.name for arm in made.arms} == {f"{about.label}, gcn", f"{about.label} to target, gcn"}
    else:
        assert set(sees) == {None}


def test_arms_are_those_that_are_compared_elsewhere() -> None:
    names = {
        method: [arm.name for arm in arms_of(EXPERIMENTS["twitch-gcn"], method)] for method in ("erm", "mmd", "eerm")
    }
    assert names["erm"] == ["ERM, gcn", "ERM, sage", "ERM, mlp"]
    assert names["mmd"] == ["MMD, gcn", "MMD, a2gnn"]
    assert len(names["eerm"]) == 6  # three explorers, two backbones
    (pubmed,) = [arm for arm in arms_of(EXPERIMENTS["pubmed"], "tar") if arm.space]
    assert 0.003 in pubmed.space["lr"]  # as in the experiment's other studies
    assert fits_of(EXPERIMENTS["pubmed"], "tar", Size()) == 8 + 5
    assert fits_of(EXPERIMENTS["pubmed"], "majority", Size()) == 5  # nothing to tune


def test_every_experiment_of_the_leaderboard_has_every_shift_that_is_promised() -> None:
    names = set(ITEMS["leaderboard"].experiments)
    assert {f"citation-{pair}" for pair in ("ac", "ad", "ca", "cd", "da", "dc")} <= names
    assert {
        f"{g}-{by}" for g in ("cora", "photo", "pubmed") for by in ("degree", "popularity", "locality", "density")
    } <= names
    assert {"cbas-concept", "cbas-covariate"} <= names
    with pytest.raises(GraphshiftError, match="Did you mean 'cora-degree'"):
        wanted_experiments("cora-degre", [EXPERIMENTS[name] for name in names])
    with pytest.raises(GraphshiftError, match="--methods: method is 'canett'"):
        wanted_methods("erm, canett")


def test_cells_are_run_once_and_the_baseline_with_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, said = counted_fits(monkeypatch), []
    how = {"workers": 0, "threads": 1, "progress": False, "said": said.append}
    run_leaderboard(tmp_path, [SMALL], ["vrex"], Size(), **how)
    assert said == ["leaderboard: small, erm", "leaderboard: small, vrex"]
    assert len(done) == 2 * (2 + 2)
    run_leaderboard(tmp_path, [SMALL], ["vrex", "majority"], Size(), **how)
    assert said[2:] == ["leaderboard: small, majority"]
    assert len(done) == 2 * (2 + 2) + 2
    lines = board(tmp_path, [SMALL])
    states = {
        cell.method: cell.state for cell in coverage(tmp_path, [SMALL], ["erm", "vrex", "majority", "irm"], lines)
    }
    assert states == {"erm": "run", "vrex": "run", "majority": "run", "irm": "missing"}
    with pytest.raises(GraphshiftError, match="another"):  # a folder of another size is not taken for this one
        run_leaderboard(tmp_path, [SMALL], ["vrex"], Size(trials=1), **how)


def test_a_cell_that_an_earlier_version_began_is_continued_with_its_own_ways(tmp_path: Path) -> None:
    how = {"workers": 0, "threads": 1, "progress": False}
    run_cell(SMALL, "majority", tmp_path, Size(), **how)
    study = place_of(tmp_path, SMALL, "majority")
    plan = read_json(study / "plan.json")
    assert plan["adapt"] == list(WAYS)
    write_json(study / "plan.json", {**plan, "adapt": ["norm", "prior"]})
    run_cell(SMALL, "majority", tmp_path, Size(), **how)  # not refused as another study
    assert read_json(study / "plan.json")["adapt"] == ["norm", "prior"]
    run_cell(SMALL, "majority", tmp_path, Size(), force=True, **how)
    assert read_json(study / "plan.json")["adapt"] == list(WAYS)


def test_a_method_that_cannot_be_there_says_why(tmp_path: Path) -> None:
    said: list[str] = []
    graphs = replace(EXPERIMENTS["planted-motif"], data_seeds=1, options={"graphs": 30})
    how = {"workers": 0, "threads": 1, "progress": False, "said": said.append}
    run_leaderboard(tmp_path, [graphs], ["erm", "canet"], Size.quick(), **how)
    assert "left out: " in said[-1]
    (cell,) = [c for c in coverage(tmp_path, [graphs], ["canet"], board(tmp_path, [graphs])) if c.method == "canet"]
    assert (cell.state, cell.seconds) == ("refused", None)
    assert "canet" in cell.reason


def test_a_missing_cell_takes_as_long_as_elsewhere(tmp_path: Path) -> None:
    """By hand: fits × ERM's time here × the method's time beside ERM's there."""
    how = {"workers": 0, "threads": 1, "progress": False, "said": lambda text: None}
    other = replace(SMALL, name="other")
    run_leaderboard(tmp_path, [SMALL], ["erm", "vrex"], Size(), **how)
    run_leaderboard(tmp_path, [other], ["erm"], Size(), **how)
    lines = board(tmp_path, [SMALL, other])
    times: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        if not line.summary.adapt:  # one line by each rule
            times.setdefault((line.experiment.name, line.summary.method), []).append(line.seconds or 0.0)
    mean = {key: sum(values) / 2 for key, values in times.items()}
    (cell,) = coverage(tmp_path, [other], ["vrex"], lines)
    expected = 4 * mean["other", "erm"] * mean["small", "vrex"] / mean["small", "erm"]
    assert cell.seconds == pytest.approx(expected)

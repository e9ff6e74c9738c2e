"""``graphshift compare``: from options to a plan, and what it says at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphshift.backbones import BACKBONES
from graphshift.cli.app import app
from graphshift.core.errors import GraphshiftError
from graphshift.explorers import EXPLORERS
from graphshift.methods import METHODS
from graphshift.studies import Plan, paper_space, rule_names, running
from graphshift.studies.pool import Pool

WIDE = {"COLUMNS": "300", "TERM": "dumb"}
TINY = (
    "compare",
    "planted",
    "-o",
    "nodes=60",
    "-o",
    "environments=4",
    "--methods",
    "erm,eerm",
    "--explorers",
    "random",
    "--backbones",
    "gcn",
    "--seeds",
    2,
    "--tune",
    2,
    "--set",
    "epochs=2",
    "--set",
    "views=2",
    "--set",
    "hidden=4",
    "--no-in-domain",
    "--threads-per-worker",
    1,
)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits in this process: starting workers takes seconds, and they have tests of their own."""
    monkeypatch.setattr(running.Session, "_run_in_workers", lambda self, display: self._run_here(display, None))


@pytest.fixture
def planned(graphshift: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """The plan that arguments make; it is not run."""
    made: list[Plan] = []

    def stop(plan: Plan, *_: Any, **__: Any) -> None:
        made.append(plan)
        raise GraphshiftError("planned")

    monkeypatch.setattr("graphshift.studies.run_study", stop)

    def plan(*arguments: object) -> Plan:
        assert "planned" in graphshift("compare", *arguments).err
        return made[-1]

    return plan


@pytest.mark.usefixtures("here")
def test_a_study_is_printed_and_written(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*TINY, "--out", tmp_path / "s")
    assert (answer.status, answer.err) == (0, "planted: 0 of 8 fits done\n")
    assert {path.name for path in (tmp_path / "s").iterdir()} == {
        "plan.json",
        "results.jsonl",
        "provenance.json",
        "summary.json",
        "table.txt",
        "table.md",
        "table.tex",
        "table.csv",
        "figures",
        "report.html",
    }
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    for arm in summary["arms"]:
        (line,) = [line for line in answer.out.splitlines() if f"│ {arm['arm']} " in line]
        assert f"{100 * arm['mean_test']['mean']:.1f} ± {100 * arm['mean_test']['std']:.1f}" in line
        assert line in (tmp_path / "s" / "table.txt").read_text()
    assert len(summary["findings"]) == 2
    assert all(finding["text"] in (tmp_path / "s" / "table.txt").read_text() for finding in summary["findings"])
    assert "Take more seeds to compare." in answer.out  # one paragraph, one table
    assert answer.out.count("┏") == 1
    assert str(tmp_path / "s" / "report.html") in answer.out
    assert summary["provenance"][0]["command"].endswith("--out s")
    again = graphshift(*TINY, "--out", tmp_path / "s", "--json")
    assert (again.status, again.err) == (0, "")
    assert json.loads(again.out) == summary


@pytest.mark.usefixtures("here")
def test_failures_are_told_and_a_study_of_nothing_else_is_an_error(graphshift: Any, tmp_path: Path) -> None:
    small = (
        "compare",
        "planted",
        "-o",
        "nodes=60",
        "--methods",
        "erm",
        "--seeds",
        1,
        "--threads-per-worker",
        1,
        "--no-in-domain",
    )
    wild = ("--set", "lr=1e6", "--set", "epochs=60", "--tune", 0)
    answer = graphshift(*small, *wild, "--out", tmp_path / "s")
    assert answer.status == 2
    assert "no run finished; the first failure, run / ERM / val / data 0 / seed 0" in answer.err
    assert "training was stopped" in answer.err
    space = tmp_path / "space.toml"
    space.write_text("lr = [1e6, 0.01]\n")
    answer = graphshift(*small, "--space", space, "--tune", 2, "--set", "epochs=60", "--out", tmp_path / "t")
    assert answer.status == 0
    assert "1 fit failed; the first: trial / ERM / val / trial" in answer.out
    assert "--retry-failed" in answer.out


def test_ctrl_c_says_how_to_go_on(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Pool] = []

    def interrupted(self: Pool, seconds: float) -> None:
        seen.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Pool, "wait", interrupted)
    answer = graphshift(*TINY, "--out", tmp_path / "s", "--workers", 2, "--force")
    assert answer.status == 130
    assert answer.err.splitlines()[-1].startswith("graphshift: stopped with 0 of 8 fits done; they are kept. ")
    assert answer.err.rstrip().endswith(f"graphshift {' '.join(map(str, TINY))} --out {tmp_path / 's'} --workers 2")
    assert len(seen[0].workers) == 2
    assert all(worker.process.poll() is not None for worker in seen[0].workers)  # nobody is left running


def test_options_make_the_plan(planned: Callable[..., Plan]) -> None:
    shared = ("epochs=100", "layers=3", "views=4", "explorer_lr=0.5")
    plan = planned(
        "planted",
        *(
            "--methods",
            "erm,eerm",
            "--backbones",
            "gcn,gat",
            "--explorers",
            "reinforce, gradient",
            "--seeds",
            20,
            "--data-seeds",
            3,
        ),
        *("--selections", "val,oracle", "--option", "nodes=500", "--no-in-domain"),
        *(word for setting in shared for word in ("--set", setting)),
    )
    assert [arm.name for arm in plan.arms] == [
        f"{name}, {backbone}" for backbone in ("gcn", "gat") for name in ("ERM", "EERM reinforce", "EERM gradient")
    ]
    assert plan.arms[0].settings == {"method": "erm", "backbone": "gcn", "epochs": 100, "num_layers": 3}
    assert plan.arms[1].settings["explorer_lr"] == 0.5
    assert "explorer_lr" not in plan.arms[2].settings
    assert plan.arms[0].space == {"lr": paper_space({"method": "erm"})["lr"]}
    assert "explorer_lr" not in (plan.arms[1].space or {})  # it is given
    assert (plan.seeds, plan.data_seeds) == (tuple(range(20)), (0, 1, 2))
    assert (plan.trials, plan.selections, plan.in_domain, plan.options) == (
        24,
        ("val", "oracle"),
        False,
        {"nodes": 500},
    )


def test_a_toml_file_gives_data_and_shared_settings(tmp_path: Path, planned: Callable[..., Plan]) -> None:
    (tmp_path / "fit.toml").write_text(
        'dataset = "planted"\nmethod = "erm"\nseed = 3\nhidden = 4\nbeta = 2.0\n[options]\nnodes = 60\n'
    )
    plan = planned(tmp_path / "fit.toml", "--methods", "erm,eerm", "--set", "hidden=5", "-o", "degree=4.0")
    assert (plan.dataset, plan.options) == ("planted", {"nodes": 60, "degree": 4.0})
    assert plan.arms[0].settings == {"method": "erm", "hidden_channels": 5}
    assert plan.arms[1].settings["beta"] == 2.0


def test_settings_of_a_toml_file_that_make_arms_are_named(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "fit.toml").write_text('dataset = "planted"\nmethod = "erm"\nseed = 3\n')
    answer = graphshift("compare", tmp_path / "fit.toml", "--methods", "magic")
    assert "fit.toml: method, seed: not used here; give --methods, --seeds." in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "magic"], "--methods has 'magic'; expected one of "),
        (["--methods", ","], "--methods is empty; expected one of "),
        (["--methods", "erm,eermm"], "Did you mean 'eerm'?"),
        (["--backbones", "gcn,resnet"], "--backbones has 'resnet'; expected one of "),
        (["--explorers", "random,gradeint"], "Did you mean 'gradient'?"),
        (["--selections", "last"], "--selections has 'last'; expected one of explored, id_val, oracle, target, val"),
        (["--set", "epochs"], "--set is 'epochs'; expected NAME=VALUE"),
        (["--set", "speed=1"], "--set: speed is not a setting; expected one of "),
        (["--set", "seed=1"], "--set: seed differs between arms or runs; give --seeds."),
        (["--set", "backbone=gcn"], "--set: backbone differs between arms or runs; give --backbones."),
        (["--set", "epochs=0"], "--set: epochs is 0; it should be greater than or equal to 1."),
        (["--methods", "erm", "--set", "beta=1.0"], "beta: no arm uses it; leave it out."),
        (["--space", "gone.toml"], "gone.toml: there is no such file."),
        (["--space", "gone.toml", "--tune", 0], "there is no such file"),
        (["-o", "seed=1", "--data-seeds", 2], "data_seeds: the dataset's option `seed` is given as well"),
        (["-o", "colour=red"], "dataset 'planted' has no option 'colour'"),
        (["--data-dir", "."], "--data-dir: dataset 'planted' is built in and reads no files"),
    ],
)
def test_mistakes_are_one_message_and_leave_nothing(
    arguments: list[Any], message: str, graphshift: Any, files_of: Callable[[Path], dict[str, bytes]], tmp_path: Path
) -> None:
    answer = graphshift("compare", "planted", "-o", "nodes=60", *arguments, "--out", tmp_path / "s")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("graphshift: ")
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert files_of(tmp_path) == files_of(Path.cwd()) == {}
    assert not (tmp_path / "s").exists()


def test_a_space_without_tuning_is_refused(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("lr = [0.1]")
    answer = graphshift("compare", "planted", "--space", tmp_path / "space.toml", "--tune", 0)
    assert answer.status == 2
    assert "--space: with --tune 0 nothing is tuned; leave one of them out." in answer.err


@pytest.mark.usefixtures("here")
def test_a_fixed_setting_that_is_also_in_an_own_space_is_refused(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("lr = [0.1]")
    answer = graphshift("compare", "planted", "--space", tmp_path / "space.toml", "--set", "lr=0.1")
    assert answer.status == 2
    assert "lr is fixed and also in its space; keep one." in answer.err


def test_variants_are_planned(planned: Callable[..., Plan], graphshift: Any) -> None:
    plain = planned("planted")
    assert (plain.adapt, plain.ensemble) == ((), 1)
    assert planned("planted", "--adapt", "norm, norm+prior").adapt == ("norm", "norm+prior")
    assert planned("planted", "--ensemble", 3).ensemble == 3
    assert "adapt is 'mean'; expected norm, prior" in graphshift("compare", "planted", "--adapt", "norm,mean").err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--explorers", "random", "--set", "explorer_options={candidates=5}"),
            "arm 'EERM random': explorer 'random' has no option 'candidates'",
        ),
        (
            ("--explorers", "mixed", "--backbones", "mlp"),
            "arm 'EERM mixed, mlp': explorer 'mixed' follows the risk along edges, and backbone 'mlp' uses none",
        ),
        (("--explorers", "features", "--set", "explorer_options={kind=[1]}"), "explorer kind is [1]; expected one of"),
        (("--set", "epochs=x"), "--set: epochs is 'x'"),
    ],
)
def test_a_study_of_which_every_arm_would_fail_is_refused_first(
    options: tuple[str, ...], expected: str, graphshift: Any, tmp_path: Path
) -> None:
    answer = graphshift("compare", "planted", "-o", "nodes=60", "--methods", "eerm", *options, "--out", tmp_path / "s")
    assert answer.status == 2
    assert expected in answer.err
    assert not (tmp_path / "s").exists()


@pytest.mark.usefixtures("here")
def test_an_arm_that_cannot_be_is_skipped_and_the_others_are_compared(graphshift: Any, tmp_path: Path) -> None:
    small = ("-o", "nodes=60", "-o", "environments=3", "--seeds", 1, "--tune", 0, "--set", "epochs=2", "--no-in-domain")
    arms = ("--methods", "erm,eerm", "--explorers", "random", "--backbones", "gcn,mlp", "--threads-per-worker", 1)
    answer = graphshift("compare", "planted", *small, *arms, "--out", tmp_path / "s")
    assert answer.status == 0
    assert "Skipped: EERM random, mlp (explorer 'random' edits edges, and backbone 'mlp' uses none)." in answer.out
    assert "worst test" not in answer.out  # there is one test environment: nothing is shown twice
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    assert [arm["arm"] for arm in summary["arms"]] == ["ERM, gcn", "EERM random, gcn", "ERM, mlp"]
    assert [one["what"] for one in summary["skipped"]] == ["EERM random, mlp"]
    assert "EERM random, mlp" in (tmp_path / "s" / "report.html").read_text()


def test_simple_models_are_compared_unless_others_are_asked_for(planned: Callable[..., Plan]) -> None:
    names = ["Largest class", "Logistic regression", "Random forest", "ERM", "EERM reinforce"]
    plan = planned("planted")
    assert [arm.name for arm in plan.arms] == names
    assert plan.resample
    named = planned("planted", "--methods", "vrex,groupdro,erm", "--backbones", "gcn")
    assert [arm.name for arm in named.arms] == ["V-REx, gcn", "GroupDRO, gcn", "ERM, gcn"]


def test_a_space_of_a_gnn_leaves_simple_models_theirs(planned: Callable[..., Plan], tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("lr = [0.1]\n[forest]\nmin_samples_leaf = [1, 2]\n")
    found = {arm.name: arm.space for arm in planned("planted", "--space", tmp_path / "space.toml").arms}
    assert found["ERM"] == {"lr": [0.1]}
    assert found["Random forest"] == {"min_samples_leaf": [1, 2]}
    assert "c" in (found["Logistic regression"] or {})
    assert found["Largest class"] == {}


def test_help_lists_the_names_that_are_allowed() -> None:
    lines = {
        line for line in CliRunner().invoke(app, ["compare", "--help"], env=WIDE).output.splitlines() if "--" in line
    }
    for flag, names in (
        ("--methods", METHODS),
        ("--backbones", BACKBONES),
        ("--explorers", EXPLORERS),
        ("--selections", rule_names()),
    ):
        (line,) = (line for line in lines if f"{flag} " in line)
        assert all(re.search(rf"[ ,]{name}\b", line) for name in names)

"""``graphshift bench``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench_small import TINY, results_with
from graphshift.cli.app import app
from graphshift.lab.bench import memory
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import Measurement
from graphshift.lab.bench.parts import CHECKED, PARTS
from graphshift.lab.bench.sizes import SIZES


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "quick", TINY)
    held = {"before": 1, "peak": 3_000_001, "explorers": 1_000_000, "load": 3, "fit": 2, "pandas": 1}
    held |= dict.fromkeys(("divide", "epoch", "busy", "predict", "edges", "seen", "nodes", "compare"), 1)
    monkeypatch.setattr(memory, "run_child", lambda *_: held)
    monkeypatch.delenv("GRAPHSHIFT_DATA", raising=False)


def found(value: float, *, higher: bool = False) -> Any:
    """A part that measures one number."""

    def run(bench: Bench) -> None:
        bench.measured("a", "the thing", value, bar=2.0, higher_is_better=higher)

    return run


def test_the_whole_suite_runs_and_is_written(graphshift: Any, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    answer = graphshift("bench", "--quick", "--out", out, "--data-dir", tmp_path, "--threads", 1)
    assert answer.status == 0
    results = json.loads((out / "results.json").read_text())
    assert list(results["parts"]) == list(PARTS)
    assert [part["failures"] for part in results["parts"].values()] == [[]] * len(PARTS)
    assert results["about"]["threads"] == 1
    names = {"results.json", "results.md"} | {f"curves-{n}.{s}" for n in ("nodes", "others") for s in ("png", "svg")}
    assert {path.name for path in out.iterdir()} == names
    assert str(tmp_path) not in (out / "results.json").read_text()
    for word in ("EERM step, random, 60 nodes, over the floor", "skipped: the files of twitch", "Fitted exponents"):
        assert word in answer.out
        assert word in (out / "results.md").read_text()
    assert answer.out.endswith(f"results.json, results.md, plots written to {out}\n")
    assert answer.err.splitlines()[0] == "floor: EERM's step over the work that cannot be avoided …"


def test_parts_can_be_run_alone_and_json_is_what_is_written(graphshift: Any) -> None:
    answer = graphshift("bench", "--quick", "--only", "exponent", "--only", "floor", "--json")
    assert answer.status == 0
    results = json.loads(answer.out)
    assert list(results["parts"]) == ["floor", "exponent"]
    assert results == json.loads(Path("bench-output/results.json").read_text())


def test_nothing_is_overwritten_without_being_asked(graphshift: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphshift.lab.bench.bars.floor.run", found(1.0))
    run = ("bench", "--quick", "--only", "floor")
    assert graphshift(*run).status == 0
    before = Path("bench-output/results.json").read_bytes()
    monkeypatch.setattr("graphshift.lab.bench.bars.floor.run", found(1.5))
    answer = graphshift(*run)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("graphshift: bench-output: exists; nothing was changed.")
    assert Path("bench-output/results.json").read_bytes() == before
    assert graphshift(*run, "--force").status == 0
    assert Path("bench-output/results.json").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--only", "flour"],
            "--only is 'flour'; expected one of bars, curves, backbones, explorers, floor, gradient, exponent, million",
        ),
        (["--data-dir", "nowhere"], "--data-dir: there is no folder nowhere."),
        (["--check", "nowhere.json"], "nowhere.json: there is no such file."),
        (["--out", "/dev/null/bench"], "/dev/null/bench: cannot be made: Not a directory."),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(arguments: list[str], message: str, graphshift: Any) -> None:
    answer = graphshift("bench", *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"graphshift: {message}")
    assert not list(Path.cwd().iterdir())


def test_ctrl_c_writes_what_was_measured(graphshift: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(bench: Bench) -> None:
        bench.measured("b", "half", 1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("graphshift.lab.bench.bars.floor.run", found(1.0))
    monkeypatch.setattr("graphshift.lab.bench.bars.gradient.run", found(1.0))
    monkeypatch.setattr("graphshift.lab.bench.bars.exponent.run", stopped)
    answer = graphshift("bench", "--quick", "--only", "bars")
    assert answer.status == 130
    told = "stopped in part exponent; what was measured before is written to bench-output."
    assert answer.err.splitlines()[-1] == f"graphshift: {told}"
    results = json.loads(Path("bench-output/results.json").read_text())
    assert (list(results["parts"]), results["stopped"]) == (["floor", "gradient", "exponent"], "exponent")
    assert "It was stopped in part exponent." in Path("bench-output/results.md").read_text()


def test_ctrl_c_before_anything_was_measured_leaves_nothing(graphshift: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(bench: Bench) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphshift.lab.bench.bars.floor.run", stopped)
    answer = graphshift("bench", "--quick", "--only", "floor")
    assert answer.status == 130
    assert answer.err.endswith("stopped in part floor; nothing was written.\n")
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize(
    ("new", "higher", "status", "words"),
    [
        (1.2, False, 0, ["20 % worse", "fine", "nothing is over 25 % worse."]),
        (1.3, False, 1, ["30 % worse", "too much", "1 of 1 are over 25 % worse."]),
        (0.7, True, 1, ["43 % worse", "too much"]),
        (1.5, True, 0, ["33 % better", "fine"]),
    ],
)
def test_a_check_compares_with_committed_results(
    new: float, higher: bool, status: int, words: list[str], graphshift: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = results_with(
        Measurement("a", "the thing", 1.0, bar=2.0, higher_is_better=higher), Measurement("b", "another", 1.0, bar=2.0)
    )
    Path("committed.json").write_text(json.dumps(committed))
    monkeypatch.setattr("graphshift.lab.bench.bars.floor.run", found(new, higher=higher))
    run = ("bench", "--quick", "--only", "floor", "--check", "committed.json")
    answer = graphshift(*run)
    assert answer.status == status
    for word in [*words, "1.00×", f"{new:.2f}×", "not compared: another (not in the new run)", "of another CPU"]:
        assert word in answer.out
    assert [path.name for path in Path.cwd().iterdir()] == ["committed.json"]  # nothing is kept without --out
    answer = graphshift(*run, "--json")
    assert answer.status == status
    assert json.loads(answer.out)["passed"] is (status == 0)
    assert graphshift(*run, "--out", "kept").status == status
    assert json.loads(Path("kept/results.json").read_text())["parts"]["floor"]


def test_a_check_runs_the_smaller_bars(graphshift: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    for name in PARTS:
        monkeypatch.setattr(f"graphshift.lab.bench.{PARTS[name].module}.run", lambda bench, name=name: ran.append(name))
    Path("committed.json").write_text(json.dumps(results_with(Measurement("a", "the thing", 1.0, bar=2.0))))
    answer = graphshift("bench", "--check", "committed.json")
    assert ran == list(CHECKED)
    assert answer.status == 2  # a check that compares nothing must not pass
    assert "committed.json: has no measurement in common with this run; nothing was compared." in answer.err


def test_it_explains_itself() -> None:
    answer = CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert answer.exit_code == 0
    for option in ("--quick", "--only", "--out", "--threads", "--data-dir", "--check", "--force", "--json"):
        assert option in answer.output

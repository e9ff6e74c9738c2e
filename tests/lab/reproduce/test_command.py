"""``graphshift reproduce``: runs what it can, continues where it stopped, shows what a folder has."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.datasets import DATASETS
from graphshift.lab.paper import EXPERIMENTS, ITEMS, SETTINGS, Item, Published, exploring, reproducing
from graphshift.lab.paper import tables as paper_tables
from graphshift.lab.reproduce import report as paper_report
from graphshift.report import study_report
from graphshift.studies import resolved, running
from tiny_paper import FAIR_FITS, ITEM, PUBLISHED_FITS, counted_fits, install, records

HERE = ("--workers", 0, "--threads-per-worker", 1)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures and no study's own report: both take seconds, and have tests of their own."""
    monkeypatch.setattr(study_report, "write_report", lambda study, folder: [])
    monkeypatch.setattr(paper_report, "draw_item", lambda item, studies, folder: [])
    monkeypatch.setattr(paper_report, "draw_exploring", lambda records, folder: [])


def no_data(*_: Any, **__: Any) -> None:
    raise GraphshiftError("somebody reads data")


def test_an_item_is_run_and_then_shown_from_its_folder(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, item=replace(ITEM, settings=("published",)))
    monkeypatch.setattr(paper_tables, "PUBLISHED", (Published("tiny", "ERM, gcn", "somebody", {}, 51.94),))
    done = counted_fits(monkeypatch)
    answer = graphshift("reproduce", "fig99", *HERE, "--out", tmp_path / "r")
    assert answer.status == 0
    assert "fig99: tiny, published\n" in answer.err
    assert len(done) == PUBLISHED_FITS
    assert answer.out.startswith("The paper: EERM is above ERM.\n")
    assert answer.out.rstrip().endswith(f"fig99: tables and figures in {tmp_path / 'r' / 'fig99'}")
    study = tmp_path / "r" / "tiny" / "published"
    assert {"plan.json", "results.jsonl", "summary.json", "table.txt", "figures"} <= {p.name for p in study.iterdir()}
    written = {path.name for path in (tmp_path / "r" / "fig99").iterdir()}
    assert {"table.txt", "table.md"} <= written
    for shown in ("tests", "spurious", "generators"):
        for kind in ("png", "svg"):
            assert (tmp_path / "r" / "fig99" / f"fig99-{shown}.{kind}").stat().st_size > 1000
    summary = json.loads((study / "summary.json").read_text())
    text, markdown = ((tmp_path / "r" / "fig99" / f"table.{kind}").read_text() for kind in ("txt", "md"))
    for arm in summary["arms"]:
        mean = f"{100 * arm['mean_test']['mean']:.1f} ± {100 * arm['mean_test']['std']:.1f}"
        (line,) = [line for line in markdown.splitlines() if line.startswith(f"| published | {arm['arm']} |")]
        assert f"| {mean} |" in line
        assert mean in text
        assert mean in answer.out
    assert "| somebody | ERM, gcn | – | – | 51.9 |" in markdown
    assert summary["findings"]
    assert all(finding["text"] in text and finding["text"] in markdown for finding in summary["findings"])

    monkeypatch.setattr(running, "data_of", no_data)
    monkeypatch.setattr(resolved, "load", no_data)
    again = graphshift("reproduce", "fig99", "--show", "--out", tmp_path / "r", "--data-dir", tmp_path / "none")
    assert (again.status, again.out, again.err) == (0, answer.out, "")
    assert (tmp_path / "r" / "fig99" / "table.md").read_text() == markdown
    assert len(done) == PUBLISHED_FITS


@pytest.mark.usefixtures("undrawn")
def test_the_same_command_continues(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    done = counted_fits(monkeypatch)
    first = graphshift("reproduce", "fig99", "--settings", "published", *HERE, "--out", tmp_path)
    assert (first.status, len(done)) == (0, PUBLISHED_FITS)
    show = graphshift("reproduce", "fig99", "--show", "--out", tmp_path)
    assert show.status == 0
    assert show.err == f"graphshift: note: fig99: tiny, fair: not finished in {tmp_path}; run it without --show.\n"
    whole = graphshift("reproduce", "fig99", *HERE, "--out", tmp_path)
    assert (whole.status, len(done)) == (0, PUBLISHED_FITS + FAIR_FITS)
    assert len(set(done)) == len(done)
    again = graphshift("reproduce", "fig99", *HERE, "--out", tmp_path)
    assert (again.status, again.out, len(done)) == (0, whole.out, PUBLISHED_FITS + FAIR_FITS)
    assert graphshift("reproduce", "fig99", "--show", "--out", tmp_path).out == whole.out
    forced = graphshift("reproduce", "fig99", "--settings", "published", *HERE, "--out", tmp_path, "--force")
    assert (forced.status, len(done)) == (0, 2 * PUBLISHED_FITS + FAIR_FITS)


@pytest.mark.usefixtures("undrawn")
def test_quick_is_small_and_has_a_folder_of_its_own(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, seeds=7, data_seeds=9)
    answer = graphshift("reproduce", "fig99", "--settings", "published", "--quick", *HERE, "--out", tmp_path)
    assert answer.status == 0
    assert {path.name for path in tmp_path.iterdir()} == {"quick"}
    found = records(tmp_path / "quick" / "tiny" / "published")
    assert {(r["data_seed"], r["seed"]) for r in found} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {r["settings"]["epochs"] for r in found} == {10}
    assert graphshift("reproduce", "fig99", "--show", "--out", tmp_path).status == 2  # nothing in full
    assert graphshift("reproduce", "fig99", "--show", "--quick", "--out", tmp_path).out == answer.out


@pytest.mark.usefixtures("undrawn")
def test_options_say_how_much(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, trials=5)
    given = ("--settings", "fair", "--seeds", 2, "--data-seeds", 1, "--trials", 1)
    assert graphshift("reproduce", "tiny", *given, *HERE, "--out", tmp_path).status == 0  # an experiment by its name
    found = records(tmp_path / "tiny" / "fair")
    assert sum(r["kind"] == "trial" for r in found) == 3
    assert {(r["data_seed"], r["seed"]) for r in found if r["kind"] == "run"} == {(0, 0), (0, 1)}


@pytest.mark.usefixtures("undrawn")
def test_failed_fits_do_not_stop_it(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = replace(ITEM, settings=("published", "paper"))
    install(monkeypatch, item=item, erm={"lr": 1e6}, common={"epochs": 60, "hidden_channels": 4}, data_seeds=1)
    answer = graphshift("reproduce", "fig99", *HERE, "--out", tmp_path)
    assert answer.status == 0
    status = {r["arm"]: r["status"] for r in records(tmp_path / "tiny" / "published")}
    assert status == {"ERM, gcn": "failed", "EERM, gcn": "ok"}
    assert {r["status"] for r in records(tmp_path / "tiny" / "paper")} == {"ok"}


def test_pictures_of_failures_can_be_drawn(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study in which one arm failed, and one in which every fit did."""
    monkeypatch.setattr(study_report, "write_report", lambda study, folder: [])
    wild = {"epochs": 60, "hidden_channels": 4}
    item = replace(ITEM, settings=("published",))
    install(monkeypatch, item=item, erm={"lr": 1e6}, common=wild, data_seeds=1)
    assert graphshift("reproduce", "fig99", *HERE, "--out", tmp_path / "some").status == 0
    assert (tmp_path / "some" / "fig99" / "fig99-tests.svg").is_file()
    eerm = {"views": 2, "edits_per_node": 1, "beta": 1.0, "lr": 1e6, "explorer_lr": 0.01}
    install(monkeypatch, item=item, eerm=eerm, erm={}, common=wild, data_seeds=1)
    answer = graphshift("reproduce", "fig99", *HERE, "--out", tmp_path / "all")
    assert (answer.status, "Traceback" in answer.err) == (0, False)
    assert "| published | EERM, gcn | – |" in (tmp_path / "all" / "fig99" / "table.md").read_text()


@pytest.mark.parametrize("more", [[], ["--quick"], ["--show"]], ids=["full", "quick", "show"])
def test_absent_data_are_told_and_skipped(more: list[str], graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    answer = graphshift("reproduce", "fig5", *more, "--data-dir", tmp_path / "data", "--out", tmp_path / "r")
    assert (answer.status, answer.out) == (2, "")
    notes = [line for line in answer.err.splitlines() if line.startswith("graphshift: note: ")]
    if more == ["--show"]:
        for experiment in ("elliptic-sage", "elliptic-gprgnn"):
            for setting in ("published", "paper", "fair"):
                (line,) = [line for line in notes if f"fig5: {experiment}, {setting}: " in line]
                assert "not finished in" in line
    else:  # once, however many studies need them
        (line,) = notes
        assert "fig5: skipped: " in line
        assert "files of elliptic are not in" in line
    assert answer.err.rstrip().endswith("fig5: nothing of it can be shown here; see the notes above.")
    assert not (tmp_path / "r").exists()


def test_a_table_of_absent_data_is_told(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("reproduce", "table4", "--data-dir", tmp_path, "--out", tmp_path / "r")
    assert (answer.status, answer.out) == (2, "")
    assert "note: table4: skipped: 21 of 21 files of twitch are not in" in answer.err


@pytest.mark.usefixtures("undrawn")
def test_what_is_there_is_run_beside_what_is_absent(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = replace(ITEM, experiments=("elliptic-sage", "tiny"), settings=("published",))
    install(monkeypatch, item=item)
    monkeypatch.setenv("GRAPHSHIFT_DATA", str(tmp_path))
    answer = graphshift("reproduce", "fig99", *HERE, "--out", tmp_path / "r")
    assert answer.status == 0
    assert "note: fig99: skipped: " in answer.err
    assert "fig99: tiny, accuracy" in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fig1"], ["ITEM is 'fig1'", "all, list", *ITEMS, *EXPERIMENTS]),
        (["leaderbord"], ["Did you mean 'leaderboard'?"]),
        (["benchmark"], ["graphshift reproduce leaderboard"]),
        (["fig2", "--settings", "fair,best"], ["--settings has 'best'", *SETTINGS]),
        (["fig2", "--seeds", 0], ["--seeds"]),
    ],
)
def test_mistakes_name_what_is_allowed_and_leave_nothing(
    arguments: list[Any],
    words: list[str],
    graphshift: Any,
    files_of: Callable[[Path], dict[str, bytes]],
    tmp_path: Path,
) -> None:
    answer = graphshift("reproduce", *arguments, "--out", tmp_path / "r")
    assert (answer.status, answer.out) == (2, "")
    assert all(word in answer.err for word in words)
    assert "Traceback" not in answer.err
    assert files_of(tmp_path) == files_of(Path.cwd()) == {}


def test_the_list_has_every_item_and_says_what_is_absent(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("reproduce", "list", "--data-dir", tmp_path)
    assert answer.status == 0
    rows = {line.split("│")[1].strip(): line for line in answer.out.splitlines() if line.startswith("│")}
    assert set(ITEMS) <= set(rows)
    for item in ITEMS.values():
        datasets = {EXPERIMENTS[name].dataset for name in item.experiments} | {name for name, _ in item.data}
        if len(datasets) == 1:
            made = "data_dir" not in DATASETS[next(iter(datasets))].options
            assert made or next(iter(datasets)) in rows[item.name].split("│")[-2]
    assert rows["toy"].split("│")[-2].strip() == "–"
    assert all(f"{name}: {text}" in answer.out for name, text in SETTINGS.items())


def test_the_toy_needs_no_data(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(*arguments: int, repeats: int) -> Any:
        assert (arguments, repeats) == ((200, 100), 3)
        return run_toy(60, 5, repeats=2)

    run_toy = paper_report.run_toy
    monkeypatch.setattr(paper_report, "run_toy", small)
    answer = graphshift("reproduce", "toy", "--quick", "--out", tmp_path)
    assert (answer.status, answer.err) == (0, "")
    assert "closed form" in answer.out
    written = {path.name for path in (tmp_path / "quick" / "toy").iterdir()}
    assert {"table.txt", "table.md", "toy.png"} <= written


def test_exploring_is_run_and_shown(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_report, "write_report", lambda study, folder: [])
    item = Item("exploring", "does it work?", experiments=("tiny",), settings=("explorers",))
    install(monkeypatch, item=item, data_seeds=1)
    monkeypatch.setattr(exploring, "DATASETS", {"planted": {"nodes": 60, "environments": 3}, "elliptic": {}})
    for name, value in (("_EPOCHS", 2), ("_RANDOM_DRAWS", 3), ("_RATES", (0.1, 1.0))):
        monkeypatch.setattr(exploring, name, value)
    given = ("reproduce", "exploring", "--quick", "--seeds", 1, "--data-seeds", 1, "--out", tmp_path)
    monkeypatch.setenv("GRAPHSHIFT_DATA", str(tmp_path / "none"))
    answer = graphshift(*given, *HERE)
    assert answer.status == 0
    assert "note: exploring: skipped: " in answer.err
    assert "files of elliptic are not in" in answer.err
    place = tmp_path / "quick" / "exploring"
    found = records(place)
    assert len(found) == 2 * (2 + 2 + 1)
    assert {r["steps"] for r in found} == {10}
    written = {path.name for path in place.iterdir()}
    assert {"variance.txt", "variance.md", "exploring-curves.png", "exploring-curves.svg", "table.md"} <= written
    assert "exploring-explorers-tiny.svg" in written
    first = found[0]
    (line,) = [line for line in (place / "variance.md").read_text().splitlines() if "| 1 | paper | 0.1 |" in line]
    assert f"| {first['random']:.1e} | {first['last'] / first['random']:.1f} |" in line
    monkeypatch.setattr(exploring, "_load", no_data)
    monkeypatch.setattr(paper_report, "draw_item", lambda item, studies, folder: [])
    monkeypatch.setattr(paper_report, "draw_exploring", lambda records, folder: [])
    shown = graphshift(*given, "--show")
    assert (shown.status, shown.out) == (0, answer.out)


def test_ctrl_c_says_how_to_continue(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproducing, "run_study", interrupted)
    answer = graphshift("reproduce", "fig99", "--out", tmp_path / "r", "--force")
    assert answer.status == 130
    again = f"Continue with: graphshift reproduce fig99 --out {tmp_path / 'r'}"
    assert answer.err.rstrip().endswith(f"graphshift: stopped; what is done is kept. {again}")

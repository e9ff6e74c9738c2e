"""Studies of the paper's experiments: run once, taken from their folder later, shown beside published numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean, stdev

import pytest

from graphshift.datasets import DATASETS
from graphshift.lab.paper import Experiment, Published, Size
from graphshift.lab.paper import tables as paper_tables
from graphshift.lab.paper.reproducing import Finished, absent, finished, run_experiment
from graphshift.lab.paper.tables import item_tables
from tiny_paper import FAIR_FITS, ITEM, PUBLISHED_FITS, TINY, counted_fits, install, records
from tiny_studies import without_cost


def run(experiment: Experiment, setting: str, folder: Path, size: Size | None = None) -> Finished:
    """In this process, and silently."""
    return run_experiment(experiment, setting, folder, size or Size(), workers=0, threads=1, progress=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny experiment in two settings. Tests only read it."""
    folder = tmp_path_factory.mktemp("reproduction")
    for setting in ("published", "fair"):
        run(TINY, setting, folder)
    return folder


def both(place: Path) -> list[Finished]:
    found = [finished(TINY, setting, place) for setting in ("published", "fair")]
    return [study for study in found if study is not None]


def test_a_study_is_never_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = counted_fits(monkeypatch)
    first = run(TINY, "published", tmp_path)
    assert len(done) == len(set(done)) == PUBLISHED_FITS
    again = run(TINY, "published", tmp_path)
    assert len(done) == PUBLISHED_FITS
    assert again == first
    ledger = tmp_path / "tiny" / "published" / "results.jsonl"
    whole = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(whole[:-1]))
    resumed = run(TINY, "published", tmp_path)
    assert done[PUBLISHED_FITS:] == [done[PUBLISHED_FITS - 1]]  # the one that was missing
    assert [without_cost(row.record.to_json()) for row in resumed.rows] == [
        without_cost(row.record.to_json()) for row in first.rows
    ]
    run(TINY, "fair", tmp_path)
    assert len(done) == PUBLISHED_FITS + 1 + FAIR_FITS
    assert {path.name for path in (tmp_path / "tiny").iterdir()} == {"published", "fair"}


def test_what_is_finished_is_read_from_the_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = counted_fits(monkeypatch)
    study = finished(TINY, "published", place)
    assert study is not None
    assert study == run(TINY, "published", place)
    assert done == []
    assert study.arms == ["ERM, gcn", "EERM, gcn"]
    assert [row.record.data_seed for row in study.of("EERM, gcn")] == [0, 1]
    assert len(study.rows) == len(records(place / "tiny" / "published")) == PUBLISHED_FITS


def test_what_is_not_finished_is_nothing(place: Path, tmp_path: Path) -> None:
    assert finished(TINY, "paper", place) is None
    assert finished(TINY, "published", tmp_path) is None
    half = tmp_path / "tiny" / "published"
    half.mkdir(parents=True)
    (half / "results.jsonl").write_text((place / "tiny" / "published" / "results.jsonl").read_text())
    assert finished(TINY, "published", tmp_path) is None


def test_scores_are_those_of_the_ledger(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published numbers first, each with its source; then every arm; then the largest class."""
    monkeypatch.setattr(
        paper_tables,
        "PUBLISHED",
        (
            Published("tiny", "ERM, gcn", "somebody", {"T1": (12.34, 5.67), "Penn": (20.0, None)}),
            Published("tiny", "EERM, gcn", "somebody else", {}, 61.96),
            Published("other", "ERM, gcn", "x", {}, 1.0),
        ),
    )
    table = item_tables(ITEM, both(place))[0]
    assert list(table.columns[:6]) == ["setting", "arm", "T1", "Penn", "T2", "mean test"]
    rows = [list(row) for row in table.rows]
    assert rows[0] == ["somebody", "ERM, gcn", "12.3 ± 5.7", "20.0", "–", "16.2", "–", "–", "–"]
    assert rows[1] == ["somebody else", "EERM, gcn", "–", "–", "–", "62.0", "–", "–", "–"]
    own = records(place / "tiny" / "published")
    for line, arm in zip(rows[2:4], ("ERM, gcn", "EERM, gcn"), strict=True):
        tests = [r["selections"]["val"]["tests"] for r in own if r["arm"] == arm]
        columns = [[t["T1"] for t in tests], [t["T2"] for t in tests], [fmean(t.values()) for t in tests]]
        one, two, mean = (f"{100 * fmean(c):.1f} ± {100 * stdev(c):.1f}" for c in columns)
        assert line[:6] == ["published", arm, one, "–", two, mean]
        assert line[-1] == "2"
    assert [row[:2] for row in rows[4:]] == [
        ["fair", "ERM, gcn"],
        ["fair", "EERM reinforce, gcn"],
        ["fair", "EERM random, gcn"],
        ["–", "share of the largest class"],
    ]
    assert "published: 2 data seeds × 1 seeds; fair: 2 data seeds × 1 seeds, 2 trials of tuning" in table.note
    short = item_tables(ITEM, both(place), tests=False)[0]
    assert list(short.columns[:3]) == ["setting", "arm", "mean test"]
    assert [list(row[:2]) for row in short.rows] == [row[:2] for row in rows]


def test_the_spurious_table_is_that_of_the_ledger(place: Path) -> None:
    (table,) = [table for table in item_tables(ITEM, both(place)) if "training accuracy" in table.title]
    expected = []
    for setting in ("published", "fair"):
        own = [r for r in records(place / "tiny" / setting) if r["kind"] == "run"]
        for arm in dict.fromkeys(r["arm"] for r in own):
            chosen = [r["selections"]["val"] for r in own if r["arm"] == arm]
            columns = [[c["train"] for c in chosen], [c["train_without_spurious"] for c in chosen]]
            columns.append([a - b for a, b in zip(*columns, strict=True)])
            cells = [f"{100 * fmean(c):.1f} ± {100 * stdev(c):.1f}" for c in columns]
            expected.append(["tiny", setting, arm, *cells])
    assert [list(row) for row in table.rows] == expected
    assert len({row[3] for row in expected} | {row[4] for row in expected}) > 2  # they are not all alike


def test_what_was_chosen_is_shown_where_something_was_tuned(place: Path) -> None:
    published, fair = both(place)
    (table,) = [table for table in item_tables(ITEM, [published, fair]) if "chosen on validation" in table.title]
    assert [row[1] for row in table.rows] == fair.arms
    for row, arm in zip(table.rows, fair.summary.arms, strict=True):
        assert f"lr={(arm.chosen or {})['lr']}" in row[2]
    assert not [table for table in item_tables(ITEM, [published]) if "chosen on validation" in table.title]


def test_failures_do_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wild = install(monkeypatch, erm={"lr": 1e6}, common={"epochs": 60, "hidden_channels": 4}, data_seeds=1)
    study = run(wild, "published", tmp_path)
    status = {record["arm"]: record["status"] for record in records(tmp_path / "tiny" / "published")}
    assert status == {"ERM, gcn": "failed", "EERM, gcn": "ok"}
    assert finished(wild, "published", tmp_path) == study
    erm, eerm = [list(row) for row in item_tables(ITEM, [study])[0].rows][:2]
    assert (erm[1], erm[4], erm[-1]) == ("ERM, gcn", "–", "0")
    assert (eerm[1], eerm[-1]) == ("EERM, gcn", "1")
    spurious = item_tables(ITEM, [study])[1]
    assert [row[2] for row in spurious.rows] == ["EERM, gcn"]


def test_a_size_is_run_as_such(tmp_path: Path) -> None:
    study = run(TINY, "published", tmp_path, Size(seeds=2, data_seeds=1, epochs=1))
    assert [row.seeds for row in study.of("ERM, gcn")] == [(0, 0), (0, 1)]
    assert {row.record.settings["epochs"] for row in study.rows} == {1}


def test_data_that_are_absent_say_so(tmp_path: Path) -> None:
    assert absent("planted", tmp_path) is None
    files = len(DATASETS["elliptic"].sources)
    why = absent("elliptic", tmp_path)
    assert why is not None
    assert why.startswith(f"{files} of {files} files of elliptic are not in {tmp_path} (as elliptic")
    assert "`graphshift data fetch elliptic`" in why
    for dataset, left_out, enough in (("twitch", 1, False), ("facebook100", 2, True)):
        assert absent(dataset, tmp_path) is not None
        sources = sorted(DATASETS[dataset].sources, key=lambda s: "Penn94" in s.path or "Texas80" in s.path)
        for source in sources[:-left_out]:
            (tmp_path / source.path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / source.path).write_text("")
        assert (absent(dataset, tmp_path) is None) == enough  # Facebook-100 does without some test schools
    (tmp_path / "fb100/Yale4.mat").unlink()
    assert "1 of 11 files of facebook100" in str(absent("facebook100", tmp_path))  # but not without one that validates


def test_runs_of_settings_that_are_no_longer_chosen_are_left_aside(place: Path, tmp_path: Path) -> None:
    """The ledger keeps what tuning chose before failed trials were run again."""
    before = finished(TINY, "fair", place)
    assert before is not None
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    ledger = tmp_path / "tiny" / "fair" / "results.jsonl"
    old = next(r for r in records(ledger.parent) if r["kind"] == "run")
    other = old | {"id": old["id"] + " / before", "tuned": {"lr": 123.0}}
    with ledger.open("a") as file:
        file.write(json.dumps(other) + "\n")
    assert finished(TINY, "fair", tmp_path) == before

"""The demo at its smallest: both kinds of shift, tables, sentences, figures and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.lab.demo.demo import ARMS, run_demo
from graphshift.studies import Record, rows_of

DATASETS = ("planted", "planted-structure")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demo") / "deep"
    return folder, run_demo(folder, seeds=2, nodes=60, epochs=2)


def test_results_and_figures_are_written(shown: tuple[Path, dict[str, Any]]) -> None:
    folder, content = shown
    assert json.loads((folder / "results.json").read_text()) == content
    assert set(content) == set(DATASETS)
    for dataset, part in content.items():
        picture = (folder / f"{dataset}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 10_000
        assert len(part["records"]) == 2 * len(ARMS)
        assert [row["arm"] for row in part["summary"]] == [arm.name for arm in ARMS]
        assert len(part["findings"]) == 2 * (len(ARMS) - 1)
        assert all("ERM" in sentence and "2 seeds" in sentence for sentence in part["findings"])


def test_arms_differ_only_in_what_they_say(shown: tuple[Path, dict[str, Any]]) -> None:
    for part in shown[1].values():
        for arm in ARMS:
            base, own = (next(r["settings"] for r in part["records"] if r["arm"] == name) for name in ("ERM", arm.name))
            shared = set(base) - set(arm.settings) - {"backbone_options"}
            explorers = (
                {"beta", "edits_per_node", "explorer_lr", "views"} if arm.settings["method"] == "eerm" else set()
            )
            assert {k: own[k] for k in shared - explorers} == {k: base[k] for k in shared - explorers}


def test_an_earlier_demo_is_left_alone_unless_forced(
    shown: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, content = shown
    before = (folder / "results.json").read_bytes()
    with pytest.raises(GraphshiftError, match=r"results\.json: exists; nothing was changed"):
        run_demo(folder, seeds=2, nodes=60, epochs=1)
    assert (folder / "results.json").read_bytes() == before
    # The fits were made once; the second demo only says them again.
    monkeypatch.setattr(
        "graphshift.lab.demo.demo._fit_all",
        lambda dataset, *_: rows_of([Record.from_json(r) for r in content[dataset]["records"]], "val"),
    )
    capsys.readouterr()
    run_demo(folder, seeds=2, nodes=60, epochs=2, force=True)
    output = capsys.readouterr()
    assert output.err == "planted: 12 fits …\nplanted-structure: 12 fits …\n"  # no terminal, no bar
    for dataset, part in content.items():
        assert dataset in output.out
        assert all(sentence in output.out for sentence in part["findings"])
        assert all(arm.name in output.out for arm in ARMS)
    assert str(folder) in output.out
    run_demo(folder, seeds=2, nodes=60, epochs=2, force=True, as_json=True)
    assert json.loads(capsys.readouterr().out) == content


def test_a_terminal_gets_a_bar(
    shown: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, content = shown
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(
        "graphshift.lab.demo.demo._fit_all",
        lambda dataset, *_: rows_of([Record.from_json(r) for r in content[dataset]["records"]], "val"),
    )
    run_demo(folder, seeds=2, nodes=60, epochs=2, force=True, as_json=True)
    assert "fits" in capsys.readouterr().err

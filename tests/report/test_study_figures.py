"""Figures of a study: one of each kind for every rule, as PNG and SVG, with the runs in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from graphshift.report import study_figures
from graphshift.report.study_figures import draw_figures
from tiny_studies import everything

RULES = ("val", "id_val", "oracle")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Figure]]:
    """The folder of the pictures, and the pictures by name."""
    study, folder, seen = everything(), tmp_path_factory.mktemp("study") / "figures", {}
    with pytest.MonkeyPatch.context() as patch:
        save = study_figures.save_both
        patch.setattr(
            study_figures, "save_both", lambda figure, path: seen.update({path.name: figure}) or save(figure, path)
        )
        written = draw_figures(study.summary, {rule: study.rows(rule) for rule in RULES}, folder)
    assert sorted(written) == sorted(folder.iterdir())
    return folder, seen


def test_every_rule_has_its_pictures(drawn: tuple[Path, dict[str, Figure]]) -> None:
    folder, _ = drawn
    names = {f"{kind}-{rule}" for kind in ("environments", "seeds", "tuning") for rule in RULES}
    assert {path.name for path in folder.iterdir()} == {f"{name}.{form}" for name in names for form in ("png", "svg")}
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 10_000
    for path in folder.glob("*.svg"):
        text = "".join(ElementTree.fromstring(path.read_text()).itertext())
        assert ("not allowed: chosen on tests" in text) == ("oracle" in path.name)


def offsets(axes: Any) -> list[tuple[float, float]]:
    """The points of a scatter plot; bars are lines."""
    return [(float(x), float(y)) for c in axes.collections if isinstance(c, PathCollection) for x, y in c.get_offsets()]


def test_all_runs_are_drawn(drawn: tuple[Path, dict[str, Figure]]) -> None:
    study = everything()
    for rule in RULES:
        rows = study.rows(rule)
        (axes,) = drawn[1][f"environments-{rule}"].axes
        points = sorted(y for _, y in offsets(axes))
        assert points == pytest.approx(sorted(100 * score for row in rows for score in row.tests.values()))
        labels = axes.get_legend_handles_labels()[1]
        assert set(labels) == {"ERM", "EERM random", "in-domain limit, gcn", "always the largest class"}
        for axes, key in zip(drawn[1][f"seeds-{rule}"].axes, ("mean", "worst"), strict=True):
            assert sorted(x for x, _ in offsets(axes)) == pytest.approx(sorted(100 * getattr(row, key) for row in rows))
        assert [label.get_text() for label in drawn[1][f"seeds-{rule}"].axes[0].get_yticklabels()] == [
            "ERM",
            "EERM random",
        ]


def test_all_trials_are_drawn_and_the_chosen_ringed(drawn: tuple[Path, dict[str, Figure]]) -> None:
    study = everything()
    panels = {axes.get_xlabel(): axes for axes in drawn[1]["tuning-val"].axes}
    assert set(panels) == {"lr", "edits_per_node"}
    scores = [r.selections["val"].score for r in study.records if r.kind == "trial" and "val" in r.selections]
    rings = [arm.chosen_score for arm in study.summary.of_rule("val")]
    assert sorted(y for _, y in offsets(panels["lr"])) == pytest.approx(
        sorted(100 * s for s in scores + rings if s is not None)
    )
    assert len(offsets(panels["edits_per_node"])) == 3 + 1  # EERM's alone
    assert [label.get_text() for label in panels["lr"].get_xticklabels()] == ["0.01", "0.1"]


def test_the_same_study_draws_the_same_file(drawn: tuple[Path, dict[str, Figure]], tmp_path: Path) -> None:
    study = everything()
    summary = replace(study.summary, selections=study.summary.selections[:1])
    draw_figures(summary, {"val": study.rows("val")}, tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (drawn[0] / path.name).read_bytes()


def test_a_study_without_runs_or_tuning_draws_what_there_is(tmp_path: Path) -> None:
    study = everything()
    summary = replace(study.summary, selections=study.summary.selections[:1], tuning=[])
    assert draw_figures(summary, {"val": []}, tmp_path) == []
    rows = [row for row in study.rows("val") if row.arm == "ERM"]
    summary = replace(summary, limits={}, majority={}, metric="mse")
    assert len(draw_figures(summary, {"val": rows}, tmp_path)) == 4

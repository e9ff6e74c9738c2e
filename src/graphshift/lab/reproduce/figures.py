"""Draws what an item shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphshift.lab.leaderboard.figures import draw_methods, draw_rules, draw_variance
from graphshift.lab.paper.figures import draw_generators, draw_one_change, draw_spurious, draw_tests
from graphshift.lab.paper.items import Item
from graphshift.lab.paper.reproducing import Finished
from graphshift.lab.paper.trials import draw_trials
from graphshift.report.figures import can_draw, save_both

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The settings whose studies change one thing at a time.
_ONE_CHANGE = ("ablation", "explorers")

_DRAWN: dict[str, Callable[[Item, Sequence[Finished]], Figure | None]] = {
    "tests": draw_tests,
    "spurious": draw_spurious,
    "generators": draw_generators,
    "methods": draw_methods,
    "rules": draw_rules,
    "variance": draw_variance,
    "trials": draw_trials,
}


def draw_item(item: Item, studies: Sequence[Finished], folder: Path) -> list[Path]:
    """Draws each of the things that an item shows, ``ITEM-tests`` and so on, as PNG and SVG.

    Args:
        item: which.
        studies: of its experiments, as far as they were run; those that change one thing at a time are drawn apart.
        folder: where the pictures go.
    """
    if not can_draw():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    main = [study for study in studies if study.setting not in _ONE_CHANGE and study.rows]
    for shown in item.shows if main else ():
        figure = _DRAWN[shown](item, main)
        if figure is not None:
            written += save_both(figure, folder / f"{item.name}-{shown}")
    for study in studies:
        if study.setting in _ONE_CHANGE and study.rows:
            name = f"{item.name}-{study.setting}-{study.experiment.name}"
            written += save_both(draw_one_change(item, study), folder / name)
    return written

"""How much does tuning give? The expected best validation score of n trials, from the trials that were recorded.

Equal numbers of trials are not equal coverage: five trials are all of ERM's settings and a fifteenth of EERM's. If
EERM's curve still rises where it ends, it was tuned too little. Trials are scored on validation alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, prod
from typing import TYPE_CHECKING

from graphshift.data.metrics import METRICS
from graphshift.lab.paper.items import Item
from graphshift.lab.paper.reproducing import Finished
from graphshift.report.figures import COLOURS, new_figure, plain
from graphshift.report.study_tables import StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = (1, 2, 3, 5, 8, 12, 24)


def expected_best(scores: Sequence[float]) -> list[float]:
    """The expected largest of n of the scores, drawn without replacement, for n = 1 … N.

    The i-th largest is the largest of n with probability C(N − i, n − 1) / C(N, n), i from 1.
    """
    ordered, count = sorted(scores, reverse=True), len(scores)
    return [
        sum(score * comb(count - i, n - 1) for i, score in enumerate(ordered, 1)) / comb(count, n)
        for n in range(1, count + 1)
    ]


def trial_tables(studies: Sequence[Finished]) -> list[StudyTable]:
    """A table for each study: the expected best validation score of n settings, for every arm."""
    tables = []
    for study in studies:
        scale, rows = METRICS.find(study.summary.metric).scale, []
        for arm, tried in study.tried.items():
            best = [scale * score for score in expected_best(tried.scores)]
            cells = [f"{best[n - 1]:.2f}" if n <= len(best) else "–" for n in _COLUMNS]
            rows.append([arm, f"{len(tried.scores)} of {prod(tried.sizes)}", *cells])
        name = f"trials: {study.experiment.name}, expected best validation {METRICS.find(study.summary.metric).title}"
        columns = ["arm", "settings tried", *(f"n = {n}" for n in _COLUMNS)]
        note = "of n settings, drawn from those that were tried; a setting's score is the mean over tuning seeds."
        tables.append(StudyTable(name, columns, rows, note))
    return tables


def draw_trials(item: Item, studies: Sequence[Finished]) -> Figure:
    """The same as curves, a panel for each study."""
    figure = new_figure(4.6 * len(studies), 3.2)
    panels = figure.subplots(1, len(studies), squeeze=False)[0]
    for axes, study in zip(panels, studies, strict=True):
        scale = METRICS.find(study.summary.metric).scale
        for colour, (arm, tried) in zip(COLOURS, study.tried.items(), strict=False):
            best = [scale * score for score in expected_best(tried.scores)]
            axes.plot(range(1, len(best) + 1), best, color=colour, marker=".", label=arm, linewidth=1.3)
        axes.set(xlabel="settings tried", title=study.experiment.name)
        plain(axes, "y")
        axes.legend(fontsize=7, frameon=False)
    panels[0].set_ylabel("expected best validation score (%)")
    figure.suptitle(f"{item.name}: {item.title}", fontsize=10)
    return figure

"""What of the leaderboard has been run, and about how long the rest takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from graphshift.estimators.base import METHODS
from graphshift.lab.leaderboard.board import Line
from graphshift.lab.leaderboard.cells import BASELINE, fits_of, place_of, refused
from graphshift.lab.paper.experiments import Experiment
from graphshift.lab.paper.settings import Size
from graphshift.report.study_tables import StudyTable
from graphshift.studies.progress import duration


@dataclass(frozen=True)
class Cell:
    """A method in an experiment.

    Attributes:
        experiment, method: which.
        state: ``"run"``, ``"val"`` (in an earlier study, by the rule ``val`` alone), ``"refused"`` or ``"missing"``.
        seconds: about how long it takes to run; None for one that is done, and where nothing was measured.
        reason: why it was refused.
    """

    experiment: str
    method: str
    state: str
    seconds: float | None = None
    reason: str = ""

    @property
    def label(self) -> str:
        """The method's name as people write it."""
        return METHODS[self.method].label


def coverage(
    folder: Path, experiments: Sequence[Experiment], methods: Sequence[str], lines: Sequence[Line]
) -> list[Cell]:
    """The state of every cell.

    What a missing one takes is its number of fits × ERM's time for a fit in the experiment (or in others on its
    dataset) × how many times ERM's time the method took elsewhere, the median over experiments. It leaves out what
    reading the data and scoring take.
    """
    times = _times(lines)
    factors, of_dataset = _factors(times), _of_dataset(times, experiments)
    found = []
    for experiment in experiments:
        for method in methods:
            here = (experiment.name, method)
            if (place_of(folder, experiment, method) / "summary.json").is_file():
                found.append(Cell(*here, "run"))
            elif (reason := refused(folder, experiment, method)) is not None:
                found.append(Cell(*here, "refused", reason=reason))
            else:
                fit, factor = of_dataset.get(experiment.dataset), factors.get(method)
                fit = times.get((experiment.name, BASELINE), fit)
                known = times.get(here) or (fit * factor if fit is not None and factor is not None else None)
                seconds = None if known is None else known * fits_of(experiment, method, Size())
                found.append(Cell(*here, "val" if here in times else "missing", seconds))
    return found


def coverage_table(cells: Sequence[Cell]) -> StudyTable:
    """By experiment: what was run, and what is left with its time."""
    rows = []
    for name in dict.fromkeys(cell.experiment for cell in cells):
        own = [cell for cell in cells if cell.experiment == name]
        by_state = {state: [c for c in own if c.state == state] for state in ("run", "val", "refused", "missing")}
        left = sorted(by_state["missing"], key=lambda cell: (cell.seconds is None, cell.seconds or 0.0))
        rows.append(
            [
                name,
                ", ".join(cell.label for cell in by_state["run"]) or "–",
                ", ".join(cell.label for cell in by_state["val"]) or "–",
                ", ".join(f"{cell.label} ({_about(cell.seconds)})" for cell in left) or "–",
                "; ".join(f"{cell.label}: {cell.reason}" for cell in by_state["refused"]) or "–",
            ]
        )
    note = (
        "In brackets about how long one core takes: the fits of the cell times what a fit of this method took "
        "elsewhere beside ERM; ? where ERM or the method was not timed."
    )
    columns = ["experiment", "run, by both rules", "run, by val alone", "not run", "cannot be run"]
    return StudyTable("what has been run", columns, rows, note)


def counts_table(cells: Sequence[Cell]) -> StudyTable:
    """The same in numbers."""
    rows = []
    for name in dict.fromkeys(cell.experiment for cell in cells):
        own = [cell for cell in cells if cell.experiment == name]
        left = [cell for cell in own if cell.state == "missing"]
        timed = [cell.seconds for cell in left if cell.seconds is not None]
        states = [str(sum(cell.state == state for cell in own)) for state in ("run", "val", "refused", "missing")]
        rows.append([name, *states, _about(sum(timed) if timed else None), str(len(left) - len(timed))])
    columns = ["experiment", "run", "by val alone", "cannot be", "not run", "of these timed, about", "not timed"]
    note = "Methods by experiment. The times are of one core, estimated from what was measured."
    return StudyTable("how many methods have been run", columns, rows, note)


def _about(seconds: float | None) -> str:
    return "?" if seconds is None else duration(seconds)


def _times(lines: Sequence[Line]) -> dict[tuple[str, str], float]:
    """Seconds of a fit by experiment and method, the mean over arms with single models."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        if not line.summary.is_variant and line.seconds is not None:
            found.setdefault((line.experiment.name, line.summary.method), []).append(line.seconds)
    return {key: fmean(values) for key, values in found.items()}


def _of_dataset(times: Mapping[tuple[str, str], float], experiments: Sequence[Experiment]) -> dict[str, float]:
    """ERM's seconds of a fit by dataset, the median over its experiments."""
    found: dict[str, list[float]] = {}
    for experiment in experiments:
        if (experiment.name, BASELINE) in times:
            found.setdefault(experiment.dataset, []).append(times[experiment.name, BASELINE])
    return {dataset: median(values) for dataset, values in found.items()}


def _factors(times: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """How many times ERM's time a method takes, the median over experiments that have both."""
    found: dict[str, list[float]] = {}
    for (experiment, method), seconds in times.items():
        if erm := times.get((experiment, BASELINE)):
            found.setdefault(method, []).append(seconds / erm)
    return {method: median(ratios) for method, ratios in found.items()}

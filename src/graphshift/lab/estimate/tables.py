"""The ledger of estimates as tables: the answer by dataset, then every single estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from graphshift.data.metrics import METRICS
from graphshift.lab.estimate.learning import left_out
from graphshift.lab.estimate.running import pairs_of
from graphshift.report.study_tables import StudyTable
from graphshift.shift.combining import Coefficients, Combined, combine, lost

Pair = Mapping[str, Any]

_WHAT = "Errors in points: mean of the absolute difference to the true score."


def answers(records: Sequence[Mapping[str, Any]]) -> list[tuple[Pair, Combined, bool]]:
    """Every pair with its estimate, by what the other datasets teach, and whether it is refused."""
    pairs = pairs_of(records)
    learned = left_out(pairs)
    found = []
    for pair in pairs:
        own: Coefficients = learned[pair["dataset"]]
        metric = METRICS[pair["metric"]]
        one = combine(pair["by"], pair["held_out"], own, metric, pair["nodes"])
        found.append((pair, one, one.error > own.limit or lost(pair["untold"], metric)))
    return found


def estimate_tables(records: Sequence[Mapping[str, Any]]) -> list[StudyTable]:
    """The answer by dataset, and every estimate alone."""
    return [_answers(records), _singles(records), _learned(records)]


def _answers(records: Sequence[Mapping[str, Any]]) -> StudyTable:
    every, rows, ranks = answers(records), [], []
    for name in dict.fromkeys(pair["dataset"] for pair, *_ in every):
        own = [one for one in every if one[0]["dataset"] == name]
        kept = [one for one in own if not one[2]]
        truth = [pair["truth"] for pair, *_ in own]
        by_estimate, by_validation = (
            _rank(values, truth) for values in ([c.value for _, c, _ in own], [p["held_out"] for p, *_ in own])
        )
        ranks.append((by_estimate, by_validation))
        errors = 100 * np.array([c.value - p["truth"] for p, c, _ in kept])
        plain = 100 * np.array([p["held_out"] - p["truth"] for p, *_ in kept])
        inside = [abs(c.value - p["truth"]) <= c.half for p, c, _ in kept]
        cells = ["–"] * 4
        if kept:
            cells = [f"{abs(plain).mean():.1f}", f"{abs(errors).mean():.1f}", f"{errors.mean():+.1f}"]
            cells.append(f"{100 * np.mean(inside):.0f}")
        refused = f"{100 * (1 - len(kept) / len(own)):.0f}"
        rows.append([name, str(len(own)), refused, *cells, f"{by_estimate:.2f}", f"{by_validation:.2f}"])
    middle = [f"{np.median([one[i] for one in ranks]):.2f}" for i in (0, 1)]
    rows.append(["median", "", "", "", "", "", "", *middle])
    columns = [
        "dataset", "pairs", "refused (%)", "error of validation", "error", "bias", "inside the interval (%)",
        "rank correlation", "of validation",
    ]  # fmt: skip
    note = (
        f"{_WHAT} Of pairs that were not refused; rank correlations of all. Expected errors and intervals "
        "were learned on the other datasets. Intervals are for 90 %."
    )
    return StudyTable("expected and true score, each dataset left out", columns, rows, note)


def _singles(records: Sequence[Mapping[str, Any]]) -> StudyTable:
    pairs = pairs_of(records)
    datasets = list(dict.fromkeys(pair["dataset"] for pair in pairs))
    names = list(dict.fromkeys(name for pair in pairs for name in pair["by"]))
    rows = []
    for name in ["held-out", *names]:
        cells = []
        for dataset in datasets:
            own = [({"held-out": p["held_out"], **p["by"]}, p["truth"]) for p in pairs if p["dataset"] == dataset]
            errors = [abs(by[name] - truth) for by, truth in own if name in by]
            cells.append(f"{100 * np.mean(errors):.1f}" if errors else "–")
        rows.append([name, *cells])
    return StudyTable("every estimate alone", ["estimate", *datasets], rows, f"{_WHAT} Nothing is refused.")


def _learned(records: Sequence[Mapping[str, Any]]) -> StudyTable:
    learned = left_out(pairs_of(records))
    rows = []
    for i, name in enumerate(
        ("expected error: constant", "per point of spread", "per point of distance to validation")
    ):
        rows.append([name, *(f"{(100 if not i else 1) * one.error[i]:.2f}" for one in learned.values())])
    rows.append(["interval, as a multiple", *(f"{one.quantile:.2f}" for one in learned.values())])
    return StudyTable("what was learned without each dataset", ["", *learned], rows, "")


def _rank(values: Sequence[float], truth: Sequence[float]) -> float:
    return float(spearmanr(values, truth)[0]) if np.ptp(values) and np.ptp(truth) else float("nan")

"""Batches beside the full batch: scores, paired differences, and what is left of EERM's advantage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.lab.batches.running import KINDS, METHODS
from graphshift.report.study_tables import StudyTable
from graphshift.studies.statistics import paired_t, spread

Records = Sequence[Mapping[str, Any]]


def batches_tables(records: Records) -> list[StudyTable]:
    """Of each dataset and method every kind of batch; then EERM's advantage over ERM with each."""
    return [scores_table(records), advantage_table(records)]


def scores_table(records: Records) -> StudyTable:
    """The mean test score, and how far it is from that of the full batch."""
    rows = []
    for dataset in dict.fromkeys(one["dataset"] for one in records):
        for method in METHODS:
            full = _means(records, dataset, method, KINDS[0])
            for kind in KINDS:
                found = _means(records, dataset, method, kind)
                if not found:
                    continue
                both = spread(list(found.values()))
                shown = f"{100 * (both.mean or 0):.1f}" + (f" ± {100 * both.std:.1f}" if both.std is not None else "")
                pairs = [] if kind == KINDS[0] else [found[seed] - full[seed] for seed in found if seed in full]
                taken = fmean(one["seconds"] for one in _of(records, dataset, method, kind))
                cells = [shown, difference(pairs), f"{taken:.2f}", str(len(found))]
                rows.append([dataset, method, kind, *cells])
    note = "Mean over tests (%) ± standard deviation over seeds; differences with their 95 % interval, paired by seed."
    columns = ["dataset", "method", "batches", "mean test", "against the full batch", "seconds an epoch", "seeds"]
    return StudyTable("training on batches", columns, rows, note)


def advantage_table(records: Records) -> StudyTable:
    """EERM − ERM with each kind of batch, and how that differs from the full batch's."""
    rows = []
    for dataset in dict.fromkeys(one["dataset"] for one in records):
        gained = {}
        for kind in KINDS:
            ours, plain = (_means(records, dataset, method, kind) for method in ("EERM", "ERM"))
            gained[kind] = {seed: ours[seed] - plain[seed] for seed in ours if seed in plain}
        for kind, own in gained.items():
            full = gained[KINDS[0]]
            pairs = [] if kind == KINDS[0] else [own[seed] - full[seed] for seed in own if seed in full]
            rows.append([dataset, kind, difference(list(own.values())), difference(pairs)])
    columns = ["dataset", "batches", "EERM − ERM", "against the full batch's"]
    return StudyTable("EERM's advantage on batches", columns, rows, "Points, with 95 % intervals, paired by seed.")


def difference(gains: Sequence[float]) -> str:
    """A mean of paired differences in points, with its interval where there are enough."""
    if not gains:
        return "–"
    low, high, _ = paired_t(gains)
    ends = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * fmean(gains):+.1f}{ends}"


def _means(records: Records, dataset: str, method: str, kind: str) -> dict[int, float]:
    """By seed the mean test score, so that more is better."""
    return {one["seed"]: METRICS[one["metric"]].sign * one["mean"] for one in _of(records, dataset, method, kind)}


def _of(records: Records, dataset: str, method: str, kind: str) -> list[Mapping[str, Any]]:
    return [one for one in records if (one["dataset"], one["method"], one["kind"]) == (dataset, method, kind)]

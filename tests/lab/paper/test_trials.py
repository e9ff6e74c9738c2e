"""The best of n trials: by enumeration, and from a ledger."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from graphshift.lab.paper import EXPERIMENTS
from graphshift.lab.paper.reproducing import finished
from graphshift.lab.paper.trials import expected_best, trial_tables

RESULTS = Path(__file__).resolve().parents[3] / "results"


def test_the_expected_best_of_n_by_enumeration() -> None:
    scores = [0.3, 0.9, 0.5, 0.5, 0.1, 0.7]
    expected = [fmean(max(some) for some in combinations(scores, n)) for n in range(1, 7)]
    assert expected_best(scores) == pytest.approx(expected)


def test_a_table_counts_settings_and_not_seeds() -> None:
    found = finished(EXPERIMENTS["pubmed"], "fair", RESULTS)
    assert found is not None
    erm = found.tried["ERM, gcn"]
    assert (len(erm.scores), erm.sizes) == (6, [6])  # 18 trials: six settings with three seeds each
    (table,) = trial_tables([found])
    assert table.rows[0][:2] == ["ERM, gcn", "6 of 6"]
    assert table.rows[1][1].endswith(" of 120")
    assert table.rows[0][-1] == "–"  # there is no 24th setting of ERM
    second, best = sorted(erm.scores)[-2:]
    assert float(table.rows[0][5]) == pytest.approx(100 * (best - (best - second) / 6), abs=0.006)  # five of six

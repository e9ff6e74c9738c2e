"""The ledger as tables: what was promised, what came of it, and the bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from graphshift.report.study_tables import StudyTable

Records = Sequence[Mapping[str, Any]]

_COVERED = ("pubmed-temporal", "citation", "twitch", "planted-structure")
_WEIGHTS = ("none", "auto", "features", "copies", "moved")
_KINDS = ("raw", "validation", "target", "moved")


def trust_tables(records: Records) -> list[StudyTable]:
    """Coverage, calibration, abstaining, audits, flips."""
    tables = [coverage_table(records), inside_table(records), calibration_table(records)]
    return [*tables, *(abstaining_table(records, kind) for kind in ABSTAINING), audit_table(records)]


def coverage_table(records: Records) -> StudyTable:
    """The coverage of 90 % sets in each test environment."""
    rows = []
    for record in records:
        if record["draw"] or record["dataset"] not in _COVERED:
            continue
        for name, test in record["tests"].items():
            sets = [test["sets"][weights] for weights in _WEIGHTS]
            cells = [f"{100 * one['coverage']:.1f} ({one['size']:.2f})" for one in sets]
            rows.append([f"{record['dataset']}, {name}", f"{100 * test['raw']['accuracy']:.1f}", *cells])
    note = "Share of nodes whose set has their class (%), and classes in a set. Asked for: 90 %. Made data: first draw."
    return StudyTable("coverage of 90 % sets", ["test", "accuracy (%)", *_WEIGHTS], rows, note)


def inside_table(records: Records) -> StudyTable:
    """On how many tests of each dataset coverage is near what was asked for."""
    rows = []
    for name, own in _by_dataset(records).items():
        tests = [test for record in own for test in record["tests"].values()]
        cells = []
        for weights in _WEIGHTS:
            reached = [test["sets"][weights]["coverage"] for test in tests]
            inside = sum(0.88 <= one <= 0.93 for one in reached)
            cells.append(f"{inside} ({100 * fmean(abs(one - 0.9) for one in reached):.1f})")
        rows.append([name, str(len(tests)), *cells])
    note = "Tests with a coverage of 88 to 93 %; in brackets the mean distance from 90 % in points. All draws."
    return StudyTable("tests whose coverage is 88 to 93 %", ["dataset", "tests", *_WEIGHTS], rows, note)


def calibration_table(records: Records) -> StudyTable:
    """ECE and AURC, means over the tests of each dataset."""
    rows, kinds = [], _KINDS
    for name, own in _by_dataset(records).items():
        tests = [test for record in own for test in record["tests"].values()]
        errors = [fmean(test[kind]["ece"] for test in tests) for kind in kinds]
        areas = [fmean(test[kind]["aurc"] for test in tests) for kind in kinds]
        aware = f"{sum(test['graph_aware'] for test in tests)} of {len(tests)}"
        rows.append([name, *(f"{100 * e:.1f}" for e in errors), *(f"{100 * a:.3f}" for a in areas), aware])
    count = len(kinds)
    means = [fmean(float(row[i]) for row in rows) for i in range(1, 2 * count + 1)] if rows else []
    rows += [["mean", *(f"{m:.1f}" for m in means[:count]), *(f"{m:.3f}" for m in means[count:]), ""]] if rows else []
    columns = ["dataset", *(f"ECE {kind} (%)" for kind in kinds), *(f"AURC {kind} (%)" for kind in kinds)]
    columns.append("graph-aware")
    note = "raw: as they are; validation: one temperature; target, moved: calibrated to each test without its "
    note += "labels. graph-aware: tests on which `moved` gives nodes their own temperatures."
    return StudyTable("calibration and order of confidence", columns, rows, note)


#: Where answers are in a record, with what they stand on.
ABSTAINING = {"abstain": "copies in all directions", "abstain_moved": "copies moved to each test too"}


def abstaining_table(records: Records, kind: str = "abstain") -> StudyTable:
    """Answers with an expected error of 5 %. Args: kind: of :data:`ABSTAINING`."""
    rows = []
    for name, own in _by_dataset(records).items():
        found = [test[kind] for record in own for test in record["tests"].values()]
        refused = sum(bool(one["refused"]) for one in found)
        able = [one for one in found if one["share"] >= 0.2]
        kept = sum(one["error"] <= 0.07 for one in able)
        near = sum(abs(one["error"] - 0.05) <= 0.02 or (one["share"] >= 1 and one["error"] <= 0.05) for one in able)
        errors = [100 * one["error"] for one in able]
        span = f"{min(errors):.1f} to {max(errors):.1f}" if able else "–"
        share = f"{100 * fmean(one['share'] for one in found):.0f}"
        rows.append([name, str(len(found)), str(refused), share, str(len(able)), span, str(near), str(kept)])
    columns = ["dataset", "tests", "refused", "answered (%)", "≥ 20 %", "error there (%)", "3 to 7 %", "≤ 7 %"]
    note = "An error of 5 % was allowed. ≥ 20 %: tests on which at least a fifth of the nodes is answered."
    return StudyTable(f"answers with at most 5 % of them wrong: {ABSTAINING[kind]}", columns, rows, note)


def audit_table(records: Records) -> StudyTable:
    """What audits of the training and the validation graph say, and the edits that flip predictions."""
    rows = []
    for record in records:
        if (found := record.get("audit")) is None:
            continue
        lost = list(found["lost"].values())
        shares = [" → ".join(f"{100 * one[what]:.0f}" for one in lost) for what in ("rewired", "dropped")]
        spurious = "–" if "spurious_auroc" not in found else f"{found['spurious_auroc']:.3f}"
        sizes = [(a, b) for a, b in record.get("flips", {}).get("sizes", ()) if a is not None and b is not None]
        flips = f"{fmean(a for a, _ in sizes):.1f}" if sizes else "–"
        random = f"{fmean(b for _, b in sizes):.1f}" if sizes else "–"
        every = record.get("flips", {}).get("sizes", ())
        count = "/".join(str(sum(pair[i] is not None for pair in every)) for i in (0, 1)) if every else "–"
        crutch = "yes" if found["crutch"] else "no"
        rows.append([record["case"], *shares, crutch, spurious, flips, random, count])
    columns = ["dataset, draw", "rewired: lost (%)", "dropped: lost (%)", "crutch"]
    columns += ["spurious AUROC", "edits", "random edits", "flipped, of each"]
    note = (
        "Training → validation graph: share of the score that is lost. Edits: mean number of a node's edges that "
        "flip its prediction, of nodes that both searches flip; the random one tries 5 orders of up to 50 edits."
    )
    return StudyTable("audits", columns, rows, note)


def _by_dataset(records: Records) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(record["dataset"], []).append(record)
    return found

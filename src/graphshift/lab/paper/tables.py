"""Tables of the paper's items: what was measured in each setting, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.lab.paper import PUBLISHED, Item, Published
from graphshift.lab.paper.exploring import BOUNDED, Explored
from graphshift.lab.paper.reproducing import Finished
from graphshift.report.study_tables import StudyTable, show_budget, show_difference, show_settings, show_spread
from graphshift.report.tables import show_score
from graphshift.studies.statistics import spread


def item_tables(item: Item, studies: Sequence[Finished], *, tests: bool = True) -> list[StudyTable]:
    """An item's tables: scores for each experiment; then, if it shows them, the spurious columns; then what was tuned.

    Args:
        item: which.
        studies: of its experiments, as far as they were run.
        tests: with a column for each test, which may be too wide for a terminal.
    """
    tables = []
    for name in item.experiments:
        own = [study for study in studies if study.experiment.name == name]
        if own:
            tables.append(_scores(item, own, tests))
    if "spurious" in item.shows and any(row.train_without_spurious is not None for s in studies for row in s.rows):
        tables.append(_spurious(item, studies))
    if any(arm.chosen for study in studies for arm in study.summary.arms):
        tables.append(_chosen(item, studies))
    return tables


def _scores(item: Item, studies: Sequence[Finished], with_tests: bool) -> StudyTable:
    name, metric = studies[0].experiment.name, studies[0].summary.metric
    published = [p for p in PUBLISHED if p.experiment == name]
    tests = list(dict.fromkeys(t for p in published for t in p.tests)) if published else []
    tests += [t for t in studies[0].summary.tests if t not in tests]
    tests = tests if with_tests else []
    rows = [_published_row(p, tests) for p in published]
    for study in studies:
        for arm in study.summary.arms:
            scores = arm.environments
            rows.append(
                [
                    study.setting,
                    arm.arm,
                    *(show_spread(scores[t], metric) if t in scores else "–" for t in tests),
                    show_spread(arm.mean_test, metric),
                    show_spread(arm.worst_test, metric),
                    show_difference(arm.difference.mean_test, metric)[0],
                    str(arm.runs),
                ]
            )
    shares = studies[0].summary.majority
    if shares:
        own = [show_score(shares.get(t), "accuracy") for t in tests]
        rows.append(["–", "share of the largest class", *own, show_score(fmean(shares.values()), "accuracy"), *"–––"])
    columns = ["setting", "arm", *tests, "mean test", "worst test", f"mean test against {item.against} (95 %)", "runs"]
    return StudyTable(f"{item.name}: {name}, {METRICS.find(metric).title}", columns, rows, _note(studies))


def _published_row(published: Published, tests: Sequence[str]) -> list[str]:
    cells = []
    for test in tests:
        mean, std = published.tests.get(test, (None, None))
        cells.append("–" if mean is None else f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}")
    given = [mean for mean, _ in published.tests.values()]
    mean = published.mean if published.mean is not None else fmean(given)
    return [published.source, published.label, *cells, f"{mean:.1f}", "–", "–", "–"]


def _note(studies: Sequence[Finished]) -> str:
    parts = []
    for study in studies:
        summary = study.summary
        tuned = f", {show_budget(summary)}" if summary.tuning else ""
        drawn = f"{len(summary.data_seeds)} data seeds × " if summary.data_seeds else ""
        parts.append(f"{study.setting}: {drawn}{len(summary.seeds)} seeds{tuned}")
    remarks = "".join(f" {study.setting}, {remark}." for study in studies for remark in study.remarks)
    over = any(study.summary.data_seeds for study in studies)
    return (
        f"± standard deviation over runs. {'; '.join(parts)}. Paired t intervals{' over data seeds' if over else ''}; "
        f"epoch and setting chosen on validation.{remarks}"
    )


def _spurious(item: Item, studies: Sequence[Finished]) -> StudyTable:
    """Training score with all columns and without the spurious ones, and what is lost (Fig. 2b and 3b)."""
    rows = []
    for study in studies:
        metric = study.summary.metric
        for arm in study.arms:
            own = [row for row in study.of(arm) if row.train_without_spurious is not None]
            if not own:
                continue
            both = [spread([getattr(row, key) for row in own]) for key in ("train", "train_without_spurious")]
            lost = spread([(row.train or 0.0) - (row.train_without_spurious or 0.0) for row in own])
            cells = [show_spread(value, metric) for value in (*both, lost)]
            rows.append([study.experiment.name, study.setting, arm, *cells])
    columns = ["experiment", "setting", "arm", "all columns", "without the spurious ones", "lost"]
    return StudyTable(
        f"{item.name}: training accuracy (%) at the chosen epoch",
        columns,
        rows,
        "± standard deviation over runs; the spurious columns are zeroed at inference alone.",
    )


def _chosen(item: Item, studies: Sequence[Finished]) -> StudyTable:
    rows: list[list[str]] = []
    for study in studies:
        rows += [
            [study.experiment.name, arm.arm, show_settings(arm.chosen)] for arm in study.summary.arms if arm.chosen
        ]
    return StudyTable(f"{item.name}: settings chosen on validation", ["experiment", "arm", "chosen"], rows)


def _exact_first(records: Sequence[Explored]) -> list[Explored]:
    """As they were run, but a bounded policy follows the exact one of the same dataset, s and reward."""
    place: dict[tuple[Any, ...], int] = {}
    for r in records:
        place.setdefault((r.dataset, r.edits_per_node, r.learner.removesuffix(BOUNDED)), len(place))

    def key(r: Explored) -> tuple[int, bool]:
        reward = r.learner.removesuffix(BOUNDED)
        return place[r.dataset, r.edits_per_node, reward], reward != r.learner

    return sorted(records, key=key)


def rates_table(records: Sequence[Explored]) -> StudyTable:
    """:func:`exploring_table` at a glance: a column for each learning rate.

    Args:
        records: of :func:`graphshift.lab.paper.exploring.explore_all`.
    """
    rates = sorted({r.lr for r in records})
    groups: dict[tuple[Any, ...], list[Explored]] = {}
    for r in _exact_first(records):
        groups.setdefault((r.dataset, r.edits_per_node, r.learner), []).append(r)
    rows = []
    for (dataset, edits, learner), own in groups.items():
        cells = []
        for lr in rates:
            found = [r for r in own if r.lr == lr]
            ratio, control = (
                fmean(getattr(r, key) / r.random for r in found) if found else 0 for key in ("last", "control")
            )
            cells.append(f"{ratio:.1f} ({control:.1f})" if found else "–")
        rows.append([dataset, str(edits), learner, *cells, str(len({r.seed for r in own}))])
    return StudyTable(
        "exploring: the variance under learned edits, over that under random ones (in brackets: with other columns)",
        ["dataset", "s", "reward", *(f"lr {lr:g}" for lr in rates), "seeds"],
        rows,
        "the GNN, trained by ERM, stands still. Other columns: the same views with random columns, repetitions kept.",
    )


def long_table(records: Sequence[Explored]) -> StudyTable:
    """How the variance goes on for as long as the paper trains at most, with the policy bounded and not.

    Args:
        records: of :func:`graphshift.lab.paper.exploring.explore_all`; those with the most steps are shown.
    """
    steps = max((r.steps for r in records), default=0)
    rows = []
    for r in sorted((r for r in records if r.steps == steps), key=lambda r: (r.dataset, r.lr, r.learner, r.seed)):
        ends = r.curve["variance"]
        shown = [ends[int(share * len(ends)) - 1] / r.random for share in (0.2, 0.4, 0.6, 0.8, 1.0)]
        policy = "bounded" if r.learner.endswith(BOUNDED) else "exact"
        learner = r.learner.removesuffix(BOUNDED)
        start = [r.dataset, str(r.edits_per_node), learner, f"{r.lr:g}", policy, str(r.seed)]
        rows.append([*start, *(f"{value:.1f}" for value in shown), f"{r.control / r.random:.1f}"])
    columns = ["dataset", "s", "reward", "lr", "policy", "seed"]
    columns += [f"step {steps * share // 5}" for share in range(1, 6)]
    return StudyTable(
        f"exploring: the variance along {steps} steps, over that under random edits",
        [*columns, "other columns"],
        rows,
        "the GNN, trained by ERM, stands still; means of a twentieth of the steps. Bounded: 64 columns of a node.",
    )


def exploring_table(records: Sequence[Explored]) -> StudyTable:
    """How far learned explorers raise the variance, and how much of it is left with other columns.

    Args:
        records: of :func:`graphshift.lab.paper.exploring.explore_all`.
    """
    groups: dict[tuple[Any, ...], list[Explored]] = {}
    for r in _exact_first(records):
        groups.setdefault((r.dataset, r.edits_per_node, r.learner, r.lr), []).append(r)
    rows = []
    for (dataset, edits, learner, lr), own in groups.items():
        ratios, controls = ([getattr(r, key) / r.random for r in own] for key in ("last", "control"))
        distinct = [fmean(values) for values in zip(*(sorted(r.distinct) for r in own), strict=True)]
        spread_of = f" ({min(ratios):.1f}–{max(ratios):.1f})" if len(ratios) > 1 else ""
        rows.append(
            [
                dataset,
                str(edits),
                learner,
                f"{lr:g}",
                f"{fmean(r.random for r in own):.1e}",
                f"{fmean(ratios):.1f}{spread_of}",
                f"{fmean(controls):.1f}",
                f"{distinct[0]:.1f} to {distinct[-1]:.1f}",
                str(len(own)),
            ]
        )
    steps = ", ".join(str(n) for n in sorted({r.steps for r in records}))
    return StudyTable(
        f"exploring: the variance after {steps} steps of the explorers, over that under random edits",
        [
            "dataset",
            "s",
            "reward",
            "lr",
            "random variance",
            "learned ÷ random",
            "other columns ÷ random",
            "distinct pairs of a node",
            "seeds",
        ],
        rows,
        "the GNN, trained by ERM, stands still; mean of the last tenth of the steps (range over seeds). Other columns: "
        "the same views with random columns, repetitions kept. Distinct pairs: of the view that flips fewest and most.",
    )

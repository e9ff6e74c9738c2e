"""``graphshift demo``: ERM and EERM on both kinds of built-in shift, with the same settings and seeds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import error_console
from graphshift.core.storage import write_json
from graphshift.data.metrics import METRICS
from graphshift.lab.demo.figure import draw_demo
from graphshift.report.figures import can_draw
from graphshift.report.study_tables import show_spread
from graphshift.report.tables import print_table
from graphshift.studies import Arm, Plan, Record, Row, compare, run_study, summarise
from graphshift.studies.statistics import Spread

#: What the demo compares. All share backbone, width, depth, learning rate, epochs and seeds.
ARMS = (
    Arm("ERM", {"method": "erm"}),
    Arm("EERM", {"method": "eerm", "explorer": "reinforce"}),
    Arm("EERM, random edits", {"method": "eerm", "explorer": "random"}),
    Arm("EERM, gradient edits", {"method": "eerm", "explorer": "gradient"}),
    Arm("EERM, masked features", {"method": "eerm", "explorer": "features"}),
    Arm("ERM without edges", {"method": "erm", "backbone": "mlp"}),
)

_STORIES = {
    "planted": "spurious features: columns made from labels and environment",
    "planted-structure": "spurious edges: homophily 0.8 in training falls to 0",
}


def run_demo(
    folder: Path, *, seeds: int = 5, nodes: int = 1000, epochs: int = 200, force: bool = False, as_json: bool = False
) -> dict[str, Any]:
    """Runs the comparison, prints a table for each kind of shift and says who is ahead; writes figures and JSON.

    Args:
        folder: where ``results.json`` and a figure for each dataset go.
        seeds: number of seeds, at least 2; each draws data and training.
        nodes: of each graph.
        epochs: of each fit.
        force: replace an earlier demo.
        as_json: print JSON instead of tables.
    """
    target = folder / "results.json"
    if target.exists() and not force:
        raise GraphshiftError(f"{target}: exists; nothing was changed. Replace it (--force), or choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {}
    drawn = can_draw()
    bar = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("fits"),
        TimeRemainingColumn(),
    )
    console = error_console()
    with Progress(*bar, console=console, transient=True) as progress:
        task = progress.add_task("demo", total=len(_STORIES) * len(ARMS) * seeds)
        for dataset in _STORIES:
            progress.update(task, description=dataset)
            if not console.is_terminal:  # no bar there
                print(f"{dataset}: {len(ARMS) * seeds} fits …", file=sys.stderr, flush=True)
            rows = _fit_all(dataset, seeds, nodes, epochs, lambda _: progress.advance(task))
            content[dataset] = {
                "records": [row.record.to_json() for row in rows],
                "summary": [asdict(means) for means in summarise(rows)],
                "findings": [
                    compare(rows, arm, "ERM", key).sentence()
                    for arm in (arm.name for arm in ARMS if arm.name != "ERM")
                    for key in ("mean", "worst")
                ],
            }
            if drawn:
                draw_demo(rows, folder / f"{dataset}.png", title=f"{dataset} ({_STORIES[dataset]})")
    write_json(target, content)
    if as_json:
        print(json.dumps(content, indent=2))
        return content
    for dataset, part in content.items():
        _print(dataset, part, nodes, epochs, seeds)
    print(f"{'figures and ' if drawn else ''}results.json written to {folder}")
    return content


def _fit_all(dataset: str, seeds: int, nodes: int, epochs: int, report: Callable[[Record], None]) -> list[Row]:
    """Every arm with every seed; a seed draws the data and the training alike."""
    arms = [Arm(arm.name, {"epochs": epochs, **arm.settings}) for arm in ARMS]
    plan = Plan(dataset, arms, range(seeds), {"nodes": nodes}, data_seeds=range(seeds), crossed=False)
    # Graphs of this size gain nothing from more threads; and the numbers are the same wherever the demo is run.
    study = run_study(plan, workers=0, threads=1, report=report)
    for record in study.records:
        if not record.ok:
            raise GraphshiftError(f"{record.id}: {record.reason}")
    return study.rows()


def _print(dataset: str, part: dict[str, Any], nodes: int, epochs: int, seeds: int) -> None:
    metric, backbone = part["records"][0]["metric"], part["records"][0]["backbone"]
    rows = [
        [
            row["arm"],
            *(show_spread(Spread(row[k], row[f"{k}_std"]), metric) for k in ("val", "mean", "worst")),
            "–" if row["variance"] is None else f"{row['variance']:.1e}",
            f"{1000 * row['seconds_per_epoch']:.0f}",
        ]
        for row in part["summary"]
    ]
    label = METRICS.find(metric).title
    print_table(
        f"{dataset}: {_STORIES[dataset]}",
        [
            "method",
            f"validation {label}",
            f"mean test {label}",
            f"worst test {label}",
            "variance of risks",
            "ms an epoch",
        ],
        rows,
        note=f"{nodes} nodes, {epochs} epochs, 2-layer {backbone} (last row: MLP), {seeds} seeds, ± standard deviation "
        "over seeds; epoch chosen on validation",
    )
    for sentence in part["findings"]:
        print(f"  {sentence}")
    print()

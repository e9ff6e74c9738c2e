"""``graphshift toy`` and ``graphshift demo``: things to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from graphshift.cli.options import Force, Json, refuse_existing


def toy(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.png", help="where to draw the loss surfaces")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", help="of the random graph")] = 2000,
    environments: Annotated[int, typer.Option("--environments", metavar="N", help="draws of ε")] = 1000,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="repetitions, for standard errors")] = 20,
    sigma: Annotated[
        list[float] | None, typer.Option("--sigma", metavar="X", help="deviation of ε; may be repeated")
    ] = None,
    beta: Annotated[list[float] | None, typer.Option("--beta", metavar="X", help="β of EERM; may be repeated")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="of everything random")] = 0,
    force: Force = False,
    json_: Json = False,
) -> None:
    """The paper's motivating example (Section 3.1): what ERM, the variance and EERM learn, beside the closed forms."""
    from graphshift.lab.toy import run_toy
    from graphshift.report.tables import print_table

    if out is not None:
        refuse_existing(out, force)
    result = run_toy(
        nodes, environments, tuple(sigma or (0.5, 1.0, 2.0)), tuple(beta or (1.0, 0.01)), seed=seed, repeats=repeats
    )
    rows = result.rows()
    if out is not None:
        from graphshift.lab.toy_figure import draw_toy

        draw_toy(result, out)
    if json_:
        print(json.dumps(rows, indent=2))
        return

    def theta(row: dict[str, Any], prefix: str) -> str:
        one, two = row[f"{prefix}theta1"], row[f"{prefix}theta2"]
        return "any, 0" if one is None and two == 0 else "–" if two is None else f"{one:.3f}, {two:.3f}"

    table = [
        [
            row["reading"],
            f"{row['sigma']:g}",
            row["objective"] + (f" β={row['beta']:g}" if row["beta"] else ""),
            theta(row, "start_") if row["objective"] == "variance" else "",
            theta(row, ""),
            f"{row['se_theta1']:.3f}, {row['se_theta2']:.3f}",
            theta(row, "closed_"),
            theta(row, "paper_"),
        ]
        for row in rows
    ]
    print_table(
        f"Section 3.1 on a random graph of {nodes} nodes, {environments} environments, {repeats} repeats",
        ["reading", "σ", "objective", "start", "learned θ1, θ2", "std. error", "closed form", "paper claims"],
        table,
        note="reading 'proof': the model of the paper's proof; 'text': Section 3.1's own process (see the docs)",
    )
    if out is not None:
        print(f"loss surfaces drawn to {out}")


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="where to write tables and figures")] = Path(
        "demo-output"
    ),
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="data and training seeds", min=2)] = 5,
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", help="of each graph", min=60)] = 1000,
    epochs: Annotated[int, typer.Option("--epochs", metavar="N", help="of each fit", min=1)] = 200,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compare ERM and EERM on both kinds of built-in shift, over several seeds, and say who is ahead."""
    from graphshift.lab.demo import run_demo

    run_demo(out, seeds=seeds, nodes=nodes, epochs=epochs, force=force, as_json=json_)

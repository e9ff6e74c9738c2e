"""``graphshift toy`` and ``graphshift demo``."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from graphshift.cli.options import Force, Json, refuse_existing

_SIGMAS, _BETAS = [0.5, 1.0, 2.0], [1.0, 0.01]


def toy(
    out: Annotated[Path | None, Option(metavar="FILE.png", help="draw the loss surfaces into this file")] = None,
    nodes: Annotated[int, Option(metavar="N", help="nodes of the random graph")] = 2000,
    environments: Annotated[int, Option(metavar="N", help="draws of ε")] = 1000,
    repeats: Annotated[int, Option(metavar="N", help="repetitions, for standard errors")] = 20,
    sigma: Annotated[list[float], Option(metavar="X", help="standard deviation of ε; may be repeated")] = _SIGMAS,
    beta: Annotated[list[float], Option(metavar="X", help="β of EERM; may be repeated")] = _BETAS,
    seed: Annotated[int, Option(metavar="N", help="seed of everything random")] = 0,
    force: Force = False,
    json_: Json = False,
) -> None:
    """The paper's motivating example (Section 3.1): what ERM, the variance and EERM learn, beside the closed forms."""
    from graphshift.core.extras import require_extra
    from graphshift.lab.toy.figure import draw_toy
    from graphshift.lab.toy.table import toy_table
    from graphshift.lab.toy.toy import run_toy
    from graphshift.report.tables import print_table

    if out is not None:
        refuse_existing(out, force)
        require_extra("matplotlib", "--out")
    result = run_toy(nodes, environments, tuple(sigma), tuple(beta), seed=seed, repeats=repeats)
    if out is not None:
        draw_toy(result, out)
    if json_:
        print(json.dumps(result.rows(), indent=2))
        return
    print_table(
        f"Section 3.1 on a random graph of {nodes} nodes, {environments} environments, {repeats} repeats",
        *toy_table(result),
        note="reading 'proof': the model of the paper's proof; 'text': Section 3.1's own process (see the docs)",
    )
    if out is not None:
        print(f"loss surfaces drawn to {out}")


def demo(
    out: Annotated[Path, Option(metavar="DIR", help="folder for tables and figures")] = Path("demo-output"),
    seeds: Annotated[int, Option(metavar="N", help="number of data and training seeds", min=2)] = 5,
    nodes: Annotated[int, Option(metavar="N", help="nodes of each graph", min=60)] = 1000,
    epochs: Annotated[int, Option(metavar="N", help="epochs of each fit", min=1)] = 200,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compare ERM and EERM on both kinds of built-in shift, over several seeds."""
    from graphshift.lab.demo.demo import run_demo

    run_demo(out, seeds=seeds, nodes=nodes, epochs=epochs, force=force, as_json=json_)

"""``graphshift bench``."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from graphshift.cli.options import DataDir, Force, Json, refuse_existing
from graphshift.core.errors import GraphshiftError

_DEFAULT_OUT = Path("bench-output")
_ONLY = (
    "run only this section (bars, curves, backbones, explorers) or part; may be repeated; a wrong name lists the parts"
)
_CHECK = (
    "measure the limits of up to 100,000 nodes again and compare; ends with status 1 if one is over 25 % worse; writes "
    "nothing without --out"
)


def bench(
    quick: Annotated[bool, Option("--quick", help="small sizes: a minute or two instead of twenty")] = False,
    only: Annotated[list[str] | None, Option(metavar="NAME", help=_ONLY)] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="folder for tables and plots", show_default=str(_DEFAULT_OUT))
    ] = None,
    threads: Annotated[
        int | None, Option(metavar="N", min=1, help="threads of torch", show_default="torch's own")
    ] = None,
    data_dir: DataDir = None,
    check: Annotated[Path | None, Option(metavar="results.json", help=_CHECK)] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Measure speed and memory on this machine, compared with unavoidable work, a dense explorer and PyG."""
    from graphshift.lab.bench.command import run_bench
    from graphshift.lab.bench.parts import CHECKED, PARTS, chosen_parts

    names = chosen_parts(only, default=CHECKED if check else tuple(PARTS))
    folder = out if check or out else _DEFAULT_OUT
    if folder is not None:
        refuse_existing(folder, force)
    if data_dir is not None and not data_dir.is_dir():
        raise GraphshiftError(f"--data-dir: there is no folder {data_dir}.")
    size = "quick" if quick else "full"
    if not run_bench(names, size, folder, check=check, threads=threads, data_dir=data_dir, as_json=json_):
        raise typer.Exit(1)

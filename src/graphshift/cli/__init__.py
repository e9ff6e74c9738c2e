"""The command line: thin. Heavy imports happen inside the commands, so that ``--help`` is quick."""

from __future__ import annotations

import functools
import os
import re
import sys
import typing
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from graphshift._version import __version__
from graphshift.cli.bench import bench
from graphshift.cli.compare import compare
from graphshift.cli.data import data_app
from graphshift.cli.fit import fit
from graphshift.cli.recommend import recommend
from graphshift.cli.reproduce import reproduce
from graphshift.cli.show import demo, toy
from graphshift.cli.use import init, predict, score
from graphshift.core.errors import GraphshiftError, GraphshiftWarning

__all__ = ["app", "main"]

app = typer.Typer(
    name="graphshift",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Graph neural networks that hold up when the graph changes.",
    epilog="Errors of use end with status 2 and one message; nothing is overwritten unless --force is given.",
)


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Ctrl-C ends a command with its message and status 130; Typer would drop the message."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as error:
            _fail(str(error) or "stopped.", 130)

    return run


for command in (fit, score, predict, init, compare, recommend, reproduce, toy, demo, bench):
    app.command()(_stoppable(command))
for registered in data_app.registered_commands:
    if registered.callback is not None:
        registered.callback = _stoppable(registered.callback)
app.add_typer(data_app, name="data", help="List, describe, verify, fetch and write datasets.")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """The console script: turns a user's mistake into one message and status 2."""
    # Threads that spin while they wait make small graphs several times slower, the more so on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    warnings.simplefilter("always", GraphshiftWarning)
    try:
        app()
    except GraphshiftError as error:
        _fail(str(error), 2)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}.", 2)
    except (MemoryError, RuntimeError) as error:
        # PyTorch has no class of its own for memory that the CPU cannot give.
        if isinstance(error, RuntimeError) and not re.search("(allocate|out of) memory", str(error)):
            raise
        _fail(
            "this does not fit into memory; try --low-memory, fewer explorers or edits, or a smaller graph; "
            "`fit --memory-limit SIZE` finds what would fit.",
            2,
        )


def _fail(message: str, status: int) -> typing.NoReturn:
    print(f"graphshift: {message}", file=sys.stderr)
    raise SystemExit(status)


def _show_warning(message: Any, category: type[Warning], filename: str, *_: Any) -> None:
    if issubclass(category, GraphshiftWarning):
        print(f"graphshift: note: {message}", file=sys.stderr)

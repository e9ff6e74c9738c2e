"""All commands. Heavy imports happen inside them, so that ``--help`` is quick."""

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer

from graphshift._version import __version__
from graphshift.cli.audit import audit
from graphshift.cli.bench import bench
from graphshift.cli.compare import compare
from graphshift.cli.data import data_app
from graphshift.cli.estimate import estimate
from graphshift.cli.export import export
from graphshift.cli.fit import fit
from graphshift.cli.init import init
from graphshift.cli.options import fail
from graphshift.cli.partition import partition
from graphshift.cli.recommend import recommend
from graphshift.cli.reproduce import reproduce
from graphshift.cli.serve import serve
from graphshift.cli.shift import shift
from graphshift.cli.show import demo, toy
from graphshift.cli.use import predict, score
from graphshift.cli.watch import watch

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
            fail(str(error) or "stopped.", 130)

    return run


for command in (
    fit,
    score,
    predict,
    export,
    serve,
    init,
    partition,
    shift,
    estimate,
    watch,
    audit,
    compare,
    recommend,
    reproduce,
    toy,
    demo,
    bench,
):
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

"""The command line: thin. A user's mistake is one message and status 2."""

import os
import re
import sys
import warnings
from typing import Any

import typer

from graphshift.cli.flags import flags as known_flags
from graphshift.cli.options import fail
from graphshift.core.errors import GraphshiftError, GraphshiftWarning

_UsageError: Any = typer.BadParameter.__base__  # Typer has no public name for it


def main() -> None:
    """The console script: turns a user's mistake into one message and status 2."""
    # Threads that spin while they wait make small graphs several times slower, the more so on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    warnings.simplefilter("always", GraphshiftWarning)
    try:
        from graphshift.cli.app import app  # reads plug-ins, which may be missing

        raise SystemExit(app(standalone_mode=False))
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a command without a word: its help
            error.show()
            raise SystemExit(2) from None
        message = error.format_message()
        fail(message[0].lower() + message[1:] + _elsewhere(error), 2)
    except typer.Abort:
        fail("stopped.", 130)
    except GraphshiftError as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}.", 2)
    except (MemoryError, RuntimeError) as error:
        # PyTorch has no class of its own for memory that the CPU cannot give.
        if isinstance(error, RuntimeError) and not re.search("(allocate|out of) memory", str(error)):
            raise
        advice = "try --low-memory, fewer explorers or edits, or a smaller graph"
        fail(f"this does not fit into memory; {advice}; `fit --memory-limit SIZE` finds what would fit.", 2)


def _elsewhere(error: Any) -> str:
    """How to give an option that a command does not have, where it is a setting of studies or one of a dataset."""
    name, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if not name or context is None:
        return ""
    has = {spelled for parameter in context.command.params for spelled in parameter.opts}
    setting = next((one.name for one in known_flags().values() if one.spelled == name), None)
    if setting and "--set" in has:
        return f"; a setting of all arms is given as --set {setting}=VALUE."
    if "--option" in has:
        from graphshift.datasets import DATASETS

        own = name.lstrip("-").replace("-", "_")
        if any(own in dataset.options for dataset in DATASETS.values()):
            return f"; an option of a dataset is given as --option {own}=VALUE."
    return ""


def _show_warning(message: Any, category: type[Warning], filename: str, *_: Any) -> None:
    if issubclass(category, GraphshiftWarning):
        print(f"graphshift: note: {message}", file=sys.stderr)

"""What commands share: option types, NAME=VALUE pairs, TOML files, and one option for every setting of a fit."""

from __future__ import annotations

import sys
import tomllib
import typing
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import parse_toml

if typing.TYPE_CHECKING:
    from graphshift.data.dataset import ShiftDataset


Dataset = Annotated[str, Argument(metavar="DATASET", help="a dataset's name, or a TOML file with tables of your own")]
Options = Annotated[
    list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help="an option of the dataset, as nodes=500")
]
DataDir = Annotated[Path | None, Option(metavar="DIR", help="where the raw files of datasets are", show_default=False)]
Json = Annotated[bool, Option("--json", help="print JSON instead of a table")]
Force = Annotated[bool, Option("--force", help="replace what is there")]
Committee = Annotated[bool, Option("--committee", help="also try the mean of one model of every arm")]
AS_MANY = "1, or as many as a cluster has room for"
Workers = Annotated[int | None, Option(metavar="N", help="fits at the same time", min=1, show_default=AS_MANY)]
EngineName = Annotated[str, Option("--engine", metavar="local|ray", help="where fits run: here, or on a Ray cluster")]
Address = Annotated[
    str | None,
    Option(metavar="HOST:PORT", help="of the Ray cluster", show_default="RAY_ADDRESS, or one on this machine"),
]
Threads = Annotated[
    int | None,
    Option(metavar="N", min=1, help="threads of each worker", show_default="OMP_NUM_THREADS, or cores / workers"),
]
RetryFailed = Annotated[bool, Option("--retry-failed", help="run failed fits again")]
_LOG = "also log to tensorboard:DIR, mlflow[:URI] or wandb[:PROJECT]; may be repeated"
Log = Annotated[list[str] | None, Option("--log", metavar="NAME[:PLACE]", help=_LOG)]

#: Characters of a message.
_LONGEST = 8_000


def pairs(items: list[str] | None, flag: str) -> dict[str, Any]:
    """``name=value`` with the value read as TOML where it is (numbers, true, lists), ``none``, else as text."""
    result: dict[str, Any] = {}
    for item in items or []:
        name, sign, value = item.partition("=")
        if not sign or not name:
            raise GraphshiftError(f"{flag} is {item!r}; expected NAME=VALUE, as nodes=500.")
        try:
            result[name.strip().replace("-", "_")] = parse_toml(f"value = {value}", where=f"{flag} {name}")["value"]
        except tomllib.TOMLDecodeError:
            if value.startswith("["):  # shells take quotes away
                listed = ", ".join(f'"{word.strip()}"' for word in value.strip("[]").split(",") if word.strip())
                raise GraphshiftError(
                    f"{flag} {name} is {value}, which is no list; put quotes around all of it: '{name}=[{listed}]'."
                ) from None
            result[name.strip().replace("-", "_")] = None if value.lower() == "none" else value
    return result


def dataset_options(dataset: str, items: list[str] | None, data_dir: Path | None) -> dict[str, Any]:
    """The dataset's options from --option and --data-dir."""
    options = pairs(items, "--option")
    if data_dir is not None:
        from graphshift.datasets import DATASETS

        if "data_dir" not in DATASETS.find(dataset).options:
            raise GraphshiftError(f"--data-dir: dataset {dataset!r} is built in and reads no files; leave it out.")
        options["data_dir"] = data_dir
    return options


def toml_dataset(content: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """Takes the dataset's name and options out of a TOML file's content: ``dataset`` and [options], or [data]."""
    name, options = content.pop("dataset", None), content.pop("options", {})
    if "data" in content and name is None:
        from graphshift.datasets.tables.config import options_from_toml_table

        found = options_from_toml_table(content.pop("data"), path.parent, where=f"{path}: [data] ")
        return "own", {"name": path.stem, **found}  # titles and folders say whose data they are
    if not isinstance(name, str):
        raise GraphshiftError(
            f"{path}: field `dataset` is {name!r}; expected a dataset's name, or a table [data] for tables of your own."
        )
    if not isinstance(options, dict):
        raise GraphshiftError(f"{path}: field `options` is {options!r}; expected a table [options].")
    return name, options


def stored_partition(dataset: str) -> dict[str, Any] | None:
    """The options of dataset ``partition`` if this is the folder of one, not a dataset's name; else None."""
    from graphshift.data.partition.format import is_partition

    return {"folder": dataset} if is_partition(dataset) else None


def load_dataset(dataset: str, items: list[str] | None, data_dir: Path | None) -> ShiftDataset:
    """The dataset of a name or of a TOML file."""
    from graphshift.datasets import load

    options: dict[str, Any] = {}
    if (stored := stored_partition(dataset)) is not None:
        return load("partition", **stored | dataset_options("partition", items, data_dir), progress=True)
    if dataset.endswith(".toml"):
        dataset, options = toml_dataset(read_toml(Path(dataset)), Path(dataset))
    return load(dataset, **options | dataset_options(dataset, items, data_dir))


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file."""
    from graphshift.core.storage import read_text

    try:
        return parse_toml(read_text(path), where=str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GraphshiftError(f"{path}: this is not TOML: {error}.") from None


def fail(message: str, status: int) -> typing.NoReturn:
    """Ends the program: one message on standard error, and a status."""
    if len(message) > _LONGEST:  # what was found may be a file's whole content
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    print(f"graphshift: {message}", file=sys.stderr)
    raise SystemExit(status)


def refuse_existing(path: Path, force: bool) -> None:
    """Nothing is overwritten without being asked."""
    if path.exists() and not force:
        raise GraphshiftError(f"{path}: exists; nothing was changed. Replace it (--force), or choose another --out.")

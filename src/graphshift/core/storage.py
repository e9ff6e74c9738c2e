"""Files: safetensors and JSON, never pickle; written whole or not at all."""

import contextlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError


def write_json(path: Path, content: Any) -> None:
    """Writes JSON, readable by people."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a text file."""
    _replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_text(path: Path) -> str:
    """Reads a text file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise GraphshiftError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be read: {error.strerror}.") from None


def read_json(path: Path) -> Any:
    """Reads JSON."""
    try:
        return json.loads(read_text(path))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GraphshiftError(f"{path}: this is not JSON ({error}); the file is damaged.") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], note: Any = None) -> None:
    """Writes named tensors as one safetensors file, with a note of JSON in its header."""
    content: dict[str, Tensor] = {}
    stored: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        place = tensor.untyped_storage().data_ptr()
        content[name] = tensor.clone() if place in stored else tensor  # tied weights: safetensors shares nothing
        stored.add(place)
    header = {"graphshift": json.dumps(note)}

    def write(temporary: Path) -> None:
        try:
            safetensors.torch.save_file(content, temporary, metadata=header)
        except safetensors.SafetensorError as error:  # a full disk, for one
            raise OSError(None, str(error)) from None

    _replace(path, write)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Reads what :func:`write_tensors` wrote: the tensors and the note."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get("graphshift", "null"))
            return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise GraphshiftError(f"{path}: there is no such file.") from None
    except (safetensors.SafetensorError, json.JSONDecodeError) as error:
        raise GraphshiftError(f"{path}: this is not a whole safetensors file ({error}); the file is damaged.") from None
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be read: {error.strerror or error}.") from None


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes beside the target, forces it to disk and moves it there: a crash leaves the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)  # what the umask gives a new file
        write(temporary)
        os.chmod(temporary, mode)  # safetensors makes a file of its own there, for its owner alone
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be written: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()

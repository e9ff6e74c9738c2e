"""Files: safetensors and JSON, never pickle; written whole or not at all."""

import contextlib
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import MOST_JSON, check_regular, parse_json, read_bytes


def write_json(path: Path, content: Any) -> None:
    """Writes JSON, readable by people."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a text file."""
    _replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file."""
    _replace(path, lambda temporary: temporary.write_bytes(content))


def read_text(path: Path) -> str:
    """Reads a text file, of at most 64 MB."""
    return read_bytes(path, MOST_JSON).decode("utf-8")


def read_json(path: Path) -> Any:
    """Reads JSON, within the limits of :mod:`graphshift.core.parsing`; all that is ours comes by here."""
    return parse_json(read_bytes(path, MOST_JSON), where=str(path))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], note: Any = None) -> None:
    """Writes named tensors as one safetensors file, with a note of JSON in its header."""
    content: dict[str, Tensor] = {}
    stored: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        place = tensor.untyped_storage().data_ptr()
        content[name] = tensor.clone() if place in stored else tensor  # tied weights: safetensors shares nothing
        stored.add(place)
    header = {"graphshift": json.dumps(note), "crc32": _crc32(content)}

    def write(temporary: Path) -> None:
        try:
            safetensors.torch.save_file(content, temporary, metadata=header)
        except safetensors.SafetensorError as error:  # a full disk, for one
            raise OSError(None, str(error)) from None

    _replace(path, write)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Reads what :func:`write_tensors` wrote: the tensors and the note."""
    with _opened(path) as file:
        header = file.metadata() or {}
        note = parse_json(header.get("graphshift", "null"), where=str(path))
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if header.get("crc32", "") not in ("", _crc32(tensors)):  # files of earlier versions have none
        raise GraphshiftError(f"{path}: the numbers are not those that were written (crc32); the file is damaged.")
    return tensors, note


def _crc32(tensors: Mapping[str, Tensor]) -> str:
    """Of the bytes of all tensors, by name: a flipped bit in a weight would otherwise pass for another weight."""
    found = 0
    for name in sorted(tensors):
        found = zlib.crc32(tensors[name].contiguous().view(-1).view(torch.uint8).numpy().data, found)
    return f"{found:08x}"


def read_shapes(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """By name the type, as ``"F32"``, and the shape of every tensor in a safetensors file; none of them is read."""
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        return {name: (str(one.get_dtype()), tuple(one.get_shape())) for name, one in slices.items()}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file; whatever is wrong with it is one message."""
    check_regular(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise GraphshiftError(f"{path}: there is no such file.") from None
    except (safetensors.SafetensorError, RuntimeError, TypeError) as error:  # torch's, of types that it does not have
        why = " ".join(str(error).split())[:200]
        raise GraphshiftError(f"{path}: this is not a whole safetensors file ({why}); the file is damaged.") from None
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

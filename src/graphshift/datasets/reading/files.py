"""Raw files and parsed data: where they are, how missing ones are downloaded, and the cache of what was parsed."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import error_console
from graphshift.core.storage import read_json, read_tensors, write_json, write_tensors

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without an answer
_BAR_AFTER = 2.0  # seconds
_STALE = 3600.0  # seconds: a partial file that nobody has written to for so long belongs to a process that was killed


#: The folder of raw files, as datasets take it: None for ``$GRAPHSHIFT_DATA`` or the user's cache.
Folder: TypeAlias = str | Path | None


@dataclass(frozen=True)
class Source:
    """One raw file of a dataset.

    Args:
        path: where it lies in the data directory, as ``"twitch/DE/musae_DE_edges.csv"``.
        url: the data's official home; None if it cannot be fetched automatically.
        sha256: its digest, if known.
        size: its bytes, if known.
        home: where a person gets it, in words.
    """

    path: str
    url: str | None = None
    sha256: str | None = None
    size: int | None = None
    home: str = ""


def data_directory(data_dir: Folder) -> Path:
    """The folder of raw files: the one given, else ``$GRAPHSHIFT_DATA``, else ``data`` in the user's cache folder."""
    chosen = data_dir or os.environ.get("GRAPHSHIFT_DATA") or _cache_directory() / "data"
    folder = Path(chosen).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise GraphshiftError(f"{folder}: the data directory is a file; expected a folder.")
    return folder


def require(dataset: str, sources: Sequence[Source], data_dir: Folder) -> dict[str, Path]:
    """The files of a dataset, downloading the missing ones.

    A download is written beside its target, checked for its size and digest, and moved there: what is interrupted or
    wrong leaves nothing. Files that are there already are taken as they are (:func:`verify` compares digests).

    Returns:
        Every source's ``path`` and the file that exists.
    """
    folder = data_directory(data_dir)
    files = {source.path: folder / source.path for source in sources}
    missing = [source for source in sources if not files[source.path].is_file()]
    if not missing:
        return files
    problems: list[str] = []
    unreachable: dict[str, str] = {}
    with _download_bar() as bar:
        for source in missing:
            target = files[source.path]
            reason = "it cannot be downloaded automatically"
            if source.url is not None:
                host = urllib.parse.urlsplit(source.url).netloc
                try:
                    if host in unreachable:  # offline, every further file would wait for the same time-out
                        raise _FailedError(unreachable[host])
                    _download(source, target, bar)
                    continue
                except _UnreachableError as error:
                    unreachable[host] = reason = f"the download failed: {error}"
                except _FailedError as error:
                    reason = str(error) if host in unreachable else f"the download failed: {error}"
            origin = " · ".join(part for part in (source.url, source.home) if part) or "unknown"
            problems.append(f"  {source.path}: {reason}\n    from: {origin}\n    put it at: {target}")
    if problems:
        raise GraphshiftError(
            f"dataset {dataset!r}: {len(problems)} of {len(sources)} files are missing in {folder}. Download them by "
            "hand as listed, or name the folder that has them (`data_dir`, --data-dir or $GRAPHSHIFT_DATA).\n"
            + "\n".join(problems)
        )
    return files


def verify(dataset: str, sources: Sequence[Source], data_dir: Folder) -> list[dict[str, Any]]:
    """Compares a dataset's files with what is known of them; nothing is downloaded.

    Returns:
        For each file ``dataset``, ``path``, ``file`` (where it is or belongs), ``present``, ``size`` (bytes, None if
        missing) and ``sha256``: ``"ok"``, ``"wrong"``, or ``"unknown"`` if it is missing or has no known digest.
    """
    folder = data_directory(data_dir)
    rows = []
    for source in sources:
        file = folder / source.path
        present = file.is_file()
        state = "unknown"
        if present and source.size is not None and file.stat().st_size != source.size:
            state = "wrong"
        elif present and source.sha256 is not None:
            state = "ok" if _digest(file) == source.sha256 else "wrong"
        size = file.stat().st_size if present else None
        row = {"dataset": dataset, "path": source.path, "file": str(file), "present": present}
        rows.append({**row, "size": size, "sha256": state})
    return rows


def cached(
    name: str, files: Sequence[Path], version: int, options: Mapping[str, Any], parse: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """What ``parse`` makes of the files, from the cache if they, the parser and its options are the same as before.

    A cache that is damaged or cannot be written costs time, never an error. Raise ``version`` when the result of
    ``parse`` changes; ``options`` are JSON values.
    """
    folder = _cache_directory() / "parsed"
    known = [(file.name, digest) for file, digest in zip(files, _remembered_digests(files, folder), strict=True)]
    contents = {"name": name, "version": version, "options": options, "files": known}
    key = hashlib.sha256(json.dumps(contents, sort_keys=True, default=str).encode()).hexdigest()
    path = folder / f"{name}-{key[:24]}.safetensors"
    with suppress(GraphshiftError):
        tensors, note = read_tensors(path)
        if note == {"key": key, "crc32": _checksums(tensors)}:
            return tensors
    tensors = parse()
    with suppress(OSError, GraphshiftError):
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(path, _apart(tensors), {"key": key, "crc32": _checksums(tensors)})
    return tensors


def _cache_directory() -> Path:
    """``$GRAPHSHIFT_CACHE``, or ``graphshift`` in the folder that the platform keeps for caches."""
    chosen = os.environ.get("GRAPHSHIFT_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not base.is_absolute():  # the XDG specification: a relative path is ignored
            base = Path.home() / ".cache"
    return base / "graphshift"


def _digest(file: Path) -> str:
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise GraphshiftError(f"{file}: cannot be read: {error.strerror}.") from None


def _remembered_digests(files: Sequence[Path], folder: Path) -> list[str]:
    """Digests of files; those of unchanged files come from a small JSON instead of hashing again."""
    memory = folder / "digests.json"
    known, digests, fresh = {}, [], {}
    with suppress(GraphshiftError):
        found = read_json(memory)
        known = found if isinstance(found, dict) else {}
    for file in files:
        try:
            state = file.stat()
        except OSError as error:
            raise GraphshiftError(f"{file}: cannot be read: {error.strerror}.") from None
        # The change time tells files apart that were swapped with their modification times kept.
        stamp = [state.st_size, state.st_mtime_ns, state.st_ctime_ns]
        entry = known.get(str(file.absolute()))
        if isinstance(entry, list) and entry[:3] == stamp and len(entry) == 4 and isinstance(entry[3], str):
            digests.append(entry[3])
        else:
            digests.append(_digest(file))
            fresh[str(file.absolute())] = [*stamp, digests[-1]]
    if fresh:
        with suppress(OSError, GraphshiftError):
            folder.mkdir(parents=True, exist_ok=True)
            write_json(memory, known | fresh)
    return digests


def _checksums(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """safetensors notices a damaged header, not a damaged value; this does, at about a gigabyte a second."""
    return {name: zlib.crc32(t.contiguous().flatten().view(torch.uint8).numpy().data) for name, t in tensors.items()}


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, none sharing memory with another: safetensors refuses those that do."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        result[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return result


class _FailedError(Exception):
    """A download that did not work; the text says why."""


class _UnreachableError(_FailedError):
    """The host did not answer at all."""


def _download(source: Source, target: Path, bar: _Bar) -> None:
    assert source.url is not None
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest = hashlib.sha256()
    received = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target)
        request = urllib.request.Request(source.url, headers={"User-Agent": "graphshift"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer, open(part, "wb") as file:
            announced = answer.headers.get("Content-Length", "")
            expected = source.size if source.size is not None else int(announced) if announced.isdigit() else None
            bar.begin(target.name, expected)
            while chunk := answer.read(_CHUNK):
                received += len(chunk)
                if expected is not None and received > expected:
                    raise _FailedError(f"the server sent more than the {expected} bytes expected")
                digest.update(chunk)
                file.write(chunk)
                bar.advance(len(chunk))
            file.flush()
            os.fsync(file.fileno())
        if expected is not None and received != expected:
            raise _FailedError(f"{received} bytes came; expected {expected}")
        if source.sha256 is not None and digest.hexdigest() != source.sha256:
            raise _FailedError(f"its SHA-256 is {digest.hexdigest()}; expected {source.sha256}")
        os.replace(part, target)
    except urllib.error.HTTPError as error:
        raise _FailedError(f"HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _UnreachableError(str(error.reason)) from None
    except TimeoutError:
        raise _UnreachableError(f"no answer for {_TIMEOUT:g} s") from None
    except (http.client.HTTPException, ValueError) as error:
        raise _FailedError(f"{type(error).__name__}: {error}") from None
    except OSError as error:
        raise _FailedError(f"{error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def _remove_stale(target: Path) -> None:
    for old in target.parent.glob(f".{target.name}.*.part"):
        if time.time() - old.stat().st_mtime > _STALE:
            old.unlink(missing_ok=True)


class _Bar:
    """What a row of downloads reports to: nothing is shown until they have taken two seconds."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.title, self.completed = "", 0
        self.total: int | None = None
        self.progress: Any = None
        self.task: Any = None

    def begin(self, title: str, total: int | None) -> None:
        self.title, self.total, self.completed = title, total, 0
        if self.progress is not None:
            self.progress.reset(self.task, description=title, total=total)

    def advance(self, count: int) -> None:
        self.completed += count
        if self.progress is None and time.monotonic() - self.started > _BAR_AFTER:
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self.progress = Progress(*columns, console=error_console(), transient=True)
            self.task = self.progress.add_task(self.title, total=self.total)
            self.progress.start()
        if self.progress is not None:
            self.progress.update(self.task, completed=self.completed)


@contextmanager
def _download_bar() -> Iterator[_Bar]:
    bar = _Bar()
    try:
        yield bar
    finally:
        if bar.progress is not None:
            bar.progress.stop()

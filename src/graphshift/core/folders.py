"""Folders that we own: a run's, an ensemble's, a study's.

What is in such a folder is said by one file, its *configuration*. Nothing is removed that we did not write, another
configuration is refused with the differences named, one process writes at a time, and half-written files of a killed
process are no obstacle.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import short
from graphshift.core.storage import read_json, write_json


@dataclass(frozen=True)
class OwnedFolder:
    """A folder that we write into.

    Args:
        path: where it is.
        configuration: the name of the file that says what the folder holds.
        files: the names of everything else that we write into it, files and folders.
        members: a pattern of folders inside that we own as well if they have a configuration of the same name.
    """

    path: Path
    configuration: str
    files: Sequence[str]
    members: str = ""

    def is_occupied(self) -> bool:
        """Whether there is anything but half-written files of a killed process."""
        if self.path.exists() and not self.path.is_dir():
            raise GraphshiftError(f"{self.path}: is a file; --out names a folder.")
        try:
            return self.path.exists() and not all(self._is_leftover(path) for path in self.path.iterdir())
        except OSError as error:
            raise GraphshiftError(f"{self.path}: cannot be read: {error.strerror}.") from None

    def read(self) -> Any:
        """The configuration; None where there is none."""
        path = self.path / self.configuration
        return read_json(path) if path.is_file() else None

    def replace(self, configuration: Mapping[str, Any]) -> None:
        """Makes the folder if need be, removes what we wrote there, and nothing else, and writes the configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            members = self.path.glob(f"{self.members}/{self.configuration}") if self.members else ()
            ours = (self.path / name for name in (self.configuration, *self.files))
            for path in (*ours, *(path.parent for path in members)):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise GraphshiftError(f"{self.path}: cannot be made ready: {error.strerror}.") from None
        self.remove_leftovers()
        write_json(self.path / self.configuration, configuration)

    def remove_leftovers(self) -> None:
        """Removes the half-written files of a killed process, those in folders of ours too."""
        for path in list(self.path.iterdir()):
            if self._is_leftover(path) and not path.is_dir():
                path.unlink()
        for folder in (self.path / name for name in self.files):
            for path in list(folder.iterdir()) if folder.is_dir() else ():
                if re.fullmatch(r"\..+\.\d+\.tmp|\.tmp\w{6}", path.name):
                    path.unlink()

    def _is_leftover(self, path: Path) -> bool:
        """A half-written file, of us or of safetensors (``.tmp`` and six letters), or a member's empty folder.

        An ensemble that was killed before it wrote its configuration has nothing but that.
        """
        if self.members and path.is_dir() and path.match(self.members):
            return all(self._is_leftover(inside) for inside in path.iterdir())
        if any(name.endswith(".safetensors") for name in self.files) and re.fullmatch(r"\.tmp\w{6}", path.name):
            return True
        names = tuple(f".{name}." for name in (self.configuration, *self.files))
        return path.name.startswith(names) and path.name.endswith(".tmp")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from writing here during a block; a killed process leaves nothing locked."""
        try:
            import fcntl
        except ImportError:  # Windows has no such locks
            yield
            return
        made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise GraphshiftError(f"{self.path}: cannot be made: {error.strerror}.") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                busy = "another process is writing there; wait for it, or choose another --out."
                raise GraphshiftError(f"{self.path}: {busy}") from None
            yield
        except BaseException:
            if made and not any(self.path.iterdir()):  # nothing came of it: leave nothing
                self.path.rmdir()
            raise
        finally:
            os.close(handle)


def differences(there: Any, here: Mapping[str, Any], *, where: str, prefix: str = "") -> list[str]:
    """Which fields differ between what the file ``where`` holds and what was asked for, and how."""
    if not isinstance(there, dict):
        return [f"{prefix.rstrip('.') or where} is damaged"]
    found = []
    for name in sorted(there.keys() | here.keys()):
        old, new = there.get(name), here.get(name)
        if isinstance(new, dict):
            found += differences(old, new, where=where, prefix=f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name} is {short(old, 200)} there and {short(new, 200)} here")
    return found

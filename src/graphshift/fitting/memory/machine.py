"""What this process holds and what the system can still give, asked of Linux; elsewhere unknown."""

import ctypes
import re
from pathlib import Path


def resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """What this process holds now; None where the system does not tell."""
    try:
        found = re.search(r"^VmRSS:\s*(\d+) kB", status.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return 1024 * int(found[1]) if found else None


def give_back_freed(*, always: bool = False) -> bool:
    """Has the C library of Linux give back to the system what was freed: what loading left, for one.

    By default it learns to keep ever larger arrays, up to 32 MB, in a heap that breaks up: a mode that holds one view
    at a time then holds hardly less than all of them. ``always`` has it give back every array of a megabyte or more as
    soon as it is freed, from now on; that costs time, since the system clears what it gives out.

    Returns:
        Whether the C library knows how; others are left alone.
    """
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim(0)
        return bool(library.mallopt(-3, 2**20)) if always else True  # M_MMAP_THRESHOLD; once set, it learns no more
    except (OSError, AttributeError, TypeError):
        return False


def available_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What this process can still get: of the machine or of its control group, whichever is less.

    None where the system does not tell, as on macOS and Windows.
    """
    found = [_machine_available(proc / "meminfo"), _group_available(proc / "self" / "cgroup", cgroups)]
    return min((size for size in found if size is not None), default=None)


def _machine_available(meminfo: Path) -> int | None:
    """``MemAvailable``: what can be given out without swapping, caches that can be dropped included."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(meminfo), re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def _group_available(membership: Path, root: Path) -> int | None:
    """What the memory limits of the process's control groups leave, parents' limits included.

    A line of ``/proc/self/cgroup`` is ``0::/path`` in version 2, and ``4:memory:/path`` in version 1. In a container
    the path may be the host's, of which only the root can be seen.
    """
    left = []
    for line in _text(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            names = ("memory.max", "memory.current", "inactive_file")
            tops = [root, root / "unified"]
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            tops = [root / "memory"]
        else:
            continue
        for top in tops:
            folder = top / path.strip("/")
            for group in (folder, *folder.parents):
                left.append(_group_left(group, *names))
                if group == top:
                    break
    return min((size for size in left if size is not None), default=None)


def _group_left(group: Path, limit_file: str, used_file: str, cache_name: str) -> int | None:
    limit, used = (_text(group / name).strip() for name in (limit_file, used_file))
    if not limit.isdigit() or int(limit) >= 2**60:  # "max", and version 1's way to say the same
        return None
    cache = re.search(rf"^{cache_name} (\d+)$", _text(group / "memory.stat"), re.MULTILINE)  # given back when needed
    held = int(used) - (int(cache[1]) if cache else 0) if used.isdigit() else 0
    return max(int(limit) - max(held, 0), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""

"""How much memory can be had, from files as Linux writes them; sizes, read and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.fitting import memory
from graphshift.fitting.memory import available_bytes, parse_size, show_size

MB = 10**6


def fake(root: Path, files: dict[str, str]) -> dict[str, Path]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return {"proc": root / "proc", "cgroups": root / "cgroup"}


MEMINFO = "MemTotal:       24000 kB\nMemFree:         100 kB\nMemAvailable:   20000 kB\n"


def test_the_machine_tells_what_is_available(tmp_path: Path) -> None:
    assert available_bytes(**fake(tmp_path, {"proc/meminfo": MEMINFO})) == 20_000 * 1024


def test_a_system_that_does_not_tell_gives_none(tmp_path: Path) -> None:
    assert available_bytes(**fake(tmp_path, {})) is None
    assert available_bytes(**fake(tmp_path, {"proc/meminfo": "MemTotal: 24000 kB\n"})) is None
    assert memory.resident_bytes(tmp_path / "status") is None


def test_the_least_limit_of_control_groups_2_counts_without_their_caches(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/a/b\n",
        "cgroup/a/b/memory.max": "max\n",
        "cgroup/a/b/memory.current": "5\n",
        "cgroup/a/memory.max": "9000000\n",
        "cgroup/a/memory.current": "4000000\n",
        "cgroup/a/memory.stat": "anon 7\ninactive_file 1000000\nactive_file 3\n",
    }
    assert available_bytes(**fake(tmp_path, files)) == 6_000_000
    assert available_bytes(**fake(tmp_path, {"cgroup/a/b/memory.max": "2000000\n"})) == 1_999_995


def test_control_groups_1_and_a_path_that_cannot_be_seen(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/host/only\n0::/\n",
        "cgroup/memory/memory.limit_in_bytes": "3000000\n",
        "cgroup/memory/memory.usage_in_bytes": "1000000\n",
        "cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 500000\n",
    }
    assert available_bytes(**fake(tmp_path, files)) == 2_500_000
    unlimited = {"cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert available_bytes(**fake(tmp_path, unlimited)) == 20_000 * 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9),
        ("512MB", 512 * MB),
        ("3.5GiB", 3.5 * 2**30),
        ("123456", 123456),
        (" 2 kb ", 2000),
        ("1tib", 2**40),
        ("77B", 77),
    ],
)
def test_sizes_are_read(text: str, size: float) -> None:
    assert parse_size(text) == size


_SIZES = ["", "4G", "GB", "-4GB", "4 GBs", "four", "1e9", "1.5", "4XB", "0", "0.0GB", "٤GB", "9" * 500]


@pytest.mark.parametrize("text", _SIZES)
def test_other_sizes_are_refused_saying_what_is_expected(text: str) -> None:
    with pytest.raises(GraphshiftError, match=r"--limit is .*expected .*as 4GB"):
        parse_size(text, where="--limit")


def test_sizes_are_shown() -> None:
    assert [show_size(n) for n in (310 * MB, 4_240 * MB)] == ["310 MB", "4.2 GB"]

"""Tests an sdist and a wheel from a clean environment, with kernels and without: `python tests/release/check.py DIST`.

`make release` calls it. Needs some minutes: torch is installed anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

#: What is run if nobody says: everything that the kernels and the installation can break.
QUICK = [
    "tests/graph",
    "tests/backbones",
    "tests/explorers",
    "tests/methods",
    "tests/estimators",
    "tests/test_public_names.py",
]


def main() -> None:
    """Installs the wheel and tests; then the sdist without a compiler, and tests again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="folder with one sdist and one wheel")
    parser.add_argument("--tests", nargs="*", default=QUICK, help="what pytest is given")
    parser.add_argument("--only", choices=["with", "without"], help="a compiler: one half alone")
    given = parser.parse_args()
    (sdist,), (wheel,) = given.dist.resolve().glob("*.tar.gz"), given.dist.resolve().glob("*.whl")
    assert "-cp311-abi3-" in wheel.name, f"{wheel.name}: expected a wheel for the limited API"
    with tempfile.TemporaryDirectory(prefix="graphshift-release-") as name:
        folder = Path(name)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = (path for path in folder.iterdir() if path.is_dir())
        python = folder / "venv" / "bin" / "python"
        run([sys.executable, "-m", "venv", folder / "venv"], folder)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-r", source / "requirements-dev.lock"], folder)
        for what, kernels, how in (
            (wheel, True, {}),
            (sdist, False, {"CC": "false"}),  # a compiler that always fails
        ):
            if given.only not in (None, "with" if kernels else "without"):
                continue
            print(f"{what.name}: {'with' if kernels else 'without'} a compiler", flush=True)
            run([*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", "--no-cache-dir", what], folder, how)
            run([python, "-c", LOOK % (str(source), kernels)], folder)
            wanted = {"OMP_NUM_THREADS": "1"} | ({} if kernels else {"GRAPHSHIFT_NATIVE": "0"})
            run([python, "-m", "pytest", "-p", "no:cacheprovider", *given.tests], source, wanted)
            run(
                [python, "-m", "graphshift.cli", "toy", "--nodes", "50", "--environments", "5", "--repeats", "2"],
                folder,
            )
    print("all is fine")


LOOK = """
import graphshift
from graphshift.graph import kernels
assert %r not in graphshift.__file__, graphshift.__file__
assert kernels.available() is %r, "kernels"
"""


def run(command: list[object], folder: Path, environment: dict[str, str] | None = None) -> None:
    """A command that must succeed; nothing of this checkout is on its path."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], cwd=folder, env=clean | (environment or {}), check=True)


if __name__ == "__main__":
    main()

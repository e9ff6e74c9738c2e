"""What a release needs is there and agrees: version, citation, manifest, templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import graphshift

ROOT = Path(__file__).resolve().parents[1]


def test_the_version_is_the_same_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == graphshift.__version__
    assert {"cff-version", "message", "title", "authors", "license"} <= cited.keys()


def test_the_sdist_has_what_is_named() -> None:
    named = re.findall(r"^include (.+)$", (ROOT / "MANIFEST.in").read_text(encoding="utf-8"), re.MULTILINE)
    for name in " ".join(named).split():
        assert list(ROOT.glob(name)), name


def test_one_wheel_serves_all_versions_of_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    least = project["project"]["requires-python"].removeprefix(">=")
    digits = least.replace(".", "")
    assert project["tool"]["distutils"]["bdist_wheel"]["py-limited-api"] == f"cp{digits}"
    code = (ROOT / "src/graphshift/graph/kernels/module.c").read_text(encoding="utf-8")
    major, minor = map(int, least.split("."))
    assert f"Py_LIMITED_API 0x{major:02X}{minor:02X}0000" in code


def test_issue_templates_are_whole() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem != "config":
            assert content["name"]
            assert content["description"]
            assert all(item["attributes"]["label"] for item in content["body"])

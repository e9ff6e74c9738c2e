"""The container file copies what is there, and starts a command that exists. (It is not built here.)"""

import inspect
import json
import re
from pathlib import Path

from graphshift.cli.serve import serve

ROOT = Path(__file__).resolve().parents[1]


def test_what_is_copied_is_there_and_the_command_has_its_options() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists(), name
    (command,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    program, name, _, *options = json.loads(command)
    assert (Path(program).name, name) == ("graphshift", serve.__name__)
    assert {"host"} == {one.removeprefix("--") for one in options if one.startswith("--")}
    assert "host" in inspect.signature(serve).parameters
    assert re.search(r"^USER graphshift$", text, re.MULTILINE)


def test_what_is_copied_is_sent_and_nothing_else() -> None:
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(" ".join(copied).split())

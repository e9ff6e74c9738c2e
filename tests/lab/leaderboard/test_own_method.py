"""One command adds a method of one's own to the leaderboard."""

from __future__ import annotations

import subprocess
from pathlib import Path

from html_reading import Element, cells, check_page
from scripts import process

MODULE = '''
from dataclasses import dataclass

from graphshift.core.hparams import hparam
from graphshift.methods import METHODS, ERMMethod, GNNEstimator


@METHODS.register("mine", label="Mine")
@dataclass(eq=False, repr=False, kw_only=True)
class Mine(GNNEstimator):
    """ERM under another name."""

    quiet: float = hparam(0.5, gt=0, le=1, search=(0.25, 0.5), help="nothing")

    def make_method(self, backbone):
        return ERMMethod(backbone, self)
'''


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["-m", "graphshift.cli", "reproduce", "leaderboard", *words]
    return process(command, folder, GRAPHSHIFT_PLUGINS=str(folder / "mine.py"))


def test_a_method_of_ones_own_is_added(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    words = ("--experiments", "cbas-concept", "--methods", "mine", "--quick", "--workers", "0", "--out", "board")
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("leaderboard: ")]
    assert said == ["leaderboard: cbas-concept, erm", "leaderboard: cbas-concept, mine"]
    page = tmp_path / "board/quick/leaderboard/board.html"
    root = check_page_with_script(page.read_text(encoding="utf-8"))
    head, *rows = cells(next(root.all("table")))
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows if row[head.index("chosen by")] == "val"}
    assert found["Mine, gcn"]["league"] == "no target"
    assert found["Mine, gcn"]["mean test"] != "–"
    assert found["Mine, gcn"]["trials"] == found["ERM, gcn"]["trials"] == "2"
    again = run(tmp_path, *words)
    assert again.returncode == 0, again.stderr
    assert "leaderboard: cbas-concept" not in again.stderr  # everything was there
    other = run(tmp_path, "--experiments", "cora-degre", "--out", "board")
    assert other.returncode == 2
    assert "Did you mean 'cora-degree'" in other.stderr
    assert "Traceback" not in other.stderr


def check_page_with_script(html: str) -> Element:
    """The page without its own script is held to what holds for all pages."""
    before, script = html.split("<script>")
    inside, after = script.split("</script>")
    assert "fetch" not in inside
    assert "import" not in inside
    return check_page(before + after.removeprefix("\n"))

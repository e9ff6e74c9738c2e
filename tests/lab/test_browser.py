"""The page of a study in a real browser: nothing runs over a phone's edge, figures are there, it prints."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphshift.lab.leaderboard.board import board
from graphshift.lab.leaderboard.coverage import coverage
from graphshift.lab.leaderboard.page import board_page
from graphshift.lab.paper import EXPERIMENTS
from graphshift.report.page import Section, Table, Text, page
from graphshift.report.study_report import write_report
from graphshift.report.study_tables import StudyTable
from tiny_studies import everything

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here: the page is not looked at")

WIDTHS = (320, 390, 1280)

#: A browser's window has a least width, a frame has none: each frame is a screen. What is folded is opened first.
MEASURE = """
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach(one => one.open = true);
    const boxes = [...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect());
    const scrolls = [...page.querySelectorAll(".scroll, .picture")];
    const wide = scrolls.filter(one => one.scrollWidth > one.clientWidth);
    wide.forEach(one => one.scrollLeft = 10000);
    const first = wide.filter(one => one.matches(".scroll")).map(one =>
      one.querySelector("tbody th").getBoundingClientRect().left - one.getBoundingClientRect().left);
    return {
      screen: frame.contentWindow.innerWidth, width: page.documentElement.scrollWidth,
      dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches,
      paper: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
      card: [...page.querySelectorAll(".picture")].map(
        one => frame.contentWindow.getComputedStyle(one).backgroundColor),
      svgs: boxes.map(box => [box.width, box.height]), wide: wide.length, first: first,
      text: [...page.querySelectorAll("svg text")].map(one => one.getBoundingClientRect().height),
    };
  });
  document.body.innerHTML = "";
  document.body.append(Object.assign(document.createElement("pre"), {textContent: JSON.stringify(found)}));
});
"""


def browse(tmp_path: Path, *words: str) -> tuple[str, str]:
    """What the browser answers, and what the page and its frames said on the console."""
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        *words,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def measured(tmp_path: Path, content: str, *words: str) -> tuple[list[dict[str, Any]], str]:
    frames = "".join(
        f'<iframe style="width:{width}px;height:844px;border:0" srcdoc="{html.escape(content)}"></iframe>'
        for width in WIDTHS
    )
    wrapper = tmp_path / "screens.html"
    wrapper.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frames}<script>{MEASURE}</script></body>')
    answer, console = browse(tmp_path, "--window-size=1400,900", "--dump-dom", *words, wrapper.as_uri())
    (found,) = re.findall(r"<pre>(.*)</pre>", answer)
    return json.loads(html.unescape(found)), console


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_report(everything(), folder)
    return folder / "report.html"


def test_the_page_fits_phones_and_desks(report: Path, tmp_path: Path) -> None:
    screens, console = measured(tmp_path, report.read_text(), "--blink-settings=preferredColorScheme=1")
    assert console == ""
    assert [screen["screen"] for screen in screens] == list(WIDTHS)
    for screen in screens:
        assert screen["width"] <= screen["screen"]
        assert len(screen["svgs"]) == 9
        assert all(width > 250 and height > 100 for width, height in screen["svgs"])
        assert min(screen["text"]) > 8  # pixels: readable, because the picture scrolls and does not shrink
        assert not screen["dark"]
        assert screen["paper"] == "rgb(255, 255, 255)"
        assert screen["first"] == pytest.approx([0] * len(screen["first"]), abs=1)  # names stay in sight
    assert screens[0]["wide"] > 0
    assert screens[0]["first"]


def test_in_the_dark_figures_stand_on_white(report: Path, tmp_path: Path) -> None:
    screens, console = measured(tmp_path, report.read_text(), "--blink-settings=preferredColorScheme=0")
    assert console == ""
    for screen in screens:
        assert screen["dark"]
        assert max(map(int, re.findall(r"\d+", screen["paper"]))) < 60
        assert set(screen["card"]) == {"rgb(255, 255, 255)"}


def test_a_page_that_is_wrong_is_caught(tmp_path: Path) -> None:
    """The eye of the two tests above, held against what it has to see."""
    table = StudyTable("t", ["a", *"bcdefgh"], [["x" * 12, *["1234567890 ± 1"] * 7]])
    content = page("T", [Section("S", [Text("x"), Table(table)])]).replace("overflow-x: auto", "overflow: visible")
    content = content.replace("</main>", "</main><script>console.error('it broke')</script>")
    screens, console = measured(tmp_path, content)
    assert screens[0]["width"] > screens[0]["screen"]
    assert "it broke" in console


def test_it_prints(report: Path, tmp_path: Path) -> None:
    pdf = tmp_path / "report.pdf"
    browse(tmp_path, f"--print-to-pdf={pdf}", "--no-pdf-header-footer", report.as_uri())
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    sizes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", content)
    assert 6 <= len(sizes) <= 16  # what is folded on a screen is on paper
    assert {(round(float(w)), round(float(h))) for w, h in sizes} <= {(595, 842), (594, 842), (596, 842), (595, 841)}


#: Filters by the second column, searches, sorts by the third up and down; what is in sight after each.
HANDLE = """
addEventListener("load", () => {
  const found = {};
  const table = document.querySelector("table[data-filters]"), form = document.querySelector("form.filters");
  const seen = () => [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[0].textContent);
  const list = form.querySelector("select"), search = form.querySelector("input");
  const change = (one, value) => {
    one.value = value;
    one.dispatchEvent(new Event(one === search ? "input" : "change"));
  };
  found.options = [...list.options].map(option => option.textContent);
  change(list, "one");
  found.filtered = [seen(), form.querySelector("output").value];
  change(search, "B 5");
  found.searched = seen();
  change(search, ""), change(list, "");
  const button = table.tHead.rows[0].cells[2].querySelector("button");
  button.click();
  found.down = [seen(), table.tHead.rows[0].cells[2].getAttribute("aria-sort")];
  button.click();
  found.up = [seen(), table.tHead.rows[0].cells[2].getAttribute("aria-sort")];
  table.tHead.rows[0].cells[0].querySelector("button").click();
  found.names = seen();
  document.body.innerHTML = "";
  document.body.append(Object.assign(document.createElement("pre"), {textContent: JSON.stringify(found)}));
});
"""


def filtered_page() -> str:
    rows = [["b", "one", "5.1 ± 0.2"], ["c", "two", "–"], ["a", "one", "10.0"], ["d", "one", "-3.0 [-4.0, -1.0]"]]
    return page("T", [Section("S", [Table(StudyTable("t", ["name", "kind", "score"], rows), filters=[1])])])


def test_a_table_is_filtered_searched_and_sorted(tmp_path: Path) -> None:
    file = tmp_path / "table.html"
    file.write_text(filtered_page().replace("</body>", f"<script>{HANDLE}</script></body>"), encoding="utf-8")
    answer, console = browse(tmp_path, "--dump-dom", file.as_uri())
    assert console == ""
    (text,) = re.findall(r"<pre>(.*)</pre>", answer)
    found = json.loads(html.unescape(text))
    assert found["options"] == ["all", "one", "two"]
    assert found["filtered"] == [["b", "a", "d"], "3 of 4 lines"]
    assert found["searched"] == ["b"]
    assert found["down"] == [["a", "b", "d", "c"], "descending"]  # what has no number stands last
    assert found["up"] == [["d", "b", "a", "c"], "ascending"]
    assert found["names"] == ["a", "b", "c", "d"]


def test_without_scripts_it_is_a_plain_table(tmp_path: Path) -> None:
    """A frame that may run no script: every line is in sight, and nothing offers what would not work."""
    frame = f'<iframe sandbox="allow-same-origin" srcdoc="{html.escape(filtered_page())}"></iframe>'
    look = """addEventListener("load", () => {
      const inside = document.querySelector("iframe").contentDocument;
      const rows = [...inside.querySelectorAll("tbody tr")].map(row => row.getBoundingClientRect().height > 0);
      const text = JSON.stringify([rows, inside.querySelectorAll("form, button").length]);
      document.body.innerHTML = "";
      document.body.append(Object.assign(document.createElement("pre"), {textContent: text}));
    });"""
    file = tmp_path / "plain.html"
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frame}<script>{look}</script>', encoding="utf-8")
    (text,) = re.findall(r"<pre>(.*)</pre>", browse(tmp_path, "--dump-dom", file.as_uri())[0])
    assert json.loads(html.unescape(text)) == [[True] * 4, 0]


def test_the_leaderboard_fits_phones(tmp_path: Path) -> None:
    """The committed lines of some experiments, on screens of every size."""
    experiments = [EXPERIMENTS[name] for name in ("structure", "twitch-gcn", "cbas-concept")]
    folder = Path(__file__).resolve().parents[2] / "results"
    lines = board(folder, experiments)
    content = board_page(lines, coverage(folder, experiments, ["erm", "eerm", "tar"], lines))
    screens, console = measured(tmp_path, content)
    assert console == ""
    for screen in screens:
        assert screen["width"] <= screen["screen"]
        assert screen["first"] == pytest.approx([0] * len(screen["first"]), abs=1)  # the method stays in sight
    assert screens[0]["wide"] > 0

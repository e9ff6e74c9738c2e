"""The builder of pages: whatever is put into it, the page is well-formed, whole and loads nothing."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure as Drawing

from graphshift.core.errors import GraphshiftError
from graphshift.report.page import Code, Details, Facts, Figure, Points, Section, Table, Text, page
from graphshift.report.shift_figures import pairs_figure
from graphshift.report.study_tables import StudyTable
from graphshift.report.svg import inline_svg
from html_reading import cells, check_page

NASTY = '<b>&"bold"\' </td><script>alert(1)</script>'
NUMBERS = StudyTable("scores", ["arm", "score", "chosen"], [["A", "1.5 ± 0.1", "lr=1"], ["B", "–", "lr=2"]], "a note")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture with markers, clipping and text, as the reports draw them."""
    path = tmp_path_factory.mktemp("drawn") / "drawn.svg"
    figure = Drawing(figsize=(4, 3))
    axes = figure.subplots()
    axes.plot([0, 1, 2], [1, 0, 2], marker="o", label="a < b & c")
    axes.scatter([0, 1], [1, 2])
    axes.legend()
    with rc_context({"svg.hashsalt": "graphshift", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
    return path


def test_every_block_is_on_the_page(drawn: Path) -> None:
    inner = Section("Inner", [Text("deep"), Section("Innermost", [Text("deepest")])])
    blocks = [
        Text("run `make`"),
        Points(["one", "`two`"]),
        Facts({"seed": "47"}),
        Code("a < b\nc"),
        Table(NUMBERS),
        Figure(drawn, "a picture"),
        Details("more", [Text("folded"), inner]),
    ]
    html = page("Title", [Section("First", blocks), Section("Second", [])], lead=[Text("the gist", lead=True)])
    root = check_page(html)
    assert [heading.text for heading in root.all() if heading.tag in ("h1", "h2", "h3", "h4")] == [
        "Title",
        "First",
        "Inner",
        "Innermost",
        "Second",
    ]
    assert [link.text for link in next(root.all("nav")).all("a")] == ["First", "Second"]
    assert [code.text for code in root.all("code")] == ["make", "two", "a < b\nc"]
    assert [(name.text, value.text) for name, value in zip(root.all("dt"), root.all("dd"), strict=True)] == [
        ("seed", "47")
    ]
    (lead,) = [p for p in next(root.all("header")).all("p") if p.attributes.get("class") == "lead"]
    assert lead.text == "the gist"
    (folded,) = root.all("details")
    assert "folded" in folded.text
    assert "open" not in folded.attributes
    (viewport,) = [meta for meta in root.all("meta") if meta.attributes.get("name") == "viewport"]
    assert viewport.attributes["content"] == "width=device-width, initial-scale=1"
    (style,) = root.all("style")  # the figure's own would reach the whole page
    for rule in ("prefers-color-scheme: dark", "@media print", "size: A4", "tabular-nums"):
        assert rule in style.text


def test_tables_keep_their_cells_and_set_rows_off() -> None:
    root = check_page(page("T", [Section("S", [Table(NUMBERS, best=[0], aside=[1])])]))
    (table,) = root.all("table")
    assert cells(table) == [list(NUMBERS.columns), *map(list, NUMBERS.rows)]
    assert next(table.all("caption")).text == "scores"
    assert [p.text for p in root.all("p")] == ["a note"]
    rows = list(table.all("tr"))
    assert [row.attributes.get("class") for row in rows] == [None, "best", "aside"]
    kinds = [[cell.attributes.get("class") for cell in row.all() if cell.tag in ("th", "td")] for row in rows]
    assert kinds == [["words", "number", "words"], [None, "number", "words"], [None, "number", "words"]]
    (plain,) = check_page(page("T", [Section("S", [Table(NUMBERS, words=True)])])).all("table")
    assert not [cell for cell in plain.all() if cell.attributes.get("class") == "number"]
    scopes = [[cell.attributes["scope"] for cell in row.all("th")] for row in rows]
    assert scopes == [["col"] * 3, ["row"], ["row"]]
    (scrolled,) = [div for div in root.all("div") if div.attributes.get("class") == "scroll"]
    assert (scrolled.attributes["tabindex"], scrolled.attributes["aria-label"]) == ("0", "scores")


def test_nothing_that_is_put_in_breaks_the_page(drawn: Path) -> None:
    table = StudyTable(NASTY, [NASTY, NASTY], [[NASTY, NASTY]], NASTY)
    blocks = [
        Text(NASTY),
        Points([NASTY]),
        Facts({NASTY: NASTY}),
        Code(NASTY),
        Table(table),
        Figure(drawn, NASTY),
        Details(NASTY, [Text(NASTY)]),
    ]
    html = page(NASTY, [Section(NASTY, blocks), Section(NASTY, [])], lead=[Text(NASTY)])
    root = check_page(html)
    assert "<b>" not in html
    for tag in ("title", "h1", "h2", "a", "li", "dt", "dd", "pre", "caption", "th", "td", "figcaption", "summary"):
        assert next(element.text for element in root.all(tag) if element.text != "") == NASTY
    assert next(root.all("svg")).attributes["aria-label"] == NASTY


def test_warnings_are_set_off_wherever_they_stand() -> None:
    words = "not allowed: <looks> at tests"
    table = StudyTable(f"by oracle ({words})", ["arm", f"score, {words}"], [["A", words]])
    html = page(words, [Section("S", [Text(words), Points([words]), Table(table)])], warnings=[words])
    root = check_page(html)
    marked = [element.text for element in root.all("strong") if element.attributes.get("class") == "warning"]
    assert marked == [words] * 6
    assert next(root.all("title")).text == words


def test_words_are_set_off_whatever_they_are() -> None:
    names = ["ERM", "ERM, b", "code", "<b>", "strong", ""]
    html = page("T", [Section("S", [Text("ERM, b is not ERM; `code` <b> code, ERMs", strong=names), Points(["a `b"])])])
    root = check_page(html)
    assert [element.text for element in root.all("b")] == ["ERM, b", "ERM", "<b>", "code"]
    assert [element.text for element in root.all("code")] == ["code"]
    assert [element.text for tag in ("p", "li") for element in root.all(tag)][:2] == [
        "ERM, b is not ERM; code <b> code, ERMs",
        "S",
    ]
    assert [element.text for element in root.all("li")][-1] == "a `b"


def test_figures_do_not_clash(drawn: Path) -> None:
    once, twice = (page("T", [Section("S", [Figure(drawn, "a")] * n)]) for n in (1, 2))
    (svg,) = check_page(once).all("svg")
    first, second = check_page(twice).all("svg")  # unique ids, and every reference is found
    used = [[e.attributes["href"] for e in one.all("use")] for one in (svg, first, second)]
    assert used[0]
    assert used[0] == used[1]
    assert not set(used[1]) & set(used[2])
    assert len(once) < len(twice)


def test_an_svg_loses_what_a_page_must_not_have() -> None:
    text = (
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" '
        'width="9pt" height="9pt" viewBox="0 0 90 90" onload="alert(1)"><metadata>http://here</metadata><script>alert(1)</script>'
        '<defs><style>*{fill: red}</style><clipPath id="c"><rect id="r" width="9"/></clipPath></defs>'
        '<g id="unused" clip-path="url(#c)"><use x:href="#r"/><image x:href="http://there/x.png"/>'
        "<text style=\"font-family: 'A', B; fill: #fff\">a &lt; b</text></g></svg>"
    )
    svg = inline_svg(text, "p-", 'it\'s a "label"')
    assert svg == (
        '<svg viewBox="0 0 90 90" role="img" aria-label="it\'s a &quot;label&quot;" '
        'style="--width: 90px; stroke-linejoin: round; stroke-linecap: butt"><defs><clipPath id="p-c">'
        '<rect id="p-r" width="9" /></clipPath></defs><g clip-path="url(#p-c)"><use href="#p-r" /><image />'
        '<text style="fill: #fff">a &lt; b</text></g></svg>'
    )


def test_a_heat_map_keeps_its_pixels() -> None:
    found = pairs_figure(
        {"classes": ["a", "b"], "source": [[0.9, 0.1], [0.2, 0.8]], "target": [[0.5, 0.5], [0.5, 0.5]]}
    )
    assert found is not None
    svg = inline_svg(found, "p-", "pairs")
    maps = re.findall(r'<image [^>]*href="(data:image/png;base64,[^"]+)"', svg)
    assert len(maps) >= 3  # source, target, difference; and their scales
    assert base64.b64decode(maps[0].partition(",")[2], validate=True).startswith(b"\x89PNG")
    assert {"0.90", "0.50", "-0.40"} <= {
        one.replace("\N{MINUS SIGN}", "-") for one in re.findall(r">([^<>]+)</text>", svg)
    }


@pytest.mark.parametrize("content", ["no xml", "<svg/>", "<p viewBox='0 0 1 1'/>", "", "<svg viewBox='0 0'/>"])
def test_what_is_no_picture_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.svg").write_text(content)
    with pytest.raises(GraphshiftError, match=r"x\.svg: this is no.*draw it again"):
        page("T", [Section("S", [Figure(tmp_path / "x.svg", "a")])])
    with pytest.raises(GraphshiftError, match=r"y\.svg: cannot be read: No such file"):
        page("T", [Section("S", [Figure(tmp_path / "y.svg", "a")])])


def test_the_same_content_gives_the_same_bytes_and_titles_their_own_ids(drawn: Path) -> None:
    sections = [Section("Same title", [Figure(drawn, "a")]), Section("Same title", []), Section("日本", [])]
    html = page("T", sections)
    assert html == page("T", sections)
    assert [heading.attributes["id"] for heading in check_page(html).all("h2")] == [
        "same-title",
        "same-title-2",
        "section",
    ]

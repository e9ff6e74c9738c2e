"""Reads HTML strictly, for the tests of pages: an element that is not closed where it should be is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

_VOID = ("meta", "br", "hr", "link", "img", "input")
_LOADING = ("script", "link", "img", "image", "iframe", "object", "embed", "video", "audio", "source", "base", "form")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    inside: list[Element | str] = field(default_factory=list)

    def all(self, tag: str | None = None) -> Iterator[Element]:
        """The element and all in it, in order; only those of a kind if one is given."""
        if tag in (None, self.tag):
            yield self
        for child in self.inside:
            if isinstance(child, Element):
                yield from child.all(tag)

    @property
    def text(self) -> str:
        """What is read; a space is a space, whether a line may break there or not."""
        found = "".join(child if isinstance(child, str) else child.text for child in self.inside)
        return found.replace("\N{NO-BREAK SPACE}", " ")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{self.getpos()}: an attribute of <{tag}> is there twice"
        element = Element(tag, dict(attrs))
        self.open[-1].inside.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert any(element.tag == "svg" for element in self.open), f"{self.getpos()}: <{tag}/> is no HTML"
        self.open[-1].inside.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"{self.getpos()}: </{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read(html: str) -> Element:
    """The page's <html>, if it is well-formed."""
    assert html.startswith("<!DOCTYPE html>\n")
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert [element.tag for element in reader.open] == [""], "something is not closed"
    (root,) = (child for child in reader.open[0].inside if isinstance(child, Element))
    return root


def check_page(html: str) -> Element:
    """What must hold for every page: it loads nothing, ids are unique and found, headings in order, all is named."""
    root = read(html)
    assert root.attributes["lang"] == "en"
    elements = list(root.all())
    assert not [element.tag for element in elements if element.tag in _LOADING]
    assert not re.search(r"https?:|@import|url\((?!#)", html)
    ids = [element.attributes["id"] for element in elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in elements:
        for name, value in element.attributes.items():
            assert name not in ("src", "srcset", "data", "action", "background", "poster")
            assert not name.startswith("on")
            wanted = re.findall(r"url\(#([^)]*)\)", value or "") + ([(value or "")[1:]] if name == "href" else [])
            assert all(target in ids for target in wanted), f"{name}={value!r} leads nowhere"
    levels = [int(element.tag[1]) for element in elements if re.fullmatch("h[1-6]", element.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for table in root.all("table"):
        assert next(table.all("caption")).text
        assert {head.attributes["scope"] for head in table.all("th")} <= {"col", "row"}
    for figure in root.all("figure"):
        caption = next(figure.all("figcaption")).text
        (picture,) = figure.all("svg")
        assert (picture.attributes["role"], picture.attributes["aria-label"]) == ("img", caption)
    return root


def cells(table: Element) -> list[list[str]]:
    """What stands in a table, its head first."""
    return [[cell.text for cell in row.all() if cell.tag in ("th", "td")] for row in table.all("tr")]

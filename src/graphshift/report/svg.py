"""A figure's SVG, ready to stand inside a page beside others."""

import re
from pathlib import Path
from xml.etree import ElementTree

from graphshift.core.errors import GraphshiftError

#: What a page has no use for. matplotlib's one style rule is for every element there is; the root takes its place.
_LEFT_OUT = ("metadata", "script", "style", "title")
_ROOT_STYLE = "stroke-linejoin: round; stroke-linecap: butt"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_PIXELS = "data:image/png;base64,"  # of a heat map: they are in the picture, so nothing is loaded
_FONTS = re.compile(r"font-family:[^;]*;?\s*")


def inline_svg(figure: Path | str, prefix: str, label: str) -> str:
    """The picture as an element of HTML: ids begin with a prefix, nothing is loaded, fonts are the page's.

    Args:
        figure: an SVG file as matplotlib writes it, or its text.
        prefix: no other picture on the page may have it.
        label: what the picture shows, for those who do not see it.
    """
    where = figure if isinstance(figure, Path) else "figure"
    try:
        root = ElementTree.fromstring(figure.read_text(encoding="utf-8") if isinstance(figure, Path) else figure)
    except OSError as error:
        raise GraphshiftError(f"{where}: cannot be read: {error.strerror}.") from None
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise GraphshiftError(f"{where}: this is not SVG ({error}); draw it again.") from None
    if _plain(root.tag) != "svg" or len(size := root.get("viewBox", "").split()) != 4:
        raise GraphshiftError(f"{where}: this is no SVG picture with a viewBox; draw it again.")
    _clean(root, prefix, _references(root))
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": label,
        "style": f"--width: {float(size[2]):.0f}px; {_ROOT_STYLE}",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _references(root: ElementTree.Element) -> set[str]:
    """The ids that something in the picture points to; all others can go."""
    found = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            found |= set(_REFERENCE.findall(value))
            if _plain(name) == "href":
                found.add(value.removeprefix("#"))
    return found


def _clean(element: ElementTree.Element, prefix: str, kept: set[str]) -> None:
    """Takes namespaces, unused ids and fonts out of an element and of all in it."""
    element.tag = _plain(element.tag)
    attributes = {}
    for name, value in element.attrib.items():
        name = _plain(name)
        if name == "id":
            if value not in kept:
                continue
            value = prefix + value
        elif name == "href":
            if not value.startswith(("#", _PIXELS)):
                continue  # it would be loaded
            value = f"#{prefix}{value[1:]}" if value.startswith("#") else "".join(value.split())
        elif name == "style":
            value = _FONTS.sub("", value)
        elif name.startswith("on"):
            continue  # a script
        attributes[name] = _REFERENCE.sub(rf"url(#{prefix}\1)", " ".join(value.split()))
    element.attrib = attributes
    for child in list(element):
        if _plain(child.tag) in _LEFT_OUT:
            element.remove(child)
        else:
            _clean(child, prefix, kept)


def _plain(name: str) -> str:
    """A name without its namespace: HTML knows what an svg is."""
    return name.rpartition("}")[2]

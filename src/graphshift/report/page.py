"""One HTML page that needs nothing but itself: sections of text, tables and figures, for screen, phone and print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TypeAlias

from graphshift.report.study_tables import StudyTable
from graphshift.report.svg import inline_svg


@dataclass(frozen=True)
class Text:
    """A paragraph; `` `names` `` are set as code."""

    text: str
    lead: bool = False  #: set it larger: what the page says in one breath
    strong: Sequence[str] = ()  #: the words in it to set off, such as the names of those compared


@dataclass(frozen=True)
class Points:
    """A list; `names` and what is ``strong`` as in :class:`Text`."""

    items: Sequence[str]
    strong: Sequence[str] = ()


@dataclass(frozen=True)
class Facts:
    """Names with what there is to say of each."""

    pairs: Mapping[str, str]


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table, whose first column names the rows."""

    table: StudyTable
    best: Sequence[int] = ()  #: the rows to set off, by number
    aside: Sequence[int] = ()  #: the rows that are there for reference, by number
    words: bool = False  #: no column is one of numbers, even if some of its cells begin with one
    filters: Sequence[int] = ()  #: the columns, by number, to filter by; such a table can be sorted, too (with scripts)


@dataclass(frozen=True)
class Figure:
    """A picture: an SVG file as matplotlib writes it, or its text, and what it shows."""

    svg: Path | str
    caption: str


@dataclass(frozen=True)
class Details:
    """What is folded away until it is asked for; paper shows it."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it, other sections among it."""

    title: str
    blocks: Sequence[Block]


Block: TypeAlias = Text | Points | Facts | Code | Table | Figure | Details | Section


def page(title: str, sections: Sequence[Section], *, lead: Sequence[Block] = (), warnings: Sequence[str] = ()) -> str:
    """A whole page, the same bytes for the same content. ``lead`` stands under the title, before the contents;
    ``warnings`` are words that nobody may overlook, set off wherever they stand.
    """
    writer = _Writer(tuple(warnings))
    opening = writer.blocks(lead, 2)
    named = [(section, writer.name(section.title)) for section in sections]
    body = "\n".join(writer.section(section, 2, name) for section, name in named)
    contents = "".join(f'<li><a href="#{name}">{writer.text(section.title)}</a></li>' for section, name in named)
    css, js = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("page.css", "table.js"))
    script = f"<script>\n{js}</script>\n" if writer.filtered else ""
    head = '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    head += f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n"
    header = f"<header>\n<h1>{writer.text(title)}</h1>\n{opening}\n</header>"
    navigation = f'<nav aria-label="Contents"><ul>{contents}</ul></nav>'
    return f"{head}<body>\n{header}\n{navigation}\n<main>\n{body}\n</main>\n{script}</body>\n</html>\n"


_TAGS = {"warning": ('<strong class="warning">', "</strong>"), "strong": ("<b>", "</b>"), "code": ("<code>", "</code>")}


def _escaped(text: str) -> str:
    """Text for HTML; a per cent sign stays with its number."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


@dataclass
class _Writer:
    """Writes blocks as HTML and keeps the ids of the page apart."""

    warnings: tuple[str, ...]
    names: set[str] = field(default_factory=set)
    figures: int = 0
    filtered: bool = False  # whether a table can be filtered

    def name(self, title: str) -> str:
        """An id made of a title; the second of the same name gets a number."""
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        found, number = plain, 1
        while found in self.names:
            number += 1
            found = f"{plain}-{number}"
        self.names.add(found)
        return found

    def text(self, text: str) -> str:
        """Text with its warnings set off, and nothing else in it that is more than text."""
        return self._set(text, {"warning": [re.escape(words) for words in self.warnings]})

    def prose(self, text: str, strong: Sequence[str] = ()) -> str:
        """Text that also has code and words to set off."""
        longest_first = sorted(filter(None, strong), key=len, reverse=True)
        words = [rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first]
        warnings = [re.escape(name) for name in self.warnings]
        return self._set(text, {"warning": warnings, "code": ["`[^`]+`"], "strong": words})

    def _set(self, text: str, kinds: Mapping[str, Sequence[str]]) -> str:
        """Escapes a text piece by piece: what is found in it gets its tags, whatever it looks like."""
        pattern = "|".join(f"(?P<{kind}>{'|'.join(found)})" for kind, found in kinds.items() if found)
        parts, end = [], 0
        for match in re.finditer(pattern, text) if pattern else ():
            before, after = _TAGS[str(match.lastgroup)]
            inside = match.group().strip("`") if match.lastgroup == "code" else match.group()
            parts += [_escaped(text[end : match.start()]), before, _escaped(inside), after]
            end = match.end()
        return "".join([*parts, _escaped(text[end:])])

    def blocks(self, blocks: Sequence[Block], level: int) -> str:
        return "\n".join(self.block(block, level) for block in blocks)

    def block(self, block: Block, level: int) -> str:
        """One block; a section in it gets a heading of that level."""
        match block:
            case Text(text, lead, strong):
                opening = '<p class="lead">' if lead else "<p>"
                return f"{opening}{self.prose(text, strong)}</p>"
            case Points(items, strong):
                return f"<ul>{''.join(f'<li>{self.prose(item, strong)}</li>' for item in items)}</ul>"
            case Facts(pairs):
                rows = (f"<div><dt>{self.text(k)}</dt><dd>{self.prose(v)}</dd></div>" for k, v in pairs.items())
                return f"<dl>{''.join(rows)}</dl>"
            case Code(text):
                return f'<pre tabindex="0"><code>{self.text(text)}</code></pre>'
            case Table():
                return self.table(block)
            case Figure(svg, caption):
                self.figures += 1
                picture = inline_svg(svg, f"figure-{self.figures}-", caption)
                frame = f'<div class="picture" tabindex="0">{picture}</div>'
                return f"<figure>{frame}<figcaption>{self.text(caption)}</figcaption></figure>"
            case Details(summary, blocks):
                inside = self.blocks(blocks, level)
                return f"<details><summary>{self.text(summary)}</summary>\n{inside}\n</details>"
            case Section():
                return self.section(block, level, self.name(block.title))

    def section(self, section: Section, level: int, name: str) -> str:
        heading = f'<h{level} id="{name}">{self.text(section.title)}</h{level}>'
        return f"<section>\n{heading}\n{self.blocks(section.blocks, min(level + 1, 6))}\n</section>"

    def table(self, block: Table) -> str:
        table = block.table
        numbers = [i for i in range(1, len(table.columns)) if not block.words and _is_number_column(table, i)]
        kinds = ["number" if i in numbers else "words" for i in range(len(table.columns))]
        columns = zip(kinds, table.columns, strict=True)
        heads = "".join(f'<th scope="col" class="{kind}">{self.text(column)}</th>' for kind, column in columns)
        lines = []
        for i, row in enumerate(table.rows):
            look = ' class="best"' if i in block.best else ' class="aside"' if i in block.aside else ""
            both = zip(kinds[1:], row[1:], strict=True)
            cells = "".join(f'<td class="{kind}">{self.text(cell)}</td>' for kind, cell in both)
            lines.append(f'<tr{look}><th scope="row">{self.text(row[0])}</th>{cells}</tr>\n')
        note = f'\n<p class="note">{self.text(table.note)}</p>' if table.note else ""
        filters = f' data-filters="{" ".join(map(str, block.filters))}"' if block.filters else ""
        self.filtered |= bool(filters)
        # Who has no mouse scrolls a wide table with the arrow keys: it takes the focus.
        return (
            f'<div class="table"><div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">\n'
            f"<table{filters}>\n<caption><span>{self.text(table.title)}</span></caption>\n<thead><tr>{heads}</tr></thead>\n"
            f"<tbody>\n{''.join(lines)}</tbody>\n</table></div>{note}</div>"
        )


def _is_number_column(table: StudyTable, i: int) -> bool:
    return any(re.match(r"[+−-]?\d", row[i]) for row in table.rows)

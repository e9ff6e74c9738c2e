"""The ledger of comparisons as tables: alarms where nothing moved, and blocks that were named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.lab.shift.planting import NAMES, STRENGTHS
from graphshift.report.study_tables import StudyTable

Records = Sequence[Mapping[str, Any]]


def shift_tables(records: Records) -> list[StudyTable]:
    """False alarms, then planted shifts."""
    return [alarms_table(records), planted_table(records)]


def alarms_table(records: Records) -> StudyTable:
    """How often any block is named between two halves of one real graph."""
    own = [record for record in records if record["kind"] == "halves"]
    groups = {"Facebook-100 (16 schools)": _is_school, "Twitch (7 regions)": lambda name: name.startswith("twitch")}
    rows = []
    for name, fits in {**groups, "Cora, Photo, PubMed, ACM, Citation, DBLP": lambda name: name in _OTHERS}.items():
        found = [record for record in own if fits(record["what"])]
        rows.append(_alarms(name, found))
    rows.append(_alarms("all", own))
    columns = ["real graph", "comparisons", "alarms", "alarms (%)", "blocks named"]
    note = "Two random halves of one graph, by communities; level 0.05 for all five blocks together."
    return StudyTable("alarms where nothing has moved", columns, rows, note)


def planted_table(records: Records) -> StudyTable:
    """How often the block that moved is named, and how often another is ranked as high."""
    rows = []
    for block, strengths in STRENGTHS.items():
        for name, strength in zip(NAMES, strengths, strict=True):
            own = [r for r in records if (r["kind"], r["what"], r["strength"]) == ("planted", block, name)]
            if not own:
                continue
            named = sum(block in record["moved"] for record in own)
            first = sum(record["moved"][:1] == [block] for record in own)
            alone = sum(record["moved"] == [block] for record in own)
            shares = [f"{100 * count / len(own):.0f}" for count in (named, first, alone)]
            rows.append([block, f"{name} ({strength:g})", str(len(own)), *shares])
    columns = ["moved block", "strength", "draws", "named (%)", "named first (%)", "named alone (%)"]
    note = (
        "Made graphs of 1,500 nodes, in which one block moves. Strength: features, deviations by which a quarter of "
        "columns moves; structure, share of edges lost; labels, share of nodes with another class; edges, share of "
        "edges that join random nodes."
    )
    return StudyTable("planted shifts of one block", columns, rows, note)


_OTHERS = ("cora", "photo", "pubmed", "acm", "citation", "dblp")


def _is_school(name: str) -> bool:
    return name not in _OTHERS and not name.startswith("twitch")


def _alarms(name: str, found: Records) -> list[str]:
    alarms = [record for record in found if record["moved"]]
    blocks = Counter(block for record in alarms for block in record["moved"])
    share = f"{100 * len(alarms) / len(found):.1f}" if found else "–"
    listed = ", ".join(f"{block} {count}" for block, count in blocks.most_common()) or "–"
    return [name, str(len(found)), str(len(alarms)), share, listed]

"""The tables and the Markdown of results."""

from __future__ import annotations

from bench_small import results_with
from graphshift.lab.bench.outcome import Measurement
from graphshift.lab.bench.tables import bars_table, head, markdown, tables_of

MET = Measurement("a", "met", 1.1, bar=1.25)
UNMET = Measurement("b", "unmet", 79.0, bar=100.0, higher_is_better=True)
SKIPPED = Measurement("c", "skipped", None, "GB", bar=4.5, reason="no files")
INFORMS = Measurement("d", "informs", 7.0, "MB")


def test_every_measurement_stands_beside_its_bar() -> None:
    failure = {"what": "100,000 nodes", "reason": "MemoryError: too large"}
    table = bars_table(results_with(MET, UNMET, SKIPPED, INFORMS, failures=[failure]))
    assert table.columns == ["what", "measured", "bar", "met"]
    assert table.rows == [
        ["met", "1.10×", "≤ 1.25×", "yes"],
        ["unmet", "79.0×", "≥ 100×", "no"],
        ["skipped", "–", "≤ 4.5 GB", "skipped: no files"],
        ["informs", "7.00 MB", "–", "–"],
        ["floor: 100,000 nodes", "–", "–", "failed: MemoryError: too large"],
    ]
    assert table.note == ""


def test_smaller_sizes_are_said() -> None:
    assert "sizes are quick" in bars_table(results_with(MET) | {"size": "quick"}).note


def test_the_head_says_where_and_with_what() -> None:
    told = head(results_with(MET))
    for word in (
        "graphshift 1, commit 0123456789ab, with its C kernels,",
        "Python 2",
        "torch 3",
        "torch_geometric 4",
        "numpy 5",
        "A CPU",
    ):
        assert word in told
    assert "(2 cores, 16 GB, Linux x86_64), 2 threads." in told
    other = results_with(MET)
    other["about"] = other["about"] | {"dirty": True, "threads": 1, "native": False}
    other |= {"stopped": "million", "size": "quick"}
    told = head(other)
    assert "commit 0123456789ab with changes, without its C kernels," in told
    assert "`graphshift bench --quick`" in told
    assert told.endswith("one thread. It was stopped in part million.")
    other["about"] = other["about"] | {"commit": None}
    assert "commit" not in head(other)


def test_markdown_has_every_table() -> None:
    own = {"title": "Curve", "columns": ["n", "a|b"], "rows": [["1", "2"]], "note": "in ms"}
    text = markdown(results_with(MET, UNMET, tables=[own], part="pyg"))
    assert text.startswith("# Benchmarks\n\nMade by `graphshift bench` on 2026-11-15")
    assert "| what | measured | bar | met |\n| --- | --- | --- | --- |\n| met | 1.10× | ≤ 1.25× | yes |\n" in text
    assert "### Curve\n\n| n | a\\|b |\n| --- | --- |\n| 1 | 2 |\n\nIn ms.\n" in text


def test_failures_outside_the_bars_have_a_table_of_their_own() -> None:
    failed = results_with(part="curves", failures=[{"what": "N = 8,000", "reason": "no memory"}])
    (table,) = tables_of(failed)
    assert (table.title, table.rows) == ("What failed", [["curves", "N = 8,000", "no memory"]])

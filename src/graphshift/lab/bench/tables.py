"""The results as tables, for the terminal and for ``results.md``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphshift.lab.bench.outcome import Measurement, Table, show
from graphshift.lab.bench.parts import PARTS

#: Of ``results.json``.
FORMAT = 1


def measurements_of(results: Mapping[str, Any]) -> list[Measurement]:
    """Every measurement, in the suite's order."""
    return [Measurement.from_json(one) for part in _parts(results).values() for one in part["measurements"]]


def bars_table(results: Mapping[str, Any]) -> Table:
    """Every measurement beside its bar; a bar that could not be measured has its reason there."""
    rows = []
    for name, part in _parts(results).items():
        for content in part["measurements"]:
            one = Measurement.from_json(content)
            limit = "–" if one.bar is None else f"{'≥' if one.higher_is_better else '≤'} {_limit(one)}"
            met = {True: "yes", False: "no", None: "–"}[one.met]
            rows.append([one.what, show(one.value, one.unit), limit, f"skipped: {one.reason}" if one.reason else met])
        if PARTS[name].section == "bars":
            rows += [[f"{name}: {f['what']}", "–", "–", f"failed: {f['reason']}"] for f in part["failures"]]
    note = "" if results["size"] == "full" else f"sizes are {results['size']}; the bars belong to the full ones"
    return Table("Bars", ["what", "measured", "bar", "met"], rows, note)


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """The bars, every part's own tables, and what failed elsewhere."""
    bars = bars_table(results)
    made = [bars] if bars.rows else []
    made += [Table(**table) for part in _parts(results).values() for table in part["tables"]]
    failed = [
        [name, f["what"], f["reason"]]
        for name, part in _parts(results).items()
        if PARTS[name].section != "bars"
        for f in part["failures"]
    ]
    return made + ([Table("What failed", ["part", "what", "reason"], failed)] if failed else [])


def head(results: Mapping[str, Any]) -> str:
    """Where, when and with what it was measured."""
    about = results["about"]
    machine, versions = about["machine"], about["versions"]
    memory = "" if machine["memory_gb"] is None else f", {machine['memory_gb']:g} GB"
    threads = "one thread" if about["threads"] == 1 else f"{about['threads']} threads"
    commit = "" if not about["commit"] else f", commit {about['commit'][:12]}" + " with changes" * bool(about["dirty"])
    stopped = "" if not results["stopped"] else f" It was stopped in part {results['stopped']}."
    kernels = "with its C kernels" if about["native"] else "without its C kernels"
    command = "graphshift bench" + (" --quick" if results["size"] == "quick" else "")
    return (
        f"Made by `{command}` on {about['date']} with graphshift {versions['graphshift']}{commit}, {kernels}, "
        f"Python {versions['python']}, torch {versions['torch']}, torch_geometric {versions['torch_geometric']}, "
        f"numpy {versions['numpy']}, on {machine['cpu']} ({machine['cores']} cores{memory}, {machine['system']}), "
        f"{threads}.{stopped}"
    )


def markdown(results: Mapping[str, Any]) -> str:
    """``results.md``."""
    lines = ["# Benchmarks", "", head(results), ""]
    lines += [
        "Everything compared was timed in turns in one process; the median of several rounds after a warm-up.",
        "",
    ]
    for table in tables_of(results):
        lines += [f"### {table.title}", "", _line(table.columns), "|" + " --- |" * len(table.columns)]
        lines += [*(_line(row) for row in table.rows), ""]
        lines += [f"{table.note[0].upper()}{table.note[1:]}.", ""] if table.note else []
    return "\n".join(lines)


def _parts(results: Mapping[str, Any]) -> dict[str, Any]:
    return {name: results["parts"][name] for name in PARTS if name in results["parts"]}


def _limit(one: Measurement) -> str:
    return f"{one.bar:g}" + (one.unit if one.unit in ("", "×") else f" {one.unit}")


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

"""Fills the generated tables of the pages from the registries: `python docs/tables.py`.

A page names a table between two comments, and whatever stands between them is replaced:

    <!-- begin generated methods -->
    <!-- end generated -->

The tables: `methods`, `hyper-parameters` (of every method with a GNN), `hyper-parameters NAME` (a method's own),
`explorers`, `backbones`, `datasets`, `metrics`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"<!-- begin generated ([\w -]+?) -->\n.*?<!-- end generated -->", re.DOTALL)
_NEEDS = {"learns": "an explorer that learns", "edits_edges": "an explorer that edits edges"}


def filled(text: str) -> str:
    """A page's text with every generated table made anew."""

    def block(match: re.Match[str]) -> str:
        kind, _, name = match[1].partition(" ")
        content = TABLES[kind](name) if name else TABLES[kind]()
        return f"<!-- begin generated {match[1]} -->\n{content}\n<!-- end generated -->"

    return BLOCK.sub(block, text)


def pages() -> list[Path]:
    """The pages that have generated tables."""
    return [page for page in sorted(DOCS.rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


def methods() -> str:
    """Every method: its class, what it does, and what tuning searches beside the learning rate of a GNN."""
    from graphshift.methods import METHODS

    rows = []
    for name, estimator in METHODS.items():
        tuned = ", ".join(f"`{parameter}`" for parameter, about in _own(name).items() if about.search)
        page = f"[`{name}`](../methods/{name}.md)"
        rows.append([page, f"`gs.{estimator.__name__}`", _summary(estimator), tuned or "–"])
    return _table(["name", "class", "what it does", "tuned (a GNN: beside `lr`)"], rows)


def hyper_parameters(method: str = "") -> str:
    """The hyper-parameters of one method that not every method has; without a name, those of every method."""
    chosen = _own(method) if method else _common()
    rows = []
    for name, about in chosen.items():
        flag = f" (`--{about.flag}`)" if about.flag else ""
        needs = f"; needs {_NEEDS.get(about.needs, about.needs)}" if about.needs else ""
        searched = ", ".join(_value(value) for value in about.search)
        rows.append([f"`{name}`{flag}", _value(about.default), searched or "–", about.help + needs])
    return _table(["hyper-parameter", "default", "search values", "meaning"], rows)


def explorers() -> str:
    """Every explorer: its class, what it does, whether it learns and whether it needs the risk."""
    from graphshift.explorers import EXPLORERS, Explorer

    rows = []
    for name, explorer in EXPLORERS.items():
        learns = getattr(explorer, "learns", None)
        learns = learns if isinstance(learns, bool) else explorer.learn is not Explorer.learn
        marks = [_mark(learns), _mark(bool(explorer.needs_risk))]
        rows.append([f"`{name}`", f"`gs.explorers.{explorer.__name__}`", _summary(explorer), *marks])
    return _table(["name", "class", "what it does", "learns", "needs the risk"], rows)


def backbones() -> str:
    """Every backbone: what it is, and its options beside width, depth and dropout."""
    from graphshift.backbones import BACKBONES

    usual = ("in_channels", "out_channels", "hidden_channels", "num_layers", "dropout")
    return _table(
        ["name", "what it is", "its own options"],
        [[f"`{name}`", _summary(backbone), _options(backbone, usual)] for name, backbone in BACKBONES.items()],
    )


def datasets() -> str:
    """Every dataset of the catalogue: the kind of shift, what it is, its options."""
    from graphshift.datasets import DATASETS

    rows = [
        [f"`{name}`", entry.shift, entry.summary, _options(entry.loader, ("data_dir",))]
        for name, entry in DATASETS.items()
        if entry.summary
    ]
    return _table(["name", "shift", "what it is", "options and their defaults"], rows)


def metrics() -> str:
    """Every metric: its label, the tasks it fits, the direction."""
    from graphshift.data.metrics import METRICS

    return _table(
        ["name", "label", "tasks", "better is"],
        [
            [f"`{name}`", m.label, ", ".join(m.kinds), "higher" if m.higher_is_better else "lower"]
            for name, m in METRICS.items()
        ],
    )


TABLES = {
    "methods": methods,
    "hyper-parameters": hyper_parameters,
    "explorers": explorers,
    "backbones": backbones,
    "datasets": datasets,
    "metrics": metrics,
}


def _common() -> dict[str, Any]:
    """What every method has that trains a GNN; the others have ``selection`` and ``seed`` of it."""
    from graphshift.core.hparams import hparams_of
    from graphshift.methods import GNNEstimator

    return hparams_of(GNNEstimator)


def _own(method: str) -> dict[str, Any]:
    from graphshift.core.hparams import hparams_of
    from graphshift.methods import METHODS

    common = _common()
    return {name: about for name, about in hparams_of(METHODS[method]).items() if name not in common}


def _options(function: Any, without: Iterable[str]) -> str:
    given: Mapping[str, Any] = function.keywords if isinstance(function, partial) else {}
    known = inspect.signature(function).parameters.values()
    found = [p for p in known if p.name not in {*without, *given} and p.kind != p.VAR_KEYWORD]
    shown = [p.name if p.default is p.empty else f"{p.name}={_value(p.default)}" for p in found]
    return ", ".join(f"`{option}`" for option in shown) or "–"


def _summary(thing: Any) -> str:
    """The first sentence of a docstring, as Markdown."""
    thing = thing.func if isinstance(thing, partial) else thing
    first = " ".join(inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].split())
    first = re.sub(r":\w+:`~?([\w.]+\.)?(\w+)`", r"`\2`", first).replace("``", "`")
    return first.removesuffix(".")


def _value(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, dict):  # the members of a blend
        return ", ".join(map(_value, value.values()))
    return ", ".join(map(_value, value)) if isinstance(value, list | tuple) else str(value)


def _mark(yes: bool) -> str:
    return "yes" if yes else "no"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Fills all pages."""
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""``arxiv``: computer-science papers and their citations by year; the subject area of a paper (OGB, Hu et al. 2020)."""

from pathlib import Path

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.reading.assembly import by_place, environment, numbered_edges
from graphshift.datasets.reading.files import Source, cached, require
from graphshift.datasets.reading.fixed_csv import Table, read_table
from graphshift.datasets.temporal import Period, inductive_environments
from graphshift.graph.graph import Graph

#: The split: the first trains, the second validates, the others test.
_YEARS = ((2012, 2014), (2015, 2016), (2017, 2018), (2019, 2020))
PERIODS = (Period("to 2011", None, 2011), *(Period(f"{first}-{last}", first, last) for first, last in _YEARS))
_FEATURES, _CLASSES, _PARSER = 128, 40, 1
_HOME = "arxiv.zip of the Open Graph Benchmark, http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip, folder raw"

#: The raw files.
SOURCES = tuple(
    Source(f"arxiv/raw/{part}.csv.gz", home=_HOME)
    for part in ("node-feat", "node-label", "node_year", "edge", "num-node-list", "num-edge-list")
)


@DATASETS.register(
    "arxiv",
    summary="computer science papers (169,343) by year; 40 subject areas",
    shift="temporal",
    origin="Hu et al. 2020 (Open Graph Benchmark)",
    sources=SOURCES,
    figure="tsne",
)
def arxiv(*, one_way: bool = False, data_dir: str | Path | None = None) -> ShiftDataset:
    """OGBN-Arxiv by years: to 2011 trains, 2012–14 validates, 2015–16, 2017–18 and 2019–20 test, by accuracy.

    A node is a paper with 128 features (the mean of its words' embeddings) and one of 40 subject areas; an edge is a
    citation. The graphs are inductive: each is induced by all papers up to the last year of its period, and the
    period's own papers count (17,401, 23,724, 28,374, 51,241 and 48,603 of them).

    Args:
        one_way: keep a citation's direction, from the citing paper to the cited one; by default both ways.
        data_dir: the folder that holds ``arxiv/raw/node-feat.csv.gz`` and so on, as unpacked from OGB's
            ``arxiv.zip``; None for ``$GRAPHSHIFT_DATA`` or the user's cache folder.
    """
    features, labels, years, edges, node_count, edge_count = require("arxiv", SOURCES, data_dir).values()
    of_nodes, of_edges = (features, labels, years, node_count), (edges, node_count, edge_count)
    parts = cached("arxiv-nodes", of_nodes, _PARSER, {}, lambda: _parse_nodes(*of_nodes))
    options = {"one_way": one_way}
    keys = cached("arxiv-edges", of_edges, _PARSER, options, lambda: _parse_edges(*of_edges, one_way))
    graph = Graph.from_keys(parts["y"].numel(), keys["keys"], undirected=not one_way)
    whole = environment("arxiv", parts["x"], parts["y"], graph, Task("multiclass", _CLASSES, "accuracy"))
    environments = inductive_environments(whole, parts["year"], PERIODS)
    model = {"backbone": "sage", "num_layers": 5, "hidden_channels": 32}
    fit = {"epochs": 500, "lr": 0.005, "weight_decay": 0.0, "views": 5, "edits_per_node": 1}
    eerm = {"beta": 0.5, "explorer_lr": 0.01, "inner_steps": 5}
    gprgnn = {"num_layers": 2, "views": 3, "beta": 1.0, "lr": 0.01, "explorer_lr": 0.001}
    defaults = {**model, **fit, **eerm, "by_backbone": {"gprgnn": gprgnn}, "by_method": {"erm": {"lr": 0.01}}}
    facts = {"years": {p.name: (p.first, p.last) for p in PERIODS}, "one_way": one_way}
    return ShiftDataset("arxiv", *by_place(environments), defaults=defaults, facts=facts)


def _parse_nodes(features: Path, labels: Path, years: Path, node_count: Path) -> dict[str, Tensor]:
    nodes = _count(node_count)
    columns = [f"feature {i}" for i in range(1, _FEATURES + 1)]
    x = _table(features, dict.fromkeys(columns, "float32"), nodes, node_count)
    label = _table(labels, {"label": "int64"}, nodes, node_count)
    y = label.column("label")
    label.refuse((y < 0) | (y >= _CLASSES), "label", f"a class from 0 to {_CLASSES - 1}")
    time = _table(years, {"year": "int64"}, nodes, node_count)
    year = time.column("year")
    time.refuse((year < 1900) | (year > 2100), "year", "a year of publication, as 2017")
    return {"x": torch.tensor(x.frame.to_numpy()), "y": torch.tensor(y), "year": torch.tensor(year)}


def _parse_edges(edges: Path, node_count: Path, edge_count: Path, one_way: bool) -> dict[str, Tensor]:
    table = _table(edges, {"source": "int64", "target": "int64"}, _count(edge_count), edge_count)
    return {"keys": numbered_edges(table, ("source", "target"), _count(node_count), one_way=one_way).keys}


def _count(path: Path) -> int:
    table = read_table(path, {"count": "int64"}, header=False)
    if len(table) != 1:
        raise GraphshiftError(f"{path}: found {len(table)} lines; expected one number, for OGB's one graph.")
    return int(table.column("count")[0])


def _table(path: Path, columns: dict[str, str], rows: int, counted_in: Path) -> Table:
    """A table with the announced number of rows, so that a file cut at the end of a line is noticed."""
    table = read_table(path, columns, header=False)
    if len(table) != rows:
        raise GraphshiftError(
            f"{path}: found {len(table)} lines; expected {rows}, as in {counted_in.name}; one of the two is damaged: "
            "download them again."
        )
    return table

"""``twitch``: streamers of seven regions and their friendships; who uses explicit language (Rozemberczki et al.)."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.reading.assembly import binary_features, by_place, environment, numbered_edges
from graphshift.datasets.reading.files import Source, cached, require
from graphshift.datasets.reading.fixed_csv import Table, read_table
from graphshift.graph.graph import Graph

#: The paper's split: the first trains, the second validates, the others test.
REGIONS = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW")

_FEATURES = 3170
_PARSER = 1
_COMMIT = "c2a1759aecd71d5604aa1a5a4719e3ffded18249"
_HOME = f"https://raw.githubusercontent.com/CUAI/Non-Homophily-Large-Scale/{_COMMIT}/data/"
# SHA-256 of edges, features and target, region by region.
_DIGESTS = """
54feaf3e3e70a485fe07f8611e4d2677841b97f77b8358204bcf4a48cc884d86
7b39c42570f05cd46017c765df8d8a1bc03f19787c3eb0f9684f50a52476ae3a
2188f58a093bb9db363d3eaf7c3a52c2adc8ff6b23cbcb4f53875f87061c0321
5ea4d7f7267454e9523577eb2a9b4dcb7a22dd660a548240f01b815d08e0e3cc
efcd846f7b687d299c9c674f3cda43cd70de8307d2558895bddd3645eb38d500
e9d51399878216d2dd662b0a152b602cccde7b5cbb8452cb91d9379f64114443
17801d2cc45fc4909a431ce7a190c0565d4af87b0548ca7705cf2bef7da4c884
598a610ef7e0469c5ad800c11f7ad89797e6a27d7d66b670782a5516cc344725
f843427bae58289100e78c6c211fa4a1ae0d5fbf2c665841df9e390b00dcffb5
9924263f7e8edaa7278dcbc37bd90c8712cb0ea1726d85e054a5588b7959f887
b6ecbefd5606f46d30a9b4be7b574e5427d9e0314f1bd6a1861942ae718d3573
dd0a9e7ba565cbb95ae66003892709742bd08c26387656e3e235fc25205663b4
b72d93a3c8a82883771a2f3822fce229885fa0d40367fb105c0535fb36c773b9
12ba6c60ce009b1bec8fd5ad110539775d14a2b96011df19ba9f72ad1393a406
ecba7d1287e72ae7c3f42c922be475283288c0c67346245c72109690460444bd
fd307587a550289f746056ea12a7336171ab2053c9e08c42dba77499126ca5b2
c5357468471545a6169de463ef706f321446dc667d9d62d49e68c0b3feef9675
db7617528355be994352e491e7b25d060fed466d0d81c09cadd90fa10f15c071
47c986023f1f434f76026ddfb3ab544be24849011400c99402083d06d3dfa017
9508cc55f4b891018f278df4cec40d622aba2b04c1bca9451fd9e8ce11321c7b
65b75f23be40140d2e326813c3f81419f1a94aa1091acfc0279f0403be8165f7
"""

#: Every raw file: of each region edges, features and target.
_PATHS = [f"twitch/{r}/musae_{r}_{part}" for r in REGIONS for part in ("edges.csv", "features.json", "target.csv")]
SOURCES = tuple(
    Source(path, _HOME + path, digest, home="GitHub, CUAI/Non-Homophily-Large-Scale, data/twitch")
    for path, digest in zip(_PATHS, _DIGESTS.split(), strict=True)
)


@DATASETS.register(
    "twitch",
    summary="streamers of seven regions; who uses explicit language",
    shift="cross-domain",
    origin="Rozemberczki et al. 2021, as Lim et al. 2021 publish it",
    sources=SOURCES,
    note="the paper's table counts degrees in the files' direction and cuts digits off: -o one_way=true.",
)
def twitch(*, one_way: bool = False, two_logits: bool = False, data_dir: str | Path | None = None) -> ShiftDataset:
    """Twitch-Explicit: DE trains, ENGB validates, ES, FR, PTBR, RU and TW test, by ROC-AUC.

    A node is a streamer and an edge a mutual friendship; 3,170 binary features (games, location, habits) stay sparse.
    The label is the ``mature`` column: whether the stream uses explicit language. Node i is the one with ``new_id`` i.
    FR's target file has two rows for each of two nodes; the first is kept, and rows that disagree in the label would
    be an error. A feature that a node's list repeats counts once.

    Args:
        one_way: use each friendship only in the direction in which the file has it, as the authors' code does.
        two_logits: a logit for each class, as the authors' code has (:class:`~graphshift.data.tasks.Task`).
        data_dir: the folder of raw files, which holds ``twitch/DE/musae_DE_edges.csv`` and so on; None for
            ``$GRAPHSHIFT_DATA`` or the user's cache folder, to which missing files are downloaded.
    """
    files = require("twitch", SOURCES, data_dir)
    task = Task("binary", 2, "roc_auc", two_logits)
    environments = []
    for i, region in enumerate(REGIONS):
        edges, features, target = (files[source.path] for source in SOURCES[3 * i : 3 * i + 3])
        # The lambda is called before the loop goes on.
        parse = lambda: _parse(edges, features, target, one_way)  # noqa: B023, E731
        parts = cached(f"twitch-{region}", [edges, features, target], _PARSER, {"one_way": one_way}, parse)
        nodes, entries = parts["y"].numel(), parts["col"].numel()
        csr = (parts["crow"], parts["col"], torch.ones(entries))
        x = torch.sparse_csr_tensor(*csr, (nodes, _FEATURES), check_invariants=True)
        graph = Graph.from_keys(nodes, parts["keys"], undirected=not one_way)
        environments.append(environment(region, x, parts["y"], graph, task))
    model = {"backbone": "gcn", "num_layers": 2, "hidden_channels": 32, "epochs": 200, "lr": 0.01, "weight_decay": 1e-3}
    eerm = {"views": 3, "edits_per_node": 5, "beta": 3.0, "explorer_lr": 0.001}
    gcnii = {"num_layers": 10, "beta": 1.0, "lr": 0.001, "explorer_lr": 0.01}
    by_backbone = {"gat": {"beta": 1.0, "explorer_lr": 0.005}, "gcnii": gcnii}
    defaults = {**model, **eerm, "by_backbone": by_backbone, "by_method": {"erm": {"lr": 0.01}}}
    return ShiftDataset("twitch", *by_place(environments), defaults=defaults, facts={"one_way": one_way})


def _parse(edges: Path, features: Path, target: Path, one_way: bool) -> dict[str, Tensor]:
    y = _labels(read_table(target, {"mature": "str", "new_id": "int64"}))
    x = _features(features, y.size, target)
    table = read_table(edges, {"from": "int64", "to": "int64"})
    graph = numbered_edges(table, ("from", "to"), y.size, one_way=one_way)
    return {"crow": x.crow_indices(), "col": x.col_indices(), "y": torch.from_numpy(y), "keys": graph.keys}


def _labels(table: Table) -> NDArray[np.int64]:
    node, mature = table.column("new_id"), table.frame["mature"]
    table.refuse(~mature.isin(["True", "False"]).to_numpy(), "mature", "True or False")
    label = (mature == "True").to_numpy().astype(np.int64)
    known, first, inverse = np.unique(node, return_index=True, return_inverse=True)
    expected = f"a number from 0 to {known.size - 1}, one for each of the nodes"
    table.refuse((node < 0) | (node >= known.size), "new_id", expected)
    table.refuse(label != label[first][inverse], "mature", "the label that an earlier row gives the same new_id")
    return label[first]


def _features(path: Path, nodes: int, target: Path) -> Tensor:
    content = _json(path)
    lists = list(content.values())
    for key, ids in content.items():
        if not isinstance(ids, list):
            raise GraphshiftError(f"{path}: node {key!r} has {_shown(ids)}; expected a list of feature numbers.")
        if not (key.isascii() and key.isdigit() and len(key) < 19 and int(key) < nodes):
            raise GraphshiftError(
                f"{path}: node {key!r}; expected a number from 0 to {nodes - 1}, as in {target.name}: "
                "the two files belong to different regions, or one is damaged."
            )
    node = np.fromiter(map(int, content), np.int64, len(content))
    present = np.bincount(node, minlength=nodes)
    if not (present == 1).all():
        wrong = int((present != 1).argmax())
        raise GraphshiftError(
            f"{path}: node {wrong} is there {present[wrong]} times; expected once each of the {nodes} nodes "
            f"of {target.name}: the two files belong to different regions, or one is damaged."
        )
    flat: list[Any] = list(chain.from_iterable(lists))
    row = np.repeat(node, [len(ids) for ids in lists])
    # `type` rather than isinstance: JSON's true is an int to Python.
    bad = next((i for i, value in enumerate(flat) if type(value) is not int or not 0 <= value < _FEATURES), None)
    if bad is not None:
        raise GraphshiftError(
            f"{path}: node '{row[bad]}' has the feature {_shown(flat[bad])}; expected a number from 0 to "
            f"{_FEATURES - 1}; the file is damaged: download it again."
        )
    return binary_features(row, np.array(flat, dtype=np.int64), (nodes, _FEATURES))


def _json(path: Path) -> dict[str, Any]:
    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            seen: set[str] = set()
            again = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise GraphshiftError(f"{path}: node {_shown(again)} is there twice; download the file again.")
        return content

    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=refuse_repeats)
    except GraphshiftError:
        raise
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, numbers of 5,000 digits, lists in lists
        raise GraphshiftError(
            f"{path}: this is not the JSON expected ({error}); the file is damaged or a different file; download it "
            "again."
        ) from None
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be read: {error.strerror}.") from None
    if not isinstance(content, dict):
        raise GraphshiftError(f"{path}: found {_shown(content)}; expected an object: node -> list of feature numbers.")
    return content


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "…"

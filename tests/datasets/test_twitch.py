from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import DATASETS
from graphshift.datasets.reading.files import verify
from graphshift.datasets.twitch import REGIONS, SOURCES, twitch
from graphshift.datasets.twitch_iid import twitch_iid
from graphshift.estimators.settings import make_estimator, setting_names
from graphshift.graph.sparse import Sparse

# The paper's table of Twitch-Explicit: nodes, edges, density, average and maximum degree.
#: Of EERM, for each backbone (the paper's settings).
LEARNING_RATES = {"gcn": 0.01, "gat": 0.01, "gcnii": 0.001}


TABLE = {
    "DE": (9498, 153138, 0.0033, 16, 3475),
    "ENGB": (7126, 35324, 0.0013, 4, 465),
    "ES": (4648, 59382, 0.0054, 12, 809),
    "FR": (6549, 112666, 0.0052, 17, 1517),
    "PTBR": (1912, 31299, 0.0171, 16, 455),
    "RU": (4385, 37304, 0.0038, 8, 575),
    "TW": (2772, 63462, 0.0165, 22, 1171),
}
NODES = 12


def test_the_papers_table(shared_data: Path) -> None:
    """Its density is 2E / (N (N - 1)), its average degree E / N, its maximum the in-degree one way; it truncates."""
    data = twitch(one_way=True, data_dir=shared_data)
    for environment in data.environments:
        n, e = environment.num_nodes, environment.graph.num_edges
        density = math.floor(2 * e / (n * (n - 1)) * 1e4) / 1e4
        assert (n, e, density, e // n, int(environment.graph.degree.max())) == TABLE[environment.name]
        assert not environment.graph.undirected


def test_real_files(shared_data: Path) -> None:
    assert all(row["sha256"] == "ok" for row in verify("twitch", SOURCES, shared_data))
    data = twitch(data_dir=shared_data)
    assert [e.name for e in data.environments] == list(REGIONS)
    assert (len(data.train), len(data.val), len(data.tests)) == (1, 1, 5)
    assert data.task.metric == "roc_auc"
    for environment in data.environments:
        assert environment.graph.undirected
        assert environment.graph.num_edges == 2 * TABLE[environment.name][1]
        assert isinstance(environment.x, Sparse)
        assert environment.num_features == 3170
        assert bool((environment.x.value == 1).all())
    assert data.train[0].labels.float().mean().item() == pytest.approx(0.60455, abs=1e-5)


def test_real_files_are_parsed_once(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = twitch(data_dir=shared_data)
    monkeypatch.setattr("graphshift.datasets.twitch._parse", None)  # the cache has what it would give
    again = twitch(data_dir=shared_data)
    for a, b in zip(first.environments, again.environments, strict=True):
        assert torch.equal(a.graph.keys, b.graph.keys)
        assert torch.equal(a.labels, b.labels)
        assert isinstance(a.x, Sparse)
        assert isinstance(b.x, Sparse)
        assert torch.equal(a.x.pattern.col, b.x.pattern.col)


def written(folder: Path) -> Path:
    """Seven small regions in the files' layout; in DE, ids are in no order, one is repeated, a feature too."""
    for region in REGIONS:
        place = folder / "twitch" / region
        place.mkdir(parents=True)
        rows = [f"{1000 + i},77,{i % 3 == 0},5,False,{i}" for i in reversed(range(NODES))]
        features: dict[str, list[int]] = {str(i): [i, 3169] for i in range(NODES)}
        if region == "DE":
            rows.append("1002,77,False,6,False,2")
            features["4"] = [7, 7, 7, 0]
            features["5"] = []
        target = "id,days,mature,views,partner,new_id\n" + "\n".join(rows) + "\n"
        (place / f"musae_{region}_target.csv").write_text(target)
        edges = [f"{i},{(i + 1) % NODES}" for i in range(NODES)]
        (place / f"musae_{region}_edges.csv").write_text("from,to\n" + "\n".join(edges) + "\n")
        (place / f"musae_{region}_features.json").write_text(json.dumps(features))
    return folder


def test_small_files(tmp_path: Path) -> None:
    data = twitch(data_dir=written(tmp_path))
    de = data.train[0]
    assert isinstance(de.x, Sparse)
    assert de.labels.tolist() == [int(i % 3 == 0) for i in range(NODES)]
    dense = de.x.to_dense()
    assert dense[4].nonzero().flatten().tolist() == [0, 7]
    assert dense[5].sum() == 0
    assert dense[6].nonzero().flatten().tolist() == [6, 3169]
    assert de.graph.num_edges == 2 * NODES
    one_way = twitch(data_dir=tmp_path, one_way=True).train[0]
    assert one_way.graph.edge_index.t().tolist() == [[NODES - 1, 0], *([i, i + 1] for i in range(NODES - 1))]
    assert {*data.defaults} - {"by_backbone", "by_method"} <= {*setting_names()}
    for backbone in ("gcn", "gat", "gcnii"):
        for method in ("erm", "eerm"):
            settings = make_estimator({"backbone": backbone, "method": method}, data.defaults)
            assert settings.lr == (0.01 if method == "erm" else LEARNING_RATES[backbone])


def assert_tenths(data: ShiftDataset, whole: ShiftDataset) -> None:
    """DE in parts of eight, one and one tenth that share its graph, and ENGB as it is."""
    home, away = whole.train[0], whole.val[0]
    train, val, iid, ood = data.environments
    assert ([e.name for e in data.train], [e.name for e in data.val]) == (["DE"], ["DE, to choose"])
    assert [e.name for e in data.tests] == ["DE (IID)", "ENGB (OOD)"]
    tenth = home.num_nodes // 10
    sizes = [int(e.mask.sum()) for e in (train, val, iid)]
    assert sizes == [home.num_nodes - 2 * tenth, tenth, tenth]
    assert torch.equal(sum(e.mask.int() for e in (train, val, iid)), torch.ones(home.num_nodes, dtype=torch.int32))
    for part in (train, val, iid):
        assert torch.equal(part.graph.keys, home.graph.keys)
        assert torch.equal(part.labels, home.labels[part.mask])
        assert part.graph.undirected
    assert bool(ood.mask.all())
    assert torch.equal(ood.graph.keys, away.graph.keys)
    assert torch.equal(ood.labels, away.labels)
    assert data.task.metric == "roc_auc"


def test_iid_holds_out_nodes_of_the_training_region(tmp_path: Path) -> None:
    whole = twitch(data_dir=written(tmp_path))
    splits = [twitch_iid(data_dir=tmp_path, seed=seed) for seed in (0, 0, 1, 2)]
    for data in splits:
        assert_tenths(data, whole)
    masks = [data.tests[0].mask for data in splits]
    assert torch.equal(masks[0], masks[1])
    assert len({tuple(mask.tolist()) for mask in masks}) == 3
    assert (splits[0].name, splits[3].facts["seed"]) == ("twitch-iid", 2)
    assert splits[0].defaults == whole.defaults


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_iid_refuses_what_is_no_seed(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(GraphshiftError, match=f"twitch-iid: seed is {seed}; expected a whole number"):
        twitch_iid(data_dir=written(tmp_path), seed=seed)


def test_iid_on_real_files(shared_data: Path) -> None:
    data = twitch_iid(data_dir=shared_data, seed=3)
    assert_tenths(data, twitch(data_dir=shared_data))
    assert [int(e.mask.sum()) for e in data.environments] == [7600, 949, 949, 7126]
    shares = [e.labels.float().mean().item() for e in data.environments[:3]]
    assert shares == pytest.approx([0.60455] * 3, abs=0.05)  # drawn at random, not by label


def test_iid_is_in_the_catalogue() -> None:
    assert DATASETS["twitch-iid"].loader is twitch_iid
    assert DATASETS["twitch-iid"].sources == SOURCES


def line(number: int, text: str) -> Callable[[str], str]:
    def change(content: str) -> str:
        lines = content.split("\n")
        lines[number - 1] = text
        return "\n".join(lines)

    return change


def entry(node: str, value: Any) -> Callable[[str], str]:
    return lambda content: json.dumps(json.loads(content) | {node: value})


DAMAGE: dict[str, tuple[str, Callable[[str], str | bytes], str]] = {
    "edge to an unknown node": ("edges.csv", line(4, f"3,{NODES}"), "line 4, column 'to': found 12"),
    "negative node": ("edges.csv", line(3, "-1,2"), "line 3, column 'from': found -1"),
    "edge end is text": ("edges.csv", line(5, "3,four"), "line 5, column 'to': found 'four'"),
    "fractional node": ("edges.csv", line(5, "3,4.5"), "line 5, column 'to': found '4.5'"),
    "node beyond 64 bits": ("edges.csv", line(5, "3,99999999999999999999"), "line 5, column 'to'"),
    "edge without an end": ("edges.csv", line(6, "3"), "line 6 has 1 fields; expected 2"),
    "edge with three ends": ("edges.csv", line(6, "3,4,5"), "line 6 has 3 fields; expected 2"),
    "all edges with three ends": (
        "edges.csv",
        lambda c: c.replace("\n", ",1\n").replace("from,to,1", "from,to"),
        "3 fields",
    ),
    "edge end missing": ("edges.csv", line(6, "3,"), "line 6, column 'to': found ''"),
    "wrong header": (
        "edges.csv",
        line(1, "a,b"),
        "the first line is 'a,b'; expected a header with the columns from, to",
    ),
    "empty file": ("edges.csv", lambda _: "", "the file is empty"),
    "UTF-16": ("edges.csv", lambda c: c.encode("utf-16"), "expected UTF-8 text"),
    "binary garbage": ("edges.csv", lambda _: bytes(range(256)) * 9, "byte"),
    "quote without end": ("edges.csv", line(4, '"3,4'), "line"),
    "target: swapped with edges": (
        "target.csv",
        lambda _: "from,to\n1,2\n",
        "expected a header with the columns mature, new_id",
    ),
    "target: column missing": ("target.csv", lambda c: c.replace("mature", "adult"), "the column mature"),
    "target: label outside": (
        "target.csv",
        line(3, "1,77,perhaps,5,False,10"),
        "line 3, column 'mature': found 'perhaps'",
    ),
    "target: label missing": ("target.csv", line(3, "1,77,,5,False,10"), "line 3, column 'mature': found ''"),
    "target: id outside": ("target.csv", line(3, "1,77,True,5,False,99"), "line 3, column 'new_id': found 99"),
    "target: repeated id disagrees": ("target.csv", lambda c: c + "1,77,True,5,False,11\n", "line 14, column 'mature'"),
    "JSON cut": ("features.json", lambda c: c[:40], "not the JSON expected"),
    "JSON list": ("features.json", lambda _: "[[1], [2]]", "found [[1], [2]]; expected an object"),
    "JSON number": ("features.json", lambda _: "12", "found 12; expected an object"),
    "JSON nested deep": ("features.json", lambda _: "[" * 100_000, "not the JSON expected"),
    "JSON huge number": ("features.json", lambda _: '{"0": [' + "9" * 5000 + "]}", "not the JSON expected"),
    "JSON not UTF-8": ("features.json", lambda _: b'{"0": [\xff\xfe]}', "not the JSON expected"),
    "JSON repeats a node": ("features.json", lambda c: c[:-1] + ', "3": [1]}', 'node "3" is there twice'),
    "features are no list": ("features.json", entry("3", {"a": 1}), """node '3' has {"a": 1}; expected a list"""),
    "feature is text": (
        "features.json",
        entry("3", ["5"]),
        """node '3' has the feature "5"; expected a number from 0 to 3169""",
    ),
    "feature is true": ("features.json", entry("3", [True]), "node '3' has the feature true"),
    "feature is NaN": ("features.json", entry("3", [float("nan")]), "node '3' has the feature NaN"),
    "feature out of range": ("features.json", entry("3", [3170]), "node '3' has the feature 3170"),
    "feature negative": ("features.json", entry("3", [-1]), "node '3' has the feature -1"),
    "node unknown": ("features.json", entry("12", [1]), "node '12'; expected a number from 0 to 11"),
    "node is text": ("features.json", entry("x", [1]), "node 'x'; expected a number from 0 to 11"),
    "node twice by another spelling": ("features.json", entry("03", [1]), "node 3 is there 2 times"),
    "node missing": (
        "features.json",
        lambda c: json.dumps({k: v for k, v in json.loads(c).items() if k != "7"}),
        "node 7 is there 0 times",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    part, change, text = DAMAGE[damage]
    path = written(tmp_path) / "twitch" / "ES" / f"musae_ES_{part}"
    changed = change(path.read_text())
    path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(GraphshiftError) as error:
        twitch(data_dir=tmp_path)
    assert str(path) in str(error.value)
    assert text in str(error.value)

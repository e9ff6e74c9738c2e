from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.datasets.elliptic import elliptic
from graphshift.estimators.settings import make_estimator, setting_names

#: Of EERM, for each backbone (the paper's settings).
LEARNING_RATES = {"sage": 0.0002, "gprgnn": 0.01}


PER_STEP = 4  # illicit, licit, unknown, licit
GROUPS = {
    "T1": [17],
    "T2": range(18, 22),
    "T3": range(22, 26),
    "T4": range(26, 30),
    "T5": range(30, 34),
    "T6": range(34, 38),
    "T7": range(38, 42),
    "T8": range(42, 46),
    "T9": range(46, 50),
}


def written(folder: Path) -> Path:
    """49 steps of four transactions in a line, in the files' layout: no header, ids in no order, `unknown`."""
    place = folder / "elliptic"
    place.mkdir()
    random = np.random.default_rng(0)
    nodes = 49 * PER_STEP
    ids = random.permutation(nodes) * 13 + 230_000_000
    rows = [f"{ids[i]},{i // PER_STEP + 1},{i}" + ",-0.25" * 164 for i in range(nodes)]
    classes = [f"{ids[i]},{('1', '2', 'unknown', '2')[i % PER_STEP]}" for i in random.permutation(nodes)]
    edges = [f"{ids[i]},{ids[i + 1]}" for i in random.permutation(nodes - 1) if (i + 1) % PER_STEP]
    (place / "elliptic_txs_features.csv").write_text("\n".join(rows[i] for i in random.permutation(nodes)) + "\n")
    (place / "elliptic_txs_classes.csv").write_text("txId,class\n" + "\n".join(classes) + "\n")
    (place / "elliptic_txs_edgelist.csv").write_text("txId1,txId2\n" + "\n".join(edges) + "\n")
    return folder


def test_split(tmp_path: Path) -> None:
    data = elliptic(data_dir=written(tmp_path))
    assert [e.name for e in data.train] == [f"step {i}" for i in range(7, 12)]
    assert [e.name for e in data.val] == ["steps 12-16"]
    assert [e.name for e in data.tests] == list(GROUPS)
    steps = [*([i] for i in range(7, 12)), range(12, 17), *GROUPS.values()]
    for environment, group in zip(data.environments, steps, strict=True):
        assert isinstance(environment.x, torch.Tensor)
        assert environment.num_features == 165
        number = environment.x[:, 0].long()  # what `written` counted
        assert sorted(number.tolist()) == [n for s in group for n in range((s - 1) * PER_STEP, s * PER_STEP)]
        assert torch.equal(environment.mask, number % PER_STEP != 2)
        assert environment.labels.tolist() == (number[environment.mask] % PER_STEP == 0).long().tolist()
        source, target = number[environment.graph.edge_index]
        assert environment.graph.num_edges == 2 * 3 * len(group)
        assert bool(((source - target).abs() == 1).all())
        assert torch.equal(source // PER_STEP, target // PER_STEP)
    assert data.task.metric == "macro_f1"
    assert data.facts["steps"]["T9"] == (46, 49)
    assert {*data.defaults} - {"by_backbone", "by_method"} <= {*setting_names()}
    for backbone in ("sage", "gprgnn"):
        for method in ("erm", "eerm"):
            settings = make_estimator({"backbone": backbone, "method": method}, data.defaults)
            assert settings.lr == (0.01 if method == "erm" else LEARNING_RATES[backbone])


def test_options(tmp_path: Path) -> None:
    written(tmp_path)
    assert elliptic(metric="f1", data_dir=tmp_path).task.metric == "f1"
    one_way = elliptic(one_way=True, data_dir=tmp_path).train[0]
    assert isinstance(one_way.x, torch.Tensor)
    source, target = one_way.x[:, 0][one_way.graph.edge_index]
    assert (target - source).tolist() == [1, 1, 1]
    with pytest.raises(GraphshiftError, match="metric is 'mse'"):
        elliptic(metric="mse", data_dir=tmp_path)


def test_edges_across_steps_are_dropped(tmp_path: Path) -> None:
    plain = elliptic(data_dir=written(tmp_path))
    path = tmp_path / "elliptic" / "elliptic_txs_edgelist.csv"
    features = (tmp_path / "elliptic" / "elliptic_txs_features.csv").read_text().split("\n")
    by_step = {row.split(",")[1]: row.split(",")[0] for row in features if row}
    path.write_text(path.read_text() + f"{by_step['18']},{by_step['19']}\n{by_step['7']},{by_step['30']}\n")
    with pytest.warns(GraphshiftWarning, match=r"edgelist.csv: 2 edges join transactions of different time steps"):
        data = elliptic(data_dir=tmp_path)
    assert [e.graph.num_edges for e in data.environments] == [e.graph.num_edges for e in plain.environments]


def test_missing_files_are_listed(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"(?s)elliptic_txs_features.csv.*Kaggle.*elliptic_txs_edgelist.csv"):
        elliptic(data_dir=tmp_path)


def line(number: int, change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    """Changes the fields of one line."""

    def changed(content: str) -> str:
        lines = content.split("\n")
        lines[number - 1] = ",".join(change(lines[number - 1].split(",")))
        return "\n".join(lines)

    return changed


DAMAGE: dict[str, tuple[str, Callable[[str], str | bytes], str]] = {
    "a feature too few": ("features", line(5, lambda f: f[:-1]), "line 5 has 166 fields; expected 167"),
    "a feature too many": ("features", line(5, lambda f: [*f, "1"]), "line 5 has 168 fields; expected 167"),
    "all a feature too few": ("features", lambda c: c.replace(",-0.25\n", "\n"), "line 1 has 166 fields; expected 167"),
    "feature is text": ("features", line(5, lambda f: [*f[:-1], "x"]), "line 5, column 'feature 165': found 'x'"),
    "feature NaN": ("features", line(5, lambda f: [*f[:2], "nan", *f[3:]]), "line 5, column 'feature 1': found 'nan'"),
    "feature missing": ("features", line(9, lambda f: [*f[:2], "", *f[3:]]), "line 9, column 'feature 1': found ''"),
    "feature infinite": (
        "features",
        line(5, lambda f: [*f[:-1], "1e300"]),
        "line 5, column 'feature 165': found '1e300'",
    ),
    "a header": ("features", lambda c: ",".join(map(str, range(166))) + ",x\n" + c, "line 1, column 'feature 165'"),
    "step 0": ("features", line(6, lambda f: [f[0], "0", *f[2:]]), "line 6, column 'time step': found 0"),
    "step 50": ("features", line(6, lambda f: [f[0], "50", *f[2:]]), "line 6, column 'time step': found 50"),
    "features repeat an id": ("features", lambda c: c + c.split("\n")[0] + "\n", "line 197, column 'txId'"),
    "features are the edges": ("features", lambda _: "txId1,txId2\n1,2\n", "line 1 has 2 fields; expected 167"),
    "features cut": ("features", lambda c: c[:5000], "fields; expected 167"),
    "features empty": ("features", lambda _: "", "the file is empty"),
    "features are garbage": ("features", lambda _: b"\x80\x81\x82" * 99, "expected UTF-8 text"),
    "class outside": ("classes", line(7, lambda f: [f[0], "3"]), "line 7, column 'class': found '3'"),
    "class missing": ("classes", line(7, lambda f: [f[0], ""]), "line 7, column 'class': found ''"),
    "class of nobody": ("classes", line(7, lambda f: ["5", f[1]]), "line 7, column 'txId': found 5"),
    "class twice": ("classes", lambda c: c + c.split("\n")[1] + "\n", "line 198, column 'txId'"),
    "classes are the edges": (
        "classes",
        lambda _: "txId1,txId2\n1,2\n",
        "expected a header with the columns txId, class",
    ),
    "edge to nobody": ("edgelist", line(3, lambda f: [f[0], "5"]), "line 3, column 'txId2': found 5"),
    "edge end is text": ("edgelist", line(3, lambda f: ["x", f[1]]), "line 3, column 'txId1': found 'x'"),
    "edges without header": (
        "edgelist",
        lambda c: c.split("\n", 1)[1],
        "expected a header with the columns txId1, txId2",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    part, change, text = DAMAGE[damage]
    path = written(tmp_path) / "elliptic" / f"elliptic_txs_{part}.csv"
    changed = change(path.read_text())
    path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(GraphshiftError) as error:
        elliptic(data_dir=tmp_path)
    assert str(path) in str(error.value)
    assert text in str(error.value)


def test_a_transaction_without_class(tmp_path: Path) -> None:
    path = written(tmp_path) / "elliptic" / "elliptic_txs_classes.csv"
    path.write_text("\n".join(path.read_text().split("\n")[:-2]) + "\n")
    with pytest.raises(
        GraphshiftError, match=r"features.csv: line \d+, column 'txId': .* elliptic_txs_classes.csv has"
    ):
        elliptic(data_dir=tmp_path)

"""The registry of datasets, and a dataset and a metric of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphshift.core.declared import declared_names
from graphshift.core.errors import GraphshiftError
from graphshift.datasets import DATASETS, load
from graphshift.datasets.planted import planted
from scripts import run


def test_the_catalogue_is_whole() -> None:
    assert {name for name, entry in DATASETS.items() if not entry.summary} == {"own", "partition"}  # a user's own
    assert DATASETS.names() == declared_names("graphshift.datasets") == list(DATASETS)
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert bool(entry.sources) == ("data_dir" in entry.options)
        assert entry.shift in ("planted", "artificial", "cross-domain", "temporal", "structural") or not entry.summary
    with pytest.raises(GraphshiftError, match=r"dataset is 'twich'; expected one of arxiv, .* Did you mean 'twitch'"):
        DATASETS.find("twich")


def test_an_entry_loads_its_dataset_and_checks_its_options() -> None:
    assert repr(DATASETS["planted"](nodes=60)) == repr(load("planted", nodes=60)) == repr(planted(60))
    for name, options, message in (
        ("nosuch", {}, "dataset is 'nosuch'"),
        ("planted", {"node": 60}, "no option 'node'.*Did you mean 'nodes'"),
        ("planted", {"nodes": "many"}, "nodes is 'many'; expected a whole number"),
        ("own", {"nodes": "nodes.csv"}, "needs edges"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            load(name, **options)


PLUGIN = """
from sklearn.metrics import recall_score

from graphshift.data.dataset import ShiftDataset
from graphshift.data.metrics import METRICS
from graphshift.data.tasks import Task
from graphshift.datasets import DATASETS
from graphshift.datasets.planted import planted


@METRICS.register("recall", label="mean recall", kinds=("multiclass",), percent=True)
def recall(y, p):
    return float(recall_score(y, p.argmax(axis=1), average="macro"))


@DATASETS.register("small-town", summary="a town of sixty", shift="planted")
def small_town(*, nodes: int = 60) -> ShiftDataset:
    data = planted(nodes, environments=3)
    task = Task("multiclass", data.task.num_classes, "recall")
    roles = {role: [e.replace(task=task) for e in data.roles[role]] for role in ("train", "val", "tests")}
    return ShiftDataset("small-town", **roles, defaults={"epochs": 2})
"""

USE = """
import contextlib, io, json, sys, torch
import graphshift as gs
from graphshift.cli import main
from graphshift.data.metrics import METRICS
from graphshift.datasets import DATASETS
from sklearn.metrics import recall_score


def cli(*arguments):
    sys.argv, out = ["graphshift", *arguments], io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    return out.getvalue()


listed = cli("data", "list", "--json")
assert "small-town" in DATASETS.names() and "recall" in METRICS.names()
data = gs.load("small-town", nodes=61)
test = data.tests[0]
output = torch.nn.functional.one_hot(test.y.roll(7), 4).float()
cli("fit", "small-town", "--method", "erm", "--hidden", "4", "--out", "run")
found = {
    "dataset": repr(data),
    "score": test.score(output),
    "expected": recall_score(test.y, test.y.roll(7), average="macro"),
    "listed": {row["dataset"]: row["summary"] for row in json.loads(listed)["datasets"]},
    "scores": cli("score", "run", "small-town"),
}
print(json.dumps(found))
"""


def test_a_dataset_and_a_metric_of_a_plugin_are_found_everywhere(tmp_path: Path) -> None:
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    found = json.loads(run(["-c", USE], tmp_path, GRAPHSHIFT_PLUGINS=str(tmp_path / "my_plugin.py")))
    roles = "train ['train'], val ['val'], tests ['T1']"
    assert found["dataset"] == f"ShiftDataset('small-town', multiclass, recall, {roles})"
    assert found["score"] == found["expected"]
    assert found["listed"]["small-town"] == "a town of sixty"
    assert "mean recall (%)" in found["scores"]

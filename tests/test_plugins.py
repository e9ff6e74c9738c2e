"""A method, explorer, backbone, selection rule, dataset and metric in a module of one's own are found everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scripts

MODULE = '''
from dataclasses import dataclass

import numpy as np
import torch

import graphshift as gs
from graphshift.backbones.base import BACKBONES
from graphshift.backbones.sage import SAGE
from graphshift.core.hparams import hparam
from graphshift.data.metrics import METRICS
from graphshift.datasets.base import DATASETS
from graphshift.explorers.base import EXPLORERS
from graphshift.explorers.random import Random
from graphshift.methods import METHODS, ERMMethod, GNNEstimator
from graphshift.training.selection import SELECTIONS


@METHODS.register("quiet-erm", label="Quiet ERM")
@dataclass(eq=False, repr=False, kw_only=True)
class QuietERM(GNNEstimator):
    """ERM on a share of the loss."""

    quiet: float = hparam(0.5, gt=0, le=1, search=(0.25, 0.5), help="share of the loss")

    def make_method(self, backbone):
        return ERMMethod(backbone, self)


@EXPLORERS.register("mine-explorer")
class Mine(Random):
    """Random edits under another name."""


@BACKBONES.register("mine-backbone")
class MineBackbone(SAGE):
    """SAGE under another name."""


@SELECTIONS.register("worst-val", help="best mean score on the last validation environment")
def worst_val(roles):
    """One validation environment alone."""
    return roles.train, roles.val[-1:]


@METRICS.register("mine_metric", label="mine", percent=True, higher_is_better=True, kinds=("binary", "multiclass"))
def mine_metric(y, p):
    """Accuracy under another name."""
    return float(np.mean(y == p.argmax(axis=1)))


@DATASETS.register("mine-data", summary="a small planted graph", shift="planted", origin="this test")
def mine_data(nodes: int = 60, *, seed: int = 0):
    """planted-structure, scored by a metric of one's own."""
    data = gs.load("planted-structure", nodes=nodes, seed=seed, tests=2)
    task = gs.Task("multiclass", data.task.num_classes, "mine_metric")
    train, val, tests = ([e.replace(task=task) for e in role] for role in (data.train, data.val, data.tests))
    return gs.ShiftDataset("mine-data", train, val, tests, defaults={"backbone": "mine-backbone", "epochs": 3})
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "mine.py").write_text(MODULE)
    return folder


def run(folder: Path, *words: str) -> str:
    return scripts.run(words, folder, GRAPHSHIFT_PLUGINS=str(folder / "mine.py"))


def test_the_command_line_offers_them(folder: Path) -> None:
    shown = run(folder, "-m", "graphshift.cli", "fit", "--help")
    for word in ("quiet-erm", "--quiet", "mine-backbone", "mine-explorer"):
        assert word in shown
    assert "mine-data" in run(folder, "-m", "graphshift.cli", "data", "list")


def test_a_fit_with_all_of_them_is_saved_and_loaded(folder: Path) -> None:
    words = ["fit", "mine-data", "--method", "eerm", "--explorer", "mine-explorer", "--out", "run", "--json"]
    result = json.loads(run(folder, "-m", "graphshift.cli", *words))
    assert (result["backbone"], result["metric"]) == ("mine-backbone", "mine_metric")
    code = "import graphshift as gs; assert gs.QuietERM.method == 'quiet-erm'\n"
    code += "print(gs.load_model('run/model').score(gs.load('mine-data').tests[0]))"
    assert float(run(folder, "-c", code)) == result["tests"]["T1"]


def test_a_study_tunes_the_method_by_its_own_search_values(folder: Path) -> None:
    words = ["compare", "mine-data", "--methods", "erm,quiet-erm", "--tune", "2", "--seeds", "2", "--no-in-domain"]
    words += ["--selections", "worst-val"]
    out = json.loads(run(folder, "-m", "graphshift.cli", *words, "--out", "study", "--json"))
    assert {arm["method"] for arm in out["arms"]} == {"erm", "quiet-erm"}
    tried = {name for one in out["tuning"] if one["arm"].startswith("Quiet") for name in one["settings"]}
    assert tried == {"lr", "quiet"}
    assert all(arm["runs"] == 2 for arm in out["arms"])

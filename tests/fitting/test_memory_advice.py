"""Advice on what does not fit: whoever follows it stays below the limit."""

from __future__ import annotations

import re
from typing import Any

import pytest

import graphshift as gs
from graphshift.backbones import BACKBONES
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators import Estimator
from graphshift.estimators.settings import make_estimator
from graphshift.fitting.memory import advice, estimate, show_size

MB = 10**6


@pytest.fixture(scope="module")
def data() -> ShiftDataset:
    return gs.load("planted", nodes=3000, environments=3, degree=10.0)


def test_advice_names_what_suffices_alone(data: ShiftDataset) -> None:
    settings = gs.EERM(edits_per_node=5, views=6)
    now, fewer = (estimate(data, s, resident=100 * MB).total for s in (settings, settings.replace(views=3)))
    said = advice(data, settings, now - 1, resident=100 * MB)
    assert "--views 5 (about" in said
    assert "entries_per_node=32 (about" in said
    said = advice(data, settings, fewer, resident=100 * MB)
    assert f"--views 3 (about {show_size(fewer)})" in said
    assert "--hidden" not in said  # the policies need most: a narrower network does not help


FLAGS = {
    "--views": "views",
    "--edits-per-node": "edits_per_node",
    "--hidden": "hidden_channels",
    "--explorer-option": "explorer_options",
    "--low-memory": "low_memory",
}


def as_said(settings: Estimator, words: str) -> Estimator:
    """The settings with the flags of a piece of advice."""
    changes: dict[str, Any] = {}
    for flag, value in re.findall(r"(--[a-z-]+)(?: ([\w=]+))?", words):
        if flag == "--explorer-option":
            name, number = value.split("=")
            changes["explorer_options"] = {name: int(number)}
        else:
            changes[FLAGS[flag]] = int(value) if value else True
    return settings.replace(**changes)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize(
    "given",
    [
        {"method": "erm"},
        {"views": 5, "explorer": "random"},
        {"views": 5, "epochs": 1},
        {"views": 5, "edits_per_node": 8},
        {"views": 5, "explorer": "gradient"},
        {"views": 5, "explorer": "random", "low_memory": True},
    ],
    ids=str,
)
def test_whoever_follows_the_advice_stays_below(data: ShiftDataset, backbone: str, given: dict[str, Any]) -> None:
    settings = make_estimator({"backbone": backbone, "hidden_channels": 64} | given)
    now = estimate(data, settings, resident=100 * MB).total
    heard = 0
    for goal in (now - 1, *(100 * MB + (now - 100 * MB) * tenths // 10 for tenths in (9, 8, 6, 4, 2, 1))):
        said = advice(data, settings, goal, resident=100 * MB)
        if said.startswith("No setting"):
            continue
        for piece in said.removeprefix("What would fit: ").split(", or "):
            followed = estimate(data, as_said(settings, piece), resident=100 * MB).total
            assert followed <= goal, piece
            assert f"(about {show_size(followed)})" in piece
            heard += 1
            if "together" in piece:  # each of them has a share in it
                for flag in re.findall(r"--[a-z-]+(?: [\w=]+)?(?= )", piece):
                    rest = as_said(settings, piece.replace(flag, "", 1))
                    assert estimate(data, rest, resident=100 * MB).total > followed, (piece, flag)
    assert heard or backbone in ("sgc", "mlp")


def test_advice_combines_or_gives_up(data: ShiftDataset) -> None:
    settings = gs.EERM(edits_per_node=5, views=6, backbone="gat")
    least = gs.EERM(
        edits_per_node=1,
        views=2,
        backbone="gat",
        low_memory=True,
        hidden_channels=4,
        explorer_options={"entries_per_node": 8},
    )
    size = estimate(data, least, resident=100 * MB).total
    said = advice(data, settings, size + 1, resident=100 * MB)
    assert "together" in said
    assert "entries_per_node=8" in said
    assert "No setting brings it below" in advice(data, settings, 50 * MB, resident=100 * MB)
    features = advice(data, gs.EERM(explorer="features", edits_per_node=8), 50 * MB, resident=100 * MB)
    assert "--edits-per-node" not in features  # it edits none
    erm = advice(data, gs.ERM(), 50 * MB, resident=100 * MB)
    assert "explorer" not in erm
    assert "--low-memory" not in erm

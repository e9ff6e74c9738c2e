"""Models from strangers: what a note claims is compared with the file before memory is taken for it."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.backbones import BACKBONES
from graphshift.core.errors import GraphshiftError


@pytest.mark.parametrize(
    "claim", [{"features": 20_000_000}, {"settings": {"hidden_channels": 65_536, "num_layers": 900}}]
)
def test_a_note_that_claims_gigabytes_is_refused_without_them(claim: dict[str, Any], tmp_path: Path) -> None:
    data = gs.load("planted", nodes=60)
    gs.ERM(epochs=1, hidden_channels=4).fit(data).save(tmp_path)
    note = json.loads((tmp_path / "model.json").read_text())
    note["settings"] |= claim.pop("settings", {})
    (tmp_path / "model.json").write_text(json.dumps(note | claim))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(GraphshiftError, match=r"weights\.safetensors: does not fit model\.json: layers\.0"):
        gs.load_model(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize("backbone", list(BACKBONES))
def test_every_backbone_is_known_by_its_shapes(backbone: str, tmp_path: Path) -> None:
    data = gs.load("planted", nodes=60)
    model = gs.ERM(backbone, epochs=1, hidden_channels=4).fit(data)
    model.save(tmp_path)
    assert gs.load_model(tmp_path).score(data.tests) == model.score(data.tests)

"""A fit that does not fit into memory: a warning, the low-memory mode, or a refusal before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.fitting import fit as fitting
from graphshift.fitting.fit import FitRequest, fit_in_folder
from graphshift.fitting.memory import Estimate
from tiny_fits import TINY, request

GB = 10**9


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits that are estimated at 6 GB, and at 3 GB in low-memory mode."""

    def expected(_: Any, settings: gs.Estimator, **__: Any) -> Estimate:
        return Estimate({"process": (3 if getattr(settings, "low_memory", False) else 6) * GB}, "a step")

    monkeypatch.setattr(fitting, "estimate", expected)
    monkeypatch.setattr(fitting, "advice", lambda *_, **__: "Take less.")
    monkeypatch.setattr(fitting, "resident_bytes", lambda: 1 * GB)
    monkeypatch.setattr(fitting, "available_bytes", lambda: 100 * GB)


def eerm(**given: Any) -> FitRequest:
    return FitRequest("planted", {"nodes": 60}, TINY | {"views": 2} | given)


@pytest.mark.usefixtures("costly")
def test_what_does_not_fit_is_warned_about_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit_in_folder(request(), tmp_path / "roomy")
    monkeypatch.setattr(fitting, "available_bytes", lambda: 5 * GB)  # and 1 GB that the process has
    fit_in_folder(request(), tmp_path / "just")
    monkeypatch.setattr(fitting, "available_bytes", lambda: 5 * GB - 1)
    with pytest.warns(GraphshiftWarning, match=r"needs about 6.0 GB, and 6.0 GB can be had; .* Take less\."):
        result = fit_in_folder(request(), tmp_path / "tight")
    assert result["estimated_mb"] == 6 * GB / 1024**2
    monkeypatch.setattr(fitting, "available_bytes", lambda: None)
    fit_in_folder(request(), tmp_path / "unknown")


@pytest.mark.usefixtures("costly")
def test_a_limit_chooses_the_low_memory_mode_and_records_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparing: list[bool] = []
    monkeypatch.setattr(fitting, "give_back_freed", lambda always=False: sparing.append(always))
    assert not fit_in_folder(eerm(), tmp_path / "roomy", memory_limit=6 * GB)["low_memory"]
    assert not any(sparing)
    with pytest.warns(GraphshiftWarning, match=r"low-memory mode was chosen: about 3.0 GB, .* 6.0 GB .* is 4.0 GB\."):
        result = fit_in_folder(eerm(), tmp_path / "run", memory_limit=4 * GB)
    assert any(sparing)
    assert result["low_memory"] is True
    assert result["estimated_mb"] == 3 * GB / 1024**2
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["low_memory"] is True
    # The same options go on, also where the limit would no longer lead to the same mode; the limit is not the run's.
    for limit in (4 * GB, 6 * GB):
        assert fit_in_folder(eerm(), tmp_path / "run", resume=True, memory_limit=limit) == result
    with pytest.raises(GraphshiftError, match="low_memory is True there and False here"):
        fit_in_folder(eerm(), tmp_path / "run", resume=True)


@pytest.mark.usefixtures("costly")
def test_an_interrupted_run_of_a_limit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "finish", stopped)
        with pytest.warns(GraphshiftWarning), pytest.raises(KeyboardInterrupt):
            fit_in_folder(eerm(), tmp_path / "run", memory_limit=4 * GB, checkpoint_every=0.0)
    result = fit_in_folder(eerm(), tmp_path / "run", resume=True, memory_limit=4 * GB)
    assert result["low_memory"] is True


@pytest.mark.usefixtures("costly")
def test_over_the_limit_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"needs about 3.0 GB, and the memory limit is 2.0 GB; .* Take less\."):
        fit_in_folder(eerm(), tmp_path / "run", memory_limit=2 * GB)
    with pytest.raises(GraphshiftError, match=r"needs about 6.0 GB, .* is 4.0 GB"):  # ERM has no such mode
        fit_in_folder(request(), tmp_path / "run", memory_limit=4 * GB)
    with pytest.raises(GraphshiftError, match=r"needs about 6.0 GB"):  # the user said no
        fit_in_folder(eerm(low_memory=False), tmp_path / "run", memory_limit=4 * GB)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("costly")
def test_a_mode_that_was_given_is_kept(tmp_path: Path) -> None:
    assert fit_in_folder(eerm(low_memory=True), tmp_path / "run", memory_limit=9 * GB)["low_memory"] is True

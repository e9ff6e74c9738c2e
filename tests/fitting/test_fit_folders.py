"""The folder of a fit: nothing is replaced unasked, every stop can be resumed, and what a kill left is removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.fitting.ensemble import fit_ensemble
from graphshift.fitting.fit import FitRequest, fit_in_folder, run_folder
from graphshift.training.run import Run
from tiny_fits import contents, request


def test_what_is_there_is_not_touched_unasked(tmp_path: Path) -> None:
    fit_in_folder(request(), tmp_path)
    before = contents(tmp_path)
    with pytest.raises(GraphshiftError, match=r"exists and is not empty; nothing was changed.*--resume.*--force"):
        fit_in_folder(request(seed=1), tmp_path)
    assert contents(tmp_path) == before


def test_force_replaces_the_run_and_leaves_foreign_files(tmp_path: Path) -> None:
    fit_in_folder(request(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "data.csv").write_text("mine, too")
    (tmp_path / "checkpoint.safetensors").write_text("old")
    assert fit_in_folder(request(seed=1), tmp_path, force=True)["seed"] == 1
    found = contents(tmp_path)
    assert found["notes.txt"] == b"mine"
    assert found["more/data.csv"] == b"mine, too"
    assert "checkpoint.safetensors" not in found
    assert len(found["history.jsonl"].splitlines()) == 2
    assert json.loads(found["config.json"])["settings"]["seed"] == 1


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"backbone": "transformer"}, "backbone is 'transformer'"),
        ({"method": "eerm", "explorer": "clever"}, "explorer is 'clever'"),
        ({"method": "eerm", "views": 1}, "views is 1"),
        ({"backbone": "gat", "backbone_options": {"heads": "two"}}, "heads is 'two'"),
        ({"backbone_options": {"heads": 2}}, "do not fit"),
        ({"epochs": 0}, "epochs is 0"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_removed_or_made_before_everything_was_checked(
    given: dict[str, Any], match: str, force: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    if force:
        fit_in_folder(request(), folder)
    before = contents(tmp_path)
    with pytest.raises(GraphshiftError, match=match):
        fit_in_folder(request(**given), folder, force=force)
    assert contents(tmp_path) == before
    assert folder.exists() == force


def test_a_finished_run_is_resumed_by_giving_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = fit_in_folder(request(), tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(gs.Estimator, "fit", lambda *_, **__: pytest.fail("it was trained again"))
    assert fit_in_folder(request(), tmp_path, resume=True) == result
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (request(seed=4, lr=0.5), "settings.lr is 0.01 there and 0.5 here; settings.seed is 0 there and 4 here"),
        (FitRequest("planted", {"nodes": 61}, request().given), "options.nodes is 60 there and 61 here"),
        (FitRequest("planted", {"nodes": 60, "degree": 4.0}, request().given), "options.degree is None there and 4.0"),
        (FitRequest("planted-structure", {"nodes": 60}, request().given), "dataset is 'planted' there and"),
    ],
)
def test_resuming_with_other_settings_is_refused_naming_them(tmp_path: Path, other: FitRequest, match: str) -> None:
    fit_in_folder(request(), tmp_path)
    (tmp_path / "result.json").unlink()
    before = contents(tmp_path)
    with pytest.raises(GraphshiftError, match=f"other settings, so it cannot be resumed: .*{match}"):
        fit_in_folder(other, tmp_path, resume=True)
    assert contents(tmp_path) == before


def test_a_damaged_config_is_told(tmp_path: Path) -> None:
    fit_in_folder(request(), tmp_path)
    for text, match in (
        ("[3]", r"config\.json: the content is \[3\]"),
        ('{"settings": 3}', "dataset"),
        ("{", "not JSON"),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(GraphshiftError, match=match):
            fit_in_folder(request(), tmp_path, resume=True)


def test_resuming_where_nothing_is_starts(tmp_path: Path) -> None:
    assert fit_in_folder(request(), tmp_path / "new", resume=True)["best_epoch"] in (1, 2)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").write_text("x")
    with pytest.raises(GraphshiftError, match=r"config\.json: there is no such file"):
        fit_in_folder(request(), tmp_path / "foreign", resume=True)


def test_half_written_files_of_a_killed_run_are_no_obstacle(tmp_path: Path) -> None:
    """A kill while config.json is written leaves a temporary file and nothing else."""
    for resume in (False, True):
        folder = tmp_path / str(resume)
        folder.mkdir()
        for name in (".config.json.123.tmp", ".checkpoint.safetensors.77.tmp", ".result.json.1.tmp"):
            (folder / name).write_text("half")
        fit_in_folder(request(), folder, resume=resume)
        assert not any(name.endswith(".tmp") for name in contents(folder))


def test_a_checkpoint_is_kept_while_needed_and_removed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = []
    monkeypatch.setattr(Run, "save", lambda self, *_: saved.append(self.checkpoint))
    fit_in_folder(request(epochs=3), tmp_path / "often", checkpoint_every=0)
    assert len(saved) == 3
    fit_in_folder(request(epochs=3), tmp_path / "seldom", checkpoint_every=1000)
    assert len(saved) == 3
    monkeypatch.undo()
    fit_in_folder(request(epochs=3), tmp_path / "really", checkpoint_every=0)
    assert "checkpoint.safetensors" not in contents(tmp_path / "really")


def test_a_path_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder, match in ((tmp_path / "file", "is a file"), (tmp_path / "file" / "run", "cannot be made")):
        with pytest.raises(GraphshiftError, match=match):
            fit_in_folder(request(), folder)
    assert contents(tmp_path) == {"file": b"mine"}


def test_a_second_run_keeps_out_of_a_folder_that_is_being_written(tmp_path: Path) -> None:
    with run_folder(tmp_path / "run").locked(), pytest.raises(GraphshiftError, match="is writing"):
        fit_in_folder(request(), tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
    assert fit_in_folder(request(), tmp_path / "run")["best_epoch"] >= 1  # the lock is gone with its holder


def test_a_run_that_fails_before_its_first_epoch_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("graphshift.methods.erm.ERMMethod.step", fail)
        with pytest.raises(MemoryError):
            fit_in_folder(request(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine.txt").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("graphshift.methods.erm.ERMMethod.step", fail)
        with pytest.raises(MemoryError):
            fit_in_folder(request(), tmp_path / "kept", force=True)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["mine.txt"]


def test_an_ensemble_that_was_killed_before_it_wrote_anything_is_begun_by_the_same_command(tmp_path: Path) -> None:
    (tmp_path / "e" / "member-1").mkdir(parents=True)
    assert fit_ensemble(request(), tmp_path / "e", 2, resume=True)["ensemble"] == 2
    (tmp_path / "mine" / "member-1").mkdir(parents=True)
    (tmp_path / "mine" / "member-1" / "notes.txt").write_text("mine")
    with pytest.raises(GraphshiftError, match="not empty"):
        fit_ensemble(request(), tmp_path / "mine", 2)


def test_what_a_kill_after_the_result_left_is_removed(tmp_path: Path) -> None:
    done = fit_in_folder(request(), tmp_path)
    left = ("checkpoint.safetensors", ".result.json.77.tmp", "model/.model.json.77.tmp", "model/.tmpabc123")
    for name in left:
        (tmp_path / name).write_text("half")
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"epoch": 9, "lo')
    assert fit_in_folder(request(), tmp_path, resume=True) == done
    assert not any((tmp_path / name).exists() for name in left)
    assert (tmp_path / "history.jsonl").read_text().endswith("}\n")

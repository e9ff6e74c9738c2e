"""A fit from a dataset's name to a folder: settings completed, folders respected, the result complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn import metrics as sk

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.metrics import METRICS
from graphshift.estimators import base, make_estimator
from graphshift.estimators.asked import roles_of
from graphshift.fitting import fit as fitting
from graphshift.fitting.ensemble import fit_ensemble
from graphshift.fitting.fit import FitRequest, fit_in_folder, result_of, run_folder
from graphshift.fitting.memory import Estimate
from graphshift.training.run import Run

KEYS = {
    "dataset",
    "method",
    "backbone",
    "seed",
    "metric",
    "selection",
    "best_epoch",
    "val",
    "tests",
    "majority",
    "seconds",
    "seconds_per_epoch",
    "peak_rss_mb",
    "version",
    "selection_score",
    "confidence",
}
TINY = {"epochs": 2, "hidden_channels": 4}


def request(**given: Any) -> FitRequest:
    return FitRequest("planted", {"nodes": 60}, TINY | {"method": "erm"} | given)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["val", "oracle"])
def test_tests_are_handed_over_to_oracle_alone(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(base, "roles_of", lambda *roles: seen.append(roles) or roles_of(*roles))
    data = gs.load("planted", nodes=60)
    gs.ERM(selection=selection, **TINY).fit(data)
    train, val, tests, *_ = seen[0]
    assert (train, val, tuple(tests)) == (data.train, data.val, data.tests if selection == "oracle" else ())


# --- the result --------------------------------------------------------------------------------------------------


def test_a_folder_holds_everything(tmp_path: Path) -> None:
    result = fit_in_folder(request(seed=3), tmp_path / "deep" / "run")
    folder = tmp_path / "deep" / "run"
    assert set(contents(folder)) == {
        "config.json",
        "history.jsonl",
        "result.json",
        "model/explored.safetensors",
        "model/held_out.safetensors",
        "model/model.json",
        "model/source.safetensors",
        "model/weights.safetensors",
    }
    assert json.loads((folder / "result.json").read_text()) == result
    assert set(result) == KEYS | {"estimated_mb", "low_memory", "warnings"}
    assert 50 < result["estimated_mb"] < 100_000
    assert result["low_memory"] is False
    assert (result["dataset"], result["method"], result["backbone"], result["seed"]) == ("planted", "erm", "gcn", 3)
    assert (result["metric"], result["selection"], result["version"]) == ("accuracy", "val", gs.__version__)
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert result["val"] == max(row["val"] for row in history) == history[result["best_epoch"] - 1]["val"]
    assert 0 < result["seconds_per_epoch"] == result["seconds"] / 2
    assert 50 < result["peak_rss_mb"] < 100_000
    data = gs.load("planted", nodes=60)
    model = gs.load_model(folder / "model")
    assert result["tests"] == model.score(data.tests)
    assert result["majority"] == {e.name: e.majority for e in data.tests}
    config = json.loads((folder / "config.json").read_text())
    assert config["dataset"] == "planted"
    assert config["options"] == {"nodes": 60}
    assert config["settings"] == make_estimator(request(seed=3).given, data.defaults).settings()


def test_regression_has_no_majority() -> None:
    graph = gs.load("planted", nodes=60).train[0].data
    graph.y = graph.x[:, 0]
    data = gs.ShiftDataset(
        "r", [gs.Environment("a", graph)], [gs.Environment("b", graph)], [gs.Environment("c", graph)]
    )
    result = result_of(gs.ERM(**TINY).fit(data), data)
    assert result["majority"] == {}
    assert result["metric"] == "mse"
    assert set(result) == KEYS - {"confidence"}  # values have no probabilities


# --- folders -----------------------------------------------------------------------------------------------------


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


# --- memory ------------------------------------------------------------------------------------------------------

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


# --- how sure the model is


def rare() -> gs.ShiftDataset:
    """A rare class 1 in three graphs, and one without labels."""
    made = []
    for seed, name in enumerate(("train", "val", "test", "target")):
        graph = gs.load("planted", nodes=200, seed=seed).train[0].data
        graph.y = (graph.y == 1).long()
        graph.mask = torch.arange(200) % 5 != 0
        made.append(gs.Environment(name, graph, gs.Task("binary", 2, "average_precision")))
    return gs.ShiftDataset("rare", *([one] for one in made[:3]), target=made[3:])


def test_a_result_says_how_sure_and_how_right_the_model_is() -> None:
    data = rare()
    model = gs.ERM(epochs=40, hidden_channels=16, lr=0.05, selection="last").fit(data)
    result = result_of(model, data)
    found = result["confidence"]
    assert found["temperature"] == model.confidences_[""].temperature
    for role, (e,) in (("val", data.val), ("tests", data.tests)):
        y = e.labels.numpy()
        raw, calibrated = (model.predict_proba(e, calibrated=c)[e.mask.numpy()] for c in (False, True))
        own = found[role][e.name]
        assert own["accuracy"] == pytest.approx((raw.argmax(axis=1) == y).mean())
        assert own["confidence"] == pytest.approx(raw.max(axis=1).mean())
        assert own["ece"] == METRICS["ece"].compute(y, raw)
        assert own["calibrated"] == pytest.approx(
            {"confidence": calibrated.max(axis=1).mean(), "ece": METRICS["ece"].compute(y, calibrated)}
        )
    assert found["val"]["val"]["calibrated"]["ece"] < found["val"]["val"]["ece"]
    chosen = result["threshold"]
    for (e,) in (data.val, data.tests):
        predicted = model.predict_proba(e, calibrated=True)[e.mask.numpy(), 1] > chosen["probability"]
        assert chosen["f1"][e.name] == pytest.approx(sk.f1_score(e.labels.numpy(), predicted))
    (e,) = data.target
    predicted = model.predict(e)[e.mask.numpy()]
    probabilities = model.predict_proba(e, calibrated=True)[e.mask.numpy()]
    assert result["target"]["target"] == {
        "nodes": 160,
        "shares": {"0": (predicted == 0).mean(), "1": (predicted == 1).mean()},
        "confidence": pytest.approx(probabilities.max(axis=1).mean()),
    }


def test_a_target_of_values_has_their_mean() -> None:
    graph = gs.load("planted", nodes=60).train[0].data
    graph.y = graph.x[:, 0]
    data = gs.ShiftDataset("r", [gs.Environment("a", graph)], target=[gs.Environment("b", graph)])
    model = gs.ERM(selection="last", **TINY).fit(data)
    values = model.predict(data.target[0])
    found = result_of(model, data)["target"]["b"]
    assert found == {"nodes": 60, "mean": pytest.approx(values.mean()), "deviation": pytest.approx(values.std())}


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

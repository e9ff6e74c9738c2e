"""Experiment trackers: what is read back with each real library is what the fit says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.studies import run_study
from graphshift.training.callbacks import Callback
from graphshift.training.loggers import LOGGERS, MLflow, TensorBoard, WandB, make_logger
from tiny_studies import ERM, plan

FIT = ("fit", "planted", "--method", "erm", "-o", "nodes=60", "--epochs", 3, "--hidden", 4)


def read_tensorboard(folder: Path) -> tuple[dict[str, dict[int, float]], dict[str, Any]]:
    """By curve its points; and the settings of the HParams page."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.plugins.hparams import plugin_data_pb2

    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    curves = {name: {p.step: p.value for p in events.Scalars(name)} for name in events.Tags()["scalars"]}
    settings: dict[str, Any] = {}
    for metadata in events.summary_metadata.values():
        content = metadata.plugin_data.content
        if metadata.plugin_data.plugin_name == "hparams":
            started = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
            settings |= {name: getattr(v, v.WhichOneof("kind")) for name, v in started.items()}
    return curves, settings


def read_mlflow(uri: str, experiment: str) -> dict[str, tuple[Any, dict[str, dict[int, float]]]]:
    """By name of the run, the run and its curves."""
    client = pytest.importorskip("mlflow").MlflowClient(uri)
    found = {}
    for run in client.search_runs([client.get_experiment_by_name(experiment).experiment_id]):
        curves = {n: {p.step: p.value for p in client.get_metric_history(run.info.run_id, n)} for n in run.data.metrics}
        found[run.info.run_name] = run, curves
    return found


def read_wandb(folder: Path) -> dict[str, Any]:
    """Configuration, history by step, and summary of the only run."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    store = DataStore()
    store.open_for_scan(str(path))
    found: dict[str, Any] = {"config": {}, "history": {}, "summary": {}}
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found |= {"name": record.run.display_name, "group": record.run.run_group, "project": record.run.project}
            found["config"] |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            row = {i.key or i.nested_key[0]: json.loads(i.value_json) for i in record.history.item}
            found["history"][row["_step"]] = row
        elif kind == "summary":
            for item in record.summary.update:
                found["summary"][item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        elif kind == "exit":
            found["status"] = record.exit.exit_code
    return found


def history_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def test_tensorboard_has_curves_settings_and_scores(graphshift: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    answer = graphshift(*FIT, "--out", tmp_path / "run", "--log", f"tensorboard:{tmp_path / 'logs'}")
    assert (answer.status, answer.err) == (0, "")
    curves, settings = read_tensorboard(tmp_path / "logs" / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    for row in history_of(tmp_path / "run"):
        assert curves["loss"][row["epoch"]] == pytest.approx(row["loss"])
        assert curves["val"][row["epoch"]] == pytest.approx(row["val"])
    assert sorted(curves["loss"]) == [1, 2, 3]
    assert {name: curves[f"tests/{name}"][0] for name in result["tests"]} == pytest.approx(result["tests"])
    assert curves["best_epoch"][0] == result["best_epoch"]
    assert (settings["method"], settings["hidden_channels"], settings["epochs"]) == ("erm", 4, 3)
    assert graphshift(*FIT, "--out", tmp_path / "b" / "run", "--log", f"tensorboard:{tmp_path / 'logs'}").status == 0
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == ["run", "run-2"]


def test_mlflow_has_them_in_its_sqlite_store(graphshift: Any, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert graphshift(*FIT, "--out", tmp_path / "run", "--log", f"mlflow:{uri}").status == 0
    run, curves = read_mlflow(uri, "planted")["run"]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert run.info.status == "FINISHED"
    assert (run.data.params["method"], run.data.params["lr"]) == ("erm", "0.01")
    for row in history_of(tmp_path / "run"):
        assert {name: curves[name][row["epoch"]] for name in row if name != "epoch"} == {
            name: value for name, value in row.items() if name != "epoch"
        }
    assert {name: curves[f"tests/{name}"][0] for name in result["tests"]} == result["tests"]


def test_wandb_has_them_offline(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    assert graphshift(*FIT, "--out", tmp_path / "run", "--log", "wandb:mine").status == 0
    found = read_wandb(tmp_path)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (found["project"], found["group"], found["name"], found["status"]) == ("mine", "planted", "run", 0)
    assert (found["config"]["method"], found["config"]["hidden_channels"]) == ("erm", 4)
    assert {step: row["loss"] for step, row in found["history"].items()} == {
        row["epoch"]: row["loss"] for row in history_of(tmp_path / "run")
    }
    assert {name: found["summary"][f"tests/{name}"] for name in result["tests"]} == result["tests"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_study_logs_every_fit(workers: int, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    study = run_study(plan(arms=[ERM], trials=2), workers=workers, threads=1, log=[f"mlflow:{uri}"])
    plain = run_study(plan(arms=[ERM], trials=2), workers=0, threads=1)
    logged = read_mlflow(uri, "planted")
    assert logged.keys() == {record.id for record in study.records}
    for record, other in zip(study.records, plain.records, strict=True):
        run, curves = logged[record.id]
        assert record.selections == other.selections  # logging changes nothing
        assert sorted(curves["loss"]) == [1, 2, 3, 4]
        assert curves["val"][0] == record.selections["val"].val
        tests = {name.removeprefix("tests/"): p[0] for name, p in curves.items() if name.startswith("tests/")}
        assert tests == record.selections["val"].tests
        assert (run.info.status, run.data.params["method"]) == ("FINISHED", "erm")


def test_every_kind_of_method_can_be_logged(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    data = gs.load("planted", nodes=60)
    for i, model in enumerate([gs.Majority(), gs.Blend(members=["majority", "logistic"])]):
        model.fit(data, callbacks=[TensorBoard(str(tmp_path), name=str(i))])
        curves, settings = read_tensorboard(tmp_path / str(i))
        assert curves["loss"][0] == pytest.approx(model.history_[0]["loss"])
        assert settings["method"] == model.method


class Stops(Callback):
    """Ends training after an epoch."""

    def on_epoch(self, row: Any) -> None:
        raise RuntimeError("the power went")


def test_a_fit_that_fails_is_logged_as_failed(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with pytest.raises(RuntimeError, match="the power went"):
        gs.ERM(epochs=3, hidden_channels=4).fit(
            gs.load("planted", nodes=60), callbacks=[MLflow(uri, group="g", name="n"), Stops()]
        )
    run, curves = read_mlflow(uri, "g")["n"]
    assert run.info.status == "FAILED"
    assert sorted(curves["loss"]) == [1]


def test_a_resumed_fit_is_a_new_run_with_all_epochs(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    log = ("--log", f"tensorboard:{tmp_path / 'logs'}", "--checkpoint-every", 0)
    on_epoch, seen = TensorBoard.on_epoch, []

    def failing(self: TensorBoard, row: Any) -> None:
        on_epoch(self, row)
        seen.append(row)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TensorBoard, "on_epoch", failing)
    assert graphshift(*FIT, "--out", tmp_path / "run", *log).status == 130
    assert graphshift("fit", "--out", tmp_path / "run", "--resume", *log).status == 0
    assert sorted(read_tensorboard(tmp_path / "logs" / "run")[0]["loss"]) == [1, 2]
    assert sorted(read_tensorboard(tmp_path / "logs" / "run-2")[0]["loss"]) == [1, 2, 3]


def test_what_cannot_be_opened_is_said_before_anything_changes(
    graphshift: Any, tmp_path: Path, files_of: Callable[[Path], dict[str, bytes]]
) -> None:
    pytest.importorskip("mlflow")
    assert graphshift(*FIT, "--out", tmp_path / "run").status == 0
    before = files_of(tmp_path / "run")
    (tmp_path / "file").write_text("")
    for log, said in (
        (f"tensorboard:{tmp_path / 'file' / 'logs'}", "TensorBoard"),
        (f"mlflow:sqlite:///{tmp_path / 'file' / 'mlflow.db'}", "MLflow"),
    ):
        answer = graphshift(*FIT, "--out", tmp_path / "run", "--force", "--log", log)
        assert answer.status == 2
        assert said in answer.err
        assert "cannot be opened" in answer.err
        assert "Traceback" not in answer.err
        answer = graphshift("compare", "planted", "--tune", 0, "--out", tmp_path / "study", "--log", log)
        assert (answer.status, (tmp_path / "study").exists()) == (2, False)
    assert files_of(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("tensorbord:x", "Did you mean 'tensorboard'?"),
        ("tensorboard", "expected tensorboard:PLACE, where PLACE is a folder"),
        ("mlflow:", "expected mlflow:PLACE, where PLACE is a tracking URI"),
        ("", "expected one of mlflow, tensorboard, wandb"),
    ],
)
def test_a_wrong_log_is_refused(log: str, said: str, graphshift: Any, tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=said.replace("?", r"\?")):
        make_logger(log)
    answer = graphshift(*FIT, "--out", tmp_path / "run", "--log", log)
    assert (answer.status, (tmp_path / "run").exists()) == (2, False)


def test_a_tracker_that_fails_later_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")

    def broken(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(TensorBoard, "write", broken)
    with pytest.warns(GraphshiftWarning, match=r"logging stopped, training goes on: no space left\."):
        model = gs.ERM(epochs=3, hidden_channels=4).fit(
            gs.load("planted", nodes=60), callbacks=[TensorBoard(str(tmp_path))]
        )
    assert len(model.history_) == 3
    monkeypatch.setattr(TensorBoard, "open", broken)
    study = run_study(
        plan(arms=[ERM], trials=0, seeds=[0]), workers=0, threads=1, log=[f"tensorboard:{tmp_path / 'logs'}"]
    )
    assert [record.status for record in study.records] == ["ok"]


def test_a_missing_package_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(LOGGERS) == {"tensorboard", "mlflow", "wandb"}
    for logger in (TensorBoard("logs"), MLflow(), WandB()):
        monkeypatch.setitem(__import__("sys").modules, logger.package, None)
        with pytest.raises(GraphshiftError, match=rf"pip install 'graphshift\[{logger.package}\]'"):
            logger.on_settings({})


def test_names_of_environments_may_be_anything(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    logger = MLflow(uri, group="g", name="n")
    logger.on_settings({"members": [{"method": "erm"}], "long": "x" * 10_000, "nothing": None})
    logger.scores({"tests": {"../é & ü": 0.5, "..": 1, "text": "no", "flag": True}, "val": None})
    logger.close()
    run, curves = read_mlflow(uri, "g")["n"]
    assert curves == {"tests/_é___ü": {0: 0.5}, "tests/_": {0: 1.0}}
    assert run.data.params["members"] == '[{"method": "erm"}]'

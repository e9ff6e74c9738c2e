"""``graphshift fit``: options, TOML, defaults, and folders that are never overwritten unasked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.cli.fit import _memory
from graphshift.core.hparams import hparams_of

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
    "estimated_mb",
    "loading_mb",
    "low_memory",
    "version",
    "selection_score",
    "confidence",
    "warnings",
}
ERM = ("fit", "planted", "--method", "erm", "-o", "nodes=60", "--epochs", 2, "--hidden", 4)
Files = Callable[[Path], dict[str, bytes]]


def config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def test_a_table_is_printed_and_everything_written(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*ERM, "--seed", 3, "--out", tmp_path / "run")
    assert (answer.status, answer.err) == (0, "")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert "planted · ERM · gcn · seed 3" in answer.out
    for name, value in result["tests"].items():
        (line,) = [line for line in answer.out.splitlines() if f"│ {name} " in line]
        assert f"{100 * value:.1f}" in line
        assert f"{100 * result['majority'][name]:.1f}" in line
    assert f"{100 * sum(result['tests'].values()) / 8:.1f}" in answer.out
    assert f"epoch {result['best_epoch']} by val" in answer.out
    assert f"written to {tmp_path / 'run'}" in answer.out
    assert {p.name for p in (tmp_path / "run").iterdir()} == {"config.json", "history.jsonl", "model", "result.json"}


def test_json_is_the_result_with_all_its_keys(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*ERM, "--out", tmp_path / "run", "--json")
    assert (answer.status, answer.err) == (0, "")
    result = json.loads(answer.out)
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert set(result) == KEYS
    assert set(result["tests"]) == set(result["majority"]) == {f"T{i}" for i in range(1, 9)}


def test_the_largest_class_stands_beside_accuracy_alone(graphshift: Any, tmp_path: Path) -> None:
    assert "largest class (%)" in graphshift(*ERM, "--out", tmp_path / "a").out
    graph = gs.load("planted", nodes=60)
    nodes, edges = [], []
    for e in graph.environments[:3]:
        nodes += [f"{e.name}-{i},{e.name},{float(e.x[i, 0])},{int(e.y[i] == 1)}" for i in range(60)]
        edges += [f"{e.name}-{a},{e.name}-{b}" for a, b in e.graph.edge_index.t().tolist()]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,place,x,label", *nodes]))
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]))
    (tmp_path / "mine.toml").write_text(
        'method = "erm"\nepochs = 2\n[data]\nnodes = "nodes.csv"\nedges = "edges.csv"\nenvironments = "place"\n'
        'train = "train"\nval = "val"\ntests = "T1"\nmetric = "roc_auc"\n'
    )
    answer = graphshift("fit", tmp_path / "mine.toml")
    assert answer.status == 0
    assert "mine · ERM · gcn · seed 0" in answer.out  # called after its file
    assert Path("runs/mine-erm-0/result.json").exists()
    assert "ROC-AUC (%)" in answer.out
    assert "largest class" not in answer.out
    shown = graphshift("score", "runs/mine-erm-0", tmp_path / "mine.toml").out
    assert "ROC-AUC (%)" in shown
    assert "largest class" not in shown


def test_a_terminal_gets_a_bar_with_numbers(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    answer = graphshift("fit", "planted", "-o", "nodes=60", "--epochs", 2, "--views", 2, "--out", tmp_path / "run")
    assert answer.status == 0
    for word in ("EERM", "2/2", "epochs", "loss ", "variance ", "val "):
        assert word in answer.err


def test_every_setting_has_an_option(graphshift: Any, tmp_path: Path) -> None:
    given = {
        "method": "eerm",
        "backbone": "gat",
        "hidden": 3,
        "layers": 3,
        "dropout": 0.1,
        "backbone-option": "heads=2",
        "readout": "max",
        "epochs": 1,
        "lr": 0.2,
        "weight-decay": 0.3,
        "clip": 4.0,
        "selection": "id_val",
        "patience": 5,
        "device": "cpu",
        "seed": 6,
        "explorer": "reinforce",
        "views": 2,
        "edits-per-node": 1,
        "inner-steps": 2,
        "beta": 7.0,
        "beta-end": 8.0,
        "anchor": 0.25,
        "explorer-lr": 0.9,
        "explorer-optimizer": "sgd",
        "explorer-weight-decay": 0.11,
        "explorer-baseline": 0.12,
        "credit": "difference",
        "explorer-option": "baseline=0.5",
        "batch": "each",
        "batch-nodes": 40,
        "neighbours": "3,2",
        "variance": "within",
        "reward-variance": "pooled",
        "new-edge-features": "mean",
    }
    flags = ["--reset-explorers", "--directed-edits", "--low-memory"]
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    answer = graphshift("fit", "planted", "-o", "nodes=60", *options, *flags, "--out", tmp_path / "run", "--json")
    assert (answer.status, answer.err) == (0, "")
    long = {"hidden": "hidden_channels", "layers": "num_layers"}
    expected = {long.get(name, name.replace("-", "_")): value for name, value in given.items()}
    expected |= {"backbone_options": {"heads": 2}, "explorer_options": {"baseline": 0.5}}
    del expected["backbone_option"], expected["explorer_option"]
    expected |= {flag[2:].replace("-", "_"): True for flag in flags}
    expected |= {"batch_parts": None}  # not beside batch_nodes
    assert set(expected) == {"method", *hparams_of(gs.EERM)}  # those of other methods have options too, tried below
    assert config(tmp_path / "run")["settings"] == expected
    model = gs.load_model(tmp_path / "run" / "model")
    assert model.backbone_.layers[0].heads == 2


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("irm", {"penalty": 3.0, "anneal": 0.5, "groups": 3, "group-by": "features"}),
        ("groupdro", {"group-lr": 0.7, "groups": 2, "group-by": "degree"}),
        ("mixup", {"mix": 0.4}),
    ],
)
def test_settings_of_other_methods_have_options(
    method: str, given: dict[str, Any], graphshift: Any, tmp_path: Path
) -> None:
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    made = ("fit", "planted", "-o", "nodes=60", "--method", method, "--epochs", 1, "--out", tmp_path / "run", "--json")
    assert graphshift(*made, *options).status == 0
    settings = config(tmp_path / "run")["settings"]
    assert {name.replace("-", "_"): value for name, value in given.items()}.items() <= settings.items()
    wrong = graphshift("fit", "planted", "-o", "nodes=60", "--method", method, "--beta", 1.0)
    assert (wrong.status, "--beta needs --method eerm" in wrong.err) == (2, True)


def test_what_is_not_given_comes_from_the_dataset_then_from_the_defaults(graphshift: Any, tmp_path: Path) -> None:
    tiny = ("-o", "nodes=60", "--epochs", 1, "--hidden", 3)
    for name in ("planted", "planted-structure"):
        assert graphshift("fit", name, *tiny, "--views", 2, "--out", tmp_path / name).status == 0
        settings = config(tmp_path / name)["settings"]
        expected = gs.EERM().settings() | dict(gs.load(name, nodes=60).defaults)
        assert settings == expected | {"epochs": 1, "hidden_channels": 3, "views": 2}


def test_the_default_folder_says_what_is_in_it(graphshift: Any) -> None:
    answer = graphshift(*ERM, "--seed", 4)
    assert answer.status == 0
    assert Path("runs/planted-erm-4/result.json").exists()


# --- TOML --------------------------------------------------------------------------------------------------------

TOML = """
dataset = "planted"
method = "erm"
epochs = 2
hidden = 4
seed = 5

[options]
nodes = 60
degree = 4.0
"""


def test_a_toml_file_is_the_same_as_options(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "fit.toml").write_text(TOML)
    assert graphshift("fit", tmp_path / "fit.toml", "--out", tmp_path / "a").status == 0
    assert graphshift(*ERM, "--seed", 5, "-o", "degree=4.0", "--out", tmp_path / "b").status == 0
    assert config(tmp_path / "a") == config(tmp_path / "b")
    ours, theirs = (json.loads((tmp_path / name / "result.json").read_text()) for name in "ab")
    assert ours["tests"] == theirs["tests"]


def test_options_override_the_toml_file(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "fit.toml").write_text(TOML)
    answer = graphshift(
        "fit", tmp_path / "fit.toml", "--seed", 9, "--hidden", 3, "-o", "nodes=70", "--out", tmp_path / "a"
    )
    assert answer.status == 0
    found = config(tmp_path / "a")
    assert (found["settings"]["seed"], found["settings"]["hidden_channels"], found["settings"]["epochs"]) == (9, 3, 2)
    assert found["options"] == {"nodes": 70, "degree": 4.0}


def test_settings_of_eerm_in_a_shared_file_are_noted_when_erm_is_asked_for(graphshift: Any, tmp_path: Path) -> None:
    (tmp_path / "fit.toml").write_text('dataset = "planted"\nepochs = 1\nbeta = 3.0\nviews = 2\n[options]\nnodes = 60')
    answer = graphshift("fit", tmp_path / "fit.toml", "--method", "erm", "--out", tmp_path / "a", "--json")
    assert answer.status == 0
    assert answer.err.startswith("graphshift: note: ")
    assert "beta, views: not used with erm" in answer.err
    assert json.loads(answer.out)["method"] == "erm"


# --- folders -----------------------------------------------------------------------------------------------------


def test_a_folder_is_not_overwritten_without_force(graphshift: Any, files_of: Files, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert graphshift(*ERM, "--out", folder).status == 0
    (folder / "mine.txt").write_text("mine")
    before = files_of(folder)
    answer = graphshift(*ERM, "--seed", 8, "--out", folder)
    assert answer.status == 2
    assert answer.err.startswith(f"graphshift: {folder}: exists and is not empty; nothing was changed.")
    assert files_of(folder) == before
    assert graphshift(*ERM, "--seed", 8, "--out", folder, "--force").status == 0
    assert config(folder)["settings"]["seed"] == 8
    assert (folder / "mine.txt").read_text() == "mine"


def test_a_finished_run_is_resumed_to_its_result(graphshift: Any, files_of: Files, tmp_path: Path) -> None:
    first = graphshift(*ERM, "--out", tmp_path / "run", "--json")
    before = files_of(tmp_path)
    for again in ((*ERM, "--out", tmp_path / "run"), ("fit", "--out", tmp_path / "run")):
        answer = graphshift(*again, "--resume", "--json")
        assert answer.status == 0
        assert json.loads(answer.out) == json.loads(first.out)
        assert files_of(tmp_path) == before


@pytest.mark.parametrize("named", [True, False])
def test_resuming_with_other_settings_is_refused_naming_them(
    named: bool, graphshift: Any, files_of: Files, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    graphshift(*ERM, "--out", folder)
    before = files_of(tmp_path)
    command = ERM if named else ("fit",)
    answer = graphshift(*command, "--out", folder, "--resume", "--epochs", 9, "-o", "nodes=61")
    assert (answer.status, answer.out) == (2, "")
    assert "options.nodes is 60 there and 61 here" in answer.err
    assert "settings.epochs is 2 there and 9 here" in answer.err
    assert answer.err.count("\n") == 1
    assert files_of(tmp_path) == before


def test_oracle_is_called_what_it_is(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*ERM, "--selection", "oracle", "--out", tmp_path / "run")
    assert "by oracle" in answer.out
    assert "an upper bound, not a result to compare with" in answer.out
    assert "upper bound" not in graphshift(*ERM, "--out", tmp_path / "other").out


def test_selection_last_has_no_score_of_selection(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*ERM, "--selection", "last", "--out", tmp_path / "run")
    assert "epoch 2 by last (–)" in answer.out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["selection_score"] is None
    model, data = gs.load_model(tmp_path / "run" / "model"), gs.load("planted", nodes=60)
    assert result["val"] == model.score(data.val[0])
    refused = graphshift(*ERM, "--selection", "last", "--patience", 3, "--out", tmp_path / "other")
    assert refused.status == 2
    assert "patience is 3" in refused.err


def test_settings_of_learning_mean_nothing_to_explorers_that_do_not(graphshift: Any, tmp_path: Path) -> None:
    for option in (("--explorer-lr", 0.1), ("--inner-steps", 2), ("--credit", "difference")):
        answer = graphshift(
            "fit", "planted", "-o", "nodes=60", "--explorer", "random", *option, "--out", tmp_path / "r"
        )
        assert answer.status == 2
        assert "does not learn" in answer.err
    answer = graphshift("fit", "planted", "-o", "nodes=60", "--explorer-option", "speed=2", "--out", tmp_path / "r")
    assert answer.status == 2
    assert "has no option 'speed'" in answer.err


# --- memory ------------------------------------------------------------------------------------------------------


def test_the_estimate_stands_beside_the_peak(graphshift: Any, tmp_path: Path) -> None:
    result = json.loads(graphshift(*ERM, "--out", tmp_path / "a", "--json").out)
    assert result["estimated_mb"] > 50
    assert result["peak_rss_mb"] >= result["loading_mb"] > 50
    assert " (estimated " in graphshift(*ERM, "--out", tmp_path / "b").out
    shown = {"peak_rss_mb": 1005.2, "estimated_mb": 597.4}
    assert _memory(shown | {"loading_mb": 1005.2}) == "less than the 1005 MB of loading (estimated 597)"
    assert _memory(shown | {"loading_mb": 580.0}) == _memory(shown) == "1005 MB (estimated 597)"


def test_a_memory_limit_that_is_no_size_is_told(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*ERM, "--memory-limit", "lots", "--out", tmp_path / "run")
    assert (answer.status, answer.out) == (2, "")
    assert "--memory-limit is 'lots'; expected a size as 4GB, 512MB, 3.5GiB" in answer.err
    assert not (tmp_path / "run").exists()


def test_a_memory_limit_below_everything_is_told_before_anything_is_written(graphshift: Any, tmp_path: Path) -> None:
    for command in (ERM, ("fit", "planted", "-o", "nodes=60")):
        answer = graphshift(*command, "--memory-limit", "1MB", "--out", tmp_path / "run")
        assert (answer.status, answer.out) == (2, "")
        assert "the memory limit is 1 MB; nothing was written. No setting brings it below" in answer.err
        assert answer.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_memory_limit_leads_to_the_low_memory_mode(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphshift.fitting import fit as fitting
    from graphshift.fitting.memory import Estimate

    monkeypatch.setattr(
        fitting, "estimate", lambda _, s: Estimate({"process": (3 if s.low_memory else 6) * 10**9}, "a step")
    )
    command = ("fit", "planted", "-o", "nodes=60", "--epochs", 1, "--views", 2, "--memory-limit", "4GB", "--json")
    answer = graphshift(*command, "--out", tmp_path / "run")
    assert answer.status == 0
    assert answer.err == (
        "graphshift: note: low-memory mode was chosen: about 3.0 GB, where the usual mode needs about 6.0 GB and the "
        "memory limit is 4.0 GB.\n"
    )
    assert json.loads(answer.out)["low_memory"] is True
    assert config(tmp_path / "run")["settings"]["low_memory"] is True
    again = graphshift(*command, "--out", tmp_path / "run", "--resume")
    assert (again.status, again.err, again.out) == (0, "", answer.out)
    assert graphshift("fit", "--out", tmp_path / "run", "--resume", "--json").out == answer.out


@pytest.mark.parametrize("explorer", ["random", "gradient", "features", "mixed", "drop-edge"])
def test_a_run_whose_explorers_do_not_learn_is_resumed_by_its_folder_alone(
    explorer: str, graphshift: Any, tmp_path: Path
) -> None:  # its configuration has settings that mean nothing to them
    run = ("fit", "planted", "-o", "nodes=60", "--explorer", explorer, "--epochs", 2, "--hidden", 4)
    first = graphshift(*run, "--out", tmp_path / "run", "--json")
    assert first.status == 0
    again = graphshift("fit", "--out", tmp_path / "run", "--resume", "--json")
    assert (again.status, again.out) == (0, first.out)


def test_the_unlabelled_tests_choose_the_epoch_if_they_are_asked_for(graphshift: Any, tmp_path: Path) -> None:
    how = ("fit", "planted", "-o", "nodes=60", "--method", "erm", "--epochs", 3)
    answer = graphshift(*how, "--selection", "target", "--target", "tests", "--out", tmp_path / "run")
    assert answer.status == 0
    assert "selection 'target' looked at the unlabelled target." in answer.out
    assert json.loads((tmp_path / "run" / "config.json").read_text())["target"] == "tests"
    again = graphshift("fit", "--out", tmp_path / "run", "--resume")
    assert again.status == 0
    for more, message in (
        (["--target", "tests"], "selection 'val' does not look at it"),
        (["--selection", "target"], "needs unlabelled graphs: pass `target`, as target='tests' (--target tests)"),
        (["--selection", "target", "--target", "a.csv,b.csv"], "for a dataset of your own tables, NODES.csv,EDGES.csv"),
        (["--selection", "target", "--target", "test"], "target is 'test'; expected graphs, or 'tests'"),
    ):
        wrong = graphshift(*how, *more, "--out", tmp_path / "other")
        assert (wrong.status, wrong.err.count("\n")) == (2, 1)
        assert message in wrong.err
        assert not (tmp_path / "other").exists()

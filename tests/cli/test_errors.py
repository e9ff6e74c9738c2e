"""Whatever is wrong: one clear message on standard error, status 2, and what was there before is left."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Files = Callable[[Path], dict[str, bytes]]
TINY = ("-o", "nodes=60", "--epochs", 2, "--hidden", 4)
FIT = ("fit", "planted", *TINY)


@pytest.fixture
def refuses(graphshift: Any, files_of: Files, tmp_path: Path) -> Callable[..., str]:
    """Runs a command that must be refused, checks how, and gives its message."""

    def run(*arguments: object) -> str:
        before, here = files_of(tmp_path), files_of(Path.cwd())
        answer = graphshift(*arguments)
        assert answer.status == 2
        assert answer.out == ""
        assert answer.err.startswith("graphshift: ")
        assert answer.err.count("graphshift: ") == 1
        assert answer.err.endswith("\n")
        assert "Traceback" not in answer.err
        assert files_of(tmp_path) == before
        assert files_of(Path.cwd()) == here
        return answer.err.removeprefix("graphshift: ").rstrip("\n")

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--views", 1], "views is 1; it should be greater than or equal to 2."),
        (["--explorers", 1], "--explorers is called --views now"),
        (["--epochs", -5], "epochs is -5; it should be greater than or equal to 1."),
        (["--epochs", 0], "epochs is 0; it should be greater than or equal to 1."),
        (["--lr", "nan"], "lr is nan; it should be a finite number."),
        (["--lr", "1e39"], "lr is 1e+39; it should be less than or equal to 1000000"),
        (["--dropout", 2], "dropout is 2.0; it should be less than 1."),
        (["--method", "magic"], "method is 'magic'; expected one of "),
        (["--selection", "luck"], "selection is 'luck'; expected one of "),
        (["--backbone", "resnet"], "backbone is 'resnet'; expected one of "),
        (["--explorer", "clever"], "explorer is 'clever'; expected one of "),
        (["--device", "tpu"], "device is 'tpu'; it should be 'cpu', 'cuda' or 'mps'."),
        (["--backbone-option", "heads=2"], "backbone 'gcn': backbone_options {'heads': 2} do not fit"),
        (["--backbone", "gat", "--backbone-option", "heads=two"], "backbone 'gat': heads is 'two'; expected a whole"),
        (["--backbone-option", "heads"], "--backbone-option is 'heads'; expected NAME=VALUE"),
        (["--method", "erm", "--beta", 3], "--beta needs --method eerm"),
        (["--seed", -1], "seed is -1; it should be greater than or equal to 0."),
        (["-o", "nodes=59"], "planted: nodes is 59; expected at least 60."),
        (["-o", "nodes=many"], "dataset 'planted': nodes is 'many'; expected a whole number"),
        (["-o", "nodes=60.5"], "dataset 'planted': nodes is 60.5; expected a whole number"),
        (["-o", "colour=red"], "dataset 'planted' has no option 'colour'; expected one of nodes, seed"),
        (["-o", "name=x"], "dataset 'planted' has no option 'name'"),
        (
            ["-o", "train=[DE, FR]"],
            """--option train is [DE, FR], which is no list; put quotes around all of it: 'train=["DE""",
        ),
        (["-o", "nodes"], "--option is 'nodes'; expected NAME=VALUE, as nodes=500."),
        (["-o", "nodes=100000000000000"], "this does not fit into memory; try --low-memory"),
        (["--data-dir", "."], "--data-dir: dataset 'planted' is built in and reads no files; leave it out."),
        (["--resume", "--force"], "--resume and --force: give one"),
    ],
)
def test_fit_refuses_what_cannot_be(arguments: list[object], message: str, refuses: Any, tmp_path: Path) -> None:
    assert refuses(*FIT, *arguments, "--out", tmp_path / "run").startswith(message)
    assert not (tmp_path / "run").exists()


def test_fit_refuses_a_device_that_is_not_there(refuses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    message = refuses(*FIT, "--device", "cuda", "--out", tmp_path / "run")
    assert message == "device is 'cuda' and this machine's PyTorch has none; use 'cpu'."


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["fit", "planted", "--epoch", "3"], "--epochs"),
        (["fit", "planted", "--epochs", "three"], "--epochs"),
        (["fit", "planted", "--checkpoint-every", "-1"], "--checkpoint-every"),
        (["train"], "'train'"),
        (["score"], "MODEL"),
        (["score", "model"], "DATASET"),
        (["predict", "model", "planted"], "--out"),
        (["toy", "--nodes", "few"], "--nodes"),
        (["demo", "--seeds", "1"], "--seeds"),
        (["demo", "--nodes", "59"], "--nodes"),
        (["demo", "--epochs", "0"], "--epochs"),
        (["fit", "planted", "--environments", "3"], "an option of a dataset is given as --option environments=VALUE."),
        (["compare", "planted", "--hidden", "8"], "a setting of all arms is given as --set hidden_channels=VALUE."),
    ],
)
def test_wrong_options_are_named_in_one_line(arguments: list[str], word: str, refuses: Any) -> None:
    message = refuses(*arguments)
    assert word in message
    assert "\n" not in message


def test_fit_refuses_an_unknown_dataset(refuses: Any, tmp_path: Path) -> None:
    message = refuses("fit", "planeted", "--out", tmp_path / "run")
    assert message.startswith("dataset is 'planeted'; expected one of ")


def test_fit_without_a_dataset_says_what_is_missing(refuses: Any, tmp_path: Path) -> None:
    assert refuses("fit").startswith("DATASET is missing; name a dataset or a TOML file")
    assert refuses("fit", "--resume").startswith("DATASET is missing")
    assert refuses("fit", "--resume", "--out", tmp_path).startswith(
        f"{tmp_path / 'config.json'}: there is no such file"
    )
    (tmp_path / "config.json").write_text('{"dataset": "planted"}')
    assert "field `options` is missing" in refuses("fit", "--resume", "--out", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dataset = ", "this is not TOML"),
        ("epochs = 3", "field `dataset` is None; expected a dataset's name"),
        ("dataset = 3", "field `dataset` is 3; expected a dataset's name"),
        ('dataset = "planted"\noptions = 3', "field `options` is 3; expected a table [options]."),
        ('dataset = "planted"\nepoch = 3', "epoch is not a setting; "),
        ('dataset = "planted"\nepochs = "many"', "epochs is 'many'; it should be a valid integer"),
        ('dataset = "planted"\nepochs = -1', "epochs is -1; it should be"),
        ('dataset = "planted"\nviews = 1', "views is 1"),
        ('dataset = "planted"\n[options]\nnodes = "many"', "nodes is 'many'; expected a whole number"),
        ("\udcff\udcfe", "this is not TOML"),
        (None, "there is no such file"),
    ],
)
def test_a_toml_file_that_is_wrong_is_named(content: str | None, message: str, refuses: Any, tmp_path: Path) -> None:
    path = tmp_path / "fit.toml"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    told = refuses("fit", path, "--out", tmp_path / "run")
    assert message in told
    if "[options]" not in (content or "") or "table" in message:
        assert told.startswith(f"{path}: ")
    assert not (tmp_path / "run").exists()


def test_a_folder_as_toml_is_named(refuses: Any, tmp_path: Path) -> None:
    (tmp_path / "x.toml").mkdir()
    assert refuses("fit", tmp_path / "x.toml").startswith(f"{tmp_path / 'x.toml'}: cannot be read")


def test_out_that_is_no_folder_is_named(refuses: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert refuses(*FIT, "--out", tmp_path / "file") == f"{tmp_path / 'file'}: is a file; --out names a folder."
    below = tmp_path / "file" / "run"
    assert refuses(*FIT, "--out", below) == f"{below}: cannot be made: Not a directory."
    assert refuses("demo", "--out", tmp_path / "file", "--nodes", 60, "--epochs", 1, "--seeds", 2)
    assert refuses("toy", "--nodes", 50, "--environments", 9, "--repeats", 2, "--out", below / "toy.png")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_named(refuses: Any, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    assert refuses(*FIT, "--out", tmp_path / "closed").startswith(f"{tmp_path / 'closed'}: cannot be")
    (tmp_path / "closed").chmod(0o700)


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_and_an_earlier_run_left(
    refuses: Any, graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    answer = graphshift(*FIT, "--out", tmp_path / "run")
    assert (answer.status, answer.out) == (2, "")
    assert (
        answer.err == f"graphshift: {tmp_path / 'run' / 'config.json'}: cannot be written: No space left on device.\n"
    )
    assert not (tmp_path / "run").exists()  # it came to nothing, and left nothing
    monkeypatch.undo()


def test_a_disk_that_fills_up_while_training_is_told(
    graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is appended to at every epoch: the row is lost, the message is not."""
    real = Path.open

    def opened(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        return no_space() if mode == "a" else real(path, mode, *args, **options)

    monkeypatch.setattr(Path, "open", opened)
    answer = graphshift(*FIT, "--out", tmp_path / "run")
    assert (answer.status, answer.out) == (2, "")
    assert (
        answer.err == f"graphshift: {tmp_path / 'run' / 'history.jsonl'}: cannot be written: No space left on device.\n"
    )


def test_predictions_on_a_full_disk_leave_the_old_ones(
    refuses: Any, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.csv").write_text("old")
    monkeypatch.setattr(os, "fsync", no_space)
    message = refuses("predict", fitted, "planted", "-o", "nodes=60", "--out", tmp_path / "p.csv", "--force")
    assert message == f"{tmp_path / 'p.csv'}: cannot be written: No space left on device."


def test_a_full_disk_outside_our_writers_is_told(refuses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure is written by Matplotlib; its OSError may name no file."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", no_space)
    small = ("toy", "--nodes", 50, "--environments", 9, "--repeats", 2)
    assert refuses(*small, "--out", tmp_path / "toy.png") == "a file: No space left on device."


def test_training_that_diverges_is_explained(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift(*FIT, "--epochs", 30, "--lr", 1e6, "--backbone", "gcnii", "--out", tmp_path / "run")
    assert (answer.status, answer.out) == (2, "")
    assert "training was stopped. Usual causes: a learning rate that is too high" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("command", ["score", "predict"])
def test_what_is_no_model_is_named(command: str, refuses: Any, fitted: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "p.csv") if command == "predict" else ()
    (tmp_path / "text").write_text("I am not a model")
    (tmp_path / "folder").mkdir()
    run = (command, tmp_path / "text", "planted", *out)
    assert refuses(*run) == f"{tmp_path / 'text'}: this is a file; expected the folder of a model or of a finished run."
    for path in ("none", "folder", "text/below"):
        message = refuses(command, tmp_path / path, "planted", *out)
        assert (
            message
            == f"{tmp_path / path}: there is no model.json; expected the folder of a model or of a finished run."
        )
    (tmp_path / "folder" / "model.json").write_text("I am not JSON")
    assert "this is not JSON" in refuses(command, tmp_path / "folder", "planted", *out)
    (tmp_path / "folder" / "model.json").write_bytes((fitted / "model" / "model.json").read_bytes())
    (tmp_path / "folder" / "weights.safetensors").write_text("I am not a tensor")
    message = refuses(command, tmp_path / "folder", "planted", *out)
    assert message.startswith(f"{tmp_path / 'folder' / 'weights.safetensors'}: this is not a whole safetensors file")


@pytest.mark.parametrize("command", ["score", "predict"])
def test_data_that_do_not_fit_are_named(command: str, refuses: Any, fitted: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "p.csv") if command == "predict" else ()
    for data, message in (
        (("planeted",), "dataset is 'planeted'"),
        (("planted", "-o", "nodes=abc"), "dataset 'planted': nodes is 'abc'"),
        (("planted", "-o", "spelling=abc"), "dataset 'planted' has no option 'spelling'"),
        (
            ("planted-structure", "-o", "nodes=60"),
            "environment 'train' has 16 features and the model was trained with 24",
        ),
        (("none.toml",), "none.toml: there is no such file."),
    ):
        assert refuses(command, fitted, *data, *out).startswith(message)


def test_score_refuses_another_task(refuses: Any, fitted: Path) -> None:
    message = refuses("score", fitted, "planted", "-o", "nodes=60", "-o", "classes=2")
    assert "binary task with 2 classes" in message


def test_predictions_that_cannot_be_written_are_named(refuses: Any, fitted: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    data = (fitted, "planted", "-o", "nodes=60")
    for path, reason in ((tmp_path / "file" / "p.csv", "Not a directory"), (tmp_path / "no" / "p.csv", "No such file")):
        assert refuses("predict", *data, "--out", path).startswith(f"{path}: cannot be written: {reason}")
    assert refuses("predict", *data, "--out", tmp_path, "--force") == f"{tmp_path}: cannot be written: Is a directory."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nodes", 5], "nodes is 5; expected a whole number, at least 10."),
        (["--repeats", 1], "repeats is 1"),
        (["--environments", 0], "environments is 0"),
        (["--sigma", -1], "sigmas holds -1.0"),
        (["--beta", 0], "betas holds 0.0"),
        (["--seed", -1], "seed is -1"),
    ],
)
def test_toy_refuses_what_cannot_be(arguments: list[object], message: str, refuses: Any, tmp_path: Path) -> None:
    assert refuses("toy", *arguments, "--out", tmp_path / "toy.png").startswith(message)


def test_toy_refuses_a_picture_of_an_unknown_kind(refuses: Any, tmp_path: Path) -> None:
    small = ("toy", "--nodes", 50, "--environments", 9, "--repeats", 2)
    assert "expected a name that ends in .png" in refuses(*small, "--out", tmp_path / "toy.jpg")


def test_an_earlier_demo_is_not_overwritten(refuses: Any, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("mine")
    message = refuses("demo", "--out", tmp_path, "--seeds", 2, "--nodes", 60, "--epochs", 1)
    assert message.startswith(f"{tmp_path / 'results.json'}: exists; nothing was changed.")


def test_an_error_of_ours_is_not_hidden(graphshift: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A RuntimeError that is not about memory is a bug, and a bug shows its traceback."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("graphshift.estimators.loading.load_model", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        graphshift("score", fitted, "planted")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "graphshift: stopped.\n"),
        (MemoryError(), 2, "graphshift: this does not fit into memory"),
        (PermissionError(13, "Permission denied", "secret"), 2, "graphshift: secret: Permission denied.\n"),
    ],
)
def test_errors_from_below_end_with_one_message(
    error: BaseException, status: int, message: str, graphshift: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("graphshift.estimators.loading.load_model", broken)
    answer = graphshift("score", fitted, "planted")
    assert answer.status == status
    assert answer.err.startswith(message)
    assert answer.err.count("\n") == 1


def test_huge_numbers_are_refused_at_once(refuses: Any) -> None:
    for option, value in (("--views", 1_000_000), ("--layers", 100_000), ("--edits-per-node", 10_000_000)):
        assert "less than or equal to" in refuses(*FIT, option, value)


def test_own_tables_need_their_tables(refuses: Any) -> None:
    assert "needs nodes and edges" in refuses("fit", "own")

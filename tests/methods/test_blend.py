"""A blend: the mean of its members' calibrated predictions, through every rule, adaptation, folder and file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.tasks import Task
from graphshift.estimators import make_estimator
from graphshift.estimators.adaptation import Calibration
from graphshift.fitting.fit import FitRequest, fit_in_folder
from graphshift.fitting.memory.estimating import estimate
from graphshift.methods.blend import blended, likeliest_weights
from graphshift.training.callbacks import Callback
from graphshift.training.loop import Choice, Interrupted
from graphshift.training.run import Run
from graphshift.training.selection import adversarially_edited
from small import identical

FOREST = {"method": "forest", "trees": 8}
ERM = {"method": "erm", "epochs": 6, "hidden_channels": 8}
MEMBERS = [FOREST, ERM]
OPTIONS = {"nodes": 80, "environments": 4, "degree": 4.0}


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", **OPTIONS)


@pytest.fixture(scope="module")
def model(data: gs.ShiftDataset) -> gs.Blend:
    return gs.Blend(members=MEMBERS, seed=3).fit(data)


def alone(member: dict[str, Any], data: gs.ShiftDataset, **how: Any) -> Any:
    return make_estimator({**member, **how}, data.defaults).fit(data)


def test_blended_is_the_mean_of_probabilities_or_values() -> None:
    one, two = torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.5, 0.0]]), torch.tensor([[0.0, 3.0, 0.0], [1.0, 1.0, -2.0]])
    exps = [np.exp(t.double().numpy()) for t in (one, two)]
    by_hand = sum(e / e.sum(axis=1, keepdims=True) for e in exps) / 2
    found = blended([one, two], Task("multiclass", 3)).softmax(dim=1)
    np.testing.assert_allclose(found.numpy(), by_hand, rtol=1e-12)
    binary = blended([torch.tensor([[0.3]]), torch.tensor([[-2.0]])], Task("binary", 2)).sigmoid()
    np.testing.assert_allclose(float(binary), (1 / (1 + np.exp(-np.float32(0.3))) + 1 / (1 + np.exp(2))) / 2, rtol=1e-6)
    values = blended([torch.tensor([[1.0], [4.0]]), torch.tensor([[2.0], [0.0]])], Task("regression", 0))
    assert values.tolist() == [[1.5], [2.0]]


def test_the_likeliest_weights_of_two_are_those_of_a_search() -> None:
    """Against the likelihood on a fine grid, and where one member is always better."""
    p = torch.rand(60, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    grid = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    likelihood = (grid * p[:, :1] + (1 - grid) * p[:, 1:]).log().sum(dim=0)
    best = float(grid[int(likelihood.argmax())])
    assert 0.05 < best < 0.95
    np.testing.assert_allclose(likeliest_weights(p).tolist(), [best, 1 - best], atol=1e-4)
    assert likeliest_weights(torch.tensor([[0.9, 0.3], [0.5, 0.2]]).double())[0] > 0.999


def test_weights_by_validation_labels(data: gs.ShiftDataset, tmp_path: Path) -> None:
    """A GNN and an MLP: the likelihood on a grid of calibrated members; saved, loaded, refused."""
    members = [ERM, {**ERM, "backbone": "mlp"}]
    model = gs.Blend(members=members, weights="val").fit(data)
    (val,) = data.val
    each = np.stack([one.predict_proba(val, calibrated=True) for one in model.members_])
    right = each[:, np.arange(val.num_nodes), val.y.numpy()]
    grid = np.linspace(0, 1, 2_001)[:, None]
    best = float(grid[np.log(grid * right[0] + (1 - grid) * right[1]).sum(axis=1).argmax(), 0])
    found = model.weights_
    assert found is not None
    assert float(found[0]) == pytest.approx(best, abs=2e-3)
    assert abs(best - 0.5) > 0.01  # else equal weights would pass as well
    test = data.tests[0]
    both = np.stack([one.predict_proba(test, calibrated=True) for one in model.members_])
    np.testing.assert_allclose(model.predict_proba(test), np.einsum("m,mnc->nc", found.numpy(), both), rtol=1e-9)
    model.save(tmp_path / "model")
    assert (gs.load_model(tmp_path / "model").predict_proba(test) == model.predict_proba(test)).all()
    arrays = model.arrays()
    for bad in (torch.tensor([0.5, 0.6]).double(), torch.tensor([1.5, -0.5]).double(), torch.tensor([0.5, 0.5])):
        with pytest.raises(ValueError, match="weights are missing, or not 2"):
            model.resolved(data.defaults).take_arrays({**arrays, "weights": bad}, model.n_features_in_, model.task_)
    bare = gs.ShiftDataset("bare", data.train, (), data.tests)
    with pytest.raises(GraphshiftError, match="weights 'val' need validation graphs"):
        gs.Blend(members=members, weights="val", selection="last").fit(bare)


@pytest.mark.parametrize("adapt", [None, "norm"])
def test_it_is_the_mean_of_the_calibrated_members(adapt: str | None, data: gs.ShiftDataset, model: gs.Blend) -> None:
    """Members that are fitted alone, with the blend's seed; temperatures and floors applied by hand."""
    forest, erm = (alone(member, data, seed=3) for member in MEMBERS)
    known = forest.confidences_[""], erm.confidences_["norm" if adapt else ""]
    assert known[0].floor > 0  # trees say 0
    assert known[1].temperature != 1
    for environment in (*data.val, *data.tests):
        raw = forest.predict_proba(environment), erm.predict_proba(environment, adapt=adapt)
        powers = [(p + one.floor) ** (1 / one.temperature) for p, one in zip(raw, known, strict=True)]
        by_hand = np.mean([p / p.sum(axis=1, keepdims=True) for p in powers], axis=0)
        np.testing.assert_allclose(model.predict_proba(environment, adapt=adapt), by_hand, rtol=1e-9, atol=1e-12)
    val = [float((model.predict(e)[e.counted] == e.labels.numpy()).mean()) for e in data.val]
    assert model.best_score_ == pytest.approx(np.mean(val))


def test_without_validation_raw_probabilities_are_averaged(data: gs.ShiftDataset) -> None:
    bare = gs.ShiftDataset("bare", data.train, (), data.tests)
    model = gs.Blend(members=MEMBERS, selection="last").fit(bare)
    both = [one.predict_proba(data.tests[0]) for one in model.members_]
    np.testing.assert_allclose(model.predict_proba(data.tests[0]), np.mean(both, axis=0), rtol=1e-9)
    assert model.best_score_ is None
    with pytest.raises(GraphshiftError, match="adapt is 'prior' and the model is not calibrated"):
        model.predict(data.tests[0], adapt="prior")


def test_values_are_averaged() -> None:
    made = gs.load("planted", **OPTIONS)
    task = Task("regression", 0)
    train, val, test = (
        e.replace(task=task, y=e.x[:, 0].float() if not hasattr(e.x, "pattern") else torch.rand(e.num_nodes))
        for e in (made.train[0], made.val[0], made.tests[0])
    )
    model = gs.Blend(members=MEMBERS).fit(gs.ShiftDataset("values", [train], [val], [test]))
    both = [one.predict(test) for one in model.members_]
    np.testing.assert_allclose(model.predict(test), np.mean(both, axis=0), rtol=1e-6)
    with pytest.raises(GraphshiftError, match="no class prior"):
        model.predict(test, adapt="prior")


def test_what_a_fit_leaves(data: gs.ShiftDataset, model: gs.Blend) -> None:
    assert model.best_epoch_ == 0
    (row,) = model.history_
    assert row["epoch"] == 0
    assert row["val"] == model.best_score_
    assert model.seconds_ >= sum(one.seconds_ for one in model.members_)
    forest, erm = model.settings_["members"]
    assert forest["trees"] == 8
    assert erm["hidden_channels"] == 8
    assert erm["lr"] == make_estimator({"method": "erm"}, data.defaults).settings()["lr"]
    assert not {"seed", "selection"} & (forest.keys() | erm.keys())
    assert [one.seed for one in model.members_] == [3, 3]
    own = gs.Blend(members=[{**FOREST, "seed": 7}, ERM], seed=3).resolved()
    assert [one.seed for one in own.new_members()] == [7, 3]
    assert make_estimator(own.settings(), data.defaults).settings() == own.settings()  # nothing changes any more


def test_the_defaults_of_a_dataset_hold_for_each_member(data: gs.ShiftDataset) -> None:
    defaults = {"backbone": "sage", "by_backbone": {"sage": {"lr": 0.5}}, "by_method": {"forest": {"trees": 5}}}
    forest, erm = make_estimator({"method": "blend", "members": "forest,erm"}, defaults).settings()["members"]
    assert (forest["trees"], erm["backbone"], erm["lr"]) == (5, "sage", 0.5)


def test_every_rule_chooses_for_each_member(data: gs.ShiftDataset) -> None:
    with_also = gs.Blend(members=MEMBERS).fit(data, also=["explored"])
    for rule in ("val", "explored", "id_val"):
        model = gs.Blend(members=MEMBERS, selection=rule).fit(data)
        forest, erm = (alone(member, data, selection=rule) for member in MEMBERS)
        assert [one.best_epoch_ for one in model.members_] == [forest.best_epoch_, erm.best_epoch_]
        for e in data.tests:
            both = [one.predict_proba(e, calibrated=True) for one in (forest, erm)]
            np.testing.assert_allclose(model.predict_proba(e), np.mean(both, axis=0), rtol=1e-9, atol=1e-12)
        if rule == "explored":
            assert with_also.also_["explored"].score == model.best_score_
            before = with_also.predict_proba(data.tests[0])
            first = {name: one.clone() for name, one in with_also.arrays().items()}
            with_also.take(with_also.also_["explored"])
            np.testing.assert_array_equal(with_also.predict_proba(data.tests[0]), model.predict_proba(data.tests[0]))
            with_also.take(Choice(0, None, first))
            np.testing.assert_array_equal(with_also.predict_proba(data.tests[0]), before)


def test_edits_are_those_against_its_gnn(data: gs.ShiftDataset, model: gs.Blend) -> None:
    e = data.val[0]
    assert model.score_edited(e) == model.score(adversarially_edited(model.members_[1].backbone_, e))
    assert model.uses_edges
    plain = gs.Blend(members=[FOREST, {"method": "logistic"}]).fit(data)
    assert not plain.uses_edges
    assert plain.score_edited(e) == plain.score(e)
    made = gs.Blend(members=[{**FOREST, "columns": "neighbours"}, ERM], selection="explored")
    with pytest.warns(GraphshiftWarning, match="the blend has no score by this rule"):
        made.fit(data)
    assert made.score_edited(e) is None


def test_adaptation_reaches_who_can_take_it(data: gs.ShiftDataset, model: gs.Blend) -> None:
    e = data.tests[0]
    assert model.has_batch_norm
    assert not np.array_equal(model.predict_proba(e), model.predict_proba(e, adapt="norm"))
    plain = gs.Blend(members=[FOREST, {"method": "logistic"}]).fit(data)
    with pytest.raises(GraphshiftError, match="method blend has no batch normalisation"):
        plain.predict(e, adapt="norm")


def test_a_new_prior_is_one_of_the_mean(
    data: gs.ShiftDataset, model: gs.Blend, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = torch.tensor([0.6, 0.2, 0.1, 0.1], dtype=torch.float64)
    monkeypatch.setattr(Calibration, "prior_on", lambda *_: (new, None))
    for adapt, mode in (("prior", ""), ("norm+prior", "norm")):
        known, e = model.calibrations_[mode], data.tests[0]
        mean = model.predict_proba(e, adapt=mode or None) ** (1 / known.temperature)
        by_hand = mean / mean.sum(axis=1, keepdims=True) * (new / known.prior).numpy()
        by_hand /= by_hand.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(e, adapt=adapt), by_hand, rtol=1e-9)


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ("forest", "2 to 32 of them"),
        (["erm"] * 33, "2 to 32 of them"),
        (3, "members is 3; expected names"),
        ("forest,blend", "member 2: a blend cannot be a member of a blend"),
        ("forest,emr", "member 2: method is 'emr'.*Did you mean 'erm'"),
        ([{"trees": 3}, "erm"], "member 1 is"),
        ([FOREST, {"method": "erm", "trees": 3}], "member 2: trees needs method forest; the method is erm"),
        ([FOREST, {"method": "erm", "epochs": 0}], "member 2: epochs is 0"),
        ([FOREST, {"method": "erm", "selection": "val"}], "member 2: selection is 'val'; it is the blend's"),
        ([FOREST, {"method": "erm", "backbone": torch.nn.Linear(2, 2)}], "given by name"),
        ('[{"method":', "this is not JSON"),
    ],
)
def test_members_that_cannot_be_are_refused(members: Any, match: str, data: gs.ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match=match):
        gs.Blend(members=members).fit(data)


@pytest.mark.filterwarnings("ignore:.*the class prior was left as it is:graphshift.GraphshiftWarning")
@pytest.mark.parametrize("calibrated", [True, False])
def test_a_saved_blend_predicts_the_same_bits(calibrated: bool, data: gs.ShiftDataset, tmp_path: Path) -> None:
    bare = data if calibrated else gs.ShiftDataset("bare", data.train, (), data.tests)
    model = gs.Blend(members=[*MEMBERS, {"method": "logistic"}], selection="val" if calibrated else "last").fit(bare)
    model.save(tmp_path / "m")
    files = [*(["held_out.safetensors"] if calibrated else []), "model.json", "weights.safetensors"]
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == files
    loaded = gs.load_model(tmp_path / "m")
    assert loaded.settings_ == model.settings_
    for adapt in (None, "norm", *(["prior"] if calibrated else [])):
        for e in data.tests:
            np.testing.assert_array_equal(loaded.predict_proba(e, adapt=adapt), model.predict_proba(e, adapt=adapt))
    with pytest.raises(GraphshiftError, match="holds a model already"):
        model.save(tmp_path / "m")


def test_damage_is_told(data: gs.ShiftDataset, model: gs.Blend, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    path = tmp_path / "m" / "weights.safetensors"
    whole = load_file(path)
    for name in whole:
        for other in ({k: v for k, v in whole.items() if k != name}, whole | {name: torch.zeros(1, 2, 3)}):
            save_file({k: v.contiguous() for k, v in other.items()}, path)
            with pytest.raises(GraphshiftError, match=r"weights\.safetensors: does not fit model\.json"):
                gs.load_model(tmp_path / "m")
    for wrong in ({"member-3.x": torch.zeros(1)}, {"calibration-1": torch.tensor([-1.0, 0.0], dtype=torch.float64)}):
        save_file(whole | wrong, path)
        with pytest.raises(GraphshiftError, match=r"weights\.safetensors: does not fit model\.json"):
            gs.load_model(tmp_path / "m")
    save_file(whole, path)
    note = json.loads((tmp_path / "m" / "model.json").read_text())
    forest, erm = note["settings"]["members"]
    huge = {**erm, "hidden_channels": 65536, "num_layers": 1000}
    others = [3, {"method": "blend"}, {"method": "x"}, huge]
    for members in (3, [], [forest], *([forest, other] for other in others)):
        changed = {**note, "settings": {**note["settings"], "members": members}}
        (tmp_path / "m" / "model.json").write_text(json.dumps(changed))
        with pytest.raises(GraphshiftError, match=r"model\.json"):
            gs.load_model(tmp_path / "m")


def test_callbacks_see_the_blend_as_one(data: gs.ShiftDataset) -> None:
    seen: list[Any] = []

    class Watch(Callback):
        def on_start(self, epochs: int) -> None:
            seen.append(epochs)

        def on_epoch(self, row: Any) -> None:
            seen.append(row["epoch"])

        def on_end(self, result: Any) -> None:
            seen.append(result.best.epoch)

    gs.Blend(members=MEMBERS).fit(data, callbacks=[Watch()], progress=True)
    assert seen == [1, 0, 0]


def test_a_stopped_run_goes_on_with_its_gnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = [FOREST, {**ERM, "epochs": 8, "dropout": 0.3}]
    request = FitRequest("planted", OPTIONS, {"method": "blend", "members": long})
    whole = fit_in_folder(request, tmp_path / "whole")
    record, rows = Run.record, []

    def stopping(self: Run, row: dict[str, Any]) -> None:
        record(self, row)
        rows.append(row)
        if row["epoch"] == 5:
            raise Interrupted("stopped.")

    monkeypatch.setattr(Run, "record", stopping)
    with pytest.raises(Interrupted):
        fit_in_folder(request, tmp_path / "run", checkpoint_every=0)
    assert (tmp_path / "run" / "members" / "2" / "checkpoint.safetensors").is_file()
    rows.clear()
    monkeypatch.setattr(Run, "record", lambda self, row: (record(self, row), rows.append(row))[0])
    again = fit_in_folder(request, tmp_path / "run", resume=True)
    assert [row["epoch"] for row in rows] == [0, *range(5, 9), 0]  # the forest, the epochs that were left, the blend
    assert again["tests"] == whole["tests"]
    assert not list((tmp_path / "run").rglob("checkpoint.safetensors"))
    assert len((tmp_path / "run" / "members" / "2" / "history.jsonl").read_text().splitlines()) == 8
    both = [load_file(tmp_path / name / "model" / "weights.safetensors") for name in ("whole", "run")]
    assert identical(*both)
    shutil.rmtree(tmp_path / "run" / "model")
    fit_in_folder(request, tmp_path / "run", force=True)
    assert (tmp_path / "run" / "model" / "model.json").is_file()


def test_a_run_that_did_not_begin_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gs.Forest, "learn", lambda *_: pytest.fail("no"))
    with pytest.raises(BaseException, match="no"):
        fit_in_folder(FitRequest("planted", OPTIONS, {"method": "blend"}), tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
    assert not (tmp_path / "run" / "members").exists()


def test_memory_is_that_of_the_largest_member(data: gs.ShiftDataset) -> None:
    wide = {"method": "erm", "hidden_channels": 4096}
    found = [estimate(data, make_estimator(one, data.defaults), resident=10**8).total for one in (FOREST, wide)]
    blend = make_estimator({"method": "blend", "members": [FOREST, wide]}, data.defaults)
    assert estimate(data, blend, resident=10**8).total == max(found) > min(found)


def test_an_ensemble_of_blends(data: gs.ShiftDataset, tmp_path: Path) -> None:
    ensemble = gs.Ensemble([gs.Blend(members=MEMBERS, seed=seed).fit(data) for seed in (0, 1)])
    e = data.tests[0]
    both = [one.predict_proba(e, adapt="norm") for one in ensemble.members]
    np.testing.assert_allclose(ensemble.predict_proba(e, adapt="norm"), np.mean(both, axis=0), rtol=1e-9)
    ensemble.save(tmp_path / "e")
    np.testing.assert_array_equal(gs.load_model(tmp_path / "e").predict_proba(e), ensemble.predict_proba(e))

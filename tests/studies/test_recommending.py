"""What to use: candidates, the whole way from data to an answer, and what is said beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.estimators import make_estimator
from graphshift.studies import recommending, resolved
from graphshift.studies.budget import Size, Sizing
from graphshift.studies.candidates import EXPLORERS, candidates, is_needed, shares_graph, unused_by_all_arms
from graphshift.studies.recommending import plan_of, recommend_on
from graphshift.studies.resolved import resolve

OPTIONS = {"nodes": 60, "environments": 5, "degree": 4.0}
SIMPLE = ["Largest class", "Logistic regression", "Random forest", "Boosted trees"]
WIDER = [f"{model}, {columns}" for columns in ("ranks", "neighbours") for model in SIMPLE[1:3]]
NAMES = [
    *SIMPLE,
    *WIDER,
    "ERM, mlp",
    "ERM, gcn",
    "ERM, sage",
    "EERM random, gcn",
    "EERM gradient, gcn",
    "EERM features, gcn",
    "EERM random, sage",
    "EERM gradient, sage",
    "EERM features, sage",
]
TRIED = ("Largest class", "Logistic regression", "ERM, gcn")

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.GraphshiftWarning")


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", **OPTIONS)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Three candidates, two epochs, whatever the machine's speed; gives the seconds that were left for fits."""
    left: list[float] = []

    def sized(costs: Any, needed: Any, epochs: int, seconds: float, **how: Any) -> Sizing:
        left.append(seconds)
        dropped = {name: "too dear" for name in costs if name not in TRIED}
        return Sizing(Size(2, 0, 2, 1 if how["environments"] else 0), TRIED, dropped, 1.0)

    monkeypatch.setattr(recommending, "fitted_to", sized)
    monkeypatch.setattr(recommending, "timed", lambda plan, *_, **__: ({a.name: gs_cost() for a in plan.arms}, {}))
    return left


def gs_cost() -> Any:
    from graphshift.studies.budget import Cost

    return Cost(0.1)


def test_candidates_stand_in_the_order_of_their_simplicity(data: gs.ShiftDataset) -> None:
    assert [arm.name for arm in candidates(data)] == NAMES
    structure = candidates(gs.load("planted-structure", nodes=60))  # whose own backbone is sage
    assert [arm.name for arm in structure] == [*SIMPLE, *WIDER, "ERM, mlp", "ERM, sage", *NAMES[-3:]]
    needed = [arm.name for arm in candidates(data) if is_needed(arm, data)]
    assert needed == ["Largest class", "Logistic regression", "Random forest", "ERM, gcn"]
    arms = {arm.name: arm for arm in candidates(data)}  # what edges say is judged in every place, and not tuned
    assert not any("columns" in (arm.space or {}) for arm in arms.values())
    assert arms["Random forest, neighbours"].settings == {"method": "forest", "columns": "neighbours"}
    assert arms["Logistic regression, ranks"].settings == {"method": "logistic", "columns": "ranks"}
    words = gs.ShiftDataset("words", [e.replace(x=(e.x > 0).float()) for e in data.train], [])
    assert "Logistic regression, ranks" not in [arm.name for arm in candidates(words)]  # nothing has a scale
    assert [arm.name for arm in candidates(data, {"columns": "all"}) if "neighbours" in arm.name] == []


def test_edges_with_features_bring_a_backbone_that_takes_them(data: gs.ShiftDataset) -> None:
    def with_features(e: Environment) -> Environment:
        graph = e.data.clone()
        graph.edge_attr = torch.ones(graph.num_edges, 2)
        return Environment(e.name, graph, e.task)

    rich = gs.ShiftDataset("rich", *([with_features(e) for e in role] for role in (data.train, data.val, data.tests)))
    names = [arm.name for arm in candidates(rich)]
    assert [name for name in names if name not in NAMES] == ["ERM, gine", *(f"EERM {one}, gine" for one in EXPLORERS)]
    assert "ERM, gine" not in [arm.name for arm in candidates(rich, {"backbone": "gat"})]  # it takes them itself


def test_labels_are_spread_where_the_graph_is_shared(data: gs.ShiftDataset) -> None:
    assert not shares_graph(data)
    known = data.train[0].y
    shared = gs.ShiftDataset("one", data.train, [e.replace(known_y=known) for e in data.val])
    assert shares_graph(shared)
    names = [arm.name for arm in candidates(shared)]
    assert names[:6] == [*SIMPLE, "Label propagation", "Correct & Smooth"]


def test_settings_of_a_file_are_shared_and_options_of_its_backbone_stay_with_it(data: gs.ShiftDataset) -> None:
    common = {"backbone": "gat", "backbone_options": {"heads": 2}, "hidden_channels": 8, "beta": 2.0}
    arms = {arm.name: arm.settings for arm in candidates(data, common)}
    assert {"ERM, gat", "ERM, sage"} <= set(arms)
    assert {settings["hidden_channels"] for settings in arms.values() if "backbone" in settings} == {8}
    assert "hidden_channels" not in arms["Random forest"]
    assert arms["EERM random, gat"]["backbone_options"] == {"heads": 2}
    assert "backbone_options" not in arms["EERM random, sage"]
    assert arms["EERM random, sage"]["beta"] == 2.0
    assert "beta" not in arms["ERM, mlp"]
    resolve(plan_of("planted", OPTIONS, data, Size(1, 0, 1), common, rules=("val",)), data)


def test_options_of_a_files_explorer_stay_with_it(data: gs.ShiftDataset) -> None:
    common = {"explorer": "gradient", "explorer_options": {"candidates": 3}}
    arms = {arm.name: arm.settings for arm in candidates(data, common)}
    assert arms["EERM gradient, sage"]["explorer_options"] == {"candidates": 3}
    assert all("explorer_options" not in settings for name, settings in arms.items() if "gradient" not in name)
    assert list(arms) == NAMES


def test_a_backbone_without_edges_is_given_no_explorer_of_edges(data: gs.ShiftDataset) -> None:
    names = [arm.name for arm in candidates(data, {"backbone": "mlp"})]
    assert [name for name in names if "mlp" in name] == ["ERM, mlp", "EERM features, mlp"]


def test_settings_of_other_methods_and_explorers_are_known_as_such() -> None:
    common = {"penalty": 10.0, "explorer_lr": 0.1, "beta": 1.0, "edits_per_node": 2, "lr": 0.1, "backbone": "gcn"}
    assert unused_by_all_arms(common) == ["penalty", "explorer_lr"]


def test_data_in_memory_with_tests(data: gs.ShiftDataset, small: list[float]) -> None:
    found = gs.recommend(data, 100.0, threads=1)
    assert 0 < small[0] <= 85
    assert found.name in {one.name for one in found.answer.candidates}
    assert found.places == ["validation", "train left out"]  # where validation trained
    assert {"mean_test", "worst_test"} <= set(found.frame.columns)
    assert list(found.frame["recommended"]).count(True) == 1
    assert str(found).startswith(f"Use {found.name}: ")
    assert "Chosen by validation and 1 left-out training environment; test labels were not used." in str(found)
    assert "EERM gradient, sage" in found.dropped
    assert make_estimator(found.settings).settings()["selection"] == "val"
    model = found.estimator().fit(data)
    assert model.score(data.val[0]) > 0


def test_data_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study and the study of the blend take what was read before; else notes on tables are told three times."""
    read: list[str] = []

    def counted(name: str, options: Any, seed: Any) -> gs.ShiftDataset:
        read.append(name)
        return gs.load(name, **options)

    monkeypatch.setattr(recommending, "load_data", counted)
    monkeypatch.setattr(resolved, "load_data", counted)
    found = recommend_on("planted", OPTIONS, budget=60.0, workers=0)
    assert found.blend is not None
    assert read == ["planted"]


def test_an_unlabelled_target_is_predicted(data: gs.ShiftDataset) -> None:
    unlabelled = gs.ShiftDataset("mine", data.train, data.val, target=data.tests)
    found = gs.recommend(unlabelled, 60.0, threads=1)
    assert [one.environment for one in found.target] == ["T1", "T2", "T3"]
    assert "Predicted for T1, 60 nodes: " in str(found)
    assert "mean_test" not in found.frame.columns
    model = found.estimator().fit(unlabelled.train, unlabelled.val)
    shares = found.target[0].shares
    predicted = model.predict(unlabelled.target[0], adapt=found.adapt)
    assert shares[str(predicted[0])] == pytest.approx(float((predicted == predicted[0]).mean()))


@pytest.mark.parametrize(("metric", "said"), [("accuracy", True), ("average_precision", False)])
def test_a_class_that_has_nearly_all_nodes_is_mentioned(metric: str, said: bool) -> None:
    """With 95 % of the nodes in one class, accuracy hardly tells models apart."""
    nodes = pd.DataFrame({"id": range(120), "place": ["a", "b", "c"] * 40, "size": [*range(60)] * 2})
    nodes["label"] = ["yes" if i % 20 < 3 and i % 60 < 20 else "no" for i in range(120)]
    edges = pd.DataFrame({"source": range(117), "target": range(3, 120)})
    roles: dict[str, Any] = {"environments": "place", "train": "a", "val": "b", "tests": "c"}
    rare = gs.from_tables(nodes, edges, label="label", task="binary", metric=metric, **roles)
    found = recommend_on(rare, budget=60)
    assert ("The largest class has 95 % of the nodes, so accuracy says little" in str(found)) is said


def test_neither_tests_nor_target_nor_validation(data: gs.ShiftDataset, tmp_path: Path) -> None:
    """Held-out training nodes and left-out environments choose."""
    alone = gs.ShiftDataset("mine", [*data.train, *data.val, *data.tests])
    found = gs.recommend(alone, 60.0, threads=1, out=tmp_path / "r")
    assert found.places == ["held-out training nodes", *(f"{e.name} left out" for e in alone.train)]
    assert found.settings["selection"] == "id_val"
    assert "Chosen by held-out training nodes and 5 left-out training environments" in str(found)
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.index(f"Use <b>{found.name}") < page.index("<main>")  # the answer heads its page
    content = json.loads((tmp_path / "r" / "recommendation.json").read_text())
    assert content["answers"]["val"]["name"] == found.name
    assert content["places"] == found.places
    assert content["size"]["leave_out"] == 1


def test_the_same_call_goes_on_with_its_own_size(
    data: gs.ShiftDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = recommend_on(data, budget=60.0, folder=tmp_path / "r", workers=0, threads=1)
    ledger = (tmp_path / "r" / "results.jsonl").read_bytes()
    monkeypatch.setattr(recommending, "timed", lambda *_, **__: pytest.fail("timed again"))
    again = recommend_on(data, budget=10.0, folder=tmp_path / "r", workers=0, threads=1)
    assert again.to_json() == first.to_json()
    assert (tmp_path / "r" / "results.jsonl").read_bytes() == ledger
    gs.compare(data, ["erm"], seeds=1, trials=0, settings={"epochs": 1}, out=tmp_path / "c", threads=1)
    plan = json.loads((tmp_path / "c" / "plan.json").read_text())
    (tmp_path / "c" / "plan.json").write_text(json.dumps(plan | {"resample": False}))
    with pytest.raises(GraphshiftError, match="holds another study"):
        recommend_on(data, budget=60.0, folder=tmp_path / "c", workers=0, threads=1)


def test_nothing_that_can_be_fitted_is_an_error(data: gs.ShiftDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "timed", lambda *_, **__: ({}, {"ERM, gcn": "it failed: no memory"}))
    with pytest.raises(GraphshiftError, match="no candidate could be fitted; the first: it failed: no memory"):
        gs.recommend(data, 60.0, threads=1)


def test_edges_that_may_mislead_have_an_answer_of_their_own_on_request(data: gs.ShiftDataset) -> None:
    plain = gs.recommend(data, 60.0, threads=1)
    assert list(plain.answers) == ["val"]
    found = gs.recommend(data, 60.0, threads=1, misleading_edges=True)
    assert found.answers["adversarial_val"].name == "ERM, gcn"
    assert found.answers["adversarial_val"].settings["selection"] == "explored"
    assert "If edges may become misleading" in str(found)

"""The blend that ``recommend`` tries last: of which two, when it is chosen, and that its command can be run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.studies import Arm, Plan, Study, recommending, run_study
from graphshift.studies.blending import FAMILIES, NETWORKS, TABLES, blend_plan
from graphshift.studies.budget import Cost, Size, Sizing, fitted_to
from graphshift.studies.choosing import Candidate, chosen, ranked
from graphshift.studies.recommending import recommend_on, recommendation

TINY = {"epochs": 2, "hidden_channels": 4}
ARMS = [
    Arm("majority", {"method": "majority"}),
    Arm("logistic", {"method": "logistic"}, {"c": [0.01, 1.0]}),
    Arm("forest", {"method": "forest", "trees": 4}),
    Arm("ERM", {"method": "erm", **TINY}, {"lr": [0.001, 0.01]}),
    Arm("EERM", {"method": "eerm", "explorer": "random", "views": 2, **TINY}),
]

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.GraphshiftWarning")


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    made = gs.load("planted", nodes=60, environments=5, degree=4.0)
    return gs.ShiftDataset("mine", [*made.train, *made.tests[:1]], made.val, made.tests[1:])


@pytest.fixture(scope="module")
def study(data: gs.ShiftDataset) -> Study:
    scored: dict[str, Any] = {"adapt": ["norm"], "resample": True, "leave_out": 1, "trials": 2}
    return run_study(Plan(data, ARMS, range(2), **scored), workers=0, threads=1)  # type: ignore[arg-type]


def with_scores(study: Study, scores: dict[str, float], *, spread: float = 0.0) -> Study:
    """The study, had these been the scores everywhere; the seeds of runs differ by ``spread``."""
    records = []
    for record in study.records:
        score = scores[record.arm] + {0: -spread, 1: spread}.get(record.seed, 0.0) * (record.kind == "run")
        own = record.selections["val"]
        adapted = {}
        for way, one in own.adapted.items():
            far = score + scores.get(f"{record.arm} + {way}", -0.3 + scores[record.arm]) - scores[record.arm]
            tests = {str(record.environment): far} if record.kind == "left_out" else one.tests
            adapted[way] = replace(one, val=far, tests=tests, resampled={})
        tests = {str(record.environment): score} if record.kind == "left_out" else own.tests
        changed = replace(own, val=score, tests=tests, resampled={}, adapted=adapted)
        records.append(replace(record, selections={"val": changed}))
    return replace(study, records=records)


SCORES = {"majority": 0.3, "logistic": 0.66, "forest": 0.6, "ERM": 0.67, "EERM": 0.6}


def candidate(
    name: str, behind: float, error: float | None, rank: int, *, blend: bool = False, network: bool = True, **own: Any
) -> Candidate:
    adapt = own.get("adapt")
    return Candidate(name, name, adapt, {}, 0.7 - behind, 0.01, behind, error, rank, blend, network=network)


def test_it_joins_the_best_of_every_family_that_is_close(study: Study) -> None:
    assert {name for methods in FAMILIES for name in methods} == {*TABLES, *NETWORKS}

    def joined(scores: dict[str, float]) -> str:
        plan = blend_plan(with_scores(study, scores))
        assert isinstance(plan, Plan)
        assert len(plan.arms[0].settings["members"]) == plan.arms[0].name.count(" with ") + 1
        return plan.arms[0].name

    assert joined(SCORES | {"forest": 0.64}) == "Blend (logistic with forest with ERM)"
    without = blend_plan(with_scores(study, SCORES | {"forest": 0.64}))
    assert isinstance(without, Plan)
    assert [arm.name for arm in without.arms[1:]] == ["Blend (logistic with forest)"]
    assert joined(SCORES | {"forest": 0.64, "ERM": 0.4, "EERM": 0.3}) == "Blend (logistic with forest)"
    # One alone is close: then the best of both kinds, which err in different places.
    assert joined(SCORES | {"forest": 0.4, "ERM": 0.4, "EERM": 0.3}) == "Blend (logistic with ERM)"


def test_it_joins_the_best_of_both_kinds_with_what_tuning_chose(study: Study) -> None:
    made = with_scores(study, SCORES)
    plan = blend_plan(made)
    assert isinstance(plan, Plan)
    (arm,) = plan.arms
    assert arm.name == "Blend (logistic with ERM)"
    chosen_by_tuning = {a.arm: a.chosen or {} for a in study.summary.arms}
    assert set(chosen_by_tuning["logistic"]) == {"c"}
    assert arm.settings == {
        "method": "blend",
        "members": [
            {"method": "logistic", **chosen_by_tuning["logistic"]},
            {"method": "erm", **TINY, **chosen_by_tuning["ERM"]},
        ],
    }
    assert (plan.seeds, plan.leave_out, plan.adapt, plan.trials) == ((0, 1), 1, ("norm",), 0)
    adapted = blend_plan(with_scores(study, SCORES | {"EERM + norm": 0.9}))  # its way counts where a GNN is chosen
    assert isinstance(adapted, Plan)
    assert adapted.arms[0].name == "Blend (logistic with EERM)"


def test_without_one_of_the_kinds_there_is_none(study: Study) -> None:
    study = with_scores(study, SCORES)
    kept = [record for record in study.records if record.method not in (*NETWORKS, "forest")]
    assert blend_plan(replace(study, records=kept)) == "no GNN finished that could be blended"
    kept = [record for record in study.records if record.method not in TABLES]
    assert blend_plan(replace(study, records=kept)) == "no model without a GNN finished that could be blended"


@pytest.fixture(scope="module")
def blend(study: Study) -> Study:
    plan = blend_plan(with_scores(study, SCORES))
    assert isinstance(plan, Plan)
    return run_study(plan, workers=0, threads=1)


def answered(study: Study, blend: Study, data: gs.ShiftDataset, score: float, spread: float = 0.02) -> Any:
    name = blend.plan.arms[0].name
    made = with_scores(study, SCORES, spread=spread), with_scores(blend, {name: score}, spread=-spread)
    return recommendation(made[0], data, Size(2, 2, 2, 1), {}, {}, made[1])


def test_the_blend_is_run_in_the_same_places(study: Study, blend: Study) -> None:
    assert blend.summary.failed == []
    found = ranked(study, "val", blend)
    places = {one.name: list(one.places) for one in found}
    assert all(own == places["ERM"] for own in places.values())
    assert len(places["ERM"]) == 3
    assert {"Blend (logistic with ERM)", "Blend (logistic with ERM), + norm"} <= places.keys()


def test_a_blend_that_is_close_is_chosen(study: Study, blend: Study, data: gs.ShiftDataset) -> None:
    found = answered(study, blend, data, 0.655)
    assert found.answer.candidates[0].name == "ERM"
    assert found.name == "Blend (logistic with ERM)"
    assert "1.5 points below ERM, within one standard error and two points" in found.answer.reason
    assert found.settings == {**blend.plan.arms[0].settings, "selection": "val"}
    assert found.estimator().method == "blend"
    assert found.frame["candidate"].tolist().count(found.name) == 1
    by_name = {one.name: one for one in found.answer.candidates}
    weaker = max((by_name[name] for name in ("logistic", "ERM")), key=lambda one: one.behind)
    assert by_name[found.name].weakest == (weaker.behind, weaker.behind_error or 0.0)
    assert weaker.behind > 0
    ahead = answered(study, blend, data, 0.9)  # a member is compared with the best that is no blend
    first = ahead.answer.candidates[0]
    assert first.blend
    assert first.weakest[0] == pytest.approx(weaker.behind)
    assert found.frame.set_index("candidate").loc[found.name, "method"] == "blend"


@pytest.mark.parametrize(("score", "spread"), [(0.645, 0.02), (0.655, 0.0)])
def test_a_blend_that_is_not_close_is_not(
    study: Study, blend: Study, data: gs.ShiftDataset, score: float, spread: float
) -> None:
    """Further behind than two points; or than one standard error."""
    found = answered(study, blend, data, score, spread)
    assert not found.answer.name.startswith("Blend")
    assert found.settings["method"] in ("erm", "logistic")


def test_a_blend_without_a_score_in_every_place_is_told(study: Study, blend: Study, data: gs.ShiftDataset) -> None:
    kept = [record for record in blend.records if record.kind != "left_out"]
    found = recommendation(study, data, Size(2, 2, 2, 1), {}, {}, replace(blend, records=kept))
    assert not any(one.blend for one in found.answer.candidates)
    assert found.skipped[blend.plan.arms[0].name] == "it has no score in every place"
    assert len(found.places) == 3  # those of the others count as before


def test_the_rule() -> None:
    best = candidate("EERM", 0.0, None, 4)
    near, far = candidate("forest", 0.009, 0.02, 1), candidate("forest", 0.021, 0.03, 1)
    blend = candidate("blend", 0.019, 0.02, 5, blend=True)
    assert chosen([best, near], "accuracy") is near
    assert chosen([best, far], "accuracy") is best
    assert chosen([best, near, blend], "accuracy") is blend
    assert chosen([best, near, replace(blend, behind=0.021, behind_error=0.1)], "accuracy") is near
    assert chosen([best, near, replace(blend, behind_error=0.018)], "accuracy") is near
    assert chosen([best, near, replace(blend, behind_error=None)], "accuracy") is near
    both = [best, replace(blend, name="b + norm", adapt="norm", behind=0.005), replace(blend, behind=0.01)]
    assert chosen(both, "accuracy") is both[2]  # half a point is no reason to adapt
    assert chosen([both[0], both[1], replace(blend, behind=0.021, behind_error=0.1)], "accuracy") is both[1]
    assert chosen([replace(blend, behind=0.0, behind_error=None), near], "accuracy").blend
    # A member that is clearly worse is no noise: such a blend has to win by more than what makes up for simplicity.
    assert chosen([best, near, replace(blend, weakest=(0.12, 0.01))], "accuracy") is near
    assert chosen([best, near, replace(blend, weakest=(0.049, 0.01))], "accuracy").blend
    assert chosen([best, near, replace(blend, weakest=(0.12, 0.07))], "accuracy").blend
    first = replace(blend, behind=0.0, behind_error=None, weakest=(0.12, 0.01))
    assert chosen([first, near], "accuracy") is near
    assert chosen([first, replace(near, behind=0.03)], "accuracy") is first


def test_without_a_network_is_preferred_where_validation_cannot_tell(study: Study) -> None:
    best, blend = candidate("EERM", 0.0, None, 4), candidate("with a GNN", 0.001, 0.02, 6, blend=True)
    table = candidate("forest", 0.015, 0.02, 1, network=False)
    both = candidate("without", 0.016, 0.02, 6, blend=True, network=False)
    assert chosen([best, blend, table], "accuracy") is table
    assert chosen([best, blend, table, both], "accuracy") is both
    assert chosen([best, blend, replace(table, behind=0.021)], "accuracy") is blend
    largest = replace(candidate("largest class", 0.015, 0.02, 0, network=False), constant=True)
    assert chosen([best, blend, largest], "accuracy") is blend
    networks = {one.name: one.network for one in ranked(study)}
    assert [networks[name] for name in ("logistic", "forest", "ERM", "EERM")] == [False, False, True, True]


def test_an_adaptation_has_to_be_ahead_by_more_than_chance(study: Study) -> None:
    plain, norm = candidate("ERM", 0.019, 0.02, 3), candidate("ERM, + norm", 0.0, None, 3, adapt="norm")
    both = candidate("ERM, + norm+prior", 0.0, None, 3, adapt="norm+prior")
    assert chosen([norm, plain], "accuracy") is plain
    assert chosen([norm, replace(plain, behind_error=0.018)], "accuracy") is norm
    assert chosen([norm, replace(plain, behind=0.021, behind_error=0.1)], "accuracy") is norm
    assert chosen([both, replace(norm, behind=0.01, behind_error=0.02)], "accuracy").adapt == "norm"
    found = {one.name: one for one in ranked(study)}
    assert found["ERM, + norm"].rank == found["ERM"].rank


def test_the_budget_keeps_room_for_it() -> None:
    costs = {"forest": Cost(1.0), "logistic": Cost(0.5), "ERM": Cost(0.0, 0.01), "EERM": Cost(0.0, 0.04)}
    groups = [["forest", "logistic"], ["ERM", "EERM"]]
    without, with_room = (fitted_to(costs, list(costs), 100, 1e3, blended=one) for one in ((), groups))
    size = with_room.size
    once = sum(cost.once(100) for cost in costs.values())
    assert with_room.seconds == pytest.approx(once * (size.trials + size.seeds) - 1.5 * size.trials + 5.0 * size.seeds)
    assert with_room.seconds <= 1e3
    assert (without.size.seeds, without.size.trials) >= (size.seeds, size.trials)
    apart = fitted_to(costs, list(costs), 100, 1e3, blended=[["forest"], ["logistic"], ["ERM", "EERM"]])
    assert apart.seconds == pytest.approx(
        once * (apart.size.trials + apart.size.seeds) - 1.5 * apart.size.trials + 7.0 * apart.size.seeds
    )  # and a blend of forest and logistic regression alone
    two = fitted_to(costs, list(costs), 100, 8.3, workers=2, blended=groups)
    assert two.size.seeds == 1
    assert two.seconds == pytest.approx(once / 2 + 5.0)  # one fit of the blend, which two workers cannot share
    only = fitted_to({"forest": Cost(1.0)}, ["forest"], 100, 3.0, blended=groups)  # nothing to blend
    assert only.seconds == only.size.seeds * 1.0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = ["Largest class", "Logistic regression", "ERM, gcn"]
    monkeypatch.setattr(recommending, "fitted_to", lambda *_, **__: Sizing(Size(2, 0, 2), tried, {}, 1.0))
    monkeypatch.setattr(recommending, "timed", lambda plan, *_, **__: ({a.name: Cost(0.1) for a in plan.arms}, {}))


@pytest.mark.usefixtures("small")
def test_it_is_kept_in_its_own_folder_and_resumed(tmp_path: Path) -> None:
    options = {"nodes": 60, "environments": 4, "degree": 4.0}
    how: dict[str, Any] = {"budget": 60.0, "folder": tmp_path / "r", "workers": 0, "threads": 1}
    first = recommend_on("planted", options, **how)
    assert first.blend is not None
    name = "Blend (Logistic regression with ERM, gcn)"
    assert name in [one.name for one in first.answer.candidates]
    plan = json.loads((tmp_path / "r" / "blend" / "plan.json").read_text())
    assert [arm["name"] for arm in plan["arms"]] == [name]
    ledger = (tmp_path / "r" / "blend" / "results.jsonl").read_bytes()
    again = recommend_on("planted", options, **how)
    assert again.answer == first.answer
    assert (tmp_path / "r" / "blend" / "results.jsonl").read_bytes() == ledger
    (tmp_path / "r" / "blend" / "notes.txt").write_text("x")
    recommend_on("planted", options, **how, force=True)
    assert not (tmp_path / "r" / "blend" / "notes.txt").exists()  # the old one is gone, with the comparison it was of


@pytest.mark.usefixtures("small")
def test_its_command_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from graphshift.cli.app import app

    def typed(*words: Any) -> None:
        with pytest.raises(SystemExit) as ended:
            raise SystemExit(app([str(word) for word in words], standalone_mode=False))
        assert not ended.value.code

    monkeypatch.setattr(
        recommending, "chosen", lambda found, _: next(c for c in found if c.blend and c.adapt == "norm")
    )
    (tmp_path / "my.toml").write_text(
        'dataset = "planted"\nepochs = 2\nbackbone = "gcn"\n[options]\nnodes = 60\nenvironments = 4\n'
    )
    typed("recommend", tmp_path / "my.toml", "--workers", 1, "--out", tmp_path / "r")
    out = capsys.readouterr().out
    line = json.loads((tmp_path / "r" / "recommendation.json").read_text())["answers"]["val"]["command"]
    assert f"  {line}  (then predict with --adapt norm)" in out
    words = shlex.split(line)
    assert words[words.index("--method") + 1] == "blend"
    typed(*words[1:], "--out", tmp_path / "run")
    made = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["members"]
    assert [(one["method"], one.get("epochs")) for one in made] == [("logistic", None), ("erm", 2)]
    typed("predict", tmp_path / "run", tmp_path / "my.toml", "--adapt", "norm", "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().startswith("id,environment,role")

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
from graphshift.studies.blending import blend_plan, family_of
from graphshift.studies.budget import Cost, Size, Sizing, fitted_to
from graphshift.studies.candidates import candidates
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


def candidate(name: str, behind: float, error: float | None, rank: int, **own: Any) -> Candidate:
    adapt = own.pop("adapt", None)
    return Candidate(name, name, adapt, {}, 0.7 - behind, 0.01, behind, error, rank, **own)


def test_it_joins_the_best_of_every_family(study: Study) -> None:
    settings = {arm.name: arm.settings for arm in candidates(study.plan.data)}  # type: ignore[arg-type]
    families = {name: family_of(own) for name, own in settings.items()}
    assert families["Logistic regression"] == "linear"
    assert families["Random forest"] == families["Boosted trees"] == "trees"
    assert families["Logistic regression, ranks"] == "linear"
    assert families["Random forest, ranks"] == "trees"
    looking = [name for name in families if "," in name and not name.endswith("ranks")]
    assert {families[name] for name in looking} == {"others"}  # networks, and tables with neighbours
    assert families["Largest class"] is None

    def joined(scores: dict[str, float]) -> list[str]:
        plan = blend_plan(with_scores(study, scores))
        assert isinstance(plan, Plan)
        assert all(len(arm.settings["members"]) == arm.name.count(" with ") + 1 for arm in plan.arms)
        return [arm.name for arm in plan.arms]

    tables = "Blend (logistic with forest)"
    assert joined(SCORES) == ["Blend (logistic with forest with ERM)", tables]
    assert joined(SCORES | {"EERM": 0.7}) == ["Blend (logistic with forest with EERM)", tables]
    assert joined(SCORES | {"forest": 0.2}) == joined(SCORES)  # whoever is behind: the places decide about the blend


def test_each_has_what_tuning_chose(study: Study) -> None:
    made = with_scores(study, SCORES)
    plan = blend_plan(made)
    assert isinstance(plan, Plan)
    chosen_by_tuning = {a.arm: a.chosen or {} for a in study.summary.arms}
    assert set(chosen_by_tuning["logistic"]) == {"c"}
    assert plan.arms[0].settings == {
        "method": "blend",
        "members": [
            {"method": "logistic", **chosen_by_tuning["logistic"]},
            {"method": "forest", "trees": 4},
            {"method": "erm", **TINY, **chosen_by_tuning["ERM"]},
        ],
    }
    assert (plan.seeds, plan.leave_out, plan.adapt, plan.trials) == ((0, 1), 1, ("norm",), 0)
    adapted = blend_plan(with_scores(study, SCORES | {"EERM + norm": 0.9}))  # its way counts where a GNN is chosen
    assert isinstance(adapted, Plan)
    assert adapted.arms[0].name == "Blend (logistic with forest with EERM)"


def test_with_fewer_than_three_there_is_one_or_none(study: Study) -> None:
    study = with_scores(study, SCORES)

    def of(*methods: str) -> Plan | str:
        return blend_plan(replace(study, records=[one for one in study.records if one.method in methods]))

    both = of("forest", "erm")
    assert isinstance(both, Plan)
    assert [arm.name for arm in both.arms] == ["Blend (forest with ERM)"]
    assert of("majority", "erm") == "fewer than two models finished that could be blended"


@pytest.fixture(scope="module")
def blend(study: Study) -> Study:
    plan = blend_plan(with_scores(study, SCORES))
    assert isinstance(plan, Plan)
    return run_study(plan, workers=0, threads=1)


def answered(study: Study, blend: Study, data: gs.ShiftDataset, score: float, spread: float = 0.02) -> Any:
    wide, tables = (arm.name for arm in blend.plan.arms)
    made = (with_scores(study, SCORES, spread=spread), with_scores(blend, {wide: score, tables: 0.3}, spread=-spread))
    return recommendation(made[0], data, Size(2, 2, 2, 1), {}, {}, made[1])


def test_the_blend_is_run_in_the_same_places(study: Study, blend: Study) -> None:
    assert blend.summary.failed == []
    found = ranked(study, "val", blend)
    places = {one.name: list(one.places) for one in found}
    assert all(own == places["ERM"] for own in places.values())
    assert len(places["ERM"]) == 3
    assert {"Blend (logistic with forest with ERM)", "Blend (logistic with forest with ERM), + norm"} <= places.keys()


def test_a_blend_that_is_close_is_chosen(study: Study, blend: Study, data: gs.ShiftDataset) -> None:
    found = answered(study, blend, data, 0.655)
    assert found.answer.candidates[0].name == "ERM"
    assert found.name == "Blend (logistic with forest with ERM)"
    assert "1.5 points below ERM, within one standard error" in found.answer.reason
    assert found.settings == {**blend.plan.arms[0].settings, "selection": "val"}
    assert found.estimator().method == "blend"
    assert found.frame["candidate"].tolist().count(found.name) == 1
    own = next(one for one in found.answer.candidates if one.name == found.name)
    assert (own.members, own.edges) == (3, pytest.approx(1 / 3))
    assert found.frame.set_index("candidate").loc[found.name, "method"] == "blend"
    same = answered(study, blend, data, 0.67)
    assert "It is as good as ERM" in same.answer.reason or same.answer.candidates[0].name == same.name


def test_a_blend_that_is_not_close_is_not(study: Study, blend: Study, data: gs.ShiftDataset) -> None:
    """Four points in each of three places is more than is expected of them: 6.7 √(1/3) / √3, and the seeds' 0.6."""
    found = answered(study, blend, data, 0.62, 0.0)
    assert not found.answer.name.startswith("Blend")
    assert found.settings["method"] == "erm"


def test_a_blend_without_a_score_in_every_place_is_told(study: Study, blend: Study, data: gs.ShiftDataset) -> None:
    kept = [record for record in blend.records if record.kind != "left_out"]
    found = recommendation(study, data, Size(2, 2, 2, 1), {}, {}, replace(blend, records=kept))
    assert not any(one.blend for one in found.answer.candidates)
    assert found.skipped[blend.plan.arms[0].name] == "it has no score in every place"
    assert len(found.places) == 3  # those of the others count as before


def test_the_rule() -> None:
    best = candidate("EERM", 0.0, None, 4, edges=1.0)
    near, far = candidate("ERM", 0.009, 0.02, 1, edges=1.0), candidate("ERM", 0.021, 0.02, 1, edges=1.0)
    table = candidate("forest", 0.009, 0.1, 1)
    blend = candidate("blend", 0.019, 0.02, 5, members=3, edges=1 / 3)
    assert chosen([best, near]) is near
    assert chosen([best, far]) is best
    assert chosen([best, table]) is best  # a blend stands between the kinds
    assert chosen([best, near, table, blend]) is blend
    assert chosen([best, near, replace(blend, behind_error=0.018)]) is near
    assert chosen([best, near, replace(blend, behind_error=None)]) is near
    both = candidate("of tables", 0.001, 0.02, 6, members=2)
    assert chosen([best, both, blend]) is blend  # the widest
    assert chosen([best, both, replace(blend, behind_error=0.018)]) is both
    assert chosen([replace(blend, behind=0.0, behind_error=None), near]).blend


def test_an_adaptation_has_to_be_ahead_by_more_than_chance() -> None:
    plain, norm = candidate("ERM", 0.019, 0.02, 3), candidate("ERM, + norm", 0.0, None, 3, adapt="norm")
    both = candidate("ERM, + norm+prior", 0.0, None, 3, adapt="norm+prior")
    assert chosen([norm, plain]) is plain
    assert chosen([norm, replace(plain, behind_error=0.018)]) is norm
    assert chosen([both, replace(norm, behind=0.01, behind_error=0.02)]).adapt == "norm"
    wide = candidate("wide, + norm", 0.0, None, 5, members=3, adapt="norm")
    tables = candidate("tables", 0.01, 0.02, 6, members=2)
    assert chosen([wide, tables]) is tables
    assert chosen([wide, replace(tables, behind_error=0.009)]) is wide
    best = candidate("ERM", 0.0, None, 5)  # where the best does without, its larger error makes no adaptation close
    adapted = candidate("logistic, + prior", 0.04, 0.05, 1, adapt="prior")
    assert chosen([best, adapted, replace(adapted, members=3)]) is best


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

    monkeypatch.setattr(recommending, "chosen", lambda found: next(c for c in found if c.blend and c.adapt == "norm"))
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

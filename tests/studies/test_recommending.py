"""What to use: sizes that fit a budget, arms compared with the simplest, and test scores that are never used."""

from __future__ import annotations

from dataclasses import replace

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators import make_estimator
from graphshift.studies import Study, run_study
from graphshift.studies.recommending import (
    RULES,
    Size,
    candidates,
    chosen_size,
    criteria,
    differences,
    plan_of,
    recommend,
    seconds_an_epoch,
    significant,
    unused_by_all_arms,
)
from graphshift.studies.resolved import resolve
from graphshift.studies.statistics import Difference
from graphshift.training.selection import adversarially_edited
from tiny_studies import OPTIONS

NAMES = [
    "ERM, gcn",
    "EERM random, gcn",
    "EERM gradient, gcn",
    "EERM features, gcn",
    "ERM, sage",
    "EERM random, sage",
    "EERM gradient, sage",
    "EERM features, sage",
    "ERM, mlp",
]


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", **OPTIONS)


@pytest.fixture(scope="module")
def study(data: gs.ShiftDataset) -> Study:
    return run_study(plan_of("planted", OPTIONS, data, Size(3, 0, 2)), workers=0, threads=1)


def test_arms_are_methods_explorers_and_backbones(data: gs.ShiftDataset) -> None:
    assert [arm.name for arm in candidates(data)] == NAMES
    structure = candidates(gs.load("planted-structure", nodes=60))  # whose own backbone is sage
    assert [arm.name for arm in structure] == [*NAMES[4:8], "ERM, mlp"]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (10_000, Size(5, 12, 200)),
        (4_600, Size(5, 8, 200)),
        (3_600, Size(5, 4, 200)),
        (2_600, Size(3, 4, 200)),
        (2_100, Size(3, 2, 200)),
        (760, Size(3, 0, 200)),
        (380, Size(3, 0, 100)),
        (190, Size(3, 0, 50)),
    ],
)
def test_the_size_is_the_largest_that_fits(budget: float, expected: Size) -> None:
    seconds = {"a": 0.25, "b": 0.75}
    assert chosen_size(seconds, 200, budget, workers=1, rules=2) == expected
    assert chosen_size(seconds, 200, budget / 2, workers=2, rules=2) == expected
    runs = expected.seeds * 2 if expected.trials else expected.seeds  # untuned, both rules choose the same setting
    assert sum(seconds.values()) * expected.epochs * (expected.trials + runs) <= budget


def test_a_budget_that_nothing_fits_is_refused_with_what_would() -> None:
    with pytest.raises(GraphshiftError, match=r"the budget is 1.0 min; the smallest comparison takes about 3.1 min"):
        chosen_size({"a": 1.0}, 200, 60.0, workers=1, rules=1)


def test_an_epoch_of_every_arm_is_timed(data: gs.ShiftDataset) -> None:
    whole = resolve(plan_of("planted", OPTIONS, data, Size(1, 0, 1)), data)
    found = seconds_an_epoch(replace(whole, arms=whole.arms[:3]), data, 1)
    assert list(found) == NAMES[:3]
    assert all(seconds > 0 for seconds in found.values())


def test_runs_record_the_score_after_adversarial_edits(study: Study, data: gs.ShiftDataset) -> None:
    assert criteria(study) == ["val", "adversarial_val"]
    row = next(row for row in study.rows() if row.arm == "ERM, gcn" and row.record.seed == 1)
    settings = {n: v for n, v in row.record.settings.items() if n in gs.ERM().get_params()}
    model = gs.ERM(**settings).fit(data.train, data.val)
    (val,) = data.val
    assert row.adversarial_val == model.score(adversarially_edited(model.backbone_, val))
    assert row.val == model.score(val)
    without = [row for row in study.rows() if row.record.backbone == "mlp"]
    assert all(row.adversarial_val == row.val for row in without)


def with_scores(study: Study, scores: dict[str, list[float]], key: str) -> Study:
    """The study, had these been the scores."""
    records = []
    for record in study.records:
        own, rule = scores.get(record.arm, [0.5, 0.5, 0.5]), RULES[key]
        tests = dict.fromkeys(record.selections[rule].tests, record.seed / 10)
        changed = replace(record.selections[rule], tests=tests, **{key: own[record.seed]})
        records.append(replace(record, selections={**record.selections, rule: changed}))
    return Study(study.plan, records, study.summary)


def test_who_is_significantly_ahead_by_most_is_recommended(study: Study) -> None:
    scores = {"EERM random, gcn": [0.6, 0.61, 0.6], "EERM gradient, sage": [0.7, 0.71, 0.7], "ERM, sage": [0.2, 1, 1]}
    found = recommend(with_scores(study, scores, "val"), "val")
    assert found.arm == "EERM gradient, sage"
    assert found.settings == {
        "method": "eerm",
        "backbone": "sage",
        "explorer": "gradient",
        "epochs": 2,
        "selection": "val",
    }
    make_estimator(found.settings)
    assert found.difference is not None
    assert found.difference.mean == pytest.approx(0.2033, abs=1e-3)
    assert "better than ERM, gcn; for edges that are spurious" in found.reason


def test_the_simplest_is_recommended_unless_another_is_ahead(study: Study) -> None:
    found = recommend(with_scores(study, {"EERM random, gcn": [0.4, 0.7, 0.9]}, "val"), "val")
    assert (found.arm, found.difference) == ("ERM, gcn", None)
    assert "it is the simplest" in found.reason


def test_arms_without_a_run_in_common_with_the_simplest_are_left_out(study: Study) -> None:
    """Some runs may have failed: a mean of nothing is no difference."""
    simplest, other = "ERM, gcn", "EERM random, gcn"
    kept = [r for r in study.records if (r.arm, r.seed) not in ((simplest, 0), (other, 1), (other, 2))]
    found = differences(Study(study.plan, kept, study.summary), "val")
    assert other not in found
    assert found["ERM, sage"].seeds == 2


def test_of_many_one_leads_by_chance() -> None:
    """Holm's correction, against p values multiplied by hand."""

    def difference(p: float, mean: float = 0.1) -> Difference:
        return Difference("a", "b", "val", mean, 0.0, 0.2, 5, p=p)

    alone = {"x": difference(0.03)}
    assert significant(alone) == [alone["x"]]
    found = {"a": difference(0.03), "b": difference(0.001), "c": difference(0.02), "d": difference(0.015)}
    # 0.001 × 4 = 0.004, 0.015 × 3 = 0.045, 0.02 × 2 = 0.04, 0.03 × 1 = 0.03: all; with 0.017 × 3 only the first
    assert significant(found) == [found["b"], found["d"], found["c"], found["a"]]
    found["d"] = difference(0.017)
    assert significant(found) == [found["b"]]
    assert significant({"x": difference(0.001, mean=-0.1)}) == []
    assert significant({"x": Difference("a", "b", "val", 0.1, None, None, 1)}) == []


def test_settings_of_a_file_are_shared_and_options_of_its_backbone_stay_with_it(data: gs.ShiftDataset) -> None:
    common = {"backbone": "gat", "backbone_options": {"heads": 2}, "hidden_channels": 8, "beta": 2.0}
    arms = {arm.name: arm.settings for arm in candidates(data, common)}
    assert next(iter(arms)) == "ERM, gat"
    assert "ERM, sage" in arms
    assert {settings["hidden_channels"] for settings in arms.values()} == {8}
    assert arms["EERM random, gat"]["backbone_options"] == {"heads": 2}
    assert "backbone_options" not in arms["EERM random, sage"]
    assert arms["EERM random, sage"]["beta"] == 2.0
    assert "beta" not in arms["ERM, mlp"]
    resolve(plan_of("planted", OPTIONS, data, Size(1, 0, 1), common), data)


def test_where_edges_may_mislead_the_rule_that_expects_it_chooses(study: Study) -> None:
    """Epoch and setting by plain validation would be those of the model that leans on edges most."""
    rows = {rule: {(r.arm, r.record.seed): r for r in study.rows(rule)} for rule in ("val", "explored")}
    found = differences(study, "adversarial_val")["EERM random, gcn"]
    pairs = [
        [rows["explored"][arm, seed].adversarial_val for arm in ("EERM random, gcn", "ERM, gcn")] for seed in range(3)
    ]
    assert found.mean == pytest.approx(sum(a - b for a, b in pairs) / 3)
    assert recommend(study, "adversarial_val").settings["selection"] == "explored"
    made = with_scores(study, {"EERM gradient, gcn": [0.9, 0.91, 0.9]}, "adversarial_val")
    assert recommend(made, "adversarial_val").arm == "EERM gradient, gcn"
    assert recommend(made, "val").arm == recommend(study, "val").arm


def test_options_of_a_files_explorer_stay_with_it(data: gs.ShiftDataset) -> None:
    common = {"explorer": "gradient", "explorer_options": {"candidates": 3}}
    arms = {arm.name: arm.settings for arm in candidates(data, common)}
    assert arms["EERM gradient, sage"]["explorer_options"] == {"candidates": 3}
    assert all("explorer_options" not in settings for name, settings in arms.items() if "gradient" not in name)
    assert list(arms) == NAMES
    resolve(plan_of("planted", OPTIONS, data, Size(1, 0, 1), common), data)


def test_a_model_without_edges_cannot_win_because_edits_do_not_change_it(study: Study) -> None:
    made = {"ERM, mlp": [0.9, 0.91, 0.9]}
    assert "ERM, mlp" not in differences(with_scores(study, made, "adversarial_val"), "adversarial_val")
    assert recommend(with_scores(study, made, "adversarial_val"), "adversarial_val").arm == "ERM, gcn"
    by_val = recommend(with_scores(study, made, "val"), "val")
    assert by_val.arm == "ERM, mlp"
    assert "it does without them" in by_val.reason


def test_test_scores_are_never_used_for_selection(study: Study) -> None:
    plain = [recommend(study, name) for name in criteria(study)]
    records = []
    for i, record in enumerate(study.records):
        changed = {
            rule: replace(one, tests=dict.fromkeys(one.tests, i % 7 / 7)) for rule, one in record.selections.items()
        }
        records.append(replace(record, selections=changed))
    other = Study(study.plan, records, study.summary)
    assert [recommend(other, name) for name in criteria(other)] == plain


def test_a_backbone_without_edges_is_given_no_explorer_of_edges(data: gs.ShiftDataset) -> None:
    names = [arm.name for arm in candidates(data, {"backbone": "mlp"})]
    assert [name for name in names if "mlp" in name] == ["ERM, mlp", "EERM features, mlp"]
    resolve(plan_of("planted", OPTIONS, data, Size(1, 0, 1), {"backbone": "mlp"}), data)


def test_settings_of_other_methods_and_explorers_are_known_as_such() -> None:
    common = {"penalty": 10.0, "explorer_lr": 0.1, "beta": 1.0, "edits_per_node": 2, "lr": 0.1, "backbone": "gcn"}
    assert unused_by_all_arms(common) == ["penalty", "explorer_lr"]

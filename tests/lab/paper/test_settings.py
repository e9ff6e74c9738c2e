"""Experiments and settings against the table of the authors' settings, typed in again here by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graphshift.backbones import BACKBONES
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparams_of
from graphshift.datasets import DATASETS
from graphshift.estimators import make_estimator
from graphshift.explorers import EXPLORERS
from graphshift.lab.paper import EXPERIMENTS, ITEMS, Size, find, plan_of
from graphshift.lab.paper.reproducing import settings_of
from graphshift.lab.paper.settings import COMPARED
from graphshift.methods import EERM, METHODS
from graphshift.studies import Arm, Plan, paper_space

#: K, s, β, learning rate of the GNN, of the explorers, of ERM.
TABLE: dict[str, tuple[int, int, float, float, float, float]] = {
    "cora-gcn": (10, 1, 1, 0.005, 0.001, 0.001),
    "cora-gat": (10, 1, 1, 0.005, 0.001, 0.001),
    "cora-sgc": (5, 1, 1, 0.005, 0.005, 0.001),
    **{f"photo-{generator}": (5, 1, 1, 0.01, 0.005, 0.001) for generator in ("gcn", "sgc", "gat")},
    "twitch-gcn": (3, 5, 3, 0.01, 0.001, 0.01),
    "twitch-gat": (3, 5, 1, 0.01, 0.005, 0.01),
    "twitch-gcnii": (3, 5, 1, 0.001, 0.01, 0.01),
    **{f"facebook-{training}": (3, 5, 1, 0.01, 0.005, 0.01) for training in ("hopkins", "bingham", "washu")},
    "elliptic-sage": (3, 5, 1, 0.0002, 0.0001, 0.01),
    "elliptic-gprgnn": (3, 5, 1, 0.01, 0.005, 0.01),
    "arxiv-sage": (5, 1, 0.5, 0.005, 0.01, 0.01),
    "arxiv-gprgnn": (3, 1, 1, 0.01, 0.001, 0.01),
}
ARTIFICIAL = [name for name in TABLE if name.startswith(("cora", "photo"))]
ALL = [(name, setting) for name, experiment in EXPERIMENTS.items() for setting in experiment.settings]
APART = ["cora-gcn", "photo-gcn", "twitch-gcn", "facebook-hopkins", "pubmed"]

PAPER_SPACE = paper_space({"method": "eerm"})

#: Settings that only explorers that learn have.
LEARNING_ONLY = {name for name, about in hparams_of(EERM).items() if about.needs == "learns"}

#: Defaults that no dataset has: whatever an arm takes from them it forgot to state.
STRANGE = {
    "backbone": "sgc",
    "epochs": 7,
    "num_layers": 7,
    "hidden_channels": 7,
    "weight_decay": 0.7,
    "lr": 0.7,
    "views": 7,
    "edits_per_node": 7,
    "beta": 0.7,
    "explorer_lr": 0.7,
    "by_method": {"erm": {"lr": 0.77}},
}


def plan(name: str, setting: str, **size: int) -> Plan:
    return plan_of(EXPERIMENTS[name], setting, Size(**size))


def completed(arm: Arm, defaults: Mapping[str, Any] = STRANGE) -> Any:
    tuned = {setting: values[0] for setting, values in (arm.space or {}).items()}
    return make_estimator({**arm.settings, **tuned}, defaults)


def by_method(name: str, setting: str) -> dict[str, Any]:
    return {arm.settings["method"]: completed(arm) for arm in plan(name, setting).arms}


def differing(one: Any, other: Any) -> set[str]:
    """The settings that both have and that differ."""
    left, right = one.settings(), other.settings()
    return {name for name in left if name in right and left[name] != right[name]}


@pytest.mark.parametrize(("name", "setting"), ALL)
def test_every_study_can_be_run(name: str, setting: str) -> None:
    made = plan(name, setting)
    assert set(made.options) <= set(DATASETS[made.dataset].options)
    for arm in made.arms:
        settings = completed(arm)
        assert not settings.uses_backbone or settings.backbone in BACKBONES
        idle = {name for name in hparams_of(settings) if settings.idle(name, settings.settings())}
        assert differing(settings, completed(arm, {})) <= idle  # a dataset's own defaults change nothing
        stated = {*arm.settings, *(arm.space or {})}
        assert not stated & idle
        if settings.method == "eerm":
            assert settings.explorer in EXPLORERS
            assert {"beta", "views", "edits_per_node", "explorer_lr"} - idle <= stated


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "simple" in EXPERIMENTS[name].settings])
def test_what_needs_no_gnn_is_tuned_as_often_as_erm(name: str) -> None:
    made, methods = plan(name, "simple"), plan(name, "methods")
    assert (made.trials, made.draws, made.options) == (methods.trials, methods.draws, methods.options)
    assert made.arms[0] == methods.arms[0]  # ERM
    arms = {arm.settings["method"]: arm for arm in made.arms[1:]}
    simple = {method for method, one in METHODS.items() if not one.uses_backbone}
    assert {*arms} == simple - {"blend", "smooth-ridge"}  # the latter is younger than the committed studies
    assert set(arms["forest"].space or ()) == {"columns", "min_samples_leaf", "max_features"}
    assert plan_of(EXPERIMENTS[name], "simple", Size.quick()).arms[1:] == made.arms[1:]  # no epochs to shorten


@pytest.mark.parametrize("name", TABLE)
def test_published_settings_are_those_of_the_authors_code(name: str) -> None:
    arms = by_method(name, "published")
    erm, eerm = arms["erm"], arms["eerm"]
    found = (eerm.views, eerm.edits_per_node, eerm.beta, eerm.lr, eerm.explorer_lr, erm.lr)
    assert found == TABLE[name]
    dataset = EXPERIMENTS[name].dataset
    both = {(s.epochs, s.weight_decay, s.hidden_channels, s.dropout) for s in (erm, eerm)}
    assert both == {(500 if dataset == "arxiv" else 200, 0 if dataset in ("arxiv", "elliptic") else 1e-3, 32, 0)}
    layers = 10 if name.endswith("gcnii") else 5 if name.endswith("sage") else 2
    assert (erm.num_layers, eerm.num_layers) == (layers, layers)
    assert eerm.inner_steps == (5 if dataset == "arxiv" else 1)
    assert (eerm.explorer, eerm.credit, eerm.explorer_baseline) == ("reinforce", "shared", None)
    assert eerm.explorer_options == {"entries_per_node": None}  # the policy is not bounded
    options = {"twitch-gat": {"heads": 4}, "twitch-gcnii": {"log_softmax": True}}
    for data in ("elliptic", "arxiv"):
        options |= {f"{data}-sage": {"self_loops": False}, f"{data}-gprgnn": {"dprate": 0.5}}
    assert erm.backbone_options == eerm.backbone_options == options.get(name, {})


@pytest.mark.parametrize("name", TABLE)
def test_published_has_the_quirks_of_the_authors_code(name: str) -> None:
    experiment, made = EXPERIMENTS[name], plan(name, "published")
    eerm, erm = by_method(name, "published")["eerm"], by_method(name, "published")["erm"]
    backbone = "gcn-unnormalised" if experiment.backbone == "gcn" else experiment.backbone
    assert (erm.backbone, eerm.backbone) == (backbone, backbone)
    assert eerm.directed_edits
    assert eerm.reset_explorers == (experiment.dataset in ("cora", "photo", "arxiv"))
    grown = {"twitch-gcn": 30.0, "twitch-gat": 10.0, "twitch-gcnii": 10.0}
    assert eerm.beta_end == grown.get(name)
    assert made.options.get("one_way", False) == (experiment.dataset in ("twitch", "elliptic", "arxiv"))
    assert made.options.get("two_logits", False) == (experiment.dataset in ("twitch", "facebook100", "elliptic"))
    # Facebook-100: a step for each graph, on its own variance; Elliptic: risks averaged over graphs first.
    assert erm.batch == eerm.batch == ("each" if experiment.dataset == "facebook100" else "all")
    assert eerm.variance == ("averaged" if experiment.dataset == "elliptic" else "pooled")
    assert made.options.get("version", 2) == 2
    assert made.options.get("unknown_gender") == ("class0" if experiment.dataset == "facebook100" else None)
    assert made.options.get("vocabulary") == ("paper" if experiment.dataset == "facebook100" else None)
    assert made.options.get("variant") == ("authors" if name in ARTIFICIAL else None)
    if name in ARTIFICIAL:
        assert name == f"{made.dataset}-{made.options['generator']}"
    if experiment.dataset == "facebook100":
        assert name == f"facebook-{made.options['training']}"


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "paper" in EXPERIMENTS[name].settings])
def test_paper_follows_the_text(name: str) -> None:
    experiment, made, arms = EXPERIMENTS[name], plan(name, "paper"), by_method(name, "paper")
    assert {settings.backbone for settings in arms.values()} == {experiment.backbone}
    assert "one_way" not in made.options
    assert "unknown_gender" not in made.options
    if "eerm" not in arms:
        return
    eerm = arms["eerm"]
    assert arms["erm"].lr == eerm.lr
    assert (eerm.directed_edits, eerm.reset_explorers, eerm.beta_end) == (True, False, None)
    assert (eerm.variance, eerm.reward_variance, eerm.batch) == ("pooled", "pooled", "all")
    assert eerm.explorer_options == {"entries_per_node": None}  # the policy is not bounded
    s, beta, lr, explorer_lr = (eerm.edits_per_node, eerm.beta, eerm.lr, eerm.explorer_lr)
    if name in ARTIFICIAL:
        assert (s, beta, lr, explorer_lr) == (5, 2.0, 0.01, 0.005)
        assert made.options["variant"] == "paper"
    elif name in TABLE:
        assert (s, beta, lr, explorer_lr) == TABLE[name][1:5]
    if name in TABLE:
        assert eerm.views == TABLE[name][0]


def test_the_iid_experiment_is_erm_alone_over_five_splits() -> None:
    for backbone, layers in (("gcn", 2), ("gat", 2), ("gcnii", 10)):
        assert EXPERIMENTS[f"twitch-iid-{backbone}"].settings == ("paper",)
        made = plan(f"twitch-iid-{backbone}", "paper")
        (settings,) = map(completed, made.arms)
        assert (settings.method, settings.backbone, settings.num_layers) == ("erm", backbone, layers)
        assert (settings.lr, settings.epochs, settings.weight_decay) == (0.01, 200, 1e-3)
        assert (made.seeds, made.data_seeds) == ((0,), (0, 1, 2, 3, 4))


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "fair" in EXPERIMENTS[name].settings])
def test_fair_gives_every_arm_the_same_number_of_trials(name: str) -> None:
    made = plan(name, "fair")
    assert made.trials == EXPERIMENTS[name].trials > 0
    assert made.trials // made.repeats >= len(PAPER_SPACE["lr"])  # else ERM's few settings would not all be tried
    erm, learned, random = made.arms
    assert [arm.settings["method"] for arm in made.arms] == ["erm", "eerm", "eerm"]
    assert (learned.settings["explorer"], random.settings["explorer"]) == ("reinforce", "random")
    space = {name: set(PAPER_SPACE[name]) for name in ("lr", "beta", "edits_per_node")}
    if name == "pubmed":  # its own defaults are in its search
        space = space | {"lr": space["lr"] | {0.003}, "edits_per_node": {1, 3, 5, 10}}
    assert {n: set(values) for n, values in (erm.space or {}).items()} == {"lr": space["lr"]}
    assert {n: set(values) for n, values in (learned.space or {}).items()} == space
    assert learned.space == random.space
    assert learned.settings["explorer_lr"] == EXPERIMENTS[name].eerm["explorer_lr"]
    assert learned.settings["inner_steps"] == EXPERIMENTS[name].eerm.get("inner_steps", 1)
    for arm in made.arms:
        settings = completed(arm)
        assert settings.backbone == EXPERIMENTS[name].backbone
        if arm is not erm:
            assert (settings.directed_edits, settings.reset_explorers) == (False, False)
    assert differing(completed(learned), completed(random)) <= {"explorer", *LEARNING_ONLY}
    assert "one_way" not in made.options
    assert made.options.get("version") == (2 if name.endswith("-sgc") else None)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        *((name, setting) for name in ("cora-gcn", "pubmed") for setting in ("paper", "ablation", "explorers")),
        *((name, "kinds") for name in ("structure", "features")),
    ],
)
def test_explorers_of_the_paper_keep_their_whole_policy(name: str, setting: str) -> None:
    learned = [arm for arm in plan(name, setting).arms if completed(arm).method == "eerm"]
    learned = [arm for arm in learned if completed(arm).explorer == "reinforce"]
    assert learned
    assert all(completed(arm).explorer_options["entries_per_node"] is None for arm in learned)


@pytest.mark.parametrize("name", APART)
def test_arms_of_the_ablation_differ_in_what_their_names_say(name: str) -> None:
    made, published = plan(name, "ablation"), EXPERIMENTS[name]
    arms = {arm.name: completed(arm) for arm in made.arms}
    rates = {"cora-gcn": ("0.005", "0.001"), "photo-gcn": ("0.01", "0.001"), "pubmed": ("0.003",)}.get(name, ("0.01",))
    kinds = [*(f"ERM, lr {rate}" for rate in rates), "EERM, learned", "EERM, random"]
    assert list(arms) == [f"{kind}, {backbone}" for backbone in ("gcn-unnormalised", "gcn") for kind in kinds]
    for kind in kinds:
        assert differing(arms[f"{kind}, gcn-unnormalised"], arms[f"{kind}, gcn"]) == {"backbone"}
    for backbone in ("gcn-unnormalised", "gcn"):
        own = {kind: arms[f"{kind}, {backbone}"] for kind in kinds}
        assert all(settings.backbone == backbone for settings in own.values())
        for rate in rates:
            assert own[f"ERM, lr {rate}"].lr == float(rate)
            assert differing(own[f"ERM, lr {rate}"], own[kinds[0]]) <= {"lr"}
        learned, random = own["EERM, learned"], own["EERM, random"]
        assert (learned.explorer, random.explorer) == ("reinforce", "random")
        assert differing(learned, random) <= {"explorer", "explorer_options", *LEARNING_ONLY}
        assert learned.lr == float(rates[0])
        assert not learned.reset_explorers
        assert learned.directed_edits == (name != "pubmed")
        assert learned.beta_end == (30.0 if name == "twitch-gcn" else None)
    if name != "pubmed":
        assert made.options == plan(published.name, "published").options


@pytest.mark.parametrize("name", APART)
def test_explorers_differ_in_what_their_names_say(name: str) -> None:
    arms = {arm.name: completed(arm) for arm in plan(name, "explorers").arms}
    assert list(arms) == [
        "ERM, gcn",
        "EERM, random, gcn",
        "EERM, learned, gcn",
        "EERM, learning fast, gcn",
        "EERM, gradient, gcn",
    ]
    erm, random, learned, fast, gradient = arms.values()
    assert differing(erm, learned) == {"method"}
    assert learned.explorer_options == {"entries_per_node": None}
    assert (random.explorer, learned.explorer, gradient.explorer) == ("random", "reinforce", "gradient")
    for other in (random, gradient):
        assert differing(learned, other) - {*LEARNING_ONLY} == {"explorer", "explorer_options"}
    assert differing(learned, fast) == {"explorer_lr", "credit", "explorer_baseline", "explorer_options"}
    assert (fast.explorer_lr, fast.credit, fast.explorer_baseline) == (1.0, "difference", 0.9)
    assert fast.explorer_options == {"normalise": True, "entries_per_node": None}
    for settings in arms.values():
        assert settings.backbone == "gcn"
        assert settings is erm or (settings.directed_edits, settings.reset_explorers) == (False, False)
    assert "one_way" not in plan(name, "explorers").options


def test_a_size_overrides_what_the_experiment_says() -> None:
    full = plan("cora-gcn", "fair")
    assert (full.seeds, full.data_seeds, full.trials) == ((0, 1), tuple(range(10)), 24)
    small = plan("cora-gcn", "fair", seeds=3, data_seeds=4, trials=5, epochs=6)
    assert (small.seeds, small.data_seeds, small.trials) == ((0, 1, 2), (0, 1, 2, 3), 5)
    assert {arm.settings["epochs"] for arm in small.arms} == {6}
    assert [arm.name for arm in small.arms] == [arm.name for arm in full.arms]
    assert [arm.space for arm in small.arms] == [arm.space for arm in full.arms]
    untuned = plan("twitch-gcn", "published", data_seeds=4, trials=5)
    assert (untuned.data_seeds, untuned.trials) == (None, 0)  # nothing is made from a seed, nothing is tuned
    assert len(untuned.seeds) == 5
    quick = plan_of(EXPERIMENTS["photo-gcn"], "fair", Size.quick())
    assert (len(quick.seeds), len(quick.data_seeds or ()), quick.trials) == (2, 2, 2)


def test_the_folder_of_the_data_is_an_option_of_the_dataset(tmp_path: Path) -> None:
    made = plan_of(EXPERIMENTS["twitch-gcn"], "published", Size(), tmp_path)
    assert made.options == {"one_way": True, "two_logits": True, "data_dir": str(tmp_path)}


@pytest.mark.parametrize(
    ("name", "setting"), [("cora-gcn", "nonsense"), ("cora-sgc", "ablation"), ("pubmed", "published")]
)
def test_a_setting_that_an_experiment_lacks_is_refused(name: str, setting: str) -> None:
    allowed = ", ".join(EXPERIMENTS[name].settings)
    with pytest.raises(GraphshiftError) as caught:
        plan(name, setting)
    assert str(caught.value) == f"{name}: setting is {setting!r}; expected one of {allowed}."


def test_items_show_the_studies_that_there_are() -> None:
    fig2 = find("fig2")
    everything = [(e.name, setting) for e, setting in settings_of(fig2, None)]
    generators = ("cora-gcn", "cora-sgc", "cora-gat")
    assert everything == [
        *((name, setting) for setting in ("published", "paper", "fair") for name in generators),
        ("cora-gcn", "ablation"),
    ]
    assert [(e.name, s) for e, s in settings_of(fig2, ["fair"])] == [(name, "fair") for name in generators]
    for item in ITEMS.values():
        assert all(name in EXPERIMENTS for name in item.experiments)
        assert all(name in DATASETS for name, _ in item.data)
        assert bool(settings_of(item, None)) == bool(item.experiments)
    shown = {(e.name, setting) for item in ITEMS.values() for e, setting in settings_of(item, None)}
    assert shown == set(ALL)  # and no study is never shown


def test_an_unknown_item_is_refused() -> None:
    with pytest.raises(GraphshiftError, match="'fig1'") as caught:
        find("fig1")
    for name in (*ITEMS, *EXPERIMENTS):
        assert f" {name}" in str(caught.value)


def test_an_experiment_is_an_item_of_its_own() -> None:
    item = find("cora-sgc")
    assert (item.name, item.experiments) == ("cora-sgc", ("cora-sgc",))
    assert [setting for _, setting in settings_of(item, None)] == ["published", "paper", "fair", "methods", "simple"]
    assert not set(ITEMS) & set(EXPERIMENTS)  # a name is one or the other


@pytest.mark.parametrize("name", [e for e in EXPERIMENTS if "methods" in EXPERIMENTS[e].settings])
def test_the_table_of_methods_has_all_of_them_with_the_same_budget(name: str) -> None:
    made = plan(name, "methods")
    methods = {arm.settings["method"] for arm in made.arms}
    assert methods == set(COMPARED) <= {method for method, one in METHODS.items() if one.uses_backbone}
    assert {arm.settings["explorer"] for arm in made.arms if arm.settings["method"] == "eerm"} == {
        "random",
        "gradient",
        "features",
    }
    assert all(arm.space for arm in made.arms)
    assert (made.trials, made.repeats) == (EXPERIMENTS[name].method_trials, 1)
    assert made.in_domain
    assert made.adapt == ("norm", "prior", "norm+prior")
    assert made.selections == ("val",)
    assert {arm.settings.get("views", 3) for arm in made.arms} == {3}
    backbones = {arm.settings["backbone"] for arm in made.arms}
    labels_from_a_gcn = made.dataset in ("cora", "photo")
    assert backbones == ({"gcn"} if labels_from_a_gcn else {"gcn", "sage", "mlp"})
    assert made.ensemble == (5 if made.dataset in ("twitch", "pubmed-temporal") else 1)
    assert len(made.draws) >= 5


def test_data_that_are_made_need_no_folder_of_files(tmp_path: Path) -> None:
    assert plan_of(EXPERIMENTS["twitch-gcn"], "methods", Size(), tmp_path).options["data_dir"] == str(tmp_path)
    assert "data_dir" not in plan_of(EXPERIMENTS["structure"], "methods", Size(), tmp_path).options


@pytest.mark.parametrize("name", [e for e in EXPERIMENTS if "selections" in EXPERIMENTS[e].settings])
def test_rules_are_compared_with_all_else_equal(name: str) -> None:
    made = plan(name, "selections")
    assert made.selections == ("val", "explored", "id_val", "oracle")
    explorers = [arm.settings.get("explorer") for arm in made.arms]
    assert explorers == [None, "random", "gradient"]
    assert all(arm.space for arm in made.arms)
    assert made.trials == EXPERIMENTS[name].method_trials
    assert len(made.draws) >= 5


def test_a_wide_search_tunes_the_backbone_too_alike_for_every_arm() -> None:
    made, narrow = plan("twitch-gcn", "wide"), {arm.name: arm for arm in plan("twitch-gcn", "methods").arms}
    assert {arm.settings["method"] for arm in made.arms} == set(COMPARED)
    assert {arm.settings["backbone"] for arm in made.arms} == {"gcn", "sage"}
    assert (made.trials, made.repeats, made.ensemble, made.in_domain) == (24, 1, 5, False)
    wider = {"hidden_channels", "dropout", "weight_decay"}
    for arm in made.arms:
        space, before = dict(arm.space or {}), dict(narrow[arm.name].space or {})
        assert set(space) - set(before) == wider
        assert {name: space[name] for name in before} == before
        own = {name: value for name, value in narrow[arm.name].settings.items() if name not in wider}
        assert arm.settings == own | {"patience": 50}
        assert {name: space[name] for name in wider} == {name: (made.arms[0].space or {})[name] for name in wider}

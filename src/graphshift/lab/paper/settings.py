"""The settings that an experiment is run in: as published, as the paper says, fairly, and taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.datasets import DATASETS
from graphshift.estimators.base import METHODS
from graphshift.estimators.settings import has_setting
from graphshift.lab.paper.experiments import Experiment
from graphshift.studies import Arm, Plan, crossed_arms, paper_space

#: Every setting and what it stands for.
SETTINGS: dict[str, str] = {
    "published": "the authors' code: its settings and its quirks, each a named option",
    "paper": "Algorithm 1 and the paper's text; ERM has EERM's learning rate",
    "fair": "strong backbones, undirected edits, the same number of tuning trials for every arm",
    "ablation": "on the published data: normalised or not, which learning rate, explorers learned, random or none",
    "methods": "every method and explorer, tuned alike; with the unlabelled tests in use as well; in-domain limits",
    "simple": "the methods without a GNN, and ERM; tuned alike",
    "wide": "as methods, with the backbone's width, dropout and weight decay tuned as well; no in-domain limits",
    "selections": "ERM and EERM by each rule that chooses epoch and setting, tuned alike",
    "explorers": "random, the paper's, ones that learn faster, ones that follow the gradient; all else equal",
    "rewards": "explorers rewarded for the variance of all risks, or of their own graph's; all else equal",
    "source": "ERM on the source alone, tuned",
    "target": "with an unlabelled target: self-training, and ERM, on the joint word space; nothing tuned",
    "smooth": "with an unlabelled target, without a GNN: smooth ridge on the papers' own words; nothing tuned",
    "graphs": "graphs with labels: every explorer that there is, and ERM; learning rate, readout and beta tuned alike",
    "kinds": "every explorer that there is, and ERM; all else equal, nothing tuned",
}

#: The paper's policy remembers every column. The default, 64 of each node, is an approximation.
_EXACT = {"explorer_options": {"entries_per_node": None}}

#: The authors' GCN neither normalises nor adds self-loops.
_UNNORMALISED = {"gcn": "gcn-unnormalised"}


@dataclass(frozen=True)
class Size:
    """How much to run; None leaves it to the experiment."""

    seeds: int | None = None
    data_seeds: int | None = None
    trials: int | None = None
    epochs: int | None = None

    @staticmethod
    def quick() -> Size:
        """Enough to see that everything runs; ignore its numbers."""
        return Size(seeds=2, data_seeds=2, trials=2, epochs=10)


def plan_of(experiment: Experiment, setting: str, size: Size, data_dir: Path | None = None) -> Plan:
    """The plan of an experiment in a setting.

    Args:
        experiment: of :data:`~graphshift.lab.paper.experiments.EXPERIMENTS`.
        setting: of :data:`SETTINGS`.
        size: how much of it to run.
        data_dir: where the raw files are; of no use to data that are made.
    """
    if setting not in experiment.settings:
        raise GraphshiftError(
            f"{experiment.name}: setting is {setting!r}; expected one of {', '.join(experiment.settings)}."
        )
    arms, options, trials = _MAKERS[setting](experiment)
    arms = [searching(arm, experiment.searched) for arm in arms]
    more = dict(_MORE.get(setting, {}))
    if setting in ("methods", "wide"):
        more["ensemble"] = experiment.ensemble
    if size.epochs is not None:
        arms = [shortened(arm, size.epochs) for arm in arms]
    trials = trials if size.trials is None or trials == 0 else size.trials
    data_seeds = experiment.data_seeds
    if data_seeds is not None and size.data_seeds is not None:
        data_seeds = size.data_seeds
    reads_files = "data_dir" in DATASETS[experiment.dataset].options
    return Plan(
        experiment.dataset,
        arms,
        range(size.seeds or _seeds(experiment, setting)),
        {**options, **({"data_dir": str(data_dir)} if data_dir and reads_files else {})},
        data_seeds=None if data_seeds is None else range(data_seeds),
        trials=trials,
        repeats=experiment.repeats if trials and setting == "fair" else 1,
        **more,
    )


def _seeds(experiment: Experiment, setting: str) -> int:
    """Where many arms are compared, one seed for each draw of the data: draws differ more than seeds."""
    many = setting in ("methods", "simple", "selections", "kinds", "graphs") and experiment.data_seeds is not None
    return 1 if many else experiment.seeds


_Made = tuple[list[Arm], dict[str, Any], int]


def _published(experiment: Experiment) -> _Made:
    backbone = _UNNORMALISED.get(experiment.backbone, experiment.backbone)
    both = {**experiment.eerm, **experiment.code_both}
    own = {"erm": {**both, **experiment.erm}, "eerm": {**both, **_EXACT, **_code(experiment)}}
    arms = [_arm(experiment, method, backbone, own[method], experiment.backbone) for method in experiment.methods]
    return arms, {**experiment.options, **experiment.code_options}, 0


def _code(experiment: Experiment) -> dict[str, Any]:
    """What the authors' code does to EERM."""
    grown = {"beta_end": experiment.beta_grows * experiment.eerm["beta"]} if experiment.beta_grows != 1 else {}
    return {**experiment.code, **grown}


def _paper(experiment: Experiment) -> _Made:
    settings = {**experiment.eerm, **experiment.text}
    own = {"erm": settings, "eerm": {"reward_variance": "pooled", **settings, **_EXACT, "directed_edits": True}}
    arms = [_arm(experiment, method, experiment.backbone, own[method]) for method in experiment.methods]
    return arms, {**experiment.options, **experiment.text_options}, 0


def _fair(experiment: Experiment) -> _Made:
    """Tuned: the learning rate for all, and for EERM β and s, whatever its explorers.

    The explorers' learning rate and T stay the paper's. Within its space they change nothing that could be measured
    (see ``exploring``), and would make eight settings of each that matters.
    """
    fixed = {n: v for n, v in experiment.eerm.items() if n not in ("lr", "beta", "edits_per_node")}
    common = {"inner_steps": 1, **experiment.common, **fixed}
    arms = crossed_arms(["erm", "eerm"], [experiment.backbone], ["reinforce", "random"], common=common)
    return arms, dict(experiment.options), experiment.trials


def _methods(experiment: Experiment) -> _Made:
    """As fair, with all methods and explorers on the experiment's backbone, and the main ones on others.

    Three views everywhere: ten, as on Cora in the paper, cost three times as much.
    """
    common = {**experiment.common, "views": 3}
    arms = crossed_arms(COMPARED, [experiment.backbone], METHOD_EXPLORERS, common=common)
    if experiment.other_backbone is not None:
        arms += crossed_arms(["erm", "eerm"], [experiment.other_backbone], ["random", "gradient"], common=common)
        arms += crossed_arms(["erm"], ["mlp"], [], common=experiment.common)
    return arms, {**experiment.options, **experiment.tuned_options}, experiment.method_trials


def _simple(experiment: Experiment) -> _Made:
    """What needs no GNN beside ERM on the experiment's backbone, with as many trials as in ``methods``."""
    arms = crossed_arms(["erm"], [experiment.backbone], [], common=experiment.common)
    for method in _WITHOUT_GNN:
        arms.append(Arm(METHODS[method].label, {"method": method}, paper_space({"method": method})))
    return arms, {**experiment.options, **experiment.tuned_options}, experiment.method_trials


def _wide(experiment: Experiment) -> _Made:
    """The backbone is tuned with the method, for every arm alike; 50 epochs without a better score end a training.

    EERM with masked features is left out: of all arms of ``methods`` it was the lowest on validation.
    """
    common = {**experiment.common, "views": 3, "patience": 50}
    for name in _WIDER:
        common.pop(name, None)
    space = {method: {**paper_space({"method": method, "inner_steps": 1}), **_WIDER} for method in COMPARED}
    arms = crossed_arms(COMPARED, [experiment.backbone], ["random", "gradient"], common=common, space=space)
    if experiment.other_backbone is not None:
        arms += crossed_arms(["erm", "eerm"], [experiment.other_backbone], ["gradient"], common=common, space=space)
    return arms, {**experiment.options, **experiment.tuned_options}, experiment.wide_trials


def _selections(experiment: Experiment) -> _Made:
    """ERM, and EERM with random and with guided edits, as in the table of all methods."""
    common = {**experiment.common, "views": 3}
    arms = crossed_arms(["erm", "eerm"], [experiment.backbone], ["random", "gradient"], common=common)
    return arms, {**experiment.options, **experiment.tuned_options}, experiment.method_trials


def _ablation(experiment: Experiment) -> _Made:
    """With and without normalisation; ERM at both learning rates; explorers learned or random.

    Explorers that forget at every epoch, as in the authors' code, draw uniformly when the GNN steps: they are random.
    """
    eerm = experiment.eerm
    code = {n: v for n, v in _code(experiment).items() if n != "reset_explorers"}
    arms = []
    for own in dict.fromkeys((_UNNORMALISED.get(experiment.backbone, experiment.backbone), experiment.backbone)):
        rates = dict.fromkeys((eerm["lr"], experiment.erm.get("lr", eerm["lr"])))  # EERM's first: the baseline
        arms += [_arm(experiment, "erm", own, {**eerm, "lr": lr}, f"lr {lr:g}, {own}") for lr in rates]
        for label, change in _EXPLORERS.items():
            arms.append(_arm(experiment, "eerm", own, {**eerm, **code, **change}, f"{label}, {own}"))
    return arms, {**experiment.options, **experiment.code_options}, 0


def _explorers(experiment: Experiment) -> _Made:
    """The explorers side by side, on strong backbones, with undirected edits and EERM's own settings for ERM too."""
    arms = [_arm(experiment, "erm", experiment.backbone, experiment.eerm)]
    for label, change in _LEARNERS.items():
        settings = {**experiment.eerm, **change}
        arms.append(_arm(experiment, "eerm", experiment.backbone, settings, f"{label}, {experiment.backbone}"))
    return arms, {**experiment.options, **experiment.tuned_options}, 0


def _rewards(experiment: Experiment) -> _Made:
    """Explorers that learn fast, with both rewards; at the paper's rates they do not learn, whatever the reward.

    The policy is the default one, since it is the default of the reward that this decides.
    The GNN minimises the same objective (Eq. 3, pooled); only what an explorer is rewarded for differs.
    """
    common = {"method": "eerm", "backbone": experiment.backbone, **experiment.common, **experiment.eerm}
    first = "EERM, learning fast, reward of all graphs"
    arms = []
    for name, reward in ((first, "pooled"), ("EERM, learning fast, of its own graph", "within")):
        settings = {**common, **_LEARNERS["learning fast"], "explorer_options": {"normalise": True}}
        settings["reward_variance"] = reward
        arms.append(Arm(name, settings, baseline=None if name == first else first))
    return arms, {**experiment.options, **experiment.tuned_options}, 0


def _kinds(experiment: Experiment) -> _Made:
    """ERM, and EERM with every explorer, with the experiment's own settings; ``reinforce`` keeps its whole policy."""
    common = {**experiment.common, **experiment.eerm}
    arms = crossed_arms(["erm", "eerm"], [experiment.backbone], _ALL_EXPLORERS, common=common)
    arms = [
        replace(a, settings={**a.settings, **_EXACT}) if a.settings.get("explorer") == "reinforce" else a for a in arms
    ]
    return arms, {**experiment.options, **experiment.tuned_options}, 0


def _source(experiment: Experiment) -> _Made:
    """What a source says without a target: the learning rate is tuned on held-out source nodes."""
    arms = crossed_arms(["erm"], [experiment.backbone], [], common=experiment.common)
    return arms, dict(experiment.options), experiment.method_trials


#: Of self-training: 128 hidden channels and dropout 0.5, as usual on these data; the hops and the share, see the docs.
_SELF_TRAINING: dict[str, Any] = {
    "method": "self-training",
    "target": "tests",
    "backbone": "a2gnn",
    "backbone_options": {"source_hops": 5, "hops": 10},
    "hidden_channels": 128,
    "num_layers": 2,
    "dropout": 0.5,
    "epochs": 100,
    "lr": 0.01,
    "weight_decay": 1e-3,
    "rounds": 2,
    "share": 0.6,
}


def _target(experiment: Experiment) -> _Made:
    """Nothing is tuned: without a validation graph from the target, a search would choose by the source."""
    plain = {"method": "erm", "backbone": experiment.backbone, **experiment.common, "lr": 0.01, "epochs": 100}
    arms = [Arm(f"ERM, {experiment.backbone}", plain), Arm("Self-training, a2gnn", _SELF_TRAINING)]
    return arms, {**experiment.options, "words": 256}, 0


def _smooth(experiment: Experiment) -> _Made:
    """Width and steps by reverse validation over the six tasks, see the docs; the rest as it comes."""
    settings = {"method": "smooth-ridge", "target": "tests", "width": 64, "steps": 20}
    return [Arm("Smooth ridge", settings)], dict(experiment.options), 0


def _graphs(experiment: Experiment) -> _Made:
    """ERM, and EERM with every explorer; the readout is tuned with the method, the edits are as few as can be.

    One edit a node is about as many as a small graph has edges. So a further arm flips one pair a graph.
    """
    common = {**experiment.common, "edits_per_node": 1, "views": 3}
    own = {name: paper_space({"method": "eerm"})[name] for name in ("beta", "explorer_lr")}
    space: dict[str, dict[str, Any]] = {"erm": _GRAPH_SPACE, "eerm": {**_GRAPH_SPACE, **own}}
    arms = crossed_arms(["erm", "eerm"], [experiment.backbone], _ALL_EXPLORERS, common=common, space=space)
    few = next(arm for arm in arms if arm.settings.get("explorer") == "gradient")
    settings = {**few.settings, "explorer_options": {"budget": _MOTIF_GRAPHS}}
    arms.append(Arm(few.name.replace(",", ", one a graph,"), settings, few.space, few.baseline))
    return arms, {**experiment.options, "graphs": _MOTIF_GRAPHS}, experiment.method_trials


#: Of graphs with labels: what is tuned for ERM and EERM alike, and how many graphs an environment has.
_GRAPH_SPACE: dict[str, tuple[Any, ...]] = {"lr": (0.001, 0.003, 0.01, 0.03), "readout": ("mean", "sum", "max")}
_MOTIF_GRAPHS = 200

#: In the table of all methods. ``reinforce`` is in ``fair``, where it does what ``random`` does.
COMPARED = ("erm", "eerm", "irm", "vrex", "groupdro", "mixup", "coral", "dann", "srgnn")
#: Beside it: what every one of them has to beat.
_WITHOUT_GNN = ("majority", "logistic", "forest", "boosting", "label-propagation", "correct-smooth")
METHOD_EXPLORERS = ("random", "gradient", "features")
#: All explorers, in the order of the committed tables.
_ALL_EXPLORERS = ("reinforce", "random", "gradient", "features", "mixed", "drop-edge", "add-edge")

#: What is tuned beside a method's own settings in a wide search.
_WIDER: dict[str, tuple[Any, ...]] = {
    "hidden_channels": (32, 64, 128),
    "dropout": (0.0, 0.2, 0.5, 0.8),
    "weight_decay": (0.0, 1e-3, 1e-2, 1e-1),
}

#: What a setting asks of a plan beside its arms.
_MORE: dict[str, dict[str, Any]] = {
    "methods": {"in_domain": True, "adapt": ("norm", "prior", "norm+prior")},
    "wide": {"adapt": ("norm", "prior", "norm+prior")},
    "target": {"adapt": ("prior",)},
    "selections": {"selections": ("val", "explored", "id_val", "oracle")},
}

#: See ``exploring``: what raises the variance is a high learning rate, credit of one's own and a baseline.
_LEARNERS: dict[str, Mapping[str, Any]] = {
    "random": {"explorer": "random"},
    "learned": _EXACT,
    "learning fast": {
        "explorer_lr": 1.0,
        "credit": "difference",
        "explorer_baseline": 0.9,
        "explorer_options": {"normalise": True, "entries_per_node": None},
    },
    "gradient": {"explorer": "gradient"},
}

_EXPLORERS: dict[str, Mapping[str, Any]] = {"learned": _EXACT, "random": {"explorer": "random"}}

_MAKERS: dict[str, Callable[[Experiment], _Made]] = {
    "published": _published,
    "paper": _paper,
    "fair": _fair,
    "ablation": _ablation,
    "methods": _methods,
    "simple": _simple,
    "explorers": _explorers,
    "rewards": _rewards,
    "selections": _selections,
    "kinds": _kinds,
    "graphs": _graphs,
    "wide": _wide,
    "source": _source,
    "target": _target,
    "smooth": _smooth,
}


def searching(arm: Arm, more: Mapping[str, tuple[Any, ...]]) -> Arm:
    """The arm with further values in its search, where it tunes those settings."""
    own = {name: tuple(values) for name, values in (arm.space or {}).items()}
    wider = own | {name: tuple(sorted({*own[name], *values})) for name, values in more.items() if name in own}
    return arm if wider == own else Arm(arm.name, arm.settings, wider, arm.baseline)


def shortened(arm: Arm, epochs: int) -> Arm:
    """The arm with so many epochs, if it has any."""
    if not has_setting("epochs", arm.settings):
        return arm
    return Arm(arm.name, {**arm.settings, "epochs": epochs}, arm.space, arm.baseline)


def _arm(
    experiment: Experiment, method: str, backbone: str, settings: Mapping[str, Any], label: str | None = None
) -> Arm:
    """An arm without the settings that it does not use: ERM has no β, random explorers no learning rate."""
    chosen = {**experiment.common, **settings}
    kept = {name: value for name, value in chosen.items() if has_setting(name, {**chosen, "method": method})}
    return Arm(f"{method.upper()}, {label or backbone}", {"method": method, "backbone": backbone, **kept})

"""The leaderboard's cells: one method in one experiment, a study of its own, so that a method can be added alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json, write_json
from graphshift.datasets import DATASETS
from graphshift.estimators.base import METHODS
from graphshift.lab.paper.experiments import Experiment
from graphshift.lab.paper.reproducing import quiet
from graphshift.lab.paper.settings import METHOD_EXPLORERS, Size, searching, shortened
from graphshift.studies import Arm, Plan, crossed_arms, run_study
from graphshift.studies.space import uses

#: A folder between an experiment's and the methods'.
FOLDER = "leaderboard"

#: The rules that choose epoch and setting. The second looks at the unlabelled tests.
RULES = ("val", "target")

#: Ways of using the unlabelled tests at prediction time.
WAYS = ("norm", "prior", "norm+prior", "centroids", "neighbours", "beliefs", "gtrans")

#: The baseline of every difference.
BASELINE = "erm"

#: A method's own paper has it with this backbone, which the experiment does not name.
_OWN_BACKBONES = {"mmd": ("a2gnn",)}


def arms_of(experiment: Experiment, method: str) -> list[Arm]:
    """The arms of a cell: the method by explorer, without and with the target in training.

    ERM and EERM have the experiment's other backbone as well, and ERM a model without edges.
    """
    backbones = [experiment.backbone, *_OWN_BACKBONES.get(method, ())]
    if experiment.other_backbone is not None and method in ("erm", "eerm"):
        backbones += [experiment.other_backbone, *(["mlp"] if method == "erm" else [])]
    wanted = {**experiment.common, "views": 3}
    common = {name: value for name, value in wanted.items() if uses(name, method)}
    arms = crossed_arms([method], list(dict.fromkeys(backbones)), METHOD_EXPLORERS, common=common)
    arms = [searching(arm, experiment.searched) for arm in arms]
    about: Any = METHODS[method]
    if not about.uses_target:
        return arms
    seeing = [_with_target(arm, "tests", "" if about.needs_target else f"{about.label} to target") for arm in arms]
    return seeing if about.needs_target else [*(_with_target(arm, "none", "") for arm in arms), *seeing]


def _with_target(arm: Arm, target: str, name: str) -> Arm:
    label = METHODS[arm.settings["method"]].label
    return Arm(arm.name.replace(label, name or label, 1), {**arm.settings, "target": target}, arm.space, arm.baseline)


def plan_of_cell(experiment: Experiment, method: str, size: Size, data_dir: Path | None = None) -> Plan:
    """The plan of a method in an experiment, with as many trials and the same draws for every method.

    Args:
        experiment: of :data:`~graphshift.lab.paper.experiments.EXPERIMENTS`.
        method: by name; any that the registry has.
        size: how much of it to run.
        data_dir: where the raw files are.
    """
    METHODS.find(method)
    arms = arms_of(experiment, method)
    if size.epochs is not None:
        arms = [shortened(arm, size.epochs) for arm in arms]
    data_seeds = experiment.data_seeds
    if data_seeds is not None and size.data_seeds is not None:
        data_seeds = size.data_seeds
    seeds = size.seeds or (experiment.seeds if data_seeds is None else 1)
    reads_files = "data_dir" in DATASETS[experiment.dataset].options
    options = {**experiment.options, **experiment.tuned_options}
    return Plan(
        experiment.dataset,
        arms,
        range(seeds),
        {**options, **({"data_dir": str(data_dir)} if data_dir and reads_files else {})},
        data_seeds=None if data_seeds is None else range(data_seeds),
        trials=size.trials or experiment.method_trials,
        selections=RULES,
        in_domain=method == BASELINE and experiment.in_domain,
        adapt=WAYS,
    )


def place_of(folder: Path, experiment: Experiment, method: str) -> Path:
    """Where a cell's study is."""
    return folder / experiment.name / FOLDER / method


def fits_of(experiment: Experiment, method: str, size: Size) -> int:
    """How many fits a cell at least needs: trials and runs of each arm, without in-domain limits."""
    plan = plan_of_cell(experiment, method, size)
    return sum(
        len(plan.draws) + (plan.trials if math.prod(map(len, (arm.space or {}).values())) and arm.space else 0)
        for arm in plan.arms
    )


def run_cell(
    experiment: Experiment,
    method: str,
    folder: Path,
    size: Size,
    *,
    data_dir: Path | None = None,
    progress: bool = True,
    **how: Any,
) -> str | None:
    """Runs a cell, or what is left of it; gives the reason where the method cannot be on these data.

    Args:
        experiment, method, size, data_dir: what :func:`plan_of_cell` takes.
        folder: the study goes to ``folder/EXPERIMENT/leaderboard/METHOD``.
        progress, how: what :func:`~graphshift.studies.run_study` takes.
    """
    place = place_of(folder, experiment, method)
    plan = replace(plan_of_cell(experiment, method, size, data_dir), adapt=_ways_at(place, bool(how.get("force"))))
    try:
        with quiet():
            run_study(plan, place, progress=progress, **how)
    except GraphshiftError as error:
        if not str(error).startswith("arm "):
            raise
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / "refused.json", {"reason": str(error)})
        return str(error)
    return None


def _ways_at(place: Path, force: bool) -> tuple[str, ...]:
    """The ways of a cell: those that it was begun with, so that ways that came later do not make it another study."""
    if force or not (place / "plan.json").is_file():
        return WAYS
    return tuple(read_json(place / "plan.json").get("adapt", ()))


def refused(folder: Path, experiment: Experiment, method: str) -> str | None:
    """Why a cell cannot be, if that was found when it was run."""
    path = place_of(folder, experiment, method) / "refused.json"
    return str(read_json(path)["reason"]) if path.is_file() else None


def cells_of(experiments: Sequence[Experiment], methods: Sequence[str]) -> Iterator[tuple[Experiment, str]]:
    """Every pair, experiment by experiment, the baseline first."""
    ordered = sorted(dict.fromkeys(methods), key=lambda method: method != BASELINE)
    return ((experiment, method) for experiment in experiments for method in ordered)

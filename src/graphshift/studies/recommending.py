"""Which method, backbone and explorer to use on a dataset: a small fair comparison in the time there is.

Test labels are never used for selection. Arms are compared on the validation environments, as they are and after
adversarial edits, each with epoch and setting chosen accordingly. Which of the two counts is for the user to say: will
edges mean the same on future graphs?
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphshift.backbones import BACKBONES
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators import recorded_estimator
from graphshift.studies.plan import Arm, Plan
from graphshift.studies.resolved import ResolvedPlan
from graphshift.studies.running import Study, computing_with
from graphshift.studies.space import crossed_arms, uses
from graphshift.studies.statistics import Difference, compare, share_a_pair
from graphshift.studies.summary import ArmSummary

#: Explorers that are tried, and what kind of shift each is for.
EXPLORERS: dict[str, str] = {
    "random": "edges that are noise: the model should not depend on single ones",
    "gradient": "edges that are spurious: they go with the label here and will not elsewhere",
    "features": "features that are spurious, or measured on another scale elsewhere",
}

#: The scores by which arms are compared (attributes of a study's rows), and when each counts.
CRITERIA: dict[str, str] = {
    "val": "If future graphs differ from training as the validation graphs do",
    "adversarial_val": "If edges may become misleading",
    "selection_score": "By held-out training nodes, because there is no validation graph",
}

#: For each the rule that chooses epoch and setting: plain validation would choose models that edits harm most.
RULES: dict[str, str] = {"val": "val", "adversarial_val": "explored", "selection_score": "id_val"}

_TIMED = 4  # epochs, the first of which is not counted
_SAFE = 0.8  # of the budget that is planned for
_LEVEL = 0.05


@dataclass(frozen=True)
class Size:
    """How much a comparison does: seeds of each arm, trials of its tuning, epochs of each fit."""

    seeds: int
    trials: int
    epochs: int

    def fits(self, rules: int) -> int:
        """Of one arm, at most: each rule may choose a setting of its own."""
        return self.trials + self.seeds * (rules if self.trials else 1)


@dataclass(frozen=True)
class Recommendation:
    """What to use, and why."""

    arm: str
    settings: Mapping[str, Any]  #: what to give ``graphshift fit``: those of the arm and those that tuning chose
    simplest: str  #: preferred unless another is significantly better: ERM with the dataset's backbone
    difference: Difference | None  #: of this arm and the simplest; None if it is the simplest
    reason: str  #: in words


def candidates(data: ShiftDataset, common: Mapping[str, Any] | None = None) -> list[Arm]:
    """ERM and EERM with each explorer, on the dataset's backbone and on SAGE; and ERM without edges.

    SAGE has separate weights for a node and for its neighbours, so it can learn to ignore them. If the model without
    edges is ahead, edges are misleading. All arms share the settings of ``common``; a ``backbone`` there takes the
    place of the dataset's own, with its options; options of an ``explorer`` go to the arms that have it.
    """
    shared = dict(common or {})
    explorer: dict[str, Any] = {name: shared.pop(name) for name in ("explorer", "explorer_options") if name in shared}
    own = str(shared.pop("backbone", data.defaults.get("backbone", "gcn")))
    options = {"backbone_options": shared.pop("backbone_options")} if "backbone_options" in shared else {}
    useful = [name for name in EXPLORERS if _uses_edges(own) or name == "features"]  # no edit of edges reaches an MLP
    arms = crossed_arms(["erm", "eerm"], [own], useful, common=shared | options)
    if own != "sage":
        arms += crossed_arms(["erm", "eerm"], ["sage"], list(EXPLORERS), common=shared)
    if _uses_edges(own):
        plain = {name: value for name, value in shared.items() if uses(name, "erm")}
        arms += crossed_arms(["erm"], ["mlp"], [], common=plain)
    named = explorer.get("explorer", "reinforce")
    return [replace(a, settings={**a.settings, **explorer}) if a.settings.get("explorer") == named else a for a in arms]


def unused_by_all_arms(common: Mapping[str, Any]) -> list[str]:
    """Settings that no candidate uses, as another method's: a file may have them for its own fits."""
    candidates = [("erm", None), *(("eerm", explorer) for explorer in EXPLORERS)]
    return [name for name in common if not any(uses(name, *arm) for arm in candidates)]


def seconds_an_epoch(plan: ResolvedPlan, data: ShiftDataset, threads: int) -> dict[str, float]:
    """What an epoch of each arm takes here, measured on a few, with as many threads as a worker will have.

    With as many edits as tuning may try: the budget is to be kept.
    """
    found = {}
    for arm in plan.arms:
        most = {name: max(values) for name, values in (arm.space or {}).items() if name == "edits_per_node"}
        first, *also = _rules(data)
        settings = plan.settings(arm, {"epochs": _TIMED, **most}, selection=first)
        with computing_with(threads):
            model = recorded_estimator(settings).fit(data.train, data.val, also=also)
        times = [row["seconds"] for row in model.history_]
        found[arm.name] = (times[-1] - times[0]) / (len(times) - 1)
    return found


def chosen_size(seconds: Mapping[str, float], epochs: int, budget: float, workers: int, rules: int) -> Size:
    """The largest comparison that fits into a budget of seconds, by the seconds that an epoch of each arm takes."""
    sizes = [Size(seeds, trials, epochs) for seeds, trials in ((5, 12), (5, 8), (5, 4), (3, 4), (3, 2), (3, 0))]
    sizes += [Size(3, 0, share) for share in (epochs // 2, epochs // 4) if share >= 20]
    for size in sizes:
        needed = sum(seconds.values()) * size.epochs * size.fits(rules) / workers
        if needed <= _SAFE * budget:
            return size
    raise GraphshiftError(
        f"the budget is {budget / 60:.1f} min; the smallest comparison takes about {needed / _SAFE / 60:.1f} min here. "
        "Give a larger --budget, or more --workers."
    )


def plan_of(
    dataset: str, options: Mapping[str, Any], data: ShiftDataset, size: Size, common: Mapping[str, Any] | None = None
) -> Plan:
    """The comparison as a plan; ``common`` as in :func:`candidates`."""
    arms = [replace(arm, settings={**arm.settings, "epochs": size.epochs}) for arm in candidates(data, common)]
    return Plan(dataset, arms, range(size.seeds), options, trials=size.trials, selections=_rules(data))


def _rules(data: ShiftDataset) -> tuple[str, ...]:
    return ("val", "explored") if data.val else ("id_val",)


def criteria(study: Study) -> list[str]:
    """By what arms can be compared: :data:`CRITERIA`, as far as there are validation graphs."""
    return [criterion for criterion, rule in RULES.items() if rule in study.plan.selections]


def differences(study: Study, criterion: str) -> dict[str, Difference]:
    """How far each arm is ahead of the simplest by a criterion, pair by pair; by name.

    A model without edges is left out after adversarial edits: they cannot change it, which says nothing for it.
    """
    rows = study.rows(RULES[criterion])
    names = [arm.name for arm in study.plan.arms if any(row.arm == arm.name for row in rows)]
    simplest = study.plan.arms[0].name
    if simplest not in names:
        raise GraphshiftError(f"{simplest}: no run finished, so there is nothing to compare the others with.")
    if criterion == "adversarial_val":
        names = [name for name in names if _uses_edges(study.plan.settings(study.plan.arm(name)).get("backbone"))]
    others = [name for name in names if name != simplest and share_a_pair(rows, name, simplest)]
    return {name: compare(rows, name, simplest, criterion) for name in others}


def significant(found: Mapping[str, Difference]) -> list[Difference]:
    """Those that are ahead, after a correction for the number of comparisons (Holm, 1979)."""
    ordered = sorted(found.values(), key=lambda d: 1.0 if d.p is None else d.p)
    kept = []
    for i, difference in enumerate(ordered):
        if difference.p is None or difference.p * (len(ordered) - i) > _LEVEL:
            break
        kept.append(difference)
    return [difference for difference in kept if difference.mean > 0]


def recommend(study: Study, criterion: str) -> Recommendation:
    """The arm that is significantly ahead of the simplest by a criterion, by most; else the simplest."""
    ahead = differences(study, criterion)
    simplest, rule = study.plan.arms[0].name, RULES[criterion]
    best = max(significant(ahead), key=lambda d: d.mean, default=None)
    chosen = best.arm if best else simplest
    entry = next(a for a in study.summary.arms if (a.arm, a.selection) == (chosen, rule))
    settings = {**study.plan.arm(chosen).settings, **(entry.chosen or {}), "selection": rule}
    return Recommendation(chosen, settings, simplest, best, _reason(chosen, entry, best))


def _reason(chosen: str, entry: ArmSummary, best: Difference | None) -> str:
    if best is None:
        return f"{chosen}: no arm is significantly better, and it is the simplest"
    kind = EXPLORERS.get(entry.explorer or "")
    if not _uses_edges(entry.backbone):
        kind = "misleading edges: it does without them"
    return f"{chosen}: significantly better than {best.baseline}" + (f"; for {kind}" if kind else "")


def _uses_edges(backbone: str | None) -> bool:
    return backbone is not None and BACKBONES.find(backbone).uses_edges

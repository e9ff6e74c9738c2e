"""The models that ``recommend`` considers, from the simplest to the least simple."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphshift.backbones import BACKBONES
from graphshift.data.dataset import ShiftDataset
from graphshift.graph.sparse import Sparse
from graphshift.methods.diffusion import known_labels
from graphshift.studies.plan import Arm
from graphshift.studies.space import crossed_arms, uses

#: Models without a GNN, the simplest first. Those that spread labels need a graph that the roles share.
TABLES = ("majority", "logistic", "forest", "boosting")
SPREADING = ("label-propagation", "correct-smooth")

#: Explorers that are tried, and what kind of shift each is for.
EXPLORERS: dict[str, str] = {
    "random": "edges that are noise: the model should not depend on single ones",
    "gradient": "edges that are spurious: they go with the label here and will not elsewhere",
    "features": "features that are spurious, or measured on another scale elsewhere",
}

#: Ways of using the unlabelled graph that is predicted.
ADAPTATIONS = ("norm", "prior", "norm+prior")


def candidates(data: ShiftDataset, common: Mapping[str, Any] | None = None) -> list[Arm]:
    """All candidates, the simplest first.

    SAGE has separate weights for a node and for its neighbours, so it can learn to ignore them. If a model without
    edges is ahead, edges are misleading. GINE takes the features of edges, where there are any. All arms share the
    settings of ``common``; a ``backbone`` there takes the place of the dataset's own, with its options; options of an
    ``explorer`` go to the arms that have it.
    """
    shared = dict(common or {})
    explorer: dict[str, Any] = {name: shared.pop(name) for name in ("explorer", "explorer_options") if name in shared}
    own = str(shared.pop("backbone", data.defaults.get("backbone", "gcn")))
    options = {"backbone_options": shared.pop("backbone_options")} if "backbone_options" in shared else {}
    useful = [name for name in EXPLORERS if uses_edges(own) or name == "features"]  # no edit of edges reaches an MLP
    simple = [*TABLES, *(SPREADING if shares_graph(data) else ())]
    arms = [arm for method in simple for arm in _arms(method, None, [], shared)]
    if "columns" not in shared:  # what edges and ranks say are candidates of their own, so that every place judges it
        arms = [replace(arm, space=_without_columns(arm)) for arm in arms]
        for columns in [*(["ranks"] if _has_numbers(data) else []), "neighbours"]:
            for method in ("logistic", "forest"):
                other = _arms(method, None, [], shared | {"columns": columns})
                arms += [replace(arm, name=f"{arm.name}, {columns}") for arm in other]
    if uses_edges(own):
        arms += _arms("erm", "mlp", [], shared)
    arms += _arms("erm", own, [], shared | options)
    further = [name for name in ("sage", *_of_edge_features(data, own)) if name != own]
    arms += [arm for name in further for arm in _arms("erm", name, [], shared)]
    arms += _arms("eerm", own, useful, shared | options)
    arms += [arm for name in further for arm in _arms("eerm", name, list(EXPLORERS), shared)]
    named = explorer.get("explorer", "reinforce")
    return [replace(a, settings={**a.settings, **explorer}) if a.settings.get("explorer") == named else a for a in arms]


def _arms(method: str, backbone: str | None, explorers: list[str], common: Mapping[str, Any]) -> list[Arm]:
    tried: list[str | None] = [*explorers] or [None]
    able = {name: value for name, value in common.items() if any(uses(name, method, e) for e in tried)}
    return crossed_arms([method], None if backbone is None else [backbone], explorers, common=able)


def _has_numbers(data: ShiftDataset) -> bool:
    """Whether features have a scale, which may differ between graphs: dense columns of more than zeros and ones."""
    x = data.train[0].x
    return not isinstance(x, Sparse) and bool(((x != 0) & (x != 1)).any())


def _of_edge_features(data: ShiftDataset, own: str) -> tuple[str, ...]:
    """The backbone for edges that have features, where the data's own one cannot take them."""
    able = not data.train[0].num_edge_features or BACKBONES.find(own).uses_edge_features
    return () if able else ("gine",)


def _without_columns(arm: Arm) -> Mapping[str, Sequence[Any]]:
    return {name: values for name, values in (arm.space or {}).items() if name != "columns"}


def is_needed(arm: Arm, data: ShiftDataset, common: Mapping[str, Any] | None = None) -> bool:
    """Whether a candidate is tried however short the time: the simplest three, and ERM with the dataset's backbone."""
    shared, method = common or {}, arm.settings["method"]
    own = shared.get("backbone", data.defaults.get("backbone", "gcn"))
    if method in TABLES:
        return method != "boosting" and arm.settings.get("columns") == shared.get("columns")
    return bool(method == "erm" and arm.settings["backbone"] == own)


def unused_by_all_arms(common: Mapping[str, Any]) -> list[str]:
    """Settings that no candidate uses, as another method's: a file may have them for its own fits."""
    simple: list[tuple[str, str | None]] = [(m, None) for m in (*TABLES, *SPREADING, "erm")]
    tried = [*simple, *(("eerm", explorer) for explorer in EXPLORERS)]
    return [name for name in common if not any(uses(name, *arm) for arm in tried)]


def shares_graph(data: ShiftDataset) -> bool:
    """Whether all other graphs hold nodes of training, so that their labels can spread along edges."""
    others = [*data.val, *data.tests, *data.target]
    return bool(others) and all(e.known_y is not None and bool(known_labels(e)[0].any()) for e in others)


def uses_edges(backbone: str | None) -> bool:
    """Whether the output of a backbone depends on edges."""
    return backbone is not None and BACKBONES.find(backbone).uses_edges

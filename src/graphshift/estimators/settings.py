"""Every setting of a fit: its type, range, default and meaning. Command line, TOML and Python share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from graphshift.core.errors import GraphshiftError


class Settings(BaseModel):
    """The settings of one fit. Those that mean nothing to a method (:data:`OWNERS`) may not be given with it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    method: Literal["erm", "eerm", "irm", "vrex", "groupdro", "mixup", "coral", "dann", "srgnn"] = Field(
        "eerm", description="what to train with"
    )
    backbone: str = Field("gcn", description="the GNN")
    hidden_channels: int = Field(
        32,
        ge=1,
        le=65536,
        description="width of hidden layers",
        validation_alias=AliasChoices("hidden_channels", "hidden"),
    )
    num_layers: int = Field(
        2, ge=1, le=1000, description="number of layers", validation_alias=AliasChoices("num_layers", "layers")
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout after hidden layers")
    backbone_options: dict[str, Any] = Field(default_factory=dict, description="options of the backbone, as heads=2")
    epochs: int = Field(200, ge=1, description="steps of training")
    lr: float = Field(0.01, gt=0, le=1e6, description="learning rate of the GNN")
    weight_decay: float = Field(1e-3, ge=0, le=1e6, description="weight decay of the GNN (AdamW)")
    clip: float | None = Field(None, gt=0, description="norm to which gradients are clipped")
    selection: Literal["val", "explored", "id_val", "oracle", "last"] = Field(
        "val", description="rule that chooses the epoch"
    )
    patience: int | None = Field(None, ge=1, description="epochs without improvement after which to stop")
    device: Literal["cpu", "cuda", "mps"] = Field("cpu", description="where to compute")
    seed: int = Field(0, ge=0, description="seed of everything random")

    penalty: float = Field(1.0, ge=0, le=1e12, description="λ, the weight of the method's penalty")
    anneal: float = Field(0.0, ge=0, lt=1, description="share of training before the penalty counts")
    groups: int = Field(4, ge=2, le=100_000, description="parts that a training graph is divided into, as environments")
    group_by: Literal["auto", "graphs", "degree", "features", "time"] = Field(
        "auto", description="how; auto: graphs if there are several, else degree"
    )
    group_lr: float = Field(0.01, ge=0, le=1e6, description="η, how fast GroupDRO turns to the worst group")
    mix: float = Field(1.0, ge=1e-3, le=1e6, description="α of the Beta distribution that Mixup draws from")

    explorer: str = Field("reinforce", description="what makes the views")
    explorer_options: dict[str, Any] = Field(
        default_factory=dict, description="options of the explorer, as candidates=20"
    )
    explorers: int = Field(3, le=1000, description="K, the number of views; at least 2")
    edits_per_node: int = Field(5, ge=1, le=10_000, description="s, the edits drawn for each node")
    inner_steps: int = Field(1, ge=1, description="T, explorer steps for one step of the GNN")
    beta: float = Field(1.0, ge=0, description="β, the weight of the mean risk beside the variance")
    beta_end: float | None = Field(None, ge=0, description="value that β moves to in a straight line; none: constant")
    explorer_lr: float = Field(0.005, ge=0, le=1e12, description="learning rate of the explorers")
    explorer_optimizer: Literal["adam", "sgd"] = Field("adam", description="optimiser of the explorers")
    explorer_weight_decay: float = Field(0.0, ge=0, le=1e6, description="weight decay of the explorers' logits")
    explorer_baseline: float | None = Field(None, ge=0, lt=1, description="decay of the running-mean reward baseline")
    credit: Literal["shared", "difference"] = Field("shared", description="reward of an explorer")
    reset_explorers: bool = Field(False, description="forget what explorers learned at every epoch")
    directed_edits: bool = Field(False, description="flip one direction of an undirected edge")
    low_memory: bool = Field(False, description="process one view at a time, with a second forward pass")


#: The settings that only EERM has.
EERM_ONLY = tuple(Settings.model_fields)[tuple(Settings.model_fields).index("explorer") :]

_GROUPED = ("irm", "vrex", "groupdro", "coral", "dann", "srgnn")

#: The methods that a setting means something to, where it does not to all.
OWNERS: dict[str, tuple[str, ...]] = {
    "penalty": ("irm", "vrex", "coral", "dann", "srgnn"),
    "anneal": ("irm", "vrex", "coral", "srgnn"),
    "groups": _GROUPED,
    "group_by": _GROUPED,
    "group_lr": ("groupdro",),
    "mix": ("mixup",),
    **dict.fromkeys(EERM_ONLY, ("eerm",)),
}


#: The settings that only an explorer that learns has, and the built-in explorers that do not.
LEARNING_ONLY = (
    "explorer_lr",
    "explorer_optimizer",
    "explorer_weight_decay",
    "explorer_baseline",
    "credit",
    "reset_explorers",
    "inner_steps",
)
NEVER_LEARN = ("random", "gradient", "drop-edge", "add-edge", "features", "mixed")

#: The settings that only an explorer that edits edges has.
_EDGES_ONLY = {"features": ("edits_per_node", "directed_edits")}


def idle_settings(method: str, explorer: str | None = None) -> tuple[str, ...]:
    """The settings that mean nothing to a method or, if it has explorers, to the named one."""
    found = tuple(name for name, owners in OWNERS.items() if method not in owners)
    if method != "eerm" or explorer is None:
        return found
    return found + (LEARNING_ONLY if explorer in NEVER_LEARN else ()) + _EDGES_ONLY.get(explorer, ())


def validated(values: Mapping[str, Any], *, where: str = "") -> Settings:
    """Checks settings and explains every one that does not fit.

    Args:
        values: settings by name.
        where: what to put before each message, such as the file's name.
    """
    try:
        settings = Settings.model_validate(dict(values))
    except ValidationError as error:
        raise GraphshiftError("\n".join(_explain(problem, where) for problem in error.errors())) from None
    if settings.patience is not None and settings.selection == "last":
        raise GraphshiftError(f"{where}patience is {settings.patience}; selection 'last' has no score to wait for.")
    if settings.method == "eerm" and settings.explorers < 2:
        raise GraphshiftError(
            f"{where}explorers is {settings.explorers}; EERM needs at least 2: the variance of one view's risk is not "
            "defined. For training without explorers use method erm."
        )
    return settings


def _explain(problem: Any, where: str) -> str:
    name = ".".join(str(part) for part in problem["loc"]) or "settings"
    if problem["type"] == "extra_forbidden":
        known = ", ".join(Settings.model_fields)
        return f"{where}{name} is not a setting; the settings are {known}."
    expected = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{where}{name} is {problem['input']!r}; {expected.replace('input should', 'it should')}."

"""The types of everything in ``model.json`` and ``ensemble.json``: a file from anywhere is held to them first.

Fields of later versions are left aside.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Note(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)


class TaskNote(_Note):
    """What is predicted; :class:`~graphshift.data.tasks.Task` checks that it fits together."""

    kind: str = Field(max_length=100)
    num_classes: int = Field(ge=0, le=2**31)
    metric: str = Field("", max_length=100)
    two_logits: bool = False
    level: str = Field("node", max_length=100)


class CalibrationNote(_Note):
    """A :class:`~graphshift.estimators.adaptation.Calibration`."""

    temperature: float = Field(gt=0)
    prior: list[float]
    confusion: list[list[float]]
    nodes: list[float]
    error: float

    @model_validator(mode="after")
    def _square(self) -> "CalibrationNote":
        size = len(self.prior)
        if {len(row) for row in self.confusion} - {size} or {len(self.confusion), len(self.nodes)} != {size}:
            raise ValueError("prior, confusion and nodes are not of as many classes")
        return self


class _Thresholds(_Note):
    logits: list[float] = Field(min_length=1)
    found: list[int]
    false: list[int]
    positives: int = Field(ge=1)
    negatives: int = Field(ge=1)


class ConfidenceNote(_Note):
    """A :class:`~graphshift.estimators.confidence.Confidence`."""

    temperature: float = Field(gt=0)
    thresholds: _Thresholds | None = None


class ModelNote(_Note):
    """``model.json``."""

    format: int
    settings: dict[str, Any]
    own_backbone: str | None = None
    task: TaskNote
    features: int = Field(ge=1, le=2**31)
    edge_features: int = Field(0, ge=0, le=2**31)
    target: list[str] = []
    best_epoch: int = Field(ge=0)
    best_score: float | None
    seconds: float = Field(ge=0)
    prior: list[float] = []
    calibrations: dict[str, CalibrationNote] = {}
    confidences: dict[str, ConfidenceNote] = {}
    rehearsed: list[float] | None = Field(None, min_length=2, max_length=2)

    @model_validator(mode="after")
    def _of_the_classes(self) -> "ModelNote":
        size = self.task.num_classes
        for shares in (self.prior, *(one.prior for one in self.calibrations.values())):
            if shares and (len(shares) != size or min(shares) < 0 or abs(sum(shares) - 1) > 0.01):
                raise ValueError(f"a prior has {len(shares)} shares; expected {size}, which are 1 together")
        return self


class EnsembleNote(_Note):
    """``ensemble.json``."""

    format: int
    members: int = Field(ge=1, le=10_000)
    confidences: dict[str, ConfidenceNote] = {}

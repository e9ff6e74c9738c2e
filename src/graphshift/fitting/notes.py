"""The types of ``config.json`` and ``result.json``, as far as they are read back. Other fields are left aside."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Note(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)


class ConfigNote(_Note):
    """``config.json``: what a run or an ensemble is."""

    dataset: str
    options: dict[str, Any]
    settings: dict[str, Any]
    ensemble: int | None = Field(None, ge=2, le=10_000)
    target: str | None = None


class _Member(_Note):
    seed: int
    tests: dict[str, float]


class ResultNote(_Note):
    """``result.json``: the record of a finished run or ensemble."""

    dataset: str
    method: str
    metric: str
    selection: str
    seed: int
    backbone: str | None = None
    tests: dict[str, float]
    val: float | None = None
    majority: dict[str, float] = {}
    seconds: float
    seconds_per_epoch: float | None
    best_epoch: int | None = None
    selection_score: float | None = None
    peak_rss_mb: float | None = None
    loading_mb: float | None = None
    estimated_mb: float | None = None
    ensemble: int | None = None
    members: list[_Member] | None = None
    trained_with: list[str] = []

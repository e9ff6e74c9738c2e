"""The types of ``plan.json`` and ``provenance.json``, as far as they are read back. Other fields are left aside."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Note(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)


class ArmNote(_Note):
    """An arm of a plan."""

    name: str
    settings: dict[str, Any] = {}
    complete: dict[str, Any] | None = None


class PlanNote(_Note):
    """``plan.json``: what a study is to do. It is compared with the plan that is asked for, field by field."""

    dataset: str
    options: dict[str, Any] = {}
    arms: list[ArmNote] = Field(min_length=1, max_length=10_000)
    seeds: list[int] = Field(min_length=1, max_length=10_000)
    trials: int = Field(ge=0)


class _Git(_Note):
    commit: str
    changed: bool


class _Hardware(_Note):
    system: str
    machine: str
    processor: str | None
    cores: int
    memory_gb: float | None


class _Session(_Note):
    started: str
    command: str | None
    workers: int
    threads_per_worker: int
    versions: dict[str, str | None]
    git: _Git | None
    hardware: _Hardware


class Provenance(_Note):
    """``provenance.json``: the sessions of a study, as :func:`graphshift.studies.provenance.session` makes them."""

    sessions: list[_Session]

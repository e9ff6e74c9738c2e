"""What a part of the suite found: measurements with their bars, tables, raw numbers, and what failed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One named number and, if there is one, its bar.

    Args:
        id: what the same measurement is called in every run; sizes are part of it.
        what: the same for people.
        value: None if it could not be measured, see ``reason``.
        unit: ``"×"`` for ratios, ``"GB"``, ``"MB"`` (10⁹ and 10⁶ bytes), ``"s"``, or empty.
        bar: the limit; None for a number that only informs.
        higher_is_better: the bar is a lower limit.
        reason: why there is no value.
    """

    id: str
    what: str
    value: float | None
    unit: str = "×"
    bar: float | None = None
    higher_is_better: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"measurement {self.id!r} is {self.value}; expected a finite number")

    @property
    def met(self) -> bool | None:
        """Whether the bar is kept; None without a value or a bar."""
        if self.value is None or self.bar is None:
            return None
        return self.value >= self.bar if self.higher_is_better else self.value <= self.bar

    def as_json(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {**asdict(self), "met": self.met}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Measurement:
        """Takes back what :meth:`as_json` gave."""
        return cls(**{name: value for name, value in content.items() if name != "met"})


@dataclass(frozen=True)
class Table:
    """A table for people: cells are text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass
class Outcome:
    """What one part found. It fills while the part runs, so what was measured before a failure is kept."""

    measurements: list[Measurement] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found, not even a failure."""
        return not (self.measurements or any(t.rows for t in self.tables) or self.failures)

    def as_json(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {
            "measurements": [m.as_json() for m in self.measurements],
            "tables": [asdict(t) for t in self.tables if t.rows],
            "data": self.data,
            "failures": self.failures,
            "seconds": round(self.seconds, 1),
        }


def show(value: float | None, unit: str = "") -> str:
    """A number as people read it: three significant digits, and its unit."""
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}" + (unit if unit in ("", "×") else f" {unit}")


def anonymous(text: str) -> str:
    """A message without the folders of this machine: results are published."""
    return re.sub(r"(?<![\w.])(/[\w.+-]+)+/(?=[\w.+-])", "…/", " ".join(text.split()))

"""Has it become slower? A new run's bars beside committed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json
from graphshift.lab.bench.outcome import Measurement, show
from graphshift.lab.bench.tables import FORMAT, head, measurements_of

#: How much worse a ratio may become.
TOLERANCE = 0.25


@dataclass(frozen=True)
class Pair:
    """One measurement in both runs.

    Attributes:
        what: was measured.
        unit: of both values.
        committed: the value that was committed.
        new: the value of the new run.
        change: by how much it became worse: 0.3 is 30 % worse, −0.1 is 10 % better, whichever direction is better.
        worse: whether that is more than is tolerated.
    """

    what: str
    unit: str
    committed: float
    new: float
    change: float
    worse: bool


@dataclass(frozen=True)
class Check:
    """What a comparison found: the pairs, and what has no partner with the reason."""

    pairs: list[Pair]
    not_compared: list[tuple[str, str]]

    @property
    def passed(self) -> bool:
        """Whether nothing became worse than is tolerated."""
        return not any(pair.worse for pair in self.pairs)

    def rows(self) -> list[list[str]]:
        """For a table: what, committed, new, change, verdict."""
        return [
            [
                pair.what,
                show(pair.committed, pair.unit),
                show(pair.new, pair.unit),
                f"{abs(100 * pair.change):.0f} % {'worse' if pair.change > 0 else 'better'}",
                "too much" if pair.worse else "fine",
            ]
            for pair in self.pairs
        ]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        left = [{"what": what, "reason": reason} for what, reason in self.not_compared]
        return {"passed": self.passed, "compared": [asdict(pair) for pair in self.pairs], "not_compared": left}


def compare(committed: Mapping[str, Any], new: Mapping[str, Any], tolerance: float = TOLERANCE) -> Check:
    """Compares the measurements that have a bar, by their names.

    Args:
        committed: the content of a ``results.json``.
        new: that of another run.
        tolerance: how much worse a ratio may be; 0.25 allows 25 %.
    """
    before, after = (_barred(results) for results in (committed, new))
    pairs, left = [], []
    for id, was in before.items():
        if (now := after.get(id)) is None:
            left.append((was.what, "not in the new run"))
        elif (why := _incomparable(was, "the committed results") or _incomparable(now, "the new run")) is not None:
            left.append((was.what, why))
        else:
            old, fresh = float(was.value or 0), float(now.value or 0)  # both are positive, else they have a reason
            change = (old / fresh if was.higher_is_better else fresh / old) - 1
            pairs.append(Pair(was.what, was.unit, old, fresh, change, change > tolerance))
    left += [(now.what, "not in the committed results") for id, now in after.items() if id not in before]
    return Check(pairs, left)


def read_results(path: Path) -> dict[str, Any]:
    """Reads a ``results.json`` that was committed."""
    content = read_json(path)
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise GraphshiftError(
            f"{path}: field `format` is {found!r}; expected {FORMAT}, as `graphshift bench` writes into results.json."
        )
    try:
        for one in measurements_of(content):
            float(one.value or 0)
        head(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise GraphshiftError(
            f"{path}: does not hold what `graphshift bench` writes ({type(error).__name__}: {error}); run it again."
        ) from None
    return content


def _barred(results: Mapping[str, Any]) -> dict[str, Measurement]:
    return {one.id: one for one in measurements_of(results) if one.bar is not None}


def _incomparable(one: Measurement, where: str) -> str | None:
    if one.value is None:
        return f"skipped in {where}: {one.reason}"
    if not one.unit:
        return "a difference, not a ratio"
    return None if one.value > 0 else f"{show(one.value, one.unit)} in {where}"

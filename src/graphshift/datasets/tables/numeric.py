"""Columns of numbers as features: left alone, scaled, or ranked; fitted on the training nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.cells import ORIGIN
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.kinds import Constant

_KNOTS = 101  # of the training ranks of a column with many values
_SKEWED = 2.0  # numbers with a skewness above this are taken as logarithms
_FEWEST_EQUAL = 5  # that a value must have to be a word for "missing": one number alone far away may be true


class Unit(NamedTuple):
    """In which units a feature's value is told: ``mean + scale * value``, which is the column's own, or ``of`` it."""

    mean: float = 0.0
    scale: float = 1.0
    of: Literal["", "log", "rank", "year"] = ""


#: Of ranks in (0, 1) that have deviation 1.
OF_RANKS = Unit(0.5, 12**-0.5, "rank")


class Numbers(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """Columns of numbers that are treated alike, side by side.

    Attributes:
        names: of the columns.
        how: ``"none"`` leaves them alone; ``"standard"`` takes off the mean and divides by the deviation; ``"log"``
            does so with sign(x) log(1 + abs(x)); ``"rank"`` gives the place among the training nodes, ``"rank here"``
            among the nodes of the same graph, both scaled to mean 0 and deviation 1; ``"flag"`` says only where the
            column is missing (it is constant otherwise).
        mean, scale: for each column, over the training nodes (of the logarithms for ``"log"``). Without them nothing is
            taken off. With ``"none"`` the mean is what a missing value becomes; without it, 0.
        knots, places: for ``"rank"``: values of each column and their ranks in (0, 1), to be interpolated.
        flags: which of the columns (by number) have a second feature that is 1 where the value is missing.
        none: a number that means "missing" in these columns, as 0 does among years; None if there is no such number.
        dates: None for numbers. Otherwise the columns hold dates in this format (empty: as in 2024-05-31), and their
            numbers are years since 2000-01-01.
    """

    kind: Literal["numbers"] = "numbers"
    names: tuple[str, ...] = Field(min_length=1)
    how: Literal["none", "standard", "log", "rank", "rank here", "flag"]
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    knots: tuple[tuple[float, ...], ...] = ()
    places: tuple[tuple[float, ...], ...] = ()
    flags: tuple[int, ...] = ()
    none: float | None = None
    dates: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Numbers:
        count = len(self.names)
        needed = {"standard": ("mean", "scale"), "rank": ("knots", "places")}.get(self.how, ())
        for part in ("mean", "scale", "knots", "places"):
            if len(getattr(self, part)) not in ((count,) if part in needed else (0, count)):
                raise ValueError(f"{part} has {len(getattr(self, part))} entries for {count} columns")
        if any(value <= 0 for value in self.scale) or len(self.scale) not in (0, len(self.mean)):
            raise ValueError("scale must be above 0, and has a mean beside it")
        if any(len(one) != len(two) or not one for one, two in zip(self.knots, self.places, strict=True)):
            raise ValueError("knots and places differ in length or are empty")
        if list(self.flags) != sorted({i for i in self.flags if 0 <= i < count}):
            raise ValueError("flags must be column numbers, each once, in order")
        if self.how == "flag" and len(self.flags) != count:
            raise ValueError("every column of how = 'flag' needs its flag")
        return self

    @property
    def features(self) -> list[str]:
        """The names of the features, but for those of ``"rank here"``, which are made when the graph is known."""
        has_value, flags = self.how not in ("flag", "rank here"), set(self.flags)
        found: list[str] = []
        for i, name in enumerate(self.names):
            found += [name] * has_value + [f"{name} missing"] * (i in flags)
        return found

    @property
    def units(self) -> list[Unit]:
        """Of each of ``features``."""
        found: list[Unit] = []
        for i in range(len(self.names)):
            if self.how == "rank":
                found.append(OF_RANKS)
            elif self.how in ("none", "standard", "log"):
                own = Unit(self.mean[i], self.scale[i]) if self.scale else Unit()
                if self.dates is not None:
                    own = own._replace(mean=own.mean + ORIGIN.year, of="year")
                found.append(own._replace(of="log") if self.how == "log" else own)
            found += [Unit()] * (i in self.flags)
        return found

    @property
    def zeros_stay(self) -> bool:
        """Whether a 0 becomes a 0, so that a column of zeros is cheap."""
        return self.how in ("none", "log") and not self.scale


class FittedNumber(NamedTuple):
    """How one column is treated."""

    name: str
    how: str
    mean: float = 0.0
    scale: float = 0.0
    knots: tuple[float, ...] = ()
    places: tuple[float, ...] = ()
    flag: bool = False
    none: float | None = None
    dates: str | None = None
    zero_one: bool = False
    instead: FittedNumber | None = None  # the treatment if the table is no bag of words


def fit_numbers(
    nodes: Table, names: Sequence[str], values: NDArray[np.generic], wanted: Sequence[str], *, dates: str | None = None
) -> list[FittedNumber | Constant]:
    """Decides from the training rows of some columns, ``[columns, rows]``, how to treat each.

    ``wanted`` is what the option ``scale`` says for each column, ``"rank here"``, or
    ``"auto rank here"``, which spares 0/1 columns.
    """
    result: list[FittedNumber | Constant] = []
    if values.dtype.kind in "biu":  # the usual 0/1 columns need no arithmetic
        low, high = values.min(axis=1), values.max(axis=1)
        zero_one = (low == 0) & (high == 1)
    else:
        zero_one = np.zeros(len(values), dtype=bool)
    for i, name in enumerate(names):
        if zero_one[i] and wanted[i] in ("auto", "none", "auto rank here"):
            result.append(FittedNumber(name, "none", zero_one=True))
        else:
            result.append(_fit(nodes, name, values[i].astype(np.float64), wanted[i], dates))
    return result


def _fit(
    nodes: Table, name: str, values: NDArray[np.float64], wanted: str, dates: str | None
) -> FittedNumber | Constant:
    known = values[~np.isnan(values)]
    flag = len(known) < len(values)
    if not len(known):
        return Constant(name, None)
    if wanted == "auto" and dates is None and (none := _means_missing(known)) is not None:
        rest = _fit(nodes, name, np.where(values == none, np.nan, values), "auto", None)
        assert isinstance(rest, FittedNumber)  # the rest is not constant
        return rest._replace(none=none, instead=rest.instead and rest.instead._replace(none=none))
    unscaled = wanted in ("log", "rank", "rank here", "auto rank here")  # numbers of any size can be ranked
    mean, scale = (0.0, 1.0) if unscaled else _moments(nodes, name, known)
    # Rounding leaves a constant column such as 0.1 a tiny deviation, so constancy is decided by the values.
    if scale == 0 or known.min() == known.max():
        fitted = FittedNumber(name, "flag", flag=True, dates=dates, mean=float(known[0]))
        return fitted if flag else Constant(name, float(known[0]))
    zero_one = dates is None and bool(((known == 0) | (known == 1)).all())
    plain = FittedNumber(name, "none", mean=mean, flag=flag, dates=dates)
    alone = plain._replace(mean=0.0, zero_one=True)
    if zero_one and wanted in ("auto", "none", "auto rank here"):
        return alone
    if wanted == "none":
        return plain
    if wanted in ("rank here", "auto rank here"):
        return plain._replace(how="rank here", mean=0.0)
    if wanted == "rank":
        knots, places = _knots(known)
        return plain._replace(how="rank", mean=0.0, knots=knots, places=places)
    standard = plain._replace(how="standard", scale=scale)
    if wanted == "standard":
        return standard
    usual = standard
    if wanted == "log" or (dates is None and _is_skewed(known, mean, scale)):
        log_mean, log_scale = _moments(nodes, name, signed_log(known))
        usual = plain._replace(how="log", mean=log_mean, scale=log_scale or 1.0)
    if wanted == "log":
        return usual
    mostly_zero = int((known != 0).sum()) <= 0.1 * len(values)
    if mostly_zero and known.min() >= 0 and known.max() <= 100 and dates is None:  # as word counts are
        how = "none" if known.max() <= 1 else "log"
        return alone._replace(how=how, zero_one=False, instead=usual)
    return usual


def blocks(fitted: Sequence[FittedNumber]) -> Iterator[Numbers]:
    """Puts neighbouring columns that are treated alike together."""
    alike = groupby(fitted, key=lambda f: (f.how, f.none, f.dates, bool(f.mean or f.scale)))
    for (how, none, dates, centred), run in alike:
        found = list(run)
        use_mean, use_scale = centred and how in ("none", "standard", "log"), centred and how in ("standard", "log")
        yield Numbers(
            names=tuple(f.name for f in found),
            how=how,
            mean=tuple(f.mean for f in found) if use_mean else (),
            scale=tuple(f.scale for f in found) if use_scale else (),
            knots=tuple(f.knots for f in found) if how == "rank" else (),
            places=tuple(f.places for f in found) if how == "rank" else (),
            flags=tuple(i for i, f in enumerate(found) if f.flag),
            none=none,
            dates=dates,
        )


def signed_log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """sign(x) log(1 + abs(x))."""
    return np.copysign(np.log1p(np.abs(values)), values)


def _moments(nodes: Table, name: str, known: NDArray[np.float64]) -> tuple[float, float]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(known.mean()), float(known.std())
    if not np.isfinite([mean, scale]).all():
        raise GraphshiftError(
            f"{nodes.where}: column {name!r} holds numbers up to {np.abs(known).max():.3g}, too large to compute with. "
            "Take their logarithm or another unit."
        )
    return mean, scale


def _means_missing(known: NDArray[np.float64]) -> float | None:
    """The number that stands for "missing", such as 0 among years or 9999 among ages; None if none does.

    It is the least or the largest one, several rows have it, and it is farther from the rest than the rest is wide.
    """
    low, high = known.min(), known.max()
    for end in (low, high):
        rest = known[known != end]
        if not len(rest) or len(known) - len(rest) < _FEWEST_EQUAL:
            continue
        first, last = (rest.min(), high) if end == low else (low, rest.max())
        with np.errstate(over="ignore"):
            gap, width = abs((first if end == low else last) - end), last - first
        if 0 < width < gap and len(rest) > 0.1 * len(known):  # of mostly zeros the zeros are true
            return float(end)
    return None


def _is_skewed(known: NDArray[np.float64], mean: float, scale: float) -> bool:
    """Whether numbers are as counts of friends or sums of money are: none below 0, most small, some very large."""
    return bool(known.min() >= 0 and known.max() >= 10 and (((known - mean) / scale) ** 3).mean() > _SKEWED)


def _knots(known: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Some values of a column, and their ranks among all of them."""
    values = np.unique(known)
    if len(values) > _KNOTS:
        values = np.unique(np.quantile(known, np.linspace(0, 1, _KNOTS), method="nearest"))
    ordered = np.sort(known)
    below, upto = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return tuple(values.tolist()), tuple(((below + upto) / 2 / len(known)).tolist())

"""How fast something grows: the slope of a straight line through logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import linear_regression


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The b of values ≈ a · sizes^b, by least squares on logarithms; None without two different positive points."""
    points = [(math.log(n), math.log(v)) for n, v in zip(sizes, values, strict=True) if n > 0 and v > 0]
    if len({x for x, _ in points}) < 2:
        return None
    return linear_regression([x for x, _ in points], [y for _, y in points]).slope

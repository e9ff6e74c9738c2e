"""What is said of one block of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graphshift.shift.comparing.parts import Tested


@dataclass(frozen=True)
class Block:
    """One block: features, structure, surroundings, labels or edges.

    Attributes:
        name: of the block.
        measure: what the effect is, in words.
        effect: how large; None where nothing can be said.
        none: the effect if nothing has moved.
        low, high: a 95 % interval of the effect, over parts.
        p: before the correction for the number of blocks; None where nothing was tested.
        corrected: after it (Holm).
        evidence: how far the test is from what exchanges of parts give, in their deviations; blocks are ranked by it.
        moved: whether the corrected p value is below the level.
        says: one sentence with the numbers.
        details: the numbers behind it, as JSON values.
        caveats: what limits it.
    """

    name: str
    measure: str
    effect: float | None = None
    none: float = 0.0
    low: float | None = None
    high: float | None = None
    p: float | None = None
    corrected: float | None = None
    evidence: float = 0.0
    moved: bool = False
    says: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()


def joined(*tests: Tested) -> tuple[float, float]:
    """The p value of several tests of one block (Bonferroni), and the evidence of the strongest."""
    p = min(1.0, len(tests) * min(test.overall for test in tests))
    return p, max(test.evidence for test in tests)

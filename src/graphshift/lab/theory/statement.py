"""A statement of the paper, and what was found of it."""

from __future__ import annotations

from dataclasses import dataclass

EXACT = 1e-9
#: β at which Eq. 4 is near its limit.
SMALL_BETA = 1e-4


@dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes:
        place: where the paper has it.
        says: what it says, in short.
        holds: whether it holds as written in all the cases.
        numbers: what decided, by name.
        evidence: the same in words, with {names} for the numbers.
        needs: what makes it hold; empty if it holds.
        mended: whether ``needs`` makes the statement itself true; if not, it says what is true instead.
    """

    place: str
    says: str
    holds: bool
    numbers: dict[str, float]
    evidence: str
    needs: str = ""
    mended: bool = True

    @property
    def verdict(self) -> str:
        """``holds``, ``needs more`` or ``fails``."""
        return "holds" if self.holds else "needs more" if self.mended else "fails"

    @property
    def shown(self) -> tuple[str, str]:
        """The evidence and what it needs, with their numbers."""
        clean = {name: 0.0 if abs(value) < 1e-12 else value for name, value in self.numbers.items()}
        return self.evidence.format(**clean), self.needs.format(**clean)

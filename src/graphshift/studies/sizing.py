"""How large a recommendation's comparison is: the size of one that is there, and what fits into the time, in words."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note
from graphshift.core.progress import progress_bar
from graphshift.core.storage import read_json
from graphshift.studies.budget import Size, Sizing
from graphshift.studies.notes import PlanNote, RecommendationNote
from graphshift.studies.progress import duration
from graphshift.studies.resolved import ResolvedPlan

#: Settings of a candidate that is made smaller for want of time.
_SMALLER = ("trees", "rows_per_tree")


def kept_sizing(folder: Path, arms: Sequence[Any]) -> Sizing | None:
    """That of the comparison that is there: timing might choose another, and the study could not be resumed."""
    if not (folder / "plan.json").is_file():
        return None
    plan = checked_note(PlanNote, read_json(folder / "plan.json"), where=str(folder / "plan.json"))
    names = [arm.name for arm in plan.arms]
    epochs = next((arm.settings["epochs"] for arm in plan.arms if "epochs" in arm.settings), None)
    if not plan.resample or not isinstance(epochs, int) or not 0 < epochs < 2**31:
        raise GraphshiftError(f"{folder}: holds another study; choose another --out, or replace it (--force).")
    size = Size(len(plan.seeds), plan.trials, epochs, plan.leave_out)
    dropped = {arm.name: "left out when the comparison was begun" for arm in arms if arm.name not in names}
    if (kept := folder / "recommendation.json").is_file():
        known = checked_note(RecommendationNote, read_json(kept), where=str(kept)).dropped
        dropped |= {name: why for name, why in known.items() if name in dropped}
    made = {arm.name: {name: arm.settings[name] for name in _SMALLER if name in arm.settings} for arm in plan.arms}
    return Sizing(size, names, dropped, 0.0, {name: own for name, own in made.items() if own})


@contextmanager
def timing(total: int, *, enabled: bool) -> Iterator[Callable[[int, str], None] | None]:
    """A bar while candidates are timed."""
    if not enabled:
        yield None
        return
    with progress_bar("timing every candidate", total, unit="candidates") as report:
        yield lambda done, name: report({"epoch": done})


def words_on_cuts(sizing: Sizing, epochs: int) -> list[str]:
    """What was made smaller than its defaults for want of time, in words."""
    found = []
    if sizing.size.epochs < epochs:
        found.append(f"For want of time GNNs were trained for {sizing.size.epochs} of {epochs} epochs; give more.")
    for name, own in sizing.smaller.items():
        rows = f", each grown from {own['rows_per_tree']:,} nodes" if own.get("rows_per_tree") else ""
        found.append(f"For want of time {name} had {own['trees']} trees{rows}.")
    return found


def words_on_size(sizing: Sizing, plan: ResolvedPlan, budget: float) -> str:
    """What will be done, in words."""
    size = sizing.size
    tuned = f"{size.trials} tuning trials" if size.trials else "no tuning"
    left = f", {len(plan.left_out)} training environments left out in turn" if size.leave_out and plan.left_out else ""
    seeds = f"{size.seeds} seed{'s' * (size.seeds != 1)}"
    done = f"{len(sizing.arms)} candidates, {seeds}, {tuned}, {size.epochs} epochs{left}"
    if not sizing.seconds:
        return f"{done}: the size of the comparison that is there is kept, whatever the budget; --force starts anew"
    over = sizing.seconds > budget
    taking = f"{done}; about {duration(sizing.seconds)} of {duration(budget)}"
    words = [f"not tried: {name}: {why}" for name, why in sizing.dropped.items()]
    words += words_on_cuts(sizing, size.epochs)
    words += ["even the smallest comparison takes longer than the budget; it is done all the same"] if over else []
    return "\n".join([taking, *words])

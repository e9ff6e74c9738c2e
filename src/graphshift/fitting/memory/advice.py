"""Sizes as people write them, and what to change so that a fit stays below one."""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators import Estimator, GNNEstimator
from graphshift.fitting.memory.estimating import estimate, explorer_class
from graphshift.fitting.memory.machine import resident_bytes
from graphshift.methods.eerm import EERM

_GB = 10**9
_FIXED = ("process", "optimiser")  # parts of an estimate that do not grow with the graph
_IN_BATCH = 4  # parts


def parse_size(text: str, *, where: str = "memory limit") -> int:
    """``4GB``, ``512MB``, ``3.5GiB`` or a number of bytes."""
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)\s*(?:([KMGT])(I?))?B?", text.strip().upper(), re.ASCII)
    # Bytes are whole, and 4G might mean either kind of gigabyte.
    wrong = found is None or (found[2] and not text.strip().upper().endswith("B")) or ("." in found[1] and not found[2])
    if found is None or wrong:
        raise GraphshiftError(f"{where} is {text!r:.80}; expected a size as 4GB, 512MB, 3.5GiB, or a number of bytes.")
    size = int(float(found[1]) * (1024 if found[3] else 1000) ** (" KMGT".index(found[2]) if found[2] else 0))
    if not size:
        raise GraphshiftError(f"{where} is {text!r}; expected more than nothing, as 4GB.")
    return size


def show_size(size: int) -> str:
    """A size for people: ``4.2 GB`` of 10^9 bytes, ``310 MB``."""
    return f"{size / _GB:.1f} GB" if size >= _GB else f"{size / 10**6:.0f} MB"


def advice(data: ShiftDataset, settings: Estimator, goal: int, *, resident: int | None = None) -> str:
    """What to change so that the estimate stays below ``goal`` bytes, each change tried on the estimate.

    Single changes that suffice are named with what they lead to; if none does, all of them together; if that does not
    either, that no setting does.
    """
    resident = resident if resident is not None else resident_bytes()
    single: list[str] = []
    steps: dict[str, dict[str, Any]] = {}
    for ladder in _ladders(settings):
        for flag, changes in ladder:
            size = estimate(data, settings.replace(**changes), resident=resident).total
            if size <= goal:
                single.append(f"{flag} (about {show_size(size)})")
                break
        flag, changes = ladder[-1]
        steps[flag] = changes
    if single:
        return f"What would fit: {', or '.join(single)}."
    for flag in list(steps):  # what changes nothing beside the others is not asked for
        others = {name: changes for name, changes in steps.items() if name != flag}
        if _with(data, settings, others, resident) <= _with(data, settings, steps, resident):
            steps = others
    size, names = _with(data, settings, steps, resident), list(steps)
    if names and size <= goal:
        return f"What would fit: {' '.join(names)} together (about {show_size(size)})."
    least = f" (about {show_size(size)} with {' '.join(names)})" if names else ""
    return f"No setting brings it below{least}. {in_parts(data, settings, goal, resident=resident)}"


def in_parts(data: ShiftDataset, settings: Estimator, goal: int, *, resident: int | None = None) -> str:
    """The commands that train on parts of the graphs, with as many parts as ``goal`` bytes need; or what else to do.

    A batch of four parts is to take half of what there is beside process and weights: its halo takes some, too.
    """
    other = "take a smaller graph, or a machine with more memory."
    if not isinstance(settings, GNNEstimator):
        return other[0].upper() + other[1:]
    found = estimate(data, settings, resident=resident)
    fixed = sum(found.parts.get(name, 0) for name in _FIXED)
    if goal <= fixed:
        return f"The process alone takes about {show_size(fixed)}: take a machine with more memory."
    batches = math.ceil(2 * (found.total - fixed) / (goal - fixed))
    largest = max(e.num_nodes for e in data.train)
    parts = min(_IN_BATCH * batches, largest)
    each = largest * _IN_BATCH // parts
    return (
        f"Train on parts: `graphshift partition DATA --parts {parts} --out FOLDER`, then `graphshift fit FOLDER "
        f"--batch-parts {_IN_BATCH}`: steps on about {each:,} of {largest:,} nodes, about "
        f"{show_size(int(fixed + (found.total - fixed) / batches))} and their halo. Or {other}"
    )


def _with(data: ShiftDataset, settings: Estimator, steps: Mapping[str, dict[str, Any]], resident: int | None) -> int:
    changes = {name: value for step in steps.values() for name, value in step.items()}
    return estimate(data, settings.replace(**changes), resident=resident).total


_Ladder = Sequence[tuple[str, dict[str, Any]]]


def _ladders(settings: Estimator) -> list[_Ladder]:
    """The settings that memory depends on, each with ever smaller values, mildest first."""
    ladders: list[_Ladder] = []
    if isinstance(settings, EERM):
        if not settings.low_memory:
            ladders.append([("--low-memory", {"low_memory": True})])
        explorer = explorer_class(settings)
        option = inspect.signature(explorer).parameters.get("entries_per_node")
        if option is not None:
            entries = settings.explorer_options.get("entries_per_node", option.default)
            room = 64 if entries is None else entries
            fewer = [n for n in _halves(room) if n > settings.edits_per_node] if entries else [64]
            changed = {n: {**settings.explorer_options, "entries_per_node": n} for n in fewer}
            flag = "--explorer-option entries_per_node"
            ladders.append([(f"{flag}={n}", {"explorer_options": options}) for n, options in changed.items()])
        ladders.append([(f"--views {n}", {"views": n}) for n in range(settings.views - 1, 1, -1)])
        if explorer.edits_edges:
            ladders.append([(f"--edits-per-node {n}", {"edits_per_node": n}) for n in _halves(settings.edits_per_node)])
    if isinstance(settings, GNNEstimator):
        ladders.append([(f"--hidden {n}", {"hidden_channels": n}) for n in _halves(settings.hidden_channels) if n >= 4])
    return [ladder for ladder in ladders if ladder]


def _halves(number: int) -> list[int]:
    return [number >> k for k in range(1, number.bit_length())]

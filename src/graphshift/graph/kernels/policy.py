"""Drawing from the explorers' softmax policy and learning it: ``policy.c``, and the same in torch.

:class:`~graphshift.explorers.SparsePolicy` says what the policy is.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import counter_hash, unit_interval
from graphshift.graph.kernels import native
from graphshift.graph.kernels.checks import Within, check_draws, check_finite, check_other_nodes, check_within

LOGIT, FIRST, SECOND = 0, 1, 2
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # torch.optim.AdamW's defaults
_CHUNK = 1 << 22  # slots that the torch version compares at a time
_NEAR = 8.0  # how far the largest logit of a row may be from the number that is taken off before exp


@dataclass(frozen=True)
class PolicyTable:
    """The state of a policy over N nodes, with room for W entries in a row. :func:`policy_learn` changes it in place.

    Columns are numbered without the diagonal: slot j of row n is column j + (j >= n). With ``within`` they are those of
    the node's own small graph alone, and slots count from its first node.

    Attributes:
        count: entries in use in each row; ``[N]``, int32.
        hand: where a full row looks for room next; ``[N]``, int32.
        slot: whose entry it is, −1 where unused; ``[N, W]``, int32.
        entry: logit (−∞ where unused) and Adam's two moments of every entry; ``[N, 3, W]``.
        shared: the same three numbers of all other slots of a row; ``[3, N]``.
        top: a number near the row's largest logit, so that nothing overflows; ``[N]``.
        mass: Σ exp(logit − top) over the row's entries; ``[N]``.
        within: the nodes that each may be joined to; None for all. It does not change.
    """

    count: Tensor
    hand: Tensor
    slot: Tensor
    entry: Tensor
    shared: Tensor
    top: Tensor
    mass: Tensor
    within: Within | None = None

    @property
    def slots(self) -> Tensor:
        """The slots of each row: N − 1, or as many as its graph has other nodes; ``[N]``, int32."""
        if self.within is None:
            return torch.full_like(self.count, self.count.numel() - 1)
        return self.within.size - 1

    @property
    def arrays(self) -> dict[str, Tensor]:
        """What changes, by name, in the order of the C functions."""
        return {name: tensor for name, tensor in vars(self).items() if name != "within"}

    @property
    def ranges(self) -> tuple[Tensor | None, Tensor | None]:
        """``within`` as the C functions take it."""
        return self.within or (None, None)

    @property
    def is_native(self) -> bool:
        """Whether the C kernels can take it."""
        return native.fits(self.entry, *(self.within or ()), count=self.count.numel())


def check_table(table: PolicyTable) -> None:
    """Checks a policy's state that comes from outside, as from a checkpoint: C would follow any number in it."""
    nodes, width = table.count.numel(), table.slot.shape[-1]
    shapes = {"count": (nodes,), "hand": (nodes,), "slot": (nodes, width), "entry": (nodes, 3, width)}
    shapes |= {"shared": (3, nodes), "top": (nodes,), "mass": (nodes,)}
    for name, shape in shapes.items():
        tensor, kind = getattr(table, name), torch.int32 if name in ("count", "hand", "slot") else table.entry.dtype
        if tuple(tensor.shape) != shape or tensor.dtype != kind or not table.entry.is_floating_point():
            found = f"{tensor.dtype} of shape {list(tensor.shape)}"
            raise GraphshiftError(f"policy: `{name}` is {found}; expected {kind} of shape {list(shape)}.")
    check_within(table.within, nodes)
    used, slots = torch.arange(width) < table.count.unsqueeze(1), table.slots
    right = {
        "count": bool(((table.count >= 0) & (table.count <= slots.clamp(min=0, max=width))).all()),
        "hand": bool(((table.hand >= 0) & (table.hand < max(width, 1))).all()),
        "slot": bool(torch.where(used, (table.slot >= 0) & (table.slot < slots.unsqueeze(1)), table.slot == -1).all()),
        "entry": bool(torch.isfinite(table.entry).all(dim=1)[used].all()) and bool((table.entry[:, SECOND] >= 0).all()),
        "shared": bool(torch.isfinite(table.shared).all()) and bool((table.shared[SECOND] >= 0).all()),
        "top": bool(torch.isfinite(table.top).all()),
        "mass": bool((torch.isfinite(table.mass) & (table.mass >= 0)).all()),
    }
    if right["count"] and right["slot"]:
        ordered = table.slot.sort(dim=1).values
        right["slot"] = not bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any())  # each once
    if all(right.values()):
        logit = table.entry[:, LOGIT].masked_fill(~used, -math.inf)
        largest = torch.where(table.count < slots, table.shared[LOGIT], -math.inf)
        largest = torch.maximum(largest, logit.amax(dim=1)) if width else largest
        near = ((largest - table.top).abs() <= _NEAR + 1) | (slots < 1)
        right["top"] = bool(near.all())
        right["mass"] = torch.allclose((logit - table.top.unsqueeze(1)).exp().sum(dim=1), table.mass, 0.01, 1e-6)
    if wrong := [name for name, fine in right.items() if not fine]:
        raise GraphshiftError(f"policy: `{wrong[0]}` holds numbers that no policy has; the file is damaged.")


def _check_alive(table: PolicyTable) -> None:
    """Checks that the policy still is one: a NaN or an infinity anywhere comes to these sums, in linear time."""
    if not all(math.isfinite(float(one.sum())) for one in (table.mass, table.top, table.shared[LOGIT])):
        raise GraphshiftError(
            "the explorer's policy became NaN or infinite: a reward or a learning rate was too large. Lower "
            "explorer_lr, or reset() the explorer."
        )


def policy_draw(table: PolicyTable, draws: int, seed: int) -> tuple[Tensor, Tensor | None, float]:
    """Draws columns for every row, independently with replacement.

    Returns:
        The columns, ``[N, draws]``, int32; where each has its entry (−1: none), which the torch version does not say;
        log p of all draws.
    """
    check_draws(table.count.numel(), draws)
    _check_alive(table)
    if not table.is_native:
        return _draw_in_torch(table, draws, seed)
    nodes, width = table.slot.shape
    actions, place = (torch.empty(nodes, draws, dtype=torch.int32) for _ in range(2))
    state = (*table.ranges, table.count, table.slot, table.entry, table.shared, table.top, table.mass)
    log_prob = native.call("policy_draw_within", nodes, draws, width, *state, seed, actions, place)
    return actions, place, float(log_prob)


class Step(NamedTuple):
    """A step of the optimiser.

    Attributes:
        reward: what multiplies the gradient.
        adam: Adam, or plain gradient ascent.
        decay: what logits are multiplied by first.
        rate: the step's length, Adam's correction of the first moment included.
        root: Adam's correction of the second moment's root.
    """

    reward: float
    adam: bool
    decay: float
    rate: float
    root: float


def policy_learn(table: PolicyTable, columns: Tensor, place: Tensor | None, step: Step) -> int:
    """One step on all rows, in place, where there is room for new columns; gives the longest row's count of entries.

    ``columns`` and ``place`` are as :func:`policy_draw` gave them, if nothing was learned since; place None to look.
    """
    check_finite(step.reward, what="reward")
    nodes, width = table.slot.shape
    check_draws(nodes, columns.shape[1])
    if place is None:  # else they were drawn just now
        check_other_nodes(columns, nodes, table.within)
    if not table.is_native:
        _learn_in_torch(table, columns, *step)
        _check_alive(table)
        return int(table.count.max())
    actions = columns.to(torch.int32).contiguous()
    found = torch.empty_like(actions) if place is None else place
    gradient = torch.empty(max(width, 1), dtype=torch.float32)
    given = (*table.ranges, *table.arrays.values(), actions, *step, place is not None, found, gradient)
    longest = int(native.call("policy_learn_within", nodes, actions.shape[1], width, *given))
    _check_alive(table)
    return longest


def policy_log_prob(table: PolicyTable, columns: Tensor) -> float:
    """log p of the given draws, ``[N, draws]``: the sum over rows and draws."""
    place = _find(table, _slots_of(table, columns))
    logit = table.shared[LOGIT].unsqueeze(1).expand(place.shape)
    if table.slot.shape[1]:
        logit = torch.where(place >= 0, table.entry[:, LOGIT].gather(1, place.clamp(min=0)), logit)
    _, total = _masses(table)
    return _log_prob(table, logit, total.unsqueeze(1))


def _log_prob(table: PolicyTable, logit: Tensor, total: Tensor) -> float:
    """The sum of the logarithms of exp(logit − top) / total; a node that is alone draws nothing."""
    found = (logit - table.top.unsqueeze(1)).double() - total.log()
    return float((found if table.within is None else found[~table.within.alone]).sum())


def _rows(nodes: int) -> Tensor:
    return torch.arange(nodes).unsqueeze(1)


def _slots_of(table: PolicyTable, columns: Tensor) -> Tensor:
    slots = columns - (columns > _rows(columns.shape[0])).to(columns.dtype)
    return slots if table.within is None else slots - table.within.begin.unsqueeze(1)


def _columns_of(table: PolicyTable, slots: Tensor) -> Tensor:
    if table.within is None:
        return (slots + (slots >= _rows(slots.shape[0]))).int()
    places = slots + table.within.begin.unsqueeze(1)
    columns = places + (places >= _rows(slots.shape[0]))
    return torch.where(table.within.alone.unsqueeze(1), _rows(slots.shape[0]), columns).int()


def _find(table: PolicyTable, slots: Tensor) -> Tensor:
    """Where each slot has its entry in its row, or −1. ``slots``: ``[N, any]``."""
    place = torch.full(slots.shape, -1)
    for t in range(slots.shape[1] if table.slot.shape[1] else 0):
        same = table.slot == slots[:, t : t + 1]
        place[:, t] = torch.where(same.any(dim=1), same.int().argmax(dim=1), -1)
    return place


def _masses(table: PolicyTable) -> tuple[Tensor, Tensor]:
    """exp(logit − top) of each single untouched slot of a row, and the sum over all its slots; float64."""
    free = table.slots - table.count
    single = torch.where(free > 0, (table.shared[LOGIT] - table.top).exp(), 0.0).double()
    return single, table.mass.double() + free * single


def _draw_in_torch(table: PolicyTable, draws: int, seed: int) -> tuple[Tensor, None, float]:
    nodes, slots = table.count.numel(), table.slots.unsqueeze(1)
    bits = counter_hash(seed, torch.arange(nodes * draws)).view(nodes, draws)
    single, total = (t.unsqueeze(1) for t in _masses(table))
    mass, free = table.mass.double().unsqueeze(1), slots - table.count.unsqueeze(1)
    at = unit_interval(bits) * total
    touched = ((at < mass) & (table.count.unsqueeze(1) > 0)) | (single == 0)  # of a node that is alone too
    share = torch.where(touched, 0.0, (at - mass) / (total - mass))
    slot = torch.minimum((share * slots).long(), slots - 1)
    # An untouched slot: drawn again while it has an entry, or, where most have one, by its rank among the rest:
    # the least x with x = rank + #(touched slots ≤ x).
    crowded = 2 * free < slots
    rank = torch.minimum((share * free).long(), free - 1)
    part = max(_CHUNK // max(table.slot.shape[1], 1), 1)
    for row, t in (places.unbind(1) for places in (~touched & ~crowded).nonzero().split(part)):
        while (again := (table.slot[row] == slot[row, t].unsqueeze(1)).any(dim=1)).any():
            row, t = row[again], t[again]
            bits[row, t] = counter_hash(bits[row, t], torch.zeros(row.numel(), dtype=torch.int64))
            slot[row, t] = (unit_interval(bits[row, t]) * slots[row, 0]).long()
    for row, t in (places.unbind(1) for places in (~touched & crowded).nonzero().split(part)):
        slot[row, t] = rank[row, t]
        while row.numel():
            below = (table.slot[row] >= 0) & (table.slot[row] <= slot[row, t].unsqueeze(1))
            found = rank[row, t] + below.sum(dim=1)
            moved = found != slot[row, t]
            slot[row, t] = found
            row, t = row[moved], t[moved]
    logit = table.shared[LOGIT].unsqueeze(1).expand(at.shape)
    if table.slot.shape[1]:
        weight = (table.entry[:, LOGIT] - table.top.unsqueeze(1)).exp()
        place = torch.searchsorted(weight.double().cumsum(dim=1), at, right=True)
        place = torch.minimum(place, table.count.unsqueeze(1) - 1).clamp(min=0)
        slot = torch.where(touched, table.slot.gather(1, place).long(), slot)
        logit = torch.where(touched, table.entry[:, LOGIT].gather(1, place), logit)
    return _columns_of(table, slot), None, _log_prob(table, logit, total)


def _learn_in_torch(
    table: PolicyTable, columns: Tensor, reward: float, adam: bool, decay: float, rate: float, root: float
) -> None:
    if table.within is not None and bool(table.within.alone.any()):
        _learn_without_the_alone(table, columns, (reward, adam, decay, rate, root))
        return
    single, total = _masses(table)  # of the policy that drew
    dtype = table.top.dtype
    place = _touch(table, _slots_of(table, columns))
    pull = (reward * columns.shape[1] / total).to(dtype)
    rate = min(rate, torch.finfo(dtype).max)  # torch refuses larger factors
    # Optimisers minimise, so they are given the negative gradient.
    gradient = (table.entry[:, LOGIT] - table.top.unsqueeze(1)).exp() * pull.unsqueeze(1)
    gradient.scatter_add_(1, place, torch.full_like(place, -reward, dtype=gradient.dtype))
    for state, slope in ((table.shared, pull * single.to(dtype)), (table.entry.transpose(0, 1), gradient)):
        # Weight decay first: a product keeps the −∞ of unused places, a difference would not.
        state[LOGIT].mul_(decay)
        if adam:
            state[FIRST].lerp_(slope, 1 - BETA1)
            state[SECOND].mul_(BETA2).addcmul_(slope, slope, value=1 - BETA2)
            state[LOGIT].addcdiv_(state[FIRST], (state[SECOND].sqrt() * root).add_(EPS), value=-rate)
        else:
            state[LOGIT].sub_(slope, alpha=rate)
    logit = table.entry[:, LOGIT]
    largest = torch.where(table.count < table.slots, table.shared[LOGIT], -math.inf)
    if logit.shape[1]:
        largest = torch.maximum(largest, logit.amax(dim=1))
    table.top.copy_(torch.where((largest - table.top).abs() < _NEAR, table.top, largest))
    table.mass.copy_((logit - table.top.unsqueeze(1)).exp().sum(dim=1))


def _learn_without_the_alone(
    table: PolicyTable, columns: Tensor, step: tuple[float, bool, float, float, float]
) -> None:
    """The step on the rows of nodes that have others; the rest drew nothing and stays as it is."""
    assert table.within is not None
    rows = (~table.within.alone).nonzero().squeeze(1)
    parts = {name: tensor[:, rows] if name == "shared" else tensor[rows] for name, tensor in table.arrays.items()}
    # Numbered among themselves, nodes keep their distance to the first of their graph.
    moved = torch.arange(rows.numel(), dtype=torch.int32) - rows.int()
    within = Within(table.within.begin[rows] + moved, table.within.size[rows])
    part = PolicyTable(**parts, within=within)
    _learn_in_torch(part, columns[rows] + moved.unsqueeze(1), *step)
    for name, tensor in table.arrays.items():
        if name == "shared":
            tensor[:, rows] = parts[name]
        else:
            tensor[rows] = parts[name]


def _touch(table: PolicyTable, slots: Tensor) -> Tensor:
    """Gives every slot an entry, which starts as a copy of its row's shared state; returns where it is."""
    place = _find(table, slots)
    width = table.slot.shape[1]
    for t in range(slots.shape[1]):
        for earlier in range(t):  # drawn twice in this step: the entry was just made
            place[:, t] = torch.where(slots[:, t] == slots[:, earlier], place[:, earlier], place[:, t])
        row = (place[:, t] < 0).nonzero().squeeze(1)
        full = row[table.count[row] == width]
        row = row[table.count[row] < width]
        place[row, t] = table.count[row].long()
        table.count[row] += 1
        while full.numel():
            one = table.hand[full].long()
            other = (one + 1) % width
            table.hand[full] = ((other + 1) % width).int()
            keep = [(place[full] == choice.unsqueeze(1)).any(dim=1) for choice in (one, other)]  # drawn just now
            logit = [table.entry[full, LOGIT, choice] for choice in (one, other)]
            first = ~keep[0] & (keep[1] | (logit[0] <= logit[1]))
            chosen = torch.where(first, one, other)
            found = first | ~keep[1]
            place[full[found], t] = chosen[found]
            row, full = torch.cat([row, full[found]]), full[~found]
        at = place[row, t]
        table.slot[row, at] = slots[row, t].int()
        table.entry[row, :, at] = table.shared[:, row].t()
    return place

"""The part of a policy that is about the pairs of nodes in a batch, as a policy over the batch."""

import math

import torch
from torch import Tensor

from graphshift.explorers.policy import SparsePolicy
from graphshift.graph.kernels.policy import FIRST, LOGIT, PolicyTable


class PolicyPart:
    """Rows of a policy with the columns that are in a batch, and the way back.

    A row's softmax is taken over the batch's other nodes: p(m | m in the batch). What is learned goes back to the whole
    policy by the nodes' numbers there, so pairs that meet again in another batch have what they learned. Two things
    differ from one policy over one graph, since that would need a number for every pair: columns without an entry of
    their own share one logit, also those that were not in the batch; and Adam counts all steps, as
    ``torch.optim.SparseAdam`` does, also those that a row was not in. With all nodes in the batch nothing differs.

    Args:
        whole: the policy.
        rows: the batch's nodes, increasing.
    """

    def __init__(self, whole: SparsePolicy, rows: Tensor) -> None:
        self.whole, self.rows = whole, rows
        how = {"optimizer": whole.optimizer, "lr": whole.lr, "weight_decay": whole.weight_decay}
        table, count = whole._table, len(rows)
        column = _columns(table.slot[rows], rows)
        place = torch.searchsorted(rows, column.clamp(min=0)).clamp(max=count - 1)
        here = (column >= 0) & (rows[place] == column)
        order = (~here).int().argsort(dim=1, stable=True)  # those of the batch first, in their order
        kept = here.gather(1, order)
        slot = _slots(place.gather(1, order), torch.arange(count)).masked_fill(~kept, -1)
        every = order.unsqueeze(1).expand(-1, 3, -1)
        entry = table.entry[rows].gather(2, every)
        entry = torch.where(kept.unsqueeze(1), entry, _EMPTY.to(entry.dtype))
        #: Entries about nodes that are not in the batch: they wait.
        self._waiting = (column.masked_fill(here, -1), table.entry[rows])
        self.policy = SparsePolicy(count, max_entries=whole.max_entries, dtype=entry.dtype, **how)  # type: ignore[arg-type]
        shared = table.shared[:, rows].clone()
        longest, number = int(here.sum(dim=1).max()) if here.numel() else 0, here.sum(dim=1).int()
        slot, entry = slot[:, :longest].int(), entry[:, :, :longest].contiguous()
        top, mass = _normalised(shared[LOGIT], entry[:, LOGIT], number < count - 1)
        state = PolicyTable(number, torch.zeros_like(number), slot.contiguous(), entry, shared, top, mass)
        self.policy._table, self.policy._longest, self.policy.steps = state, longest, whole.steps

    def put_back(self) -> None:
        """Writes into the whole policy what the batch's has learned."""
        whole, rows, own = self.whole, self.rows, self.policy._table
        used = torch.arange(own.slot.shape[1]) < own.count.unsqueeze(1)
        local = own.slot.long() + (own.slot >= torch.arange(len(rows)).unsqueeze(1)).long()
        column = torch.cat([rows[local.clamp(min=0)].masked_fill(~used, -1), self._waiting[0]], dim=1)
        entry = torch.cat([own.entry, self._waiting[1]], dim=2)
        # Where a row has more than it may, entries that wait give way, the least likely first.
        rank = torch.cat([torch.full(used.shape, math.inf, dtype=entry.dtype), self._waiting[1][:, LOGIT]], dim=1)
        rank = rank.masked_fill(column < 0, -math.inf)
        most = whole.slots if whole.max_entries is None else min(whole.max_entries, whole.slots)
        number = (column >= 0).sum(dim=1).clamp(max=max(most, own.slot.shape[1]))
        longest = int(number.max())
        order = rank.argsort(dim=1, descending=True, stable=True)[:, :longest]
        kept = torch.arange(longest) < number.unsqueeze(1)
        whole.make_room(longest, max(most, longest))
        table = whole._table
        slot = _slots(column.gather(1, order), rows).masked_fill(~kept, -1)
        values = entry.gather(2, order.unsqueeze(1).expand(-1, 3, -1))
        values = torch.where(kept.unsqueeze(1), values, _EMPTY.to(values.dtype))
        table.slot[rows] = -1
        table.slot[rows, :longest] = slot.int()
        table.entry[rows] = _EMPTY.to(values.dtype)
        table.entry[rows, :, :longest] = values
        table.count[rows] = number.int()
        table.shared[:, rows] = own.shared
        top, mass = _normalised(own.shared[LOGIT], table.entry[rows, LOGIT], number < whole.slots)
        table.top[rows], table.mass[rows] = top, mass
        whole.steps, whole._longest = self.policy.steps, max(whole._longest, longest)
        whole._drawn = (None, 0, None)


_EMPTY = torch.tensor([-math.inf if i == LOGIT else 0.0 for i in range(FIRST + 2)]).view(1, 3, 1)


def _columns(slot: Tensor, rows: Tensor) -> Tensor:
    """The column of each slot of some rows, without the diagonal; −1 where there is none."""
    return torch.where(slot >= 0, slot + (slot >= rows.unsqueeze(1)).int(), -1).long()


def _slots(column: Tensor, rows: Tensor) -> Tensor:
    """The slot of each column of some rows."""
    return column - (column > rows.unsqueeze(1)).long()


def _normalised(shared: Tensor, logit: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit of each row, and Σ exp(logit − it) over its entries; ``free``: has columns without an entry."""
    top = torch.where(free, shared, -math.inf) if logit.shape[1] else shared.clone()
    top = torch.maximum(top, logit.amax(dim=1)) if logit.shape[1] else top
    return top, (logit - top.unsqueeze(1)).exp().sum(dim=1)

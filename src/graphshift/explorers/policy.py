"""The paper's softmax policy over all N × N pairs, exact, without the N × N matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import counter_hash, draw_seed, unit_interval
from graphshift.graph import kernels

_LOGIT, _FIRST, _SECOND = 0, 1, 2
_NEAR = 8.0  # how far the largest logit of a row may be from the number that is taken off before exp


class SparsePolicy:
    """A row-wise softmax over all edits, p(a_nm) = exp(π_nm) / Σ_m' exp(π_nm') (Appendix A), and its optimiser.

    The paper stores π as a dense matrix. It is not needed: all logits of a row start equal, the policy gradient of
    columns that were never drawn is equal, and SGD, Adam and weight decay keep equal parameters with equal histories
    equal. So a row is, exactly, one shared logit for its untouched columns and one entry for each touched column.
    Memory and time grow with what was touched: at most nodes × draws new entries a step.

    ``max_entries`` bounds them. It changes nothing until a row is full. Then a new entry takes the place of the less
    likely of two old ones, in turn, whose column goes back to the untouched rest with its shared logit: what the policy
    had learned about that column is forgotten.

    Columns are numbered without the diagonal: slot j of row n is column j + (j >= n), so a self-loop cannot be drawn.
    Rows are worked on one after the other by kernels in C (``native/policy.c``); the methods that end in ``_plainly``
    do the same in torch, for other number types and where there are no kernels.

    Args:
        num_nodes: N, at least 2.
        optimizer: ``"adam"`` (decoupled weight decay, as ``torch.optim.AdamW``) or ``"sgd"`` (as ``torch.optim.SGD``).
        lr: the learning rate α_g.
        weight_decay: of the logits.
        max_entries: how many entries a row may have; None for no bound.
        dtype: of the logits and the optimiser's state.
    """

    _BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # torch.optim.AdamW's defaults
    _LEAST = 16  # entries that a row has room for at first; the room doubles when it is full

    def __init__(
        self,
        num_nodes: int,
        *,
        optimizer: str = "adam",
        lr: float = 0.005,
        weight_decay: float = 0.0,
        max_entries: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if optimizer not in ("adam", "sgd"):
            raise GraphshiftError(f"explorer optimizer is {optimizer!r}; expected 'adam' or 'sgd'.")
        if not lr * weight_decay < 1:
            raise GraphshiftError(
                f"explorer lr × weight_decay is {lr * weight_decay}; expected below 1, where a step forgets everything."
            )
        if max_entries is not None and max_entries < 1:
            raise GraphshiftError(f"explorer max_entries is {max_entries}; expected at least 1, or None.")
        self.num_nodes, self.slots = num_nodes, num_nodes - 1
        self.optimizer, self.lr, self.weight_decay, self.max_entries = optimizer, lr, weight_decay, max_entries
        self.steps = 0
        self._count = torch.zeros(num_nodes, dtype=torch.int32)  # entries in use; the others have slot −1, logit −∞
        self._longest = 0  # the most of them in any row
        self._hand = torch.zeros(num_nodes, dtype=torch.int32)  # where a full row looks for room next
        self._slot = torch.empty(num_nodes, 0, dtype=torch.int32)
        self._entry = torch.zeros(num_nodes, 3, 0, dtype=dtype)  # logit and Adam's two moments
        self._shared = torch.zeros(3, num_nodes, dtype=dtype)  # the same of all other slots of a row
        # mass = Σ exp(logit − top) over the entries of a row, and top is near its largest logit: nothing overflows.
        self._top = torch.zeros(num_nodes, dtype=dtype)
        # The latest draw, its version, and where its entries are.
        self._drawn: tuple[Tensor | None, int, Tensor | None] = (None, 0, None)
        self._mass = torch.zeros(num_nodes, dtype=dtype)

    @property
    def touched(self) -> int:
        """How many columns have an entry of their own, over all rows."""
        return int(self._count.sum())

    @property
    def num_bytes(self) -> int:
        """The memory that the policy and its optimiser hold."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._tensors().values())

    def sample(self, draws: int, generator: torch.Generator) -> Tensor:
        """Draws columns for every row, independently with replacement: ``[nodes, draws]``, int32."""
        return self.draw(draws, generator)[0]

    def draw(self, draws: int, generator: torch.Generator) -> tuple[Tensor, float]:
        """Draws as :meth:`sample` and gives log p of what was drawn, at no further cost."""
        seed = draw_seed(generator)
        if not self._is_native:
            return self._draw_plainly(draws, seed)
        columns, place, log_prob = kernels.policy_draw(
            draws,
            seed,
            count=self._count,
            slot=self._slot,
            entry=self._entry,
            shared=self._shared,
            top=self._top,
            mass=self._mass,
        )
        self._drawn = (columns, columns._version, place)
        return columns, log_prob

    def log_prob(self, columns: Tensor) -> float:
        """log p of the given draws, ``[nodes, draws]``: the sum over rows and draws."""
        place = self._find(self._slots_of(columns))
        logit = self._shared[_LOGIT].unsqueeze(1).expand(place.shape)
        if self._slot.shape[1]:
            logit = torch.where(place >= 0, self._entry[:, _LOGIT].gather(1, place.clamp(min=0)), logit)
        _, total = self._masses()
        return float(((logit - self._top.unsqueeze(1)).double() - total.log().unsqueeze(1)).sum())

    def reinforce(self, columns: Tensor, reward: float) -> None:
        """One step of gradient ascent on reward · log p(columns): Alg. 1, line 6.

        ∂ log p / ∂ π_nm = #(m drawn by n) − s p_nm, for every m of the row.

        Args:
            columns: the actions, ``[nodes, draws]``.
            reward: what multiplies the gradient.
        """
        if columns.dim() != 2 or columns.shape[0] != self.num_nodes:
            raise GraphshiftError(
                f"columns have shape {list(columns.shape)}; expected a row for each of {self.num_nodes} nodes."
            )
        self._reserve(columns.shape[1])
        self.steps += 1
        adam = self.optimizer == "adam"
        decay = 1 - self.lr * self.weight_decay
        rate = self.lr / (1 - self._BETA1**self.steps) if adam else self.lr
        root = 1 / math.sqrt(1 - self._BETA2**self.steps)
        if not self._is_native:
            self._learn_plainly(columns, reward, adam, decay, rate, root)
            self._longest = int(self._count.max())
            return
        # Learning from what was just drawn, and not changed since, need not look for its entries.
        drawn, version, place = self._drawn
        place = place if columns is drawn and columns._version == version else None
        self._drawn = (None, 0, None)
        self._longest = kernels.policy_learn(
            columns,
            place,
            reward,
            adam=adam,
            decay=decay,
            rate=rate,
            root=root,
            count=self._count,
            hand=self._hand,
            slot=self._slot,
            entry=self._entry,
            shared=self._shared,
            top=self._top,
            mass=self._mass,
        )

    def dense_logits(self) -> Tensor:
        """The N × N matrix that the policy stands for, −∞ on the diagonal. For tests and small pictures only."""
        logits = self._shared[_LOGIT].unsqueeze(1).repeat(1, self.slots)
        row, place = (self._slot >= 0).nonzero(as_tuple=True)
        logits[row, self._slot[row, place].long()] = self._entry[row, _LOGIT, place]
        full = torch.full((self.num_nodes, self.num_nodes), -math.inf, dtype=logits.dtype)
        full[~torch.eye(self.num_nodes, dtype=torch.bool)] = logits.flatten()
        return full

    def state(self) -> dict[str, Tensor]:
        """The learned state as tensors, a copy: later steps, which work in place, leave it untouched."""
        return {name: tensor.clone() for name, tensor in self._tensors().items()} | {"steps": torch.tensor(self.steps)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave; later steps leave that untouched."""
        for name in self._tensors():
            setattr(self, f"_{name}", state[name].clone())
        self._drawn = (None, 0, None)
        self.steps, self._longest = int(state["steps"]), int(self._count.max())

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "count": self._count,
            "hand": self._hand,
            "slot": self._slot,
            "entry": self._entry,
            "shared": self._shared,
            "top": self._top,
            "mass": self._mass,
        }

    @property
    def _is_native(self) -> bool:
        return kernels.fits(self._entry, count=self.num_nodes)

    def _rows(self) -> Tensor:
        return torch.arange(self.num_nodes).unsqueeze(1)

    def _slots_of(self, columns: Tensor) -> Tensor:
        return columns - (columns > self._rows()).to(columns.dtype)

    def _find(self, slots: Tensor) -> Tensor:
        """Where each slot has its entry in its row, or −1. ``slots``: ``[nodes, any]``."""
        place = torch.full(slots.shape, -1)
        for t in range(slots.shape[1] if self._slot.shape[1] else 0):
            same = self._slot == slots[:, t : t + 1]
            place[:, t] = torch.where(same.any(dim=1), same.int().argmax(dim=1), -1)
        return place

    def _masses(self) -> tuple[Tensor, Tensor]:
        """exp(logit − top) of each single untouched slot of a row, and the sum over all its slots; float64."""
        free = self.slots - self._count
        single = torch.where(free > 0, (self._shared[_LOGIT] - self._top).exp(), 0.0).double()
        return single, self._mass.double() + free * single

    def _reserve(self, draws: int) -> None:
        """Makes room for as many new entries in every row, up to the bound."""
        capacity = self._slot.shape[1]
        bound = self.slots if self.max_entries is None else min(max(self.max_entries, draws + 1), self.slots)
        length = min(self._longest + draws, bound)
        if length <= capacity:
            return
        extra = min(max(length, 2 * capacity, self._LEAST), bound) - capacity
        self._slot = torch.nn.functional.pad(self._slot, (0, extra), value=-1)
        self._entry = torch.nn.functional.pad(self._entry, (0, extra))
        self._entry[:, _LOGIT, capacity:] = -math.inf

    def _draw_plainly(self, draws: int, seed: int) -> tuple[Tensor, float]:
        bits = counter_hash(seed, torch.arange(self.num_nodes * draws)).view(self.num_nodes, draws)
        single, total = (t.unsqueeze(1) for t in self._masses())
        mass, free = self._mass.double().unsqueeze(1), (self.slots - self._count).unsqueeze(1)
        at = unit_interval(bits) * total
        touched = ((at < mass) & (self._count.unsqueeze(1) > 0)) | (single == 0)
        share = (at - mass) / (total - mass)
        slot = torch.minimum((share * self.slots).long(), torch.tensor(self.slots - 1))
        # An untouched slot: drawn again while it has an entry, or, where most have one, by its rank among the rest:
        # the least x with x = rank + #(touched slots ≤ x).
        crowded = 2 * free < self.slots
        rank = torch.minimum((share * free).long(), free - 1)
        for t in range(draws):
            row = (~touched & ~crowded)[:, t].nonzero().squeeze(1)
            while (row := row[(self._slot[row] == slot[row, t].unsqueeze(1)).any(dim=1)]).numel():
                bits[row, t] = counter_hash(bits[row, t], torch.zeros(row.numel(), dtype=torch.int64))
                slot[row, t] = (unit_interval(bits[row, t]) * self.slots).long()
            row = (~touched & crowded)[:, t].nonzero().squeeze(1)
            slot[row, t] = rank[row, t]
            while row.numel():
                below = (self._slot[row] >= 0) & (self._slot[row] <= slot[row, t].unsqueeze(1))
                found = rank[row, t] + below.sum(dim=1)
                moved = found != slot[row, t]
                slot[row, t] = found
                row = row[moved]
        logit = self._shared[_LOGIT].unsqueeze(1).expand(at.shape)
        if self._slot.shape[1]:
            weight = (self._entry[:, _LOGIT] - self._top.unsqueeze(1)).exp()
            place = torch.searchsorted(weight.double().cumsum(dim=1), at, right=True)
            place = torch.minimum(place, self._count.unsqueeze(1) - 1).clamp(min=0)
            slot = torch.where(touched, self._slot.gather(1, place).long(), slot)
            logit = torch.where(touched, self._entry[:, _LOGIT].gather(1, place), logit)
        log_prob = float(((logit - self._top.unsqueeze(1)).double() - total.log()).sum())
        return (slot + (slot >= self._rows())).int(), log_prob

    def _learn_plainly(
        self, columns: Tensor, reward: float, adam: bool, decay: float, rate: float, root: float
    ) -> None:
        single, total = self._masses()  # of the policy that drew
        top, dtype = self._top.unsqueeze(1), self._top.dtype
        place = self._touch(self._slots_of(columns))
        pull = (reward * columns.shape[1] / total).to(dtype)
        # Optimisers minimise, so they are given the negative gradient.
        gradient = (self._entry[:, _LOGIT] - top).exp() * pull.unsqueeze(1)
        gradient.scatter_add_(1, place, torch.full_like(place, -reward, dtype=gradient.dtype))
        for state, slope in ((self._shared, pull * single.to(dtype)), (self._entry.transpose(0, 1), gradient)):
            # Weight decay first: a product keeps the −∞ of unused places, a difference would not.
            state[_LOGIT].mul_(decay)
            if adam:
                state[_FIRST].lerp_(slope, 1 - self._BETA1)
                state[_SECOND].mul_(self._BETA2).addcmul_(slope, slope, value=1 - self._BETA2)
                state[_LOGIT].addcdiv_(state[_FIRST], (state[_SECOND].sqrt() * root).add_(self._EPS), value=-rate)
            else:
                state[_LOGIT].sub_(slope, alpha=rate)
        logit = self._entry[:, _LOGIT]
        largest = torch.where(self._count < self.slots, self._shared[_LOGIT], -math.inf)
        if logit.shape[1]:
            largest = torch.maximum(largest, logit.amax(dim=1))
        self._top = torch.where((largest - self._top).abs() < _NEAR, self._top, largest)
        self._mass = (logit - self._top.unsqueeze(1)).exp().sum(dim=1)

    def _touch(self, slots: Tensor) -> Tensor:
        """Gives every slot an entry, which starts as a copy of its row's shared state; returns where it is."""
        place = self._find(slots)
        width = self._slot.shape[1]
        for t in range(slots.shape[1]):
            for earlier in range(t):  # drawn twice in this step: the entry was just made
                place[:, t] = torch.where(slots[:, t] == slots[:, earlier], place[:, earlier], place[:, t])
            row = (place[:, t] < 0).nonzero().squeeze(1)
            full = row[self._count[row] == width]
            row = row[self._count[row] < width]
            place[row, t] = self._count[row].long()
            self._count[row] += 1
            while full.numel():
                one = self._hand[full].long()
                other = (one + 1) % width
                self._hand[full] = ((other + 1) % width).int()
                keep = [(place[full] == choice.unsqueeze(1)).any(dim=1) for choice in (one, other)]  # drawn just now
                logit = [self._entry[full, _LOGIT, choice] for choice in (one, other)]
                first = ~keep[0] & (keep[1] | (logit[0] <= logit[1]))
                chosen = torch.where(first, one, other)
                found = first | ~keep[1]
                place[full[found], t] = chosen[found]
                row, full = torch.cat([row, full[found]]), full[~found]
            at = place[row, t]
            self._slot[row, at] = slots[row, t].int()
            self._entry[row, :, at] = self._shared[:, row].t()
        return place

"""The paper's softmax policy over all N × N pairs, exact, without the N × N matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphshift.errors import GraphshiftError

__all__ = ["SparsePolicy"]


class SparsePolicy:
    """A row-wise softmax over all edits, p(a_nm) = exp(π_nm) / Σ_m' exp(π_nm') (Appendix A), and its optimiser.

    The paper stores π as a dense matrix. It is not needed: all logits of a row start equal, the policy gradient of
    columns that were never drawn is equal, and SGD, Adam and weight decay keep equal parameters with equal histories
    equal. So a row is, exactly, one shared logit for its untouched columns and one entry for each touched column.
    Memory and time grow with what was touched: at most nodes × draws new entries a step.

    Columns are numbered without the diagonal: slot j of row n is column j + (j >= n), so a self-loop cannot be drawn.
    Every row gets the same number of draws, so the entries fit a table of nodes × the longest row with little waste,
    in the order in which they were touched; unused places have slot −1 and logit −∞.

    Args:
        num_nodes: N, at least 2.
        optimizer: ``"adam"`` (decoupled weight decay, as ``torch.optim.AdamW``) or ``"sgd"`` (as ``torch.optim.SGD``).
        lr: the learning rate α_g.
        weight_decay: of the logits.
        dtype: of the logits and the optimiser's state.
    """

    _BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # torch.optim.AdamW's defaults
    _GROWTH = 1.5
    _REJECTIONS = 16  # rounds of rejection before the free slots of a row are listed

    def __init__(
        self,
        num_nodes: int,
        *,
        optimizer: str = "adam",
        lr: float = 0.005,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if optimizer not in ("adam", "sgd"):
            raise GraphshiftError(f"explorer optimizer is {optimizer!r}; expected 'adam' or 'sgd'.")
        if not lr * weight_decay < 1:
            raise GraphshiftError(
                f"explorer lr × weight_decay is {lr * weight_decay}; expected below 1, where a step forgets everything."
            )
        self.num_nodes, self.slots = num_nodes, num_nodes - 1
        self.optimizer, self.lr, self.weight_decay = optimizer, lr, weight_decay
        self.steps = 0
        # Kinds of numbers: the probability, the logit and, for Adam, the logit's two moments.
        kinds = 4 if optimizer == "adam" else 2
        self._count = torch.zeros(num_nodes, dtype=torch.int64)
        self._slot = torch.empty(num_nodes, 0, dtype=torch.int32)
        self._entry = torch.zeros(kinds, num_nodes, 0, dtype=dtype)
        self._shared = torch.zeros(kinds, num_nodes, dtype=dtype)
        self._longest = 0
        self._index = _Index()
        self._normalise()

    @property
    def touched(self) -> int:
        """How many columns have an entry of their own, over all rows."""
        return int(self._count.sum())

    @property
    def num_bytes(self) -> int:
        """The memory that the policy, its optimiser and its index hold."""
        tables = [self._count, self._slot, self._entry, self._shared]
        return sum(t.numel() * t.element_size() for t in [*tables, *self._index.tensors()])

    def sample(self, draws: int, generator: torch.Generator) -> Tensor:
        """Draws columns for every row, independently, from its softmax: ``[nodes, draws]``, never the row itself."""
        return self.draw(draws, generator)[0]

    def draw(self, draws: int, generator: torch.Generator) -> tuple[Tensor, float]:
        """Draws columns as :meth:`sample` does, and gives their log-probability with them."""
        rest = (self._shared[0] * (self.slots - self._count)).double()  # mass of the untouched columns
        uniform = torch.rand(self.num_nodes, draws, dtype=torch.float64, generator=generator)
        fresh = (uniform < rest.unsqueeze(1)) | (self._count == 0).unsqueeze(1)
        fresh &= (self._count < self.slots).unsqueeze(1)
        slot = torch.zeros(self.num_nodes, draws, dtype=torch.int64)
        probability = self._shared[0].unsqueeze(1).repeat(1, draws)
        rows = (~fresh).any(dim=1).nonzero().squeeze(1)
        if rows.numel():  # invert the cumulative mass of the touched columns
            cumulative = self._entry[0, rows, : self._longest].cumsum(dim=1, dtype=torch.float64)
            place = torch.searchsorted(cumulative, (uniform[rows] - rest[rows, None]).clamp(min=0), right=True)
            place = torch.minimum(place, self._count[rows, None] - 1).clamp(min=0)
            slot[rows] = self._slot[rows].gather(1, place).long()
            touched = self._entry[0, rows].gather(1, place)
            probability[rows] = torch.where(fresh[rows], probability[rows], touched)
        self._fill_untouched(slot, fresh, generator)
        return slot + (slot >= self._rows()), float(probability.double().log().sum())

    def log_prob(self, columns: Tensor) -> float:
        """log p of the given draws, ``[nodes, draws]``: the sum over rows and draws."""
        place = self._find(self._slots_of(columns))
        probability = self._shared[0].unsqueeze(1).expand_as(place)
        if self._longest:
            probability = torch.where(place >= 0, self._entry[0].gather(1, place.clamp(min=0)), probability)
        return float(probability.double().log().sum())

    def reinforce(self, columns: Tensor, reward: float) -> None:
        """One step of gradient ascent on reward · log p(columns): Alg. 1, line 6.

        ∂ log p / ∂ π_nm = #(m drawn by n) − s p_nm, for every m of the row.

        Args:
            columns: the actions, ``[nodes, draws]``.
            reward: what multiplies the gradient.
        """
        place = self._touch(self._slots_of(columns))
        draws = columns.shape[1]
        entry = self._entry[:, :, : self._longest]
        # Optimisers minimise, so they are given the negative gradient.
        gradient = entry[0] * (reward * draws)
        gradient.scatter_add_(1, place, torch.full_like(place, -reward, dtype=gradient.dtype))
        self.steps += 1
        self._update(entry[1:], gradient)
        self._update(self._shared[1:], self._shared[0] * (reward * draws))
        self._normalise()

    def dense_logits(self) -> Tensor:
        """The N × N matrix that the policy stands for, −∞ on the diagonal. For tests and small pictures only."""
        logits = self._shared[1].unsqueeze(1).repeat(1, self.slots)
        row, place = (self._slot >= 0).nonzero(as_tuple=True)
        logits[row, self._slot[row, place].long()] = self._entry[1][row, place]
        full = torch.full((self.num_nodes, self.num_nodes), -math.inf, dtype=logits.dtype)
        full[~torch.eye(self.num_nodes, dtype=torch.bool)] = logits.flatten()
        return full

    def state(self) -> dict[str, Tensor]:
        """The learned state as tensors, a copy: later steps, which work in place, leave it untouched."""
        return {
            "count": self._count.clone(), "slot": self._slot.clone(), "entry": self._entry.clone(),
            "shared": self._shared.clone(), "steps": torch.tensor(self.steps),
        }  # fmt: skip

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave; later steps leave that untouched."""
        self._count, self._slot = state["count"].clone(), state["slot"].clone()
        self._entry, self._shared = state["entry"].clone(), state["shared"].clone()
        self.steps, self._longest = int(state["steps"]), int(self._count.max())
        row, place = (self._slot >= 0).nonzero(as_tuple=True)
        self._index = _Index()
        self._index.add(row * self.slots + self._slot[row, place], place)

    def _rows(self) -> Tensor:
        return torch.arange(self.num_nodes).unsqueeze(1)

    def _slots_of(self, columns: Tensor) -> Tensor:
        return columns - (columns > self._rows()).long()

    def _find(self, slots: Tensor) -> Tensor:
        """Where each slot has its entry in its row, or −1. ``slots``: ``[nodes, any]``."""
        return self._index.find(self._rows() * self.slots + slots)

    def _fill_untouched(self, slot: Tensor, todo: Tensor, generator: torch.Generator) -> None:
        """Puts a uniformly drawn slot without an entry wherever ``todo`` is set, by rejection."""
        row, t = todo.nonzero(as_tuple=True)
        for _ in range(self._REJECTIONS):
            if not row.numel():
                return
            drawn = torch.randint(self.slots, (row.numel(),), generator=generator)
            slot[row, t] = drawn
            taken = self._index.find(row * self.slots + drawn) >= 0
            row, t = row[taken], t[taken]
        if row.numel():  # rows with few free slots left: list them
            free = torch.ones(row.numel(), self.slots)
            used = self._slot[row, : self._longest].long()
            i, place = (used >= 0).nonzero(as_tuple=True)
            free[i, used[i, place]] = 0
            slot[row, t] = torch.multinomial(free, 1, generator=generator).squeeze(1)

    def _touch(self, slots: Tensor) -> Tensor:
        """Gives every slot an entry, which starts as a copy of its row's shared state; returns where it is."""
        keys = self._rows() * self.slots + slots
        place = self._index.find(keys)
        new_keys, new_places = [], []
        for t in range(slots.shape[1]):
            for earlier in range(t):  # drawn twice in this step: the entry was just made
                place[:, t] = torch.where(slots[:, t] == slots[:, earlier], place[:, earlier], place[:, t])
            rows = (place[:, t] < 0).nonzero().squeeze(1)
            if not rows.numel():
                continue
            end = self._count[rows]
            self._reserve(int(end.max()) + 1)
            self._slot[rows, end] = slots[rows, t].int()
            self._entry[:, rows, end] = self._shared[:, rows]
            self._count[rows] += 1
            place[rows, t] = end
            new_keys.append(keys[rows, t])
            new_places.append(end)
        if new_keys:
            self._index.add(torch.cat(new_keys), torch.cat(new_places))
        return place

    def _reserve(self, length: int) -> None:
        self._longest = max(self._longest, length)
        capacity = self._slot.shape[1]
        if length <= capacity:
            return
        extra = min(max(length, math.ceil(self._GROWTH * capacity)), self.slots) - capacity
        self._slot = torch.nn.functional.pad(self._slot, (0, extra), value=-1)
        self._entry = torch.nn.functional.pad(self._entry, (0, extra))
        self._entry[1, :, capacity:] = -math.inf

    def _update(self, state: Tensor, gradient: Tensor) -> None:
        logit = state[0]
        # Weight decay first: a product keeps the −∞ of unused places, a difference would not.
        logit.mul_(1 - self.lr * self.weight_decay)
        if self.optimizer == "sgd":
            logit.sub_(gradient, alpha=self.lr)
            return
        first, second = state[1], state[2]
        first.lerp_(gradient, 1 - self._BETA1)
        second.mul_(self._BETA2).addcmul_(gradient, gradient, value=1 - self._BETA2)
        correction1 = 1 - self._BETA1**self.steps
        correction2 = math.sqrt(1 - self._BETA2**self.steps)
        logit.addcdiv_(first, (second.sqrt() / correction2).add_(self._EPS), value=-self.lr / correction1)

    def _normalise(self) -> None:
        """Row-wise softmax: the probability of every touched column, and of each single untouched one."""
        shared, untouched = self._shared, self.slots - self._count
        top = torch.where(untouched > 0, shared[1], -math.inf)
        entry = self._entry[:, :, : self._longest]
        if self._longest:
            top = torch.maximum(top, entry[1].amax(dim=1))
        torch.sub(entry[1], top.unsqueeze(1), out=entry[0]).exp_()
        torch.sub(shared[1], top, out=shared[0]).exp_()
        shared[0].masked_fill_(untouched == 0, 0.0)
        total = entry[0].sum(dim=1) + untouched * shared[0]
        entry[0].div_(total.unsqueeze(1))
        shared[0].div_(total)


class _Index:
    """Finds the place of a key: a few sorted runs, each more than twice as long as the next.

    Adding n keys merges the runs that have become too short, so a key is moved about log(all / n) times in its life.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Tensor, Tensor]] = []

    def tensors(self) -> list[Tensor]:
        """All that it holds."""
        return [tensor for run in self._runs for tensor in run]

    def find(self, keys: Tensor) -> Tensor:
        """The place of each key, or −1."""
        place = torch.full_like(keys, -1)
        for run, places in self._runs:
            at = torch.searchsorted(run, keys).clamp(max=run.numel() - 1)
            place = torch.where(run[at] == keys, places[at].long(), place)
        return place

    def add(self, keys: Tensor, places: Tensor) -> None:
        """Takes keys that are not there yet."""
        places = places.int()
        while self._runs and self._runs[-1][0].numel() <= 2 * keys.numel():
            run, run_places = self._runs.pop()
            keys, places = torch.cat([run, keys]), torch.cat([run_places, places])
        if keys.numel():
            keys, order = torch.sort(keys)
            self._runs.append((keys, places[order]))

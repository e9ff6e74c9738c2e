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
    Entries are kept sorted by the key ``row * (nodes - 1) + slot``.

    Args:
        num_nodes: N, at least 2.
        optimizer: ``"adam"`` (decoupled weight decay, as ``torch.optim.AdamW``) or ``"sgd"`` (as ``torch.optim.SGD``).
        lr: the learning rate α_g.
        weight_decay: of the logits.
        dtype: of the logits and the optimiser's state.
    """

    _BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # torch.optim.AdamW's defaults

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
        self.num_nodes, self.slots = num_nodes, num_nodes - 1
        self.optimizer, self.lr, self.weight_decay = optimizer, lr, weight_decay
        self.steps = 0
        self.keys = torch.empty(0, dtype=torch.int64)
        # One row of state for each kind of number: the logit and, for Adam, its two moments.
        kinds = 3 if optimizer == "adam" else 1
        self.entries = torch.zeros(kinds, 0, dtype=dtype)
        self.shared = torch.zeros(kinds, num_nodes, dtype=dtype)
        self._probabilities: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def touched(self) -> int:
        """How many entries are kept."""
        return self.keys.numel()

    def sample(self, draws: int, generator: torch.Generator) -> Tensor:
        """Draws columns for every row, independently, from its softmax.

        Returns:
            ``[nodes, draws]`` columns; never the row itself.
        """
        n = self.num_nodes
        entry, rest, starts = self._distribution()
        cumulative = torch.cumsum(entry, dim=0)
        before = torch.cat([cumulative.new_zeros(1), cumulative])[starts[:-1]]  # mass of the entries of earlier rows
        rows = torch.arange(n).unsqueeze(1).expand(n, draws)
        uniform = torch.rand(n, draws, dtype=torch.float64, generator=generator)
        untouched = self.slots - starts.diff()
        fresh = uniform < rest[:, None]
        # Among a row's entries: invert their cumulative mass (float64; rounding must not leave the row).
        inside = before[:, None] + (uniform - rest[:, None]).clamp(min=0)
        hit = torch.searchsorted(cumulative, inside, right=True)
        hit = torch.minimum(torch.maximum(hit, starts[:-1, None]), starts[1:, None] - 1)
        hit = hit.clamp(min=0)
        fresh |= starts.diff()[:, None] == 0
        fresh &= untouched[:, None] > 0
        # Among the untouched: the r-th slot that has no entry. Within a row, slot − position counts the free slots
        # below an entry and never falls, so a search over `row * slots + that` finds how many entries to step over.
        again = torch.rand(n, draws, dtype=torch.float64, generator=generator)
        rank = torch.minimum((again * untouched[:, None]).long(), (untouched[:, None] - 1).clamp(min=0))
        if self.touched:
            entry_rows = self.keys // self.slots
            free_below = self.keys - (torch.arange(self.touched) - starts[entry_rows])
            stepped = torch.searchsorted(free_below, (rows * self.slots + rank).contiguous(), right=True)
            stepped -= starts[:-1, None]
            slot = torch.where(fresh, rank + stepped, self.keys[hit] % self.slots)
        else:
            slot = rank
        return slot + (slot >= rows)

    def log_prob(self, columns: Tensor) -> float:
        """log p of the given draws, ``[nodes, draws]``: the sum over rows and draws."""
        entry, rest, starts = self._distribution()
        untouched = self.slots - starts.diff()
        single = rest / untouched.clamp(min=1)  # the probability of each untouched column
        place, there = self._find(self._keys_of(columns))
        rows = torch.arange(self.num_nodes).unsqueeze(1).expand_as(columns).flatten()
        probability = single[rows]
        if self.touched:
            probability = torch.where(there, entry[place], probability)
        return float(probability.log().sum())

    def reinforce(self, columns: Tensor, reward: float) -> None:
        """One step of gradient ascent on reward · log p(columns): Alg. 1, line 6.

        ∂ log p / ∂ π_nm = #(m drawn by n) − s p_nm, for every m of the row.

        Args:
            columns: the actions, ``[nodes, draws]``.
            reward: what multiplies the gradient.
        """
        drawn, counts = torch.unique(self._keys_of(columns), return_counts=True)
        self._touch(drawn)
        entry, rest, starts = self._distribution()
        untouched = self.slots - starts.diff()
        draws = columns.shape[1]
        place, _ = self._find(drawn)
        ascent = -draws * entry
        ascent[place] += counts
        dtype = self.entries.dtype
        # Optimisers minimise, so they are given the negative gradient.
        entry_gradient = (-reward * ascent).to(dtype)
        shared_gradient = (reward * draws * rest / untouched.clamp(min=1)).to(dtype)
        self.steps += 1
        self._update(self.entries, entry_gradient)
        self._update(self.shared, shared_gradient)
        self._probabilities = None

    def dense_logits(self) -> Tensor:
        """The N × N matrix that the policy stands for, −∞ on the diagonal. For tests and small pictures only."""
        logits = self.shared[0].unsqueeze(1).repeat(1, self.slots)
        logits.view(-1)[self.keys] = self.entries[0]
        full = torch.full((self.num_nodes, self.num_nodes), -math.inf, dtype=logits.dtype)
        off_diagonal = ~torch.eye(self.num_nodes, dtype=torch.bool)
        full[off_diagonal] = logits.flatten()
        return full

    def state(self) -> dict[str, Tensor]:
        """The learned state as tensors."""
        return {
            "keys": self.keys, "entries": self.entries, "shared": self.shared, "steps": torch.tensor(self.steps),
        }  # fmt: skip

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        self.keys, self.entries, self.shared = state["keys"], state["entries"], state["shared"]
        self.steps = int(state["steps"])
        self._probabilities = None

    def _distribution(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each entry's probability, each row's probability of an untouched column, and where rows start (float64)."""
        if self._probabilities is None:
            n = self.num_nodes
            starts = torch.searchsorted(self.keys, torch.arange(n + 1) * self.slots)
            count = starts.diff()
            rows = torch.repeat_interleave(torch.arange(n), count, output_size=self.touched)
            logit, shared = self.entries[0].double(), self.shared[0].double()
            top = torch.where(count < self.slots, shared, -math.inf)
            top = top.scatter_reduce(0, rows, logit, "amax")
            mass = (logit - top[rows]).exp()
            rest = (self.slots - count) * (shared - top).exp()
            total = rest + torch.zeros(n, dtype=torch.float64).index_add_(0, rows, mass)
            self._probabilities = mass / total[rows], rest / total, starts
        return self._probabilities

    def _keys_of(self, columns: Tensor) -> Tensor:
        rows = torch.arange(self.num_nodes).unsqueeze(1)
        return (rows * self.slots + columns - (columns > rows).long()).flatten()

    def _find(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.searchsorted(self.keys, keys).clamp(max=max(self.touched - 1, 0))
        return place, self.keys[place] == keys if self.touched else torch.zeros_like(keys, dtype=torch.bool)

    def _touch(self, keys: Tensor) -> None:
        """Gives sorted keys entries of their own, which start as copies of their row's shared state."""
        _, there = self._find(keys)
        new = keys[~there]
        if not new.numel():
            return
        landing = torch.searchsorted(self.keys, new) + torch.arange(new.numel())
        merged = self.keys.new_empty(self.touched + new.numel())
        old = torch.ones(merged.numel(), dtype=torch.bool)
        old[landing] = False
        merged[landing], merged[old] = new, self.keys
        entries = self.entries.new_empty(self.entries.shape[0], merged.numel())
        entries[:, landing] = self.shared[:, new // self.slots]
        entries[:, old] = self.entries
        self.keys, self.entries, self._probabilities = merged, entries, None

    def _update(self, state: Tensor, gradient: Tensor) -> None:
        logit = state[0]
        if self.optimizer == "sgd":
            logit.sub_(gradient + self.weight_decay * logit, alpha=self.lr)
            return
        first, second = state[1], state[2]
        logit.mul_(1 - self.lr * self.weight_decay)
        first.lerp_(gradient, 1 - self._BETA1)
        second.mul_(self._BETA2).addcmul_(gradient, gradient, value=1 - self._BETA2)
        correction1 = 1 - self._BETA1**self.steps
        correction2 = math.sqrt(1 - self._BETA2**self.steps)
        logit.addcdiv_(first, (second.sqrt() / correction2).add_(self._EPS), value=-self.lr / correction1)

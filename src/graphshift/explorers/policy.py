"""The paper's softmax policy over all N × N pairs, exact, without the N × N matrix."""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import draw_seed
from graphshift.graph import kernels
from graphshift.graph.kernels import Within
from graphshift.graph.kernels.policy import BETA1, BETA2, LOGIT, PolicyTable, Step, check_table

_LEAST = 16  # entries that a row has room for at first


class SparsePolicy:
    """A row-wise softmax over all edits, p(a_nm) = exp(π_nm) / Σ_m' exp(π_nm') (Appendix A), and its optimiser.

    The paper stores π as a dense matrix. It is not needed: all logits of a row start equal, the policy gradient of
    columns that were never drawn is equal, and SGD, Adam and weight decay keep equal parameters with equal histories
    equal. So a row is, exactly, one shared logit for its untouched columns and one entry for each touched column.
    Memory and time grow with what was touched: at most nodes × draws new entries a step.

    ``max_entries`` bounds them. It changes nothing until a row is full. Then a new entry takes the place of the less
    likely of two old ones, in turn, whose column goes back to the untouched rest with its shared logit: what the policy
    had learned about that column is forgotten.

    A self-loop cannot be drawn. The work is done in :mod:`graphshift.graph.kernels.policy`.

    >>> policy = SparsePolicy(4, optimizer="sgd", lr=1.0)
    >>> columns, log_prob = policy.draw(1, torch.Generator().manual_seed(0))  # one of three others for each node
    >>> policy.reinforce(columns, reward=2.0)
    >>> policy.log_prob(columns) > log_prob  # more likely now
    True

    Args:
        num_nodes: N, at least 2.
        optimizer: ``"adam"`` (decoupled weight decay, as ``torch.optim.AdamW``) or ``"sgd"`` (as ``torch.optim.SGD``).
        lr: the learning rate α_g.
        weight_decay: of the logits.
        max_entries: how many entries a row may have; None for no bound.
        within: for each node the nodes that it may be joined to, those of its own small graph
            (:class:`~graphshift.graph.blocks.Blocks`); the shared logit is then of the untouched ones among them, and a
            node that is alone draws itself, which stands for no edit. None for all nodes.
        dtype: of the logits and the optimiser's state.
    """

    def __init__(
        self,
        num_nodes: int,
        *,
        optimizer: str = "adam",
        lr: float = 0.005,
        weight_decay: float = 0.0,
        max_entries: int | None = None,
        within: Within | None = None,
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
        self.num_nodes, self.slots = num_nodes, _most_slots(num_nodes, within)
        self.optimizer, self.lr, self.weight_decay, self.max_entries = optimizer, lr, weight_decay, max_entries
        self.steps = 0
        shapes: tuple[tuple[int, ...], ...] = ((num_nodes,), (num_nodes,), (num_nodes, 0))
        count, hand, slot = (torch.zeros(shape, dtype=torch.int32) for shape in shapes)
        shapes = ((num_nodes, 3, 0), (3, num_nodes), (num_nodes,), (num_nodes,))
        entry, shared, top, mass = (torch.zeros(shape, dtype=dtype) for shape in shapes)
        self._table = PolicyTable(count, hand, slot, entry, shared, top, mass, within)
        self._longest = 0  # the most entries in any row
        # The latest draw, its version, and where its entries are.
        self._drawn: tuple[Tensor | None, int, Tensor | None] = (None, 0, None)

    @property
    def within(self) -> Within | None:
        """For each node the nodes that it may be joined to; None for all."""
        return self._table.within

    @property
    def touched(self) -> int:
        """How many columns have an entry of their own, over all rows."""
        return int(self._table.count.sum())

    @property
    def num_bytes(self) -> int:
        """The memory that the policy and its optimiser hold."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._table.arrays.values())

    def sample(self, draws: int, generator: torch.Generator) -> Tensor:
        """Draws columns for every row, independently with replacement: ``[nodes, draws]``, int32."""
        return self.draw(draws, generator)[0]

    def draw(self, draws: int, generator: torch.Generator) -> tuple[Tensor, float]:
        """Draws as :meth:`sample` and gives log p of what was drawn, at no further cost."""
        columns, place, log_prob = kernels.policy_draw(self._table, draws, draw_seed(generator))
        self._drawn = (columns, columns._version, place)
        return columns, log_prob

    def log_prob(self, columns: Tensor) -> float:
        """log p of the given draws, ``[nodes, draws]``: the sum over rows and draws."""
        return kernels.policy_log_prob(self._table, columns)

    def reinforce(self, columns: Tensor, reward: float) -> None:
        """One step of gradient ascent on reward · log p(columns), columns ``[nodes, draws]``: Alg. 1, line 6.

        ∂ log p / ∂ π_nm = #(m drawn by n) − s p_nm, for every m of the row.
        """
        if columns.dim() != 2 or columns.shape[0] != self.num_nodes:
            found = list(columns.shape)
            raise GraphshiftError(f"columns have shape {found}; expected a row for each of {self.num_nodes} nodes.")
        bound = _bound(self.slots, columns.shape[1], self.max_entries)
        self.make_room(min(self._longest + columns.shape[1], bound), bound)
        self.steps += 1
        adam = self.optimizer == "adam"
        # Learning from what was just drawn, and not changed since, need not look for its entries.
        drawn, version, place = self._drawn
        self._drawn = (None, 0, None)
        place = place if columns is drawn and columns._version == version else None
        rate, root = self.lr / (1 - BETA1**self.steps) if adam else self.lr, 1 / math.sqrt(1 - BETA2**self.steps)
        step = Step(reward, adam, 1 - self.lr * self.weight_decay, rate, root)
        self._longest = kernels.policy_learn(self._table, columns, place, step)

    def dense_logits(self) -> Tensor:
        """The N × N matrix that the policy stands for, −∞ on the diagonal. For tests and small pictures only."""
        table = self._table
        every = torch.arange(self.num_nodes)
        full = table.shared[LOGIT].unsqueeze(1).repeat(1, self.num_nodes)
        row, place = (table.slot >= 0).nonzero(as_tuple=True)
        begin = torch.zeros_like(every) if table.within is None else table.within.begin.long()
        column = begin[row] + table.slot[row, place]
        full[row, column + (column >= row)] = table.entry[row, LOGIT, place]
        full[every, every] = -math.inf
        if table.within is not None:
            full[(every < begin.unsqueeze(1)) | (every >= (begin + table.within.size).unsqueeze(1))] = -math.inf
        return full

    def state(self) -> dict[str, Tensor]:
        """The learned state as tensors, a copy: later steps, which work in place, leave it untouched."""
        copies = {name: tensor.clone() for name, tensor in self._table.arrays.items()}
        return copies | {"steps": torch.tensor(self.steps)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave; later steps leave that untouched."""
        table = PolicyTable(**{n: state[n].clone() for n in self._table.arrays}, within=self._table.within)
        steps = state["steps"]
        if table.count.numel() != self.num_nodes or table.slot.shape[-1] > self.slots:
            found = f"{table.count.numel()} nodes with {table.slot.shape[-1]} entries"
            raise GraphshiftError(f"policy: the state is of {found}; expected {self.num_nodes} nodes.")
        if steps.numel() != 1 or steps.is_floating_point() or not 0 <= int(steps) < 2**53:
            raise GraphshiftError(f"policy: `steps` is {steps.tolist()}; expected how many steps there were.")
        check_table(table)
        self._table = table
        self._drawn = (None, 0, None)
        self.steps, self._longest = int(state["steps"]), int(self._table.count.max())

    @classmethod
    def bytes_after(cls, nodes: int, steps: int, *, draws: int, max_entries: int | None) -> tuple[int, int]:
        """The memory after so many steps if no column is drawn twice, and what the last growth needs beside, in bytes.

        16 bytes for every entry that there is room for (a column, a logit, Adam's two moments), 28 for every node.
        """
        bound, longest, room, before = _bound(nodes - 1, draws, max_entries), 0, 0, 0
        for _ in range(steps):
            longest = min(longest + draws, bound)
            if longest > room:
                before, room = room, _room(longest, room, bound)
            if room == bound:
                break
        return nodes * (16 * room + 28), nodes * 12 * before

    def make_room(self, length: int, bound: int) -> None:
        """Makes room for so many entries in every row, and some more, up to the bound."""
        room = self._table.slot.shape[1]
        if length <= room:
            return
        extra = _room(length, room, bound) - room
        self._table = replace(self._table, slot=pad(self._table.slot, (0, extra), value=-1))
        self._table = replace(self._table, entry=pad(self._table.entry, (0, extra)))
        self._table.entry[:, LOGIT, room:] = -math.inf


def _most_slots(nodes: int, within: Within | None) -> int:
    """The most columns that any row has."""
    return nodes - 1 if within is None else int(within.size.max()) - 1


def _bound(slots: int, draws: int, max_entries: int | None) -> int:
    """The most entries that a row may have."""
    return slots if max_entries is None else min(max(max_entries, draws + 1), slots)


def _room(length: int, before: int, bound: int) -> int:
    """For how many entries to make room when a row needs more than there was room for: twice as many, at least."""
    return min(max(length, 2 * before, _LEAST), bound)

"""The paper's explorer: draws edits from a softmax policy and learns it by REINFORCE (Appendix A)."""

import math
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Explorer, Risk, View, as_graph
from graphshift.explorers.policy import SparsePolicy
from graphshift.explorers.policy_part import PolicyPart
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import Within
from graphshift.graph.kernels.checks import check_within, same_ranges


@EXPLORERS.register("reinforce")
class Reinforce(Explorer):
    r"""For each node s actions from the row's softmax; each flips a pair; the policy climbs the reward.

    The step is w ← w + α_g ∇ log p_w(A^k) · (R − b), with R the reward and b the baseline. Without a baseline b = 0
    (Alg. 1, line 6). With ``baseline=d``, b is the running mean of past rewards, b ← d·b + (1 − d)·R, which starts at
    the first reward: it does not depend on the present actions, so the expected gradient stays the same, and its
    variance falls. With ``normalise`` the advantage R − b is divided by its running root mean square, so that the
    size of the step does not depend on that of the risks: variances of 1e-9 vanish beside Adam's ε otherwise.

    Args:
        edits_per_node: s.
        lr: α_g, the learning rate of the policy.
        optimizer: ``"adam"`` or ``"sgd"`` (the paper's line 6 as it stands).
        weight_decay: of the logits.
        baseline: the decay d of the running mean of rewards; None for no baseline, as in the paper.
        normalise: divide by the running root mean square (decay d, 0.9 without a baseline), the present one included.
        entries_per_node: how many columns of a node the policy remembers what it learned about; more than s. It is the
            paper's policy exactly until a node has drawn that many different ones; then a new one takes the place of
            an old one that is less likely (see :class:`SparsePolicy`). None for no bound: memory grows with epochs.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    side_by_side = True

    def __init__(
        self,
        edits_per_node: int = 5,
        *,
        lr: float = 0.005,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        baseline: float | None = None,
        normalise: bool = False,
        entries_per_node: int | None = 64,
        directed: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        if not lr >= 0:
            raise GraphshiftError(f"explorer lr is {lr}; expected 0 or more.")
        if baseline is not None and not 0 <= baseline < 1:
            raise GraphshiftError(f"explorer baseline is {baseline}; expected a decay from 0 up to, not including, 1.")
        if entries_per_node is not None and entries_per_node <= edits_per_node:
            raise GraphshiftError(
                f"explorer entries_per_node is {entries_per_node}; expected more than edits_per_node, "
                f"{edits_per_node}, or None for no bound."
            )
        self.lr, self.optimizer, self.weight_decay, self.baseline = lr, optimizer, weight_decay, baseline
        self.normalise, self.entries_per_node = normalise, entries_per_node
        self.policy: SparsePolicy | None = None
        self._batch: PolicyPart | None = None
        self._seen: tuple[Tensor, int] | None = None  # the rows of the next graph, of so many nodes
        self._mean_reward: float | None = None
        self._mean_square: float | None = None

    def look_at(self, rows: Tensor | None, nodes: int) -> None:
        """The policy is one of the whole graph; a batch draws from the part of it that is about pairs in the batch."""
        self._seen = None if rows is None or len(rows) == nodes else (rows, nodes)

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Draws s actions for each node and flips them. ``risk`` is not needed."""
        graph = as_graph(graph)
        if graph.num_nodes < 2:  # no pair to flip
            return View(graph, torch.empty(0, dtype=torch.int64))
        if self._seen is None:
            self._batch, policy = None, self._policy_for(graph.num_nodes, graph.within)
        else:
            self._batch = PolicyPart(self._policy_for(self._seen[1], None), self._seen[0])
            policy = self._batch.policy
        actions, log_prob = policy.draw(self.edits_per_node, self.generator)
        return View.of_actions(graph, actions, log_prob, directed=self.directed)

    def learn(self, view: View, reward: float) -> None:
        """One REINFORCE step with the view's actions."""
        if view.actions is None:
            return
        if not math.isfinite(reward):
            raise GraphshiftError(
                f"reward is {reward}; expected a finite number. The risk that it was made of became NaN or infinite: "
                "stop there, and train with a lower learning rate."
            )
        advantage = reward
        if self.baseline is not None:
            mean = reward if self._mean_reward is None else self._mean_reward
            advantage = reward - mean
            self._mean_reward = self.baseline * mean + (1 - self.baseline) * reward
        if self.normalise:
            advantage = self._normalised(advantage)
        policy, nodes = self.policy, view.actions.shape[0]
        if self._batch is not None:
            self._batch.policy.reinforce(view.actions, advantage)
            self._batch.put_back()
            return
        if policy is None or policy.num_nodes != nodes:  # after a reset
            policy = self._policy_for(nodes, view.graph.within)
        policy.reinforce(view.actions, advantage)

    def _normalised(self, advantage: float) -> float:
        square = advantage * advantage
        if square > 0:  # the first advantage beside a baseline is 0 and says nothing of the size of others
            decay = 0.9 if self.baseline is None else self.baseline
            before = square if self._mean_square is None else self._mean_square
            self._mean_square = decay * before + (1 - decay) * square
        return advantage / math.sqrt(self._mean_square) if self._mean_square else 0.0

    def reset(self) -> None:
        """Forgets the policy, the baseline and the size of rewards."""
        self.policy, self._mean_reward, self._mean_square = None, None, None

    def state(self) -> dict[str, Tensor]:
        """The policy, its optimiser, the baseline and the generator."""
        state = super().state()
        if self.policy is not None:
            state |= {f"policy.{name}": tensor for name, tensor in self.policy.state().items()}
            within = self.policy.within
            state |= {} if within is None else {f"within.{name}": part for name, part in within._asdict().items()}
        for name, value in (("mean_reward", self._mean_reward), ("mean_square", self._mean_square)):
            if value is not None:
                state[name] = torch.tensor(value, dtype=torch.float64)
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        super().load_state(state)
        self.reset()
        policy = {name.removeprefix("policy."): t for name, t in state.items() if name.startswith("policy.")}
        if policy:
            ranges = {name.removeprefix("within."): t for name, t in state.items() if name.startswith("within.")}
            within = Within(**ranges) if ranges else None
            check_within(within, policy["count"].numel())
            self._policy_for(policy["count"].numel(), within).load_state(policy)
        means = {name: float(state[name]) if name in state else None for name in ("mean_reward", "mean_square")}
        for name, mean in means.items():
            if mean is not None and not math.isfinite(mean):
                raise GraphshiftError(f"explorer: `{name}` is {mean}; expected a finite number.")
        self._mean_reward, self._mean_square = means["mean_reward"], means["mean_square"]

    @classmethod
    def learned_bytes(
        cls, nodes: int, steps: int, *, edits_per_node: int = 5, entries_per_node: int | None = 64, **options: Any
    ) -> tuple[int, int]:
        """The policy's memory, and what its last growth needs beside."""
        return SparsePolicy.bytes_after(nodes, steps, draws=edits_per_node, max_entries=entries_per_node)

    def _policy_for(self, num_nodes: int, within: Within | None) -> SparsePolicy:
        if self.policy is None:
            how: dict[str, Any] = {"optimizer": self.optimizer, "lr": self.lr, "weight_decay": self.weight_decay}
            self.policy = SparsePolicy(num_nodes, max_entries=self.entries_per_node, within=within, **how)
        if self.policy.num_nodes != num_nodes:
            raise GraphshiftError(
                f"this explorer has learned a graph of {self.policy.num_nodes} nodes and was given one of {num_nodes}; "
                "use one explorer for each graph, or reset() it."
            )
        if not same_ranges(self.policy.within, within):
            raise GraphshiftError(
                "this explorer has learned nodes that are divided otherwise into small graphs; use one explorer for "
                "each batch of graphs, or reset() it."
            )
        return self.policy

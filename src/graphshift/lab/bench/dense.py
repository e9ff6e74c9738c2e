"""The paper's explorer as its formula stands, with an N × N matrix: the yardstick for ours, never for use."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.data.environment import Environment
from graphshift.explorers import Explorer, Risk, View, apply_actions, as_graph
from graphshift.graph.graph import Graph


class DensePolicy:
    """N × N logits as a torch parameter, a row-wise softmax without the diagonal, and ``torch.optim.AdamW``.

    Args:
        num_nodes: N.
        lr: the learning rate α_g.
        dtype: of the logits.
    """

    def __init__(self, num_nodes: int, *, lr: float = 0.005, dtype: torch.dtype = torch.float32) -> None:
        self.num_nodes = num_nodes
        self.logits = torch.zeros(num_nodes, num_nodes, dtype=dtype, requires_grad=True)
        self.optimizer = torch.optim.AdamW([self.logits], lr=lr, weight_decay=0.0)
        self._diagonal = torch.eye(num_nodes, dtype=torch.bool)

    @property
    def num_bytes(self) -> int:
        """The memory that logits, their gradient, AdamW's moments and the mask hold."""
        moments = [t for slots in self.optimizer.state.values() for t in slots.values() if isinstance(t, Tensor)]
        held = [self.logits, self._diagonal, *moments, *([] if self.logits.grad is None else [self.logits.grad])]
        return sum(t.numel() * t.element_size() for t in held)

    def log_softmax(self) -> Tensor:
        """log p(a_nm) for all pairs, −∞ on the diagonal."""
        return self.logits.masked_fill(self._diagonal, -math.inf).log_softmax(dim=1)

    def draw(self, draws: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Columns for every row, with replacement, ``[nodes, draws]``, and their log-probability, differentiable."""
        log = self.log_softmax()
        actions = torch.multinomial(log.detach().exp(), draws, replacement=True, generator=generator)
        return actions, log.gather(1, actions).sum()

    def reinforce(self, log_prob: Tensor, reward: float) -> None:
        """One step of gradient ascent on reward · log p: Alg. 1, line 6."""
        self.optimizer.zero_grad()
        (-reward * log_prob).backward()
        self.optimizer.step()


class DenseReinforce(Explorer):
    """The same explorer as ``reinforce``, from a :class:`DensePolicy`. Memory and time grow with N².

    Args:
        edits_per_node: s.
        lr: α_g, the learning rate of the policy.
        directed: see :class:`~graphshift.explorers.Explorer`.
        seed: of the explorer's own random generator.
    """

    def __init__(self, edits_per_node: int = 5, *, lr: float = 0.005, directed: bool = False, seed: int = 0) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        self.lr = lr
        self.policy: DensePolicy | None = None
        self._log_prob: Tensor | None = None

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Draws s actions for each node and flips them; keeps what :meth:`learn` needs. ``risk`` is not needed."""
        graph = as_graph(graph)
        if self.policy is None:
            self.policy = DensePolicy(graph.num_nodes, lr=self.lr)
        actions, self._log_prob = self.policy.draw(self.edits_per_node, self.generator)
        edited, flips = apply_actions(graph, actions, directed=self.directed)
        return View(edited, flips, actions, float(self._log_prob.detach()))

    def learn(self, view: View, reward: float) -> None:
        """One REINFORCE step with the actions of the latest view."""
        if self.policy is not None and self._log_prob is not None:
            self.policy.reinforce(self._log_prob, reward)
            self._log_prob = None

    def reset(self) -> None:
        """Forgets the policy."""
        self.policy, self._log_prob = None, None

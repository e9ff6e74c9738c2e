"""EERM (Wu et al., ICLR 2022): Algorithm 1, in its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.backbones.base import computed_once
from graphshift.backbones.batchnorm import frozen_statistics, running_statistics
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import rng_state, set_rng_state
from graphshift.data.environment import Environment
from graphshift.explorers import Change, Explorer, SharedRisk, View
from graphshift.graph.graph import Graph
from graphshift.methods.risks import difference_rewards, eerm_objective, objective_weights, variance
from graphshift.training.method import Method

Result = TypeVar("Result")

_MOST_THREADS = 16


class EERMMethod(Method):
    """K explorers make views whose risks differ; the GNN minimises Var({L}) + β · mean({L}) (Eq. 5).

    With several training environments each has K explorers of its own, and the risks of all (view, environment)
    pairs enter the variance and the mean.

    Args:
        backbone: the GNN.
        make_explorer: makes the explorer of environment m and view k: ``make_explorer(m, k)``.
        explorers: K, at least 2.
        inner_steps: T, the explorers' steps for one step of the GNN.
        beta: β, the weight of the mean risk.
        beta_end: None keeps β constant. A number moves it in a straight line from ``beta`` at the first epoch to this
            value at the last (the authors' code grows it tenfold on Twitch).
        credit: the explorers' reward. ``"shared"``: every explorer gets J_1 = Var({L}) (Alg. 1, line 6).
            ``"difference"``: explorer k gets Var({L}) − Var({L} without L_k), which has the same expected gradient.
        reset_explorers: forget what the explorers learned at every step, as the authors' code does on Cora, Photo and
            Arxiv; the GNN then sees next to nothing of it. The paper's Algorithm 1 never resets.
        low_memory: process views one at a time with the memory of one, at the cost of a second forward pass, and let
            deep backbones compute blocks of layers twice. The gradient is the same.
        lr, weight_decay, clip: as in :class:`Method`.
    """

    def __init__(
        self,
        backbone: Backbone,
        make_explorer: Callable[[int, int], Explorer],
        *,
        explorers: int = 3,
        inner_steps: int = 1,
        beta: float = 1.0,
        beta_end: float | None = None,
        credit: str = "shared",
        reset_explorers: bool = False,
        low_memory: bool = False,
        lr: float = 0.01,
        weight_decay: float = 1e-3,
        clip: float | None = None,
    ) -> None:
        super().__init__(backbone, lr=lr, weight_decay=weight_decay, clip=clip)
        if explorers < 2:
            raise GraphshiftError(
                f"explorers is {explorers}; EERM needs at least 2: the variance of one view's risk is not defined. "
                "For training without explorers use ERM."
            )
        if inner_steps < 1:
            raise GraphshiftError(f"inner_steps is {inner_steps}; expected at least 1.")
        if credit not in ("shared", "difference"):
            raise GraphshiftError(f"credit is {credit!r}; expected 'shared' or 'difference'.")
        self.make_explorer, self.num_explorers, self.inner_steps = make_explorer, explorers, inner_steps
        self.beta, self.beta_end = beta, beta_end
        self.credit, self.reset_explorers, self.low_memory = credit, reset_explorers, low_memory
        backbone.save_memory = low_memory
        #: The K explorers of each environment.
        self.explorers: list[list[Explorer]] = []
        self._homes: list[Graph] = []
        self._pool: ThreadPoolExecutor | None = None

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One pass of Algorithm 1's outer loop: T steps of the explorers, one of the GNN."""
        self._meet(environments)
        self.backbone.train()
        if self.reset_explorers:
            for explorer in self._all_explorers():
                explorer.reset()
        # θ is fixed until line 9, so what needs no edges is computed once for all T · K views.
        stems = [self.backbone.stem(environment.x) for environment in environments]
        self._keep_statistics(environments, stems)
        for _ in range(self.inner_steps - 1):  # t = 1 … T − 1
            self._explore(environments, stems)
        beta = self.beta if self.beta_end is None else self.beta + (self.beta_end - self.beta) * progress
        views = self._propose(environments, stems)  # t = T, line 4
        backward = self._backward_one_view_at_a_time if self.low_memory else self._backward
        risks = backward(environments, stems, views, beta)
        self._learn(views, risks)  # lines 5 and 6
        self.descend()  # line 9, on this iteration's risks
        return {
            "loss": float(eerm_objective(risks, beta)),
            "variance": float(variance(risks)),
            "risk": float(risks.mean()),
            "beta": beta,
        }

    def _keep_statistics(self, environments: Sequence[Environment], stems: Sequence[Tensor]) -> None:
        """Batch normalisation's running statistics of the graphs as they are, if views will be measured by them."""
        if self._changes_features():
            with torch.no_grad():
                for environment, stem in zip(environments, stems, strict=True):
                    self.backbone.propagate(stem.detach(), environment.graph)

    def explore(self, environments: Sequence[Environment]) -> tuple[list[list[View]], Tensor]:
        """One step of the explorers alone (lines 4 to 6): each environment's views, and the risks of all of them.

        The GNN stays as it is.
        """
        self._meet(environments)
        self.backbone.train()
        return self._explore(environments, self._stems_only(environments))

    def risks_of(self, environments: Sequence[Environment], views: Sequence[Sequence[View]]) -> Tensor:
        """The risks of any views of the environments under the present GNN, without a gradient."""
        self.backbone.train()
        return self._risks_only(environments, self._stems_only(environments), views)

    def _stems_only(self, environments: Sequence[Environment]) -> list[Tensor]:
        with torch.no_grad():
            return [self.backbone.stem(environment.x) for environment in environments]

    def _explore(self, environments: Sequence[Environment], stems: Sequence[Tensor]) -> tuple[list[list[View]], Tensor]:
        views = self._propose(environments, stems)
        risks = self._risks_only(environments, stems, views)
        self._learn(views, risks)
        return views, risks

    def state(self) -> dict[str, Tensor]:
        """The GNN, its optimiser, and every explorer."""
        state = super().state()
        for m, row in enumerate(self.explorers):
            for k, explorer in enumerate(row):
                state |= {f"explorer.{m}.{k}.{name}": tensor for name, tensor in explorer.state().items()}
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        super().load_state(state)
        parts: dict[tuple[int, int], dict[str, Tensor]] = {}
        for name, tensor in state.items():
            if name.startswith("explorer."):
                _, m, k, rest = name.split(".", maxsplit=3)
                parts.setdefault((int(m), int(k)), {})[rest] = tensor
        if parts:
            self._make_explorers(1 + max(i for i, _ in parts))
        for (i, j), part in parts.items():
            self.explorers[i][j].load_state(part)

    def _meet(self, environments: Sequence[Environment]) -> None:
        if len(self.explorers) != len(environments):
            self._make_explorers(len(environments))
        if len(self._homes) != len(environments):
            # Explorers work on the CPU, where their 64-bit keys are at home; views move to the backbone's device.
            self._homes = [environment.graph.to(torch.device("cpu")) for environment in environments]
            for home in self._homes if self.low_memory else ():
                home.forget()

    def _make_explorers(self, count: int) -> None:
        self.explorers = [[self.make_explorer(m, k) for k in range(self.num_explorers)] for m in range(count)]

    def _all_explorers(self) -> list[Explorer]:
        return [explorer for row in self.explorers for explorer in row]

    def _changes_features(self) -> bool:
        return any(explorer.changes_features for explorer in self._all_explorers())

    def _propose(self, environments: Sequence[Environment], stems: Sequence[Tensor]) -> list[list[View]]:
        views = []
        kept = running_statistics if self._changes_features() else frozen_statistics  # as views are measured
        for environment, stem, home, row in zip(environments, stems, self._homes, self.explorers, strict=True):

            def risk(
                graph: Graph, change: Change | None = None, environment: Environment = environment, stem: Tensor = stem
            ) -> Tensor:
                with kept(self.backbone), computed_once(self.backbone):
                    h = stem.detach() if change is None else self.backbone.stem(change(environment.x))
                    output = self.backbone.propagate(h, graph.to(stem.device))
                return environment.risk(output)

            shared = SharedRisk(risk, environment.x)
            asking = [explorer for explorer in row if explorer.needs_risk]
            for explorer in asking:
                explorer.prepare(home, shared)
            prepared = all(explorer.is_prepared(home, shared) for explorer in asking)
            jobs = [partial(explorer.propose, home, shared if explorer.needs_risk else None) for explorer in row]
            views.append(self._together(row, jobs) if prepared else [job() for job in jobs])
        return views

    def _together(self, explorers: Sequence[Explorer], jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """The explorers' jobs, each on a core of its own where they allow it: they do not depend on each other."""
        # A thread for each: three jobs in turns on two cores are done sooner than one after two.
        threads = min(len(jobs), _MOST_THREADS) if torch.get_num_threads() > 1 else 1
        if threads < 2 or not all(explorer.side_by_side for explorer in explorers):
            return [job() for job in jobs]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "explorer")
        return list(self._pool.map(lambda job: job(), jobs))

    def _risk(self, environment: Environment, stem: Tensor, view: View) -> Tensor:
        # All views by the same statistics, also one whose features stay: else part of the variance would be theirs.
        with running_statistics(self.backbone) if self._changes_features() else nullcontext():
            h = stem if view.change is None else self.backbone.stem(view.change(environment.x))
            risk = environment.risk(self.backbone.propagate(h, view.graph.to(stem.device)))
        if self.low_memory:
            view.forget()
        return risk

    def _risks(
        self, environments: Sequence[Environment], stems: Sequence[Tensor], views: Sequence[Sequence[View]]
    ) -> Tensor:
        pairs = zip(environments, stems, views, strict=True)
        return torch.stack([self._risk(e, h, view) for e, h, row in pairs for view in row])

    def _risks_only(
        self, environments: Sequence[Environment], stems: Sequence[Tensor], views: Sequence[Sequence[View]]
    ) -> Tensor:
        with torch.no_grad(), frozen_statistics(self.backbone):
            return self._risks(environments, stems, views)

    def _learn(self, views: Sequence[Sequence[View]], risks: Tensor) -> None:
        if not any(explorer.learns for explorer in self._all_explorers()):
            return
        shared = self.credit == "shared"
        rewards = variance(risks.detach()).expand(risks.numel()) if shared else difference_rewards(risks)
        proposed = [view for row in views for view in row]
        explorers = self._all_explorers()
        triples = zip(explorers, proposed, rewards.tolist(), strict=True)
        self._together(explorers, [partial(explorer.learn, view, reward) for explorer, view, reward in triples])

    def _backward(
        self, environments: Sequence[Environment], stems: Sequence[Tensor], views: Sequence[Sequence[View]], beta: float
    ) -> Tensor:
        risks = self._risks(environments, stems, views)
        eerm_objective(risks, beta).backward()
        return risks.detach()

    def _backward_one_view_at_a_time(
        self, environments: Sequence[Environment], stems: Sequence[Tensor], views: Sequence[Sequence[View]], beta: float
    ) -> Tensor:
        device = stems[0].device
        before = rng_state(device)
        risks = self._risks_only(environments, stems, views)
        weights = iter(objective_weights(risks, beta))
        set_rng_state(before, device)  # the second pass draws the same dropout
        leaves = [stem.detach().requires_grad_(stem.requires_grad) for stem in stems]
        for environment, leaf, row in zip(environments, leaves, views, strict=True):
            for view in row:
                (next(weights) * self._risk(environment, leaf, view)).backward()
        for stem, leaf in zip(stems, leaves, strict=True):
            if leaf.grad is not None:
                stem.backward(leaf.grad)
        return risks

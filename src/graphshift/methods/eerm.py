"""EERM (Wu et al., ICLR 2022): its objective, Algorithm 1 in its order, and its hyper-parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.backbones.base import computed_once
from graphshift.backbones.batchnorm import frozen_statistics, running_statistics
from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam, hparams_of
from graphshift.core.randomness import derive_seed, rng_state, set_rng_state
from graphshift.core.registry import expected_one_of
from graphshift.data.environment import Environment
from graphshift.estimators.base import METHODS
from graphshift.estimators.gnn import GNNEstimator
from graphshift.explorers import AIMS, EXPLORERS, Change, Explorer, SharedRisk, View
from graphshift.graph.graph import Graph
from graphshift.methods.kept_explorers import KeptExplorers
from graphshift.methods.risks import (
    anchored_mean,
    grouped,
    grouped_objective,
    grouped_rewards,
    grouped_weights,
    variance,
)
from graphshift.training.method import Method, with_prefix

Environments: TypeAlias = Sequence[Environment]
Views: TypeAlias = Sequence[Sequence[View]]


class EERMMethod(Method):
    """K explorers make views whose risks differ; the GNN minimises Var({L}) + β · mean({L}) (Eq. 5).

    With several training environments each has K explorers of its own. ``variance`` and ``reward_variance`` say of
    which risks the variance is taken, for the GNN and for the explorers (:mod:`graphshift.methods.risks`).

    Args:
        backbone: the GNN.
        hparams: the hyper-parameters.
        make_explorer: makes the explorer of environment m and view k: ``make_explorer(m, k)``; None for those that the
            hyper-parameters ask for.
    """

    hparams: EERM

    def __init__(
        self, backbone: Backbone, hparams: EERM, make_explorer: Callable[[int, int], Explorer] | None = None
    ) -> None:
        super().__init__(backbone, hparams)
        backbone.save_memory = hparams.low_memory
        self.kept = KeptExplorers(
            make_explorer or hparams.make_explorer,
            hparams.views,
            hparams.new_edge_features,
            low_memory=hparams.low_memory,
        )
        self._reset_at: float | None = None

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One pass of Algorithm 1's outer loop: T steps of the explorers, one of the GNN."""
        self.meet(environments)
        self.backbone.train()
        if self.hparams.reset_explorers and (progress != self._reset_at or environments[0].whole is None):
            for explorer in self._explorers(environments):  # at the epoch's first batch
                explorer.reset()
            self._reset_at = progress
        # θ is fixed until line 9, so what needs no edges is computed once for all T · K views.
        stems = [self.backbone.stem(environment.x) for environment in environments]
        self._keep_statistics(environments, stems)
        for _ in range(self.hparams.inner_steps - 1):  # t = 1 … T − 1
            self._explore(environments, stems)
        beta, end = self.hparams.beta, self.hparams.beta_end
        beta += 0.0 if end is None else (end - beta) * progress
        views = self._propose(environments, stems)  # t = T, line 4
        backward = self._backward_one_by_one if self.hparams.low_memory else self._backward
        risks, anchors = backward(environments, stems, views, beta)
        self._learn(environments, views, risks)  # lines 5 and 6
        self.descend()  # line 9, on this iteration's risks
        graphs, over = len(environments), self.hparams.variance
        spread = torch.stack([variance(group) for group in grouped(risks, graphs, over)]).mean()
        mean = anchored_mean(risks, anchors, self.hparams.anchor)
        numbers = {"loss": spread + beta * mean, "variance": spread, "risk": mean}
        return {name: float(number) for name, number in numbers.items()} | {"beta": beta}

    def _keep_statistics(self, environments: Sequence[Environment], stems: Sequence[Tensor]) -> None:
        """Batch normalisation's running statistics of the graphs as they are, if views will be measured by them."""
        if self.kept.change_features:
            with torch.no_grad():
                for environment, stem in zip(environments, stems, strict=True):
                    self.backbone.propagate(stem.detach(), environment.graph)

    def explore(self, environments: Sequence[Environment]) -> tuple[list[list[View]], Tensor]:
        """One step of the explorers alone (lines 4 to 6): each environment's views, and the risks of all of them.

        The GNN stays as it is.
        """
        self.meet(environments)
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
        self._learn(environments, views, risks)
        return views, risks

    def state(self) -> dict[str, Tensor]:
        """The GNN, its optimiser, and every explorer."""
        return super().state() | {f"explorer.{name}": tensor for name, tensor in self.kept.state().items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave. The environments are met before, in the same order."""
        super().load_state(state)
        self.kept.load_state(with_prefix(state, "explorer."))

    def meet(self, environments: Sequence[Environment]) -> None:
        """Makes the explorers of environments that are new."""
        self.kept.meet(environments)

    def apart(self) -> str:
        """Explorers that learn, or go on from where they were, do so from what their own process has seen."""
        return self.kept.apart()

    def reseed(self, seed: int) -> None:
        """Of the explorers."""
        self.kept.reseed(seed)

    @property
    def explorers(self) -> list[list[Explorer]]:
        """The K explorers of each environment, in the order in which these were met."""
        return self.kept.rows

    def _explorers(self, environments: Sequence[Environment]) -> list[Explorer]:
        return [explorer for environment in environments for explorer in self.kept.of(environment)]

    def _propose(self, environments: Sequence[Environment], stems: Sequence[Tensor]) -> list[list[View]]:
        views = []
        kept = running_statistics if self.kept.change_features else frozen_statistics  # as views are measured
        for environment, stem in zip(environments, stems, strict=True):
            home, row = self.kept.graph_of(environment), self.kept.of(environment)
            for explorer in row:
                explorer.look_at(environment.rows, environment.home.num_nodes)

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
            views.append(self.kept.together(row, jobs) if prepared else [job() for job in jobs])
        return views

    def _risk(self, environment: Environment, stem: Tensor, view: View) -> Tensor:
        # All views by the same statistics, also one whose features stay: else part of the variance would be theirs.
        with running_statistics(self.backbone) if self.kept.change_features else nullcontext():
            h = stem if view.change is None else self.backbone.stem(view.change(environment.x))
            risk = environment.risk(self.backbone.propagate(h, view.graph.to(stem.device)))
        if self.hparams.low_memory:
            view.forget()
        return risk

    def _risks(self, environments: Environments, stems: Sequence[Tensor], views: Views) -> Tensor:
        pairs = zip(environments, stems, views, strict=True)
        return torch.stack([self._risk(e, h, view) for e, h, row in pairs for view in row])

    def _risks_only(self, environments: Environments, stems: Sequence[Tensor], views: Views) -> Tensor:
        with torch.no_grad(), frozen_statistics(self.backbone):
            return self._risks(environments, stems, views)

    def _learn(self, environments: Sequence[Environment], views: Sequence[Sequence[View]], risks: Tensor) -> None:
        explorers = self._explorers(environments)
        if not any(explorer.learns for explorer in explorers):
            return
        own, over = self.hparams.reward_variance, self.hparams.variance
        over = over if own == "same" else own
        rewards = grouped_rewards(risks, len(environments), over, shared=self.hparams.credit == "shared")
        if not bool(torch.isfinite(rewards).all()):  # nothing to learn from; the loop stops at such a loss
            return
        proposed = [view for row in views for view in row]
        triples = zip(explorers, proposed, rewards.tolist(), strict=True)
        self.kept.together(explorers, [partial(explorer.learn, view, reward) for explorer, view, reward in triples])

    def _anchors(self, environments: Environments, stems: Sequence[Tensor]) -> Tensor | None:
        """The risks of the graphs without edits, if they have a part in the mean."""
        if not self.hparams.anchor:
            return None
        pairs = zip(environments, stems, strict=True)
        return torch.stack([self._risk(e, h, View(e.graph)) for e, h in pairs])

    def _backward(
        self, environments: Environments, stems: Sequence[Tensor], views: Views, beta: float
    ) -> tuple[Tensor, Tensor | None]:
        risks, anchors = self._risks(environments, stems, views), self._anchors(environments, stems)
        grouped_objective(
            risks, len(environments), self.hparams.variance, beta, anchors, self.hparams.anchor
        ).backward()
        return risks.detach(), None if anchors is None else anchors.detach()

    def _backward_one_by_one(
        self, environments: Environments, stems: Sequence[Tensor], views: Views, beta: float
    ) -> tuple[Tensor, Tensor | None]:
        device = stems[0].device
        before = rng_state(device)
        risks = self._risks_only(environments, stems, views)
        share, graphs = self.hparams.anchor, len(environments)
        weights = iter(grouped_weights(risks, graphs, self.hparams.variance, (1 - share) * beta))
        set_rng_state(before, device)  # the second pass draws the same dropout
        leaves = [stem.detach().requires_grad_(stem.requires_grad) for stem in stems]
        for environment, leaf, row in zip(environments, leaves, views, strict=True):
            for view in row:
                (next(weights) * self._risk(environment, leaf, view)).backward()
        anchors = []
        for environment, leaf in zip(environments, leaves, strict=True) if share else ():
            (anchor,) = self._anchors([environment], [leaf])  # type: ignore[misc]
            (share * beta / graphs * anchor).backward()
            anchors.append(anchor.detach())
        for stem, leaf in zip(stems, leaves, strict=True):
            if leaf.grad is not None:
                stem.backward(leaf.grad)
        return risks, torch.stack(anchors) if anchors else None


@METHODS.register("eerm", label="EERM")
@dataclass(eq=False, repr=False, kw_only=True)
class EERM(GNNEstimator):
    """Explore-to-Extrapolate Risk Minimization (Wu et al., ICLR 2022).

    K explorers edit the graph to make virtual environments whose risks differ as much as possible; the GNN minimises
    the variance of these risks plus β times their mean (Eq. 5, Algorithm 1).

    Args:
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
        explorer: ``"reinforce"`` (the paper's), ``"random"``, ``"drop-edge"`` or ``"add-edge"`` (controls),
            ``"gradient"``, ``"features"`` or ``"mixed"`` (ours: follow the risk's gradient), or a function
            ``seed -> Explorer``.
        explorer_options: options of the named explorer, such as ``{"candidates": 20}`` for ``"gradient"``.
        views: K, at least 2.
        edits_per_node: s.
        inner_steps: T.
        beta: β.
        beta_end: None keeps β constant; a number moves it there in a straight line over training (the authors' code
            grows it tenfold on Twitch).
        anchor: share of the graphs without edits in the mean risk: 0 has none (the paper), 1 takes the mean of them
            alone, and the views serve the variance.
        explorer_lr: learning rate of the explorers.
        explorer_optimizer: ``"adam"`` or ``"sgd"``.
        explorer_weight_decay: of the explorers' logits.
        explorer_baseline: decay of a running mean of rewards that is subtracted from the reward; None for none (the
            paper).
        credit: the explorers' reward. ``"shared"`` (the paper): each gets J_1 = Var({L}) (Alg. 1, line 6).
            ``"difference"``: explorer k gets Var({L}) − Var({L} without L_k), which has the same expected gradient.
        variance: of which risks the variance is taken where there are several training graphs: ``"pooled"`` (Eq. 3),
            ``"within"`` each graph or ``"averaged"`` over graphs first, as the authors' code does on Facebook-100 and
            on Elliptic.
        reward_variance: the same for the explorers' reward; ``"same"``: as ``variance``. By default that of the
            explorer's own graph, since it can change nothing between graphs; Eq. 3 has ``"pooled"``.
        reset_explorers: forget what the explorers learned at every epoch, as the authors' code does on Cora, Photo and
            Arxiv. Algorithm 1 never resets.
        directed_edits: flip one direction of an undirected edge, as in the paper's formula.
        new_edge_features: what an added edge has as features, where edges have some: ``"draw"`` (those of an edge of
            the graph, drawn once for each pair), ``"mean"`` or ``"zeros"``.
        low_memory: process one view at a time, with a second forward pass, and let deep backbones compute blocks of
            layers twice. The gradient is the same.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=100, tests=2)
    >>> model = gs.EERM("sage", explorer="random", views=2, epochs=3).fit(data)
    >>> sorted(model.score(data.tests))
    ['T1', 'T2']
    """

    method_class = EERMMethod

    explorer: str | Callable[[int], Explorer] = hparam("reinforce", registry="explorer", help="what makes the views")
    explorer_options: dict[str, Any] = hparam({}, help="options of the explorer, as candidates=20")
    views: int = hparam(3, ge=2, le=1000, help="K, the number of views; at least 2")
    edits_per_node: int = hparam(
        5, ge=1, le=10_000, search=(1, 5, 10), needs="edits_edges", help="s, the edits drawn for each node"
    )
    inner_steps: int = hparam(1, ge=1, search=(1, 5), needs="learns", help="T, explorer steps for one step of the GNN")
    beta: float = hparam(
        1.0, ge=0, search=(0.2, 0.5, 1.0, 2.0, 3.0), help="β, the weight of the mean risk beside the variance"
    )
    beta_end: float | None = hparam(None, ge=0, help="value that β moves to in a straight line; none: constant")
    anchor: float = hparam(0.0, ge=0, le=1, help="share of the graphs without edits in the mean risk")
    explorer_lr: float = hparam(
        0.005, ge=0, le=1e12, search=(0.0001, 0.001, 0.005, 0.01), needs="learns", help="learning rate of the explorers"
    )
    explorer_optimizer: Literal["adam", "sgd"] = hparam("adam", needs="learns", help="optimiser of the explorers")
    explorer_weight_decay: float = hparam(
        0.0, ge=0, le=1e6, needs="learns", help="weight decay of the explorers' logits"
    )
    explorer_baseline: float | None = hparam(
        None, ge=0, lt=1, needs="learns", help="decay of the running-mean reward baseline"
    )
    credit: Literal["shared", "difference"] = hparam("shared", needs="learns", help="reward of an explorer")
    variance: Literal["pooled", "within", "averaged"] = hparam(
        "pooled", help="of which risks, with several graphs: pooled, within a graph, averaged"
    )
    reward_variance: Literal["same", "pooled", "within", "averaged"] = hparam(
        "within", needs="learns", help="of which, for the explorers; within: their own graph; same: as variance"
    )
    reset_explorers: bool = hparam(False, needs="learns", help="forget what explorers learned at every epoch")
    directed_edits: bool = hparam(False, needs="edits_edges", help="flip one direction of an undirected edge")
    new_edge_features: Literal["draw", "mean", "zeros"] = hparam(
        "draw", needs="edits_edges", help="features of an added edge: those of a drawn edge, or their mean"
    )
    low_memory: bool = hparam(False, help="process one view at a time, with a second forward pass")

    def make_explorer(self, m: int, k: int) -> Explorer:
        """Explorer k of training environment m; options that it does not have are refused."""
        seed = derive_seed(self.seed, 2, m, k)
        if not isinstance(self.explorer, str):
            return self.explorer(seed)
        of_explorers = ("lr", "optimizer", "weight_decay", "baseline")
        offered: dict[str, Any] = {name: getattr(self, f"explorer_{name}") for name in of_explorers}
        offered |= {"edits_per_node": self.edits_per_node, "directed": self.directed_edits, "seed": seed}
        offered["aim"] = AIMS[k % 2]  # by turns: opposite aims differ most
        make = EXPLORERS.find(self.explorer)
        taken = inspect.signature(make).parameters  # a random explorer, say, has no learning rate
        check_types(f"explorer {self.explorer!r}", make, self.explorer_options)
        if unknown := [name for name in self.explorer_options if name not in taken]:
            known = expected_one_of(unknown[0], list(taken))
            raise GraphshiftError(f"explorer {self.explorer!r} has no option {unknown[0]!r}; {known}")
        chosen = {name: value for name, value in offered.items() if name in taken}
        return make(**{**chosen, **self.explorer_options})

    @classmethod
    def idle(cls, name: str, values: Mapping[str, Any]) -> str:
        """Why a hyper-parameter has no effect with the chosen explorer; empty if it has one."""
        needed, explorer = hparams_of(cls)[name].needs, values.get("explorer", hparams_of(cls)["explorer"].default)
        if not needed or not isinstance(explorer, str) or getattr(EXPLORERS.find(explorer), needed):
            return ""
        return f"explorer {explorer!r} does not {'learn' if needed == 'learns' else 'edit edges'}"

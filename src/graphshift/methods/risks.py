"""What EERM makes of the risks of its views: the variance, the objective, the explorers' rewards. Pure functions.

With several training graphs Eq. 3 of the paper takes the variance of all risks together. Nearly all of it can then lie
between the graphs, where no explorer can change anything. ``over`` names what the variance is taken of:

- ``"pooled"``: all (view, graph) pairs, Eq. 3 as it stands;
- ``"within"``: the K views of each graph, then the mean over graphs (the authors' code on Facebook-100);
- ``"averaged"``: K numbers, each the mean risk of view k over graphs (the authors' code on Elliptic).

With one training graph the three are the same.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError

Over: TypeAlias = Literal["pooled", "within", "averaged"]


def variance(risks: Tensor) -> Tensor:
    """J_1 = Var({L_k}) = Σ_k (L_k − L̄)² / (K − 1), the reward of every explorer (Eq. 5; Alg. 1, line 5).

    Args:
        risks: the risks of all views, ``[K]``, K at least 2.
    """
    _check_risks(risks)
    return risks.var(correction=1)


def eerm_objective(risks: Tensor, beta: float) -> Tensor:
    """J_2 = Var({L_k}) + (β / K) Σ_k L_k: what the GNN minimises (Eq. 5; Alg. 1, line 8).

    Args:
        risks: the risks of all views, ``[K]``, K at least 2.
        beta: β, the weight of the mean.
    """
    return variance(risks) + beta * risks.mean()


def objective_weights(risks: Tensor, beta: float) -> Tensor:
    """c_k = 2 (L_k − L̄) / (K − 1) + β / K, so that ∇J_2 = Σ_k c_k ∇L_k.

    With the weights known, views can be processed one at a time with the memory of one view.

    Args:
        risks: the risks of all views, ``[K]``, K at least 2; taken as constants.
        beta: β.
    """
    _check_risks(risks)
    risks = risks.detach()
    return 2 * (risks - risks.mean()) / (risks.numel() - 1) + beta / risks.numel()


def difference_rewards(risks: Tensor) -> Tensor:
    """D_k = Var({L}) − Var({L} without L_k): what view k adds to the variance.

    The second term does not depend on explorer k's actions, so it is a baseline: the expected policy gradient equals
    that of the shared reward Var({L}), with less noise from the other explorers. (The variance of a single risk, which
    remains for K = 2, is taken as 0.)

    Args:
        risks: the risks of all views, ``[K]``, K at least 2.

    Returns:
        ``[K]`` rewards.
    """
    _check_risks(risks)
    k = risks.numel()
    deviation = risks.detach() - risks.detach().mean()
    total = deviation.square().sum()
    if k == 2:
        return total.expand(2)
    # Leaving out k shifts the mean by −d_k / (K − 1): the remaining squares sum to total − d_k² K / (K − 1).
    without = (total - deviation.square() * k / (k - 1)) / (k - 2)
    return total / (k - 1) - without


def score_function_loss(log_prob: Tensor, reward: Tensor | float) -> Tensor:
    """−R · log p(actions): its gradient is the REINFORCE estimate, negated (Appendix A).

    For explorers whose log-probability is an autograd tensor; the built-in one computes the same gradient by hand.

    Args:
        log_prob: log p of the drawn actions, a scalar that requires a gradient.
        reward: R, a constant.
    """
    # A plain number stays one: as a tensor it would be rounded to float32.
    return -(reward.detach() if isinstance(reward, Tensor) else reward) * log_prob


def _check_risks(risks: Tensor) -> None:
    if risks.dim() != 1 or risks.numel() < 2:
        shape = list(risks.shape)
        raise GraphshiftError(f"risks have shape {shape}; expected [K] with K at least 2: one risk has no variance.")


def grouped(risks: Tensor, graphs: int, over: Over) -> Tensor:
    """The risks in the groups whose variance counts, ``[groups, n]``.

    Args:
        risks: ``[graphs · K]``, the K views of the first graph first.
        graphs: M.
        over: see the head of this file.
    """
    table = risks.view(graphs, -1)
    if over == "averaged":
        return table.mean(dim=0, keepdim=True)
    return table if over == "within" else risks.view(1, -1)


def anchored_mean(risks: Tensor, anchors: Tensor | None, share: float) -> Tensor:
    """(1 − a) · mean_k L_k + a · mean_m L⁰_m, where L⁰_m is the risk of graph m without edits.

    Args:
        risks: of all views.
        anchors: L⁰, ``[graphs]``; None where a is 0.
        share: a.
    """
    return risks.mean() if anchors is None else (1 - share) * risks.mean() + share * anchors.mean()


def grouped_objective(
    risks: Tensor, graphs: int, over: Over, beta: float, anchors: Tensor | None = None, share: float = 0.0
) -> Tensor:
    """The mean over groups of Var + β · mean; arguments as for :func:`grouped`, β as in :func:`eerm_objective`.

    With ``anchors`` the mean is :func:`anchored_mean`.
    """
    if anchors is not None:
        return grouped_objective(risks, graphs, over, (1 - share) * beta) + beta * share * anchors.mean()
    return torch.stack([eerm_objective(group, beta) for group in grouped(risks, graphs, over)]).mean()


def grouped_weights(risks: Tensor, graphs: int, over: Over, beta: float) -> Tensor:
    """The derivatives of :func:`grouped_objective` by the risks, ``[graphs · K]``; arguments as there."""
    groups = grouped(risks, graphs, over)
    weights = torch.stack([objective_weights(group, beta) for group in groups]) / len(groups)
    return weights.expand(graphs, -1).flatten() / graphs if over == "averaged" else weights.flatten()


def grouped_rewards(risks: Tensor, graphs: int, over: Over, *, shared: bool) -> Tensor:
    """The reward of every explorer, ``[graphs · K]``: the variance of its group, or what its view adds to that.

    Args:
        risks, graphs, over: as for :func:`grouped`.
        shared: the whole variance for each (the paper), or :func:`difference_rewards`.
    """
    groups = grouped(risks.detach(), graphs, over)
    rewards = torch.stack([variance(g).expand(g.numel()) if shared else difference_rewards(g) for g in groups])
    return rewards.expand(graphs, -1).flatten() if over == "averaged" else rewards.flatten()

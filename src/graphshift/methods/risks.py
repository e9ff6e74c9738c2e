"""The paper's objective and rewards as pure functions of risks. Use them in any training loop."""

from __future__ import annotations

from torch import Tensor

from graphshift.core.errors import GraphshiftError


def variance(risks: Tensor) -> Tensor:
    """J_1 = Var({L_k}) = Σ_k (L_k − L̄)² / (K − 1), the reward of every explorer (Eq. 5; Alg. 1, line 5).

    Args:
        risks: the risks of all views, ``[K]``, K at least 2.
    """
    _check(risks)
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
    _check(risks)
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
    _check(risks)
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


def _check(risks: Tensor) -> None:
    if risks.dim() != 1 or risks.numel() < 2:
        raise GraphshiftError(
            f"risks have shape {list(risks.shape)}; expected [K] with K at least 2: one risk has no variance."
        )

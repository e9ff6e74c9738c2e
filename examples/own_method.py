"""A training method of your own, in one file: tuning, selection, resuming, saving and studies work as for any other.

On the command line: GRAPHSHIFT_PLUGINS=examples/own_method.py graphshift fit planted --method worst-groups --share 0.3
"""

from dataclasses import dataclass

import torch

import graphshift as gs
from graphshift.core.hparams import hparam
from graphshift.methods import METHODS, GroupedEstimator, GroupedMethod


class WorstGroupsMethod(GroupedMethod):
    """The mean risk of the groups that are worst (conditional value at risk)."""

    def objective(self, groups, progress):
        risks = torch.stack([group.risk for group in groups])
        worst = risks.topk(max(round(self.hparams.share * risks.numel()), 1)).values
        return worst.mean(), {"worst_risk": float(risks.detach().max())}


@METHODS.register("worst-groups", label="Worst groups")
@dataclass(eq=False, repr=False, kw_only=True)
class WorstGroups(GroupedEstimator):
    """Trains on the worst groups alone. Args: share: of the groups, from 0 to 1."""

    method_class = WorstGroupsMethod
    share: float = hparam(0.5, gt=0, le=1, search=(0.25, 0.5, 0.75), help="share of the groups that count")


if __name__ == "__main__":
    data = gs.load("planted", nodes=200)
    for model in (gs.ERM(epochs=50), WorstGroups(epochs=50)):
        scores = model.fit(data).score(data.tests)
        print(f"{model.label:12s} mean test accuracy {sum(scores.values()) / len(scores):.2f}")

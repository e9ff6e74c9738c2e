"""A training method of your own, in one file: training, selection, resuming and scoring are as for any other."""

import torch

import graphshift as gs
from graphshift.methods import GroupedMethod


class WorstHalf(GroupedMethod):
    """The mean risk of the half of the groups that are worst (conditional value at risk)."""

    def objective(self, groups, progress):
        risks = torch.stack([group.risk for group in groups])
        return risks.topk((risks.numel() + 1) // 2).values.mean(), {"worst_risk": float(risks.detach().max())}


class WorstHalfERM(gs.ERM):
    """ERM's settings, another step."""

    def make_method(self, backbone, settings):
        return WorstHalf(backbone, groups=4, lr=settings.lr, weight_decay=settings.weight_decay, clip=settings.clip)


data = gs.load("planted", nodes=200)
for model in (gs.ERM(epochs=50), WorstHalfERM(epochs=50)):
    scores = model.fit(data.train, data.val).score(data.tests)
    print(f"{type(model).__name__:12s} mean test accuracy {sum(scores.values()) / len(scores):.2f}")

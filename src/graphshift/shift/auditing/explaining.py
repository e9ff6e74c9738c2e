"""A fitted GNN as a module that PyG's explainers take: ``torch_geometric.explain.Explainer(as_module(model), …)``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from graphshift.core.errors import GraphshiftError
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Predictor
from graphshift.graph.edge_list import EdgeList


class _Carrier(MessagePassing):
    """Where PyG's explainers put their mask of the edges; no message is passed."""

    def factor(self, count: int) -> Tensor | None:
        """What each edge's weight is multiplied by; None where nobody explains."""
        if not self.explain or self._edge_mask is None:
            return None
        mask = self._edge_mask.sigmoid() if self._apply_sigmoid else self._edge_mask
        if mask.numel() != count:
            raise GraphshiftError(f"the explainer's mask has {mask.numel()} edges; the graph has {count}.")
        return mask


class ExplainableModule(nn.Module):
    """Class scores (or values) of a fitted GNN from ``x`` and ``edge_index``; a mask of edges multiplies their weights.

    Args:
        model: a fitted GNN.
    """

    def __init__(self, model: GNNEstimator) -> None:
        super().__init__()
        self.backbone, self.task = model.backbone_, model.task_
        self.carrier = _Carrier()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logarithms of class probabilities ``[nodes, classes]``, or values ``[nodes, 1]``.

        Args:
            x: ``[nodes, features]``, dense.
            edge_index: PyG's; each edge once, an undirected one both ways.
            edge_weight: ``[edges]``; None for ones.
        """
        factor = self.carrier.factor(edge_index.shape[1])
        if factor is not None:
            edge_weight = factor if edge_weight is None else edge_weight * factor
        output: Tensor = self.backbone(x, EdgeList(edge_index, x.shape[0], edge_weight))
        if not self.task.is_classification:
            return output
        if self.task.out_channels > 1:
            return output.log_softmax(dim=1)
        return torch.cat([nn.functional.logsigmoid(-output), nn.functional.logsigmoid(output)], dim=1)


def as_module(model: Predictor) -> ExplainableModule:
    """A fitted GNN for PyG's explainers (:mod:`torch_geometric.explain`), with return type ``log_probs``.

    >>> import graphshift as gs
    >>> from torch_geometric.explain import Explainer, GNNExplainer
    >>> data = gs.load("planted-structure", nodes=100)
    >>> model = gs.ERM(epochs=3).fit(data)
    >>> how = {"mode": "multiclass_classification", "task_level": "node", "return_type": "log_probs"}
    >>> masks = {"node_mask_type": "attributes", "edge_mask_type": "object"}
    >>> explainer = Explainer(
    ...     gs.as_module(model), GNNExplainer(epochs=2), explanation_type="model", model_config=how, **masks
    ... )
    >>> graph = data.tests[0].data
    >>> explainer(graph.x, graph.edge_index, index=3).edge_mask.shape == graph.edge_index.shape[1:]
    True

    Args:
        model: a fitted GNN with a backbone of ours; a module of your own is PyG's already.
    """
    if not isinstance(model, GNNEstimator):
        raise GraphshiftError(
            "as_module: the model is no GNN, and PyG's explainers follow its gradient; there is none."
        )
    if isinstance(model.backbone, nn.Module):
        raise GraphshiftError("as_module: the backbone is a module of your own; give that to the explainer.")
    if model.n_edge_features_:
        raise GraphshiftError("as_module: the model uses features of edges, which explainers do not hand on.")
    return ExplainableModule(model).eval()

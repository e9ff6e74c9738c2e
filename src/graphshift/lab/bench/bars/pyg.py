"""An ERM step with our GCN beside the same step with PyG's."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch_geometric.nn.models import GCN
from torch_geometric.utils import to_torch_csr_tensor

from graphshift.backbones import ModuleBackbone
from graphshift.core.randomness import isolated
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import new_method, planted_environment, stepping
from graphshift.methods import ERM, ERMMethod

_BAR = 0.7
_COLUMNS = ("graph", "ours (ms)", "PyG, edge_index (ms)", "ours ÷ PyG", "PyG, CSR matrix (ms)", "ours ÷ that")


class _OverMatrix(nn.Module):
    """PyG's GCN given the adjacency matrix in place of the edge list."""

    def __init__(self, gcn: nn.Module, matrix: Tensor) -> None:
        super().__init__()
        self.gcn, self.matrix = gcn, matrix

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """PyG's output."""
        return self.gcn(x, self.matrix)


def pyg_method(environment: Environment, *, csr: bool) -> ERMMethod:
    """ERM with PyG's GCN: the same layers, width, normalisation and optimiser as ours.

    Args:
        environment: the graph.
        csr: give PyG ``adj_t`` as a ``torch.sparse`` CSR matrix; else ``edge_index``, its default.
    """
    channels = environment.task.out_channels
    with isolated(0, torch.device("cpu")):
        module: nn.Module = GCN(environment.num_features, 32, 2, channels, norm="batch", cached=True)
    if csr:
        nodes = environment.num_nodes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch on the invariants of sparse tensors
            transposed = to_torch_csr_tensor(environment.graph.edge_index.flip(0), size=(nodes, nodes))
        module = _OverMatrix(module, transposed)
    return ERMMethod(ModuleBackbone(module, channels), ERM())


def run(bench: Bench) -> None:
    """Measures on Cora, Twitch DE and a planted graph."""
    rows = bench.table(
        "An ERM step beside PyG's GCN",
        _COLUMNS,
        "PyG's features are dense, since it takes no others; ours are sparse on Cora and Twitch",
    )
    nodes = bench.sizes.pyg
    planted = f"planted-{nodes}"
    for id, name in (("cora", "Cora"), ("twitch", "Twitch DE"), (planted, f"planted, {nodes:,} nodes")):
        what = f"ERM step, {name}: our GCN over PyG's"
        if id != planted and not bench.has_data(id):
            reason = f"the files of {id} are not there (--data-dir)"
            bench.measured(f"erm-over-pyg-{id}", what, None, bar=_BAR, reason=reason)
            continue
        with bench.stage(name):
            environment = planted_environment(nodes) if id == planted else bench.real_data(id).train[0]
            ours, listed, matrix = _seconds(bench, environment)
            bench.outcome.data[id] = {"ours": ours, "pyg": listed, "pyg_csr": matrix}
            bench.measured(f"erm-over-pyg-{id}", what, ours / listed, bar=_BAR)
            bench.measured(f"erm-over-pyg-csr-{id}", f"{what} with a torch.sparse matrix", ours / matrix)
            times = [f"{1e3 * seconds:,.1f}" for seconds in (ours, listed, matrix)]
            rows.append([name, times[0], times[1], show(ours / listed), times[2], show(ours / matrix)])


def _seconds(bench: Bench, environment: Environment) -> list[float]:
    """The times of our step, of PyG's with ``edge_index``, and of PyG's with a matrix."""
    x = environment.x
    dense = environment.replace(x=x.to_dense() if isinstance(x, Sparse) else x)  # PyG takes no other
    jobs = [stepping(new_method(environment, "erm"), environment)]
    jobs += [stepping(pyg_method(dense, csr=csr), dense) for csr in (False, True)]
    return bench.time(*jobs)

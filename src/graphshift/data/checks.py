"""The checks and repairs that every graph passes once."""

import copy
import warnings
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.tasks import Task
from graphshift.graph.blocks import Blocks
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


def _wrong(name: str, text: str) -> GraphshiftError:
    return GraphshiftError(f"environment {name!r}: {text}")


def _warn(name: str, text: str) -> None:
    warnings.warn(f"environment {name!r}: {text}", GraphshiftWarning, stacklevel=5)


def on_cpu(data: Data) -> Data:
    """Checks and explorers work on the CPU; training moves environments to where it computes."""
    tensors = [value for value in data.to_dict().values() if isinstance(value, Tensor)]
    return data if all(tensor.device.type == "cpu" for tensor in tensors) else copy.copy(data).cpu()


def refuse_ambiguity(name: str, data: Data) -> None:
    """A ``Data`` with PyG's three masks is a whole split, not one environment: training on all of it would leak."""
    masks = [key for key in ("train_mask", "val_mask", "test_mask") if data.get(key) is not None]
    if masks and data.y is not None and data.get("mask") is None:
        raise _wrong(
            name,
            f"the data have {', '.join(masks)} and no `mask`: which nodes count? Use "
            "gs.from_pyg(data), which makes a split of them, or set data.mask yourself.",
        )


def checked_features(name: str, data: Data) -> Tensor | Sparse:
    """The features, dense or sparse, as finite float32."""
    x = data.x
    if not isinstance(x, Tensor):
        raise _wrong(
            name,
            f"`x` is {type(x).__name__}; expected a [nodes, features] float tensor. For a graph "
            "without features, use a column of ones or the nodes' degrees.",
        )
    if x.dim() != 2 or x.shape[0] == 0 or x.shape[1] == 0:
        raise _wrong(name, f"`x` has shape {list(x.shape)}; expected [nodes, features].")
    if not x.is_floating_point():
        raise _wrong(name, f"`x` is {x.dtype}; expected floats: use `x.float()`.")
    if x.layout == torch.strided:
        x = x.detach().to(torch.float32)
        values = x
    else:
        sparse = Sparse.from_torch(x.detach().to(torch.float32))
        values = sparse.value
    if not bool(torch.isfinite(values).all()):
        bad = int((~torch.isfinite(values)).sum())
        where = ""
        if values.dim() == 2:
            row, column = (~torch.isfinite(values)).nonzero()[0].tolist()
            where = f", first at node {row}, column {column}"
        raise _wrong(name, f"`x` has {bad} NaN or infinite values{where}; fill them in or drop the column.")
    return x if x.layout == torch.strided else sparse


def checked_graph(name: str, data: Data, num_nodes: int) -> Graph:
    """The structure of a PyG ``Data``, checked, without self-loops and duplicate edges."""
    edge_index = data.edge_index
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        found = list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise _wrong(
            name,
            f"`edge_index` is {found}; expected a [2, edges] int64 tensor (use "
            "torch.empty(2, 0, dtype=torch.int64) for a graph without edges).",
        )
    edge_index = edge_index.detach().as_subclass(Tensor)
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise _wrong(name, f"`edge_index` is {edge_index.dtype}; expected int64: node numbers, not values.")
    edge_index = edge_index.to(torch.int64)
    if edge_index.numel() and (int(edge_index.min()) < 0 or int(edge_index.max()) >= num_nodes):
        bad = ((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0)
        column = int(bad.nonzero()[0])
        raise _wrong(
            name,
            f"{int(bad.sum())} edges name nodes outside 0…{num_nodes - 1}, first edge {column}: "
            f"{edge_index[:, column].tolist()}; number the nodes as the rows of `x`.",
        )
    weight = data.edge_weight if "edge_weight" in data else None
    if weight is not None:
        weight = _checked_weight(name, weight, edge_index.shape[1])
    attr = None if data.get("edge_attr") is None else _checked_attr(name, data.edge_attr, edge_index.shape[1])
    loops = edge_index[0] == edge_index[1]
    if bool(loops.any()):
        _warn(name, f"removed {int(loops.sum())} self-loops; backbones add their own where the paper does.")
        edge_index = edge_index[:, ~loops]
        weight, attr = (None if part is None else part[~loops] for part in (weight, attr))
    unique, first = _first_of_each(edge_index[1] * num_nodes + edge_index[0])
    duplicates = edge_index.shape[1] - unique.numel()
    if duplicates:
        _warn(
            name,
            f"removed {duplicates} duplicate edges"
            + (", keeping the first weight of each" if weight is not None else "")
            + (", keeping the first features of each." if attr is not None else "."),
        )
        edge_index = edge_index[:, first]
        weight, attr = (None if part is None else part[first] for part in (weight, attr))
    return Graph.from_edge_index(edge_index, num_nodes, weight, edge_attr=attr)


def _first_of_each(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct keys, sorted, and the position at which each first occurs."""
    ordered, order = torch.sort(keys, stable=True)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh], order[fresh]


def _checked_weight(name: str, weight: Any, num_edges: int) -> Tensor:
    if not isinstance(weight, Tensor) or weight.dim() != 1 or weight.shape[0] != num_edges:
        found = list(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise _wrong(name, f"`edge_weight` is {found}; expected [{num_edges}], one per edge.")
    weight = weight.detach().to(torch.float32)
    bad = ~(torch.isfinite(weight) & (weight > 0))
    if bool(bad.any()):
        edge = int(bad.nonzero()[0])
        raise _wrong(
            name,
            f"{int(bad.sum())} edge weights are not positive numbers, first edge {edge}: "
            f"{float(weight[edge])}; drop edges of weight 0, and shift or square negative weights.",
        )
    return weight


def _checked_attr(name: str, attr: Any, num_edges: int) -> Tensor:
    """Edge features as finite float32, ``[edges, width]``."""
    if isinstance(attr, Tensor) and attr.dim() == 1:
        attr = attr.unsqueeze(1)
    if not isinstance(attr, Tensor) or attr.dim() != 2 or attr.shape[0] != num_edges or not attr.shape[1]:
        found = list(attr.shape) if isinstance(attr, Tensor) else type(attr).__name__
        raise _wrong(name, f"`edge_attr` is {found}; expected [{num_edges}, features], a row for each edge.")
    if not attr.is_floating_point():
        raise _wrong(
            name,
            f"`edge_attr` is {attr.dtype}; expected floats: use `edge_attr.float()`, for codes "
            "torch.nn.functional.one_hot first; or take it out, data.edge_attr = None.",
        )
    attr = attr.detach().to(torch.float32)
    if not bool(torch.isfinite(attr).all()):
        edge, column = (~torch.isfinite(attr)).nonzero()[0].tolist()
        bad = int((~torch.isfinite(attr)).sum())
        raise _wrong(
            name,
            f"`edge_attr` has {bad} NaN or infinite values, first at edge {edge}, column {column}; fill them in or "
            "drop the column.",
        )
    return attr


def has_graph_labels(name: str, data: Data, num_nodes: int, task: Task | None) -> bool:
    """Whether a ``Data`` is many small graphs with a label each: the task says so, else ``batch`` and ``y`` do.

    A ``batch`` beside labels of nodes changes nothing.
    """
    batch, y = data.get("batch"), data.y
    if task is not None:
        return task.is_graph_level
    labels = y.shape[0] if isinstance(y, Tensor) and y.dim() else num_nodes
    if batch is None and labels == 1 and num_nodes > 1:
        raise _wrong(
            name,
            f"`y` is one label for {num_nodes} nodes. Where every graph has a label, an environment is many graphs: "
            "join them by torch_geometric.data.Batch.from_data_list(graphs), or give gs.from_pyg a list for each "
            "environment.",
        )
    return batch is not None and labels != num_nodes


def checked_blocks(name: str, data: Data, graph: Graph) -> Graph:
    """The graph with its division into small ones by ``batch``; without that it is one of its own."""
    batch, nodes = data.get("batch"), graph.num_nodes
    batch = torch.zeros(nodes, dtype=torch.int64) if batch is None else batch
    if not isinstance(batch, Tensor) or batch.shape != (nodes,) or batch.dtype not in (torch.int64, torch.int32):
        found = f"{batch.dtype} {list(batch.shape)}" if isinstance(batch, Tensor) else type(batch).__name__
        raise _wrong(name, f"`batch` is {found}; expected int64 [{nodes}], the number of each node's graph.")
    steps = batch.diff()
    if int(batch[0]) != 0 or bool(((steps != 0) & (steps != 1)).any()):
        raise _wrong(
            name,
            "`batch` does not go 0, …, 0, 1, …, 1, 2 and so on: the nodes of a graph stand together, and every graph "
            "has a node, as torch_geometric.data.Batch.from_data_list makes it.",
        )
    try:
        return graph.in_blocks(Blocks.of(batch.detach().long()))
    except GraphshiftError as error:
        raise _wrong(name, str(error)) from None


def checked_mask(name: str, data: Data, num_nodes: int) -> Tensor:
    """The nodes, or graphs, that count: all of them without a mask."""
    mask = data.mask if "mask" in data else None
    if mask is None:
        return torch.ones(num_nodes, dtype=torch.bool)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (num_nodes,):
        found = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise _wrong(name, f"`mask` is {found}; expected bool [{num_nodes}].")
    if not bool(mask.any()):
        raise _wrong(name, "`mask` is empty; at least one node, or graph, must count.")
    return mask.detach()


def node_times(data: Data, num_nodes: int) -> Tensor | None:
    """When each node appeared, if ``time`` says it; a ``time`` of edges is ignored."""
    time = data.get("time")
    fits = isinstance(time, Tensor) and time.shape == (num_nodes,) and not time.is_complex()
    return time.detach() if fits else None


def known_labels(name: str, data: Data, num_nodes: int, task: Task) -> Tensor | None:
    """The labels that are known when a graph is predicted, if ``known_y`` has them: -1, or NaN, where none is."""
    known = data.get("known_y")
    if known is None:
        return None
    if not isinstance(known, Tensor) or known.shape != (num_nodes,) or known.is_complex() or known.dtype == torch.bool:
        found = f"{known.dtype} {list(known.shape)}" if isinstance(known, Tensor) else type(known).__name__
        expected = f"[{num_nodes}], a label for each node, -1 (in regression NaN) where none is known"
        raise _wrong(name, f"`known_y` is {found}; expected {expected}.")
    if not task.is_classification:
        return known.detach().float()
    if known.is_floating_point() or bool((known < -1).any()) or bool((known >= task.num_classes).any()):
        expected = f"whole numbers, a class from 0 to {task.num_classes - 1} or -1"
        raise _wrong(name, f"`known_y` is {known.dtype} with other values; expected {expected}.")
    return known.detach().long()


def further_labels(name: str, data: Data, y: Tensor | None, task: Task) -> Tensor | None:
    """The classes beside ``y`` of nodes that have several, if ``further_y`` has them: -1 where there is none."""
    further = data.get("further_y")
    if further is None or y is None:
        return None
    if not task.is_classification:
        raise _wrong(name, "`further_y` names further classes, and the task has none; leave it out.")
    fits = isinstance(further, Tensor) and further.dim() == 2 and further.shape[0] == y.shape[0]
    if not fits or further.dtype not in (torch.int64, torch.int32):
        found = f"{further.dtype} {list(further.shape)}" if isinstance(further, Tensor) else type(further).__name__
        raise _wrong(name, f"`further_y` is {found}; expected int64 [{y.shape[0]}, k], -1 where there is no class.")
    further = further.detach().long()
    if bool(((further < -1) | (further >= task.num_classes)).any()):
        raise _wrong(name, f"`further_y` has other values than -1 and the classes 0…{task.num_classes - 1}.")
    return further


def checked_labels(name: str, y: Any, mask: Tensor, task: Task) -> Tensor:
    """The labels of the counted nodes as the task needs them; the others are never used."""
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    if not isinstance(y, Tensor) or y.shape != mask.shape:
        found = list(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise _wrong(name, f"`y` is {found}; expected [{mask.shape[0]}], one label per {task.level}.")
    y = y.detach()
    if not task.is_classification:
        y = y.to(torch.float32)
        if not bool(torch.isfinite(y[mask]).all()):
            bad = int((~torch.isfinite(y[mask])).sum())
            raise _wrong(name, f"{bad} counted {task.level}s have a NaN or infinite `y`; take them out of `mask`.")
        return y
    if y.is_floating_point() and not bool((y[mask] == y[mask].round()).all()):
        raise _wrong(name, f"`y` is {y.dtype} with fractions; classes are int64 numbers.")
    y = torch.where(mask, y, torch.zeros_like(y)).to(torch.int64)
    outside = mask & ((y < 0) | (y >= task.num_classes))
    if bool(outside.any()):
        first, item = int(outside.nonzero()[0]), task.level
        raise _wrong(
            name,
            f"{int(outside.sum())} counted {item}s have a class outside 0…{task.num_classes - 1}, "
            f"first {item} {first}: {int(y[first])}; correct the labels, take these {item}s out of `mask`, or pass a "
            "`task` with more classes.",
        )
    return y

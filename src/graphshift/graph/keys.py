"""Entries of an adjacency matrix as numbers: entry (n, m) of a graph with N nodes has the key ``n * N + m``, int64."""

import torch
from torch import Tensor


def keys_of(rowptr: Tensor, columns: Tensor) -> Tensor:
    """The keys of the entries (n, m) for every m in ``columns[rowptr[n] : rowptr[n + 1]]``, in that order."""
    nodes = rowptr.numel() - 1
    every = torch.arange(nodes, device=columns.device)
    return torch.repeat_interleave(every, rowptr.diff(), output_size=columns.numel()) * nodes + columns


def flipped_keys(first: Tensor, columns: Tensor, *, both: bool) -> Tensor:
    """The keys of :func:`keys_of`, and those of the reversed entries if ``both``; sorted, each once."""
    keys = keys_of(first, columns)
    return torch.unique(torch.cat([keys, reverse(keys, first.numel() - 1)]) if both else keys)


def reverse(keys: Tensor, num_nodes: int) -> Tensor:
    """The keys of the reversed entries, in the order given."""
    return (keys % num_nodes) * num_nodes + keys // num_nodes


def are_sorted(keys: Tensor) -> bool:
    """Whether every key is larger than the one before."""
    return bool((keys[1:] > keys[:-1]).all())

"""What each backbone holds while it works, written down from its code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from graphshift.backbones import BACKBONES, GAT, GCN, GCNII, GPRGNN, MLP, SAGE, SGC, Backbone, ModuleBackbone
from graphshift.backbones.gat import GATConvolution
from graphshift.backbones.layered import Convolution, Layered
from graphshift.data.environment import ShiftDataset
from graphshift.estimators import new_backbone
from graphshift.estimators.settings import Settings
from graphshift.graph import kernels


@dataclass(frozen=True)
class Needs:
    """What a backbone holds. Widths are float32 numbers for each node, ``_entries`` bytes for each entry of the graph.

    Attributes:
        form: what it multiplies by: ``normalised``, ``adjacency``, ``attention``, ``edge_index``, or nothing.
        stem: what the part without edges keeps for the way back, its result included; once for all views.
        out: the width of the stem's result: its gradient is collected over the views.
        stem_kept: what autograd itself keeps of the stem, where nobody else holds its result.
        width: of most arrays.
        kept, kept_entries: what autograd keeps of one view.
        busy, busy_entries: what the way back needs beside, for the view it is at.
        looking, looking_entries: what a forward pass without gradient has at a time.
        lost, lost_by_erm: what the C library's heap loses while a step of EERM or ERM runs, as a share of the step's
            arrays. The only numbers here that no code tells: they were chosen by hand from measured peaks, less the
            arrays that are added up here.
    """

    form: str
    stem: float
    out: float
    kept: float
    busy: float
    looking: float
    stem_kept: float = 0
    width: float = 0
    kept_entries: float = 0
    busy_entries: float = 0
    looking_entries: float = 0
    lost: float = 1.1
    lost_by_erm: float = 2.1


def network_of(data: ShiftDataset, settings: Settings, own: nn.Module | None) -> tuple[Backbone, str]:
    """The network with its shapes and without its numbers, and what is not known about it."""
    if own is None and settings.backbone in BACKBONES:
        with torch.device("meta"):
            return new_backbone(settings.backbone, settings, data.train[0].num_features, data.task), ""
    name = settings.backbone if own is None else type(own).__name__
    module = own or nn.Sequential(*(nn.Linear(settings.hidden_channels, 1) for _ in range(settings.num_layers)))
    unknown = f"backbone {name!r} is your own: what it keeps is a rule of thumb"
    return (module if isinstance(module, Backbone) else ModuleBackbone(module, data.task.out_channels)), unknown


def needs_of(network: Backbone, dropout: bool, settings: Settings, *, by_kernels: bool = True) -> Needs:
    """What a backbone's code allocates. Written down from ``backbones/``, where one line here is one line there.

    ``by_kernels`` says whether attention may use those that there are.
    """
    out = _out_width(network)
    # After a hidden layer: batch norm keeps its input, the activation its result (and the next product takes it).
    # Dropout keeps its noise and its own result.
    after = 4 if dropout else 2
    if isinstance(network, GAT):
        return _gat_needs(network, after, by_kernels=by_kernels and kernels.available())
    if isinstance(network, GCN | SAGE):
        layers = _layers(network)
        sides = 2 if isinstance(network, SAGE) else 1  # SAGE has the neighbours' and the node's own side by side
        hidden = [layer.out_width for layer in layers[:-1]]
        widest = max(layer.out_width for layer in layers)
        normalised = isinstance(network, GCN) and getattr(layers[0], "normalize", True)
        stem, last = sides * layers[0].out_width, layers[-1].out_width
        # On the way back: the gradients before and after an operation, and the output's. Mixing keeps nothing.
        return Needs(
            "normalised" if normalised else "adjacency",
            stem,
            stem,
            kept=after * sum(hidden),
            busy=2 * widest + last,
            looking=(2 + sides) * widest,
            width=widest,
            # Arrays of two widths break the heap up more.
            lost=1.65 if sides == 2 else 1.1,
            lost_by_erm=2.6 if sides == 2 else 2.1,
        )
    if isinstance(network, GCNII):
        width, depth = out, len(network.layers)
        # Each layer keeps what its product with W takes and what its ReLU gives. In low-memory mode a block of √L
        # layers keeps its input alone, and one block at a time is computed again.
        block = max(math.isqrt(depth), 1) if settings.low_memory and settings.method == "eerm" else depth
        inputs = math.ceil(depth / block) - 1  # the first block's is the stem
        kept = (inputs + (3 if dropout else 2) * block) * width
        # On the way back: the gradients before and after an operation.
        return Needs(
            "normalised", width, width, kept=kept, busy=2 * width, looking=4 * width, stem_kept=width, width=width
        )
    if isinstance(network, GPRGNN):
        hops = network.gamma.numel() - 1
        whole = _mlp_stem(network.mlp, dropout)
        # Every hop's h is kept for the gradient of its γ; the first is the stem's.
        return Needs(
            "normalised",
            whole,
            out,
            kept=hops * out,
            busy=3 * out,
            stem_kept=whole,
            width=out,
            looking=max(3 * out, max(_mlp_widths(network.mlp))),
            lost_by_erm=1.6,
        )
    if isinstance(network, SGC):
        return Needs("normalised", out, out, kept=0, busy=3 * out, looking=3 * out, width=out)
    if isinstance(network, MLP):
        whole, widest = _mlp_stem(network, dropout), max(_mlp_widths(network))
        return Needs("", whole, out, kept=0, busy=out, looking=2 * widest, stem_kept=whole, width=widest)
    # Unknown: every matrix stands for a layer that gathers its output along edges and keeps it, as PyG's do.
    wide = sum(max(p.shape) for p in network.parameters() if p.dim() > 1)
    return Needs(
        "edge_index",
        0,
        0,
        kept=4 * wide,
        busy=4 * wide,
        looking=4 * wide,
        kept_entries=8 * wide,
        busy_entries=4 * wide,
        looking_entries=4 * wide,
    )


def _gat_needs(network: GAT, after: int, *, by_kernels: bool) -> Needs:
    kept = kept_entries = busy_entries = widest = 0.0
    layers = _layers(network)
    for i, layer in enumerate(layers):
        assert isinstance(layer, GATConvolution)
        heads, width = layer.heads, layer.width
        wide = heads * width
        # Of W h (the stem's at the first layer), what attention gives, and four numbers of a node for each head.
        kept += (wide if i else 0) + wide + 4 * heads
        kept += after * layer.out_width if i < len(layers) - 1 else 0
        widest = max(widest, wide)
        if not by_kernels:
            # For each head, h with a column of ones; along edges, scores before LeakyReLU, and their exponentials.
            kept += heads * (width + 1)
            kept_entries += 4 * 2 * heads
            busy_entries = max(busy_entries, 4 * (4 * heads + 3) + 8)  # gradients of scores, 64-bit indices
    first = layers[0]
    assert isinstance(first, GATConvolution)
    stem = first.heads * first.width
    return Needs(
        "attention" if by_kernels else "attention in torch",
        stem,
        stem,
        kept=kept,
        busy=2 * widest,
        looking=3 * widest,
        stem_kept=stem,
        width=widest,
        kept_entries=kept_entries,
        busy_entries=busy_entries,
        looking_entries=busy_entries,
        lost=0.9,
        lost_by_erm=0.85,
    )


def _layers(network: Layered) -> list[Convolution]:
    return [layer for layer in network.layers if isinstance(layer, Convolution)]


def _out_width(network: Backbone) -> int:
    """The width of what the stem of a network without convolutions gives."""
    if isinstance(network, GCNII):
        return int(network.enter.out_features)
    if isinstance(network, GPRGNN):
        return _out_width(network.mlp)
    if isinstance(network, SGC):
        return int(network.linear.out_features)
    return _mlp_widths(network)[-1] if isinstance(network, MLP) else 0


def _mlp_widths(network: MLP) -> list[int]:
    return [layer.out_features for layer in network.layers if isinstance(layer, nn.Linear)]


def _mlp_stem(network: MLP, dropout: bool) -> int:
    """Every hidden layer keeps its ReLU's result, dropout its noise and its own; and the output."""
    widths = _mlp_widths(network)
    return (3 if dropout else 1) * sum(widths[:-1]) + widths[-1]

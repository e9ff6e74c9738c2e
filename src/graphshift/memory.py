"""How much memory a fit will need, before it starts: an estimate by parts, what is available, and what to change.

The estimate follows the code that allocates, not a curve: every term names the arrays it stands for, and
``tests/test_memory.py`` holds it to what fresh processes really held (docs, *Speed and memory*, has the table). A fit
has a few moments that may need most, such as the backward pass or a checkpoint; each is added up, the largest counts.

Sizes are those of float32 values and 32-bit indices, 4 bytes each; graphs of more than 2^31 entries have larger ones.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphshift import native
from graphshift.backbones import BACKBONES, GAT, GCN, GCNII, GPRGNN, MLP, SAGE, SGC, Backbone, ModuleBackbone
from graphshift.backbones.gat import GATConvolution
from graphshift.backbones.layered import Convolution, Layered
from graphshift.environments import Environment, ShiftDataset
from graphshift.errors import GraphshiftError
from graphshift.explorers import EXPLORERS
from graphshift.graphs import Graph
from graphshift.models import new_backbone
from graphshift.settings import Settings
from graphshift.sparse import Sparse

__all__ = ["Estimate", "advice", "available_bytes", "estimate", "give_back_freed", "parse_size", "show_size"]

_GB = 10**9

#: What libraries make ready at their first training step: MKL's buffers, autograd's threads, scikit-learn's metrics.
_FIRST_USE = 20_000_000

#: glibc keeps freed arrays below this size in its heap, where smaller ones break them up. What is lost to that was
#: measured as a share of what a step holds: while it runs, and of what stays behind when it is over. Larger arrays go
#: back to the system at once, and in low-memory mode all do (:func:`give_back_freed`).
_IN_HEAP, _BROKEN_UP, _LEFT_BEHIND = 32 * 1024**2, 0.45, 0.6
#: In low-memory mode it keeps arrays below a megabyte alone: at most this many bytes, and at most this share.
_SMALL, _SMALL_SHARE = 16_000_000, 0.3


@dataclass(frozen=True)
class Estimate:
    """The memory of a fit at the moment that needs most.

    Attributes:
        parts: bytes by part: ``process`` (interpreter and libraries), ``data``, ``forms`` (the matrices that backbones
            make of the environments' graphs), ``views``, ``activations``, ``temporaries``, ``policies``, ``optimiser``,
            ``checkpoint``, ``scores``, ``heap`` (what the allocator loses).
        moment: when it is needed.
        unknown: what the estimate had to guess, in words; empty where it knows everything.
    """

    parts: Mapping[str, int]
    moment: str
    unknown: str = ""

    @property
    def total(self) -> int:
        """The peak, in bytes."""
        return sum(self.parts.values())

    @property
    def megabytes(self) -> float:
        """The peak in units of 1024 · 1024 bytes, as ``peak_rss_mb`` has it."""
        return self.total / 1024**2


@dataclass(frozen=True)
class _Needs:
    """What a backbone holds. Widths are float32 numbers for each node, ``_entries`` bytes for each entry of the graph.

    Attributes:
        form: what it multiplies by: ``normalised``, ``adjacency``, ``attention``, ``edge_index``, or nothing.
        stem: what the part without edges keeps for the way back, its result included; once for all views.
        out: the width of the stem's result: its gradient is collected over the views.
        kept, kept_entries: what autograd keeps of one view.
        busy, busy_entries: what the way back needs beside, for the view it is at.
        looking, looking_entries: what a forward pass without gradient has at a time.
    """

    form: str
    stem: float
    out: float
    kept: float
    busy: float
    looking: float
    kept_entries: float = 0
    busy_entries: float = 0
    looking_entries: float = 0


def estimate(
    data: ShiftDataset, settings: Settings, *, backbone: nn.Module | None = None, resident: int | None = None
) -> Estimate:
    """The peak memory of a fit of these data with these settings, scoring and checkpoints included.

    It trains nothing and changes nothing. On a device with memory of its own, the host's memory is meant.

    Args:
        data: the dataset, loaded. Arrays that environments share count once.
        settings: of the fit.
        backbone: your own module, where the settings cannot name one. Nothing is known about its inside, so a generous
            rule stands in for it, and ``unknown`` says so.
        resident: what the process holds now, data included, in bytes; None asks the system.
    """
    held = data_bytes(data)
    resident = resident if resident is not None else resident_bytes() or 0
    process = max(resident - held, 0) + _FIRST_USE
    network, unknown = _network(data, settings, backbone)
    needs = _needs(network, settings.dropout > 0, settings)
    if settings.device == "cuda":  # only views, policies and data are the host's
        needs = _Needs("", 0, 0, 0, 0, 0)
    if settings.method == "eerm" and settings.explorer not in EXPLORERS:
        unknown = "; ".join(filter(None, [unknown, f"explorer {settings.explorer!r} is not known: no policy counted"]))
    weights = 4 * sum(p.numel() for p in network.parameters())
    base = {
        "process": process,
        "data": held,
        # The weights, their gradient, AdamW's two moments, and the best epoch's copy.
        "optimiser": 5 * weights,
    }
    moments = _moments(data, settings, needs)
    moment, parts = max(moments.items(), key=lambda item: sum(item[1].values()))
    return Estimate({name: round(size) for name, size in (base | parts).items() if size}, moment, unknown)


def _moments(data: ShiftDataset, settings: Settings, needs: _Needs) -> dict[str, dict[str, float]]:
    """What each moment that may need most holds beside process, data and optimiser."""
    chosen = {"val": data.val, "id_val": data.train, "oracle": data.tests, "last": ()}[settings.selection]
    eerm = settings.method == "eerm"
    seen: set[tuple[int, str]] = set()
    patterns = "pattern" if eerm else needs.form
    forms = _forms(data.train, patterns, seen, way_back=not eerm)
    forms += sum(_features_transposed(e) for e in data.train if needs.form != "edge_index")
    forms += _forms(chosen, needs.form, seen, way_back=False)
    later = _forms([*data.val, *data.tests], needs.form, seen, way_back=False)
    looking = max(4 * _size(e)[0] * needs.looking + needs.looking_entries * _size(e)[1] for e in data.environments)
    scored = max((e.counted.numel() for e in (*chosen, *data.val, *data.tests)), default=0)
    # Probabilities in float64, once more as the metric takes them, beside the output.
    scores = scored * data.task.out_channels * (8 * 3 + 4)
    stems = sum(4 * e.num_nodes * needs.stem for e in data.train)
    way_back = {"forms": forms, "activations": stems}
    policies = 0.0
    moments: dict[str, dict[str, float]] = {}
    if not eerm:
        kept = sum(_kept(e, *_size(e), needs) for e in data.train)
        busy = max(_busy(e, *_size(e), needs) for e in data.train)
        moments["the backward pass"] = way_back | {"activations": stems + kept, "temporaries": busy}
    else:
        edited = {id(e): _edited(e.graph, settings) for e in data.train}
        explorers = settings.explorers
        policies = explorers * sum(_policy(e.num_nodes, settings)[0] for e in data.train)
        growth = max(_policy(e.num_nodes, settings)[1] for e in data.train)
        plain = explorers * sum(_view(e, edited[id(e)], settings) for e in data.train)
        one = {id(e): _view_forms(e, edited[id(e)], needs, settings) for e in data.train}
        kept_one = {id(e): _kept(e, e.num_nodes, edited[id(e)], needs) for e in data.train}
        busy = max(_busy(e, e.num_nodes, edited[id(e)], needs) for e in data.train)
        if settings.low_memory:
            made = max(one.values()) + (
                explorers * sum(_transposed(e, edited[id(e)], needs, settings) for e in data.train)
            )
            kept = max(kept_one.values())
        else:
            made, kept = explorers * sum(one.values()), explorers * sum(kept_one.values())
        views = {"views": plain + made, "policies": policies}
        moments["the backward pass"] = way_back | views | {"activations": stems + kept, "temporaries": busy}
        moments["a step of the explorers"] = way_back | views | {"temporaries": growth}
        proposing = max(_proposing(e, edited[id(e)], needs, settings) for e in data.train)
        before = plain + made if settings.inner_steps > 1 else 0  # the views of the step before are still there
        moments["a proposal"] = way_back | {
            "views": plain + before, "policies": policies, "temporaries": proposing,
        }  # fmt: skip
    moments["the stem's backward pass"] = way_back | {
        "policies": policies, "temporaries": 2 * stems, "views": moments["the backward pass"].get("views", 0.0),
    }  # fmt: skip
    array = max(4 * e.num_nodes * needs.looking / 4 for e in data.train)  # a pass has about four at a time
    in_heap = min(1.0, _IN_HEAP / array) if array else 1.0
    for parts in moments.values():
        step = _in_step(parts)
        parts["heap"] = min(_SMALL, _SMALL_SHARE * step) if settings.low_memory else _BROKEN_UP * in_heap * step
    step = _in_step(moments["the backward pass"])
    left = min(_SMALL, _SMALL_SHARE * step) if settings.low_memory else _LEFT_BEHIND * in_heap * step
    if chosen:
        moments["selection"] = {
            "forms": forms, "policies": policies, "temporaries": looking, "scores": scores, "heap": left,
        }  # fmt: skip
    # A checkpoint copies the policies, since the next step works on them in place.
    moments["a checkpoint"] = {"forms": forms, "policies": policies, "checkpoint": policies, "heap": left}
    # Training is over: no policies, and one test after the other.
    moments["scoring"] = {"forms": forms + later, "temporaries": looking, "scores": scores, "heap": left}
    return moments


def _in_step(parts: Mapping[str, float]) -> float:
    return sum(parts.get(name, 0.0) for name in ("views", "activations", "temporaries"))


# --- backbones ---------------------------------------------------------------------------------------------------


def _network(data: ShiftDataset, settings: Settings, own: nn.Module | None) -> tuple[Backbone, str]:
    """The network with its shapes and without its numbers, and what is not known about it."""
    if own is None and settings.backbone in BACKBONES:
        with torch.device("meta"):
            return new_backbone(settings.backbone, settings, data.train[0].num_features, data.task), ""
    name = settings.backbone if own is None else type(own).__name__
    module = own or nn.Sequential(*(nn.Linear(settings.hidden_channels, 1) for _ in range(settings.num_layers)))
    unknown = f"backbone {name!r} is your own: what it keeps is a rule of thumb"
    return (module if isinstance(module, Backbone) else ModuleBackbone(module, data.task.out_channels)), unknown


def _needs(network: Backbone, dropout: bool, settings: Settings) -> _Needs:
    """What a backbone's code allocates. Written down from ``backbones/``, where one line here is one line there."""
    out = _out_width(network)
    # After a hidden layer: batch norm keeps its input, the activation its result (and the next product takes it).
    # Dropout keeps its noise and its own result.
    after = 4 if dropout else 2
    if isinstance(network, GAT):
        return _gat_needs(network, after, by_kernels=native.available())
    if isinstance(network, GCN | SAGE):
        layers = _layers(network)
        sides = (
            2 if isinstance(network, SAGE) else 1
        )  # SAGE has the neighbours' and the node's own product side by side
        hidden = [layer.out_width for layer in layers[:-1]]
        widest = max(layer.out_width for layer in layers)
        normalised = isinstance(network, GCN) and getattr(layers[0], "normalize", True)
        stem = sides * layers[0].out_width
        return _Needs(
            "normalised" if normalised else "adjacency", stem, stem, kept=after * sum(hidden),
            busy=(2 + sides) * widest + stem, looking=(2 + sides) * widest,
        )  # fmt: skip
    if isinstance(network, GCNII):
        width, depth = out, len(network.layers)
        # Each layer keeps what its product with W takes and what its ReLU gives. In low-memory mode a block of √L
        # layers keeps its input alone, and one block at a time is computed again.
        block = max(math.isqrt(depth), 1) if settings.low_memory and settings.method == "eerm" else depth
        inputs = math.ceil(depth / block) if block < depth else 0
        kept = (inputs + (3 if dropout else 2) * block) * width
        return _Needs("normalised", width, width, kept=kept, busy=5 * width, looking=4 * width)
    if isinstance(network, GPRGNN):
        hops = network.gamma.numel() - 1
        whole = _mlp_stem(network.mlp, dropout)
        return _Needs(
            "normalised",
            whole,
            out,
            kept=2 * hops * out,
            busy=10 * out,
            looking=max(3 * out, max(_mlp_widths(network.mlp))),
        )
    if isinstance(network, SGC):
        return _Needs("normalised", out, out, kept=0, busy=3 * out, looking=3 * out)
    if isinstance(network, MLP):
        return _Needs("", _mlp_stem(network, dropout), out, kept=0, busy=out, looking=2 * max(_mlp_widths(network)))
    # Unknown: every matrix stands for a layer that gathers its output along edges and keeps it, as PyG's do.
    wide = sum(max(p.shape) for p in network.parameters() if p.dim() > 1)
    return _Needs("edge_index", 0, 0, kept=4 * wide, busy=4 * wide, looking=4 * wide, kept_entries=8 * wide,
                  busy_entries=4 * wide, looking_entries=4 * wide)  # fmt: skip


def _gat_needs(network: GAT, after: int, *, by_kernels: bool) -> _Needs:
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
    return _Needs(
        "attention" if by_kernels else "attention in torch", stem, stem, kept=kept, busy=3 * widest, looking=3 * widest,
        kept_entries=kept_entries, busy_entries=busy_entries, looking_entries=busy_entries,
    )  # fmt: skip


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


# --- graphs and views --------------------------------------------------------------------------------------------


def _size(environment: Environment) -> tuple[int, int]:
    return environment.num_nodes, environment.graph.num_edges


def _edited(graph: Graph, settings: Settings) -> int:
    """Entries of a view: a draw adds one, or two in an undirected graph, since few pairs of a sparse graph are edges.

    It is also the room that is made for them, whatever the draws turn out to be.
    """
    both = graph.undirected and not settings.directed_edits
    return graph.num_edges + graph.num_nodes * settings.edits_per_node * (2 if both else 1)


def _view(environment: Environment, entries: int, settings: Settings) -> float:
    """A view as it is proposed: where rows begin, a column and perhaps a weight for every entry, the actions."""
    nodes, weighted = environment.num_nodes, environment.graph.weight is not None
    size = 4 * nodes + 4 * entries * (2 if weighted else 1) + 4 * nodes * settings.edits_per_node
    # The gradient's views, and all views without the kernels, come with sorted keys of 64 bits.
    return size + (8 * entries if settings.explorer == "gradient" or not native.available() else 0)


def _form(form: str, nodes: int, entries: int) -> dict[str, int]:
    """The forms of a graph that backbones multiply by, by the name they are cached under."""
    return {
        "": {},
        "pattern": {"pattern": 4 * entries + 4 * nodes},
        "normalised": {"pattern": 4 * entries + 4 * nodes, "normalised": 4 * entries + 4 * nodes, "degree": 4 * nodes},
        # The weights of unweighted graphs are parts of one array of ones.
        "adjacency": {"pattern": 4 * entries + 4 * nodes, "adjacency": 4 * entries, "degree": 4 * nodes},
        "attention": {"pattern": 4 * entries + 4 * nodes},
        "attention in torch": {"pattern": 4 * entries + 4 * nodes, "row": 4 * entries},
        "edge_index": {"pattern": 4 * entries + 4 * nodes, "edge_index": 16 * entries, "row": 4 * entries},
    }[form]


def _forms(environments: Iterable[Environment], form: str, seen: set[tuple[int, str]], *, way_back: bool) -> float:
    """What forms the environments' graphs will get that they do not have yet; a shared graph gets them once."""
    total = 0.0
    for graph in (e.graph for e in environments):
        there = graph.__dict__.keys() | getattr(graph.__dict__.get("pattern"), "__dict__", {}).keys()
        forms = _form(form, graph.num_nodes, graph.num_edges)
        if way_back and form and (not graph.undirected or form == "attention in torch"):
            forms["transposed"] = 12 * graph.num_edges + 4 * graph.num_nodes
        for name, size in forms.items():
            if name not in there and (id(graph), name) not in seen:
                seen.add((id(graph), name))
                total += size
    return total


def _view_forms(environment: Environment, entries: int, needs: _Needs, settings: Settings) -> float:
    forms = _form(needs.form, environment.num_nodes, entries)
    own = sum(size for name, size in forms.items() if name != "pattern")
    if settings.explorer == "gradient":
        own += forms.get("pattern", 0)
    return own + (0 if settings.low_memory else _transposed(environment, entries, needs, settings))


def _transposed(environment: Environment, entries: int, needs: _Needs, settings: Settings) -> float:
    """The transpose that the way back needs where a view is not its own; also low-memory mode keeps it for a step."""
    directed = settings.directed_edits or not environment.graph.undirected
    if needs.form == "attention in torch" or (needs.form == "attention" and directed):
        return 8 * entries
    return 12 * entries if directed and needs.form in ("normalised", "adjacency") else 0


def _features_transposed(environment: Environment) -> float:
    """The gradient of the first weights needs the transpose of sparse features, values included; it is kept."""
    x = environment.x
    if not isinstance(x, Sparse) or "transposed" in x.pattern.__dict__:
        return 0
    return 12 * x.pattern.col.numel() + 4 * x.shape[1]


def _kept(environment: Environment, nodes: int, entries: int, needs: _Needs) -> float:
    """What autograd keeps of one view, the risk's logarithms of probabilities included."""
    risk = 4 * environment.counted.numel() * max(environment.task.out_channels, 2)
    return 4 * nodes * needs.kept + needs.kept_entries * entries + risk


def _busy(environment: Environment, nodes: int, entries: int, needs: _Needs) -> float:
    outputs = environment.task.out_channels
    risk = 4 * outputs * (nodes + environment.counted.numel())  # the gradient of the output, then of all nodes
    return max(4 * nodes * (needs.busy + needs.out), risk) + needs.busy_entries * entries


def _proposing(environment: Environment, entries: int, needs: _Needs, settings: Settings) -> float:
    """What making a view needs beside the view: one at a time, or one in every thread."""
    nodes, edges = _size(environment)
    if settings.explorer == "gradient":
        # The risk of a graph with candidates: keys being merged, and a pass in which every product keeps its operand.
        candidates = settings.explorer_options.get("candidates") or 2 * settings.edits_per_node
        both = environment.graph.undirected and not settings.directed_edits
        wider = edges + nodes * candidates * (2 if both else 1)
        passing = _kept(environment, nodes, wider, needs) + _busy(environment, nodes, wider, needs)
        return 64 * wider + passing + 4 * nodes * needs.out
    if not native.available():
        return 40 * (entries + nodes * settings.edits_per_node)
    threads = min(torch.get_num_threads(), settings.explorers)
    return threads * (4 * nodes * settings.edits_per_node + 8 * nodes)


def _policy(nodes: int, settings: Settings) -> tuple[float, float]:
    """What a policy holds when the fit is over, and what its last growth needs beside.

    16 bytes for every entry that there is room for (a column, a logit, Adam's two moments) and 28 for every node. The
    room doubles up to ``entries_per_node`` as the policy touches more columns: at most s in a step.
    """
    if settings.explorer != "reinforce":
        return 0, 0
    bound = settings.explorer_options.get("entries_per_node", 64)
    draws = settings.explorer_options.get("edits_per_node", settings.edits_per_node)
    bound = nodes - 1 if bound is None else min(max(int(bound), draws + 1), nodes - 1)
    steps = settings.inner_steps * (1 if settings.reset_explorers else settings.epochs)
    longest = room = before = 0
    for _ in range(steps):
        length = min(longest + draws, bound)
        if length > room:
            before, room = room, min(max(length, 2 * room, 16), bound)
        longest = length
        if room == bound:
            break
    threads = min(torch.get_num_threads(), settings.explorers)
    return nodes * (16 * room + 28), threads * 12 * before * nodes


# --- data and process --------------------------------------------------------------------------------------------


def data_bytes(data: ShiftDataset) -> int:
    """The arrays of all environments, each storage once: environments may share a graph or a pattern of features."""
    storages: dict[int, int] = {}
    for environment in data.environments:
        for tensor in _tensors(environment, set()):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _tensors(thing: Any, seen: set[int]) -> Iterable[Tensor]:
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, tuple):
        for part in thing:
            yield from _tensors(part, seen)
    elif hasattr(thing, "__dict__") and type(thing).__module__.startswith("graphshift") and id(thing) not in seen:
        seen.add(id(thing))
        for part in vars(thing).values():
            yield from _tensors(part, seen)


def resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """What this process holds now; None where the system does not tell."""
    try:
        found = re.search(r"^VmRSS:\s*(\d+) kB", status.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return 1024 * int(found[1]) if found else None


def give_back_freed(*, always: bool = False) -> bool:
    """Has the C library of Linux give back to the system what was freed: what loading left, for one.

    By default it learns to keep ever larger arrays, up to 32 MB, in a heap that breaks up: a mode that holds one view
    at a time then holds hardly less than all of them. ``always`` has it give back every array of a megabyte or more as
    soon as it is freed, from now on; that costs time, since the system clears what it gives out.

    Returns:
        Whether the C library knows how; others are left alone.
    """
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim(0)
        return bool(library.mallopt(-3, 2**20)) if always else True  # M_MMAP_THRESHOLD; once set, it learns no more
    except (OSError, AttributeError, TypeError):
        return False


def available_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What this process can still get: of the machine or of its control group, whichever is less.

    None where the system does not tell, as on macOS and Windows.
    """
    found = [_machine_available(proc / "meminfo"), _group_available(proc / "self" / "cgroup", cgroups)]
    return min((size for size in found if size is not None), default=None)


def _machine_available(meminfo: Path) -> int | None:
    """``MemAvailable``: what can be given out without swapping, caches that can be dropped included."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(meminfo), re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def _group_available(membership: Path, root: Path) -> int | None:
    """What the memory limits of the process's control groups leave, parents' limits included.

    A line of ``/proc/self/cgroup`` is ``0::/path`` in version 2, and ``4:memory:/path`` in version 1. In a container
    the path may be the host's, of which only the root can be seen.
    """
    left = []
    for line in _text(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            names = ("memory.max", "memory.current", "inactive_file")
            tops = [root, root / "unified"]
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            tops = [root / "memory"]
        else:
            continue
        for top in tops:
            folder = top / path.strip("/")
            for group in (folder, *folder.parents):
                left.append(_group_left(group, *names))
                if group == top:
                    break
    return min((size for size in left if size is not None), default=None)


def _group_left(group: Path, limit_file: str, used_file: str, cache_name: str) -> int | None:
    limit, used = (_text(group / name).strip() for name in (limit_file, used_file))
    if not limit.isdigit() or int(limit) >= 2**60:  # "max", and version 1's way to say the same
        return None
    cache = re.search(rf"^{cache_name} (\d+)$", _text(group / "memory.stat"), re.MULTILINE)  # given back when needed
    held = int(used) - (int(cache[1]) if cache else 0) if used.isdigit() else 0
    return max(int(limit) - max(held, 0), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


# --- sizes and advice --------------------------------------------------------------------------------------------


def parse_size(text: str, *, where: str = "memory limit") -> int:
    """``4GB``, ``512MB``, ``3.5GiB`` or a number of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(I?))?B?", text.strip().upper(), re.ASCII)
    # Bytes are whole, and 4G might mean either kind of gigabyte.
    wrong = found is None or (found[2] and not text.strip().upper().endswith("B")) or ("." in found[1] and not found[2])
    if found is None or wrong:
        raise GraphshiftError(f"{where} is {text!r}; expected a size as 4GB, 512MB, 3.5GiB, or a number of bytes.")
    size = int(float(found[1]) * (1024 if found[3] else 1000) ** (" KMGT".index(found[2]) if found[2] else 0))
    if not size:
        raise GraphshiftError(f"{where} is {text!r}; expected more than nothing, as 4GB.")
    return size


def show_size(size: int) -> str:
    """A size for people: ``4.2 GB`` of 10^9 bytes, ``310 MB``."""
    return f"{size / _GB:.1f} GB" if size >= _GB else f"{size / 10**6:.0f} MB"


def advice(data: ShiftDataset, settings: Settings, goal: int, *, resident: int | None = None) -> str:
    """What to change so that the estimate stays below ``goal`` bytes, each change tried on the estimate.

    Single changes that suffice are named with what they lead to; if none does, all of them together; if that does not
    either, that no setting does.
    """
    resident = resident if resident is not None else resident_bytes()
    single: list[str] = []
    names: list[str] = []
    together = settings
    for ladder in _ladders(settings):
        for flag, changes in ladder:
            size = estimate(data, settings.model_copy(update=changes), resident=resident).total
            if size <= goal:
                single.append(f"{flag} (about {show_size(size)})")
                break
        flag, changes = ladder[-1]
        changed = together.model_copy(update=changes)
        if _less(data, changed, together, resident):
            together, names = changed, [*names, flag]
    if single:
        return f"What would fit: {', or '.join(single)}."
    size = estimate(data, together, resident=resident).total
    if names and size <= goal:
        return f"What would fit: {' '.join(names)} together (about {show_size(size)})."
    least = f" (about {show_size(size)} with {' '.join(names)})" if names else ""
    return f"No setting brings it below{least}: take a smaller graph, or a machine with more memory."


def _less(data: ShiftDataset, changed: Settings, settings: Settings, resident: int | None) -> bool:
    return estimate(data, changed, resident=resident).total < estimate(data, settings, resident=resident).total


_Ladder = Sequence[tuple[str, dict[str, Any]]]


def _ladders(settings: Settings) -> list[_Ladder]:
    """The settings that memory depends on, each with ever smaller values, mildest first."""
    ladders: list[_Ladder] = []
    if settings.method == "eerm":
        if not settings.low_memory:
            ladders.append([("--low-memory", {"low_memory": True})])
        entries = settings.explorer_options.get("entries_per_node", 64)
        if settings.explorer == "reinforce":
            room = 64 if entries is None else entries
            fewer = [n for n in _halves(room) if n > settings.edits_per_node] if entries else [64]
            ladders.append([
                (f"--explorer-option entries_per_node={n}",
                 {"explorer_options": {**settings.explorer_options, "entries_per_node": n}}) for n in fewer
            ])  # fmt: skip
        ladders.append([(f"--explorers {n}", {"explorers": n}) for n in range(settings.explorers - 1, 1, -1)])
        ladders.append([(f"--edits-per-node {n}", {"edits_per_node": n}) for n in _halves(settings.edits_per_node)])
    ladders.append([(f"--hidden {n}", {"hidden_channels": n}) for n in _halves(settings.hidden_channels) if n >= 4])
    return [ladder for ladder in ladders if ladder]


def _halves(number: int) -> list[int]:
    return [number >> k for k in range(1, number.bit_length())]

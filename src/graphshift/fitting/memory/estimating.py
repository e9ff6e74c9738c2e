"""How much memory a fit will need, before it starts: an estimate by parts, what is available, and what to change.

The estimate follows the code that allocates, not a curve: every term names the arrays it stands for, and
``tests/test_memory.py`` holds it to what fresh processes really held (docs, *Speed and memory*, has the table). A fit
has a few moments that may need most, such as the backward pass or a checkpoint; each is added up, the largest counts.

Sizes are those of float32 values and 32-bit indices, 4 bytes each; graphs of more than 2^31 entries have larger ones.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graphshift.backbones import Backbone, ModuleBackbone
from graphshift.backbones.memory import Needs
from graphshift.core.errors import GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.estimators import Estimator, GNNEstimator
from graphshift.explorers import EXPLORERS, Explorer
from graphshift.fitting.memory.machine import resident_bytes
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.methods.blend import Blend
from graphshift.methods.eerm import EERM

#: What libraries make ready at their first use: MKL's buffers, autograd's threads, scikit-learn's metrics, and what
#: looking at validation takes. Measured with 500 nodes, where arrays are next to nothing.
_FIRST_USE = 13_000_000

#: glibc keeps freed arrays below this size in its heap, where smaller ones break them up. What is lost to that while a
#: step runs was fitted to measured peaks (``Needs.lost``); this is the share of a step that stays behind when it is
#: over. Larger arrays go back to the system at once.
_IN_HEAP, _LEFT_BEHIND = 32 * 1024**2, 0.6
#: In low-memory mode it keeps arrays below a megabyte alone (:func:`give_back_freed`). Where few are, those lose at
#: most this share of a step, and at most so many bytes.
_SMALL_ARRAY, _FEW_SMALL, _FEW_SMALL_BYTES = 2**20, 0.5, 16_000_000


@dataclass(frozen=True)
class Estimate:
    """The memory of a fit at the moment that needs most.

    Attributes:
        parts: bytes by part: ``process`` (interpreter and libraries), ``data``, ``forms`` (the matrices that backbones
            make of the environments' graphs), ``views``, ``activations``, ``temporaries``, ``policies``, ``optimiser``,
            ``checkpoint``, ``scores``, ``heap`` (what the allocator loses). Of a method without a GNN:
            what :meth:`~graphshift.estimators.base.Estimator.fitting_bytes` says.
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


def estimate(data: ShiftDataset, settings: Estimator, *, resident: int | None = None) -> Estimate:
    """The peak memory of a fit of these data with these settings, scoring and checkpoints included.

    It trains nothing and changes nothing. On a device with memory of its own, the host's memory is meant.

    Args:
        data: the dataset, loaded. Arrays that environments share count once.
        settings: the estimator that will be fitted; a blend needs what its largest member does. Of a
            module of your own nothing is known, so a generous rule stands in for it, and ``unknown`` says so.
        resident: what the process holds now, data included, in bytes; None asks the system.
    """
    if isinstance(settings, Blend):  # one after the other; what stays of each is its model
        members = [estimate(data, one, resident=resident) for one in settings.resolved(data.defaults).new_members()]
        return max(members, key=lambda one: one.total)
    if data.train[0].stored is not None and isinstance(settings, GNNEstimator) and settings.in_pieces:
        return _on_pieces(data, settings, resident)
    held = data_bytes(data)
    resident = resident if resident is not None else resident_bytes() or 0
    process = max(resident - held, 0) + _FIRST_USE
    if not isinstance(settings, GNNEstimator):
        parts = {"process": process, "data": held, **settings.fitting_bytes(data)}
        return Estimate({name: round(size) for name, size in parts.items() if size}, "fitting")
    network, unknown = _network(data, settings)
    save_memory = isinstance(settings, EERM) and settings.low_memory
    needs = network.memory(save_memory=save_memory)
    if settings.device == "cuda":  # only views, policies and data are the host's
        needs = Needs("", 0, 0, 0, 0, 0)
    if isinstance(settings, EERM) and not isinstance(settings.explorer, str):
        unknown = "; ".join(filter(None, [unknown, "the explorer is your own: no policy counted"]))
    weights = 4 * sum(p.numel() for p in network.parameters())
    # Of the weights: themselves, their gradient, AdamW's two moments, and the best epoch's copy.
    base = {"process": process, "data": held, "optimiser": 5 * weights}
    # The gradient with respect to edges goes through attention in torch: the kernels give none. What the heap loses
    # then is of keys and weights, the same for all backbones.
    trying = network.memory(save_memory=save_memory, edge_gradient=True) if needs.form else needs
    trying = replace(trying, lost=Needs.lost)
    moments = _moments(data, settings, needs, trying)
    moment, parts = max(moments.items(), key=lambda item: sum(item[1].values()))
    return Estimate({name: round(size) for name, size in (base | parts).items() if size}, moment, unknown)


def _on_pieces(data: ShiftDataset, settings: GNNEstimator, resident: int | None) -> Estimate:
    """A fit on pieces of a partition folder: as on the first epoch's first piece, and what there is of every node.

    Mapped arrays are not counted: they are read a piece at a time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)  # a piece may lack a class
        pieces = next(iter(settings.batches(data.train, 1)), ())
        plain = {"batch_parts": None, "batch_nodes": None, "neighbours": "15,10", "selection": "last", "patience": None}
        one = ShiftDataset(data.name, pieces or data.train)
    resident = (resident if resident is not None else resident_bytes() or 0) + data_bytes(one)
    found = estimate(one, settings.replace(**plain), resident=resident)
    nodes = max(e.num_nodes for e in data.environments)
    # Masks, labels, numbers of counted nodes and degrees; the output, and its probabilities in float64.
    every = {"data": sum(40 * e.num_nodes for e in data.environments), "scores": nodes * 28 * data.task.out_channels}
    if isinstance(settings, EERM):
        every["policies"] = round(settings.views * sum(_policy(e.num_nodes, settings)[0] for e in data.train))
    parts = {name: found.parts.get(name, 0) for name in {**found.parts, **every}}
    parts |= {name: parts[name] + size for name, size in every.items() if size}
    return Estimate({name: size for name, size in parts.items() if size}, found.moment, found.unknown)


def _network(data: ShiftDataset, settings: GNNEstimator) -> tuple[Backbone, str]:
    """The network with its shapes and without its numbers, and what is not known about it."""
    own = settings.backbone
    if isinstance(own, str):
        with torch.device("meta"):
            first = data.train[0]
            return settings.new_backbone(first.num_features, data.task, first.num_edge_features), ""
    unknown = f"backbone {type(own).__name__!r} is your own: what it keeps is a rule of thumb"
    return (own if isinstance(own, Backbone) else ModuleBackbone(own, data.task.out_channels)), unknown


def explorer_class(settings: Estimator) -> type[Explorer]:
    """The class of the explorer; of one that is not known, what all have in common."""
    name = getattr(settings, "explorer", None)
    return EXPLORERS[name] if isinstance(name, str) and name in EXPLORERS else Explorer


def _moments(data: ShiftDataset, settings: GNNEstimator, needs: Needs, trying: Needs) -> dict[str, dict[str, float]]:
    """What each moment that may need most holds beside process, data and optimiser."""
    chosen = {"id_val": data.train, "oracle": data.tests, "last": ()}.get(settings.selection, data.val)
    eerm = isinstance(settings, EERM)
    trained = [*data.train, *_target(data, settings)]  # what a step goes through
    seen: set[tuple[int, str]] = set()
    forms = _forms(trained, "" if eerm else needs.form, seen, way_back=not eerm)
    forms += sum(_features_transposed(e) for e in trained if needs.form != "edge_index")
    forms += _forms(chosen, needs.form, seen, way_back=False)
    later = _forms([*data.val, *data.tests], needs.form, seen, way_back=False)
    looking = max(4 * _size(e)[0] * needs.looking + needs.looking_entries * _size(e)[1] for e in data.environments)
    scored = max((e.counted.numel() for e in (*chosen, *data.val, *data.tests)), default=0)
    # Probabilities in float64, once more as the metric takes them, beside the output.
    scores = scored * data.task.out_channels * (8 * 3 + 4)
    # EERM holds the stem's result until all views are done, ERM what autograd keeps of it.
    stems = sum(4 * e.num_nodes * (needs.stem if eerm else needs.stem_kept) for e in trained)
    way_back = {"forms": forms, "activations": stems}
    policies = 0.0
    moments: dict[str, dict[str, float]] = {}
    if not eerm:
        kept = sum(_kept(e, *_size(e), needs) for e in trained)
        busy = max(_busy(e, *_size(e), needs) for e in trained)
        moments["the backward pass"] = way_back | {"activations": stems + kept, "temporaries": busy}
        # The stem's result is there until the forward pass is over. Beside it the last layer: its product, or SAGE's
        # two and both side by side, and the output.
        last = needs.stem - needs.stem_kept + 6 * data.task.out_channels
        ahead = max(4 * e.num_nodes * last for e in trained)
        moments["the forward pass"] = way_back | {"activations": stems + kept, "temporaries": ahead}
    else:
        edited = {id(e): _edited(e.graph, settings) for e in data.train}
        explorers = settings.views
        policies = explorers * sum(_policy(e.num_nodes, settings)[0] for e in data.train)
        growth = max(_policy(e.num_nodes, settings)[1] for e in data.train)
        # A feature explorer leaves the graph as it is: its views share it.
        views_made = explorers if explorer_class(settings).edits_edges else 1
        plain = views_made * sum(_view(e, edited[id(e)], settings) for e in data.train)
        one = {id(e): _view_forms(e, edited[id(e)], needs, settings) for e in data.train}
        kept_one = {id(e): _kept(e, e.num_nodes, edited[id(e)], needs) for e in data.train}
        kept_one = {id(e): kept_one[id(e)] + _changed(e, needs, settings) for e in data.train}
        busy = max(_busy(e, e.num_nodes, edited[id(e)], needs) for e in data.train)
        made, kept = views_made * sum(one.values()), explorers * sum(kept_one.values())
        held = plain + made
        if settings.low_memory:
            made, kept = max(one.values()), max(kept_one.values())
            # The gradient of every stem's result, collected over its views. In the usual mode it grows while what is
            # kept of the views goes, so that it never adds to the peak.
            kept += sum(4 * e.num_nodes * needs.out for e in data.train)
            # All views are proposed, then looked at; a graph that was looked at is dropped, and made again when it is
            # its turn on the way back. Actions stay.
            looked = {"views": plain + made, "policies": policies, "temporaries": looking}
            moments["a look at the views"] = way_back | looked
            actions = explorers * sum(4 * e.num_nodes * settings.edits_per_node for e in data.train)
            single = max(_view(e, edited[id(e)], settings) for e in data.train)
            held = made + min(actions + single, plain)
        views = {"views": held, "policies": policies}
        moments["the backward pass"] = way_back | views | {"activations": stems + kept, "temporaries": busy}
        moments["a step of the explorers"] = way_back | views | {"temporaries": growth}
        proposing = max(_proposing(e, edited[id(e)], trying, settings) for e in data.train)
        before = held if settings.inner_steps > 1 else 0  # the views of the step before are still there
        moments["a proposal"] = way_back | {"views": plain + before, "policies": policies, "temporaries": proposing}
    seen_then = moments["the backward pass"].get("views", 0.0)
    stem_back = {"policies": policies, "temporaries": 2 * stems, "views": seen_then}
    moments["the stem's backward pass"] = way_back | stem_back
    for name, parts in moments.items():
        parts["heap"] = _lost(_in_step(parts), data, settings, trying if name == "a proposal" else needs)
    step = _in_step(moments["the backward pass"])
    left = min(_lost(step, data, settings, needs), _LEFT_BEHIND * step)
    if chosen:
        scoring = {"temporaries": looking, "scores": scores, "heap": left}
        moments["selection"] = {"forms": forms, "policies": policies, **scoring}
    # A checkpoint copies the policies, since the next step works on them in place.
    moments["a checkpoint"] = {"forms": forms, "policies": policies, "checkpoint": policies, "heap": left}
    # Training is over: no policies, and one test after the other.
    moments["scoring"] = {"forms": forms + later, "temporaries": looking, "scores": scores, "heap": left}
    return moments


def _target(data: ShiftDataset, settings: GNNEstimator) -> Sequence[Environment]:
    """The unlabelled graphs that a step goes through as well."""
    target = settings.wanted_target(data.target)
    return settings.trained_with(data.tests if target == "tests" else data.target)


def _lost(step: float, data: ShiftDataset, settings: GNNEstimator, needs: Needs) -> float:
    """What the C library's heap loses while a step with so many bytes of arrays runs."""
    array = max(4 * e.num_nodes * needs.width for e in data.train)
    share = needs.lost if isinstance(settings, EERM) else needs.lost_by_erm
    lost = share * step * (min(1.0, _IN_HEAP / array) if array else 1.0)
    if getattr(settings, "low_memory", False) and array >= _SMALL_ARRAY:
        return min(lost, _FEW_SMALL * step, _FEW_SMALL_BYTES)
    return lost


def _in_step(parts: Mapping[str, float]) -> float:
    return sum(parts.get(name, 0.0) for name in ("views", "activations", "temporaries"))


def _size(environment: Environment) -> tuple[int, int]:
    return environment.num_nodes, environment.graph.num_edges


def _edited(graph: Graph, settings: GNNEstimator) -> int:
    """Entries of a view: a draw adds one, or two in an undirected graph, since few pairs of a sparse graph are edges.

    It is also the room that is made for them, whatever the draws turn out to be.
    """
    if not explorer_class(settings).edits_edges:
        return graph.num_edges
    both = graph.undirected and not settings.directed_edits
    return graph.num_edges + graph.num_nodes * settings.edits_per_node * (2 if both else 1)


def _view(environment: Environment, entries: int, settings: GNNEstimator) -> float:
    """A view as it is proposed: where rows begin, a column and perhaps a weight for every entry, the actions."""
    nodes, weights = environment.num_nodes, 0 if environment.graph.weight is None else 4 * entries
    drawn = nodes * settings.edits_per_node  # of `gradient`, the pairs that it chose
    return 4 * nodes + 4 * entries + weights + 4 * drawn


def _form(form: str, nodes: int, entries: int) -> dict[str, int]:
    """The forms of a graph that backbones multiply by, by the name they are cached under."""
    return {
        "": {},
        "normalised": {"normalised": 4 * entries + 4 * nodes, "degree": 4 * nodes},
        # The weights of unweighted graphs are parts of one array of ones.
        "adjacency": {"adjacency": 4 * entries, "degree": 4 * nodes},
        "attention": {},
        "attention in torch": {"row": 4 * entries},
        "edge_index": {"edge_index": 16 * entries, "row": 4 * entries},
    }[form]


def _forms(environments: Iterable[Environment], form: str, seen: set[tuple[int, str]], *, way_back: bool) -> float:
    """What forms the environments' graphs will get that they do not have yet; a shared graph gets them once."""
    total = 0.0
    for graph in (e.graph for e in environments):
        there = vars(graph).keys() | vars(graph.pattern).keys()
        forms = _form(form, graph.num_nodes, graph.num_edges)
        if way_back and form and (not graph.undirected or form == "attention in torch"):
            forms["transposed"] = 12 * graph.num_edges + 4 * graph.num_nodes
        for name, size in forms.items():
            if name not in there and (id(graph), name) not in seen:
                seen.add((id(graph), name))
                total += size
    return total


def _view_forms(environment: Environment, entries: int, needs: Needs, settings: GNNEstimator) -> float:
    """The forms of a view, and the transpose that the way back needs where a view is not its own."""
    own = sum(_form(needs.form, environment.num_nodes, entries).values())
    directed = settings.directed_edits or not environment.graph.undirected
    if needs.form == "attention in torch" or (needs.form == "attention" and directed):
        return own + 8 * entries
    return own + (12 * entries if directed and needs.form in ("normalised", "adjacency") else 0)


def _features_transposed(environment: Environment) -> float:
    """The gradient of the first weights needs the transpose of sparse features, values included; it is kept."""
    x = environment.x
    if not isinstance(x, Sparse) or "transposed" in vars(x.pattern):
        return 0
    return 12 * x.pattern.col.numel() + 4 * x.shape[1]


def _kept(environment: Environment, nodes: int, entries: int, needs: Needs) -> float:
    """What autograd keeps of one view, the risk's logarithms of probabilities included."""
    risk = 4 * environment.counted.numel() * max(environment.task.out_channels, 2)
    return 4 * nodes * needs.kept + needs.kept_entries * entries + risk


def _changed(environment: Environment, needs: Needs, settings: GNNEstimator) -> float:
    """What a view with features of its own keeps of them: the features, and the stem's result."""
    if not explorer_class(settings).changes_features:
        return 0
    x = environment.x
    numbers = 3 * x.pattern.col.numel() if isinstance(x, Sparse) else x.numel()  # of sparse ones the transpose's too
    return 4 * (numbers + environment.num_nodes * needs.stem)


def _busy(environment: Environment, nodes: int, entries: int, needs: Needs) -> float:
    outputs = environment.task.out_channels
    risk = 4 * outputs * (nodes + environment.counted.numel())  # the gradient of the output, then of all nodes
    return max(4 * nodes * needs.busy, risk) + needs.busy_entries * entries


def _proposing(environment: Environment, entries: int, needs: Needs, settings: GNNEstimator) -> float:
    """What making a view needs beside the view: one at a time, or one in every thread."""
    nodes, edges = _size(environment)
    explorer = explorer_class(settings)
    if explorer.changes_features and not explorer.follows_edges:
        return _kept(environment, nodes, edges, needs) + _busy(environment, nodes, edges, needs)
    if explorer.follows_edges:
        candidates = settings.explorer_options.get("candidates") or 2 * settings.edits_per_node
        pairs = edges + nodes * candidates
        # The drawn columns and the gains (8), and those near the border (4), for every explorer at the same time.
        choosing = 12 * pairs * settings.views + 8 * edges
        if needs.form in ("normalised", "adjacency"):
            # One pass on the graph as it is. Every product's result and gradients stay beside what autograd keeps,
            # about as much once more; they are there while pairs are chosen.
            watched = 4 * nodes * needs.kept
            passing = _kept(environment, nodes, edges, needs) + _busy(environment, nodes, edges, needs)
            return watched + max(choosing, passing)
        # What cannot be probed: the pairs enter the graph with weight 0, as keys, columns and weights (16) whose
        # gradient (4) is added up (4) from products at the entries alone (4), which take copies of both operands.
        both = environment.graph.undirected and not settings.directed_edits
        wider = edges + nodes * candidates * (2 if both else 1)
        passing = _kept(environment, nodes, wider, needs) + _busy(environment, nodes, wider, needs)
        return choosing + 28 * wider + passing + 2 * 4 * nodes * needs.width
    if not kernels.available():
        return 40 * (entries + nodes * settings.edits_per_node)
    threads = min(torch.get_num_threads(), settings.views)
    return threads * (4 * nodes * settings.edits_per_node + 8 * nodes)


def _policy(nodes: int, settings: GNNEstimator) -> tuple[float, float]:
    """What an explorer has learned when the fit is over, and what its last growth needs beside."""
    steps = settings.inner_steps * (1 if settings.reset_explorers else settings.epochs)
    options = {"edits_per_node": settings.edits_per_node} | settings.explorer_options
    try:
        held, growth = explorer_class(settings).learned_bytes(nodes, steps, **options)
    except TypeError:  # options that the explorer will refuse, by name
        held, growth = explorer_class(settings).learned_bytes(nodes, steps)
    return held, min(torch.get_num_threads(), settings.views) * growth


def data_bytes(data: ShiftDataset) -> int:
    """The arrays of all environments, each storage once: environments may share a graph or a pattern of features."""
    storages: dict[int, int] = {}
    for environment in (*data.environments, *data.target):
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

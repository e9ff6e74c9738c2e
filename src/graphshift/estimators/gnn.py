"""The base class of estimators that train a GNN: the backbone, its shape, and the training loop."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from graphshift.backbones import BACKBONES, Backbone, ModuleBackbone, graph_backbone, make_backbone
from graphshift.backbones.batchnorm import batch_norms, own_statistics
from graphshift.backbones.in_chunks import output_of
from graphshift.core.devices import is_available, torch_device
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.hparams import hparam, hparams_of
from graphshift.core.randomness import isolated
from graphshift.data.environment import Environment, as_environments
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.adaptation import EDITING, LEARNED, TUNING, WITHOUT_EDGES, parts_of
from graphshift.estimators.asked import Asked
from graphshift.estimators.base import Estimator
from graphshift.estimators.gtrans import transformed
from graphshift.estimators.predictor import Graphs
from graphshift.estimators.source import Source
from graphshift.estimators.tuning import tunable, tuned
from graphshift.training.batches import Batches, NodeBatches, PartBatches, full_batch, one_by_one, parse_fanout
from graphshift.training.loop import Choice, Selection, TrainingResult, train
from graphshift.training.method import Method
from graphshift.training.parallel import SharedMethod, shared_batches, shared_run, shared_selection, team
from graphshift.training.selection import adversarially_edited


class _FittedGNN:
    """What ``fit`` finds."""

    backbone_: Backbone
    source_: Source | None = None
    method_class: ClassVar[type[Method]]


@dataclass(eq=False, repr=False)
class GNNEstimator(_FittedGNN, Estimator):
    """What all methods that train a GNN share. A subclass adds its hyper-parameters, and ``method_class``.

    Args:
        backbone: a name from :data:`graphshift.backbones.BACKBONES`, or your own ``torch.nn.Module`` with
            ``forward(x, edge_index)`` (a copy is trained, from the weights that it has).
        hidden_channels: width of hidden layers.
        num_layers: number of layers.
        dropout: after hidden layers.
        backbone_options: options of the named backbone, such as ``{"heads": 2}`` for ``"gat"``.
        readout: where graphs have labels, what their nodes' states become: the ``"mean"``, the ``"sum"`` or the
            ``"max"`` (:class:`~graphshift.backbones.readout.GraphLevel`).
        epochs: how often to go through the training graphs.
        lr: learning rate (AdamW).
        weight_decay: of the GNN.
        batch: the training graphs that a step sees: ``"all"`` of them, or ``"each"`` in turn, with a step for each, as
            the authors' code does on Facebook-100.
        batch_parts: of a partition folder, how many parts of each training graph a step sees, with their halos.
        batch_nodes: how many counted nodes of each training graph a step sees, with a sample of their neighbours.
        neighbours: of ``batch_nodes``: how many neighbours of a node are kept, at each hop.
        clip: norm to which gradients are clipped; None leaves them.
        selection: the rule that chooses the epoch, see :data:`graphshift.training.selection.SELECTIONS`.
        patience: stop after this many epochs without a better score.
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        seed: of everything random; the same seed gives the same bits on the same machine.

    Attributes:
        backbone_: the trained GNN, with the weights of the selected epoch.
        source_: what ``adapt="centroids"`` and ``"neighbours"`` need of the training graphs; see :meth:`recall`.
        task_ … calibrations_: as in :class:`~graphshift.estimators.base.Estimator`.
    """

    uses_backbone: ClassVar[bool] = True

    backbone: str | nn.Module = hparam("gcn", registry="backbone", help="the GNN")
    _: KW_ONLY
    hidden_channels: int = hparam(32, ge=1, le=65536, flag="hidden", help="width of hidden layers")
    num_layers: int = hparam(2, ge=1, le=1000, flag="layers", help="number of layers")
    dropout: float = hparam(0.0, ge=0, lt=1, help="dropout after hidden layers")
    backbone_options: dict[str, Any] = hparam({}, help="options of the backbone, as heads=2")
    readout: Literal["mean", "sum", "max"] = hparam("mean", help="of graphs with labels: over their nodes' states")
    epochs: int = hparam(200, ge=1, help="how often to go through the training graphs")
    lr: float = hparam(0.01, gt=0, le=1e6, search=(0.0001, 0.0002, 0.001, 0.005, 0.01), help="learning rate of the GNN")
    weight_decay: float = hparam(1e-3, ge=0, le=1e6, help="weight decay of the GNN (AdamW)")
    batch: Literal["all", "each"] = hparam("all", help="graphs that a step sees: all, or each in turn")
    batch_parts: int | None = hparam(None, ge=1, help="parts of a partition folder that a step sees")
    batch_nodes: int | None = hparam(None, ge=1, help="counted nodes that a step sees, with sampled neighbours")
    neighbours: str = hparam("15,10", help="of --batch-nodes: neighbours that are kept at each hop")
    clip: float | None = hparam(None, gt=0, help="norm to which gradients are clipped")
    patience: int | None = hparam(None, ge=1, help="epochs without improvement after which to stop")
    device: Literal["cpu", "cuda", "mps"] = hparam("cpu", help="where to compute")

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """The one argument that may be given by its place is the backbone."""
        self = super().__new__(cls, *args, **given)
        self._given |= {"backbone"} if args else set()
        return self

    @classmethod
    def check_together(cls, values: Mapping[str, Any], where: str) -> None:
        """Refuses values that fit one by one and not together."""
        if cls.own_backbone not in (None, values["backbone"]):
            name = values["backbone"] if isinstance(values["backbone"], str) else type(values["backbone"]).__name__
            raise GraphshiftError(
                f"{where}backbone is {name!r}; method {cls.method} has a network of its own: leave it out, or "
                f"choose {cls.own_backbone!r}."
            )
        if values["patience"] is not None and values["selection"] == "last":
            patience = values["patience"]
            raise GraphshiftError(f"{where}patience is {patience}; selection 'last' has no score to wait for.")
        if values["batch_parts"] is not None and values["batch_nodes"] is not None:
            raise GraphshiftError(f"{where}batch_parts and batch_nodes: give one; both say what a step sees.")
        if (values["batch_parts"] or values["batch_nodes"]) and values["device"] != "cpu":
            raise GraphshiftError(f"{where}device is {values['device']!r}; batch_parts and batch_nodes need the CPU.")
        if values["batch_nodes"] is None and values["neighbours"] != hparams_of(cls)["neighbours"].default:
            raise GraphshiftError(f"{where}neighbours is {values['neighbours']!r}; it needs batch_nodes, as 20000.")
        parse_fanout(values["neighbours"], where)

    def make_method(self, backbone: Backbone) -> Method:
        """The method that trains this backbone with these hyper-parameters."""
        return self.method_class(backbone, self)

    @property
    def in_pieces(self) -> bool:
        """Whether a step sees pieces of the training graphs."""
        return self.batch_parts is not None or self.batch_nodes is not None

    @property
    def batches(self) -> Batches:
        """What the hyper-parameters say that a step sees."""
        each = self.batch == "each"
        if self.batch_parts is not None:
            return PartBatches(self.batch_parts, self.seed, each)
        if self.batch_nodes is not None:
            return NodeBatches(self.batch_nodes, parse_fanout(self.neighbours), self.seed, each)
        return one_by_one if each else full_batch

    def new_backbone(self, features: int, task: Task, edge_features: int = 0) -> Backbone:
        """The untrained network that the hyper-parameters ask for, for nodes and edges with so many features."""
        shape: dict[str, Any] = {n: getattr(self, n) for n in ("hidden_channels", "num_layers", "dropout")}
        shape |= {"options": self.backbone_options, "edge_channels": edge_features}
        if not task.is_graph_level:
            return make_backbone(self.backbone, features, task.out_channels, **shape)
        return graph_backbone(self.backbone, features, task.out_channels, readout=self.readout, **shape)

    def arrays(self) -> dict[str, Tensor]:
        """The GNN's weights by name."""
        return dict(self.backbone_.state_dict())

    def take_arrays(self, arrays: Mapping[str, Tensor], features: int, task: Task) -> None:
        """Becomes the model with these weights, on the device of its settings if that is there."""
        network = self.new_backbone(features, task, self.n_edge_features_)
        network.load_state_dict(dict(arrays))
        self.backbone_ = network.to(torch_device(self.device if is_available(self.device) else "cpu")).eval()

    def take(self, choice: Choice) -> None:
        """Takes the weights of the epoch that a rule chose."""
        self.backbone_.load_state_dict(choice.weights)

    def edited(self, environment: Environment, share: float = 1.0) -> Environment | None:
        """The graph after the edits of edges that raise the model's risk most."""
        return adversarially_edited(self.backbone_, environment, share=share)

    @property
    def takes_edge_features(self) -> bool:
        """Whether the backbone that is asked for does."""
        if isinstance(self.backbone, str):
            return BACKBONES.find(self.backbone).uses_edge_features
        own = self.backbone
        return (own if isinstance(own, Backbone) else ModuleBackbone(own, 1)).uses_edge_features

    def module(self) -> nn.Module:
        """A copy of the backbone, on the CPU."""
        if self.n_edge_features_:
            raise GraphshiftError(
                f"export: the model uses {self.n_edge_features_} features of edges, which an exported one cannot take; "
                "`graphshift serve` serves it as it is."
            )
        return copy.deepcopy(self.backbone_).cpu()

    @property
    def uses_edges(self) -> bool:
        """Whether the backbone does."""
        return self.backbone_.uses_edges

    @property
    def has_batch_norm(self) -> bool:
        """Whether the backbone has batch normalisation."""
        return bool(batch_norms(self.backbone_))

    def _learn(
        self, chosen: Self, training: Sequence[Environment], selection: Selection, asked: Asked
    ) -> TrainingResult:
        device = chosen._training_device()
        chosen.check_task(training[0].task)
        if chosen.in_pieces:
            refuse_graph_level(training[0].task, "training on parts or samples of a graph")
        with isolated(chosen.seed, device):
            widths = (training[0].num_features, training[0].task, training[0].num_edge_features)
            backbone = chosen.new_backbone(*widths).to(device)
            method = chosen.make_method(backbone)
            method.target = asked.target
            identity = chosen.settings()
            if asked.run is not None:  # a run of other settings or other data must not be resumed
                identity["data"] = [e.fingerprint() for e in (*training, *selection.environments, *asked.target)]
                identity |= {"also": list(asked.also)} if asked.also else {}
            stopping: dict[str, Any] = {"epochs": chosen.epochs, "patience": chosen.patience}
            batches = chosen.batches if asked.batches is full_batch else asked.batches
            how: dict[str, Any] = {"batches": batches, "callbacks": asked.callbacks, "run": asked.run}
            how["also"] = asked.also
            if (own := team()).size > 1:
                selection, method = shared_selection(selection, own), SharedMethod(method, own, chosen.seed)
                how |= {"batches": shared_batches(batches, own), "run": shared_run(asked.run, own)}
                how["also"] = {name: shared_selection(rule, own) for name, rule in asked.also.items()}
            result = train(method, training, selection, identity=identity, **stopping, **how)
        backbone.load_state_dict(result.best.weights)
        self.backbone_ = backbone.eval()
        return result

    def learn_and_keep(
        self, chosen: Self, training: Sequence[Environment], selection: Selection, asked: Asked
    ) -> TrainingResult:
        """As in :meth:`Estimator.learn_and_keep`; then the training graphs are looked at once more."""
        result = super().learn_and_keep(chosen, training, selection, asked)
        if self._needs(LEARNED):
            self.recall(training, asked.calibrating)
        return result

    def recall(self, training: Sequence[Environment], graphs: Graphs) -> None:
        """Keeps of the training graphs what some adaptations need, and rehearses these on labelled graphs.

        ``fit`` does this; again it is needed where :meth:`take` took other weights.

        Args:
            training: the training graphs.
            graphs: labelled graphs that the model was not trained on.
        """
        self.source_ = None
        if self.task_.is_classification and not self.task_.is_graph_level:
            self.source_ = Source.of(self, training)
            self.source_.rehearse(self, as_environments(graphs, self.task_))

    def calibrate(self, graphs: Graphs) -> None:
        """As in :meth:`Estimator.calibrate`; adaptations that are rehearsed are rehearsed on these graphs."""
        super().calibrate(graphs)
        if self.source_ is not None:
            self.source_.rehearse(self, as_environments(graphs, self.task_))

    def can_adapt(self, way: str | None) -> bool:
        """Whether the model has what a way of adapting needs or changes."""
        parts = parts_of(way)
        if {*WITHOUT_EDGES} & {*parts}:
            return super().can_adapt(way)
        tunes = all(tunable(self.backbone_, part) for part in parts if part in TUNING)
        return tunes and not self._lacks(way) and ("norm" not in parts or self.has_batch_norm)

    def _lacks(self, way: str | None) -> str:
        """What an adaptation by training graphs, or by edits, needs and the model has not; empty if nothing."""
        parts = parts_of(way)
        if not {*LEARNED, *EDITING} & {*parts}:
            return ""
        if not self.task_.is_classification or self.task_.is_graph_level:
            return "classes of nodes"
        own = self.backbone_
        weighs = own.takes_weight if isinstance(own, ModuleBackbone) else own.uses_edges
        return "a backbone that uses edges with weights" if {"neighbours", *EDITING} & {*parts} and not weighs else ""

    def _checked(self, adapt: str | None) -> tuple[str, ...]:
        parts = super()._checked(adapt)
        for part in parts:
            if part in TUNING and not (tunable(self.backbone_, part) and self.task_.is_classification):
                needs = "batch normalisation" if part == "tent" else "weights of hops (backbone gprgnn)"
                raise GraphshiftError(f"adapt is {adapt!r}: it needs classes and a backbone with {needs}.")
        if needs := self._lacks(adapt):
            raise GraphshiftError(f"adapt is {adapt!r}: it needs {needs}.")
        if {*LEARNED} & {*parts} and self.source_ is None:
            raise GraphshiftError(
                f"adapt is {adapt!r}: the model keeps nothing of its training graphs (an earlier version saved it); "
                "fit it again, or call model.recall(training, validation)."
            )
        return parts

    def _plain_output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        way = next((part for part in parts if part in LEARNED), None)
        if way is not None:
            return self._compared(environment, way)
        if {*EDITING} & {*parts}:
            environment, parts = transformed(self.backbone_, environment), ()
        with self._inference(environment, parts):
            return output_of(self.backbone_, environment)

    def _compared(self, environment: Environment, way: str) -> Tensor:
        """The output after the graph was compared with training; the model's own where that is not safe."""
        assert self.source_ is not None
        if environment.stored is not None:
            raise GraphshiftError(
                f"environment {environment.name!r} is predicted piece by piece, and adapt {way!r} needs all of it at "
                "once: leave it out."
            )
        output = self._plain_output(environment, ())
        if not (why := self.source_.unsafe(way, self.task_)):
            output, why = self.source_.adapted(self, environment, output, way)
        if why:
            message = f"environment {environment.name!r}: the model was left as it is ({way}): {why}."
            warnings.warn(message, GraphshiftWarning, stacklevel=5)
        return output

    def _represented(self, environment: Environment, parts: Sequence[str]) -> tuple[Tensor, Tensor]:
        with self._inference(environment, parts):
            return self.backbone_.represent(self.backbone_.stem(environment.x), environment.graph)

    @contextmanager
    def _inference(self, environment: Environment, parts: Sequence[str]) -> Iterator[None]:
        """Without gradients, and with the graph's own batch statistics if they are asked for."""
        if {"norm", "tent"} & {*parts} and environment.num_nodes < 2:
            raise GraphshiftError(
                f"environment {environment.name!r} has one node, whose mean and variance say nothing: adapt is "
                f"{parts[0]!r}, which needs at least two."
            )
        way = next((part for part in parts if part in TUNING), None)
        statistics = own_statistics(self.backbone_) if "norm" in parts else nullcontext()
        with torch.no_grad(), statistics, tuned(self.backbone_, environment, way) if way else nullcontext():
            yield

    def _note(self) -> dict[str, Any]:
        return {"own_backbone": type(self.backbone).__name__ if isinstance(self.backbone, nn.Module) else None}

    def _device(self) -> torch.device:
        return next(self.backbone_.parameters()).device

    def _training_device(self) -> torch.device:
        return torch_device(self.device)

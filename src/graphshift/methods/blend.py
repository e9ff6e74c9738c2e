"""A blend: several methods fitted on the same data, whose predictions are averaged."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.hparams import hparam, hparams_of
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import estimated_prior
from graphshift.estimators.asked import Asked
from graphshift.estimators.base import METHODS, Estimator
from graphshift.estimators.confidence import Confidence
from graphshift.estimators.direct import AsMethod
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Graphs
from graphshift.methods.members import checked_members, completed_members
from graphshift.methods.modules import BlendModule
from graphshift.training.batches import full_batch
from graphshift.training.callbacks import History, ProgressBar
from graphshift.training.loop import Choice, Selection, TrainingResult
from graphshift.training.run import Run
from graphshift.training.selection import adversarially_edited, explored_score


def blended(outputs: Sequence[Tensor], task: Task, weights: Tensor | None = None) -> Tensor:
    """The output whose class probabilities, or values in regression, are the mean of those of several outputs.

    Args:
        outputs: of the members, ``[nodes, out_channels]`` each.
        task: what they predict.
        weights: of the members, which sum to 1, ``[members]``; None for equal ones.

    Returns:
        ``[nodes, out_channels]``, float64.
    """
    each = torch.stack([task.probabilities(output) for output in outputs])
    mean = each.mean(dim=0) if weights is None else torch.einsum("m,m...->...", weights.to(each), each)
    return task.output_of(mean) if task.is_classification else mean.unsqueeze(1)


def likeliest_weights(probabilities: Tensor) -> Tensor:
    """λ that maximises Σ_v log Σ_m λ_m p_m(y_v | x_v), λ ≥ 0, Σ λ = 1: ``[members]``.

    By expectation maximisation: mixture weights and class priors are the same problem.

    Args:
        probabilities: which each member gives to the true class of labelled nodes, ``[nodes, members]``, float64.
    """
    members = probabilities.shape[1]
    return estimated_prior(probabilities, torch.full((members,), 1 / members, dtype=torch.float64))[0]


@METHODS.register("blend", label="Blend")
@dataclass(eq=False, repr=False, kw_only=True)
class Blend(Estimator):
    """A mean of several methods: each is fitted on the same data, their class probabilities or values are averaged.

    Under shift, validation says little about which of several models is best. The mean of models that err in different
    places is rarely far behind the best of them. A GNN's probabilities are often too sure and would outvote the others;
    so calibrated probabilities are averaged where there are validation graphs (or held-out nodes) to calibrate on, and
    raw ones elsewhere. The temperatures are fitted to validation labels: one number for each member.

    Args:
        members: the settings of each member by name, ``method`` among them, as ``{"method": "erm", "lr": 0.001}``; a
            name stands for a method with its defaults; ``"forest,erm"`` and JSON are read too. Two to 32.
        weights: ``"equal"``, or ``"val"``: those under which the validation labels are likeliest.
        selection: by which every member chooses its epoch; the blend is scored by it once.
        seed: of every member that has no ``seed`` of its own.

    Attributes:
        members_: the fitted members.
        weights_: of the members; None where they are equal.
        task_ … calibrations_: as in :class:`~graphshift.estimators.base.Estimator`; ``best_epoch_`` is 0.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> members = [{"method": "logistic"}, {"method": "erm", "epochs": 5}]
    >>> model = gs.Blend(members=members).fit(data)
    >>> model.predict(data.tests[0]).shape
    (100,)
    """

    members: list[dict[str, Any]] = hparam(
        [{"method": "forest"}, {"method": "erm"}], help="what is averaged: names, or JSON with settings of each"
    )
    weights: Literal["equal", "val"] = hparam("equal", help="of the members: equal, or likeliest by validation labels")

    @classmethod
    def completed(cls, values: dict[str, Any], defaults: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """Every member with all its settings: those given, the dataset's, the general ones."""
        members = values.get("members", hparams_of(cls)["members"].default)
        rule = values.get("selection", hparams_of(cls)["selection"].default)
        return {**values, "members": completed_members(members, rule, defaults, where)}

    @classmethod
    def check_together(cls, values: Mapping[str, Any], where: str) -> None:
        """Refuses members that cannot be."""
        checked_members(values["members"], values["seed"], values["selection"], where)

    def new_members(self) -> list[Estimator]:
        """The members that the hyper-parameters ask for, not fitted; every setting must be decided."""
        return checked_members(self.members, self.seed, self.selection)

    def check_task(self, task: Task) -> None:
        """Every member must be able to learn it; weights are found for classes."""
        if self.weights == "val" and not task.is_classification:
            raise GraphshiftError("blend: weights 'val' are for classes, and the task is regression; choose 'equal'.")
        for member in self.resolved().new_members():
            member.check_task(task)

    def arrays(self) -> dict[str, Tensor]:
        """Of member i the arrays as ``member-i.NAME``, temperature and floor as ``calibration-i`` (``…-norm``).

        Those of a member that was not calibrated are empty: one that is missing is damage, not a choice. Where weights
        were chosen, ``weights``.
        """
        return self._arrays(self.members_)

    def _arrays(self, members: Sequence[Estimator]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for i, member in enumerate(self.members_, start=1):
            found |= {f"member-{i}.{name}": one for name, one in member.arrays().items() if member in members}
            for mode in _modes(member):
                known = member.confidences_.get(mode)
                pair = [] if known is None else [known.temperature, known.floor]
                found[_calibration(i, mode)] = torch.tensor(pair, dtype=torch.float64)
        return found if self.weights_ is None else found | {"weights": self.weights_}

    def take_arrays(self, arrays: Mapping[str, Tensor], features: int, task: Task) -> None:
        """Becomes the blend with these arrays."""
        members = self.new_members()
        known = {_calibration(i, mode) for i in range(1, len(members) + 1) for mode in ("", "norm")}
        known |= {"weights"} if self.weights == "val" else set()
        prefixes = tuple(f"member-{i}." for i in range(1, len(members) + 1))
        if unknown := [name for name in arrays if name not in known and not name.startswith(prefixes)]:
            raise ValueError(f"array {unknown[0]!r} belongs to none of the {len(members)} members")
        for i, member in enumerate(members, start=1):
            own = _own(arrays, i)
            member.n_edge_features_ = self.n_edge_features_ if member.takes_edge_features else 0
            if isinstance(member, GNNEstimator):
                _check_shapes(own, member, features, task)
            try:
                member.take_arrays(own, features, task)
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"member {i} ({member.method}): {error}") from None
            member.task_, member.n_features_in_, member.settings_ = task, features, member.settings()
            member.prior_, member.calibrations_ = torch.empty(0, dtype=torch.float64), {}
            member.confidences_ = _confidences(arrays, i, _modes(member))
        self.members_, self.weights_ = members, _weights(arrays, len(members)) if self.weights == "val" else None

    def take(self, choice: Choice) -> None:
        """Takes the weights that a rule chose for every GNN, and what belongs to them."""
        for i, member in enumerate(self.members_, start=1):
            if isinstance(member, GNNEstimator):
                member.take(Choice(choice.epoch, choice.score, _own(choice.weights, i)))
            member.confidences_ = _confidences(choice.weights, i, _modes(member))
        self.weights_ = choice.weights.get("weights")

    def wanted_target(self, target: Graphs | str | None) -> Graphs | str | None:
        """What the first member wants that wants another than what was given."""
        wanted = [member.wanted_target(target) for member in self.new_members()]
        return next((one for one in wanted if one is not target), target)

    def trained_with(self, target: Sequence[Environment]) -> Sequence[Environment]:
        """What the members see."""
        return next((seen for member in self.new_members() if (seen := member.trained_with(target))), ())

    def module(self) -> nn.Module:
        """Those of the members, calibrated, and their mean."""
        known = [member.confidences_.get("") for member in self.members_]
        mean = partial(blended, task=self.task_, weights=self.weights_)
        return BlendModule([member.module() for member in self.members_], known, self.task_, mean)

    @property
    def takes_edge_features(self) -> bool:
        """Whether a member does."""
        return any(member.takes_edge_features for member in self.new_members())

    @property
    def uses_edges(self) -> bool:
        """Whether a member does."""
        return any(member.uses_edges for member in self.members_)

    @property
    def has_batch_norm(self) -> bool:
        """Whether a member has batch normalisation."""
        return any(member.has_batch_norm for member in self.members_)

    def score_edited(self, environment: Environment) -> float | None:
        """The score after the edits that raise the risk of one of its GNNs most; of several GNNs the worst.

        None where a member uses edges and has no gradient in them.
        """
        return self._score_edited(environment, 0)

    def _score_edited(self, environment: Environment, seed: int) -> float | None:
        able = [member for member in self.members_ if member.uses_edges]
        if not able:
            return self.score(environment)
        scores = []
        for member in able:
            if not isinstance(member, GNNEstimator):
                return None
            scores.append(self.score(adversarially_edited(member.backbone_, environment, seed)))
        return min(scores, key=lambda score: self.task_.scorer.sign * score)

    def _learn(
        self, chosen: Self, training: Sequence[Environment], selection: Selection, asked: Asked
    ) -> TrainingResult:
        members, task = chosen.new_members(), training[0].task
        for member in members:
            member.check_task(task)
            member.only_for(())  # the blend adapts; of its members it needs how sure they are
        if asked.run is not None and asked.run.load() is not None:
            other = f"belongs to a run of another method; {self.method} has none: give another folder."
            raise GraphshiftError(f"{asked.run.checkpoint}: {other}")
        history, result = History(), None
        shown = any(isinstance(one, ProgressBar) for one in asked.callbacks)
        listeners = [history, *(one for one in asked.callbacks if not isinstance(one, ProgressBar))]
        for listener in listeners:
            listener.on_start(1)
        try:
            for i, member in enumerate(members, start=1):
                _fit_member(member, i, training, selection, asked, shown=shown)
            self.members_, self.task_, self.n_features_in_ = members, task, training[0].num_features
            started = time.perf_counter()
            self.weights_ = self._weighed(asked.calibrating) if chosen.weights == "val" else None
            best = Choice(0, self._score(chosen.selection, selection), {})
            also = self._further(asked)
            loss = fmean(float(e.risk(self._plain_output(e, ()))) for e in training)
            seconds = sum(member.seconds_ for member in members) + time.perf_counter() - started
            row: dict[str, Any] = {"epoch": 0, "loss": loss, "seconds": seconds}
            scores = {"val": best.score} | {name: one.score for name, one in also.items()}
            row |= {name: score for name, score in scores.items() if score is not None}
            if asked.run is not None:
                asked.run.record(row)
            for listener in listeners:
                listener.on_epoch(row)
            result = TrainingResult(best, also, history.rows, seconds)
        finally:
            for listener in listeners:
                listener.on_end(result)
        return result

    def _weighed(self, graphs: Sequence[Environment]) -> Tensor:
        """The members' weights by labelled graphs that they were not trained on."""
        if not graphs:
            raise GraphshiftError("blend: weights 'val' need validation graphs, or selection 'id_val'; choose 'equal'.")
        likely = []
        for e in graphs:
            found = torch.stack([self.task_.probabilities(one)[e.counted.cpu()] for one in self._outputs(e, ())], dim=1)
            likely.append(found[torch.arange(len(found)), :, e.labels.cpu().long()])
        return likeliest_weights(torch.cat(likely).double())

    def _further(self, asked: Asked) -> dict[str, Choice]:
        """What further rules chose: the members' epochs by each rule together."""
        if not asked.also:
            return {}
        networks = [member for member in self.members_ if isinstance(member, GNNEstimator)]
        own = {name: one.clone() for name, one in self._arrays(networks).items()}
        found = {}
        for name, rule in asked.also.items():
            for member in self.members_:
                member.take(member.also_[name])
                member.calibrate(asked.calibrating)
            if self.weights_ is not None:
                self.weights_ = self._weighed(asked.calibrating)
            weights = {key: one.clone() for key, one in self._arrays(networks).items()}
            found[name] = Choice(0, self._score(name, rule), weights)
        self.take(Choice(0, None, own))
        return found

    def _score(self, name: str, rule: Selection) -> float | None:
        """What a rule says of the blend."""
        if not rule.environments:
            return None
        if rule.score is not explored_score:
            found = rule.score(AsMethod(self.method, self._plain_output, name), rule.environments, 0)  # type: ignore[arg-type]
            if found is None:
                raise GraphshiftError("predictions for the validation environments are NaN or infinite; scale `x`.")
            return found
        edited = [self._score_edited(e, derive_seed(0, i)) for i, e in enumerate(rule.environments)]
        if any(score is None for score in edited):
            warnings.warn(
                f"selection {name!r} follows the risk's gradient to edges, and a member of the blend uses edges and "
                "has none: the blend has no score by this rule.",
                GraphshiftWarning,
                stacklevel=5,
            )
            return None
        return fmean(score for score in edited if score is not None)

    def _plain_output(self, environment: Environment, parts: Sequence[str] = ()) -> Tensor:
        return blended(self._outputs(environment, parts), self.task_, self.weights_)

    def _outputs(self, environment: Environment, parts: Sequence[str]) -> list[Tensor]:
        """The calibrated output of every member."""
        outputs = []
        for member in self.members_:
            mode = "norm" if "norm" in parts and member.has_batch_norm else ""
            output = member._plain_output(environment.to(member._device()), (mode,) if mode else ())
            known = member.confidences_.get(mode)
            outputs.append(output if known is None else known.scaled(output, self.task_))
        return outputs


def _fit_member(
    member: Estimator, number: int, training: Sequence[Environment], selection: Selection, asked: Asked, *, shown: bool
) -> None:
    """Fits a member in its own folder of the run, on its own device."""
    device = member._training_device()

    def moved(rule: Selection) -> Selection:
        return Selection([e.to(device) for e in rule.environments], rule.score)

    run = asked.run and Run(asked.run.folder / "members" / str(number), asked.run.every)
    bars = [ProgressBar(member.label)] if shown else []
    how: dict[str, Any] = {"run": run, "callbacks": bars, "calibrating": asked.calibrating}
    how["batches"] = asked.batches if member.uses_backbone else full_batch
    how["target"] = [e.to(device) for e in member.trained_with(asked.target)]
    also = {name: moved(rule) for name, rule in asked.also.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*it has no score by this rule", GraphshiftWarning)  # the blend says so
        member.learn_and_keep(member, [e.to(device) for e in training], moved(selection), Asked(also=also, **how))


def _own(arrays: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """The arrays of one member, by its own names."""
    prefix = f"member-{number}."
    return {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}


def _modes(member: Estimator) -> tuple[str, ...]:
    """In which ways a member is calibrated, if it is."""
    return ("", "norm") if member.has_batch_norm else ("",)


def _calibration(number: int, mode: str) -> str:
    """The name of the array with a member's temperature and floor."""
    return f"calibration-{number}" + (f"-{mode}" if mode else "")


def _confidences(arrays: Mapping[str, Tensor], number: int, modes: Sequence[str]) -> dict[str, Confidence]:
    """The temperatures of one member, by mode; none if it was not calibrated."""
    found = {}
    for mode in modes:
        name = _calibration(number, mode)
        if name not in arrays:
            raise ValueError(f"array {name!r} is missing")
        pair = arrays[name]
        if tuple(pair.shape) not in ((0,), (2,)) or pair.dtype != torch.float64:
            raise ValueError(f"{name} is {pair.dtype} {list(pair.shape)}; expected a temperature and a floor")
        if pair.numel():
            temperature, floor = pair.tolist()
            if not 0 < temperature < float("inf") or not 0 <= floor <= 1:
                raise ValueError(f"{name} has temperature {temperature} and floor {floor}")
            found[mode] = Confidence(temperature, floor)
    return found


def _weights(arrays: Mapping[str, Tensor], members: int) -> Tensor:
    """The members' weights, checked."""
    found = arrays.get("weights", torch.empty(0))
    fit = found.shape == (members,) and found.dtype == torch.float64 and bool((found >= 0).all())
    if not fit or not abs(float(found.sum()) - 1) < 1e-6:
        raise ValueError(f"weights are missing, or not {members} float64 numbers from 0 that sum to 1")
    return found


def _check_shapes(arrays: Mapping[str, Tensor], member: GNNEstimator, features: int, task: Task) -> None:
    """Refuses weights of other shapes than the settings' before any memory is taken: settings can claim any size."""
    with torch.device("meta"):
        network = member.new_backbone(features, task, member.n_edge_features_)
        expected = {name: list(t.shape) for name, t in network.state_dict().items()}
    for name in [*expected, *arrays]:
        found = list(arrays[name].shape) if name in arrays else None
        if found != expected.get(name):
            raise ValueError(f"{member.method}: {name} is {found or 'missing'}, {expected.get(name)} by the note")

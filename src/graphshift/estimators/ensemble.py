"""Deep ensembles (Lakshminarayanan et al., NeurIPS 2017): models that differ in their seed, averaged."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.core.storage import write_json
from graphshift.data.environment import Environment, as_environments
from graphshift.datasets.tables.preparation import save_preparation
from graphshift.estimators.base import Estimator
from graphshift.estimators.confidence import Confidence
from graphshift.estimators.explored import save_explored
from graphshift.estimators.held_out import save_held_out
from graphshift.estimators.learning import learn_from
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.saving import FORMAT, refuse_occupied


class Ensemble(Predictor):
    """Predicts the mean of its members' class probabilities, or of their values.

    Args:
        members: fitted models of one task and one number of features.
    """

    def __init__(self, members: Sequence[Estimator]) -> None:
        if not members:
            raise GraphshiftError("an ensemble has no members; give at least one fitted model.")
        self.members = list(members)
        for member in self.members:
            member._check_fitted()
        shapes = {(member.task_, member.n_features_in_, member.n_edge_features_) for member in self.members}
        if len(shapes) > 1:
            message = "the members of an ensemble differ in task or number of features; they cannot be averaged."
            raise GraphshiftError(message)
        ((self.task_, self.n_features_in_, self.n_edge_features_),) = shapes
        self.preparation_, self.confidences_, self.held_out_ = self.members[0].preparation_, {}, {}
        self.prior_ = self.members[0].prior_

    def calibrate(self, graphs: Graphs) -> None:
        """Learns from labelled graphs that no member was trained on how sure the mean may be.

        Calibrated probabilities, thresholds and prediction sets need it.
        """
        modes = ["", *(["norm"] if all("norm" in member.confidences_ for member in self.members) else [])]
        learned = learn_from(self, as_environments(graphs, self.task_), modes)
        self.confidences_, self.held_out_, self.explored_ = learned.confidences, learned.held_out, None

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes ``ensemble.json`` and a folder for each member; the arguments are :meth:`Estimator.save`'s."""
        folder = Path(folder)
        names = [f"member-{i + 1}" for i in range(len(self.members))]
        refuse_occupied(folder, overwrite=overwrite)
        for name, member in zip(names, self.members, strict=True):
            member.save(folder / name / "model", overwrite=overwrite)
        note_ensemble(folder, len(names), self.confidences_)
        save_held_out(folder, self.held_out_)
        save_explored(folder, self.explored_)
        save_preparation(folder, self.preparation_, overwrite=overwrite)
        for name in ("model.json", "weights.safetensors"):
            (folder / name).unlink(missing_ok=True)

    def _repr_html_(self) -> str:
        """For Jupyter."""
        rows = [[i, m.label, m.settings_["seed"], m.best_epoch_] for i, m in enumerate(self.members, start=1)]
        columns = ["member", "method", "seed", "epoch"]
        return html_table(f"Ensemble of {len(self.members)}: {self.task_.kind}", columns, rows)

    def _check_fitted(self) -> None:
        """Its members are."""

    def _device(self) -> torch.device:
        return self.members[0]._device()

    def _checked(self, adapt: str | None) -> tuple[str, ...]:
        (parts,) = {member._checked(adapt) for member in self.members}
        return parts

    def _output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        outputs = [member._output(environment.to(member._device()), parts) for member in self.members]
        mean = torch.stack([self.task_.probabilities(output) for output in outputs]).mean(dim=0)
        return self.task_.output_of(mean) if self.task_.is_classification else mean.unsqueeze(1)


def note_ensemble(folder: Path, members: int, confidences: Mapping[str, Confidence] | None = None) -> None:
    """Marks a folder as an ensemble of the models in ``member-1/model`` and so on."""
    found = {mode: one.to_json() for mode, one in (confidences or {}).items()}
    note = {"format": FORMAT, "graphshift": __version__, "members": members, "confidences": found}
    write_json(folder / "ensemble.json", note)

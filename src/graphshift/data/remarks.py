"""What is unusual about data and not wrong: it is mentioned once, and nothing is changed."""

import warnings
from collections.abc import Sequence

import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse

_MOST = 5  # classes that are listed
_LARGE = 1e6  # a feature beyond this makes training overflow long before it has learned
_SQUARED = 1e18  # of one beyond this the square is infinite in 32 bits


def label_remarks(
    train: Sequence[Environment], val: Sequence[Environment], class_names: Sequence[str] | None = None
) -> list[str]:
    """Classes that training can hardly learn, or that validation says nothing of; labels that are all the same.

    Classes are called by ``class_names``, or by number.
    """
    labels = torch.cat([e.labels.cpu() for e in train])
    if not train[0].task.is_classification:
        if labels.numel() > 1 and bool((labels == labels[0]).all()):
            return [f"all training nodes have the label {float(labels[0]):g}: a model learns nothing but that"]
        return []
    found, classes = [], train[0].task.num_classes
    called = [str(c) if class_names is None else repr(class_names[c]) for c in range(classes)]
    counts = torch.bincount(labels, minlength=classes)
    if int((counts > 0).sum()) == 1:
        found.append(f"all training nodes are of class {called[int(labels[0])]}: a model learns nothing but that")
    if single := (counts == 1).nonzero().flatten().tolist():
        found.append(f"{_named([called[c] for c in single])} one training node: its predictions will be poor")
    if val:
        seen = torch.bincount(torch.cat([e.labels.cpu() for e in val]), minlength=classes)
        if missing := ((counts > 0) & (seen == 0)).nonzero().flatten().tolist():
            found.append(f"{_named([called[c] for c in missing])} no validation node: no epoch is chosen by it")
    return found


def mention(remarks: Sequence[str], *, where: str) -> None:
    """Warns of remarks, all in one :class:`GraphshiftWarning`."""
    if remarks:
        warnings.warn(f"{where}: {'; '.join(remarks)}.", GraphshiftWarning, stacklevel=4)


def _named(classes: Sequence[str]) -> str:
    shown = ", ".join(classes[:_MOST]) + (" …" if len(classes) > _MOST else "")
    return f"class {shown} has" if len(classes) == 1 else f"{len(classes)} classes ({shown}) have each"


def check_squares(environments: Sequence[Environment]) -> None:
    """Refuses features of which no deviation can be taken."""
    if where := too_large(environments, _SQUARED):
        raise GraphshiftError(f"{where}; nothing can be compared with that. Scale the columns as those of training.")


def too_large(environments: Sequence[Environment], limit: float = _LARGE) -> str:
    """Which column of which environment has features so large that training overflows; empty if none has."""
    worst, where = limit, ""
    for environment in environments:
        x = environment.x
        values = x.value if isinstance(x, Sparse) else x
        if not values.numel():
            continue
        place = int(values.abs().argmax())
        size = float(values.flatten()[place].abs())
        if size > worst:
            column = int(x.pattern.col[place]) if isinstance(x, Sparse) else place % x.shape[1]
            worst, where = size, f"column {column} of `x` in environment {environment.name!r} reaches {size:.3g}"
    return where

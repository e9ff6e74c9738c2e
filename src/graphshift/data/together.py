"""Whether environments fit together: names, numbers of features, one task, labels, classes that training has."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment


def check_together(
    train: Sequence[Environment],
    others: Sequence[Environment],
    unlabelled: Sequence[Environment] = (),
    *,
    where: str,
    class_names: Sequence[str] | None = None,
) -> None:
    """Checks that environments fit together: names, numbers of features, tasks, labels (unless unlabelled), classes.

    Messages begin with ``where`` and call classes by ``class_names``, or by number.
    """
    if not train:
        raise GraphshiftError(f"{where}: there is no training environment; at least one is needed.")
    first = train[0]
    for e in train:
        if e.num_items < 2:
            raise GraphshiftError(
                f"{where}: training environment {e.name!r} has one {e.items[:-1]}; it needs at least two."
            )
    seen: set[str] = set()
    for e in [*train, *others, *unlabelled]:
        if e.name in seen:
            raise GraphshiftError(f"{where}: two environments are called {e.name!r}; names must differ.")
        seen.add(e.name)
        if e.num_features != first.num_features:
            raise GraphshiftError(
                f"{where}: environment {e.name!r} has {e.num_features} features and {first.name!r} has "
                f"{first.num_features}; all need the same columns in the same order."
            )
        if e.num_edge_features != first.num_edge_features:
            raise GraphshiftError(
                f"{where}: the edges of environment {e.name!r} have {e.num_edge_features} features (`edge_attr`) and "
                f"those of {first.name!r} have {first.num_edge_features}; all need the same columns in the same order."
            )
        if e.task != first.task:
            found = f"environment {e.name!r} has {e.task} and {first.name!r} has {first.task}"
            raise GraphshiftError(f"{where}: {found}; give all environments one task.")
    for e in [*train, *others]:
        if e.y is None:
            raise GraphshiftError(f"{where}: environment {e.name!r} has no labels `y`; only target needs none.")
    first_items = first.items
    if first.task.is_classification:
        counts = sum(torch.bincount(e.labels, minlength=first.task.num_classes) for e in train)
        assert isinstance(counts, Tensor)
        unseen = (counts == 0).nonzero().squeeze(1).tolist()
        needed = sorted({int(c) for e in others for c in e.labels.unique()} & set(unseen))
        called = [str(c) if class_names is None else repr(class_names[c]) for c in range(first.task.num_classes)]
        known = int((counts > 0).sum())
        if needed and known < 2:
            raise GraphshiftError(
                f"{where}: training has class {called[int(counts.argmax())]} alone, and class "
                f"{', '.join(called[c] for c in needed)} is in the validation or test environments; a method needs two "
                f"classes to learn from: move {first_items} of another into training."
            )
        if needed:  # a new subject area, say: no method can be right there, and the score says so
            lost = {e.name: sum(int((e.labels == c).sum()) for c in needed) for e in others}
            lacking = ", ".join(f"{number} of {name}" for name, number in lost.items() if number)
            warnings.warn(
                f"{where}: class {', '.join(called[c] for c in needed)} is never in training, so no method can learn "
                f"it; its {first_items} ({lacking}) count as wrong in the scores.",
                GraphshiftWarning,
                stacklevel=4,
            )
        if unseen := [c for c in unseen if c not in needed]:
            warnings.warn(
                f"{where}: class {', '.join(called[c] for c in unseen)} of {first.task.num_classes} has no "
                f"{first_items[:-1]} "
                "anywhere; the model keeps an output for it.",
                GraphshiftWarning,
                stacklevel=4,
            )

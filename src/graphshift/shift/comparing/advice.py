"""The verdict of a comparison in a sentence, and what to do about each kind of shift."""

from __future__ import annotations

from collections.abc import Sequence

from graphshift.shift.comparing.block import Block

#: The blocks as a sentence says them.
SPOKEN = {
    "features": "the features",
    "structure": "the structure",
    "surroundings": "the features around a node",
    "labels": "the labels",
    "edges": "what edges say about labels",
}

_ADVICE = {
    "features": (
        "The features moved: look at the columns that moved most (other units, a changed source?). A GNN with batch "
        'normalisation can adapt to the new graph (`adapt="norm"`); compare `srgnn` and `dann`. '
        "If some columns are known to be unstable, train with EERM and the explorer `features`."
    ),
    "structure": (
        "The structure moved: train with EERM and the explorers `drop-edge` or `add-edge`, compare SAGE with GCN, and "
        "take a model without edges (`mlp`, `logistic`) as a floor."
    ),
    "surroundings": (
        "Neighbours resemble a node more or less than they did, and a model that averages over neighbours depends on "
        "this. Compare SAGE and GPRGNN, which weigh a node's own features apart, with GCN."
    ),
    "labels": (
        'Class shares moved: predict with `adapt="prior"`, which estimates the new shares without labels, and check '
        "thresholds that were chosen on old shares."
    ),
    "edges": (
        "Edges join other classes than before, so what neighbours say about a label has changed. Train with EERM and "
        "the explorer `gradient`, or a model without edges, and label some nodes of the target before you trust it."
    ),
}


def verdict_of(moved: Sequence[Block], untested: Sequence[Block]) -> str:
    """One sentence; ``moved`` with the strongest first."""
    if not moved:
        text = "Nothing has moved as far as can be seen."
    elif len(moved) == 1:
        text = f"{_upper(SPOKEN[moved[0].name])} moved; nothing else did as far as can be seen."
    else:
        others = [SPOKEN[block.name] for block in moved[1:]]
        listed = " and ".join([", ".join(others[:-1]), others[-1]] if len(others) > 1 else others)
        text = f"{_upper(SPOKEN[moved[0].name])} moved most; {listed} moved too."
    if untested:
        text += f" Of {' and '.join(SPOKEN[block.name] for block in untested)} nothing can be said."
    return text


def advice_for(moved: Sequence[Block]) -> tuple[str, ...]:
    """What to do, a text for each block that moved."""
    if not moved:
        return ("Use your model as it is, and look again when new data come.",)
    return tuple(_ADVICE[block.name] for block in moved)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]

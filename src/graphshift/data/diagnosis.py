"""What data say about how models may fail on them: edges between unlike nodes, classes that are coded differently."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse

#: Of edges between nodes of one class, as a share of what chance would give: below, neighbours are unlike each other.
_LOW = 1.2

#: A class whose mean features are nearer to another class of training by this much (of cosine) looks like that one.
_MARGIN = 0.2


#: So often classes are drawn anew to see how alike they are by chance; all draws must be less alike.
_DRAWS = 99


def remarks(data: ShiftDataset, scored: Sequence[Environment] | None = None, *, edges: bool = True) -> list[str]:
    """Sentences about the data that explain low scores, if something stands out.

    Args:
        data: with classes; of values nothing is said.
        scored: the labelled environments whose classes are looked at; None for the validation ones, so that no test
            label is.
        edges: whether the model uses them.
    """
    if not data.task.is_classification:
        return []
    about = _about_edges(data.train) if edges else []
    about += _about_classes(data, data.val if scored is None else scored)
    return [*about, *_about_copies(data.environments)]


def homophily(environments: Sequence[Environment]) -> tuple[float, float] | None:
    """The share of edges between counted nodes of one class, and the share by chance; None without such edges."""
    same, edges, chance = 0, 0, 0.0
    for environment in environments:
        y, ends = environment.y, environment.graph.edge_index
        if y is None or environment.task.is_graph_level:
            continue
        both = environment.mask[ends[0]] & environment.mask[ends[1]]
        first, second = y[ends[0][both]], y[ends[1][both]]
        count = int(first.numel())
        same, edges = same + int((first == second).sum()), edges + count
        classes = environment.task.num_classes
        shares = [torch.bincount(end, minlength=classes).double() / max(count, 1) for end in (first, second)]
        chance += count * float((shares[0] * shares[1]).sum())
    return (same / edges, chance / edges) if edges else None


def _about_edges(environments: Sequence[Environment]) -> list[str]:
    found = homophily(environments)
    if found is None or found[0] >= _LOW * found[1]:
        return []
    return [
        f"In training {100 * found[0]:.0f} % of edges join nodes of one class ({100 * found[1]:.0f} % by chance): a "
        "GNN that averages over neighbours, such as GCN, loses what the node's own columns say; SAGE keeps them apart, "
        "and models without edges ignore neighbours."
    ]


def _about_copies(environments: Sequence[Environment]) -> list[str]:
    """Environments with the features of another whose edges are others: a file that is there twice, as in WebKB."""
    found: list[str] = []
    known: list[tuple[tuple[int, int, float], Environment]] = []
    for environment in environments:
        x, keys = environment.x, environment.graph.keys
        value = x.value if isinstance(x, Sparse) else x
        key = environment.num_nodes, environment.num_features, float(value.double().sum())
        alike = [other for own, other in known if own == key and not torch.equal(other.graph.keys, keys)]
        twin = next((other for other in alike if _same(x, other.x)), None)
        if twin is not None and (isinstance(x, Sparse) or bool((x != x[:1]).any())):  # one value for all is no file
            found.append(
                f"{twin.name!r} and {environment.name!r} have the same features and other edges: check that one file "
                "was not taken for both."
            )
        known.append((key, environment))
    return found


def _same(one: Tensor | Sparse, other: Tensor | Sparse) -> bool:
    if isinstance(one, Sparse) and isinstance(other, Sparse):
        same = torch.equal(one.pattern.rowptr, other.pattern.rowptr) and torch.equal(one.pattern.col, other.pattern.col)
        return same and torch.equal(one.value, other.value)
    return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)


def _about_classes(data: ShiftDataset, scored: Sequence[Environment]) -> list[str]:
    """Environments in which the classes look like other classes of training."""
    classes, found = data.task.num_classes, []
    known = _class_means(data.train, classes)
    for environment in scored:
        alike = _alike(known, environment)
        if len(alike) < 2:
            continue
        best, columns = _best_match(alike)
        if best - float(np.diag(alike).mean()) > _MARGIN and best > 0.5 and _is_no_chance(best, known, environment):
            moved = int((columns != np.arange(len(alike))).sum())
            found.append(
                f"In {environment.name!r} {moved} of {len(alike)} classes look like other classes of training: check "
                "that the class codes mean the same in every environment."
            )
    return found


def _alike(known: Sequence[Tensor | None], environment: Environment) -> NDArray[np.float64]:
    """Cosines between the mean features of classes there and in training, of the classes that both have."""
    own = _class_means([environment], len(known))
    both = [(one, other) for one, other in zip(own, known, strict=True) if one is not None and other is not None]
    if not both:
        return np.zeros((0, 0))
    ours, theirs = (torch.stack(means) for means in zip(*both, strict=True))
    ours, theirs = (torch.nn.functional.normalize(means - means.mean(dim=0), dim=1) for means in (ours, theirs))
    return np.asarray((ours @ theirs.t()).numpy())


def _best_match(alike: NDArray[np.float64]) -> tuple[float, NDArray[np.intp]]:
    """How alike classes are on average where each has the one of training that suits all best, and which that is."""
    rows, columns = linear_sum_assignment(-alike)
    return float(alike[rows, columns].mean()), columns


def _is_no_chance(best: float, known: Sequence[Tensor | None], environment: Environment) -> bool:
    """Whether classes that are drawn anew never match as well: features that say nothing match some class, too."""
    generator, counted = torch.Generator().manual_seed(0), environment.counted.cpu()
    for _ in range(_DRAWS):
        assert environment.y is not None
        y = environment.y.clone().cpu()
        y[counted] = y[counted[torch.randperm(counted.numel(), generator=generator)]]
        if _best_match(_alike(known, environment.replace(y=y)))[0] >= best:
            return False
    return True


def _class_means(environments: Sequence[Environment], classes: int) -> list[Tensor | None]:
    """The mean features of the counted nodes of each class; None for a class without any."""
    total = torch.zeros(classes, environments[0].num_features, dtype=torch.float64)
    counts = torch.zeros(classes, dtype=torch.float64)
    for environment in environments:
        y = environment.y
        if y is None:
            continue
        member = torch.zeros(classes, environment.num_nodes, dtype=torch.float32)
        nodes, blocks = environment.counted.cpu(), environment.graph.blocks
        if blocks is not None:  # a graph's nodes stand for it
            y, nodes = y[blocks.batch], environment.mask[blocks.batch].nonzero().squeeze(1).cpu()
        member[y.cpu()[nodes], nodes] = 1.0
        counts += member.sum(dim=1)
        x = environment.x
        if isinstance(x, Sparse):
            parts = (part.cpu().numpy() for part in (x.value, x.pattern.col, x.pattern.rowptr))
            whole = scipy.sparse.csr_array(tuple(parts), shape=x.shape)
            total += torch.from_numpy(np.ascontiguousarray((whole.T @ member.numpy().T).T)).double()
        else:
            total += (member @ x.cpu()).double()
    return [total[c] / counts[c] if counts[c] else None for c in range(classes)]

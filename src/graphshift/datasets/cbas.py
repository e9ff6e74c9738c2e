"""``cbas``: roles of nodes in a random graph with houses. Colours agree with them in training alone (GOOD)."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.making.random_graphs import check_ranges, preferential_attachment
from graphshift.datasets.node_split import ALIKE
from graphshift.datasets.reading.assembly import environment
from graphshift.datasets.temporal import with_known
from graphshift.graph.graph import Graph

_BASE, _HOUSES, _LINKS = 300, 80, 5  # of BA-Shapes (Ying et al., 2019): base nodes, houses, edges of a new base node
# A house: middle nodes 0 and 1, bottom ones 2 and 3, the top 4; node 0 is joined to the base.
_ROLES, _HOUSE = (1, 1, 2, 2, 3), ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))
#: How often a node's colour is its class's own, in each environment; else it is any of the four (GOOD's concept shift).
AGREEMENT = (0.95, 0.9, 0.85, 0.8, 0.75, 0.3, 0.0)
# Each row one colour, with GOOD's values. In the concept shift a class has one, in the covariate shift an environment.
_CONCEPT = ((1, 0, 0, 0.5), (0, 1, 0, 0.7), (0, 0, 1, 0.3), (1, 1, 0, 0.2))
_COVARIATE = (
    *((1, 0, 0, 0.5), (0, 1, 0, 0.7), (0, 0, 1, 0.3), (1, 1, 0, 0.4), (0, 1, 1, 0.6)),
    *((1, 0, 1, 1.0), (0, 0, 0, 0.1)),
)


@DATASETS.register(
    "cbas", summary="base nodes and houses; colours agree with roles in training alone", shift="planted", origin="GOOD"
)
def cbas(*, shift: str = "concept", seed: int = 0, alike: bool = False) -> ShiftDataset:
    """GOOD-CBAS (Gui et al., 2022): which nodes are base, middle, bottom or top, in one graph with coloured nodes.

    The graph is BA-Shapes: a Barabási–Albert graph of 300 nodes and 80 houses of five nodes, each joined to it by one
    edge. Structure alone tells the four roles; colours are the only features. All environments share the graph and
    differ in the nodes that count, as GOOD has it: five train, one validates, one tests. Two in three
    (``covariate``: one in four) nodes of the training environments are held out, as GOOD keeps them for in-domain
    validation and test. GOOD publishes one draw of this; ``seed`` makes others.

    Args:
        shift: ``"concept"``: a node's colour is that of its class with probability 0.95, 0.9, 0.85, 0.8 and 0.75 in
            training, 0.3 in validation and 0 in the test, and otherwise any of the four. ``"covariate"``: all nodes of
            an environment have its colour, whatever their role.
        seed: the same seed gives the same data.
        alike: test on the nodes of the training environments that are held out, too, as ``alike``.
    """
    if shift not in ("concept", "covariate"):
        raise GraphshiftError(f"cbas: shift is {shift!r}; {expected_one_of(shift, ['concept', 'covariate'])}")
    check_ranges("cbas", {"seed": seed}, {"seed": (0, float("inf"))})
    generator = np.random.default_rng(derive_seed(seed, 22))
    edges, roles = _ba_shapes(generator)
    nodes = len(roles)
    held = int(nodes * (0.2 if shift == "concept" else 0.1))  # validation, test, and both in domain
    order = generator.permutation(nodes)
    group = np.empty(nodes, dtype=np.int64)
    group[order] = np.repeat(np.arange(7), [(nodes - 2 * held) // 5] * 5 + [held] * 2)
    if shift == "concept":
        agrees = generator.random(nodes) < np.array(AGREEMENT)[group]
        x = np.array(_CONCEPT)[np.where(agrees, roles, generator.integers(4, size=nodes))]
    else:
        x = np.array(_COVARIATE)[group]
    inside = generator.permutation(np.flatnonzero(group < 5))
    spared, aside = np.isin(np.arange(nodes), inside[: 2 * held]), np.isin(np.arange(nodes), inside[:held])
    graph = Graph.from_edge_index(torch.from_numpy(edges), nodes, undirected=True)
    y, features = torch.from_numpy(roles), torch.from_numpy(x.astype(np.float32))
    trained = torch.from_numpy((group < 5) & ~spared)
    whole = with_known(environment("cbas", features, y, graph, Task("multiclass", 4)), trained)
    names = ["E1", "E2", "E3", "E4", "E5", "val", "test"]
    made = [whole.replace(name=name, mask=torch.from_numpy((group == i) & ~spared)) for i, name in enumerate(names)]
    tests = [whole.replace(name=ALIKE, mask=torch.from_numpy(aside))] if alike else []
    facts: dict[str, Any] = {"class_names": ("base", "middle", "bottom", "top"), "spurious_columns": [0, 1, 2, 3]}
    facts |= {"agreement": dict(zip(names, AGREEMENT, strict=True))} if shift == "concept" else {}
    defaults = {"backbone": "gcn", "num_layers": 3, "hidden_channels": 64, "epochs": 300, "lr": 0.01}
    return ShiftDataset("cbas", made[:5], made[5:6], [*tests, *made[6:]], facts=facts, defaults=defaults)


def _ba_shapes(generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both directions of every edge, ``[2, edges]``, and every node's role: the base first, then the houses."""
    base = preferential_attachment(_BASE, _LINKS, generator)
    corner = _BASE + 5 * np.arange(_HOUSES)  # the node 0 of each house
    houses = (corner[:, None, None] + np.array(_HOUSE)).reshape(-1, 2).T
    joined = np.stack([generator.permutation(_BASE)[:_HOUSES], corner])
    one_way = np.concatenate([base, houses, joined], axis=1)
    roles = np.concatenate([np.zeros(_BASE, dtype=np.int64), np.tile(_ROLES, _HOUSES)])
    return np.concatenate([one_way, one_way[::-1]], axis=1), roles

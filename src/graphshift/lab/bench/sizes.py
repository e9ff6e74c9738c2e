"""How large everything is that the suite measures. One place, so that a quick run and a test can be smaller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The point around which curves vary one axis at a time, and what every other part measures at but for its nodes.
BASE: Mapping[str, int] = {"nodes": 20_000, "views": 3, "edits": 5, "degree": 10, "features": 64}


@dataclass(frozen=True)
class Sizes:
    """The sizes of one run of the suite; the defaults are the full ones, to which the bars belong.

    Attributes:
        floor: nodes of the graphs on which steps are compared with the floor.
        epochs: real steps before a policy counts as grown.
        exponent: nodes through which the exponent is fitted.
        million: nodes of the graph whose peak memory is measured, and ``million_steps`` on it.
        batched: nodes of the graphs that are trained on in parts.
        reach: nodes of the graphs whose tables are divided, with ten times as many lines of edges.
        ray_study_nodes: of a study on Ray, with ``ray_seeds`` and ``ray_epochs``; ``ray_nodes`` of one training on it.
        policy_epochs: steps after which the policies' memory on Twitch is counted.
        dense: nodes of the graph on which a dense explorer is tried, and ``dense_steps`` before ours is timed.
        pyg: nodes of the planted graph on which PyG's GCN is timed.
        table: nodes of the messy tables, with ten times as many edges.
        starts: how often a fit is started.
        serve_nodes: of the graph that is served, and ``serve_requests`` to it.
        base: the curves' base point; ``axes`` the values of each axis, ``memory_axes`` those whose memory is measured.
        dense_limit: the most nodes that the curves try a dense explorer with.
        backbones: which; empty for all; on ``backbone_nodes`` nodes.
        rounds, least, budget: how often, and for how many seconds, everything is timed; see ``timing.in_turns``.
    """

    floor: tuple[int, ...] = (10_000, 100_000)
    epochs: int = 100
    exponent: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    million: int = 1_000_000
    million_steps: int = 20
    batched: tuple[int, ...] = (100_000, 300_000, 1_000_000)
    reach: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    ray_study_nodes: int = 5_000
    ray_seeds: int = 4
    ray_epochs: int = 60
    ray_nodes: int = 300_000
    policy_epochs: int = 200
    dense: int = 8_000
    dense_steps: int = 20
    pyg: int = 100_000
    table: int = 300_000
    starts: int = 5
    serve_nodes: int = 10_000
    serve_requests: int = 100
    base: Mapping[str, int] = field(default_factory=lambda: dict(BASE))
    axes: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {
            "nodes": (2_000, 4_000, 8_000, 20_000, 60_000, 200_000),
            "views": (2, 3, 5, 10),
            "edits": (1, 2, 5, 10),
            "degree": (5, 10, 20, 40),
            "features": (16, 64, 256, 1024),
        }
    )
    memory_axes: tuple[str, ...] = ("nodes", "views", "edits", "degree", "features")
    dense_limit: int = 8_000
    backbones: tuple[str, ...] = ()
    backbone_nodes: int = 100_000
    rounds: int = 7
    least: float = 5.0
    budget: float = 20.0


#: The sizes of a full run and of ``--quick``.
SIZES: dict[str, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(
        floor=(2_000,),
        epochs=20,
        exponent=(1_000, 4_000, 16_000),
        million=20_000,
        million_steps=3,
        batched=(10_000, 20_000),
        reach=(10_000, 20_000),
        ray_study_nodes=200,
        ray_seeds=1,
        ray_epochs=2,
        ray_nodes=20_000,
        policy_epochs=20,
        dense=1_000,
        dense_steps=5,
        pyg=5_000,
        table=3_000,
        starts=1,
        serve_nodes=1_000,
        serve_requests=40,
        base={**BASE, "nodes": 2_000},
        axes={
            "nodes": (1_000, 4_000),
            "views": (2, 3, 6),
            "edits": (1, 5),
            "degree": (5, 10, 20),
            "features": (16, 64, 256),
        },
        memory_axes=("nodes",),
        dense_limit=1_000,
        backbones=("gcn",),
        backbone_nodes=5_000,
        rounds=3,
        least=0.5,
        budget=3.0,
    ),
}

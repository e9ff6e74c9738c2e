"""``twitch-iid``: how much of Twitch is shift; held-out streamers of DE beside those of ENGB."""

from pathlib import Path

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets.base import DATASETS
from graphshift.datasets.temporal import with_known
from graphshift.datasets.twitch import SOURCES, twitch


@DATASETS.register(
    "twitch-iid",
    summary="held-out streamers of DE against those of ENGB: how much is shift",
    shift="cross-domain",
    origin="as twitch",
    sources=SOURCES,
)
def twitch_iid(*, seed: int = 0, data_dir: str | Path | None = None) -> ShiftDataset:
    """How much of Twitch is shift: DE trains, and tests are nodes of DE that were held out (IID) and ENGB (OOD).

    The paper's appendix trains on 90 % of DE's nodes and takes the highest score of the others. Here eight tenths
    train, one tenth chooses the epoch and one tests, so that no score is used for its own selection. All nodes of DE
    stay in its graph.

    Args:
        seed: draws the tenths.
        data_dir: as in :func:`twitch`.
    """
    if not isinstance(seed, int) or seed < 0:
        raise GraphshiftError(f"twitch-iid: seed is {seed!r}; expected a whole number of at least 0.")
    whole = twitch(data_dir=data_dir)
    home, away = whole.train[0], whole.val[0]
    order = torch.randperm(home.num_nodes, generator=torch.Generator().manual_seed(derive_seed(seed, 47)))
    tenth = home.num_nodes // 10

    def part(name: str, nodes: Tensor) -> Environment:
        mask = torch.zeros(home.num_nodes, dtype=torch.bool)
        mask[nodes] = True
        return home.replace(name=name, mask=mask)

    home = with_known(home, part("DE", order[2 * tenth :]).mask)
    train, val = part("DE", order[2 * tenth :]), part("DE, to choose", order[:tenth])
    tests = [part("DE (IID)", order[tenth : 2 * tenth]), away.replace(name="ENGB (OOD)")]
    return ShiftDataset("twitch-iid", [train], [val], tests, defaults=whole.defaults, facts={"seed": seed})

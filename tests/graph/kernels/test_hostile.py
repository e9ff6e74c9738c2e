"""Hostile arguments at the border to C: refused with one message, or answered within range; never followed.

``make sanitize`` runs this file under AddressSanitizer and UndefinedBehaviorSanitizer, with more examples.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphshift.core.errors import GraphshiftError
from graphshift.explorers import SparsePolicy
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import checks, native
from graphshift.graph.kernels.attention import attend
from graphshift.graph.sparse import Pattern

hostile = settings(max_examples=int(os.environ.get("HOSTILE_EXAMPLES", "60")))

WHOLE = st.one_of(st.integers(-2, 8), st.sampled_from([-(2**31), 2**31 - 1, 2**30, 2**29, -1]))
REAL = st.one_of(
    st.floats(width=32), st.sampled_from([math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45, 0.0, -0.0, 88.5])
)
DTYPES = st.sampled_from([torch.int32] * 6 + [torch.int64, torch.float32, torch.int16])
FLOATS = st.sampled_from([torch.float32] * 6 + [torch.float64, torch.int32])
SEEDS = st.integers(0, 2**63 - 1)


@st.composite
def lists(draw: Any, sound: bool | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Lists of columns by row: whole ones, and ones with numbers changed, lengths that differ, other types, strides."""
    nodes = draw(st.integers(0, 6))
    degrees = draw(st.lists(st.integers(0, min(4, nodes)), min_size=nodes, max_size=nodes))
    rows = [draw(st.permutations(range(nodes)))[:degree] for degree in degrees]
    first = torch.tensor([0, *degrees]).cumsum(0).int()
    columns = torch.tensor([column for row in rows for column in row], dtype=torch.int32)
    if sound or draw(st.booleans()):
        return first, columns
    for tensor in (first, columns):
        for _ in range(draw(st.integers(0, 2)) if tensor.numel() else 0):
            tensor[draw(st.integers(0, tensor.numel() - 1))] = draw(WHOLE)
    if draw(st.booleans()):
        columns = columns[: draw(st.integers(0, columns.numel()))]
    if draw(st.booleans()):
        first = torch.stack([first, first], dim=1)[:, 0]  # not contiguous
    return first.to(draw(DTYPES)), columns.to(draw(DTYPES))


@st.composite
def reals(draw: Any, *shape: int) -> torch.Tensor:
    """Floats of a shape, or nearly."""
    if draw(st.integers(0, 5)) == 0:
        shape = (*shape[:-1], max(shape[-1] + draw(st.integers(-1, 1)), 0))
    count = math.prod(shape)
    values = draw(st.lists(REAL, min_size=min(count, 6), max_size=min(count, 6))) or [0.0]
    tensor = torch.tensor([values[i % len(values)] for i in range(count)]).reshape(shape)
    kind = draw(FLOATS)
    return torch.nan_to_num(tensor).clamp(-1e9, 1e9).to(kind) if kind == torch.int32 else tensor.to(kind)


def attempt(run: Callable[[], Any]) -> None:
    """What is refused is refused by us, or by torch where types are mixed."""
    try:
        run()
    except GraphshiftError:
        return
    except RuntimeError as error:
        if not re.search("type|Float|require|non-empty", str(error)):
            raise


def nodes_of(first: torch.Tensor) -> int:
    return first.numel() - 1


@given(graph=lists(), flips=lists(), data=st.data())
@hostile
def test_edit(graph: Any, flips: Any, data: st.DataObject) -> None:
    weight = data.draw(st.none() | reals(graph[1].numel()))
    new, both = data.draw(REAL), data.draw(st.booleans())
    try:
        rowptr, col, _ = kernels.edit(*graph, weight, *flips, new_weight=new, both=both)
    except GraphshiftError:
        return
    nodes = nodes_of(graph[0])
    assert int(rowptr[-1]) == col.numel()
    assert not col.numel() or 0 <= int(col.min()) <= int(col.max()) < nodes


@given(graph=lists(), pairs=lists(), data=st.data())
@hostile
def test_joined_scaled_and_transposed(graph: Any, pairs: Any, data: st.DataObject) -> None:
    size = data.draw(st.integers(-1, 8))
    factor, weight = data.draw(reals(max(nodes_of(graph[0]), 1))), data.draw(st.none() | reals(graph[1].numel()))
    for run in (
        lambda: kernels.joined(*graph, *pairs),
        lambda: kernels.scale(*graph, weight, factor),
        lambda: kernels.transpose(*graph, size),
    ):
        attempt(run)


@given(graph=lists(), data=st.data())
@hostile
def test_scores_and_the_best(graph: Any, data: st.DataObject) -> None:
    nodes = max(nodes_of(graph[0]), 1)
    width, each = data.draw(st.integers(-1, 9)), data.draw(st.integers(-1, 3))
    table, add = data.draw(reals(nodes, 16)), data.draw(reals(nodes))
    both, skip, seed = data.draw(st.booleans()), data.draw(st.booleans()), data.draw(SEEDS)
    gains, drawn = data.draw(reals(graph[1].numel())), data.draw(reals(nodes * max(each, 0)))
    columns = torch.zeros(nodes * max(each, 0), dtype=torch.int32)
    budget = data.draw(st.integers(-1, 40))
    for run in (
        lambda: kernels.score(*graph, table, width, add, both=both, skip=skip),
        lambda: kernels.score_random(graph, each, seed, (table, width, add), both=both, weight=data.draw(REAL)),
        lambda: kernels.best(*graph, gains, columns, drawn, sign=data.draw(REAL), budget=budget),
    ):
        attempt(run)


@given(graph=lists(sound=True), data=st.data())
@hostile
def test_attention(graph: Any, data: st.DataObject) -> None:
    nodes, heads, width = nodes_of(graph[0]), data.draw(st.integers(0, 2)), data.draw(st.integers(0, 5))
    weight = data.draw(st.none() | reals(graph[1].numel()))
    made = Graph(Pattern(*graph, (nodes, nodes)), weight, undirected=False)
    h, source, target = (data.draw(reals(*shape)) for shape in ((nodes, heads, width), (nodes, heads), (nodes, heads)))
    leaves = [t.requires_grad_() if t.is_floating_point() else t for t in (h, source, target)]
    attempt(lambda: attend(made, *leaves).sum().backward())


@given(nodes=st.integers(-1, 9), draws=st.sampled_from([-1, 0, 1, 3, 2**31, 2**62]), seed=SEEDS)
@hostile
def test_draws(nodes: int, draws: int, seed: int) -> None:
    if nodes >= 0 and draws == 0:
        assert kernels.draw(nodes, draws, seed).shape == (nodes, 0)
    elif nodes < 2 or not 0 <= nodes * draws < 2**31:
        with pytest.raises(GraphshiftError, match="draws for each"):
            kernels.draw(nodes, draws, seed)
    else:
        drawn = kernels.draw(nodes, draws, seed)
        assert 0 <= int(drawn.min()) <= int(drawn.max()) < nodes
        assert not bool((drawn == torch.arange(nodes).unsqueeze(1)).any())


@given(
    rewards=st.lists(st.one_of(REAL, st.sampled_from([1e300, 1e39, -1e38])), min_size=1, max_size=5),
    how=st.fixed_dictionaries(
        {
            "optimizer": st.sampled_from(["adam", "sgd"]),
            "lr": st.sampled_from([0.0, 0.005, 1e12, 1e300]),
            "max_entries": st.sampled_from([None, 1, 3]),
        }
    ),
    nodes=st.integers(2, 9),
    draws=st.integers(1, 4),
    again=st.booleans(),
)
@hostile
def test_a_policy_survives_any_reward(rewards: list[float], how: Any, nodes: int, draws: int, again: bool) -> None:
    policy, generator = SparsePolicy(nodes, **how), torch.Generator().manual_seed(0)
    for reward in rewards:
        try:
            columns = policy.sample(draws, generator)
            assert 0 <= int(columns.min()) <= int(columns.max()) < nodes
            policy.reinforce(columns.clone() if again else columns, reward)
        except GraphshiftError:
            continue


@given(data=st.data())
@hostile
def test_a_damaged_policy_is_refused_or_harmless(data: st.DataObject) -> None:
    nodes, generator = 7, torch.Generator().manual_seed(0)
    policy = SparsePolicy(nodes, max_entries=data.draw(st.sampled_from([None, 3])))
    for _ in range(data.draw(st.integers(0, 4))):
        policy.reinforce(policy.sample(2, generator), 1.0)
    state = policy.state()
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(state)))
        flat = state[name].contiguous().view(-1).view(torch.uint8)
        if flat.numel():
            flat[data.draw(st.integers(0, flat.numel() - 1))] ^= 1 << data.draw(st.integers(0, 7))
        if data.draw(st.integers(0, 9)) == 0:
            state[name] = state[name].flatten()[:-1]
    try:
        policy.load_state(state)
        for _ in range(3):
            columns = policy.sample(2, generator)
            assert 0 <= int(columns.min()) <= int(columns.max()) < nodes
            policy.reinforce(columns, 1.0)
    except GraphshiftError:
        return


def test_actions_of_a_users_own_are_checked() -> None:
    policy = SparsePolicy(4)
    for wrong in ([[4], [0], [0], [0]], [[-1], [0], [0], [0]], [[0], [0], [0], [0]], [[1.0], [0], [0], [0]]):
        with pytest.raises(GraphshiftError, match="actions"):
            policy.reinforce(torch.tensor(wrong), 1.0)


def test_more_than_32_bits_can_count_is_refused_or_left_to_torch() -> None:
    """No memory is needed: one number is seen 2³¹ times."""
    many = torch.zeros(1, dtype=torch.int32).expand(2**31)
    with pytest.raises(GraphshiftError, match="at most 2³¹"):
        checks.check_rows(torch.tensor([0, 5]), many, 1, 1)
    with pytest.raises(GraphshiftError, match="at most 2³¹"):
        kernels.draw(2**20, 2**12, 0)
    assert not native.fits(count=2**29)
    rows = torch.zeros(1, dtype=torch.int32).expand(2**29 + 1)
    assert not native.fits(rows, count=rows.numel() - 1)


def test_a_graph_that_was_changed_in_place_is_checked_again() -> None:
    rowptr, col = torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32)
    factor = torch.ones(2)
    assert kernels.scale(rowptr, col, None, factor).tolist() == [1.0, 1.0]
    col[0] = 2**30
    with pytest.raises(GraphshiftError, match="columns lie between"):
        kernels.scale(rowptr, col, None, factor)

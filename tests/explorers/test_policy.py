"""The sparse policy: what it draws, what it says about it, what it keeps."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy.stats import chisquare

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import other_nodes
from graphshift.explorers import SparsePolicy
from policies import logits_of, probabilities_of, taught

# --- drawing


@pytest.mark.parametrize("steps", [0, 1, 3, 60], ids=lambda steps: f"{steps}-steps")
@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6])
def test_frequencies_match_the_probabilities(nodes: int, steps: int) -> None:
    policy = taught(nodes, steps, optimizer="sgd", lr=0.3)
    expected = probabilities_of(policy)
    columns = policy.sample(20_000, torch.Generator().manual_seed(7))
    assert columns.shape == (nodes, 20_000)
    for row in range(nodes):
        counts = torch.bincount(columns[row], minlength=nodes)
        assert counts[row] == 0  # never the diagonal
        others = [m for m in range(nodes) if m != row]
        if nodes == 2:
            assert counts.sum() == counts[others[0]]
            continue
        result = chisquare(counts[others].numpy(), expected[row, others].numpy() * 20_000)
        assert result.pvalue > 1e-4


def test_the_frequency_test_sees_rows_of_every_kind() -> None:
    """Untouched, partly touched and wholly touched rows all occur above, with unequal probabilities."""
    shares = [
        taught(nodes, steps, lr=0.3).touched / (nodes * (nodes - 1)) for nodes in (5, 6) for steps in (0, 1, 3, 60)
    ]
    assert min(shares) == 0
    assert max(shares) == 1
    assert sum(0 < share < 1 for share in shares) >= 4
    spread = probabilities_of(taught(6, 3, lr=0.3))[~torch.eye(6).bool()]
    assert spread.max() > 2 * spread.min()


def test_the_draws_of_a_row_are_independent() -> None:
    policy = taught(4, 2, lr=0.4)
    expected = probabilities_of(policy)
    pairs = policy.sample(40_000, torch.Generator().manual_seed(3)).view(4, 20_000, 2)
    for row in range(4):
        cells = [(a, b) for a in range(4) for b in range(4) if row not in (a, b)]
        observed = [int(((pairs[row, :, 0] == a) & (pairs[row, :, 1] == b)).sum()) for a, b in cells]
        assert (
            chisquare(observed, [float(expected[row, a] * expected[row, b]) * 20_000 for a, b in cells]).pvalue > 1e-4
        )


def test_drawing_goes_on_where_the_generator_is() -> None:
    policy, generator = taught(6, 2), torch.Generator().manual_seed(1)
    first, second = policy.sample(9, generator), policy.sample(9, generator)
    assert not torch.equal(first, second)
    assert torch.equal(first, policy.sample(9, torch.Generator().manual_seed(1)))


# --- log p


def test_log_prob_is_that_of_the_row_softmax_entry_of_the_action_drawn() -> None:
    """By hand. Fails for a softmax over columns and for the transposed entry, as in the authors' code."""
    policy = SparsePolicy(3, optimizer="sgd", lr=1.0, dtype=torch.float64)
    policy.reinforce(torch.tensor([[2, 2], [0, 2], [0, 1]]), 1.0)
    # Row 0 drew column 2 twice: its logits are (–, −1, 1). Rows 1 and 2 drew each column once: 0.
    high = 1 / (1 + math.exp(-2))
    assert policy.log_prob(torch.tensor([[2], [0], [0]])) == pytest.approx(math.log(high) + 2 * math.log(0.5))
    assert policy.log_prob(torch.tensor([[1], [0], [0]])) == pytest.approx(math.log(1 - high) + 2 * math.log(0.5))
    for column_of_2 in (0, 1):  # where row 2 goes does not matter, though (2, 0) mirrors (0, 2)
        assert policy.log_prob(torch.tensor([[2], [2], [column_of_2]])) == pytest.approx(math.log(high * 0.25))
    assert policy.log_prob(torch.tensor([[2, 1], [0, 2], [0, 0]])) == pytest.approx(math.log(high * (1 - high) / 16))


@pytest.mark.parametrize("steps", [0, 2, 40])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_log_prob_equals_the_dense_log_softmax(optimizer: str, steps: int) -> None:
    policy = taught(7, steps, optimizer=optimizer, lr=0.3)
    dense = logits_of(policy).log_softmax(dim=1)
    for seed in range(5):
        columns = policy.sample(3, torch.Generator().manual_seed(seed))
        assert policy.log_prob(columns) == pytest.approx(float(dense.gather(1, columns).sum()), rel=1e-12)


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_probabilities_of_all_joint_actions_sum_to_one(nodes: int) -> None:
    policy = taught(nodes, 4, lr=0.5)
    others = [[m for m in range(nodes) if m != row] for row in range(nodes)]
    total = sum(math.exp(policy.log_prob(torch.tensor(a).unsqueeze(1))) for a in itertools.product(*others))
    assert total == pytest.approx(1)


def test_a_fresh_policy_is_uniform() -> None:
    policy = SparsePolicy(11)
    assert policy.log_prob(policy.sample(3, torch.Generator())) == pytest.approx(-33 * math.log(10))


def test_far_apart_logits_do_not_overflow() -> None:
    policy = SparsePolicy(4, optimizer="sgd", lr=5000.0)
    policy.reinforce(torch.tensor([[1], [0], [0], [0]]), 1.0)
    assert policy.log_prob(torch.tensor([[1], [0], [0], [0]])) == pytest.approx(0.0, abs=1e-9)
    assert policy.sample(50, torch.Generator()).flatten().unique().tolist() == [0, 1]
    policy.reinforce(torch.tensor([[2], [2], [1], [1]]), 1.0)
    policy.reinforce(torch.tensor([[3], [3], [3], [2]]), 1.0)  # now every column is touched
    assert bool(torch.isfinite(policy.dense_logits()[~torch.eye(4, dtype=torch.bool)]).all())
    assert policy.sample(50, torch.Generator()).shape == (4, 50)


# --- what is kept


def test_dense_logits_stand_for_the_probabilities() -> None:
    policy = taught(6, 3)
    dense = policy.dense_logits()
    assert bool((dense.diagonal() == -math.inf).all())
    torch.testing.assert_close(dense.softmax(dim=1), probabilities_of(policy))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_restored_policy_goes_on_identically(optimizer: str) -> None:
    policy = taught(8, 10, optimizer=optimizer, weight_decay=0.01)
    copy = SparsePolicy(8, optimizer=optimizer, lr=policy.lr, weight_decay=0.01, dtype=torch.float64)
    copy.load_state({name: tensor.clone() for name, tensor in policy.state().items()})
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    for step in range(20):
        columns = [p.sample(2, g) for p, g in zip((policy, copy), generators, strict=True)]
        assert torch.equal(*columns)
        for p, drawn in zip((policy, copy), columns, strict=True):
            p.reinforce(drawn, math.sin(step))
    assert torch.equal(policy.dense_logits(), copy.dense_logits())


def test_a_state_is_a_snapshot() -> None:
    """Learning on changes neither the state taken before nor another policy that was given it."""
    policy = taught(6, 5)
    before, state = logits_of(policy), policy.state()
    twins = [SparsePolicy(6, optimizer="sgd", lr=0.3, dtype=torch.float64) for _ in range(2)]
    for twin in twins:
        twin.load_state(state)
    for learner in (policy, twins[0]):
        for step in range(3):
            learner.reinforce(learner.sample(2, torch.Generator().manual_seed(step)), 1.0)
    assert torch.equal(logits_of(twins[1]), before)
    assert not torch.equal(logits_of(twins[0]), before)
    twins[1].load_state(state)
    assert torch.equal(logits_of(twins[1]), before)


def test_memory_grows_with_what_was_touched() -> None:
    """At 200 000 nodes a dense policy would hold 4·10^10 logits."""
    nodes, draws, steps = 200_000, 2, 3
    policy, generator = SparsePolicy(nodes), torch.Generator().manual_seed(0)
    distinct: set[int] = set()
    for _ in range(steps):
        columns = policy.sample(draws, generator)
        assert bool((columns != torch.arange(nodes).unsqueeze(1)).all())
        policy.reinforce(columns, 1.0)
        distinct |= set((torch.arange(nodes).unsqueeze(1) * nodes + columns).flatten().tolist())
    assert policy.touched == len(distinct) <= nodes * draws * steps
    kept = sum(tensor.numel() for tensor in policy.state().values())
    assert kept <= 4 * 16 * nodes + 8 * nodes  # room for 16 entries of four numbers, and a few for each row


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(GraphshiftError, match=r"'rmsprop'; expected 'adam' or 'sgd'"):
        SparsePolicy(4, optimizer="rmsprop")


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_decay_that_forgets_everything_is_refused(optimizer: str) -> None:
    with pytest.raises(GraphshiftError, match=r"lr × weight_decay is 1\.0; expected below 1"):
        SparsePolicy(4, optimizer=optimizer, lr=10.0, weight_decay=0.1)


def test_memory_grows_with_what_was_touched_and_not_with_the_square_of_the_nodes() -> None:
    sizes = {}
    for nodes in (500, 5000):
        policy = SparsePolicy(nodes)
        generator = torch.Generator().manual_seed(0)
        for _ in range(5):
            policy.reinforce(policy.sample(2, generator), 1.0)
        sizes[nodes] = policy.num_bytes
        assert policy.num_bytes >= policy.touched * 4 * 4  # a slot, a logit and two moments
    assert sizes[5000] < 12 * sizes[500]


def test_a_draw_comes_with_its_log_probability() -> None:
    policy, generator = SparsePolicy(6, lr=0.3, optimizer="sgd"), torch.Generator().manual_seed(0)
    for _ in range(30):  # from untouched rows to rows that are touched all over
        columns, found = policy.draw(2, generator)
        assert found == pytest.approx(policy.log_prob(columns), rel=1e-6)
        policy.reinforce(columns, 1.0)


# --- a bound on what is kept. Policies of 32 bits go by the kernels, those of 64 by the plain code.

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def bounded(max_entries: int, dtype: torch.dtype, nodes: int = 8, lr: float = 1.0, **options: str) -> SparsePolicy:
    return SparsePolicy(nodes, **{"optimizer": "sgd"} | options, lr=lr, max_entries=max_entries, dtype=dtype)


def ahead(step: int, nodes: int = 8) -> torch.Tensor:
    """Every row draws the column that is so many steps ahead of it."""
    return ((torch.arange(nodes) + step) % nodes).unsqueeze(1)


def remembered(policy: SparsePolicy) -> list[set[int]]:
    """For every row, how many steps ahead the columns are whose probability is not that of the untouched."""
    probabilities, n = logits_of(policy).softmax(dim=1), policy.num_nodes
    rows = []
    for row in range(n):
        others = [m for m in range(n) if m != row]
        usual = probabilities[row, others].median()
        rows.append({(m - row) % n for m in others if not torch.isclose(probabilities[row, m], usual, rtol=1e-9)})
    return rows


@DTYPES
def test_a_full_row_forgets_the_less_likely_of_two_in_turn(dtype: torch.dtype) -> None:
    policy = bounded(4, dtype, nodes=16)
    for step, reward in ((1, 2.0), (2, -2.0), (3, 1.0), (4, 1.5)):
        policy.reinforce(ahead(step, 16), reward)
    assert remembered(policy) == [{1, 2, 3, 4}] * 16
    for step, expected in (
        (5, {1, 3, 4, 5}),  # of 1 and 2 it forgets 2
        (6, {1, 4, 5, 6}),  # of 3 and 4 it forgets 3
        (7, {1, 4, 6, 7}),  # 5 sits where 2 was, beside 1
    ):
        policy.reinforce(ahead(step, 16), 0.5)
        assert remembered(policy) == [expected] * 16
        assert policy.touched == 4 * 16


@DTYPES
def test_what_is_forgotten_is_as_likely_as_what_was_never_touched(dtype: torch.dtype) -> None:
    policy = bounded(2, dtype)
    policy.reinforce(ahead(1), 1.0)
    policy.reinforce(ahead(2), -1.0)
    policy.reinforce(ahead(3), 1.0)
    assert policy.log_prob(ahead(2)) == policy.log_prob(ahead(6))
    for known in (1, 3):
        assert policy.log_prob(ahead(known)) > policy.log_prob(ahead(6)) + 1


@DTYPES
def test_a_forgotten_column_that_is_drawn_again_starts_anew(dtype: torch.dtype) -> None:
    policy, fresh = bounded(2, dtype, optimizer="adam"), bounded(2, dtype, optimizer="adam")
    for step, reward in ((1, 1.0), (2, -1.0), (3, 1.0), (2, 0.5)):
        policy.reinforce(ahead(step), reward)
    for step, reward in ((1, 1.0), (4, -1.0), (3, 1.0), (2, 0.5)):  # 2 was not drawn before
        fresh.reinforce(ahead(step), reward)
    assert policy.log_prob(ahead(2)) == fresh.log_prob(ahead(2))


@DTYPES
def test_what_a_step_draws_it_learns_about_however_full_the_row_is(dtype: torch.dtype) -> None:
    """Not even to make room for another draw of the step is it given up."""
    policy = bounded(4, dtype, nodes=12)
    for step in range(30):
        columns = other_nodes(12, 3, step)
        policy.reinforce(columns, 1.0)
        logits = logits_of(policy)
        usual = logits.nan_to_num(neginf=math.inf).median(dim=1, keepdim=True).values
        assert bool((logits.gather(1, columns.long()) > usual + 0.1).all())


@DTYPES
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_memory_stays_where_the_bound_puts_it(optimizer: str, dtype: torch.dtype) -> None:
    nodes, bound = 50, 20
    policy, free = (SparsePolicy(nodes, optimizer=optimizer, max_entries=m, dtype=dtype) for m in (bound, None))
    generator, sizes = torch.Generator().manual_seed(0), []
    for _ in range(40):
        columns = policy.sample(3, generator)
        for learner in (policy, free):
            learner.reinforce(columns, 1.0)
        assert policy.touched <= bound * nodes
        sizes.append(policy.num_bytes)
    assert policy.touched == bound * nodes
    assert sizes[-1] == sizes[10] < free.num_bytes
    assert sizes[-1] == nodes * (bound * (4 + 3 * dtype.itemsize) + 8 + 5 * dtype.itemsize)


@DTYPES
@pytest.mark.parametrize("draws", [1, 3, 6, 11, 30])
def test_a_bound_below_the_draws_is_raised_to_one_more(draws: int, dtype: torch.dtype) -> None:
    nodes = 12
    policy = bounded(2, dtype, nodes=nodes, lr=0.1)
    for step in range(20):
        columns = other_nodes(nodes, draws, step)
        policy.reinforce(columns, 1.0)
        assert torch.isfinite(logits_of(policy)[~torch.eye(nodes, dtype=torch.bool)]).all()
    assert policy.touched == nodes * min(max(2, draws + 1), nodes - 1)


@DTYPES
def test_the_draws_may_become_more(dtype: torch.dtype) -> None:
    policy = bounded(3, dtype, nodes=12, lr=0.1)
    for step, draws in enumerate((1, 1, 1, 1, 2, 5, 5, 1, 8, 8, 8, 8, 1)):
        policy.reinforce(other_nodes(12, draws, step), 1.0)
    assert policy.touched == 12 * 9


@DTYPES
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_restored_bounded_policy_goes_on_bit_for_bit(optimizer: str, dtype: torch.dtype) -> None:
    def step(policy: SparsePolicy, generator: torch.Generator, number: int) -> tuple[list[list[int]], float]:
        columns, log_prob = policy.draw(2, generator)
        policy.reinforce(columns, math.sin(number))
        return columns.tolist(), log_prob

    policy, generator = bounded(5, dtype, nodes=20, lr=0.5, optimizer=optimizer), torch.Generator().manual_seed(5)
    for number in range(9):
        step(policy, generator, number)
    assert policy.touched == 5 * 20  # full rows, whose hands stand anywhere
    assert len(policy.state()["hand"].unique()) > 2
    copy, other = bounded(5, dtype, nodes=20, lr=0.5, optimizer=optimizer), torch.Generator()
    copy.load_state(policy.state())
    other.set_state(generator.get_state())
    for number in range(20):
        assert step(policy, generator, number) == step(copy, other, number)
    left, right = policy.state(), copy.state()
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_below_the_bound_nothing_changes(optimizer: str) -> None:
    """A bound that the rows do not reach, though their room is cut to it."""
    bound, free = (SparsePolicy(40, optimizer=optimizer, lr=0.1, max_entries=m) for m in (25, None))
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    for step in range(11):
        columns = [policy.sample(2, g) for policy, g in zip((bound, free), generators, strict=True)]
        assert torch.equal(*columns)
        for policy in (bound, free):
            policy.reinforce(columns[0], math.cos(step))
    assert bound.num_bytes < free.num_bytes
    assert torch.equal(bound.dense_logits(), free.dense_logits())


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(GraphshiftError, match=r"max_entries is 0; expected at least 1, or None"):
        SparsePolicy(4, max_entries=0)

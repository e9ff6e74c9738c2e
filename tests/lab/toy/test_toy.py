"""The motivating example: what was learned, the closed forms and independent computations agree."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, root_scalar

from graphshift.core.errors import GraphshiftError
from graphshift.lab.toy.closed import eerm_optimum, erm_optimum, expected_variance, proposition_1, variance_optimum
from graphshift.lab.toy.figure import draw_toy
from graphshift.lab.toy.process import READINGS, expected_risk, mean_matrix, sample_risks
from graphshift.lab.toy.toy import VARIANCE_STARTS, learn, run_toy
from graphshift.methods.risks import eerm_objective, variance

SIGMAS = (0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def result():
    return run_toy(seed=1, repeats=10, spreads=(0.0,))


def graph(nodes=300, degree=4.0, seed=0):
    return mean_matrix(nodes, degree, np.random.default_rng(seed))


def sample(reading="proof", sigma=1.0, nodes=300, environments=50, seed=0):
    return sample_risks(graph(nodes), reading, sigma, environments, np.random.default_rng(seed))


# The graph and the sampled risks


def test_mean_matrix_takes_the_mean_over_neighbours_and_the_node():
    P = graph().toarray()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (np.diag(P) > 0).all()
    np.testing.assert_array_equal(P > 0, P.T > 0)
    for row in P:
        np.testing.assert_allclose(row[row > 0], 1 / (row > 0).sum())
    assert (P > 0).sum(axis=1).mean() == pytest.approx(5, abs=0.3)  # 4 neighbours and the node


@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize("reading", READINGS)
def test_sampled_risks_are_the_mean_squared_errors(reading, spread):
    """Replays the draws and runs Section 3.1's process environment by environment."""
    P, sigma, theta1, theta2 = graph(), 1.5, 0.3, -0.7
    risks = sample_risks(P, reading, sigma, 6, np.random.default_rng(3), spread)(
        torch.tensor([theta1, theta2], dtype=torch.float64)
    )
    rng = np.random.default_rng(3)
    drawn, n1, n2 = rng.standard_normal((3, 300))
    shifts, sizes = sigma * rng.standard_normal(6), rng.uniform(1 - spread, 1 + spread, 6) ** 0.5
    for risk, epsilon, size in zip(risks.tolist(), shifts, sizes, strict=True):
        x1 = size * drawn
        y = P @ x1 + n1
        if reading == "text":
            prediction = P @ (theta1 * x1 + theta2 * (P @ y + n2 + epsilon))
        else:
            prediction = theta1 * (P @ x1) + theta2 * (P @ x1 + n1 + n2 + epsilon)
        assert risk == pytest.approx(((prediction - y) ** 2).mean(), rel=1e-12)


def test_risks_take_a_batch_of_thetas():
    risks, theta = sample(), torch.randn(4, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(risks(theta)[2, 1], risks(theta[2, 1]))


# Closed forms


def test_trace_formulas_against_dense_matrices():
    P, sigma = graph(60), 0.7
    D = P.toarray()
    first, second = D, np.linalg.matrix_power(D, 3)
    noise1, noise2 = D @ D, D
    expected = expected_risk(P, "text", sigma)
    a1_a2 = np.trace(first @ second.T) / 60
    a2_a2 = np.trace(second @ second.T + noise1 @ noise1.T + noise2 @ noise2.T) / 60 + sigma**2
    np.testing.assert_allclose(expected.matrix, [[np.trace(first @ first.T) / 60, a1_a2], [a1_a2, a2_a2]])
    np.testing.assert_allclose(expected.vector, [np.trace(first @ first.T) / 60, a1_a2 + np.trace(noise1) / 60])
    assert expected.constant == pytest.approx(np.trace(first @ first.T) / 60 + 1)


@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize("reading", READINGS)
def test_expected_moments_against_monte_carlo(reading, spread):
    P, rng = graph(100), np.random.default_rng(0)
    expected = expected_risk(P, reading, 1.5, spread)
    draws = torch.stack([sample_risks(P, reading, 1.5, 5, rng, spread).gram.mean(dim=0) for _ in range(2000)])
    mean, error = draws.mean(dim=0).numpy(), (draws.std(dim=0) / 2000**0.5).numpy()
    truth = np.block([[expected.matrix, expected.vector[:, None]], [expected.vector, expected.constant]])
    assert (abs(mean - truth) < 4 * error).all()


@pytest.mark.parametrize("sigma", SIGMAS)
def test_proposition_1_is_the_proof_readings_optimum(sigma):
    assert erm_optimum(expected_risk(graph(), "proof", sigma)) == pytest.approx(proposition_1(sigma))


def test_proposition_1_holds_for_the_text_only_without_neighbours():
    assert erm_optimum(expected_risk(graph(degree=0.0), "text", 1.0)) == pytest.approx(proposition_1(1.0))
    theta1, theta2 = erm_optimum(expected_risk(graph(), "text", 1.0))
    assert theta1 > proposition_1(1.0)[0] + 0.1
    assert theta2 < proposition_1(1.0)[1] - 0.1


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize("beta", [0.001, 1.0, 100.0])
def test_eerm_optimum_against_direct_minimisation(reading, spread, beta):
    P = graph()
    expected = expected_risk(P, reading, 1.5, spread)
    D = P.toarray()

    def objective(theta):
        mean = theta @ expected.matrix @ theta - 2 * expected.vector @ theta + expected.constant
        # What x¹ puts into ŷ − y, as a matrix: its squared norm over N is multiplied by τ, uniform on 1 ± w.
        second = D if reading == "proof" else np.linalg.matrix_power(D, 3)
        error = (theta[0] - 1) * D + theta[1] * second
        varied = ((error**2).sum() / len(D)) ** 2 * spread**2 / 3
        return (2 * 1.5**4 * theta[1] ** 4 + varied) / beta + mean

    found = minimize(objective, [0.5, 0.5], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15})
    assert eerm_optimum(expected, beta) == pytest.approx(tuple(found.x), abs=1e-6)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_eerm_cubic_of_the_proof_reading(sigma):
    """4 V θ₂³ + 2 β (2 + σ²) θ₂ − 2 β = 0 with V = 2σ⁴, and θ₁ + θ₂ = 1."""
    beta = 0.3
    cubic = root_scalar(lambda t: 8 * sigma**4 * t**3 + 2 * beta * ((2 + sigma**2) * t - 1), bracket=[0, 1]).root
    theta1, theta2 = eerm_optimum(expected_risk(graph(), "proof", sigma), beta)
    assert theta2 == pytest.approx(cubic)
    assert theta1 + theta2 == pytest.approx(1)


@pytest.mark.parametrize("reading", READINGS)
def test_eerm_goes_from_erm_to_the_ideal_as_beta_falls(reading):
    expected = expected_risk(graph(), reading, 1.0)
    assert eerm_optimum(expected, 1e9) == pytest.approx(erm_optimum(expected), abs=1e-6)
    assert eerm_optimum(expected, 1e-15) == pytest.approx((1.0, 0.0), abs=1e-4)
    spurious = [eerm_optimum(expected, beta)[1] for beta in (1e-6, 1e-3, 1.0, 1e3)]
    assert spurious == sorted(spurious)
    assert spurious[0] > 0


def test_eerm_approaches_the_ideal_with_the_cube_root_of_beta():
    """θ₂ ≈ (β / 2V)^(1/3), V = 2σ⁴, for small β."""
    theta2 = eerm_optimum(expected_risk(graph(), "proof", 1.0), 1e-9)[1]
    assert theta2 == pytest.approx((1e-9 / 4) ** (1 / 3), rel=0.01)


# Learning


@pytest.mark.parametrize("reading", READINGS)
def test_learned_erm_solves_the_sampled_normal_equations(reading):
    risks = sample(reading)
    gram = risks.gram.mean(dim=0).numpy()
    assert learn(torch.mean, risks) == pytest.approx(tuple(np.linalg.solve(gram[:2, :2], gram[:2, 2])), abs=1e-7)


@pytest.mark.parametrize("reading", READINGS)
def test_learned_eerm_minimises_the_sampled_objective(reading):
    risks = sample(reading)

    def objective(theta):
        values = np.array([[*theta, -1.0]]) @ risks.gram.numpy() @ np.array([*theta, -1.0])
        return values.var(ddof=1) + 0.2 * values.mean()

    found = minimize(objective, [0.0, 0.1], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15})
    assert learn(lambda values: eerm_objective(values, 0.2), risks) == pytest.approx(tuple(found.x), abs=1e-6)


def test_proposition_1_to_sampling_error(result):
    rows = [row for row in result.rows() if row["reading"] == "proof" and row["objective"] == "erm"]
    assert [row["sigma"] for row in rows] == list(SIGMAS)
    for row in rows:
        for name in ("theta1", "theta2"):
            assert abs(row[name] - row[f"paper_{name}"]) < 4 * row[f"se_{name}"] < 0.1


def test_everything_learned_meets_its_closed_form_to_sampling_error(result):
    for row in result.rows():
        if row["objective"] != "variance":
            for name in ("theta1", "theta2"):
                assert abs(row[name] - row[f"closed_{name}"]) < 4 * row[f"se_{name}"]


# Proposition 2


@pytest.mark.parametrize("reading", READINGS)
def test_the_variance_vanishes_for_every_theta_1(reading):
    """[1, 0] is a minimiser of the variance and not the only one."""
    risks = sample(reading)
    for theta1 in (-3.0, 0.0, 0.5, 1.0, 7.0):
        assert float(variance(risks(torch.tensor([theta1, 0.0]).double()))) < 1e-24
        assert float(variance(risks(torch.tensor([theta1, 0.3]).double()))) > 1e-4


def test_learning_by_the_variance_ends_where_it_starts_on_the_line(result):
    for case in result.cases:
        learned = [learned for learned in case.learned if learned.objective == "variance"]
        for one in learned:
            assert abs(one.theta[1]) < 1e-4
            assert one.variance < 1e-12
            assert one.theta[0] == pytest.approx(one.start[0], abs=0.05)
            assert one.closed == (None, 0.0)
            assert one.paper == (1.0, 0.0)
        risks = [one.risk for one in learned]
        assert max(risks) > min(risks) + 0.3  # equal variances, unequal risks


def test_the_variance_is_that_of_epsilon_squared():
    """Var_e[R(e)] = θ₂⁴ Var(ε²) = 2σ⁴ θ₂⁴ up to sampling."""
    risks = sample_risks(graph(20_000), "text", 1.0, 20_000, np.random.default_rng(0))
    found = float(variance(risks(torch.tensor([1.0, 0.5]).double())))
    assert found == pytest.approx(2 * 0.5**4, rel=0.1)


# Proposition 2 with E[a¹²] that varies over environments


@pytest.mark.parametrize("reading", READINGS)
def test_the_expected_variance_against_monte_carlo(reading):
    """Large graphs, so that what the paper takes expectations over is near its expectation."""
    P, rng, theta = graph(3000), np.random.default_rng(0), (0.4, 0.3)
    expected = expected_risk(P, reading, 0.5, 1.0)
    found = [
        float(variance(sample_risks(P, reading, 0.5, 2000, rng, 1.0)(torch.tensor(theta).double()))) for _ in range(40)
    ]
    error = np.std(found) / 40**0.5
    assert abs(np.mean(found) - expected_variance(expected, theta)) < 4 * error < 0.01
    without = expected_variance(expected_risk(P, reading, 0.5), theta)
    assert abs(np.mean(found) - without) > 10 * error  # it is the spread that is seen


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_proposition_2_holds_if_the_size_of_x1_varies(reading, sigma):
    """The closed form is zero at [1, 0] and nowhere else; without a spread the whole line is."""
    varied, alike = (expected_risk(graph(), reading, sigma, spread) for spread in (1.0, 0.0))
    assert variance_optimum(varied) == (1.0, 0.0)
    assert variance_optimum(alike) == (None, 0.0)
    assert expected_variance(varied, (1.0, 0.0)) < 1e-25
    for theta1, theta2 in ((0.9, 0.0), (1.1, 0.0), (0.0, 0.0), (1.0, 0.1), (0.9, 0.1), (-3.0, 0.0)):
        assert expected_variance(varied, (theta1, theta2)) > 1e-7
        assert (expected_variance(alike, (theta1, theta2)) < 1e-25) == (theta2 == 0)
    # From anywhere there is a way down: it has no other minimum.
    rng = np.random.default_rng(0)
    for start in rng.uniform(-2, 2, size=(5, 2)):
        found = minimize(lambda theta: expected_variance(varied, tuple(theta)) ** 0.25, start, method="Nelder-Mead")
        assert found.x == pytest.approx([1.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("reading", READINGS)
def test_sampled_risks_are_equal_at_the_ideal_alone(reading):
    risks = sample_risks(graph(), reading, 1.0, 50, np.random.default_rng(0), 1.0)
    assert float(variance(risks(torch.tensor([1.0, 0.0]).double()))) < 1e-24
    for theta1 in (-3.0, 0.0, 0.5, 7.0):
        assert float(variance(risks(torch.tensor([theta1, 0.0]).double()))) > 1e-4


def test_learning_by_the_variance_ends_at_the_ideal_from_every_start():
    result = run_toy(sigmas=(1.0,), betas=(0.01,), seed=2, repeats=5, spreads=(1.0,))
    for case in result.cases:
        learned = [learned for learned in case.learned if learned.objective == "variance"]
        assert [one.start for one in learned] == list(VARIANCE_STARTS)
        for one in learned:
            assert one.closed == one.paper == (1.0, 0.0)
            assert one.theta == pytest.approx((1.0, 0.0), abs=0.08)  # a finite graph adds a term of order 1 / √N
        for row in result.rows():
            if row["objective"] != "variance":
                for name in ("theta1", "theta2"):
                    assert abs(row[name] - row[f"closed_{name}"]) < 5 * row[f"se_{name}"]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_spread_leaves_eerm_as_it_was_in_the_proofs_reading(sigma):
    """Mean and variance both ask for θ₁ + θ₂ = 1 there."""
    varied, alike = (expected_risk(graph(), "proof", sigma, spread) for spread in (1.0, 0.0))
    assert eerm_optimum(varied, 0.1) == pytest.approx(eerm_optimum(alike, 0.1), abs=1e-6)


# The result, the figure and mistakes


def test_rows_are_json_and_the_run_repeats():
    rows = run_toy(nodes=50, environments=10, sigmas=(1.0,), repeats=2, seed=5).rows()
    assert [row["spread"] for row in rows] == [0.0] * 12 + [1.0] * 12
    assert rows == run_toy(nodes=50, environments=10, sigmas=(1.0,), repeats=2, seed=5).rows()
    assert json.loads(json.dumps(rows)) == rows
    assert [row["objective"] for row in rows] == ["erm", *["variance"] * 3, *["eerm"] * 2] * 4
    assert rows[0].keys() == rows[-1].keys()


def test_draw_toy_writes_a_figure(result, tmp_path):
    path = draw_toy(result, tmp_path / "figures" / "toy.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert draw_toy(result, tmp_path / "toy.svg", reading="text", sigma=2.0).exists()


def test_draw_toy_needs_the_process_of_the_paper(tmp_path):
    result = run_toy(nodes=50, environments=10, sigmas=(1.0,), repeats=2, spreads=(1.0,))
    with pytest.raises(GraphshiftError, match="run_toy needs 0 among its spreads"):
        draw_toy(result, tmp_path / "toy.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "toy.txt"}, "path is 'toy.txt'; expected a name that ends in .png"),
        ({"path": "toy.png", "sigma": 3.0}, "sigma is 3.0; expected one of the result's"),
        ({"path": "toy.png", "reading": "both"}, "reading is 'both'; expected one of proof, text"),
    ],
)
def test_draw_toy_names_the_mistake(result, arguments, message):
    with pytest.raises(GraphshiftError, match=message):
        draw_toy(result, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 9}, "nodes is 9; expected a whole number, at least 10"),
        ({"nodes": 20.5}, "nodes is 20.5; expected a whole number"),
        ({"environments": 1}, "environments is 1; .* at least 2"),
        ({"repeats": 1}, "repeats is 1; .* at least 2"),
        ({"seed": -1}, "seed is -1; .* at least 0"),
        ({"sigmas": (1.0, 0.0)}, "sigmas holds 0.0; expected one or more numbers from 0.1 to 10"),
        ({"sigmas": ()}, "sigmas is empty"),
        ({"betas": (float("nan"),)}, "betas holds nan; expected one or more numbers from 0.0001 to 10000"),
        ({"spreads": (1.5,)}, "spreads holds 1.5; expected one or more numbers from 0 to 1"),
        ({"degree": -1.0}, "degree is -1.0; expected at least 0"),
        ({"nodes": 10, "degree": 10.0}, "degree is 10.0; expected at least 0 and below nodes = 10"),
    ],
)
def test_run_toy_names_the_mistake(arguments, message):
    with pytest.raises(GraphshiftError, match=message):
        run_toy(**arguments)


def test_matplotlib_waits_until_a_figure_is_drawn():
    code = "import sys, graphshift.lab.toy.figure; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

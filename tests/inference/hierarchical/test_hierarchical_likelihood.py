"""The compiled likelihood against adaptive quadrature, finite differences and its twin."""

import math

import numpy as np
import pytest
from inference.hierarchical.worlds import shape_of, simulate
from scipy import integrate, special

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.design import lay_out
from drsim.inference.hierarchical.likelihood import PackedBlock, reference_log_likelihood
from drsim.inference.hierarchical.priors import Priors
from drsim.inference.hierarchical.quadrature import normal_rule

KAPPA = 256 / 75 / np.pi**2


def packed(n_arms: int, n_tasks: int, runs: int, seed: int) -> PackedBlock:
    data = shape_of(1, n_arms, n_tasks, runs)
    design = lay_out(data, Priors())
    rng = np.random.default_rng(seed)
    return PackedBlock.of(simulate(data, design, design.mean, rng).blocks[0])


def points(n: int, n_arms: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    middle = np.array([0.2, 0.6, *([0.3, -0.8] * n_arms)])
    return middle + 0.5 * rng.standard_normal((n, len(middle)))


def by_scipy(block: PackedBlock, row: FloatArray) -> float:
    sigma = np.exp(row[1])
    scale = np.sqrt(1 + KAPPA * sigma**2)

    def normal(x: float) -> float:
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    def binomial(k: int, n: int, x: float) -> float:
        return math.exp(-k * math.log1p(math.exp(-x)) - (n - k) * math.log1p(math.exp(x)))

    def arm(m: int, pair: tuple[int, int], eta: float) -> float:
        tau = np.exp(row[3 + 2 * m])
        return float(
            integrate.quad(
                lambda w: normal(w) * binomial(pair[0], pair[1], eta + scale * (row[2 + 2 * m] + tau * w)), -9, 9
            )[0]
        )

    def task(pattern: int, u: float) -> float:
        at = block.patterns[pattern]
        eta = scale * row[0] + sigma * u
        k, n = (int(count) for count in block.base_pairs[at[0]])
        value = normal(u) * binomial(k, n, eta)
        for m in range(block.n_arms):
            value *= arm(m, tuple(block.arm_pairs[m, at[1 + m]]), eta)
        return float(value)

    logs = [
        np.log(integrate.quad(lambda u, i=i: task(i, u), -9, 9, points=[0], limit=100)[0])
        for i in range(len(block.patterns))
    ]
    return float(block.weight @ logs)


@pytest.mark.parametrize(("runs", "log_sigma"), [(1, 0.5), (1, 2.2), (3, 1.2), (10, 1.0)])
def test_quadrature_equals_scipy(runs: int, log_sigma: float) -> None:
    block = packed(1, 6, runs, seed=runs)
    row = np.array([0.3, log_sigma, 0.4, -0.6])
    exact = by_scipy(block, row)
    assert block.value(row[None])[0] == pytest.approx(exact, abs=3e-5 * block.weight.sum())


def test_a_rule_with_too_few_nodes_fails() -> None:
    """What a fixed rule of 41 nodes says of tasks spread by σ = 30: wrong by more than the bound above."""
    nodes, log_weights = normal_rule(41, 5.0)
    fine, fine_weights = normal_rule(4001, 9.0)

    def rate(u: FloatArray, logs: FloatArray) -> float:
        return float(np.exp(logs) @ special.expit(3.0 + 30 * u))

    assert abs(rate(nodes, log_weights) - rate(fine, fine_weights)) > 1e-3


@pytest.mark.parametrize(("n_arms", "runs"), [(0, 2), (1, 1), (2, 3), (3, 1), (1, 9)])
def test_derivatives_equal_differences(n_arms: int, runs: int) -> None:
    block, at, h = packed(n_arms, 25, runs, seed=3), points(4, n_arms, seed=4), 1e-5
    value, grad, hess = block.derivatives(at)
    steps = h * np.eye(at.shape[1])
    grad_fd = np.stack([(block.value(at + step) - block.value(at - step)) / (2 * h) for step in steps], axis=1)
    hess_fd = np.stack(
        [(block.derivatives(at + step)[1] - block.derivatives(at - step)[1]) / (2 * h) for step in steps], axis=1
    )
    np.testing.assert_array_equal(value, block.value(at))
    np.testing.assert_allclose(grad, grad_fd, atol=1e-6 * (1 + np.abs(grad).max()))
    np.testing.assert_allclose(hess, hess_fd, atol=1e-6 * (1 + np.abs(hess).max()))


@pytest.mark.parametrize(("n_arms", "runs"), [(0, 4), (1, 1), (3, 2), (2, 7)])
def test_kernel_equals_twin(n_arms: int, runs: int) -> None:
    block, at = packed(n_arms, 30, runs, seed=5), points(8, n_arms, seed=6)
    at[0, 1] = 3.2  # more nodes
    np.testing.assert_allclose(block.value(at), reference_log_likelihood(block, at), rtol=1e-12)


def test_cost_does_not_grow_with_tasks() -> None:
    few, many = packed(1, 30, 1, seed=1), packed(1, 3000, 1, seed=1)
    assert len(few.patterns) == len(many.patterns) == 4
    assert many.weight.sum() == 3000

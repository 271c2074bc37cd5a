from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln, ndtr, ndtri, roots_jacobi

from drsim.arrays import BoolArray
from drsim.errors import ParameterError
from drsim.theory.selection import best_of_n, best_of_n_beta, selected_best_of_n, selected_best_of_n_beta

ROUNDING = 2.0**-53
STATED = 1e-9
"""Error that the docstrings allow."""

rates = st.floats(0.0, 1.0)
areas = st.floats(0.5, 1.0)
few = st.integers(1, 64)
shapes = st.floats(0.05, 20.0)


def by_quad(s: float, n: int, area: float) -> tuple[float, float]:
    """The integral as THEORY prints it, in the score x itself, with its error."""
    shift = np.sqrt(2.0) * ndtri(area)

    def integrand(x: float) -> float:
        rank = s * ndtr(x - shift) + (1.0 - s) * ndtr(x)
        return float(n * s * np.exp(-0.5 * (x - shift) ** 2) / np.sqrt(2.0 * np.pi) * rank ** (n - 1))

    # beyond 9 standard deviations lies at most 64 · 1e-19
    value, error = quad(integrand, shift - 9.0, shift + 9.0, epsabs=1e-12, limit=400, points=[shift, shift + 2.0])
    return float(value), float(error)


def z_score(hits: int, size: int, share: float) -> float:
    return float((hits - size * share) / np.sqrt(size * share * (1.0 - share)))


def test_references() -> None:
    assert round(float(selected_best_of_n(0.3, 4, 0.8)), 9) == 0.555570799
    assert round(float(selected_best_of_n(0.6, 8, 0.7)), 9) == 0.819223269


@settings(deadline=None)
@given(s=rates, n=few, area=st.floats(0.5, 1.0, exclude_max=True))
def test_imperfect_selector_against_quad(s: float, n: int, area: float) -> None:
    value, error = by_quad(s, n, area)
    assert abs(selected_best_of_n(s, n, area) - value) <= STATED + error


@pytest.mark.parametrize("n", [2, 16, 64])
@pytest.mark.parametrize("area", [0.5, 0.65, 0.9, 1.0 - 1e-9])
def test_imperfect_selector_on_a_grid_against_quad(n: int, area: float) -> None:
    grid = [0.0, 1e-6, 0.01, 0.2, 0.5, 0.9, 0.999, 1.0]
    for s, value in zip(grid, selected_best_of_n(grid, n, area), strict=True):
        expected, error = by_quad(s, n, area)
        assert abs(value - expected) <= STATED + error


@settings(deadline=None, max_examples=50)
@given(a=shapes, b=shapes, n=few, area=areas)
def test_beta_average_against_gauss_jacobi(a: float, b: float, n: int, area: float) -> None:
    # scipy's recurrence for these nodes divides 0 by 0 where the exponents sum to −1, to within rounding
    assume(abs(a + b - 1.0) > 1e-6 or a + b == 1.0)
    # given s the success is a polynomial of degree N in s, which N/2 + 1 nodes average exactly
    x, weight = roots_jacobi(n // 2 + 1, b - 1.0, a - 1.0)
    s = np.clip(0.5 * (1.0 + x), 0.0, 1.0)
    expected = np.sum(weight / np.sum(weight) * selected_best_of_n(s, n, area))
    assert abs(selected_best_of_n_beta(a, b, n, area) - expected) <= 2 * STATED


def test_simulated_selector() -> None:
    a, b, n, area, tasks = 0.6, 0.9, 5, 0.75, 200_000
    rng = np.random.default_rng(20260106)
    s = rng.beta(a, b, tasks)
    succeeds: BoolArray = rng.random((tasks, n)) < s[:, None]
    scores = rng.normal(0.0, 1.0, (tasks, n)) + np.sqrt(2.0) * ndtri(area) * succeeds
    hits = int(np.sum(np.take_along_axis(succeeds, np.argmax(scores, axis=1)[:, None], axis=1)))
    assert abs(z_score(hits, tasks, float(selected_best_of_n_beta(a, b, n, area)))) <= 5
    mean = a / (a + b)
    assert abs(z_score(hits, tasks, float(selected_best_of_n(mean, n, area)))) > 5  # all tasks taken to be alike
    assert abs(z_score(hits, tasks, area * float(best_of_n_beta(a, b, n)))) > 5  # the AUROC as a discount
    any_success = int(np.sum(succeeds.any(axis=1)))
    assert abs(z_score(any_success, tasks, float(best_of_n_beta(a, b, n)))) <= 5
    assert abs(z_score(any_success, tasks, 1.0 - (1.0 - mean) ** n)) > 5  # 1 − p^N
    # tasks one by one, in the mean: the variance of a hit given s is at most ¼
    given_s = selected_best_of_n(s, n, area)
    assert abs(hits - given_s.sum()) <= 5 * np.sqrt(np.sum(given_s * (1.0 - given_s)))


@settings(deadline=None)
@given(s=rates, n=few, area=areas, other=areas, other_s=rates)
def test_monotone(s: float, n: int, area: float, other: float, other_s: float) -> None:
    low, high = sorted((area, other))
    assert selected_best_of_n(s, n, low) <= selected_best_of_n(s, n, high) + 2 * STATED
    assert selected_best_of_n(s, n, area) <= selected_best_of_n(s, n + 1, area) + 2 * STATED
    worse, better = sorted((s, other_s))
    assert selected_best_of_n(worse, n, area) <= selected_best_of_n(better, n, area) + 2 * STATED


@settings(deadline=None)
@given(s=rates, n=st.integers(1, 511), area=areas)
def test_limits_are_exact(s: float, n: int, area: float) -> None:
    assert selected_best_of_n(s, 1, area) == s
    assert selected_best_of_n(s, n, 0.5) == s
    assert selected_best_of_n(s, n + 1, 1.0) == best_of_n(s, n + 1)
    assert selected_best_of_n(0.0, n, area) == 0.0
    assert selected_best_of_n(1.0, n, area) == 1.0
    assert s <= selected_best_of_n(s, n, area) <= max(s, float(best_of_n(s, n)))


@settings(deadline=None)
@given(a=shapes, b=shapes, n=st.integers(1, 511), area=areas)
def test_limits_over_beta_tasks_are_exact(a: float, b: float, n: int, area: float) -> None:
    assert selected_best_of_n_beta(a, b, 1, area) == a / (a + b)
    assert selected_best_of_n_beta(a, b, n, 0.5) == a / (a + b)
    assert selected_best_of_n_beta(a, b, n + 1, 1.0) == best_of_n_beta(a, b, n + 1)


def test_tasks_that_are_nearly_alike_or_nearly_settled() -> None:
    s, n, area, size = 0.3, 16, 0.8, 1e7
    alike = selected_best_of_n_beta(s * size, (1.0 - s) * size, n, area)
    # E f(s) − f(E s) = f''/2 · s(1−s)/size, and a polynomial in [0, 1] of degree N has |f''| ≤ 4 N²(N²−1)/3 (Markov)
    assert abs(alike - selected_best_of_n(s, n, area)) <= 2 * n**4 / 3 * s * (1.0 - s) / size + 2 * STATED
    tiny = 1e-9
    settled = selected_best_of_n_beta(s * tiny, (1.0 - s) * tiny, n, area)
    # a share of at most (a + b)·Σ1/j < 4 tiny of the tasks shows both outcomes in 16 attempts
    assert abs(settled - s) <= 4 * tiny + 2 * STATED


@settings(deadline=None)
@given(s=rates, n=st.integers(1, 10**6))
def test_perfect_selector(s: float, n: int) -> None:
    value = best_of_n(s, n)
    assert s * (1.0 - 4 * ROUNDING) <= value <= min(1.0, n * s) * (1.0 + 4 * ROUNDING)
    assert value <= best_of_n(s, n + 1) * (1.0 + 4 * ROUNDING)


def test_perfect_selector_keeps_rare_successes() -> None:
    assert abs(best_of_n(1e-20, 3) - 3e-20) <= 4 * ROUNDING * 3e-20  # 1 − (1 − s)^N in floats is 0
    assert best_of_n(0.5, 2) == 0.75
    assert best_of_n([0.0, 1.0], [[1], [9]]).tolist() == [[0.0, 1.0], [0.0, 1.0]]


@settings(deadline=None)
@given(a=st.floats(1e-6, 1e12), b=st.floats(1e-6, 1e12), n=few)
def test_perfect_selector_over_beta_tasks_against_fractions(a: float, b: float, n: int) -> None:
    none = Fraction(1)
    for j in range(n):
        none *= (Fraction(b) + j) / (Fraction(a) + Fraction(b) + j)
    # each of N logarithms carries three roundings and the running sum one: relative to the sum of positive terms N + 3;
    # expm1 shrinks relative errors of its argument
    assert abs(best_of_n_beta(a, b, n) - float(1 - none)) <= (n + 8) * ROUNDING * float(1 - none)


def test_perfect_selector_over_beta_tasks_is_a_quotient_of_betas() -> None:
    n = np.arange(1, 200)
    by_betas = 1.0 - np.exp(betaln(0.7, 1.3 + n) - betaln(0.7, 1.3))
    # two log-betas of three log-gammas each, of at most ln Γ(201) = 863, each rounded twice
    np.testing.assert_allclose(best_of_n_beta(0.7, 1.3, n), by_betas, rtol=0.0, atol=2 * 3 * 2 * 863 * ROUNDING)
    np.testing.assert_allclose(best_of_n_beta(1.0, 1.0, n), n / (n + 1.0), rtol=208 * ROUNDING)


def test_shapes_broadcast_and_chunks_agree() -> None:
    s, n, area = np.linspace(0.0, 1.0, 41)[:, None, None], np.arange(1, 17)[:, None], np.linspace(0.5, 1.0, 6)
    table = selected_best_of_n(s, n, area)
    assert table.shape == (41, 16, 6)
    assert table[13, 7, 2] == selected_best_of_n(s[13, 0, 0], 8, area[2])
    beta_table = selected_best_of_n_beta(s + 0.1, 0.4, n, area)
    assert beta_table.shape == (41, 16, 6)
    assert beta_table[13, 7, 2] == selected_best_of_n_beta(s[13, 0, 0] + 0.1, 0.4, 8, area[2])
    assert isinstance(selected_best_of_n(0.3, 4, 0.8), float)
    assert isinstance(selected_best_of_n_beta(0.3, 0.4, 4, 0.8), float)
    assert isinstance(best_of_n_beta(0.3, 0.4, 4), float)
    assert selected_best_of_n([], 4, 0.8).shape == (0,)
    assert selected_best_of_n_beta([], 1.0, 4, 0.8).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_of_n(30, 4), "success must lie in [0, 1], got 30; give a probability, not per cent"),
        (
            lambda: best_of_n(0.3, 0),
            "attempts must be a whole number from 1 on, got 0; give a number of attempts",
        ),
        (
            lambda: best_of_n_beta(1.0, 1.0, 10_001),
            "attempts must be a whole number from 1 to 10000, got 10001; give a number of attempts",
        ),
        (
            lambda: selected_best_of_n(0.3, 513, 0.8),
            "attempts must be a whole number from 1 to 512, got 513; give a number of attempts",
        ),
        (
            lambda: selected_best_of_n(0.3, 4, 0.2),
            "auroc must lie in [0.5, 1], got 0.2; a critic below one half is used with its scores reversed",
        ),
        (
            lambda: selected_best_of_n_beta(0.0, 1.0, 4, 0.8),
            "a must be positive and finite, got 0; give a shape of the beta distribution of success",
        ),
    ],
)
def test_messages(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == message

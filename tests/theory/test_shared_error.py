import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr, ndtri, roots_jacobi

from drsim.arrays import BoolArray
from drsim.errors import ParameterError
from drsim.theory.selection import best_of_n, selected_best_of_n, selected_best_of_n_beta
from drsim.theory.shared_error import shared_error_best_of_n, shared_error_best_of_n_beta, shared_error_limit
from drsim.theory.topscore import top_given_rate

ROUNDING = 2.0**-53
STATED = 1e-9
rates = st.floats(0.0, 1.0)
areas = st.floats(0.5, 1.0)
few = st.integers(1, 64)


def simulated_hits(s: float, n: int, area: float, c: float, tasks: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    succeeds: BoolArray = rng.random((tasks, n)) < s
    of_success, of_failure = rng.normal(size=(2, tasks, 1))
    own = rng.normal(size=(tasks, n))
    error = np.sqrt(c) * np.where(succeeds, of_success, of_failure) + np.sqrt(1.0 - c) * own
    scores = np.sqrt(2.0) * ndtri(area) * succeeds + error
    if c == 1.0:  # attempts that end alike tie; which of them is taken makes no difference
        assert np.unique(scores[0]).size <= 2
    return int(np.sum(np.take_along_axis(succeeds, np.argmax(scores, axis=1)[:, None], axis=1)))


@pytest.mark.parametrize("s", [0.08, 0.6])
@pytest.mark.parametrize("c", [0.2, 0.7, 0.97, 1.0])
def test_simulated_selectors(s: float, c: float) -> None:
    n, area, tasks = 6, 0.75, 100_000
    hits = simulated_hits(s, n, area, c, tasks, seed=20260107)

    def z(share: float) -> float:
        return float((hits - tasks * share) / np.sqrt(tasks * share * (1.0 - share)))

    assert abs(z(float(shared_error_best_of_n(s, n, area, c)))) <= 5
    assert abs(z(float(selected_best_of_n(s, n, area)))) > 5  # errors taken to be each attempt's own


@pytest.mark.parametrize("c", [1e-9, 0.01, 0.3, 0.72, 0.99, 1.0 - 1e-9])
@pytest.mark.parametrize(("s", "n", "area"), [(0.3, 4, 0.8), (0.9, 64, 0.55), (0.02, 64, 0.99), (0.5, 16, 0.5)])
def test_average_over_the_shared_error_against_quad(s: float, n: int, area: float, c: float) -> None:
    shift = np.sqrt(2.0) * ndtri(area)

    def integrand(g: float) -> float:
        moved = np.array([(shift + np.sqrt(2.0 * c) * g) / np.sqrt(1.0 - c)])
        top = top_given_rate(np.array([s]), np.array([float(n)]), moved)[0]
        return float(top * np.exp(-0.5 * g * g) / np.sqrt(2.0 * np.pi))

    # the step of P(m') lies where m' passes through ±12
    steps = [float(np.clip((m * np.sqrt(1.0 - c) - shift) / np.sqrt(2.0 * c), -8.5, 8.5)) for m in (-12, -3, 0, 3, 12)]
    value, error = quad(integrand, -8.5, 8.5, epsabs=1e-11, limit=400, points=sorted(set(steps)))
    # beyond 8.5 standard deviations lies less than 1e-16
    assert abs(shared_error_best_of_n(s, n, area, c) - value) <= 2 * STATED + error


@settings(deadline=None)
@given(s=rates, n=few, area=areas)
def test_no_shared_error_is_the_independent_selector(s: float, n: int, area: float) -> None:
    assert abs(shared_error_best_of_n(s, n, area, 0.0) - selected_best_of_n(s, n, area)) <= STATED


@settings(deadline=None, max_examples=40)
@given(s=rates, area=st.floats(0.5, 0.999999), c=st.floats(0.0, 1.0), n=few)
def test_sharing_is_continuous_and_two_attempts_cannot_show_it(s: float, area: float, c: float, n: int) -> None:
    # one success and one failure: the success wins with probability AUROC, whatever they share
    assert abs(shared_error_best_of_n(s, 2, area, c) - (s * s + 2.0 * s * (1.0 - s) * area)) <= 2 * STATED
    assert abs(shared_error_best_of_n(s, 1, area, c) - s) <= 4 * ROUNDING
    assert s**n - ROUNDING <= shared_error_best_of_n(s, n, area, c) <= best_of_n(s, n) + 4 * ROUNDING


@pytest.mark.parametrize("tiny", [1e-300, 1e-30, 1e-16])
def test_hardly_any_sharing(tiny: float) -> None:
    # m' then has a standard deviation of √(2c) ≤ 1.5e-8, of which P takes the square
    assert abs(shared_error_best_of_n(0.3, 8, 0.8, tiny) - selected_best_of_n(0.3, 8, 0.8)) <= 2 * STATED


def test_all_error_shared() -> None:
    s, n, area = 0.3, 8, 0.8
    closed = s**n + (1.0 - s**n - (1.0 - s) ** n) * area
    assert abs(shared_error_best_of_n(s, n, area, 1.0) - closed) <= 16 * ROUNDING
    # an own error of standard deviation 1e-7 decides only where the shared ones lie within 14 of it: density < 0.3
    assert abs(shared_error_best_of_n(s, n, area, 1.0 - 1e-14) - closed) <= 2 * 14 * 1e-7 * 0.3


@settings(deadline=None)
@given(s=rates, n=few, c=rates)
def test_perfect_selector_has_no_error_to_share(s: float, n: int, c: float) -> None:
    assert abs(shared_error_best_of_n(s, n, 1.0, c) - best_of_n(s, n)) <= 8 * ROUNDING


@settings(deadline=None, max_examples=40)
@given(s=rates, n=few, c=rates, area=areas, other=areas)
def test_better_scores_help(s: float, n: int, c: float, area: float, other: float) -> None:
    low, high = sorted((area, other))
    assert shared_error_best_of_n(s, n, low, c) <= shared_error_best_of_n(s, n, high, c) + 2 * STATED


def test_sharing_makes_more_attempts_help_less() -> None:
    n = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    own = shared_error_best_of_n(0.5, n, 0.8, 0.0)
    half = shared_error_best_of_n(0.5, n, 0.8, 0.5)
    alike = shared_error_best_of_n(0.5, n, 0.8, 1.0)
    assert np.all(own[2:] > half[2:] + STATED)
    assert np.all(half[2:] > alike[2:] + STATED)
    # at s = ½ the own errors of the best success and the best failure have one law: they only blur the limit
    limit = shared_error_limit(0.8, 0.5)
    assert np.all(np.diff(limit - half) < 0.0)
    assert np.all(half < limit)
    assert abs(alike[-1] - 0.8) <= 4 * ROUNDING


def test_more_attempts_hurt_a_task_above_the_limit() -> None:
    assert shared_error_limit(0.6, 1.0) < 0.9
    assert shared_error_best_of_n(0.9, 8, 0.6, 1.0) < 0.9 - STATED
    assert selected_best_of_n(0.9, 8, 0.6) > 0.9


def test_sharing_helps_where_success_is_rare() -> None:
    # one success among fifteen failures: fifteen chances to be fooled, or one
    assert shared_error_best_of_n(0.02, 16, 0.8, 1.0) > selected_best_of_n(0.02, 16, 0.8) + STATED


def test_limit() -> None:
    np.testing.assert_array_equal(
        shared_error_limit([0.5, 0.5, 0.8, 1.0], [0.0, 0.3, 0.0, 1.0]), [np.nan, 0.5, 1.0, 1.0]
    )
    assert abs(shared_error_limit(0.8, 1.0) - 0.8) <= 8 * ROUNDING
    assert abs(shared_error_limit(0.8, 0.25) - ndtr(2.0 * ndtri(0.8))) <= 4 * ROUNDING


@settings(deadline=None, max_examples=20)
@given(a=st.floats(0.2, 5.0), b=st.floats(0.2, 5.0), n=st.integers(1, 16), area=areas)
def test_beta_tasks_without_sharing(a: float, b: float, n: int, area: float) -> None:
    expected = selected_best_of_n_beta(a, b, n, area)
    assert abs(shared_error_best_of_n_beta(a, b, n, area, 0.0) - expected) <= STATED


@pytest.mark.parametrize("c", [0.3, 0.95, 1.0])
def test_uniform_tasks(c: float) -> None:
    # s uniform: the trapezoid rule over a polynomial of degree N ≤ 6 with K steps errs by at most max|f''|/(12 K²),
    # and |f''| ≤ 4 N²(N²−1)/3 for a polynomial in [0, 1] (Markov)
    n, steps = 6, 40_000 if c == 1.0 else 2_000
    s = np.linspace(0.0, 1.0, steps + 1)
    expected = np.trapezoid(shared_error_best_of_n(s, n, 0.7, c), s)
    allowed = 4 * n**2 * (n**2 - 1) / 3 / (12 * steps**2) + 2 * STATED
    assert abs(shared_error_best_of_n_beta(1.0, 1.0, n, 0.7, c) - expected) <= allowed


@pytest.mark.parametrize(("a", "b"), [(0.4, 2.5), (2.5, 0.4)])
@pytest.mark.parametrize("c", [0.3, 0.95])
def test_beta_tasks_against_gauss_jacobi(a: float, b: float, c: float) -> None:
    # given s the success is a polynomial of degree N in s, which N/2 + 1 nodes average exactly
    n, area = 12, 0.6
    x, weight = roots_jacobi(n // 2 + 1, b - 1.0, a - 1.0)
    expected = np.sum(weight / np.sum(weight) * shared_error_best_of_n(0.5 * (1.0 + x), n, area, c))
    assert abs(shared_error_best_of_n_beta(a, b, n, area, c) - expected) <= 2 * STATED


def test_shapes() -> None:
    table = shared_error_best_of_n([0.2, 0.4, 0.6], 4, [[0.7], [1.0]], 0.5)
    assert table.shape == (2, 3)
    assert table[0, 1] == shared_error_best_of_n(0.4, 4, 0.7, 0.5)
    s, area, c = np.array([0.2, 0.3, 0.4, 0.6]), np.array([0.7, 0.8, 1.0, 0.75]), np.array([0.0, 1.0, 0.5, 0.5])
    one_by_one = [shared_error_best_of_n(*element) for element in zip(s, [4, 5, 6, 7], area, c, strict=True)]
    np.testing.assert_array_equal(shared_error_best_of_n(s, [4, 5, 6, 7], area, c), one_by_one)
    assert isinstance(shared_error_best_of_n(0.4, 4, 0.7, 0.5), float)
    assert isinstance(shared_error_best_of_n_beta(0.4, 1.0, 4, 0.7, 0.5), float)
    assert isinstance(shared_error_limit(0.7, 0.5), float)


def test_messages() -> None:
    with pytest.raises(
        ParameterError, match=r"^shared must lie in \[0, 1\], got 50; give a probability, not per cent$"
    ):
        shared_error_best_of_n(0.2, 4, 0.8, 50)
    with pytest.raises(
        ParameterError, match=r"^attempts must be a whole number from 1 to 512, got 1000; give a number"
    ):
        shared_error_best_of_n_beta(0.2, 0.3, 1000, 0.8, 0.5)
    with pytest.raises(
        ParameterError, match=r"^auroc must lie in \[0\.5, 1\], got 0\.1; a critic below one half is used"
    ):
        shared_error_limit(0.1, 0.5)

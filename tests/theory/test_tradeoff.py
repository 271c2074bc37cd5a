import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import ParameterError
from drsim.theory.tradeoff import break_even, gain, intervened_success, marginal_bounds

ROUNDING = 2.0**-53
"""Largest relative error of one operation."""

rates = st.floats(0.0, 1.0)
counts = st.integers(0, 10**6)


def test_published_pilot_as_printed() -> None:
    fail_fail, success_fail, fail_success, success_success = 118, 9, 16, 7
    n = fail_fail + success_fail + fail_success + success_success
    p = (fail_fail + fail_success) / n
    r = fail_success / (fail_fail + fail_success)
    d = success_fail / (success_fail + success_success)
    assert (round(p, 3), round(r, 3), round(d, 4)) == (0.893, 0.119, 0.5625)
    assert round(float(break_even(r, d)), 3) == 0.825
    assert round(float(100 * gain(p, r, d)), 2) == 4.67


@settings(deadline=None)
@given(a=counts, b=counts, c=counts, d=counts)
def test_gain_is_the_difference_of_discordant_pairs(a: int, b: int, c: int, d: int) -> None:
    fails, successes, n = a + c, b + d, a + b + c + d
    if n == 0:
        return
    p = fails / n
    value = gain(p, c / fails if fails else 0.0, b / successes if successes else 0.0)
    # p, r and d are rounded once, 1 − p, both products and the difference once more, all at most 1
    assert abs(value - (c - b) / n) <= 8 * ROUNDING


@settings(deadline=None)
@given(p=rates, r=rates, d=rates)
def test_gain_is_the_difference_of_success_rates(p: float, r: float, d: float) -> None:
    # at most eight operations, each of a number not above 1
    assert abs(gain(p, r, d) - (intervened_success(p, r, d) - (1.0 - p))) <= 8 * ROUNDING


@settings(deadline=None)
@given(p=rates, r=rates, d=rates)
def test_intervening_pays_exactly_above_break_even(p: float, r: float, d: float) -> None:
    value, turn = gain(p, r, d), break_even(r, d)
    if r + d == 0.0:
        assert np.isnan(turn)
        assert value == 0.0
        return
    # Δ = (p − p*)(r + d): its sign is certain once it exceeds the rounding of four terms
    edge = (p - turn) * (r + d)
    if abs(edge) > 8 * ROUNDING:
        assert np.sign(value) == np.sign(edge)
    assert 0.0 <= turn <= 1.0


def test_a_break_even_with_the_rates_exchanged_fails() -> None:
    r, d, p = 0.1, 0.5, 0.5
    assert gain(p, r, d) < 0.0
    assert p < break_even(r, d)
    assert p > r / (r + d)


@settings(deadline=None)
@given(r=rates, d=rates, more=rates)
def test_break_even_rises_with_disruption_and_falls_with_recovery(r: float, d: float, more: float) -> None:
    low, high = sorted((d, more))
    if r + low > 0.0:
        assert break_even(r, low) <= break_even(r, high) + 2 * ROUNDING
        assert break_even(low, r) >= break_even(high, r) - 2 * ROUNDING
    if r + d > 0.0:
        assert abs(break_even(r, d) + break_even(d, r) - 1.0) <= 4 * ROUNDING


def test_limits_of_break_even() -> None:
    assert break_even(0.0, 0.3) == 1.0
    assert break_even(0.3, 0.0) == 0.0
    assert break_even(0.2, 0.2) == 0.5
    np.testing.assert_array_equal(break_even([0.0, 0.1], [[0.0], [0.1]]), [[np.nan, 0.0], [1.0, 0.5]])


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_marginal_bounds_are_sharp(n: int) -> None:
    tables: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for fail_success, success_fail, success_success in itertools.product(range(n + 1), repeat=3):
        if fail_success + success_fail + success_success <= n:
            base, arm = success_fail + success_success, fail_success + success_success
            tables.setdefault((base, arm), []).append((fail_success, success_fail))
    # one difference of rounded shares, one quotient of them by a share of at least 1/n
    allowed = 4 * n * ROUNDING
    for (base, arm), flips in tables.items():
        bounds = marginal_bounds(base / n, arm / n)
        c, b = np.array(flips).T
        assert abs(bounds.gain - (arm - base) / n) <= allowed
        assert abs(bounds.flips_lower - c.min() / n) <= allowed
        assert abs(bounds.flips_upper - c.max() / n) <= allowed
        if base < n:
            assert abs(bounds.recovery_lower - c.min() / (n - base)) <= allowed
            assert abs(bounds.recovery_upper - c.max() / (n - base)) <= allowed
        else:
            assert np.isnan(bounds.recovery_lower)
            assert np.isnan(bounds.recovery_upper)
        if base > 0:
            assert abs(bounds.disruption_lower - b.min() / base) <= allowed
            assert abs(bounds.disruption_upper - b.max() / base) <= allowed
        else:
            assert np.isnan(bounds.disruption_lower)
            assert np.isnan(bounds.disruption_upper)


def test_bounds_that_forget_the_other_arm_fail() -> None:
    bounds = marginal_bounds(0.2, 0.3)
    assert bounds.recovery_upper < 0.4  # not the 1 that s₁ = 0.3 leaves no room for
    assert bounds.recovery_lower > 0.1


@settings(deadline=None)
@given(base=rates, arm=rates)
def test_bounds_are_ordered_probabilities(base: float, arm: float) -> None:
    bounds = marginal_bounds(base, arm)
    assert 0.0 <= bounds.flips_lower <= bounds.flips_upper + ROUNDING
    assert bounds.flips_upper <= 1.0
    if base < 1.0:
        assert 0.0 <= bounds.recovery_lower <= bounds.recovery_upper * (1.0 + 4 * ROUNDING) + ROUNDING / (1.0 - base)
        assert bounds.recovery_upper <= 1.0
    if base > 0.0:
        assert bounds.disruption_lower >= 0.0
        assert bounds.disruption_upper <= 1.0


def test_draws_times_a_grid() -> None:
    draws, grid = np.linspace(0.1, 0.9, 5)[:, None], np.linspace(0.0, 1.0, 3)
    value = gain(draws, grid, 0.5)
    assert value.shape == (5, 3)
    assert value[2, 1] == gain(0.5, 0.5, 0.5)
    assert marginal_bounds(draws, grid).recovery_upper.shape == (5, 3)
    assert isinstance(gain(0.3, 0.2, 0.1), float)
    assert isinstance(break_even(0.2, 0.1), float)
    assert isinstance(marginal_bounds(0.2, 0.1).flips_upper, float)


def test_mistakes_are_named() -> None:
    with pytest.raises(ParameterError, match=r"^failure_rate must lie in \[0, 1\], got 89\.3; give a probability"):
        gain(89.3, 0.2, 0.1)
    with pytest.raises(ParameterError, match=r"^disruption must lie in \[0, 1\], got nan; give a probability"):
        intervened_success(0.3, 0.2, float("nan"))
    with pytest.raises(ParameterError, match=r"^arm_success must lie in \[0, 1\], got -1; give a probability"):
        marginal_bounds(0.2, [0.2, -1.0])
    with pytest.raises(
        ParameterError, match=r"^recovery, disruption must have shapes that broadcast, got \(2,\), \(3,\)"
    ):
        break_even([0.1, 0.2], [0.1, 0.2, 0.3])


def test_the_pilot_formulas_need_no_scipy() -> None:
    program = (
        "import sys, drsim.theory.tradeoff, drsim.theory.churn, drsim.theory.critic, drsim.theory.selection;"
        "sys.exit(any(name.startswith('scipy') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

from math import comb, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.theory.calibration import (
    apply_temperature,
    brier,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
)

ROUNDING = 2.0**-53
samples = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60)


def columns(sample: list[tuple[float, bool]]) -> tuple[FloatArray, FloatArray]:
    return np.array([score for score, _ in sample]), np.array([float(failed) for _, failed in sample])


def test_scores_of_known_value() -> None:
    assert brier([0.5, 0.5], [0, 1]) == 0.25
    assert brier([0.0, 1.0], [0, 1]) == 0.0
    assert brier([0.0, 1.0], [1, 0]) == 1.0
    assert negative_log_likelihood([0.5], [True]) == log(2.0)
    # −ln q, once each; the logit rounds a quotient and a logarithm, and log(1 + e^−z) doubles neither
    assert abs(negative_log_likelihood([0.2, 0.9], [1, 0]) + 0.5 * (log(0.2) + log(1.0 - 0.9))) <= 16 * ROUNDING


def test_sure_mistakes_cost_a_finite_amount() -> None:
    assert abs(negative_log_likelihood([0.0], [True]) - 53 * log(2.0)) <= 100 * ROUNDING
    assert abs(negative_log_likelihood([1.0], [False]) - 53 * log(2.0)) <= 100 * ROUNDING
    assert 0.0 <= negative_log_likelihood([1.0], [True]) <= 2 * ROUNDING


@settings(deadline=None)
@given(sample=samples)
def test_fitted_temperature_is_the_best_in_range(sample: list[tuple[float, bool]]) -> None:
    q, y = columns(sample)
    fit = fit_temperature(q, y)
    # mean of up to 60 terms; a rounded margin m moves ln(1 + e^(−m/T)) by at most max(value, 0.37) of that rounding,
    # and at a minimum the 4e-12 that the search leaves in ln T count squared
    for temperature in np.geomspace(0.01, 100.0, 201):
        scaled = np.logaddexp(0.0, np.where(y == 1.0, -1.0, 1.0) * clipped_logit(q) / temperature).mean()
        assert fit.nll_after <= scaled * (1.0 + 64 * ROUNDING) + 64 * ROUNDING
    assert fit.nll_before == negative_log_likelihood(q, y)
    assert fit.status in ("converged", "flat", "lower end", "upper end")
    assert 0.01 <= fit.temperature <= 100.0


def clipped_logit(q: FloatArray) -> FloatArray:
    inside = np.clip(q, ROUNDING, 1.0 - ROUNDING)
    return np.log(inside) - np.log1p(-inside)


def test_temperature_of_simulated_scores() -> None:
    sharpened, n = 2.5, 40_000
    rng = np.random.default_rng(20260104)
    z = rng.normal(0.3, 1.0, n)
    q = 1.0 / (1.0 + np.exp(-z))
    failed = rng.random(n) < q
    fit = fit_temperature(apply_temperature(q, 1.0 / sharpened), failed)
    # with scores sharpened k-fold the truth is 1/T = 1/k, and the information in 1/T is k² Σ q(1−q) z²
    sd = 1.0 / (sharpened * np.sqrt(np.sum(q * (1.0 - q) * z**2)))
    assert fit.status == "converged"
    assert abs(1.0 / fit.temperature - 1.0 / sharpened) <= 5 * sd
    assert abs(1.0 / fit.temperature - 1.0) > 5 * sd  # no scaling
    assert abs(1.0 / fit.temperature - sharpened) > 5 * sd  # T taken for 1/T
    assert fit.nll_after < fit.nll_before


def test_ends_of_the_range_are_named() -> None:
    separated = fit_temperature([0.2, 0.6, 1.0, 0.0], [0, 1, 1, 0])
    assert (separated.status, separated.temperature) == ("lower end", 0.01)
    reversed_scores = fit_temperature([0.2, 0.8], [1, 0])
    assert (reversed_scores.status, reversed_scores.temperature) == ("upper end", 100.0)
    vague = fit_temperature([0.5, 0.5], [1, 0])
    assert (vague.status, vague.temperature) == ("flat", 1.0)
    assert fit_temperature([0.0, 1.0, 1.0, 1.0], [0, 1, 1, 0]).status == "converged"


@settings(deadline=None)
@given(q=st.floats(0.0, 1.0), temperature=st.floats(0.01, 100.0))
def test_scaling_keeps_order_and_ends(q: float, temperature: float) -> None:
    scaled = apply_temperature([0.0, q, 0.5, 1.0], temperature)
    assert (scaled[0], scaled[2], scaled[3]) == (0.0, 0.5, 1.0)
    assert (scaled[1] - 0.5) * (q - 0.5) >= 0.0


def test_scaling_by_two_is_a_root_of_odds() -> None:
    q = np.array([0.1, 0.5, 0.9])
    scaled = apply_temperature(q, [[1.0], [2.0]])
    odds = np.sqrt(q / (1.0 - q))
    # a logarithm and an exponential of numbers below 3
    np.testing.assert_allclose(scaled, [q, odds / (1.0 + odds)], rtol=0.0, atol=16 * ROUNDING)


@settings(deadline=None)
@given(sample=samples, bins=st.integers(1, 80), seed=st.integers(0, 2**32 - 1))
def test_order_of_runs_means_nothing(sample: list[tuple[float, bool]], bins: int, seed: int) -> None:
    q, y = columns(sample)
    order = np.random.default_rng(seed).permutation(q.size)
    error, shuffled = calibration_error(q, y, bins=bins), calibration_error(q[order], y[order], bins=bins)
    # sums of up to 60 numbers not above 1
    assert abs(error.ece - shuffled.ece) <= 2 * 60 * ROUNDING
    np.testing.assert_array_equal(error.n_in_bin, shuffled.n_in_bin)


@settings(deadline=None)
@given(sample=samples, bins=st.integers(1, 80))
def test_bins_hold_all_runs_and_split_no_ties(sample: list[tuple[float, bool]], bins: int) -> None:
    q, y = columns(sample)
    error = calibration_error(q, y, bins=bins)
    assert error.n_in_bin.sum() == q.size
    assert error.n_in_bin.size <= min(bins, np.unique(q).size)
    assert np.all(np.diff(error.mean_score) >= -60 * ROUNDING)
    by_bins = np.sum(error.n_in_bin * np.abs(error.share_failed - error.mean_score)) / q.size
    assert abs(error.ece - by_bins) <= 130 * ROUNDING
    # one bin hides what several show: the triangle inequality
    assert calibration_error(q, y, bins=1).ece <= error.ece + 130 * ROUNDING


def test_bins_are_of_equal_mass_where_nothing_ties() -> None:
    q = np.linspace(0.0, 1.0, 100)
    np.testing.assert_array_equal(calibration_error(q, q > 0.5, bins=10).n_in_bin, np.full(10, 10))


@pytest.mark.parametrize("n", [20, 100, 400])
def test_floor_is_the_error_of_a_calibrated_critic(n: int) -> None:
    exact = sum(comb(n, k) * abs(k / n - 0.5) for k in range(n + 1)) / 2**n
    floor = calibration_error(np.full(n, 0.5), np.arange(n) % 2).floor
    # Stirling: the mean absolute deviation is that of the normal law times 1 − 1/(4n) + O(n⁻²)
    assert 0.0 < floor / exact - 1.0 < 1 / (3 * n)


def deviation_of_bin(q: FloatArray) -> tuple[float, float]:
    """Mean and variance of |failures − Σq| for independent failures, from the exact law of their number."""
    law = np.ones(1)
    for share in q:
        law = np.convolve(law, [1.0 - share, share])
    deviation = np.abs(np.arange(law.size) - np.sum(q))
    mean = float(law @ deviation)
    return mean, float(law @ deviation**2) - mean**2


def test_a_calibrated_critic_shows_the_floor_not_zero() -> None:
    rng = np.random.default_rng(20260105)
    n, repeats, bins = 1000, 200, 10
    q = np.sort(rng.random(n))
    means, variances = np.array([deviation_of_bin(part) for part in np.split(q, bins)]).T
    errors = [calibration_error(q, rng.random(n) < q, bins=bins).ece for _ in range(repeats)]
    sd = np.sqrt(variances.sum() / repeats) / n
    assert abs(np.mean(errors) - means.sum() / n) <= 5 * sd
    assert np.mean(errors) > 5 * sd
    # Against the normal law of variance V the kink on a lattice costs at most 1/(12V) of a bin's deviation, skewness
    # and kurtosis (each at most 1/V) 1/(24V) each, to first order 1/(6V) together
    floor = calibration_error(q, q > 0.5, bins=bins).floor
    smallest = min(np.sum(part * (1.0 - part)) for part in np.split(q, bins))
    assert abs(floor / (means.sum() / n) - 1.0) <= 1 / (4 * smallest)
    # bins half as large make every deviation √2 times as large in sum
    assert calibration_error(q, q > 0.5, bins=2 * bins).floor > 1.3 * floor


@pytest.mark.parametrize("measure", [brier, negative_log_likelihood, calibration_error, fit_temperature])
def test_mistakes_are_named(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(
        ParameterError, match=r"^scores must lie in \[0, 1\], got 55; give a probability, not per cent$"
    ):
        measure([0.1, 55], [0, 1])
    with pytest.raises(ParameterError, match=r"^failed must be 0 or 1, got nan; set aside unjudged runs$"):
        measure([0.1, 0.2], [0, float("nan")])


def test_further_mistakes_are_named() -> None:
    with pytest.raises(
        ParameterError, match=r"^temperature must be positive and finite, got 0; 1 leaves the scores as"
    ):
        apply_temperature(0.3, 0.0)
    with pytest.raises(ParameterError, match=r"^bins must be a whole number from 1 on, got 0; give a number of bins$"):
        calibration_error([0.3], [0], bins=0)

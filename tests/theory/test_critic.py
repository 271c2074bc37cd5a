import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from drsim.errors import ParameterError
from drsim.theory.critic import (
    best_operating_point,
    binormal_shift,
    calibrated_threshold,
    operating_gain,
    smallest_auroc,
)
from drsim.theory.tradeoff import break_even, gain

ROUNDING = 2.0**-53
FUNCTION = 8 * ROUNDING
"""Allowed for one value of Φ, a product and a difference, all at most 1: Cephes states 3 roundings for Φ near 1."""

rates = st.floats(0.0, 1.0)
inner = st.floats(0.01, 0.99)
areas = st.floats(0.5, 1.0)


def density(x: float) -> float:
    return float(np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi))


def test_reference() -> None:
    point = best_operating_point(0.43, 0.3, 0.5, 0.94)
    assert round(float(point.threshold), 6) == 1.459898
    assert round(float(point.gain), 9) == 0.078766121


@pytest.mark.parametrize("area", [0.5, 0.6, 0.8, 0.94, 0.999])
def test_shift_gives_the_auroc(area: float) -> None:
    shift = float(binormal_shift(area))
    value, error = quad(lambda x: density(x - shift) * ndtr(x), -12.0, 16.0, epsabs=1e-13, limit=200)
    # beyond ±12 lies less than 1e-32
    assert abs(value - area) <= error + FUNCTION
    one_score_only, error = quad(lambda x: density(x - ndtri(area)) * ndtr(x), -12.0, 16.0, epsabs=1e-13, limit=200)
    assert area == 0.5 or abs(one_score_only - area) > error + FUNCTION


def test_shift_gives_the_auroc_of_simulated_scores() -> None:
    n, area = 200_000, 0.8
    rng = np.random.default_rng(20260102)
    wins = np.sum(rng.normal(binormal_shift(area), 1.0, n) > rng.normal(0.0, 1.0, n))
    assert abs(wins - n * area) <= 5 * np.sqrt(n * area * (1.0 - area))


def test_gain_of_simulated_runs() -> None:
    p, r, d, area, n = 0.43, 0.3, 0.5, 0.7, 400_000
    point = best_operating_point(p, r, d, area)
    rng = np.random.default_rng(20260103)
    fails = rng.random(n) < p
    fires = rng.normal(0.0, 1.0, n) + binormal_shift(area) * fails > point.threshold
    acted = rng.random(n)
    change = np.where(fails & fires & (acted < r), 1.0, np.where(~fails & fires & (acted < d), -1.0, 0.0))
    share_up, share_down = p * point.tpr * r, (1.0 - p) * point.fpr * d
    sd = np.sqrt((share_up + share_down - (share_up - share_down) ** 2) / n)
    assert abs(change.mean() - point.gain) <= 5 * sd
    # a critic whose false alarms are taken to be free
    assert abs(change.mean() - share_up) > 5 * sd


@settings(deadline=None)
@given(p=rates, r=rates, d=rates, area=areas)
def test_no_threshold_does_better(p: float, r: float, d: float, area: float) -> None:
    point = best_operating_point(p, r, d, area)
    shift = binormal_shift(area)
    x = np.linspace(-10.0, 20.0, 601)
    finite = shift if np.isfinite(shift) else 1e3
    others = operating_gain(p, r, d, ndtr(finite - x), ndtr(-x))
    assert np.all(others <= point.gain + FUNCTION)
    assert abs(operating_gain(p, r, d, point.tpr, point.fpr) - point.gain) <= FUNCTION


@settings(deadline=None)
@given(p=inner, r=inner, d=inner, area=st.floats(0.55, 0.99))
def test_the_best_threshold_is_the_calibrated_one(p: float, r: float, d: float, area: float) -> None:
    x, shift = best_operating_point(p, r, d, area).threshold, binormal_shift(area)
    # log odds of failure at score x: the logarithm of p/(1−p) plus that of the ratio of the two densities
    log_odds = np.log(p / (1.0 - p)) + shift * x - 0.5 * shift**2
    eta = calibrated_threshold(r, d)
    # sums of logarithms and of μx, each below 40 in size: at most ten roundings of that
    assert abs(log_odds - np.log(eta / (1.0 - eta))) <= 400 * ROUNDING
    assert eta == break_even(r, d)


@settings(deadline=None)
@given(p=rates, r=rates, d=rates, area=areas, other=areas)
def test_gain_rises_with_the_auroc(p: float, r: float, d: float, area: float, other: float) -> None:
    low, high = sorted((area, other))
    assert best_operating_point(p, r, d, low).gain <= best_operating_point(p, r, d, high).gain + FUNCTION


@settings(deadline=None)
@given(p=rates, r=rates, d=rates)
def test_limits_of_the_auroc(p: float, r: float, d: float) -> None:
    random, perfect = best_operating_point(p, r, d, 0.5), best_operating_point(p, r, d, 1.0)
    assert abs(random.gain - np.maximum(0.0, gain(p, r, d))) <= FUNCTION
    assert random.tpr == random.fpr
    assert perfect.gain == p * r
    assert perfect.fpr == 0.0
    assert perfect.tpr == (1.0 if p * r > 0.0 else 0.0)


def test_stakes_of_nothing() -> None:
    harmless = best_operating_point(0.5, 0.3, 0.0, 0.8)
    assert [harmless.threshold, harmless.tpr, harmless.fpr, harmless.gain] == [-np.inf, 1.0, 1.0, 0.15]
    useless = best_operating_point(0.5, 0.0, [0.0, 0.3], [[0.5], [0.8], [1.0]])
    np.testing.assert_array_equal(useless.threshold, np.full((3, 2), np.inf))
    np.testing.assert_array_equal(useless.tpr, np.zeros((3, 2)))
    np.testing.assert_array_equal(useless.gain, np.zeros((3, 2)))


@settings(deadline=None)
@given(p=inner, r=inner, d=inner, share=st.floats(0.001, 0.999))
def test_smallest_auroc_is_the_first_that_reaches_the_gain(p: float, r: float, d: float, share: float) -> None:
    random = max(0.0, float(gain(p, r, d)))
    wanted = random + share * (p * r - random)
    assume(random < wanted < p * r)
    area = smallest_auroc(p, r, d, wanted)
    assert 0.5 < area <= 1.0
    assert best_operating_point(p, r, d, area).gain >= wanted
    assert best_operating_point(p, r, d, np.nextafter(area, 0.0)).gain < wanted


def test_smallest_auroc_at_the_ends() -> None:
    p, r, d = 0.43, 0.3, 0.5
    wanted = [-1.0, 0.0, p * r, np.nextafter(p * r, 1.0), 1.0]
    np.testing.assert_array_equal(smallest_auroc(p, r, d, wanted), [0.5, 0.5, 1.0, np.nan, np.nan])
    assert smallest_auroc(0.9, 0.5, 0.1, 0.2) == 0.5  # always firing gains 0.44
    assert smallest_auroc(0.9, 0.5, 0.1, gain(0.9, 0.5, 0.1)) == 0.5
    assert smallest_auroc(0.5, 0.0, 0.5, 0.0) == 0.5
    assert isinstance(smallest_auroc(p, r, d, 0.01), float)
    assert smallest_auroc(np.full((4, 1), p), r, d, [0.01, 0.02]).shape == (4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: binormal_shift(0.4),
            "auroc must lie in [0.5, 1], got 0.4; a critic below one half is used with its scores reversed",
        ),
        (
            lambda: smallest_auroc(0.4, 0.3, 0.5, 5),
            "wanted_gain must lie in [-1, 1], got 5; give it as a difference of success rates",
        ),
        (
            lambda: operating_gain(0.4, 0.3, 0.5, 90, 0.1),
            "tpr must lie in [0, 1], got 90; give a probability, not per cent",
        ),
        (
            lambda: best_operating_point(0.4, [0.1, 0.2], 0.5, [0.7, 0.8, 0.9]),
            (
                "failure_rate, recovery, disruption, auroc must have shapes that broadcast, got (), (2,), (), (3,); "
                "give scalars or arrays of one shape"
            ),
        ),
        (
            lambda: calibrated_threshold(-0.1, 0.5),
            "recovery must lie in [0, 1], got -0.1; give a probability, not per cent",
        ),
    ],
)
def test_messages(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == message

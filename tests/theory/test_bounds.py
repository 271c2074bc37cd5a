import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import ParameterError
from drsim.theory.bounds import data_bounds
from drsim.theory.churn import beta_from_rho, excess_rates
from drsim.theory.critic import best_operating_point
from drsim.theory.selection import best_of_n_beta
from drsim.theory.tradeoff import gain

ROUNDING = 2.0**-53
rates = st.floats(0.0, 1.0)


@settings(deadline=None)
@given(p=rates, rho=rates, r=rates, d=rates, tpr=rates, fpr=rates)
def test_rungs_stand_in_order(p: float, rho: float, r: float, d: float, tpr: float, fpr: float) -> None:
    bounds = data_bounds(p, rho, r, d, tpr, fpr)
    # exact in floats: each side rounds the same product, and then only something not negative is taken off
    assert bounds.oracle_intervention == p * r * tpr
    assert bounds.gain <= bounds.oracle_intervention <= bounds.perfect_critic
    assert 0.0 <= bounds.random_critic <= bounds.perfect_critic
    assert 0.0 <= bounds.oracle_best_of_two <= min(p, 1.0 - p) * (1.0 + 4 * ROUNDING)


@settings(deadline=None)
@given(p=rates, rho=rates, r=rates, d=rates)
def test_an_arm_that_always_fires(p: float, rho: float, r: float, d: float) -> None:
    bounds = data_bounds(p, rho, r, d)
    assert bounds.gain == gain(p, r, d)
    assert bounds.oracle_intervention == bounds.perfect_critic == p * r
    assert bounds.perfect_critic == best_operating_point(p, r, d, 1.0).gain
    # eight operations on numbers not above 1
    assert abs(bounds.random_critic - best_operating_point(p, r, d, 0.5).gain) <= 8 * ROUNDING
    assert abs(bounds.oracle_excess - p * excess_rates(p, r, d, rho).recovery) <= 8 * ROUNDING


@settings(deadline=None)
@given(p=st.floats(0.01, 0.99), rho=st.floats(0.01, 0.99))
def test_best_of_two_is_half_the_churn(p: float, rho: float) -> None:
    a, b = beta_from_rho(p, rho)
    # a and b carry relative errors of up to 200 roundings where 1 − ρ = 0.01; derivatives in ln a and ln b are below 1
    allowed = 300 * ROUNDING
    value = data_bounds(p, rho, 0.2, 0.1).oracle_best_of_two
    assert abs(value - (best_of_n_beta(a, b, 2) - (1.0 - p))) <= allowed
    # 1 − p^N, tasks taken to be alike
    assert abs(value - ((1.0 - p**2) - (1.0 - p))) > allowed


def test_the_oracle_of_mere_reruns_is_best_of_two() -> None:
    rng = np.random.default_rng(20260109)
    n, p, rho = 200_000, 0.4, 0.3
    s = rng.beta(*beta_from_rho(p, rho), n)
    first, second = rng.random(n) < s, rng.random(n) < s
    rescued = int(np.sum(~first & second))
    value = data_bounds(p, rho, 0.2, 0.1).oracle_best_of_two
    assert abs(rescued - n * value) <= 5 * np.sqrt(n * value * (1.0 - value))


def test_shapes() -> None:
    bounds = data_bounds(0.4, np.linspace(0.0, 1.0, 5), [[0.2], [0.3]], 0.1)
    assert bounds.gain.shape == bounds.perfect_critic.shape == bounds.oracle_best_of_two.shape == (2, 5)
    assert isinstance(data_bounds(0.4, 0.1, 0.2, 0.1).oracle_excess, float)


def test_mistakes_are_named() -> None:
    with pytest.raises(ParameterError, match=r"^rho must lie in \[0, 1\], got 2; give a probability, not per cent$"):
        data_bounds(0.4, 2, 0.2, 0.1)
    with pytest.raises(ParameterError, match=r"^fpr must lie in \[0, 1\], got nan; give a probability, not per cent$"):
        data_bounds(0.4, 0.2, 0.2, 0.1, 0.5, float("nan"))

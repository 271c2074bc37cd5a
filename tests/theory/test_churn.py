from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import ParameterError
from drsim.theory.churn import (
    beta_from_rho,
    excess_rates,
    pairwise_churn,
    rerun_rates,
    rerun_rates_from_within,
    rho_from_beta,
    rho_from_within,
)
from drsim.theory.tradeoff import break_even, gain

ROUNDING = 2.0**-53
rates = st.floats(0.0, 1.0)
inner = st.floats(0.01, 0.99)
tasks = st.lists(inner, min_size=1, max_size=30)


@settings(deadline=None)
@given(success=tasks)
def test_rates_from_rho_and_from_tasks_agree(success: list[float]) -> None:
    s = np.array(success)
    p, within = float(np.mean(1.0 - s)), float(np.mean(s * (1.0 - s)))
    direct = rerun_rates_from_within(p, within)
    via_rho = rerun_rates(p, rho_from_within(p, within))
    # 1 − ρ = within / p(1−p) is at most 1 and carries the errors of two means of up to 30 terms and of ten operations
    allowed = 80 * ROUNDING / min(p, 1.0 - p)
    assert abs(direct.recovery - np.sum(s * (1.0 - s)) / np.sum(1.0 - s)) <= allowed
    assert abs(direct.disruption - np.sum(s * (1.0 - s)) / np.sum(s)) <= allowed
    assert abs(via_rho.recovery - direct.recovery) <= allowed
    assert abs(via_rho.disruption - direct.disruption) <= allowed
    assert abs(via_rho.churn - direct.churn) <= allowed


@settings(deadline=None)
@given(p=rates, rho=rates)
def test_identities_of_reruns(p: float, rho: float) -> None:
    rerun = rerun_rates(p, rho)
    # at most eight operations on numbers not above 1
    assert abs(p * rerun.recovery + (1.0 - p) * rerun.disruption - rerun.churn) <= 8 * ROUNDING
    assert abs(gain(p, rerun.recovery, rerun.disruption)) <= 8 * ROUNDING
    if rho < 1.0:
        assert abs(break_even(rerun.recovery, rerun.disruption) - p) <= 8 * ROUNDING


@settings(deadline=None)
@given(p=rates, r=rates, d=rates, rho=rates)
def test_excess_rates_keep_the_gain(p: float, r: float, d: float, rho: float) -> None:
    excess = excess_rates(p, r, d, rho)
    # twelve operations on numbers not above 1
    assert abs(p * excess.recovery - (1.0 - p) * excess.disruption - gain(p, r, d)) <= 12 * ROUNDING


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(inner, inner), min_size=1, max_size=30))
def test_excess_rates_are_what_the_intervention_does_to_tasks(pairs: list[tuple[float, float]]) -> None:
    s, intervened = np.array(pairs).T
    p = float(np.mean(1.0 - s))
    r = np.mean((1.0 - s) * intervened) / np.mean(1.0 - s)
    d = np.mean(s * (1.0 - intervened)) / np.mean(s)
    excess = excess_rates(p, np.clip(r, 0.0, 1.0), np.clip(d, 0.0, 1.0), rho_from_within(p, np.mean(s * (1.0 - s))))
    allowed = 120 * ROUNDING / min(p, 1.0 - p)  # as above, with two further means
    assert abs(excess.recovery - np.mean((1.0 - s) * (intervened - s)) / np.mean(1.0 - s)) <= allowed
    assert abs(excess.disruption - np.mean(s * (s - intervened)) / np.mean(s)) <= allowed


def test_limits_of_rho() -> None:
    alike, fixed = rerun_rates(0.3, 0.0), rerun_rates(0.3, 1.0)
    assert [alike.recovery, alike.disruption, alike.churn] == [0.7, 0.3, 2 * 0.3 * 0.7]
    assert [fixed.recovery, fixed.disruption, fixed.churn] == [0.0, 0.0, 0.0]
    assert rho_from_within(0.3, 0.0) == 1.0
    assert rho_from_within(0.3, 0.3 * 0.7) == 0.0
    assert np.isnan(rho_from_within(0.0, 0.0))
    never_fails = rerun_rates_from_within(0.0, 0.0)
    assert np.isnan(never_fails.recovery)
    assert [never_fails.disruption, never_fails.churn] == [0.0, 0.0]


@settings(deadline=None)
@given(p=inner, rho=st.floats(1e-6, 0.999))
def test_beta_round_trip(p: float, rho: float) -> None:
    a, b = beta_from_rho(p, rho)
    # (1−ρ)/ρ, two products, two sums, one quotient: each of relative error 2⁻⁵³; 1 − ρ adds one of 2⁻⁵³ / (1 − ρ)
    allowed = (10 + 1 / (1.0 - rho)) * ROUNDING
    assert abs(rho_from_beta(a, b) - rho) <= allowed * rho
    assert abs(b / (a + b) - p) <= allowed
    within = a * b / ((a + b) * (a + b + 1.0))
    assert abs(within - 0.5 * rerun_rates(p, rho).churn) <= 2 * allowed


def test_reruns_of_simulated_tasks() -> None:
    p, rho, n = 0.4, 0.35, 200_000
    a, b = beta_from_rho(p, rho)
    rng = np.random.default_rng(20260101)
    s = rng.beta(a, b, n)
    first, second = rng.random(n) < s, rng.random(n) < s
    expected = rerun_rates(p, rho)

    def z(hits: int, size: int, share: float) -> float:
        return float((hits - size * share) / np.sqrt(size * share * (1.0 - share)))

    # each task gives one pair, so that given the first runs the flips are binomial
    recovered, fails = int(np.sum(~first & second)), int(np.sum(~first))
    disrupted, successes = int(np.sum(first & ~second)), int(np.sum(first))
    assert abs(z(recovered, fails, float(expected.recovery))) <= 5
    assert abs(z(disrupted, successes, float(expected.disruption))) <= 5
    assert abs(z(recovered + disrupted, n, float(expected.churn))) <= 5
    # reruns that forget that tasks differ
    assert abs(z(recovered, fails, 1.0 - p)) > 5
    assert abs(z(disrupted, successes, p)) > 5


@pytest.mark.parametrize("runs", [2, 3, 7])
@pytest.mark.parametrize("s", [0.0, 0.1, 0.5, 1.0])
def test_pairwise_churn_is_unbiased(runs: int, s: float) -> None:
    x = np.arange(runs + 1)
    weight = np.array([comb(runs, k) * s**k * (1.0 - s) ** (runs - k) for k in x])
    # at most 8 terms of weights that carry up to 8 roundings each
    allowed = 100 * ROUNDING
    assert abs(np.sum(weight * pairwise_churn(x, runs)) - 2.0 * s * (1.0 - s)) <= allowed
    plugged_in = np.sum(weight * 2.0 * (x / runs) * (1.0 - x / runs))
    assert s in (0.0, 1.0) or abs(plugged_in - 2.0 * s * (1.0 - s)) > allowed


def test_pairwise_churn_counts_pairs() -> None:
    np.testing.assert_array_equal(pairwise_churn([0, 1, 2, 1, 0], [2, 2, 2, 1, 0]), [0.0, 1.0, 0.0, np.nan, np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rerun_rates(0.2, 1.5), "rho must lie in [0, 1], got 1.5; give a probability, not per cent"),
        (
            lambda: rerun_rates_from_within(0.5, 0.3),
            "within_variance must lie in [0, p(1−p)] = [0, 0.25], got 0.3; give the mean of s(1−s) over tasks",
        ),
        (
            lambda: beta_from_rho(0.2, 0.0),
            "rho must lie in (0, 1), got 0; with 0 all tasks are alike, with 1 each task always ends in the same way",
        ),
        (
            lambda: beta_from_rho(1.0, 0.5),
            (
                "failure_rate must lie in (0, 1), got 1; "
                "with 0 or 1 all tasks are alike and no beta distribution is needed"
            ),
        ),
        (
            lambda: rho_from_beta(0.0, 1.0),
            "a must be positive and finite, got 0; give a shape of the beta distribution of success",
        ),
        (lambda: pairwise_churn(3, 2), "successes must not exceed runs; give both as counts of the same runs"),
        (lambda: pairwise_churn(0.5, 2), "successes must be a whole number from 0 on, got 0.5; give counts of runs"),
        (
            lambda: excess_rates(0.1, 0.2, 50, 0.1),
            "disruption must lie in [0, 1], got 50; give a probability, not per cent",
        ),
    ],
)
def test_messages(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == message


def test_a_mean_over_many_equal_tasks_is_no_mistake() -> None:
    s = np.full(4000, 0.3)
    assert 0.0 <= rho_from_within(np.mean(1.0 - s), np.mean(s * (1.0 - s))) <= 1e-12

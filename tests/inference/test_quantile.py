import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from drsim.errors import ConvergenceError
from drsim.inference.quantile import quantile


@settings(deadline=None)
@given(
    a=st.floats(0.5, 1e4),
    b=st.floats(0.5, 1e4),
    level=st.floats(1e-3, 1 - 1e-3),
    guess=st.floats(0, 1),
    spread=st.floats(1e-6, 1),
)
def test_inverts_beta_distributions_from_any_guess(
    a: float, b: float, level: float, guess: float, spread: float
) -> None:
    def cdf(x: float) -> float:
        return float(special.betainc(a, b, min(max(x, 0.0), 1.0)))

    found = quantile(cdf, level, guess=guess, spread=spread, low=0.0, high=1.0)
    # Held against the distribution function: scipy's own inverse errs by some 1e-11.
    assert cdf(found - 1e-12) <= level + 1e-13
    assert cdf(found + 1e-12) >= level - 1e-13


def test_few_evaluations_from_a_normal_guess() -> None:
    calls = []

    def cdf(x: float) -> float:
        calls.append(x)
        return float(special.betainc(30, 20, x))

    quantile(cdf, 0.975, guess=0.73, spread=0.02, low=0.0, high=1.0)
    assert len(calls) < 20


def test_a_function_that_jumps_over_the_level_does_not_hang() -> None:
    found = quantile(lambda x: float(x > 0.3), 0.5, guess=0.9, spread=0.1, low=0.0, high=1.0)
    assert found == pytest.approx(0.3, abs=1e-11)


def test_not_a_number_is_no_answer() -> None:
    with pytest.raises(ConvergenceError, match=r"gave no quantile at level 0\.5"):
        quantile(lambda _: float("nan"), 0.5, guess=0.5, spread=0.1, low=0.0, high=1.0)

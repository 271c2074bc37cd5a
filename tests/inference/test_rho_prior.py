import numpy as np
import pytest
from scipy import special

from drsim.errors import ParameterError
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior


def test_default_prior_has_the_median_of_the_noise_floors() -> None:
    low, middle, high = DEFAULT_RHO_PRIOR.band()
    assert 0.65 < middle < 0.75
    assert low == pytest.approx(special.betaincinv(4.5, 2, 0.025))
    assert high == pytest.approx(special.betaincinv(4.5, 2, 0.975))


@pytest.mark.parametrize("text", ["0.45", "0", "1", "beta:4.5,2", "beta:1,1"])
def test_text_round_trip(text: str) -> None:
    assert str(RhoPrior.parse(text)) == text


def test_fixed_value_draws_itself() -> None:
    assert np.all(RhoPrior.parse("0.45").draw(3, np.random.default_rng(0)) == 0.45)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("45", "rho must lie in [0, 1], got 45; give an intraclass correlation"),
        ("nan", "rho must lie in [0, 1], got nan; give an intraclass correlation"),
        ("high", "rho must be a number in [0, 1] or beta:A,B, got 'high'; write 0.45 or beta:4.5,2"),
        ("beta:1", "rho must be a number in [0, 1] or beta:A,B, got 'beta:1'; write 0.45 or beta:4.5,2"),
        ("beta:0,2", "a beta prior of rho needs two positive shapes, got 0.0, 2.0; write beta:4.5,2"),
    ],
)
def test_bad_prior_is_named(text: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        RhoPrior.parse(text)
    assert str(caught.value) == message

import numpy as np
import pytest
from scipy import special

from drsim.planning.betting import BENEFIT, HARM, Bets, confidence_bounds, factors, log_capital

SIGNS = np.array([-1.0, 0.0, 1.0])


def test_one_pair_a_task_is_the_mixed_likelihood_ratio_of_the_discordant_pairs() -> None:
    b, a_and_d, c = 4, 30, 11
    found = log_capital(np.array([b, a_and_d, c], dtype=float), SIGNS, 0.0, BENEFIT)
    theta = (1 + BENEFIT.sizes) / 2
    by_hand = np.mean(theta**c * (1 - theta) ** b) / 0.5 ** (b + c)
    assert float(found) == pytest.approx(np.log(by_hand), abs=1e-12)


def test_even_bets_are_near_the_closed_form_of_a_uniform_mixture() -> None:
    b, c = 4.0, 11.0
    found = log_capital(np.array([b, 0.0, c]), SIGNS, 0.0, Bets.of_power(1.0))
    tail = special.betainc(b + 1, c + 1, 0.5)
    exact = np.log(2.0 ** (b + c + 1) * special.beta(b + 1, c + 1) * tail)
    # 32 mid-points of a smooth integrand
    assert float(found) == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("bets", [BENEFIT, HARM])
@pytest.mark.parametrize("margin", [-0.3, 0.0, 0.2])
def test_capital_cannot_be_expected_to_grow_where_the_gain_is_at_most_the_margin(bets: Bets, margin: float) -> None:
    gains = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    rng = np.random.default_rng(1)
    grown = factors(gains, margin, bets)
    assert (grown > 0).all()
    for chances in rng.dirichlet(np.ones(5), size=200):
        excess = float(chances @ gains) - margin
        expected = chances @ grown - 1
        assert (np.sign(expected) == np.sign(excess)).all()


def test_limits_are_where_the_capital_reaches_the_level() -> None:
    counts = np.array([12.0, 150.0, 38.0])
    low, high = confidence_bounds(counts, SIGNS, 0.05)
    assert -1 < low < 26 / 200 < high < 1
    assert float(log_capital(counts, SIGNS, low, BENEFIT)) == pytest.approx(np.log(40), abs=1e-6)
    assert float(log_capital(counts, -SIGNS, -high, BENEFIT)) == pytest.approx(np.log(40), abs=1e-6)
    mirrored = confidence_bounds(counts[::-1].copy(), SIGNS, 0.05)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


def test_limits_without_data_are_the_whole_range() -> None:
    assert confidence_bounds(np.zeros(3), SIGNS, 0.05) == pytest.approx((-1.0, 1.0), abs=1e-9)

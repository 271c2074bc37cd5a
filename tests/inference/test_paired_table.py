from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from drsim.errors import ParameterError
from drsim.inference.paired_table import PairedTable

PUBLISHED = PairedTable(a=118, b=9, c=16, d=7)
N_DRAWS = 200_000
TABLES = [
    PUBLISHED,
    PairedTable(a=0, b=0, c=0, d=0),
    PairedTable(a=0, b=0, c=0, d=50),
    PairedTable(a=20, b=0, c=30, d=0),
    PairedTable(a=3, b=40, c=1, d=9),
    PairedTable(a=10_000, b=300, c=280, d=20_000),
    PairedTable(a=1, b=0, c=100_000, d=2),
    PairedTable(a=2**31 - 1, b=2**31 - 1, c=2**31 - 1, d=2**31 - 1),
    PairedTable(a=0, b=0, c=10**7, d=5),
    PairedTable(a=39.333, b=3, c=5.333, d=2.333),
]


def gain_cdf_by_quad(table: PairedTable, x: float) -> float:
    """P(Δ ≤ x) by adaptive quadrature over P(fail→success) given P(success→fail), another order of integration."""
    a, b, c, d = table.alpha

    def inner(p_b: float) -> float:
        # Given P_B, P_C / (1 − P_B) ~ Beta(α_C, α_A + α_D).
        density = np.exp(
            special.xlogy(b - 1, p_b) + special.xlog1py(a + c + d - 1, -p_b) - special.betaln(b, a + c + d)
        )
        return float(density * special.betainc(c, a + d, np.clip((x + p_b) / (1 - p_b), 0, 1)))

    middle = float(special.betaincinv(b, a + c + d, 0.5))
    edges = [0.0, *(special.betaincinv(b, a + c + d, [1e-12, 0.01])), middle]
    edges += [*(special.betaincinv(b, a + c + d, [0.99, 1 - 1e-12])), 1.0]
    kinks = [edge for edge in (-x, (1 - x) / 2) if 0 < edge < 1]
    edges = sorted({*edges, *kinks})
    pieces = pairwise(edges)
    return float(sum(integrate.quad(inner, *piece, epsabs=1e-13, epsrel=1e-12, limit=500)[0] for piece in pieces))


def test_published_pilot_to_six_digits() -> None:
    assert round(PUBLISHED.prob_gain_above(0.0), 6) == 0.919896
    assert PUBLISHED.prob_gain_above(0.0) == pytest.approx(special.betaincc(16.5, 9.5, 0.5), abs=1e-14)


def test_rates_are_the_betas_of_the_dirichlet() -> None:
    for summary, shapes in (
        (PUBLISHED.failure_rate(), (135, 17)),
        (PUBLISHED.recovery(), (16.5, 118.5)),
        (PUBLISHED.disruption(), (9.5, 7.5)),
    ):
        assert summary.mean == pytest.approx(shapes[0] / sum(shapes), rel=1e-14)
        assert special.betainc(*shapes, summary.q2_5) == pytest.approx(0.025, abs=1e-12)
        assert special.betainc(*shapes, summary.q97_5) == pytest.approx(0.975, abs=1e-12)


@pytest.mark.parametrize("table", [PUBLISHED, *TABLES[1:6], TABLES[-1]])
@pytest.mark.parametrize("level", [0.025, 0.3, 0.9])
def test_gain_distribution_agrees_with_adaptive_quadrature(table: PairedTable, level: float) -> None:
    gain = table.gain()
    x = gain.mean + gain.sd * float(special.ndtri(level))
    x = float(np.clip(x, -0.99, 0.99))
    assert 1 - table.prob_gain_above(x) == pytest.approx(gain_cdf_by_quad(table, x), abs=1e-9)


@pytest.mark.parametrize("table", TABLES)
def test_all_summaries_agree_with_draws(table: PairedTable) -> None:
    rng = np.random.default_rng(5)
    a, b, c, d = rng.dirichlet(table.alpha, N_DRAWS).T
    recovery, disruption = c / (a + c), b / (b + d)
    for summary, draws in (
        (table.failure_rate(), a + c),
        (table.recovery(), recovery),
        (table.disruption(), disruption),
        (table.gain(), c - b),
        (table.break_even(), disruption / (recovery + disruption)),
    ):
        assert abs(summary.mean - draws.mean()) <= 5 * draws.std() / np.sqrt(N_DRAWS) + 1e-12
        # Standard error of a standard deviation by its fourth moment.
        spread = np.sqrt(max(np.var((draws - draws.mean()) ** 2), 1e-300) / N_DRAWS) / (2 * draws.std())
        assert abs(summary.sd - draws.std()) <= 5 * spread
        for level, quantile in ((0.025, summary.q2_5), (0.5, summary.q50), (0.975, summary.q97_5)):
            below = np.mean(draws <= quantile)
            assert abs(below - level) <= 5 * np.sqrt(level * (1 - level) / N_DRAWS)


def test_independent_recovery_and_disruption_would_be_wrong_for_the_gain() -> None:
    # A gain whose p is held at its mean is too sharp: the draws above must tell the two apart.
    rng = np.random.default_rng(6)
    recovery, disruption = rng.beta(16.5, 118.5, N_DRAWS), rng.beta(9.5, 7.5, N_DRAWS)
    p = PUBLISHED.failure_rate().mean
    naive = p * recovery - (1 - p) * disruption
    error = abs(PUBLISHED.gain().sd - naive.std())
    assert error > 5 * naive.std() / np.sqrt(2 * N_DRAWS)


@settings(deadline=None, max_examples=60)
@given(counts=st.tuples(*[st.integers(0, 400)] * 4), x=st.floats(-0.9, 0.9))
def test_exchanging_b_and_c_mirrors_the_gain(counts: tuple[int, int, int, int], x: float) -> None:
    a, b, c, d = counts
    table, mirrored = PairedTable(a=a, b=b, c=c, d=d), PairedTable(a=a, b=c, c=b, d=d)
    assert table.prob_gain_above(x) == pytest.approx(1 - mirrored.prob_gain_above(-x), abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(counts=st.tuples(*[st.integers(0, 400)] * 4), x=st.floats(0, 1), y=st.floats(0, 1))
def test_distribution_functions_rise(counts: tuple[int, int, int, int], x: float, y: float) -> None:
    a, b, c, d = counts
    table = PairedTable(a=a, b=b, c=c, d=d)
    low, high = sorted((x, y))
    assert table.prob_gain_above(low) >= table.prob_gain_above(high) - 1e-9
    more = PairedTable(a=a, b=b, c=c + 5, d=d)
    assert more.prob_gain_above(0.0) >= table.prob_gain_above(0.0)


def test_negative_count_is_refused() -> None:
    with pytest.raises(ParameterError, match="B must be a count ≥ 0, got -1; give the cells of a 2×2 table"):
        PairedTable(a=1, b=-1, c=0, d=0)

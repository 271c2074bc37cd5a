"""Many pilots of one cell by shared points: against fits of their own, and handed over where the points are too few."""

import numpy as np
import pytest

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.data import Block, CellKey, HierarchicalData
from drsim.inference.hierarchical.fit import fit_data
from drsim.inference.hierarchical.refits import RefitBank

RUNS = 2
PATTERNS: IntArray = np.array(
    [[[a, RUNS], [b, RUNS]] for a in range(RUNS + 1) for b in range(RUNS + 1)], dtype=np.int64
)


def pilots(n: int, n_tasks: int, seed: int, shift: float = 0.5) -> FloatArray:
    """(n, 9) tasks of each pattern."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.0, 2.0, (n, n_tasks))
    chances = [1 / (1 + np.exp(-(logit + move))) for move in (0.0, shift)]
    a, b = (rng.binomial(RUNS, chance) for chance in chances)
    counts = np.zeros((n, len(PATTERNS)))
    for i in range(n):
        np.add.at(counts[i], (RUNS + 1) * a[i] + b[i], 1.0)
    return counts


def own_fit(counts: FloatArray, quantity: str, seed: int) -> tuple[FloatArray, float]:
    block = Block(agent="a", benchmark="b", arms=("m",), counts=PATTERNS, weight=counts)
    key = CellKey(agent="a", benchmark="b", arm="m", block=0, place=0, is_forked=False)
    fit = fit_data(HierarchicalData(blocks=(block,), cells=(key,)), seed=seed, draws=8000)
    draws: FloatArray = getattr(fit.cells[0].draws, quantity)
    return draws, fit.diagnostics.ess


@pytest.mark.parametrize("quantity", ["gain", "excess_recovery"])
def test_equals_fits_of_their_own(quantity: str) -> None:
    """Mean, sd and quantiles of 12 pilots within 5 Monte Carlo errors of both sides."""
    counts = pilots(40, 50, seed=1)
    refits = RefitBank.of(PATTERNS, counts, seed=1).refit(counts, quantity=quantity, margin=0.02, seed=2)
    assert refits.is_good.all()
    for i in range(12):
        draws, ess = own_fit(counts[i], quantity, seed=i)
        error = (1 / refits.ess[i] + 1 / ess) ** 0.5
        assert abs(refits.mean[i] - draws.mean()) < 5 * draws.std() * error
        assert abs(refits.sd[i] / draws.std() - 1) < 5 * error
        assert abs(refits.prob_above[i] - (draws > 0.02).mean()) < 5 * 0.5 * error
        # a 95 % limit has 2.7 times the error of a mean of a normal, and no more for lighter tails
        apart = np.abs(refits.quantiles[i] - np.quantile(draws, [0.025, 0.5, 0.975]))
        assert (apart < 5 * 2.7 * draws.std() * error).all()


def test_pilots_far_from_the_bank_are_fitted_on_their_own() -> None:
    """A bank about small pilots with a gain, asked for a large one with a loss."""
    bank = RefitBank.of(PATTERNS, pilots(20, 50, seed=1, shift=1.0), seed=1, n_points=1000)
    counts = pilots(2, 600, seed=3, shift=-2.0)
    refits = bank.refit(counts, seed=2)
    assert refits.is_redrawn.all()
    assert refits.is_good.all()
    draws, ess = own_fit(counts[0], "gain", seed=1)
    error = draws.std() * (1 / refits.ess[0] + 1 / ess) ** 0.5
    assert abs(refits.mean[0] - draws.mean()) < 5 * error


def test_many_far_pilots_get_a_bank_of_their_own() -> None:
    bank = RefitBank.of(PATTERNS, pilots(20, 50, seed=1, shift=1.0), seed=1)
    counts = pilots(60, 400, seed=3, shift=-2.0)
    refits = bank.refit(counts, seed=2)
    assert refits.is_good.all()
    assert refits.is_redrawn.sum() < 20
    assert refits.mean.max() < 0


def test_a_seed_gives_the_same_numbers() -> None:
    counts = pilots(30, 50, seed=1)
    one, other = (RefitBank.of(PATTERNS, counts, seed=4).refit(counts, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.quantiles, other.quantiles)


def test_wrong_requests_are_refused() -> None:
    counts = pilots(3, 20, seed=1)
    bank = RefitBank.of(PATTERNS, counts, seed=1, n_points=1000)
    with pytest.raises(ParameterError, match="quantity must be one of"):
        bank.refit(counts, quantity="gains", seed=1)
    with pytest.raises(ParameterError, match="counts must be"):
        bank.refit(counts[:, 1:], seed=1)
    with pytest.raises(ParameterError, match="counts must be"):
        bank.refit(-counts, seed=1)
    with pytest.raises(ParameterError, match="seed must be"):
        bank.refit(counts, seed=-1)
    with pytest.raises(ParameterError, match="n_points ≥ 1,000"):
        RefitBank.of(PATTERNS, counts, seed=1, n_points=10)
    with pytest.raises(ParameterError, match="successes from 0 to runs"):
        RefitBank.of(PATTERNS[:, :, ::-1] * np.array([1, 2]), counts, seed=1)
    with pytest.raises(ParameterError, match="at least one"):
        RefitBank.of(PATTERNS, np.zeros((2, len(PATTERNS))), seed=1)
    with pytest.raises(ParameterError, match="patterns must be"):
        RefitBank.of(PATTERNS, counts[:, 1:], seed=1)

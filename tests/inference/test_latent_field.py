"""Draws without MCMC: against quadrature, by rank, and where the weights must say that they fail."""

import numpy as np
import pytest
from scipy.special import expit, gammaln, logsumexp
from scipy.stats import chi2

from drsim.arrays import FloatArray, IntArray
from drsim.inference.importance import LARGEST_PARETO_K
from drsim.inference.latent_field import FieldPosterior, LatentField, sample_field

DRAWS = 4_000


def cells(successes: list[int], trials: list[int], scale: float = 1.0) -> LatentField:
    """A level with sd 1.5, and cells around it."""
    n = len(trials)
    return LatentField(
        successes=np.array(successes),
        trials=np.array(trials),
        offset=np.full(n, -0.5),
        design=np.concatenate([np.full((n, 1), 1.5), np.eye(n)], axis=1),
        group=np.array([-1] + [0] * n),
        scales=np.array([scale]),
    )


def by_quadrature(field: LatentField) -> tuple[float, float, FloatArray]:
    """Mean level, mean spread, and mean rates of `cells`, by sums over grids."""
    level, x = np.linspace(-6, 6, 81), np.linspace(-7, 7, 201)
    spread = np.exp(np.linspace(-7, 1.5, 61))
    log_joint = np.empty((level.size, spread.size))
    rates = np.empty((len(field.trials), level.size, spread.size))
    for i, z in enumerate(level):
        logits = -0.5 + 1.5 * z + x
        rate = expit(logits)
        for j, s in enumerate(spread):
            prior = -0.5 * (x / s) ** 2
            prior -= logsumexp(prior)
            total = -0.5 * z**2 - 0.5 * (s / field.scales[0]) ** 2 + np.log(s)
            for c, (y, n) in enumerate(zip(field.successes, field.trials, strict=True)):
                terms = prior + y * logits - n * np.logaddexp(0, logits)
                here = logsumexp(terms)
                rates[c, i, j] = np.exp(terms - here) @ rate
                total += here
            log_joint[i, j] = total
    weights = np.exp(log_joint - logsumexp(log_joint))
    return float(weights.sum(1) @ level), float(weights.sum(0) @ spread), np.einsum("cij,ij->c", rates, weights)


def test_means_agree_with_quadrature() -> None:
    field = cells([1, 9, 4], [12, 12, 6])
    level, spread, rates = by_quadrature(field)
    found = sample_field(field, seed=3, draws=20_000)
    assert found.pareto_k < LARGEST_PARETO_K
    for draws, expected in (
        (found.effects[:, 0], level),
        (found.spreads[:, 0], spread),
        *zip(expit(found.logits).T, rates, strict=True),
    ):
        z = (draws.mean() - expected) / (draws.std() / np.sqrt(found.effective))
        assert abs(z) <= 5


def test_without_a_spread_only_the_effects_are_drawn() -> None:
    field = LatentField(
        successes=np.array([3]),
        trials=np.array([10]),
        offset=np.zeros(1),
        design=np.array([[2.0]]),
        group=np.array([-1]),
        scales=np.empty(0),
    )
    x = np.linspace(-6, 6, 20_001)
    log_density = -0.5 * x**2 + 3 * 2 * x - 10 * np.logaddexp(0, 2 * x)
    weights = np.exp(log_density - logsumexp(log_density))
    found = sample_field(field, seed=1, draws=DRAWS)
    assert found.spreads.shape == (DRAWS, 0)
    mean = float(weights @ x)
    assert abs(found.effects[:, 0].mean() - mean) <= 5 * found.effects[:, 0].std() / np.sqrt(found.effective)
    sd = float(np.sqrt(weights @ (x - mean) ** 2))
    # a sample sd has relative error 1/sqrt(2 n) for a nearly normal law
    assert abs(found.effects[:, 0].std() / sd - 1) <= 5 / np.sqrt(2 * found.effective)


def test_nothing_counted_gives_the_prior_back() -> None:
    found = sample_field(cells([0, 0], [0, 0], scale=0.7), seed=2, draws=20_000)
    expected = 0.7 * np.sqrt(2 / np.pi)
    spread = found.spreads[:, 0]
    assert abs(spread.mean() - expected) <= 5 * spread.std() / np.sqrt(found.effective)


def test_same_seed_same_draws() -> None:
    field = cells([1, 9, 4], [12, 12, 6])
    a, b, c = (sample_field(field, seed=seed, draws=500) for seed in (1, 1, 2))
    assert np.array_equal(a.logits, b.logits)
    assert not np.array_equal(a.logits, c.logits)


def drawn(rng: np.random.Generator) -> tuple[LatentField, FloatArray]:
    """A field drawn from its prior: four cells and a walk of five steps; with a logit of each kind, and the spreads."""
    n_cells, n_steps = 4, 5
    walk = np.tile(np.tril(np.ones((n_steps, n_steps)))[:, 1:], (n_cells, 1))
    level = np.full((n_cells * n_steps, 1), 1.5)
    design = np.concatenate([level, walk, np.repeat(np.eye(n_cells), n_steps, axis=0)], axis=1)
    group = np.array([-1] + [0] * (n_steps - 1) + [1] * n_cells)
    scales = np.array([0.3, 0.7])
    spreads = np.abs(rng.normal(size=2)) * scales
    effects = rng.normal(size=group.size) * np.append(spreads, 1.0)[group]
    logits = -1.0 + design @ effects
    trials = rng.integers(0, 12, logits.size)
    field = LatentField(
        successes=rng.binomial(trials, expit(logits)),
        trials=trials,
        offset=np.full(logits.size, -1.0),
        design=design,
        group=group,
        scales=scales,
    )
    return field, np.concatenate([logits[[0, 7, 19]], spreads])


def ranks(n: int, *, shrink: float = 1.0) -> IntArray:
    """(n, 5) how many of 99 thinned draws lie below the truth; `shrink` pulls the draws to their mean."""
    rng = np.random.default_rng(8)
    found = []
    for seed in range(n):
        field, truth = drawn(rng)
        posterior: FieldPosterior = sample_field(field, seed=seed, draws=1_000)
        draws = np.concatenate([posterior.logits[:, [0, 7, 19]], posterior.spreads], axis=1)[:990:10]
        draws = draws.mean(axis=0) + shrink * (draws - draws.mean(axis=0))
        found.append((draws < truth).sum(axis=0))
    return np.array(found, dtype=np.int64)


def rank_p_value(found: IntArray, bins: int) -> float:
    """Smallest p value of uniformity over the five quantities."""
    counts = np.array([np.bincount(column * bins // 100, minlength=bins) for column in found.T])
    expected = len(found) / bins
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(axis=1), bins - 1).min())


def test_ranks_are_uniform() -> None:
    assert rank_p_value(ranks(60), 5) > 1e-6


@pytest.mark.slow
def test_ranks_are_uniform_over_many_fields() -> None:
    assert rank_p_value(ranks(400), 10) > 1e-6
    assert rank_p_value(ranks(400, shrink=0.5), 10) < 1e-6


def test_the_likelihood_is_binomial() -> None:
    """Evidence of one count under a fixed effect equals the sum over a grid; a missing constant would show."""
    from drsim.inference.latent_field import _log_likelihood

    field = cells([3], [7])
    logit = np.array([[0.4]])
    p = expit(0.4)
    choose = gammaln(8) - gammaln(4) - gammaln(5)
    assert _log_likelihood(field, logit)[0] == pytest.approx(choose + 3 * np.log(p) + 4 * np.log(1 - p))

r"""How tasks differ, from repeated runs: posterior of the mean and of ρ of beta-distributed success (THEORY section 2).

With K_i runs of task i, of which x_i succeed, and s_i ~ Beta(a, b),

.. math:: P(x_i) = \binom{K_i}{x_i} \frac{B(a + x_i, b + K_i - x_i)}{B(a, b)}, \quad \rho = 1/(a + b + 1) .

Two numbers are unknown, so that the posterior is summed on a grid of them, and drawn from cell by cell.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, logsumexp

from drsim.arrays import ArrayLike, FloatArray
from drsim.errors import ParameterError
from drsim.inference.rho_prior import RhoPrior
from drsim.theory.domain import check_shapes, check_whole

__all__ = ["TaskSpread", "fit_task_spread"]

N_CELLS = 201
"""On both axes; cells are drawn from evenly, so that nothing hangs on their middles."""
FLAT = RhoPrior(a=1.0, b=1.0)
"""Where runs are repeated they say what ρ is, and the prior need not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskSpread:
    """Posterior draws, (n,) each."""

    success: FloatArray
    """E[s] over tasks."""
    rho: FloatArray
    """ρ."""


def fit_task_spread(
    successes: ArrayLike, runs: ArrayLike, *, rho_prior: RhoPrior = FLAT, n_draws: int, seed: int
) -> TaskSpread:
    """Posterior draws of how tasks differ.

    Parameters
    ----------
    successes, runs : array_like
        (tasks,) x_i and K_i ≥ 1; tasks that were run once speak of the mean alone.
    rho_prior : RhoPrior
        Of ρ; the mean has Jeffreys' prior.
    n_draws : int
        At least 1.
    seed : int
        Of the draws.

    Returns
    -------
    TaskSpread

    Raises
    ------
    ParameterError
        A count is no whole number, there are no tasks, or successes exceed runs.

    References
    ----------
    THEORY section 2.
    """
    k = check_whole("runs", runs, 1, "leave out tasks without runs")
    x = check_whole("successes", successes, 0, "give counts of runs")
    check_shapes(successes=x, runs=k)
    if k.ndim != 1 or not k.size or np.any(x > k):
        raise ParameterError(
            "successes and runs must be one list each, of equal length, with no more successes than runs"
        )
    rng = np.random.default_rng(seed)
    middle = (np.arange(N_CELLS) + 0.5) / N_CELLS
    # Jeffreys' prior of a share is flat in the square of the sine
    angle = 0.5 * np.pi * middle
    if rho_prior.value is not None:
        rhos, log_prior = np.array([np.clip(rho_prior.value, 1e-9, 1.0 - 1e-9)]), np.zeros(1)
    else:
        rhos = middle
        log_prior = ((rho_prior.a or 0.0) - 1.0) * np.log(rhos) + ((rho_prior.b or 0.0) - 1.0) * np.log1p(-rhos)
    log_posterior = log_prior + _log_likelihood(np.sin(angle)[:, None] ** 2, rhos, x, k)
    weight = np.exp(log_posterior - logsumexp(log_posterior))
    cell = rng.choice(weight.size, p=weight.ravel() / weight.sum(), size=n_draws)
    row, column = np.unravel_index(cell, weight.shape)
    within, across = rng.random((2, n_draws)) - 0.5
    success = np.sin(0.5 * np.pi * (middle[row] + within / N_CELLS)) ** 2
    rho = rhos[column] + (0.0 if rho_prior.value is not None else across / N_CELLS)
    return TaskSpread(success=success, rho=rho)


def _log_likelihood(success: FloatArray, rho: FloatArray, x: FloatArray, k: FloatArray) -> FloatArray:
    """Log-likelihood up to a constant, broadcast shape of `success` and `rho`; equal tasks are counted once."""
    size = 1.0 / rho - 1.0
    a, b = success * size, (1.0 - success) * size
    pairs, counts = np.unique(np.stack([x, k], axis=1), axis=0, return_counts=True)
    total = np.zeros(np.broadcast_shapes(success.shape, rho.shape))
    for (hits, n), count in zip(pairs, counts, strict=True):
        total += count * (betaln(a + hits, b + n - hits) - betaln(a, b))
    return total

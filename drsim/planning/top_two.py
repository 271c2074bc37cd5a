r"""Which arm next: top-two sampling, and the value of a sample, on a normal posterior of all gains.

Arm 0 is the baseline, whose gain is 0. A draw from the posterior has a best arm, the leader; draws are repeated until
one has another, the challenger. Of the two the arm is run whose next task lowers the variance of their difference most
for its price: with n tasks and the prior's two, the variance v of a gain falls by v/(n + 3).

What choosing the best arm after m further tasks of arm a gains on choosing it now is

.. math:: σ̃\,f(-|μ_a - \max_{b ≠ a} μ_b| / σ̃), \quad σ̃^2 = v\,m/(n + 2 + m), \quad f(z) = φ(z) + zΦ(z).
"""

import math

import numpy as np
from numba import njit

from drsim.arrays import FloatArray, IntArray

__all__ = ["PRIOR_SQUARE", "PRIOR_TASKS", "best_shares", "fill_posterior", "leaders", "sample_value", "top_two"]

PRIOR_TASKS = 2.0
"""Half a task on each of the four pure tables, as in `inference.task_groups`."""
PRIOR_SQUARE = 1.0
"""Of which one task has a gain of ±1."""


@njit(cache=True)
def fill_posterior(shared: FloatArray, sums: FloatArray, cross: FloatArray, mean: FloatArray, cov: FloatArray) -> None:
    """Fill mean and covariance of the arms' gains: the joint Dirichlet posterior of task weights, to first order.

    Parameters
    ----------
    shared : FloatArray
        (A, A) tasks of both arms; on the diagonal, of each.
    sums : FloatArray
        (A, A) over the tasks of both, the sum of the first arm's gains.
    cross : FloatArray
        (A, A) over the tasks of both, the sum of the products of their gains.
    mean, cov : FloatArray
        (A,), (A, A) out.
    """
    n_arms = len(mean)
    for a in range(n_arms):
        mean[a] = sums[a, a] / (shared[a, a] + PRIOR_TASKS)
    for a in range(n_arms):
        for b in range(n_arms):
            residual = cross[a, b] - mean[a] * sums[b, a] - mean[b] * sums[a, b] + shared[a, b] * mean[a] * mean[b]
            if a == b:
                residual += PRIOR_SQUARE + PRIOR_TASKS * mean[a] * mean[a]
            cov[a, b] = residual / ((shared[a, a] + PRIOR_TASKS) * (shared[b, b] + PRIOR_TASKS))


@njit(cache=True)
def _cholesky(cov: FloatArray, root: FloatArray) -> None:
    """Fill the lower root of a positive definite matrix."""
    root[:] = 0.0
    for i in range(len(cov)):
        for j in range(i + 1):
            left = cov[i, j]
            for k in range(j):
                left -= root[i, k] * root[j, k]
            if i == j:
                root[i, i] = math.sqrt(max(left, 0.0))
            else:
                root[i, j] = left / root[j, j] if root[j, j] > 0.0 else 0.0


@njit(cache=True)
def leaders(mean: FloatArray, cov: FloatArray, normals: FloatArray, out: IntArray) -> None:
    """Fill the best arm of every draw.

    Parameters
    ----------
    mean, cov : FloatArray
        (A,), (A, A) posterior of the gains of arms 1 … A.
    normals : FloatArray
        (n_draws, A) standard normal numbers.
    out : IntArray
        (n_draws,) arm from 0, the baseline, to A.
    """
    root = np.empty_like(cov)
    _cholesky(cov, root)
    for draw in range(len(normals)):
        best, out[draw] = 0.0, 0
        for a in range(len(mean)):
            value = mean[a]
            for k in range(a + 1):
                value += root[a, k] * normals[draw, k]
            if value > best:
                best, out[draw] = value, a + 1


@njit(cache=True)
def top_two(mean: FloatArray, cov: FloatArray, normals: FloatArray, found: IntArray) -> None:
    """Fill leader and challenger.

    Parameters
    ----------
    mean, cov, normals
        As for `leaders`.
    found : IntArray
        (2,) out: best arm of the first draw, and of the first one that has another; where none has, the best other arm
        by its mean.
    """
    best = np.empty(len(normals), dtype=np.int64)
    leaders(mean, cov, normals, best)
    found[0] = found[1] = best[0]
    for draw in range(1, len(best)):
        if best[draw] != best[0]:
            found[1] = best[draw]
            return
    highest = -np.inf
    for arm in range(len(mean) + 1):
        value = 0.0 if arm == 0 else mean[arm - 1]
        if arm != best[0] and value > highest:
            highest, found[1] = value, arm


def best_shares(mean: FloatArray, cov: FloatArray, normals: FloatArray) -> FloatArray:
    """P(best) of every arm.

    Parameters
    ----------
    mean, cov, normals
        As for `leaders`.

    Returns
    -------
    ndarray
        (A + 1,) shares of the draws, the baseline's first.
    """
    best = np.empty(len(normals), dtype=np.int64)
    leaders(mean, cov, normals, best)
    return np.bincount(best, minlength=len(mean) + 1) / len(normals)


def sample_value(values: FloatArray, arm: int, variance: float, share: float) -> float:
    """What choosing after a sample of one arm gains on choosing now.

    Parameters
    ----------
    values : FloatArray
        (A + 1,) posterior means of what is maximised.
    arm : int
        The arm that is sampled.
    variance : float
        Of its mean.
    share : float
        Of the variance that the sample takes away, in [0, 1].

    Returns
    -------
    float
        ≥ 0.
    """
    spread = math.sqrt(variance * share)
    if spread == 0.0:
        return 0.0
    z = -abs(float(values[arm] - np.delete(values, arm).max())) / spread
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return spread * (density + z * 0.5 * math.erfc(-z / math.sqrt(2)))

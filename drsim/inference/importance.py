r"""Importance weights: how many draws they are worth, and whether they can be trusted.

The largest weights are replaced by the expected order statistics of a generalised Pareto distribution fitted to them
(Pareto smoothed importance sampling). Its shape k̂ says how heavy the tail is: up to 0.7 the answers can be relied on,
above it their error is not known.

References
----------
A. Vehtari, D. Simpson, A. Gelman, Y. Yao, J. Gabry, "Pareto smoothed importance sampling", JMLR 25 (2024), sections 3
and 4. J. Zhang, M. A. Stephens, "A new and efficient estimation method for the generalized Pareto distribution",
Technometrics 51 (2009): the fit of the tail.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from drsim.arrays import FloatArray, IntArray

__all__ = [
    "FEWEST_EFFECTIVE",
    "LARGEST_PARETO_K",
    "Importance",
    "fill_weights",
    "is_trusted",
    "resampled",
    "smooth",
]

LARGEST_PARETO_K = 0.7
"""Above it the number of draws that would be needed grows beyond bounds (JMLR 25, section 3.2)."""

FEWEST_EFFECTIVE = 400.0
"""Below it a 95 % limit has a Monte Carlo error above a seventh of the posterior's sd."""

SHRINK_WEIGHT = 10.0
"""Prior observations by which k̂ is drawn towards 0.5 (JMLR 25, appendix G)."""
FEWEST_IN_TAIL = 5
SMALLEST = 1e-300
"""Stands for an excess of 0, whose logarithm is taken."""
GRID_SCALE = 3.0
"""Zhang and Stephens, section 4: how far the grid of candidates reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """Normalised weights of draws."""

    weights: FloatArray
    """(n,) with sum 1."""
    pareto_k: float
    """Shape of the tail of the raw weights; infinite where there are too few to tell."""

    @property
    def effective(self) -> float:
        """Number of equally weighted draws that are worth as much: 1/Σw²."""
        return float(1.0 / np.sum(self.weights**2))

    @property
    def is_good(self) -> bool:
        """Whether the tail is light enough, and enough draws are effective."""
        return is_trusted(self.pareto_k, self.effective)


def is_trusted(pareto_k: float, effective: float) -> bool:
    """Whether weights with such a tail, worth so many draws, can be relied on; not where either is NaN."""
    return pareto_k <= LARGEST_PARETO_K and effective >= FEWEST_EFFECTIVE


def smooth(log_weights: FloatArray) -> Importance:
    """Smooth and normalise log weights.

    Parameters
    ----------
    log_weights : ndarray
        (n,) up to a constant; −inf for draws that are impossible.

    Returns
    -------
    Importance
    """
    weights = np.empty(log_weights.size)
    k = fill_weights(np.ascontiguousarray(log_weights), weights)
    return Importance(weights=weights, pareto_k=float(k))


@njit(cache=True, nogil=True)
def fill_weights(log_weights: FloatArray, weights: FloatArray) -> float:
    """Fill (n,) smoothed weights of sum 1 and return the shape of the tail: `smooth`, for compiled callers."""
    n = log_weights.size
    highest = log_weights.max()
    for i in range(n):
        weights[i] = math.exp(log_weights[i] - highest)
    n_tail = int(min(0.2 * n, 3.0 * math.sqrt(n)))
    k = math.inf
    if FEWEST_IN_TAIL <= n_tail < n:
        cut = np.partition(weights, n - n_tail - 1)[n - n_tail - 1]
        above = np.flatnonzero(weights > cut)
        tail = above[np.argsort(weights[above])]
        if cut > 0.0:  # else more draws are impossible than the tail leaves room for
            k = 0.0
            if tail.size > 0:
                k = _smooth_tail(weights, tail, cut, n_tail)
    weights /= weights.sum()
    return k


@njit(cache=True, nogil=True)
def _smooth_tail(weights: FloatArray, tail: IntArray, cut: float, n_tail: int) -> float:
    """Replace the `tail` of the weights, in rising order, by quantiles of the Pareto fit; ties with `cut` stay."""
    excess = np.empty(n_tail)
    n_ties = n_tail - tail.size
    for i in range(n_tail):
        above = weights[tail[i - n_ties]] - cut if i >= n_ties else 0.0
        excess[i] = max(above, SMALLEST)
    k, scale = _fit_pareto(excess)
    for i in range(n_ties, n_tail):
        log_above = math.log1p(-(i + 0.5) / n_tail)
        quantile = scale * (math.expm1(-k * log_above) / k if abs(k) > 1e-9 else -log_above)
        weights[tail[i - n_ties]] = min(quantile + cut, 1.0)
    return k


@njit(cache=True, nogil=True)
def _fit_pareto(excess: FloatArray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution for (m,) sorted positive values."""
    m = excess.size
    n_grid = 30 + int(math.sqrt(m))
    quarter = excess[int(m / 4.0 + 0.5) - 1]
    grid, logs = np.empty(n_grid), np.empty(n_grid)
    for i in range(n_grid):
        grid[i] = 1.0 / excess[m - 1] + (1.0 - math.sqrt(n_grid / (i + 0.5))) / (GRID_SCALE * quarter)
        shape = _mean_log(grid[i], excess)
        logs[i] = m * (math.log(-grid[i] / shape) - shape - 1.0)
    weights = np.exp(logs - logs.max())
    best = (weights * grid).sum() / weights.sum()
    shape = _mean_log(best, excess)
    return (shape * m + SHRINK_WEIGHT * 0.5) / (m + SHRINK_WEIGHT), -shape / best


@njit(cache=True, nogil=True)
def _mean_log(theta: float, excess: FloatArray) -> float:
    total = 0.0
    for i in range(excess.size):
        total += math.log1p(-theta * excess[i])
    return total / excess.size


def resampled(importance: Importance, n: int, rng: np.random.Generator) -> IntArray:
    """Indices of n draws by systematic resampling: each draw comes as often as its weight says, to within one.

    Parameters
    ----------
    importance : Importance
        Weights.
    n : int
        Draws wanted.
    rng : Generator
        For the one random offset and the order.

    Returns
    -------
    ndarray of int64
        (n,) in random order.
    """
    upto = np.cumsum(importance.weights)
    points = (np.arange(n) + rng.random()) / n * upto[-1]
    indices: IntArray = np.searchsorted(upto, points, side="right").clip(max=upto.size - 1).astype(np.int64)
    return rng.permutation(indices)

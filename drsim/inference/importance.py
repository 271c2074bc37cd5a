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

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from drsim.arrays import FloatArray, IntArray

__all__ = ["FEWEST_EFFECTIVE", "LARGEST_PARETO_K", "Importance", "is_trusted", "resampled", "smooth"]

LARGEST_PARETO_K = 0.7
"""Above it the number of draws that would be needed grows beyond bounds (JMLR 25, section 3.2)."""

FEWEST_EFFECTIVE = 400.0
"""Below it a 95 % limit has a Monte Carlo error above a seventh of the posterior's sd."""

SHRINK_WEIGHT = 10.0
"""Prior observations by which k̂ is drawn towards 0.5 (JMLR 25, appendix G)."""
FEWEST_IN_TAIL = 5
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
    n = log_weights.size
    ordered = np.argsort(log_weights, kind="stable")
    log_raw = log_weights - log_weights[ordered[-1]]
    n_tail = int(min(0.2 * n, 3.0 * np.sqrt(n)))
    cut = log_raw[ordered[-n_tail - 1]] if n_tail < n else -np.inf
    k = np.inf
    smoothed = log_raw.copy()
    if n_tail >= FEWEST_IN_TAIL and np.isfinite(cut):
        tail = ordered[-n_tail:]
        excess = np.exp(log_raw[tail]) - np.exp(cut)
        if excess[-1] > 0.0:
            k, scale = _fit_pareto(np.maximum(excess, np.finfo(float).tiny))
            at = (np.arange(n_tail) + 0.5) / n_tail
            quantiles = scale * (np.expm1(-k * np.log1p(-at)) / k if abs(k) > 1e-9 else -np.log1p(-at))
            smoothed[tail] = np.minimum(np.log(quantiles + np.exp(cut)), 0.0)
        else:
            k = 0.0
    weights: FloatArray = np.exp(smoothed - logsumexp(smoothed))
    return Importance(weights=weights, pareto_k=float(k))


def _fit_pareto(excess: FloatArray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution for (m,) sorted positive values."""
    m = excess.size
    n_grid = 30 + int(np.sqrt(m))
    quarter = excess[int(m / 4.0 + 0.5) - 1]
    grid = 1.0 / excess[-1] + (1.0 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))) / (GRID_SCALE * quarter)
    shapes = np.mean(np.log1p(-grid[:, None] * excess), axis=1)
    log_likelihood = m * (np.log(-grid / shapes) - shapes - 1.0)
    weights = np.exp(log_likelihood - logsumexp(log_likelihood))
    best = float(weights @ grid)
    shape = float(np.mean(np.log1p(-best * excess)))
    scale = -shape / best
    return (shape * m + SHRINK_WEIGHT * 0.5) / (m + SHRINK_WEIGHT), scale


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

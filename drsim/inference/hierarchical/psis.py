"""Pareto-smoothed importance sampling: weights whose largest are replaced by what a fitted tail expects of them.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry, *Pareto smoothed importance sampling*, JMLR 25 (2024); the fit of the tail is
that of Zhang and Stephens, Technometrics 51 (2009).
"""

import numpy as np

from drsim.arrays import FloatArray

__all__ = ["effective_draws", "smooth_weights"]

LEAST_TAIL = 5
"""Fewer weights tell no shape."""


def effective_draws(weights: FloatArray) -> float:
    """1/Σw² of normalised weights."""
    return float(1 / np.sum(weights**2))


def smooth_weights(log_weights: FloatArray) -> tuple[FloatArray, float]:
    """Normalised smoothed weights and the shape k of their tail.

    Parameters
    ----------
    log_weights : FloatArray
        (n,) log of target over proposal, up to a constant.

    Returns
    -------
    tuple of FloatArray, float
        (n,) weights that sum to 1, and k: above 0.7 their mean cannot be trusted; infinite without a tail to fit.
    """
    n = len(log_weights)
    shifted = log_weights - log_weights.max()
    n_tail = int(min(n / 5, 3 * n**0.5))
    if n_tail < LEAST_TAIL:
        weights = np.exp(shifted)
        return weights / weights.sum(), float("inf")
    order = np.argsort(shifted, kind="stable")
    tail = order[-n_tail:]
    cut = np.exp(shifted[order[-n_tail - 1]])
    excess = np.exp(shifted[tail]) - cut
    weights = np.exp(shifted)
    if excess[-1] <= 0 or excess[len(excess) // 4] <= 0:  # all weights alike: nothing to smooth
        return weights / weights.sum(), 0.0
    k, sigma = _fit_tail(excess)
    at = (np.arange(n_tail) + 0.5) / n_tail
    expected = sigma * -np.log1p(-at) if abs(k) < 1e-12 else sigma * np.expm1(-k * np.log1p(-at)) / k
    weights[tail] = np.minimum(cut + expected, 1.0)
    return weights / weights.sum(), k


def _fit_tail(x: FloatArray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto tail from ascending excesses, with a weak prior on the shape at ½."""
    n = len(x)
    n_grid = 30 + int(n**0.5)
    grid = 1 - (n_grid / (np.arange(1, n_grid + 1) - 0.5)) ** 0.5
    b = grid / (3 * x[n // 4]) + 1 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    log_likelihood = n * (np.log(-b / k) - k - 1)
    share = 1 / np.exp(log_likelihood - log_likelihood[:, None]).sum(axis=1)
    b_mean = float(np.sum(b * share) / share.sum())
    shape = float(np.log1p(-b_mean * x).mean())
    sigma = -shape / b_mean
    return (n * shape + 5) / (n + 10), sigma

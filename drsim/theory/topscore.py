r"""Probability that the top-scored of N attempts is a success: the integrals behind `selection`.

Scores are N(0, 1) for failures and N(m, 1) for successes. With y the distance of the best success from its own mean

.. math:: P = \int N s\,\varphi(y)\,\bigl(s\,\Phi(y) + (1-s)\,\Phi(y+m)\bigr)^{N-1}\,dy .

The integrand is analytic and falls off as the normal density on both sides, so the trapezoid rule with equal steps
converges exponentially, and faster than Gauss rules of as many nodes (Trefethen and Weideman, SIAM Review 56 (2014)
385–458).

Kernels: one-dimensional arrays of one length in and out, nothing is checked.
"""

from collections.abc import Callable

import numpy as np

from drsim.arrays import FloatArray, IntArray

__all__ = ["MAX_ATTEMPTS", "any_of", "average_over_shared_error", "log_all", "top_given_beta", "top_given_rate"]

MAX_ATTEMPTS = 512
"""With the nodes below the error, measured against steps of 1/20, is 1e-13 for N ≤ 64, 1e-11 for N = 256 and 3e-10
for N = 512: the best of more attempts has a narrower distribution, and wants finer steps."""

STEP = 1.0 / 6.0
NODES = STEP * np.arange(-43.0, 48.0)
"""From −7.17 to 7.83. Cut off on the left: at most Φ(−7.17) < 4e-13, since N s(1−s)^(N−1) ≤ 1; on the right: at most
N Φ(−7.83) < 2e-12 for N = 512."""

WEIGHTS = STEP / np.sqrt(2.0 * np.pi) * np.exp(-0.5 * NODES**2)

CHUNK = 1024
"""Elements at a time: 91 nodes of each are 0.7 MB, which stays in a core's cache."""

FAR = 12.0
"""Beyond a shift of ±12 the better kind is on top: of at most N²/4 pairs of one success and one failure each errs with
Φ(−12/√2) < 2e-17, together below 2e-12 for N = 512."""

WIDE = 7.0
"""Standard deviations of the shared error that are integrated over; the rest, Φ(−7) ≈ 1e-12 a side, counts as `worst`
and `best`."""

SHIFT_NODES = 96
"""Gauss nodes over the shared error; measured against 300 nodes: 1e-13 for N ≤ 64, 1e-11 for N = 256, 1e-10 for 512."""


def top_given_rate(success: FloatArray, attempts: FloatArray, shift: FloatArray) -> FloatArray:
    """P(top-scored attempt succeeds) where each attempt succeeds with probability s.

    Parameters
    ----------
    success, attempts, shift : ndarray
        (n,) s, N and m; m may be negative or infinite.

    Returns
    -------
    ndarray
        (n,).
    """
    from scipy.special import ndtr

    own = ndtr(NODES)
    out = np.empty(success.shape)
    # a negative shift is the other kind's positive one, where Φ(y+m) cannot vanish
    s = np.where(shift < 0.0, 1.0 - success, success)
    for part in _parts(success.size):
        rate = s[part, None]
        others = attempts[part, None] - 1.0
        beaten = rate * own + (1.0 - rate) * ndtr(NODES + np.abs(shift[part, None]))
        out[part] = _weighted(np.power(beaten, others), WEIGHTS)
    return _unswapped(attempts * s * out, shift)


def top_given_beta(a: FloatArray, b: FloatArray, attempts: FloatArray, shift: FloatArray) -> FloatArray:
    r"""The same, averaged over tasks with s ~ Beta(a, b).

    The average over s of the integrand is a polynomial in Φ(y)/Φ(y+m) with beta-binomial weights: how many of the
    other N − 1 attempts succeed. All its terms are positive.

    Parameters
    ----------
    a, b, attempts, shift : ndarray
        (n,) shapes of the distribution of s, N and m; m may be negative or infinite.

    Returns
    -------
    ndarray
        (n,).
    """
    from scipy.special import ndtr

    own = ndtr(NODES)
    out = np.empty(a.shape)
    good = np.where(shift < 0.0, b, a)
    bad = np.where(shift < 0.0, a, b)
    for part in _parts(a.size):
        others = attempts[part] - 1.0
        weights = _beta_binomial(good[part] + 1.0, bad[part], others)
        rival = ndtr(NODES + np.abs(shift[part, None]))
        odds = own / rival
        total = np.zeros(rival.shape)
        for weight in weights[::-1]:
            total = total * odds + weight[:, None]
        out[part] = _weighted(total * np.power(rival, others[:, None]), WEIGHTS)
    return _unswapped(attempts * good / (good + bad) * out, shift)


def average_over_shared_error(
    top: Callable[[IntArray, FloatArray], FloatArray],
    shift: FloatArray,
    shared: FloatArray,
    worst: FloatArray,
    best: FloatArray,
) -> FloatArray:
    r"""E[P(m')] where the errors that successes share and those that failures share move the shift at random.

    Seen in units of an attempt's own error, m' ~ N(μ/√(1−c), 2c/(1−c)). P(m') goes from `worst` to `best`, and is
    integrated where both it and the normal law still change.

    Parameters
    ----------
    top : callable
        (indices of elements, shifts) → P, all of one length.
    shift, shared : ndarray
        (n,) μ, finite, and c strictly between 0 and 1.
    worst, best : ndarray
        (n,) P at m' = −∞ and ∞.

    Returns
    -------
    ndarray
        (n,).
    """
    from scipy.special import ndtr

    centre = shift / np.sqrt(1.0 - shared)
    spread = np.sqrt(2.0 * shared / (1.0 - shared))
    lower = np.clip((-FAR - centre) / spread, -WIDE, WIDE)
    upper = np.clip((FAR - centre) / spread, -WIDE, WIDE)
    nodes, weights = np.polynomial.legendre.leggauss(SHIFT_NODES)
    half = 0.5 * (upper - lower)
    z = 0.5 * (lower + upper)[:, None] + half[:, None] * nodes
    index = np.repeat(np.arange(shift.size), SHIFT_NODES)
    values = top(index, (centre[:, None] + spread[:, None] * z).ravel()).reshape(z.shape)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    average: FloatArray = worst * ndtr(lower) + half * _weighted(values * density, weights) + best * ndtr(-upper)
    return average


def any_of(success: FloatArray, attempts: FloatArray) -> FloatArray:
    """P(at least one of N attempts succeeds), 1 − (1−s)^N, exact for small s; broadcasts.

    Parameters
    ----------
    success, attempts : ndarray
        s and N.

    Returns
    -------
    ndarray
        Broadcast shape.
    """
    from scipy.special import xlog1py

    some: FloatArray = -np.expm1(xlog1py(attempts, -success))
    return some


def log_all(a: FloatArray, b: FloatArray, attempts: FloatArray) -> FloatArray:
    r"""Log of the probability that all N attempts end in the way of which `a` is the shape; broadcasts.

    .. math:: \ln \frac{B(a+N, b)}{B(a, b)} = -\sum_{j<N} \ln\Bigl(1 + \frac{b}{a+j}\Bigr)

    Parameters
    ----------
    a, b, attempts : ndarray
        Shapes of the distribution of s (or, exchanged, of 1 − s) and N.

    Returns
    -------
    ndarray
        Broadcast shape.
    """
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape, attempts.shape))
    for j in range(int(np.max(attempts, initial=0.0))):
        # subtracting term by term keeps small probabilities exact, which a difference of log-betas does not
        total -= np.where(j < attempts, np.log1p(b / (a + j)), 0.0)
    return total


def _parts(size: int) -> list[slice]:
    return [slice(start, start + CHUNK) for start in range(0, size, CHUNK)]


def _weighted(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum over the last axis, in an order that hangs neither on the place of the row nor on threads, as BLAS may."""
    total: FloatArray = np.sum(values * weights, axis=-1)
    return total


def _unswapped(top: FloatArray, shift: FloatArray) -> FloatArray:
    return np.where(shift < 0.0, 1.0 - top, top)


def _beta_binomial(a: FloatArray, b: FloatArray, n: FloatArray) -> FloatArray:
    """(max n + 1, size) probabilities of k successes in n, from the ratios of neighbours; 0 where k > n."""
    k = np.arange(np.max(n) + 1.0)[:, None]
    # logs, since the first probability alone may underflow; −log1p keeps a small a/(b+j) and a large one
    log_first = -np.sum(np.where(k < n, np.log1p(a / (b + k)), 0.0), axis=0)
    left = np.maximum(n - k, 1.0)
    log_step = np.log(left * (a + k) / ((k + 1.0) * (b + left - 1.0)))
    log_weight = log_first + np.concatenate([np.zeros((1, n.size)), np.cumsum(log_step[:-1], axis=0)])
    return np.where(k <= n, np.exp(np.where(k <= n, log_weight, 0.0)), 0.0)

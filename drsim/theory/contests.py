r"""Best-of-N by how many attempts succeed: the same law as `selection` and `shared_error`, for any tasks at once.

P(the attempt on top succeeds) is a polynomial of degree N in s, and q_k, its value given that k of the N attempts
succeed, are its coefficients in Bernstein's basis:

.. math:: P(s) = \sum_{k=0}^N \binom{N}{k} s^k (1-s)^{N-k} q_k .

So whatever the tasks are like, only the distribution of k matters, and attempts of a task being exchangeable, that of
N attempts is that of more attempts thinned out. One table of k for the most attempts serves every N and selector.
"""

from functools import lru_cache

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.theory.critic import binormal_shift, check_auroc
from drsim.theory.domain import check_probability
from drsim.theory.selection import check_selected
from drsim.theory.topscore import NODES, WEIGHTS, average_over_shared_error

__all__ = ["success_counts", "thinned", "top_given_counts"]

CHUNK = 1024
"""Draws at a time, so that the powers of all their tasks stay in a cache."""


def top_given_counts(attempts: int, auroc: float, shared: float = 0.0) -> FloatArray:
    r"""P(the attempt on top succeeds | k of N succeed), for k from 0 to N.

    .. math:: q_k = \int k\,\varphi(y)\,\Phi(y)^{k-1}\,\Phi(y+m)^{N-k}\,dy

    averaged over the shift m where attempts of equal outcome share part of the selector's error.

    Parameters
    ----------
    attempts : int
        N, from 1 to 512.
    auroc : float
        P(a success outscores a failure of the same task), in [½, 1].
    shared : float
        c, share of a score's variance that attempts of equal outcome have in common, in [0, 1].

    Returns
    -------
    ndarray
        (N + 1,) rising from 0 to 1.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN.

    References
    ----------
    THEORY section 6.
    """
    n = int(check_selected(attempts))
    return _table(n, float(check_auroc(auroc)), float(check_probability("shared", shared))).copy()


@lru_cache(maxsize=1024)
def _table(n: int, area: float, c: float) -> FloatArray:
    """Kept, since one selector serves many arms."""
    if area == 1.0:
        return np.array([0.0] + [1.0] * n)
    inner = np.arange(1.0, n)
    if c == 1.0:
        return np.concatenate([[0.0], np.full(n - 1, area), [1.0]])
    shift = np.broadcast_to(binormal_shift(area), inner.shape)

    def top(index: IntArray, moved: FloatArray) -> FloatArray:
        return _top(inner[index], n, moved)

    if c == 0.0:
        between = _top(inner, n, shift)
    else:
        every = np.full(inner.shape, c)
        between = average_over_shared_error(top, shift, every, np.zeros(n - 1), np.ones(n - 1))
    return np.concatenate([[0.0], np.clip(between, 0.0, 1.0), [1.0]])


def _top(successes: FloatArray, n: int, shift: FloatArray) -> FloatArray:
    """q_k of counts (m,) under shifts (m,), which may be negative: then it is the failures' chance that is rare."""
    from scipy.special import log_ndtr

    k = np.where(shift < 0.0, n - successes, successes)[:, None]
    beaten = (k - 1.0) * log_ndtr(NODES) + (n - k) * log_ndtr(NODES + np.abs(shift)[:, None])
    best = k[:, 0] * np.sum(np.exp(beaten) * WEIGHTS, axis=1)
    return np.where(shift < 0.0, 1.0 - best, best)


def success_counts(success: FloatArray, weights: FloatArray, attempts: int) -> FloatArray:
    """Distribution of how many of N attempts at a task succeed.

    Parameters
    ----------
    success, weights : ndarray
        (D, J) success of each class of tasks, and its share; rows of `weights` sum to 1.
    attempts : int
        N ≥ 1.

    Returns
    -------
    ndarray
        (D, N + 1); rows sum to 1.
    """
    from scipy.special import comb

    ways = comb(attempts, np.arange(attempts + 1))
    counts = np.empty((success.shape[0], attempts + 1))
    for start in range(0, success.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        s, term = success[part], weights[part].copy()
        failing = [np.ones_like(s)]
        for _ in range(attempts):
            failing.append(failing[-1] * (1.0 - s))
        # every term is positive, so that nothing cancels
        for k in range(attempts + 1):
            counts[part, k] = ways[k] * np.einsum("dj,dj->d", term, failing[attempts - k])
            term *= s
    return counts


def thinned(coefficients: FloatArray, attempts: int) -> FloatArray:
    """Coefficients for the counts of more attempts: their mean over which N of the M attempts are made.

    Parameters
    ----------
    coefficients : ndarray
        (N + 1,) value given k of N.
    attempts : int
        M ≥ N.

    Returns
    -------
    ndarray
        (M + 1,) value given k of M: raising the degree of a polynomial in Bernstein's basis.
    """
    raised = np.asarray(coefficients, dtype=np.float64)
    for m in range(len(raised), attempts + 1):
        share = np.arange(m + 1.0) / m
        raised = share * np.concatenate([[0.0], raised]) + (1.0 - share) * np.concatenate([raised, [0.0]])
    return raised

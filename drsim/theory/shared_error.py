r"""Best-of-N where the selector errs alike on attempts that are alike (THEORY section 6).

Attempts of one task that end alike often look alike: the same wrong answer, made again, convinces again. The score of
an attempt is

.. math:: \mu\,[\text{success}] + \sqrt{c}\,e_{\text{outcome}} + \sqrt{1-c}\,\varepsilon,

with one error e for all successes of the task, one for all its failures, and ε for each attempt, all N(0, 1). For every
c a success outscores a failure of its task with probability AUROC, so an AUROC cannot tell c. (An error that all
attempts of a task share, whatever their outcome, changes no choice.)

With c = 0 many attempts drown the errors, and success tends to 1. With c > 0 they cannot, and it tends to
`shared_error_limit`, AUROC itself at c = 1: a task that succeeds more often than that loses by more attempts. Rare
successes gain by sharing: failures with errors of their own offer as many chances to be fooled, alike ones only one.
"""

from collections.abc import Callable

import numpy as np

from drsim.arrays import ArrayLike, FloatArray, IntArray
from drsim.theory.critic import binormal_shift, check_auroc
from drsim.theory.domain import check_beta, check_probability, check_shapes
from drsim.theory.selection import check_selected, flat
from drsim.theory.topscore import any_of, average_over_shared_error, log_all, top_given_beta, top_given_rate

__all__ = ["shared_error_best_of_n", "shared_error_best_of_n_beta", "shared_error_limit"]


def shared_error_best_of_n(success: ArrayLike, attempts: ArrayLike, auroc: ArrayLike, shared: ArrayLike) -> FloatArray:
    r"""Success of Best-of-N where attempts of one task that end alike share part of the selector's error.

    c = 0 is `selected_best_of_n`. At c = 1 the selector decides once a task, between its successes and its failures:

    .. math:: s^N + \bigl(1 - s^N - (1-s)^N\bigr)\,\mathrm{AUROC}

    Parameters
    ----------
    success : array_like
        s, in [0, 1].
    attempts : array_like
        N, whole numbers from 1 to 512.
    auroc : array_like
        P(a success outscores a failure of the same task), in [½, 1].
    shared : array_like
        c, share of a score's variance that attempts of equal outcome have in common, in [0, 1]; all shapes broadcast.

    Returns
    -------
    ndarray or float
        In [0, 1], broadcast shape; within 1e-9.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    s = check_probability("success", success)
    n, area, c = check_selected(attempts), check_auroc(auroc), check_probability("shared", shared)
    shape = check_shapes(success=s, attempts=n, auroc=area, shared=c)
    s, n, area, c = flat(shape, s, n, area, c)

    def top(index: IntArray, shift: FloatArray) -> FloatArray:
        return top_given_rate(s[index], n[index], shift)

    value: FloatArray = _average(top, s**n, any_of(s, n), area, c).reshape(shape)[()]
    return value


def shared_error_best_of_n_beta(
    a: ArrayLike, b: ArrayLike, attempts: ArrayLike, auroc: ArrayLike, shared: ArrayLike
) -> FloatArray:
    """The same, averaged over tasks with s ~ Beta(a, b).

    Parameters
    ----------
    a, b : array_like
        Shapes of the beta distribution of s, positive and finite.
    attempts : array_like
        N, whole numbers from 1 to 512.
    auroc : array_like
        P(a success outscores a failure of the same task), in [½, 1].
    shared : array_like
        c, share of a score's variance that attempts of equal outcome have in common, in [0, 1]; all shapes broadcast.

    Returns
    -------
    ndarray or float
        In [0, 1], broadcast shape; within 1e-9.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    a, b = check_beta(a, b)
    n, area, c = check_selected(attempts), check_auroc(auroc), check_probability("shared", shared)
    shape = check_shapes(a=a, b=b, attempts=n, auroc=area, shared=c)
    a, b, n, area, c = flat(shape, a, b, n, area, c)

    def top(index: IntArray, shift: FloatArray) -> FloatArray:
        return top_given_beta(a[index], b[index], n[index], shift)

    all_succeed, some_succeed = np.exp(log_all(a, b, n)), -np.expm1(log_all(b, a, n))
    value: FloatArray = _average(top, all_succeed, some_succeed, area, c).reshape(shape)[()]
    return value


def shared_error_limit(auroc: ArrayLike, shared: ArrayLike) -> FloatArray:
    r"""Success that Best-of-N tends to as N grows, on any task with 0 < s < 1.

    .. math:: \Phi\bigl(\Phi^{-1}(\mathrm{AUROC}) / \sqrt{c}\bigr)

    The best of many errors of their own lie level for successes and failures, and the shared ones decide. The limit is
    approached as slowly as 1/√ln N where c < 1.

    Parameters
    ----------
    auroc : array_like
        P(a success outscores a failure of the same task), in [½, 1].
    shared : array_like
        c, in [0, 1]; shapes that broadcast.

    Returns
    -------
    ndarray or float
        In [½, 1], broadcast shape; NaN at AUROC ½ with c = 0, where success is s for any N.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    from scipy.special import ndtr, ndtri

    area, c = check_auroc(auroc), check_probability("shared", shared)
    check_shapes(auroc=area, shared=c)
    # at c = 0 the quotient is ∞, or 0/0 where the scores say nothing
    with np.errstate(divide="ignore", invalid="ignore"):
        limit: FloatArray = ndtr(ndtri(area) / np.sqrt(c))
    return limit


def _average(
    top: Callable[[IntArray, FloatArray], FloatArray],
    worst: FloatArray,
    best: FloatArray,
    area: FloatArray,
    c: FloatArray,
) -> FloatArray:
    """P at each (AUROC, c): the integral only where neither end of c nor a perfect selector settles it."""
    shift = binormal_shift(area)
    value = worst + (best - worst) * area
    own = np.flatnonzero((c == 0.0) & (area < 1.0))
    value[own] = top(own, shift[own])
    both = np.flatnonzero((c > 0.0) & (c < 1.0) & (area < 1.0))

    def top_of_both(index: IntArray, moved: FloatArray) -> FloatArray:
        return top(both[index], moved)

    value[both] = average_over_shared_error(top_of_both, shift[both], c[both], worst[both], best[both])
    return np.clip(value, worst, best)

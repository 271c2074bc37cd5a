r"""Best-of-N: make N attempts at a task and keep the one that a selector scores highest (THEORY section 6).

Attempts are independent given the task, which succeeds with probability s. The selector is perfect, or scores successes
N(μ, 1) and failures N(0, 1) with μ = √2 Φ⁻¹(AUROC) and an error of its own for each attempt; `shared_error` is for
selectors that err alike on attempts that are alike.
"""

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.critic import binormal_shift, check_auroc
from drsim.theory.domain import check_beta, check_probability, check_shapes, check_whole
from drsim.theory.topscore import MAX_ATTEMPTS, any_of, log_all, top_given_beta, top_given_rate

__all__ = [
    "best_of_n",
    "best_of_n_beta",
    "selected_best_of_n",
    "selected_best_of_n_beta",
]

MAX_SUMMED = 10_000
"""Most attempts where one term is summed for each: further ones change nothing that can be afforded."""


def best_of_n(success: ArrayLike, attempts: ArrayLike) -> FloatArray:
    r"""Success of Best-of-N with a perfect selector on a task that succeeds with probability s.

    .. math:: 1 - (1-s)^N

    For tasks that differ take the mean of this over tasks, never this of the mean: 1 − (1 − E s)^N is too high.

    Parameters
    ----------
    success : array_like
        s, in [0, 1].
    attempts : array_like
        N, whole numbers from 1 on; shapes that broadcast.

    Returns
    -------
    ndarray or float
        In [0, 1], broadcast shape.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    s = check_probability("success", success)
    n = check_whole("attempts", attempts, 1, "give a number of attempts")
    check_shapes(success=s, attempts=n)
    return any_of(s, n)


def best_of_n_beta(a: ArrayLike, b: ArrayLike, attempts: ArrayLike) -> FloatArray:
    r"""Success of Best-of-N with a perfect selector over tasks with s ~ Beta(a, b).

    .. math:: 1 - B(a, b+N)/B(a, b) = 1 - \prod_{j<N} (b+j)/(a+b+j)

    The product is used: the difference of two log-beta functions loses its digits where a + b is large.

    Parameters
    ----------
    a, b : array_like
        Shapes of the beta distribution of s, positive and finite.
    attempts : array_like
        N, whole numbers from 1 to 10 000; all shapes broadcast.

    Returns
    -------
    ndarray or float
        In [0, 1], broadcast shape.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    a, b = check_beta(a, b)
    n = check_whole("attempts", attempts, 1, "give a number of attempts", upper=MAX_SUMMED)
    check_shapes(a=a, b=b, attempts=n)
    return -np.expm1(log_all(b, a, n))


def selected_best_of_n(success: ArrayLike, attempts: ArrayLike, auroc: ArrayLike) -> FloatArray:
    r"""Success of Best-of-N with an imperfect selector whose errors are independent.

    .. math:: \int N s\,\varphi(x-\mu)\,\bigl(s\,\Phi(x-\mu) + (1-s)\,\Phi(x)\bigr)^{N-1}\,dx

    AUROC ½ earns s, AUROC 1 what a perfect selector earns.

    Parameters
    ----------
    success : array_like
        s, in [0, 1].
    attempts : array_like
        N, whole numbers from 1 to 512.
    auroc : array_like
        Of the selector's scores, in [½, 1]; all shapes broadcast.

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
    n = check_selected(attempts)
    area = check_auroc(auroc)
    shape = check_shapes(success=s, attempts=n, auroc=area)
    s, n, area = flat(shape, s, n, area)
    top = top_given_rate(s, n, binormal_shift(area))
    return _settled(top, s, any_of(s, n), n, area, shape)


def selected_best_of_n_beta(a: ArrayLike, b: ArrayLike, attempts: ArrayLike, auroc: ArrayLike) -> FloatArray:
    """Success of Best-of-N with an imperfect selector, averaged over tasks with s ~ Beta(a, b).

    Parameters
    ----------
    a, b : array_like
        Shapes of the beta distribution of s, positive and finite.
    attempts : array_like
        N, whole numbers from 1 to 512.
    auroc : array_like
        Of the selector's scores, in [½, 1]; all shapes broadcast.

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
    n = check_selected(attempts)
    area = check_auroc(auroc)
    shape = check_shapes(a=a, b=b, attempts=n, auroc=area)
    a, b, n, area = flat(shape, a, b, n, area)
    top = top_given_beta(a, b, n, binormal_shift(area))
    return _settled(top, a / (a + b), -np.expm1(log_all(b, a, n)), n, area, shape)


def check_selected(attempts: ArrayLike) -> FloatArray:
    """`attempts` as float64 after checking that the integrals hold for so many.

    Parameters
    ----------
    attempts : array_like
        N, any shape.

    Returns
    -------
    ndarray
        Shape of `attempts`.

    Raises
    ------
    ParameterError
        An entry is no whole number from 1 to 512.
    """
    return check_whole("attempts", attempts, 1, "give a number of attempts", upper=MAX_ATTEMPTS)


def flat(shape: tuple[int, ...], *arrays: FloatArray) -> list[FloatArray]:
    """`arrays` broadcast to `shape` and laid out in one dimension, as kernels take them.

    Parameters
    ----------
    shape : tuple of int
        Their broadcast shape.
    *arrays : ndarray
        Checked arguments.

    Returns
    -------
    list of ndarray
        Each (size of `shape`,).
    """
    return [np.broadcast_to(array, shape).ravel() for array in arrays]


def _settled(
    top: FloatArray, chance: FloatArray, perfect: FloatArray, n: FloatArray, area: FloatArray, shape: tuple[int, ...]
) -> FloatArray:
    """`top` where it needs the integral, kept between choosing by chance and perfectly, which bound it."""
    is_chance = (n == 1.0) | (area == 0.5)
    value = np.where(is_chance, chance, np.where(area == 1.0, perfect, np.clip(top, chance, perfect)))
    settled: FloatArray = value.reshape(shape)[()]
    return settled

r"""Churn: what reruns alone do to recovery and disruption (THEORY section 2).

Task i succeeds with probability s_i. Pairing two baseline runs of each task, with no intervention at all, shows a
recovery rate r₀ and a disruption rate d₀ whose break-even rate is p itself. With the intraclass correlation
ρ = Var(s) / (p (1 − p))

.. math:: E[s(1-s)] = p(1-p)(1-\rho), \quad r_0 = (1-\rho)(1-p), \quad d_0 = (1-\rho)\,p .
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.errors import ParameterError
from drsim.theory.domain import check_beta, check_inside, check_probability, check_shapes, check_whole, ratio, shown

__all__ = [
    "ExcessRates",
    "RerunRates",
    "beta_from_rho",
    "excess_rates",
    "pairwise_churn",
    "rerun_rates",
    "rerun_rates_from_within",
    "rho_from_beta",
    "rho_from_within",
]

ROUNDING = 1e-12
"""Relative excess of E[s(1−s)] over p(1−p) that is taken for rounding: a mean over up to 4000 tasks, summed in any
order, errs by at most 4000 · 2⁻⁵³ < 1e-12."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRates:
    """Rates of two independent baseline runs of one task; every field has the broadcast shape."""

    recovery: FloatArray
    """r₀, P(the second run succeeds | the first failed)."""
    disruption: FloatArray
    """d₀, P(the second run fails | the first succeeded)."""
    churn: FloatArray
    """χ = 2 E[s(1−s)], P(the two end differently)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessRates:
    """Recovery and disruption beyond what reruns alone show; in [−1, 1], broadcast shape."""

    recovery: FloatArray
    """r_x = r − r₀."""
    disruption: FloatArray
    """d_x = d − d₀."""


def rerun_rates(failure_rate: ArrayLike, rho: ArrayLike) -> RerunRates:
    r"""Recovery, disruption and churn that independent reruns show without any intervention.

    .. math:: r_0 = (1-\rho)(1-p), \quad d_0 = (1-\rho)\,p, \quad \chi = 2p(1-p)(1-\rho)

    Parameters
    ----------
    failure_rate, rho : array_like
        p and ρ, in [0, 1]; shapes that broadcast.

    Returns
    -------
    RerunRates
        r₀, d₀ and χ; at p = 0 and p = 1, where one of the conditions never arises, the limits of the formulas.

    Raises
    ------
    ParameterError
        p or ρ is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    p = check_probability("failure_rate", failure_rate)
    rho = check_probability("rho", rho)
    check_shapes(failure_rate=p, rho=rho)
    within = 1.0 - rho
    return RerunRates(recovery=within * (1.0 - p), disruption=within * p, churn=2.0 * p * (1.0 - p) * within)


def rerun_rates_from_within(failure_rate: ArrayLike, within_variance: ArrayLike) -> RerunRates:
    r"""The same rates from the variance of outcomes within tasks, E[s(1−s)].

    .. math:: r_0 = E[s(1-s)]/E[1-s], \quad d_0 = E[s(1-s)]/E[s], \quad \chi = 2E[s(1-s)]

    Parameters
    ----------
    failure_rate : array_like
        p = E[1−s], in [0, 1].
    within_variance : array_like
        E[s(1−s)], in [0, p(1−p)]; shapes that broadcast.

    Returns
    -------
    RerunRates
        r₀ (NaN at p = 0, where no run fails), d₀ (NaN at p = 1) and χ.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    p, within = _within(failure_rate, within_variance)
    return RerunRates(
        recovery=ratio(within, p),
        disruption=ratio(within, 1.0 - p),
        churn=2.0 * within,
    )


def rho_from_within(failure_rate: ArrayLike, within_variance: ArrayLike) -> FloatArray:
    r"""Intraclass correlation from the variance of outcomes within tasks.

    .. math:: \rho = 1 - E[s(1-s)] / (p(1-p))

    Parameters
    ----------
    failure_rate : array_like
        p, in [0, 1].
    within_variance : array_like
        E[s(1−s)], in [0, p(1−p)]; shapes that broadcast.

    Returns
    -------
    ndarray or float
        ρ in [0, 1]; NaN at p = 0 and p = 1, where outcomes do not vary.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    p, within = _within(failure_rate, within_variance)
    return 1.0 - ratio(within, p * (1.0 - p))


def excess_rates(failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike, rho: ArrayLike) -> ExcessRates:
    r"""Recovery and disruption of independent pairs, less what reruns alone show.

    .. math:: r_x = r - r_0, \quad d_x = d - d_0, \quad \Delta = p\,r_x - (1-p)\,d_x

    Not for forked pairs: they share a prefix, and their r and d hold no churn from before the fork.

    Parameters
    ----------
    failure_rate, recovery, disruption, rho : array_like
        p, r, d and ρ, in [0, 1]; shapes that broadcast.

    Returns
    -------
    ExcessRates
        r_x and d_x; a negative r_x says that the intervention rescues fewer runs than a rerun would.

    Raises
    ------
    ParameterError
        A value is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    p = check_probability("failure_rate", failure_rate)
    r = check_probability("recovery", recovery)
    d = check_probability("disruption", disruption)
    rho = check_probability("rho", rho)
    check_shapes(failure_rate=p, recovery=r, disruption=d, rho=rho)
    rerun = rerun_rates(p, rho)
    return ExcessRates(recovery=r - rerun.recovery, disruption=d - rerun.disruption)


def rho_from_beta(a: ArrayLike, b: ArrayLike) -> FloatArray:
    r"""Intraclass correlation of tasks with s ~ Beta(a, b).

    .. math:: \rho = 1/(a + b + 1)

    Parameters
    ----------
    a, b : array_like
        Shapes of the beta distribution of success, positive and finite.

    Returns
    -------
    ndarray or float
        ρ in [0, 1].

    Raises
    ------
    ParameterError
        A shape parameter is not positive and finite, or the array shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    a, b = check_beta(a, b)
    check_shapes(a=a, b=b)
    return 1.0 / (a + b + 1.0)


def beta_from_rho(failure_rate: ArrayLike, rho: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""Beta distribution of success with failure rate p and intraclass correlation ρ.

    .. math:: a = (1-p)(1-\rho)/\rho, \quad b = p(1-\rho)/\rho

    Parameters
    ----------
    failure_rate, rho : array_like
        p and ρ, strictly between 0 and 1; shapes that broadcast.

    Returns
    -------
    a, b : ndarray or float
        Shapes of Beta(a, b) for s, the probability of success.

    Raises
    ------
    ParameterError
        p or ρ is outside (0, 1) or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    p = check_inside("failure_rate", failure_rate, "with 0 or 1 all tasks are alike and no beta distribution is needed")
    rho = check_inside("rho", rho, "with 0 all tasks are alike, with 1 each task always ends in the same way")
    check_shapes(failure_rate=p, rho=rho)
    size = (1.0 - rho) / rho
    return (1.0 - p) * size, p * size


def pairwise_churn(successes: ArrayLike, runs: ArrayLike) -> FloatArray:
    r"""Share of the pairs of a task's baseline runs that end differently.

    .. math:: \hat\chi_i = 2x_i(K_i - x_i) / (K_i(K_i - 1))

    Unbiased for 2 s_i (1 − s_i); the mean over tasks estimates χ.

    Parameters
    ----------
    successes, runs : array_like
        x_i successes in K_i runs of a task, whole numbers, x_i ≤ K_i; shapes that broadcast.

    Returns
    -------
    ndarray or float
        In [0, 1]; NaN where a task has fewer than two runs, hence no pair.

    Raises
    ------
    ParameterError
        A count is no whole number from 0 on, successes exceed runs, or the shapes do not fit.

    References
    ----------
    THEORY section 2.
    """
    remedy = "give counts of runs"
    x = check_whole("successes", successes, 0, remedy)
    k = check_whole("runs", runs, 0, remedy)
    check_shapes(successes=x, runs=k)
    if np.any(x > k):
        raise ParameterError("successes must not exceed runs; give both as counts of the same runs")
    return ratio(2.0 * x * (k - x), k * (k - 1.0))


def _within(failure_rate: ArrayLike, within_variance: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both arguments checked against each other, in their broadcast shape."""
    p = check_probability("failure_rate", failure_rate)
    within = check_probability("within_variance", within_variance)
    check_shapes(failure_rate=p, within_variance=within)
    p, within = np.broadcast_arrays(p, within)
    total = p * (1.0 - p)
    above = within > total * (1.0 + ROUNDING)
    if np.any(above):
        worst, limit = (shown(array[above].flat[0]) for array in (within, total))
        raise ParameterError(
            f"within_variance must lie in [0, p(1−p)] = [0, {limit}], got {worst}; give the mean of s(1−s) over tasks"
        )
    return p, np.minimum(within, total)

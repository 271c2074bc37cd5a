"""What explains falling hazards of retries: tasks that differ, contexts that mislead, or neither."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, xlog1py, xlogy
from scipy.stats import chi2

from drsim.arrays import ArrayLike, FloatArray
from drsim.errors import ParameterError
from drsim.theory.domain import check_shapes, check_whole
from drsim.theory.hazards import retry_hazards

__all__ = ["RetryFit", "RetryModel", "fit_retries"]

STARTS = ((0.2, -1.0), (0.5, 0.0), (0.8, 0.5))
"""ρ and ln c from which the search begins."""
LEAST = 1e-12
LIMITS = ((-8.0, 8.0), (-8.0, 8.0), (-4.0, 4.0))
"""Of the logits of E[s] and ρ, and of ln c: a factor of 1/50 leaves next to nothing, one of 50 next to nothing open."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetryModel:
    """One explanation at its largest likelihood."""

    success: float
    """E[s] of first attempts."""
    rho: float
    """ρ; 0 where tasks are taken for alike."""
    contamination: float
    """c; 1 where attempts are taken for fresh."""
    log_likelihood: float
    """Of all attempts, up to binomial coefficients."""
    hazards: FloatArray
    """(N,) predicted."""
    n_parameters: int

    @property
    def aic(self) -> float:
        """Akaike's criterion; the smaller the better."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetryFit:
    """Three explanations of one loop of retries."""

    independent: RetryModel
    """All attempts at all tasks are alike: 1 − (1 − p)^N."""
    tasks: RetryModel
    """Fresh attempts at tasks that differ."""
    context: RetryModel
    """Tasks that differ, and a factor on the odds of each next attempt."""

    @property
    def p_independent(self) -> float:
        """P-value of the independent model against tasks that differ: ρ = 0 is an end of its range, so that half of
        the chi-squared tail counts.
        """
        return 0.5 * _tail(self.independent, self.tasks)

    @property
    def p_fresh(self) -> float:
        """P-value of fresh attempts against contamination."""
        return _tail(self.tasks, self.context)


def _tail(small: RetryModel, large: RetryModel) -> float:
    statistic = max(0.0, 2.0 * (large.log_likelihood - small.log_likelihood))
    return float(chi2.sf(statistic, large.n_parameters - small.n_parameters))


def fit_retries(solved: ArrayLike, tried: ArrayLike) -> RetryFit:
    """Fit all three by maximum likelihood.

    Parameters
    ----------
    solved, tried : array_like
        (N,) tasks solved by attempt j, and tasks that were tried in it: those that failed in all before.

    Returns
    -------
    RetryFit
        Its ρ and contamination hang together: hazards alone do not tell them apart sharply.

    Raises
    ------
    ParameterError
        A count is no whole number, there are fewer than two attempts, or more tasks are solved than tried.

    References
    ----------
    THEORY section 6.
    """
    k = check_whole("solved", solved, 0, "give counts of tasks")
    n = check_whole("tried", tried, 0, "give counts of tasks")
    check_shapes(solved=k, tried=n)
    if k.ndim != 1 or k.size < 2 or np.any(k > n):
        raise ParameterError(
            "solved and tried must be one list each of two attempts or more, with no more solved than tried"
        )
    alike = float(k.sum() / n.sum())
    none = np.full(k.size, alike)
    independent = RetryModel(
        success=alike,
        rho=0.0,
        contamination=1.0,
        log_likelihood=_log_likelihood(none, k, n),
        hazards=none,
        n_parameters=1,
    )
    return RetryFit(
        independent=independent, tasks=_fitted(k, n, has_context=False), context=_fitted(k, n, has_context=True)
    )


def _log_likelihood(hazards: FloatArray, solved: FloatArray, tried: FloatArray) -> float:
    at_risk = tried > 0.0
    h = hazards[at_risk]
    return float(np.sum(xlogy(solved[at_risk], h) + xlog1py((tried - solved)[at_risk], -h)))


def _fitted(solved: FloatArray, tried: FloatArray, *, has_context: bool) -> RetryModel:
    n_parameters = 3 if has_context else 2

    def at(point: FloatArray) -> tuple[float, float, float]:
        return float(expit(point[0])), float(expit(point[1])), float(np.exp(point[2])) if has_context else 1.0

    def loss(point: FloatArray) -> float:
        # where no task is left the next attempt would solve what there is
        hazards = np.nan_to_num(retry_hazards(*at(point), solved.size), nan=1.0)
        return -_log_likelihood(np.clip(hazards, LEAST, 1.0 - LEAST), solved, tried)

    first = float((solved[0] + 0.5) / (tried[0] + 1.0))
    found = [
        minimize(
            loss,
            np.array([logit(first), logit(rho), log_factor])[:n_parameters],
            method="L-BFGS-B",
            bounds=LIMITS[:n_parameters],
        )
        for rho, log_factor in STARTS
    ]
    best = min(found, key=lambda it: float(it.fun))
    success, rho, factor = at(best.x)
    return RetryModel(
        success=success,
        rho=rho,
        contamination=factor,
        log_likelihood=-float(best.fun),
        hazards=retry_hazards(success, rho, factor, solved.size),
        n_parameters=n_parameters,
    )

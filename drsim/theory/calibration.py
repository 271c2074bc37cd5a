"""Is a critic's score a probability? Proper scores, calibration error, temperature scaling (THEORY section 3)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from drsim.arrays import ArrayLike, BoolArray, FloatArray, IntArray
from drsim.theory.domain import check_positive, check_probability, check_sample, check_shapes, check_whole

__all__ = [
    "CalibrationError",
    "TemperatureFit",
    "apply_temperature",
    "brier",
    "calibration_error",
    "fit_temperature",
    "negative_log_likelihood",
]

END = 2.0**-53
"""A score of exactly 1 is the rounding of something within 2⁻⁵³ of it, and is taken to lie that far off, as is 0; else
a single sure mistake would cost infinitely much at every temperature."""

COLDEST, HOTTEST = 0.01, 100.0
"""Temperatures searched. At 0.01 a score of 0.51 becomes 0.98, at 100 the most extreme score becomes 0.59: beyond,
scaling only makes scores more sure or more vague than any use has for."""

type FitStatus = Literal["failed", "converged", "flat", "lower end", "upper end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationError:
    """Expected calibration error with the bins that it sums over; bin arrays of shape (n_bins_used,)."""

    ece: float
    """Mean over runs of \\|share failed − mean score\\| in the run's bin."""
    floor: float
    """What `ece` would be on average for a perfectly calibrated critic with these scores and bins: chance alone makes a
    bin of n runs miss by about √(2 q(1−q) / (π n)), so more bins mean more error. Compare `ece` with it, not with 0."""
    mean_score: FloatArray
    """Mean score in each bin."""
    share_failed: FloatArray
    """Share of failing runs in each bin."""
    n_in_bin: IntArray
    """Runs in each bin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemperatureFit:
    """Result of temperature scaling."""

    temperature: float
    """T; above 1 the critic was too sure of itself."""
    nll_before: float
    """Mean negative log-likelihood of the scores as they were."""
    nll_after: float
    """The same after scaling with T."""
    status: FitStatus = "failed"
    """`converged`: the minimum lies inside [0.01, 100]. `lower end`: the scores separate failures from successes, any
    sharper is better. `upper end`: the scores say nothing or the opposite. `flat`: all are ½, T = 1."""


def brier(scores: ArrayLike, failed: ArrayLike) -> float:
    """Mean squared distance between predicted probability and outcome.

    Parameters
    ----------
    scores : array_like
        (n,) predicted probabilities of failure, in [0, 1].
    failed : array_like
        (n,) outcomes: booleans, or 0 and 1.

    Returns
    -------
    float
        In [0, 1]; a constant ½ earns ¼.

    Raises
    ------
    ParameterError
        A score is outside [0, 1], an outcome is not 0 or 1, or the lengths differ or are 0.

    References
    ----------
    Brier, Monthly Weather Review 78 (1950) 1–3; THEORY section 3.
    """
    q, y = _probabilities(scores, failed)
    return float(np.mean((q - y) ** 2))


def negative_log_likelihood(scores: ArrayLike, failed: ArrayLike) -> float:
    """Mean negative log-likelihood of the outcomes, in nats.

    Parameters
    ----------
    scores : array_like
        (n,) predicted probabilities of failure, in [0, 1]; 0 and 1 are taken to lie 2⁻⁵³ off.
    failed : array_like
        (n,) outcomes: booleans, or 0 and 1.

    Returns
    -------
    float
        At least 0, at most 53 ln 2; a constant ½ earns ln 2.

    Raises
    ------
    ParameterError
        A score is outside [0, 1], an outcome is not 0 or 1, or the lengths differ or are 0.

    References
    ----------
    THEORY section 3.
    """
    return _nll(_margins(*_probabilities(scores, failed)), 1.0)


def calibration_error(scores: ArrayLike, failed: ArrayLike, *, bins: int = 10) -> CalibrationError:
    """Expected calibration error over bins of equal mass.

    A run's bin is its mid-rank's, so tied scores stay together and the order of the runs means nothing; bins that ties
    leave empty are dropped.

    Parameters
    ----------
    scores : array_like
        (n,) predicted probabilities of failure, in [0, 1].
    failed : array_like
        (n,) outcomes: booleans, or 0 and 1.
    bins : int
        Bins wanted.

    Returns
    -------
    CalibrationError
        The error, what chance alone makes of it, and the bins for a reliability diagram.

    Raises
    ------
    ParameterError
        A score is outside [0, 1], an outcome is not 0 or 1, the lengths differ or are 0, or `bins` is no whole number
        from 1 on.

    References
    ----------
    Naeini et al., AAAI 2015; bias: Roelofs et al., arXiv:2012.08668; THEORY section 3.
    """
    q, y = _probabilities(scores, failed)
    n_bins = float(check_whole("bins", bins, 1, "give a number of bins"))
    _, place, ties = np.unique(q, return_inverse=True, return_counts=True)
    below = np.cumsum(ties) - ties
    rank = (below + 0.5 * ties) / q.size
    _, bin_of = np.unique(np.floor(n_bins * rank[place]), return_inverse=True)
    n_in_bin = np.bincount(bin_of)
    sum_score = np.bincount(bin_of, weights=q)
    sum_failed = np.bincount(bin_of, weights=y)
    spread = np.sqrt(2.0 / np.pi * np.bincount(bin_of, weights=q * (1.0 - q)))
    return CalibrationError(
        ece=float(np.sum(np.abs(sum_failed - sum_score)) / q.size),
        floor=float(np.sum(spread) / q.size),
        mean_score=sum_score / n_in_bin,
        share_failed=sum_failed / n_in_bin,
        n_in_bin=n_in_bin,
    )


def apply_temperature(scores: ArrayLike, temperature: ArrayLike) -> FloatArray:
    r"""Scores after temperature scaling.

    .. math:: q' = \sigma(\mathrm{logit}(q) / T)

    Parameters
    ----------
    scores : array_like
        q, in [0, 1]; 0 and 1 stay.
    temperature : array_like
        T, positive and finite; shapes that broadcast.

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
    Guo et al., ICML 2017, arXiv:1706.04599; THEORY section 3.
    """
    from scipy.special import expit, logit

    q = check_probability("scores", scores)
    scale = check_positive("temperature", temperature, "1 leaves the scores as they are")
    check_shapes(scores=q, temperature=scale)
    scaled: FloatArray = expit(logit(q) / scale)
    return scaled


def fit_temperature(scores: ArrayLike, failed: ArrayLike) -> TemperatureFit:
    r"""Temperature that makes the outcomes likeliest.

    The negative log-likelihood is convex in 1/T, so the root of its derivative in [0.01, 100] is the minimum, and equal
    signs at both ends say which end is.

    Parameters
    ----------
    scores : array_like
        (n,) predicted probabilities of failure, in [0, 1]; 0 and 1 are taken to lie 2⁻⁵³ off.
    failed : array_like
        (n,) outcomes: booleans, or 0 and 1.

    Returns
    -------
    TemperatureFit
        T with the likelihoods before and after; the status says whether an end of the range was hit.

    Raises
    ------
    ParameterError
        A score is outside [0, 1], an outcome is not 0 or 1, or the lengths differ or are 0.

    References
    ----------
    Guo et al., ICML 2017, arXiv:1706.04599; THEORY section 3.
    """
    margins = _margins(*_probabilities(scores, failed))
    temperature, status = _coolest(margins)
    return TemperatureFit(
        temperature=temperature, nll_before=_nll(margins, 1.0), nll_after=_nll(margins, temperature), status=status
    )


def _coolest(margins: FloatArray) -> tuple[float, FitStatus]:
    from scipy.optimize import brentq
    from scipy.special import expit

    def slope(log_temperature: float) -> float:
        """Derivative of the mean negative log-likelihood with respect to 1/T."""
        return float(-np.mean(margins * expit(-margins * np.exp(-log_temperature))))

    lower, upper = np.log(COLDEST), np.log(HOTTEST)
    if not np.any(margins):
        return 1.0, "flat"
    if slope(upper) >= 0.0:
        return HOTTEST, "upper end"
    if slope(lower) <= 0.0:
        return COLDEST, "lower end"
    return float(np.exp(brentq(slope, lower, upper))), "converged"


def _probabilities(scores: ArrayLike, failed: ArrayLike) -> tuple[FloatArray, BoolArray]:
    return check_sample(check_probability("scores", scores), failed)


def _margins(scores: FloatArray, failed: BoolArray) -> FloatArray:
    """Logits, positive where the score leans to what happened."""
    from scipy.special import logit

    z: FloatArray = logit(np.clip(scores, END, 1.0 - END))
    return np.where(failed, z, -z)


def _nll(margins: FloatArray, temperature: float) -> float:
    return float(np.mean(np.logaddexp(0.0, -margins / temperature)))

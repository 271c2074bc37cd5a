"""The receiver operating characteristic of scored runs: what a threshold catches and what it disturbs."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import ArrayLike, BoolArray, FloatArray, IntArray
from drsim.theory.domain import check_sample, ratio

__all__ = ["RocPoints", "auroc", "roc_points"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RocPoints:
    """Operating points from `never fires` to `always fires`; arrays of shape (n_distinct_scores + 1,)."""

    threshold: FloatArray
    """τ, falling; the critic fires when score > τ. The last is −inf, since every score exceeds it."""
    tpr: FloatArray
    """Share of the failing runs on which it fires; NaN when none failed."""
    fpr: FloatArray
    """Share of the succeeding runs on which it fires; NaN when none succeeded."""
    trigger_rate: FloatArray
    """Share of all runs on which it fires."""


def roc_points(scores: ArrayLike, failed: ArrayLike) -> RocPoints:
    """Every distinct operating point of a critic on scored runs.

    Tied scores cross a threshold together, so they make one point.

    Parameters
    ----------
    scores : array_like
        (n,) finite scores, high for an expected failure.
    failed : array_like
        (n,) outcomes: booleans, or 0 and 1.

    Returns
    -------
    RocPoints
        One point for each distinct score as threshold, and the point where the critic always fires.

    Raises
    ------
    ParameterError
        A score is not finite, an outcome is not 0 or 1, or the lengths differ or are 0.

    References
    ----------
    THEORY section 3.
    """
    distinct, fails, successes = _counts(*check_sample(scores, failed))
    fired_fails = np.concatenate([[0], np.cumsum(fails[::-1])]).astype(np.float64)
    fired_successes = np.concatenate([[0], np.cumsum(successes[::-1])]).astype(np.float64)
    return RocPoints(
        threshold=np.concatenate([distinct[::-1], [-np.inf]]),
        tpr=ratio(fired_fails, fired_fails[-1]),
        fpr=ratio(fired_successes, fired_successes[-1]),
        trigger_rate=(fired_fails + fired_successes) / (fired_fails[-1] + fired_successes[-1]),
    )


def auroc(scores: ArrayLike, failed: ArrayLike) -> float:
    r"""Probability that a failing run scores above a succeeding one, ties counted half.

    .. math:: \mathrm{AUROC} = P(x_f > x_s) + \tfrac12 P(x_f = x_s)

    The Mann–Whitney statistic over the number of pairs, from counts in O(n log n).

    Parameters
    ----------
    scores : array_like
        (n,) finite scores, high for an expected failure.
    failed : array_like
        (n,) outcomes: booleans, or 0 and 1.

    Returns
    -------
    float
        In [0, 1]; NaN when no run failed or none succeeded.

    Raises
    ------
    ParameterError
        A score is not finite, an outcome is not 0 or 1, or the lengths differ or are 0.

    References
    ----------
    Hanley and McNeil, Radiology 143 (1982) 29–36; THEORY section 3.
    """
    _, fails, successes = _counts(*check_sample(scores, failed))
    below = np.cumsum(successes) - successes
    # twice the statistic is a whole number, so nothing is rounded before the one division
    twice = np.sum(fails * (2 * below + successes))
    pairs = np.sum(fails) * np.sum(successes)
    return float(twice / (2 * pairs)) if pairs > 0 else float("nan")


def _counts(scores: FloatArray, failed: BoolArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Distinct scores, rising, with the failing and the succeeding runs at each."""
    distinct, place = np.unique(scores, return_inverse=True)
    fails = np.bincount(place[failed], minlength=distinct.size)
    successes = np.bincount(place[~failed], minlength=distinct.size)
    return distinct, fails, successes

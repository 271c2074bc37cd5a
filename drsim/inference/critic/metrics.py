"""How well scores tell failing from succeeding runs, and whether they are probabilities (THEORY section 3)."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.critic.scores import ScoredItems
from drsim.inference.critic.task_weights import TaskWeights
from drsim.inference.critic.weighted_auroc import auroc_draws
from drsim.inference.posterior import Uncertain
from drsim.theory import calibration
from drsim.theory.roc import auroc

__all__ = ["Bin", "CriticMetrics", "critic_metrics", "impossible"]

BINS_STREAM = 1
"""Stream of the prior weights of the reliability bins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """One bin of the reliability table."""

    mean_score: float
    share_failed: float
    posterior: Uncertain
    """The share that failed, with half a task of either end as prior."""
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticMetrics:
    """Metrics of runs or of steps; plain figures of the sample, and posteriors over tasks."""

    n: int
    n_failed: int
    plain_auroc: float
    """NaN where no run failed or none succeeded."""
    auroc: Uncertain | None
    auroc_within: Uncertain | None
    """Over pairs of one agent and benchmark only; None where there is one place."""
    plain_brier: float
    brier: Uncertain
    plain_nll: float
    """inf where a score of exactly 0 or 1 was wrong."""
    nll: Uncertain | None
    n_impossible: int
    """Scores of exactly 0 or 1 that were wrong."""
    ece: float
    """A plain figure: resampling would add to it the noise that it measures."""
    ece_floor: float
    """What `ece` would be on average by chance alone, tasks being the units."""
    reliability: tuple[Bin, ...]


def critic_metrics(items: ScoredItems, weights: TaskWeights, *, bins: int = 10) -> CriticMetrics:
    """Metrics of scored runs or steps.

    Parameters
    ----------
    items : ScoredItems
        At least one.
    weights : TaskWeights
        Draws over the tasks that the items name.
    bins : int
        Bins of equal mass wanted for the calibration error.

    Returns
    -------
    CriticMetrics

    Raises
    ------
    ParameterError
        `bins` is no whole number from 1 on.

    References
    ----------
    THEORY section 3.
    """
    scores, failed = items.scores, items.failed
    found = calibration.calibration_error(scores, failed, bins=bins)
    n_impossible = impossible(items)
    columns = np.stack([np.ones(len(scores)), (scores - failed) ** 2, _losses(items)], axis=1)
    n, squares, losses = weights.totals(items.by_task(columns, weights.n_tasks)).T
    reliability, floor = _reliability(items, found, weights)
    return CriticMetrics(
        n=len(scores),
        n_failed=items.n_failed,
        plain_auroc=auroc(scores, failed),
        auroc=Uncertain.from_draws(auroc_draws([items], weights)) if items.has_both_ends else None,
        auroc_within=_within(items, weights),
        plain_brier=calibration.brier(scores, failed),
        brier=Uncertain.from_draws(squares / n),
        plain_nll=calibration.negative_log_likelihood(scores, failed) if not n_impossible else float("inf"),
        nll=Uncertain.from_draws(losses / n) if not n_impossible else None,
        n_impossible=n_impossible,
        ece=found.ece,
        ece_floor=floor,
        reliability=reliability,
    )


def impossible(items: ScoredItems) -> int:
    """Scores of exactly 0 or 1 that were wrong: one of them makes the likelihood 0, its negative logarithm infinite."""
    return int(np.count_nonzero(items.scores == np.where(items.failed, 0.0, 1.0)))


def _losses(items: ScoredItems) -> FloatArray:
    """Negative log-likelihood of each item; 0 and 1 by the rule of `negative_log_likelihood`."""
    truth = np.where(items.failed, items.scores, 1.0 - items.scores)
    losses: FloatArray = -np.log(np.clip(truth, calibration.END, 1.0 - calibration.END))
    return losses


def _within(items: ScoredItems, weights: TaskWeights) -> Uncertain | None:
    """AUROC over pairs of items of one place, so that easy and hard benchmarks are not told apart by it."""
    places = np.unique(items.place)
    parts = [items.keep(items.place == place) for place in places]
    if len(places) < 2 or not any(part.has_both_ends for part in parts):
        return None
    return Uncertain.from_draws(auroc_draws(parts, weights))


def _reliability(
    items: ScoredItems, found: calibration.CalibrationError, weights: TaskWeights
) -> tuple[tuple[Bin, ...], float]:
    """The bins with the posterior of their shares, and what chance alone makes of the calibration error."""
    n_bins = len(found.n_in_bin)
    bin_of = np.empty(len(items.scores), dtype=np.int64)
    # A bin is a range of scores, so its members follow from the counts.
    bin_of[np.argsort(items.scores, kind="stable")] = np.repeat(np.arange(n_bins), found.n_in_bin)
    is_in = (bin_of[:, None] == np.arange(n_bins)).astype(np.float64)
    counts = items.by_task(is_in, weights.n_tasks)
    fails = items.by_task(is_in * items.failed[:, None], weights.n_tasks)
    deviation = items.by_task(is_in * (items.failed - items.scores)[:, None], weights.n_tasks)
    totals = weights.totals(np.concatenate([counts, fails], axis=1))
    n, n_failed = totals[:, :n_bins], totals[:, n_bins:]
    floor = float(_spread(deviation, counts).sum() / len(items.scores))
    shares = _shares(n, n_failed, found.n_in_bin / np.maximum((counts > 0).sum(axis=0), 1), weights)
    reliability = tuple(
        Bin(
            mean_score=float(found.mean_score[k]),
            share_failed=float(found.share_failed[k]),
            posterior=Uncertain.from_draws(shares[:, k]),
            n=int(found.n_in_bin[k]),
        )
        for k in range(n_bins)
    )
    return reliability, floor


def _spread(deviation: FloatArray, counts: FloatArray) -> FloatArray:
    """(n_bins,) mean absolute sums of (n_tasks, n_bins) deviations, were they noise of tasks: √(2/π) of their sd."""
    n_tasks = (counts > 0).sum(axis=0)
    # One task shows no spread about its own mean; then its whole deviation is taken for noise.
    centred = deviation - counts * (deviation.sum(axis=0) / counts.sum(axis=0) * (n_tasks > 1))
    variance = (centred**2).sum(axis=0) * n_tasks / np.maximum(n_tasks - 1, 1)
    spread: FloatArray = np.sqrt(2.0 / np.pi * variance)
    return spread


def _shares(n: FloatArray, n_failed: FloatArray, per_task: FloatArray, weights: TaskWeights) -> FloatArray:
    """(n_draws, n_bins) shares that failed; the prior's tasks have as many items as the bin's own."""
    prior = weights.prior(2 * n.shape[1], BINS_STREAM)
    failed, succeeded = prior[:, : n.shape[1]] * per_task, prior[:, n.shape[1] :] * per_task
    shares: FloatArray = (n_failed + failed) / (n + failed + succeeded)
    return shares

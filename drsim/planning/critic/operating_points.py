r"""What a critic's thresholds gain, with all that is uncertain in it (THEORY section 3).

.. math:: \Delta(\tau) = p\,\mathrm{TPR}(\tau)\,\rho_m - (1-p)\,\mathrm{FPR}(\tau)\,\delta_m

Every draw takes one set of task weights for p, TPR, FPR and the pairs behind ρ_m and δ_m. The shares have half a task
on each of `fires` and `does not fire` as prior, for failing and for succeeding runs: 0 of 8 false alarms are not none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.critic.scores import ScoredItems
from drsim.inference.critic.task_weights import TaskWeights
from drsim.inference.critic.temperature import split_tasks
from drsim.inference.posterior import Uncertain
from drsim.theory.critic import operating_gain
from drsim.theory.roc import RocPoints, roc_points

__all__ = [
    "ALWAYS",
    "NEVER",
    "ArmedCritic",
    "OperatingPoint",
    "Stakes",
    "arm_critic",
    "best_threshold",
    "cross_fitted_point",
    "shown_thresholds",
    "value_thresholds",
]

ALWAYS = -1.0
"""A threshold that every score in [0, 1] exceeds."""
NEVER = 1.0
"""A threshold that no score in [0, 1] exceeds."""

FIRING_STREAM = 4
"""Stream of the prior weights of firing."""
ENDS_STREAM = 5
"""Stream of the prior weights of the failure rate, where runs without scores tell it."""

MAX_SHOWN = 12
"""Operating points up to which all are shown."""
TRIGGER_RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Trigger rates shown where more can be reached."""

N_SPLITS = 10
"""Random halves over which cross-fitting is averaged: one split alone is a matter of luck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """What a fired run is worth; (n_draws,) each."""

    recovery: FloatArray
    """ρ_m."""
    disruption: FloatArray
    """δ_m."""
    as_run: FloatArray | None = None
    """Gain of the arm behind the rates over all its pairs, as it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedCritic:
    """A critic whose thresholds can be valued."""

    runs: ScoredItems
    """Scored runs of both ends."""
    weights: TaskWeights
    prior: FloatArray
    """(n_draws, 4) prior weight of failing runs that fire and do not fire, and of succeeding ones."""
    failure_rate: FloatArray
    """(n_draws,) p."""
    stakes: Stakes | None
    """None where nothing tells ρ_m and δ_m."""
    ends: FloatArray | None
    """(n_tasks, 2) failed and succeeded runs that tell p; None where the scored runs do."""

    def mean_stakes(self, items: ScoredItems | None = None) -> tuple[float, float]:
        """What firing on every failing run gains, p ρ_m, and what it costs on succeeding ones, (1 − p) δ_m.

        Parameters
        ----------
        items : ScoredItems, optional
            Runs whose tasks tell p; all by default. ρ_m and δ_m are those of all tasks.
        """
        if self.stakes is None:
            return float("nan"), float("nan")
        p = float(self.failure_rate.mean()) if items is None else self._failure_rate(items)
        return p * float(self.stakes.recovery.mean()), (1 - p) * float(self.stakes.disruption.mean())

    def _failure_rate(self, items: ScoredItems) -> float:
        if self.ends is None:
            failed, n = float(items.n_failed), float(len(items.failed))
        else:
            of_tasks = self.ends[np.unique(items.task)]
            failed, n = float(of_tasks[:, 0].sum()), float(of_tasks.sum())
        prior = _runs_per_task(self.runs)
        return (failed + prior) / (n + 2 * prior)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """A threshold, or a rule for choosing it, with what it does."""

    threshold: float | None
    """τ; the critic fires when a score exceeds it. −1: always, 1: never; None: chosen anew on every half."""
    trigger_rate: float
    """Share of the scored runs on which it fires."""
    tpr: Uncertain
    fpr: Uncertain
    gain: Uncertain | None
    prob_gain: float | None
    """P(Δ > margin)."""


def arm_critic(
    runs: ScoredItems, weights: TaskWeights, *, stakes: Stakes | None, ends: FloatArray | None
) -> ArmedCritic:
    """Bring scores, failure rate and stakes together.

    Parameters
    ----------
    runs : ScoredItems
        Scored runs of both ends.
    weights : TaskWeights
        Draws over their tasks.
    stakes : Stakes or None
        Draws of ρ_m and δ_m.
    ends : FloatArray or None
        (n_tasks, 2) failed and succeeded runs that tell p; None where the scored runs do.

    Returns
    -------
    ArmedCritic
    """
    prior = weights.prior(4, FIRING_STREAM) * _runs_per_task(runs)
    if ends is None:
        fails, successes = _masses(runs, np.ones((len(runs.scores), 1)), weights)
        failed, succeeded = fails[:, 0] + prior[:, :2].sum(axis=1), successes[:, 0] + prior[:, 2:].sum(axis=1)
    else:
        scale = float(ends.sum()) / max(1, int(np.count_nonzero(ends.sum(axis=1))))
        halves = weights.prior(4, ENDS_STREAM) * scale
        failed, succeeded = (weights.totals(ends) + halves[:, :2] + halves[:, 2:]).T
    return ArmedCritic(
        runs=runs, weights=weights, prior=prior, failure_rate=failed / (failed + succeeded), stakes=stakes, ends=ends
    )


def shown_thresholds(roc: RocPoints) -> list[float]:
    """Thresholds to show, from few firings to many: all of a few, or those nearest below round trigger rates.

    Parameters
    ----------
    roc : RocPoints
        Every operating point of the sample.

    Returns
    -------
    list of float
        The threshold at which nothing fires is left out.
    """
    if len(roc.threshold) <= MAX_SHOWN + 1:
        chosen = np.arange(1, len(roc.threshold))
    else:
        # A trigger rate is a ratio of two whole numbers, so that a tie with a round one may be off by a rounding.
        within = np.searchsorted(roc.trigger_rate, np.array(TRIGGER_RATES) + 1e-12, side="right") - 1
        chosen = np.unique(within[within > 0])
    return [_named(float(roc.threshold[k])) for k in chosen]


def value_thresholds(critic: ArmedCritic, thresholds: list[float], *, margin: float) -> list[OperatingPoint]:
    """Value fixed thresholds.

    Parameters
    ----------
    critic : ArmedCritic
        Scores and stakes.
    thresholds : list of float
        τ, each in [−1, 1].
    margin : float
        Gain that must be exceeded.

    Returns
    -------
    list of OperatingPoint
    """
    taus = np.array(thresholds)
    fired = (critic.runs.scores[:, None] > taus).astype(np.float64)
    return _value(critic, fired, _prior_fires(taus), thresholds, margin)


def best_threshold(critic: ArmedCritic, runs: ScoredItems | None = None) -> float:
    """The threshold with the largest mean gain on given runs; among equals the one that fires least.

    Parameters
    ----------
    critic : ArmedCritic
        Scores and stakes; ρ_m and δ_m enter by their means.
    runs : ScoredItems, optional
        Runs whose ROC and failure rate decide; all of the critic's by default.

    Returns
    -------
    float
        τ; 1 (never) where no threshold gains anything.
    """
    items = critic.runs if runs is None else runs
    roc = roc_points(items.scores, items.failed)
    half, n_failed = 0.5 * _runs_per_task(critic.runs), items.n_failed
    n_succeeded = len(items.failed) - n_failed
    tpr = (np.nan_to_num(roc.tpr) * n_failed + half) / (n_failed + 2 * half)
    fpr = (np.nan_to_num(roc.fpr) * n_succeeded + half) / (n_succeeded + 2 * half)
    tpr[0] = fpr[0] = 0.0
    tpr[-1] = fpr[-1] = 1.0
    benefit, harm = critic.mean_stakes(runs)
    best = int(np.argmax(benefit * tpr - harm * fpr))
    return NEVER if best == 0 else _named(float(roc.threshold[best]))


def cross_fitted_point(critic: ArmedCritic, *, seed: tuple[int, ...], margin: float) -> OperatingPoint | None:
    """The rule `take the best threshold`, each run met with the threshold of the half of the tasks that it is not in.

    Parameters
    ----------
    critic : ArmedCritic
        Scores and stakes; a half picks by its own ROC and p, but ρ_m and δ_m are those of all tasks.
    seed : tuple of int
        Key of the splits.
    margin : float
        Gain that must be exceeded.

    Returns
    -------
    OperatingPoint or None
        None with fewer than two tasks.
    """
    rng = np.random.default_rng(seed)
    fired = np.zeros((len(critic.runs.scores), 1))
    fires = np.zeros((2, 1))
    for _ in range(N_SPLITS):
        first = split_tasks(critic.runs, rng)
        if first is None:
            return None
        for half in (first, ~first):
            tau = best_threshold(critic, critic.runs.keep(~half))
            fired[half, 0] += critic.runs.scores[half] > tau
            fires += 0.5 * _prior_fires(np.array([tau]))
    (point,) = _value(critic, fired / N_SPLITS, fires / N_SPLITS, [None], margin)
    return point


def _named(threshold: float) -> float:
    return ALWAYS if threshold == -np.inf else threshold


def _runs_per_task(runs: ScoredItems) -> float:
    return len(runs.task) / len(np.unique(runs.task))


def _prior_fires(taus: FloatArray) -> FloatArray:
    """(2, k) whether the prior's two runs, one above and one below all others, fire; at `never` and `always` alike."""
    return np.stack([taus < NEVER, taus < 0.0]).astype(np.float64)


def _masses(runs: ScoredItems, fired: FloatArray, weights: TaskWeights) -> tuple[FloatArray, FloatArray]:
    """(n_draws, k) weights of the failing and of the succeeding runs on which (n, k) `fired` says that it fires."""
    k = fired.shape[1]
    by_end = [runs.by_task(fired * end[:, None], weights.n_tasks) for end in (runs.failed, ~runs.failed)]
    totals = weights.totals(np.concatenate(by_end, axis=1))
    return totals[:, :k], totals[:, k:]


def _value(
    critic: ArmedCritic,
    fired: FloatArray,
    fires: FloatArray,
    thresholds: Sequence[float | None],
    margin: float,
) -> list[OperatingPoint]:
    everything = np.ones((len(fired), 1))
    fails, successes = _masses(critic.runs, np.concatenate([fired, everything], axis=1), critic.weights)
    prior = critic.prior
    tpr = (fails[:, :-1] + _spread(prior[:, :2], fires)) / (fails[:, -1] + prior[:, :2].sum(axis=1))[:, None]
    fpr = (successes[:, :-1] + _spread(prior[:, 2:], fires)) / (successes[:, -1] + prior[:, 2:].sum(axis=1))[:, None]
    # Rounding must not take a share above 1, which the theory would refuse.
    tpr, fpr = np.minimum(tpr, 1.0), np.minimum(fpr, 1.0)
    points = []
    for k, threshold in enumerate(thresholds):
        gain = None
        if critic.stakes is not None:
            gain = operating_gain(
                critic.failure_rate, critic.stakes.recovery, critic.stakes.disruption, tpr[:, k], fpr[:, k]
            )
        points.append(
            OperatingPoint(
                threshold=threshold,
                trigger_rate=float(fired[:, k].mean()),
                tpr=Uncertain.from_draws(tpr[:, k]),
                fpr=Uncertain.from_draws(fpr[:, k]),
                gain=None if gain is None else Uncertain.from_draws(gain),
                prob_gain=None if gain is None else float(np.mean(gain > margin)),
            )
        )
    return points


def _spread(prior: FloatArray, fires: FloatArray) -> FloatArray:
    # Not BLAS, whose last bits depend on the number of threads.
    spread: FloatArray = np.einsum("nj,jk->nk", prior, fires, optimize=False)
    return spread

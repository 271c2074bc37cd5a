"""What acting on a critic's scores gains: rates, operating points, the best threshold, and the calibrated one."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.critic.firing_rates import FiringRates, rate_draws
from drsim.inference.critic.scores import ScoredItems
from drsim.inference.critic.task_weights import TaskWeights
from drsim.inference.critic.temperature import Temperature
from drsim.inference.posterior import Uncertain
from drsim.planning.critic.auroc_contrast import AurocContrast, contrast_auroc, stakes_threshold
from drsim.planning.critic.operating_points import (
    NEVER,
    ArmedCritic,
    OperatingPoint,
    Stakes,
    arm_critic,
    best_threshold,
    cross_fitted_point,
    shown_thresholds,
    value_thresholds,
)
from drsim.theory.calibration import apply_temperature
from drsim.theory.domain import ratio
from drsim.theory.roc import auroc, roc_points

__all__ = ["Calibrated", "CriticGains", "critic_gains", "stakes_of"]


MAX_ERROR = 2.0
"""Times the calibration error that chance alone makes, up to which scaled scores pass for probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The rule `intervene when the calibrated probability of failure exceeds η*`."""

    eta: float
    """η* by the mean stakes: the threshold on calibrated scores."""
    eta_posterior: Uncertain
    temperature: float
    """T of the steps' scores."""
    is_trustworthy: bool
    """Whether scaled scores come near to probabilities on tasks that the temperature was not fitted on."""
    point: OperatingPoint
    """The same rule as a threshold on raw scores, with what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticGains:
    """Operating points of one critic and what they gain."""

    failure_rate: Uncertain
    failure_rate_of: str
    """Arm whose runs tell p."""
    rates: FiringRates | None
    recovery: Uncertain | None
    disruption: Uncertain | None
    points: tuple[OperatingPoint, ...]
    """From few firings to many, the best among them."""
    best: OperatingPoint | None
    """The threshold with the largest mean gain; biased upwards, since it was picked. None without stakes."""
    n_thresholds: int
    """Thresholds that the best was picked from."""
    cross_fitted: OperatingPoint | None
    """The gain of picking a threshold, free of that bias."""
    calibrated: Calibrated | None
    contrast: AurocContrast | None
    as_run: Uncertain | None
    """Gain of the arm behind the rates over all its pairs, as it ran."""

    def is_above(self, confidence: float) -> bool:
        """Whether some operating point's gain exceeds the margin with this probability."""
        return any(point.prob_gain is not None and point.prob_gain >= confidence for point in self.points)


def critic_gains(
    runs: ScoredItems,
    weights: TaskWeights,
    *,
    rates: FiringRates | None,
    ends: FloatArray | None,
    failure_rate_of: str,
    temperature: Temperature,
    ece_floor: float,
    margin: float,
    seed: tuple[int, ...],
) -> CriticGains:
    """Value a critic's thresholds.

    Parameters
    ----------
    runs : ScoredItems
        Scored runs of both ends.
    weights : TaskWeights
        Draws over their tasks.
    rates : FiringRates or None
        Where ρ_m and δ_m come from.
    ends : FloatArray or None
        (n_tasks, 2) failed and succeeded runs that tell p; None where the scored runs do.
    failure_rate_of : str
        Name of the arm that tells p.
    temperature : Temperature
        T of the steps' scores, fitted and judged.
    ece_floor : float
        Calibration error of the steps' scores by chance alone.
    margin : float
        Gain that must be exceeded.
    seed : tuple of int
        Key of the splits into halves.

    Returns
    -------
    CriticGains

    References
    ----------
    THEORY section 3.
    """
    stakes = None if rates is None else stakes_of(rates, weights)
    critic = arm_critic(runs, weights, stakes=stakes, ends=ends)
    roc = roc_points(runs.scores, runs.failed)
    best_tau = None if stakes is None else best_threshold(critic)
    taus = shown_thresholds(roc)
    if best_tau is not None and best_tau not in (*taus, NEVER):
        taus = sorted([*taus, best_tau], reverse=True)
    points = value_thresholds(critic, taus, margin=margin)
    best = None if best_tau is None else value_thresholds(critic, [best_tau], margin=margin)[0]
    return CriticGains(
        failure_rate=Uncertain.from_draws(critic.failure_rate),
        failure_rate_of=failure_rate_of,
        rates=rates,
        recovery=None if stakes is None else _summary(stakes.recovery),
        disruption=None if stakes is None else _summary(stakes.disruption),
        points=tuple(points),
        best=best,
        n_thresholds=len(roc.threshold),
        cross_fitted=None if stakes is None else cross_fitted_point(critic, seed=seed, margin=margin),
        calibrated=_calibrated(critic, temperature, ece_floor, margin),
        contrast=None if best is None else contrast_auroc(critic, auroc(runs.scores, runs.failed), best),
        as_run=None if stakes is None or stakes.as_run is None else Uncertain.from_draws(stakes.as_run),
    )


def _calibrated(critic: ArmedCritic, temperature: Temperature, ece_floor: float, margin: float) -> Calibrated | None:
    eta = stakes_threshold(critic)
    if eta is None or critic.stakes is None:
        return None
    # Scores are scaled by 1/T to be calibrated; their threshold is scaled back by T.
    raw = float(apply_temperature(eta, 1.0 / temperature.fit.temperature))
    (point,) = value_thresholds(critic, [raw], margin=margin)
    recovery, disruption = critic.stakes.recovery, critic.stakes.disruption
    return Calibrated(
        eta=eta,
        eta_posterior=_summary(ratio(disruption, recovery + disruption)),
        temperature=temperature.fit.temperature,
        is_trustworthy=temperature.held_out is not None and temperature.held_out.ece_after <= MAX_ERROR * ece_floor,
        point=point,
    )


def _summary(draws: FloatArray) -> Uncertain:
    """Five numbers; exact ones where nothing varies, since summing would round them."""
    is_fixed = bool(np.all(draws == draws[0]))
    return Uncertain.from_draws(draws, (float(draws[0]), 0.0) if is_fixed else None)


def stakes_of(rates: FiringRates, weights: TaskWeights) -> Stakes:
    """Draws of ρ_m and δ_m under the task weights."""
    recovery, disruption, as_run = rate_draws(rates, weights)
    return Stakes(recovery=recovery, disruption=disruption, as_run=as_run)

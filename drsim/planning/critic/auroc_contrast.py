"""What an AUROC hides: the gains of critics that share it, and of a perfect and a random one."""

import math
from dataclasses import dataclass

from drsim.planning.critic.operating_points import ArmedCritic, OperatingPoint
from drsim.theory.critic import best_operating_point, calibrated_threshold, operating_gain

__all__ = ["AurocContrast", "contrast_auroc", "stakes_threshold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AurocContrast:
    """Gains with the mean p, ρ_m and δ_m of the critic at hand."""

    auroc: float
    binormal: float | None
    """Best gain of an equal-variance binormal critic with this AUROC; None below ½."""
    perfect: float
    """A critic that fires on failing runs only."""
    random: float
    """A critic that knows nothing: always or never."""
    disrupted_per_recovered: float | None
    """Runs disrupted for each one recovered at the best threshold; None where nothing is recovered."""


def contrast_auroc(critic: ArmedCritic, auroc: float, best: OperatingPoint) -> AurocContrast | None:
    """Hold the critic against others.

    Parameters
    ----------
    critic : ArmedCritic
        Scores and stakes.
    auroc : float
        Of its runs, plain.
    best : OperatingPoint
        Its best threshold.

    Returns
    -------
    AurocContrast or None
        None without stakes.
    """
    if critic.stakes is None:
        return None
    p, recovery, disruption = (
        float(draws.mean()) for draws in (critic.failure_rate, critic.stakes.recovery, critic.stakes.disruption)
    )
    benefit, harm = critic.mean_stakes()
    recovered, disrupted = benefit * best.tpr.mean, harm * best.fpr.mean
    return AurocContrast(
        auroc=auroc,
        binormal=float(best_operating_point(p, recovery, disruption, auroc).gain) if auroc >= 0.5 else None,
        perfect=float(operating_gain(p, recovery, disruption, 1.0, 0.0)),
        random=max(0.0, float(operating_gain(p, recovery, disruption, 1.0, 1.0))),
        disrupted_per_recovered=disrupted / recovered if recovered > 0 else None,
    )


def stakes_threshold(critic: ArmedCritic) -> float | None:
    """η*, the probability of failure above which firing pays, by the mean stakes; None where they are 0 or unknown."""
    if critic.stakes is None:
        return None
    eta = float(calibrated_threshold(critic.stakes.recovery.mean(), critic.stakes.disruption.mean()))
    return None if math.isnan(eta) else eta

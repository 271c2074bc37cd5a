r"""What the data of a pilot allow at best: the rungs of the ladder that need no step model (THEORY section 5)."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.churn import rerun_rates
from drsim.theory.critic import operating_gain
from drsim.theory.domain import check_probability, check_shapes
from drsim.theory.tradeoff import gain

__all__ = ["DataBounds", "data_bounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataBounds:
    """Gains over the baseline's success rate; every field has the broadcast shape."""

    gain: FloatArray
    """Δ of the arm as it is."""
    oracle_intervention: FloatArray
    """C/n: the arm applied, with hindsight, only to runs that would have failed. Never below `gain`."""
    oracle_best_of_two: FloatArray
    """χ/2 = E[1−(1−s)²] − E[s]: a second run of the baseline, and the better of the two. What `oracle_intervention`
    would be if the arm did nothing but run the task again."""
    oracle_excess: FloatArray
    """`oracle_intervention` − `oracle_best_of_two` = p·r_x, what of the former is not churn; for independent pairs."""
    perfect_critic: FloatArray
    """p·ρ_m: the mechanism fired on all would-fail runs and no other. Never below `oracle_intervention`."""
    random_critic: FloatArray
    """max(0, p·ρ_m − (1−p)·δ_m): the better of always and never firing."""


def data_bounds(
    failure_rate: ArrayLike,
    rho: ArrayLike,
    recovery: ArrayLike,
    disruption: ArrayLike,
    tpr: ArrayLike = 1.0,
    fpr: ArrayLike = 1.0,
) -> DataBounds:
    r"""Bounds on the gain from the rates of a pilot.

    .. math:: C/n = p\,\mathrm{TPR}\,\rho_m, \quad \chi/2 = p(1-p)(1-\rho)

    Parameters
    ----------
    failure_rate, rho : array_like
        p and ρ, in [0, 1].
    recovery, disruption : array_like
        ρ_m and δ_m, rates of the mechanism on the runs on which it fires, in [0, 1]. For an arm whose critic is unknown
        give r and d of the whole arm and leave `tpr` and `fpr` at 1; `perfect_critic` then is that of an arm which
        fires no more often on runs that would fail.
    tpr, fpr : array_like
        Shares of would-fail and would-succeed runs on which the arm's critic fires, in [0, 1]; all shapes broadcast.

    Returns
    -------
    DataBounds
        The arm's gain and its bounds.

    Raises
    ------
    ParameterError
        A value is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    arXiv:2602.03338, table 10, reports both oracles; THEORY section 5.
    """
    p = check_probability("failure_rate", failure_rate)
    between = check_probability("rho", rho)
    r = check_probability("recovery", recovery)
    d = check_probability("disruption", disruption)
    hits = check_probability("tpr", tpr)
    false_alarms = check_probability("fpr", fpr)
    shape = check_shapes(failure_rate=p, rho=between, recovery=r, disruption=d, tpr=hits, fpr=false_alarms)
    perfect = p * r
    oracle = perfect * hits
    best_of_two = 0.5 * rerun_rates(p, between).churn

    def full(value: FloatArray) -> FloatArray:
        return np.broadcast_to(value, shape)[()]

    return DataBounds(
        gain=full(operating_gain(p, r, d, hits, false_alarms)),
        oracle_intervention=full(oracle),
        oracle_best_of_two=full(best_of_two),
        oracle_excess=full(oracle - best_of_two),
        perfect_critic=full(perfect),
        random_critic=full(np.maximum(0.0, gain(p, r, d))),
    )

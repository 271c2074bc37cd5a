r"""The static trade-off between recovery and disruption (THEORY section 1).

An intervened arm flips some failing runs to success and some succeeding runs to failure. With the failure rate p of the
baseline, the recovery rate r and the disruption rate d

.. math:: \Delta = p\,r - (1 - p)\,d = (C - B)/n .
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.domain import check_probability, check_shapes, ratio

__all__ = ["MarginalBounds", "break_even", "gain", "intervened_success", "marginal_bounds"]


def gain(failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike) -> FloatArray:
    r"""Success rate that an intervention adds to the baseline's.

    .. math:: \Delta = p\,r - (1 - p)\,d

    Parameters
    ----------
    failure_rate, recovery, disruption : array_like
        p, r and d, probabilities in [0, 1]; shapes that broadcast.

    Returns
    -------
    ndarray or float
        Δ in [−1, 1], broadcast shape.

    Raises
    ------
    ParameterError
        A rate is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    arXiv:2602.03338, section 3; THEORY section 1.
    """
    p, r, d = _rates(failure_rate, recovery, disruption)
    return p * r - (1.0 - p) * d


def intervened_success(failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike) -> FloatArray:
    r"""Success rate of the intervened arm.

    .. math:: s_1 = p\,r + (1 - p)(1 - d)

    Parameters
    ----------
    failure_rate, recovery, disruption : array_like
        p, r and d, probabilities in [0, 1]; shapes that broadcast.

    Returns
    -------
    ndarray or float
        s₁ in [0, 1], broadcast shape.

    Raises
    ------
    ParameterError
        A rate is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 1.
    """
    p, r, d = _rates(failure_rate, recovery, disruption)
    return p * r + (1.0 - p) * (1.0 - d)


def break_even(recovery: ArrayLike, disruption: ArrayLike) -> FloatArray:
    r"""Failure rate above which intervening pays.

    .. math:: p^* = d / (r + d)

    Parameters
    ----------
    recovery, disruption : array_like
        r and d, probabilities in [0, 1]; shapes that broadcast.

    Returns
    -------
    ndarray or float
        p* in [0, 1], broadcast shape; NaN where r = d = 0, since then nothing ever flips.

    Raises
    ------
    ParameterError
        A rate is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    arXiv:2602.03338, section 3; THEORY section 1.
    """
    r = check_probability("recovery", recovery)
    d = check_probability("disruption", disruption)
    check_shapes(recovery=r, disruption=d)
    return ratio(d, r + d)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalBounds:
    """What two success rates without pairing allow; every field has the broadcast shape of the two."""

    gain: FloatArray
    """Δ = s₁ − s₀, the one quantity that is known exactly."""
    flips_lower: FloatArray
    """Smallest C/n, share of pairs that go from fail to success."""
    flips_upper: FloatArray
    """Largest C/n."""
    recovery_lower: FloatArray
    """Smallest r; NaN where no baseline run failed."""
    recovery_upper: FloatArray
    """Largest r; NaN where no baseline run failed."""
    disruption_lower: FloatArray
    """Smallest d; NaN where no baseline run succeeded."""
    disruption_upper: FloatArray
    """Largest d; NaN where no baseline run succeeded."""


def marginal_bounds(base_success: ArrayLike, arm_success: ArrayLike) -> MarginalBounds:
    r"""Sharp bounds on recovery and disruption from the success rates of two arms alone.

    .. math:: \max(0, s_1 - s_0) \le C/n \le \min(1 - s_0, s_1), \quad r = \frac{C/n}{1 - s_0}, \quad
              d = \frac{C/n - (s_1 - s_0)}{s_0}

    r and d rise together along the bounds: their lower ends belong to one table, their upper ends to another.

    Parameters
    ----------
    base_success, arm_success : array_like
        s₀ and s₁, success rates of the baseline and of the intervened arm, in [0, 1]; shapes that broadcast.

    Returns
    -------
    MarginalBounds
        Lower and upper ends of C/n, r and d.

    Raises
    ------
    ParameterError
        A rate is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    Fréchet bounds of a 2×2 table with given margins; THEORY section 1.
    """
    base = check_probability("base_success", base_success)
    arm = check_probability("arm_success", arm_success)
    check_shapes(base_success=base, arm_success=arm)
    fails = 1.0 - base
    flips_lower = np.maximum(0.0, arm - base)
    flips_upper = np.minimum(fails, arm)
    # B/n = C/n − (s₁ − s₀), written out at both ends: the subtraction would leave rounding where B/n is 0
    return MarginalBounds(
        gain=arm - base,
        flips_lower=flips_lower,
        flips_upper=flips_upper,
        recovery_lower=ratio(flips_lower, fails),
        recovery_upper=ratio(flips_upper, fails),
        disruption_lower=ratio(np.maximum(0.0, base - arm), base),
        disruption_upper=ratio(np.minimum(1.0 - arm, base), base),
    )


def _rates(
    failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    p = check_probability("failure_rate", failure_rate)
    r = check_probability("recovery", recovery)
    d = check_probability("disruption", disruption)
    check_shapes(failure_rate=p, recovery=r, disruption=d)
    return p, r, d

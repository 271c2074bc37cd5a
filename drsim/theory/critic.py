r"""The critic is a test, the intervention a treatment (THEORY section 3).

The critic fires on a share TPR(τ) of the runs that would fail and FPR(τ) of those that would succeed; once it fires,
the mechanism recovers with ρ_m and disrupts with δ_m:

.. math:: \Delta(\tau) = p\,\mathrm{TPR}(\tau)\,\rho_m - (1-p)\,\mathrm{FPR}(\tau)\,\delta_m .

Binormal critic of equal variances: the scores are N(0, 1) on runs that would succeed and N(μ, 1) on runs that would
fail, μ = √2 Φ⁻¹(AUROC).
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.domain import check_between, check_probability, check_shapes
from drsim.theory.tradeoff import break_even

__all__ = [
    "OperatingPoint",
    "best_operating_point",
    "binormal_shift",
    "calibrated_threshold",
    "check_auroc",
    "operating_gain",
    "smallest_auroc",
]

HALVINGS = 53
"""After 52 halvings the ends of what is left of [½, 1] are neighbours in float64, 2⁻⁵³ apart; one more tries ½ itself,
to which the middle of it and its neighbour rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Where a binormal critic does best; every field has the broadcast shape."""

    threshold: FloatArray
    """x*, in standard deviations from the mean score of runs that would succeed; −inf: always fire, inf: never, and
    also inf for a perfect critic, whose scores of failing runs lie beyond every number."""
    tpr: FloatArray
    """Share of would-fail runs on which the critic fires."""
    fpr: FloatArray
    """Share of would-succeed runs on which it fires."""
    gain: FloatArray
    """Δ* ≥ 0, the gain at x*."""


def operating_gain(
    failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike, tpr: ArrayLike, fpr: ArrayLike
) -> FloatArray:
    r"""Gain of a mechanism that is fired by a critic at one operating point.

    .. math:: \Delta = p\,\mathrm{TPR}\,\rho_m - (1-p)\,\mathrm{FPR}\,\delta_m

    Parameters
    ----------
    failure_rate : array_like
        p, in [0, 1].
    recovery, disruption : array_like
        ρ_m and δ_m: rates of the mechanism on the runs on which it fires, in [0, 1].
    tpr, fpr : array_like
        Shares of would-fail and would-succeed runs on which the critic fires, in [0, 1]; all shapes broadcast.

    Returns
    -------
    ndarray or float
        Δ in [−1, 1], broadcast shape.

    Raises
    ------
    ParameterError
        A value is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 3.
    """
    hits = check_probability("tpr", tpr)
    false_alarms = check_probability("fpr", fpr)
    benefit, harm = _stakes(failure_rate, recovery, disruption, tpr=hits, fpr=false_alarms)
    return benefit * hits - harm * false_alarms


def calibrated_threshold(recovery: ArrayLike, disruption: ArrayLike) -> FloatArray:
    r"""Probability of failure above which a calibrated critic should intervene.

    .. math:: \eta^* = \delta_m / (\rho_m + \delta_m)

    The break-even failure rate, read for one run: whoever believes that it fails with probability η gains η ρ_m and
    risks (1 − η) δ_m.

    Parameters
    ----------
    recovery, disruption : array_like
        ρ_m and δ_m, in [0, 1]; shapes that broadcast.

    Returns
    -------
    ndarray or float
        η* in [0, 1], broadcast shape; NaN where both rates are 0.

    Raises
    ------
    ParameterError
        A rate is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 3.
    """
    return break_even(recovery, disruption)


def binormal_shift(auroc: ArrayLike) -> FloatArray:
    r"""Distance between the mean scores of failing and succeeding runs, in standard deviations.

    .. math:: \mu = \sqrt2\,\Phi^{-1}(\mathrm{AUROC})

    Parameters
    ----------
    auroc : array_like
        In [½, 1].

    Returns
    -------
    ndarray or float
        μ ≥ 0; inf where the AUROC is 1.

    Raises
    ------
    ParameterError
        The AUROC is below ½, above 1 or NaN.

    References
    ----------
    THEORY section 3.
    """
    return _shift(check_auroc(auroc))


def best_operating_point(
    failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike, auroc: ArrayLike
) -> OperatingPoint:
    r"""Best threshold of a binormal critic, and the gain there.

    .. math:: x^* = \frac{\ln k}{\mu} + \frac{\mu}{2}, \quad k = \frac{(1-p)\,\delta_m}{p\,\rho_m}, \quad
              \Delta^* = p\,\rho_m\,\Phi(\mu - x^*) - (1-p)\,\delta_m\,\Phi(-x^*)

    A random critic (AUROC ½) can only fire always or never, Δ* = max(0, p ρ_m − (1−p) δ_m); a perfect one earns p ρ_m.

    Parameters
    ----------
    failure_rate : array_like
        p, in [0, 1].
    recovery, disruption : array_like
        ρ_m and δ_m, in [0, 1].
    auroc : array_like
        In [½, 1]; all shapes broadcast.

    Returns
    -------
    OperatingPoint
        x*, TPR, FPR and Δ*. Where firing can gain nothing the point is `never`.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 3.
    """
    area = check_auroc(auroc)
    benefit, harm = _stakes(failure_rate, recovery, disruption, auroc=area)
    return _best(benefit, harm, _shift(area))


def smallest_auroc(
    failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike, wanted_gain: ArrayLike
) -> FloatArray:
    """Smallest AUROC with which a binormal critic, at its best threshold, reaches a wanted gain.

    Δ* rises with the AUROC, from that of a random critic at ½ to p ρ_m at 1; the answer is found by bisection.

    Parameters
    ----------
    failure_rate : array_like
        p, in [0, 1].
    recovery, disruption : array_like
        ρ_m and δ_m, in [0, 1].
    wanted_gain : array_like
        In [−1, 1]; all shapes broadcast.

    Returns
    -------
    ndarray or float
        In [½, 1], broadcast shape: ½ says that a random critic does, 1 that only a perfect one does, NaN that even that
        falls short, since the wanted gain exceeds p ρ_m.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 3.
    """
    wanted = check_between("wanted_gain", wanted_gain, -1.0, 1.0, "give it as a difference of success rates")
    benefit, harm = _stakes(failure_rate, recovery, disruption, wanted_gain=wanted)
    shape = np.broadcast_shapes(benefit.shape, wanted.shape)
    lower = np.full(shape, 0.5)
    upper = np.ones(shape)
    for _ in range(HALVINGS):
        middle = 0.5 * (lower + upper)
        is_enough = _best(benefit, harm, _shift(middle)).gain >= wanted
        upper = np.where(is_enough, middle, upper)
        lower = np.where(is_enough, lower, middle)
    answer: FloatArray = np.where(wanted > benefit, np.nan, upper)[()]
    return answer


def check_auroc(auroc: ArrayLike) -> FloatArray:
    """`auroc` as float64 after checking that it lies in [½, 1].

    Parameters
    ----------
    auroc : array_like
        Any shape.

    Returns
    -------
    ndarray
        Shape of `auroc`.

    Raises
    ------
    ParameterError
        An entry is outside [½, 1] or NaN.
    """
    return check_between("auroc", auroc, 0.5, 1.0, "a critic below one half is used with its scores reversed")


def _stakes(
    failure_rate: ArrayLike, recovery: ArrayLike, disruption: ArrayLike, **others: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What always firing gains, p ρ_m, and what it costs, (1 − p) δ_m, in one shape that fits the `others`."""
    p = check_probability("failure_rate", failure_rate)
    r = check_probability("recovery", recovery)
    d = check_probability("disruption", disruption)
    check_shapes(failure_rate=p, recovery=r, disruption=d, **others)
    benefit, harm = np.broadcast_arrays(p * r, (1.0 - p) * d)
    return benefit, harm


def _shift(area: FloatArray) -> FloatArray:
    from scipy.special import ndtri

    shift: FloatArray = np.sqrt(2.0) * ndtri(area)
    return shift


def _best(benefit: FloatArray, harm: FloatArray, shift: FloatArray) -> OperatingPoint:
    from scipy.special import ndtr

    benefit, harm, shift = np.broadcast_arrays(benefit, harm, shift)
    # log 0 is −inf and says `always` or `never`
    with np.errstate(divide="ignore", invalid="ignore"):
        log_k = np.log(harm) - np.log(benefit)
        threshold = log_k / shift + 0.5 * shift
    # undefined where nothing is at stake, where a random critic's stakes are level, and for the infinite x* of a
    # perfect critic: the first two gain nothing by firing
    threshold = np.where(np.isnan(threshold), np.inf, threshold)
    is_perfect = (shift == np.inf) & (benefit > 0.0)
    # a perfect critic's x* and μ are both infinite; where it never fires, any finite μ gives the 0
    finite_shift = np.where(shift == np.inf, 0.0, shift)
    tpr = np.where(is_perfect, 1.0, ndtr(finite_shift - threshold))
    fpr = np.where(is_perfect, 0.0, ndtr(-threshold))
    # rounding must not take the best of all thresholds below `always` and `never`
    value = np.maximum(benefit * tpr - harm * fpr, np.maximum(0.0, benefit - harm))
    return OperatingPoint(threshold=threshold[()], tpr=tpr[()], fpr=fpr[()], gain=value[()])

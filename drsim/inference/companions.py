r"""Frequentist companions of a paired 2×2 table.

On n pairs: A fail→fail, B success→fail, C fail→success, D success→success; F = A + C, S = B + D. The gain is
Δ = (C − B)/n, intervened minus baseline, and every interval for Δ here has that orientation (THEORY.md section 1).

Nothing here knows a prior, and nothing here knows clusters: the pairs must be independent, so a table in which one task
holds several pairs gets p-values that are too small and intervals that are too short.

Two intervals for Δ stand side by side because they fail differently. Tango's inverts a score test, so it excludes 0
exactly when the McNemar statistic (C − B)²/(B + C) exceeds z², and it sees only B, C and n. Newcombe's combines the
Wilson limits of the two success rates with their correlation, so it sees A and D too.
"""

import math
import operator
from dataclasses import dataclass
from typing import Any

from scipy.special import betainc, ndtri

from drsim.errors import ParameterError

__all__ = [
    "Companions",
    "Interval",
    "companions",
    "mcnemar_exact",
    "mcnemar_midp",
    "newcombe_interval",
    "tango_interval",
]

type Interval = tuple[float, float]
"""Lower and upper limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """What a reader without a prior would report of one paired table."""

    a: int
    """A, pairs that fail in both arms."""
    b: int
    """B, pairs that the intervention disrupted: success→fail."""
    c: int
    """C, pairs that the intervention recovered: fail→success."""
    d: int
    """D, pairs that succeed in both arms."""
    confidence: float
    """Nominal two-sided coverage of every interval, in (0, 1)."""
    gain: float
    """Δ = (C − B)/n, in [−1, 1]."""
    mcnemar_midp: float
    """Two-sided mid-p-value of Δ = 0, in [0, 1]; 0 only where it is below the smallest float."""
    mcnemar_exact: float
    """Two-sided exact p-value of Δ = 0, in [0, 1]; never below the mid-p-value, and conservative."""
    newcombe: Interval
    """Newcombe's square-and-add interval for Δ."""
    tango: Interval
    """Tango's score interval for Δ."""
    failure_rate_wilson: Interval | None
    """Wilson interval for p = F/n."""
    recovery_wilson: Interval | None
    """Wilson interval for r = C/F; None when no baseline run failed."""
    disruption_wilson: Interval | None
    """Wilson interval for d = B/S; None when no baseline run succeeded."""

    def __str__(self) -> str:
        level = f"{100 * self.confidence:g}%"
        return (
            f"gain {100 * self.gain:+.1f} pp; {level} interval {_pp(self.tango)} (Tango), "
            f"{_pp(self.newcombe)} (Newcombe); McNemar mid-p {self.mcnemar_midp:.3g}, exact {self.mcnemar_exact:.3g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, for JSON; an interval is a list of two numbers, or null."""
        return {
            "a": self.a,
            "b": self.b,
            "c": self.c,
            "d": self.d,
            "confidence": self.confidence,
            "gain": self.gain,
            "mcnemar_midp": self.mcnemar_midp,
            "mcnemar_exact": self.mcnemar_exact,
            "newcombe": list(self.newcombe),
            "tango": list(self.tango),
            "failure_rate_wilson": _listed(self.failure_rate_wilson),
            "recovery_wilson": _listed(self.recovery_wilson),
            "disruption_wilson": _listed(self.disruption_wilson),
        }


def companions(a: int, b: int, c: int, d: int, *, confidence: float = 0.95) -> Companions:
    """Tests and intervals of one paired table, together.

    Parameters
    ----------
    a, b, c, d : int
        Counts of the table, each at least 0 and not all 0.
    confidence : float
        Nominal two-sided coverage of every interval, in (0, 1).

    Returns
    -------
    Companions
        p-values of Δ = 0, intervals for Δ, p, r and d.

    Raises
    ------
    ParameterError
        A count is not a whole number of pairs, the table is empty, or the confidence is not in (0, 1).

    References
    ----------
    THEORY.md sections 0 and 1; E. B. Wilson, Journal of the American Statistical Association 22 (1927) 209–212;
    otherwise see the single functions.
    """
    a, b, c, d = _checked_table(a, b, c, d)
    confidence = _checked_confidence(confidence)
    n_failed, n_succeeded = a + c, b + d
    return Companions(
        a=a,
        b=b,
        c=c,
        d=d,
        confidence=confidence,
        gain=(c - b) / (a + b + c + d),
        mcnemar_midp=mcnemar_midp(b, c),
        mcnemar_exact=mcnemar_exact(b, c),
        newcombe=newcombe_interval(a, b, c, d, confidence=confidence),
        tango=tango_interval(a, b, c, d, confidence=confidence),
        failure_rate_wilson=_wilson(n_failed, n_failed + n_succeeded, confidence),
        recovery_wilson=_wilson(c, n_failed, confidence) if n_failed else None,
        disruption_wilson=_wilson(b, n_succeeded, confidence) if n_succeeded else None,
    )


def mcnemar_exact(b: int, c: int) -> float:
    r"""Two-sided exact conditional McNemar test of Δ = 0.

    .. math:: 2\,P(X \le \min(B, C)), \quad X \sim \mathrm{Binomial}(B + C, 1/2), \text{ at most } 1

    Parameters
    ----------
    b, c : int
        Discordant pairs success→fail and fail→success, each at least 0.

    Returns
    -------
    float
        p-value; 1 when B and C differ by at most 1, so also when no pair is discordant.

    Raises
    ------
    ParameterError
        A count is not a whole number of pairs.

    References
    ----------
    M. W. Fagerland, S. Lydersen, P. Laake, BMC Medical Research Methodology 13 (2013) 91.
    """
    b, c = _checked_count("b", b), _checked_count("c", c)
    if abs(b - c) <= 1:
        return 1.0
    return 2 * _half_binomial_cdf(min(b, c), b + c)


def mcnemar_midp(b: int, c: int) -> float:
    r"""Two-sided mid-p McNemar test of Δ = 0.

    Half the probability of what was observed is left out of the exact p-value. Under Δ = 0 the exact test rejects far
    less often than its level; the mid-p test comes close to it, and passed it in no scenario of the reference.

    .. math:: P(|2X - m| > |B - C|) + \tfrac12 P(|2X - m| = |B - C|), \quad X \sim \mathrm{Binomial}(m, 1/2),\ m = B + C

    Parameters
    ----------
    b, c : int
        Discordant pairs success→fail and fail→success, each at least 0.

    Returns
    -------
    float
        p-value. 1 by convention when no pair is discordant: the definition gives 1/2 there, which would read as
        evidence although nothing was observed.

    Raises
    ------
    ParameterError
        A count is not a whole number of pairs.

    References
    ----------
    M. W. Fagerland, S. Lydersen, P. Laake, BMC Medical Research Methodology 13 (2013) 91.
    """
    b, c = _checked_count("b", b), _checked_count("c", c)
    n_discordant, fewer = b + c, min(b, c)
    if n_discordant == 0:
        return 1.0
    below = _half_binomial_cdf(fewer - 1, n_discordant)
    # At B = C the two tails meet in one value, whose half probability is 1/2 − P(X < B).
    return below + (0.5 if b == c else _half_binomial_cdf(fewer, n_discordant))


def newcombe_interval(a: int, b: int, c: int, d: int, *, confidence: float = 0.95) -> Interval:
    r"""Newcombe's square-and-add interval for Δ, method 10 of the reference.

    With s₁ = (C + D)/n, s₀ = (B + D)/n and their Wilson limits l and u,

    .. math::
        \Delta_L = \hat\Delta - \sqrt{(s_1 - l_1)^2 - 2\hat\phi(s_1 - l_1)(u_0 - s_0) + (u_0 - s_0)^2},

        \Delta_U = \hat\Delta + \sqrt{(u_1 - s_1)^2 - 2\hat\phi(u_1 - s_1)(s_0 - l_0) + (s_0 - l_0)^2}.

    φ̂ is the correlation of the table, (AD − BC)/√(F·S·(A+B)·(C+D)), its numerator lowered by n/2, but not below 0,
    when positive; it is 0 when a margin is empty. The limits cannot leave [−1, 1], since |φ̂| ≤ 1 bounds them by
    l₁ − u₀ and u₁ − l₀.

    Parameters
    ----------
    a, b, c, d : int
        Counts of the table, each at least 0 and not all 0.
    confidence : float
        Nominal two-sided coverage, in (0, 1).

    Returns
    -------
    tuple of float
        Lower and upper limit for Δ, intervened minus baseline.

    Raises
    ------
    ParameterError
        A count is not a whole number of pairs, the table is empty, or the confidence is not in (0, 1).

    References
    ----------
    R. G. Newcombe, Statistics in Medicine 17 (1998) 2635–2650.
    """
    a, b, c, d = _checked_table(a, b, c, d)
    confidence = _checked_confidence(confidence)
    n = a + b + c + d
    s0, s1, gain = (b + d) / n, (c + d) / n, (c - b) / n
    lower0, upper0 = _wilson(b + d, n, confidence)
    lower1, upper1 = _wilson(c + d, n, confidence)
    phi = _corrected_phi(a, b, c, d)
    return (
        gain - _correlated_distance(s1 - lower1, upper0 - s0, phi),
        gain + _correlated_distance(upper1 - s1, s0 - lower0, phi),
    )


def tango_interval(a: int, b: int, c: int, d: int, *, confidence: float = 0.95) -> Interval:
    r"""Tango's score interval for Δ: the values that his score test does not reject.

    .. math::
        T(\Delta) = \frac{C - B - n\Delta}{\sqrt{n\,(2\hat q + \Delta - \Delta^2)}}, \qquad |T(\Delta)| \le z,

    where q̂ is the maximum likelihood estimate of P(success→fail) given Δ, the larger root of
    2n·q² + [(2n + B − C)Δ − B − C]·q − BΔ(1 − Δ) = 0.

    Parameters
    ----------
    a, b, c, d : int
        Counts of the table, each at least 0 and not all 0; A and D matter through n alone.
    confidence : float
        Nominal two-sided coverage, in (0, 1).

    Returns
    -------
    tuple of float
        Lower and upper limit for Δ, intervened minus baseline.

    Raises
    ------
    ParameterError
        A count is not a whole number of pairs, the table is empty, or the confidence is not in (0, 1).

    References
    ----------
    T. Tango, Statistics in Medicine 17 (1998) 891–908.
    """
    a, b, c, d = _checked_table(a, b, c, d)
    n, z = a + b + c + d, float(ndtri(0.5 + 0.5 * _checked_confidence(confidence)))
    return -_tango_upper(c, b, n, z), _tango_upper(b, c, n, z)


def _tango_upper(b: int, c: int, n: int, z: float) -> float:
    """Δ above the estimate at which Tango's statistic is −z."""
    # In these three tables the variance vanishes at Δ̂, which is then itself a root of the equation below, and q̂ is 0
    # or (1 ∓ Δ)/2 all along, so that T² = z² is linear in Δ.
    if b + c == 0:
        return z**2 / (n + z**2)
    if b == n:
        return (z**2 - n) / (z**2 + n)
    if c == n:
        return 1.0

    from scipy.optimize import brentq  # half a second at module level, for commands that need no root

    gain = (c - b) / n

    def excess(delta: float) -> float:
        """Zero where T = −z; free of the quotient, which has no value at Δ = 1."""
        return n * (delta - gain) - z * math.sqrt(n * _score_variance(delta, b, c, n))

    return float(brentq(excess, gain, 1.0, xtol=1e-16, rtol=1e-15))


def _score_variance(delta: float, b: int, c: int, n: int) -> float:
    """2q̂ + Δ − Δ², n times the variance of Δ̂ when the true gain is `delta`."""
    # Exchanging the arms keeps both summands of the root below free of a difference.
    if delta < 0:
        delta, b, c = -delta, c, b
    slope = (2 * n + b - c) * delta - (b + c)
    constant = b * delta * (1 - delta)
    root = math.sqrt(slope**2 + 8 * n * constant)
    disruption = 2 * constant / (slope + root) if slope > 0 else (root - slope) / (4 * n)
    return 2 * disruption + delta * (1 - delta)


def _corrected_phi(a: int, b: int, c: int, d: int) -> float:
    """Correlation of the two arms with Newcombe's continuity correction."""
    margins = (a + c) * (b + d) * (a + b) * (c + d)
    if margins == 0:
        return 0.0
    covariance: float = a * d - b * c
    if covariance > 0:
        covariance = max(covariance - (a + b + c + d) / 2, 0.0)
    return covariance / math.sqrt(margins)


def _correlated_distance(x: float, y: float, phi: float) -> float:
    """√(x² − 2φxy + y²), written so that rounding cannot make the radicand negative."""
    return math.sqrt((x - y) ** 2 + 2 * (1 - phi) * x * y)


def _half_binomial_cdf(k: int, n: int) -> float:
    """P(X ≤ k) for X ~ Binomial(n, 1/2), k < n."""
    return float(betainc(n - k, k + 1, 0.5)) if k >= 0 else 0.0


def _wilson(successes: int, n: int, confidence: float) -> Interval:
    """Wilson's score interval for a proportion of n ≥ 1."""
    from scipy.stats import binomtest  # a second at module level, for commands that need no interval

    interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)


def _checked_table(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    table = _checked_count("a", a), _checked_count("b", b), _checked_count("c", c), _checked_count("d", d)
    if sum(table) == 0:
        raise ParameterError("the table must hold at least one pair, got a = b = c = d = 0; collect paired runs first")
    return table


def _checked_count(name: str, value: int) -> int:
    # bool is an int, but True is no count that anybody means to give.
    if not isinstance(value, bool):
        try:
            count = operator.index(value)
        except TypeError:
            count = -1
        if count >= 0:
            return count
    raise ParameterError(f"{name} must be a whole number of pairs ≥ 0, got {value!r}; give a count, not a rate")


def _checked_confidence(confidence: float) -> float:
    # The quantile is taken at this level, so a confidence that rounds to 0 or 1 here has no interval.
    if not 0.5 < 0.5 + 0.5 * confidence < 1:
        raise ParameterError(
            f"confidence must lie strictly between 0 and 1, got {confidence!r}; give a probability, such as 0.95"
        )
    return float(confidence)


def _listed(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _pp(interval: Interval) -> str:
    lower, upper = interval
    return f"{100 * lower:+.1f} to {100 * upper:+.1f} pp"

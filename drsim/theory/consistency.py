r"""What printed figures can and cannot stand for, in exact interval arithmetic (THEORY section 1).

A figure printed with a last digit of unit u stands for some number within u/2 of it. Every function here takes such
spans and gives the span of what follows from them, never narrower than the truth: two spans that do not meet contradict
each other whatever was lost in rounding. Ends are fractions, so that no rounding of the computer's own is added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
from scipy import special

from drsim.errors import ParameterError

__all__ = [
    "Span",
    "between_seeds",
    "break_even_span",
    "disruption_bounds",
    "expected_largest",
    "gain_span",
    "holm_rejects",
    "largest",
    "mean",
    "median_coverage",
    "printed",
    "recovery_bounds",
    "single_threshold",
    "usual_intervals",
    "whole_counts",
]

SHARPEST = -9
"""Exponent of the last digit that is believed: a figure written by a program ends in digits of its own rounding."""

ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A closed interval of fractions: every number that a figure may stand for."""

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ParameterError(f"low must not exceed high, got {self.low} and {self.high}; exchange them")

    @classmethod
    def exactly(cls, value: Fraction | int) -> "Span":
        """The span of one number."""
        return cls(low=Fraction(value), high=Fraction(value))

    def meets(self, other: "Span") -> bool:
        """Whether some number lies in both."""
        return self.low <= other.high and other.low <= self.high

    def minus(self, other: "Span") -> "Span":
        """Every difference."""
        return Span(low=self.low - other.high, high=self.high - other.low)

    def plus(self, other: "Span") -> "Span":
        """Every sum."""
        return Span(low=self.low + other.low, high=self.high + other.high)

    def complement(self) -> "Span":
        """Every 1 − x."""
        return Span(low=1 - self.high, high=1 - self.low)

    def within(self, low: int, high: int) -> "Span":
        """The part in [low, high], which the figure's domain allows; the nearest end where none is."""
        first = min(max(self.low, Fraction(low)), Fraction(high))
        return Span(low=first, high=max(first, min(self.high, Fraction(high))))


def printed(value: Decimal, *, is_percent: bool = False) -> Span:
    """Every number that rounds to a printed figure, half a unit of its last digit to each side.

    Parameters
    ----------
    value : Decimal
        The figure with its digits: `Decimal("38.0")` is sharper than `Decimal("38")`. Digits after the ninth are not
        believed.
    is_percent : bool
        Divide by 100.

    Returns
    -------
    Span
        Both ends included, so that either way to round a tie is allowed.

    Raises
    ------
    ParameterError
        The figure is infinite or NaN.
    """
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ParameterError(f"value must be finite, got {value}; leave the figure out")
    half = Fraction(10) ** max(exponent, SHARPEST) / 2
    scale = 100 if is_percent else 1
    middle = Fraction(value)
    return Span(low=(middle - half) / scale, high=(middle + half) / scale)


def gain_span(failure_rate: Span, recovery: Span, disruption: Span) -> Span:
    r"""Every Δ = p·r − (1 − p)·d.

    Parameters
    ----------
    failure_rate, recovery, disruption : Span
        p, r and d.

    Returns
    -------
    Span
        Exact: Δ is linear in each of the three, so that its ends lie on corners.
    """
    corners = product(*((span.low, span.high) for span in (failure_rate, recovery, disruption)))
    values = [p * r - (1 - p) * d for p, r, d in corners]
    return Span(low=min(values), high=max(values))


def break_even_span(recovery: Span, disruption: Span) -> Span | None:
    r"""Every p* = d/(r + d).

    Parameters
    ----------
    recovery, disruption : Span
        r and d, in [0, 1].

    Returns
    -------
    Span or None
        Exact: p* falls with r and rises with d. None where both can only be 0.
    """
    r, d = recovery, disruption
    if r.high + d.high == 0:
        return None
    low = d.low / (r.high + d.low) if r.high + d.low > 0 else ONE
    high = d.high / (r.low + d.high) if r.low + d.high > 0 else ZERO
    return Span(low=low, high=high)


def recovery_bounds(base_success: Span, arm_success: Span) -> Span:
    r"""Every r that two success rates allow.

    .. math:: \max(0, \frac{s_1 - s_0}{1 - s_0}) \le r \le \min(1, \frac{s_1}{1 - s_0})

    Parameters
    ----------
    base_success, arm_success : Span
        s₀ and s₁, in [0, 1].

    Returns
    -------
    Span
        Exact; [0, 1] where no baseline run may have failed.
    """
    fails = 1 - base_success.high
    if fails == 0:
        return Span(low=ZERO, high=ONE)
    return Span(
        low=max(ZERO, (arm_success.low - base_success.high) / fails),
        high=min(ONE, arm_success.high / fails),
    )


def disruption_bounds(base_success: Span, arm_success: Span) -> Span:
    r"""Every d that two success rates allow.

    .. math:: \max(0, \frac{s_0 - s_1}{s_0}) \le d \le \min(1, \frac{1 - s_1}{s_0})

    Parameters
    ----------
    base_success, arm_success : Span
        s₀ and s₁, in [0, 1].

    Returns
    -------
    Span
        Exact; [0, 1] where no baseline run may have succeeded.
    """
    # d is the r of an agent whose failures are called successes.
    return recovery_bounds(base_success.complement(), arm_success.complement())


def whole_counts(rate: Span, n: int) -> range:
    """Every whole number k for which k/n lies in the span.

    Parameters
    ----------
    rate : Span
        A share of n, or a difference of two such shares.
    n : int
        At least 1.

    Returns
    -------
    range
        Empty when no count gives the rate.

    References
    ----------
    N. J. L. Brown, J. A. J. Heathers, The GRIM test, Social Psychological and Personality Science 8 (2017) 363–369.
    """
    return range(math.ceil(rate.low * n), math.floor(rate.high * n) + 1)


def mean(spans: Sequence[Span]) -> Span:
    """Every mean of one number from each span; spans must not be empty."""
    n = len(spans)
    return Span(low=sum((span.low for span in spans), ZERO) / n, high=sum((span.high for span in spans), ZERO) / n)


def largest(spans: Sequence[Span]) -> Span:
    """Every maximum of one number from each span; spans must not be empty."""
    return Span(low=max(span.low for span in spans), high=max(span.high for span in spans))


def between_seeds(spans: Sequence[Span]) -> tuple[Span, Span]:
    """Every smallest and every largest of one number from each span; spans must not be empty."""
    smallest = Span(low=min(span.low for span in spans), high=min(span.high for span in spans))
    return smallest, largest(spans)


def median_coverage(n_seeds: int) -> float:
    r"""Probability that the range of k independent seeds holds the median seed.

    .. math:: 1 - 2^{1-k}

    Parameters
    ----------
    n_seeds : int
        k ≥ 1.

    Returns
    -------
    float
        0.75 for three seeds: what a range of seeds can claim at best, and that about seeds and not about tasks.
    """
    return float(1.0 - 2.0 ** (1 - n_seeds))


def usual_intervals(
    success: float, n: int | None, seeds: Sequence[float], confidence: float
) -> list[tuple[float, float]]:
    """Intervals that people compute for a success rate: over runs where `n` is known, and over seeds.

    Parameters
    ----------
    success : float
        The rate, in [0, 1].
    n : int or None
        Runs behind it.
    seeds : sequence of float
        Rate of each seed, two or more.
    confidence : float
        Level, in (0, 1).

    Returns
    -------
    list of tuple of float
        Wald, Wilson and Clopper–Pearson over runs; normal and t over seeds, all cut to [0, 1].
    """
    tail = (1 - confidence) / 2
    z = float(special.ndtri(1 - tail))
    values = np.asarray(seeds, dtype=np.float64)
    spread = float(values.std(ddof=1) / np.sqrt(values.size))
    widths = [z * spread, float(special.stdtrit(values.size - 1, 1 - tail)) * spread]
    found: list[tuple[float, float]] = []
    if n is not None:
        widths.append(z * float(np.sqrt(success * (1 - success) / n)))
        found += [_wilson(success, n, z), _clopper_pearson(round(success * n), n, tail)]
    found += [(success - width, success + width) for width in widths]
    return [(max(low, 0.0), min(high, 1.0)) for low, high in found]


def _wilson(success: float, n: int, z: float) -> tuple[float, float]:
    shrink = 1 + z * z / n
    middle = (success + z * z / (2 * n)) / shrink
    half = z * float(np.sqrt(success * (1 - success) / n + z * z / (4 * n * n))) / shrink
    return middle - half, middle + half


def _clopper_pearson(k: int, n: int, tail: float) -> tuple[float, float]:
    low = 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(special.betaincinv(k + 1, n - k, 1 - tail))
    return low, high


def expected_largest(n_values: int) -> float:
    """Mean of the largest of k independent standard normal numbers: how far luck alone lifts the best of k.

    Parameters
    ----------
    n_values : int
        k ≥ 1.

    Returns
    -------
    float
        0 for one, 1.03 for four.
    """
    # ∫ x dΦ(x)^k by the trapezoid rule, which is exact to rounding for so smooth a density
    x = np.linspace(-12.0, 12.0, 4001)
    density = n_values * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * special.ndtr(x) ** (n_values - 1)
    return float(np.sum(x * density) * (x[1] - x[0]))


def single_threshold(correction: str, alpha: float, comparisons: int) -> float:
    """Largest p-value that a correction lets pass when it is the smallest of its family.

    Parameters
    ----------
    correction : {"none", "bonferroni", "sidak", "holm"}
        Holm's first step is Bonferroni's.
    alpha : float
        Error rate of the family, in (0, 1).
    comparisons : int
        Size of the family, at least 1.

    Returns
    -------
    float
        In (0, alpha].

    Raises
    ------
    ParameterError
        No such correction.
    """
    match correction:
        case "none":
            return alpha
        case "bonferroni" | "holm":
            return alpha / comparisons
        case "sidak":
            return float(-np.expm1(np.log1p(-alpha) / comparisons))
    raise ParameterError(f"correction must be none, bonferroni, sidak or holm, got {correction!r}; name one of them")


def holm_rejects(p_values: Sequence[Fraction], alpha: Fraction) -> list[bool]:
    """Which hypotheses Holm's step-down test rejects.

    Parameters
    ----------
    p_values : sequence of Fraction
        One for each member of the family.
    alpha : Fraction
        Error rate of the family.

    Returns
    -------
    list of bool
        In the order of `p_values`. A smaller p-value never makes fewer rejections, so that lower ends of p-values that
        are known only roughly give every rejection that is possible.

    References
    ----------
    S. Holm, Scandinavian Journal of Statistics 6 (1979) 65–70.
    """
    rejects = [False] * len(p_values)
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] * (len(p_values) - step) > alpha:
            break
        rejects[index] = True
    return rejects

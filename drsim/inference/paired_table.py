r"""Exact posterior of one 2×2 table of independent pairs.

The four cell probabilities have a Dirichlet posterior with parameters :math:`\alpha = (A, B, C, D) + 1/2`, so that

- p ~ Beta(α_A + α_C, α_B + α_D), r ~ Beta(α_C, α_A), d ~ Beta(α_B, α_D), mutually independent;
- Δ = u·w with u = P(discordant) ~ Beta(α_B + α_C, α_A + α_D) and w = 2v − 1, v ~ Beta(α_C, α_B) independent of u.

Distribution functions of Δ and p* are one-dimensional integrals of an incomplete beta function. The integral runs over
whichever factor is relatively narrower, since then the wider one's distribution function is smooth on the nodes' scale;
the substitution x = lo + (hi − lo)·sin²θ removes the square-root ends that half-integer parameters make.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.posterior import QUANTILES, Uncertain
from drsim.inference.quantile import quantile

__all__ = ["JEFFREYS", "PairedTable"]

JEFFREYS = 0.5
"""Prior weight of each cell of the table: Jeffreys' prior of a multinomial."""

N_NODES = 128
"""Gauss–Legendre nodes; the tests hold the result to 1e-9 of adaptive quadrature for counts from 0 to 1e5."""

TAIL = 1e-16
"""Mass left out at either end of the integration range, below the rounding of the result."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(N_NODES)
_THETA = (_NODES + 1) * np.pi / 4
_SHARE = np.sin(_THETA) ** 2
_REST = np.cos(_THETA) ** 2
_SHARE_WEIGHTS = _WEIGHTS * np.pi / 4 * np.sin(2 * _THETA)


@dataclass(frozen=True, slots=True)
class _Beta:
    """A Beta(a, b) variable."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def sd(self) -> float:
        total = self.a + self.b
        return float(np.sqrt(self.a * self.b / (total**2 * (total + 1))))

    def cdf(self, x: FloatArray | float) -> FloatArray:
        return np.asarray(special.betainc(self.a, self.b, np.clip(x, 0.0, 1.0)), dtype=np.float64)

    def quantile(self, level: FloatArray | float) -> FloatArray:
        return np.asarray(special.betaincinv(self.a, self.b, level), dtype=np.float64)

    def summary(self) -> Uncertain:
        low, middle, high = self.quantile(np.array(QUANTILES))
        return Uncertain(mean=self.mean, sd=self.sd, q2_5=float(low), q50=float(middle), q97_5=float(high))

    def nodes(self, low: float = 0.0, high: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Nodes x and weights so that Σ weight·f(x) = E[f(X); low < X < high] for an f that is smooth inside."""
        tail_low, tail_high = float(self.quantile(TAIL)), float(special.betaincinv(self.b, self.a, TAIL))
        low, room = max(low, tail_low), max(1 - high, tail_high)
        if not low < 1 - room:
            return np.empty(0), np.empty(0)
        x, weights = _masses(self.a, self.b, low, room)
        return x, weights / _total_mass(self.a, self.b)

    def expect(self, function: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
        """E[function(X); low < X < high]."""
        x, weights = self.nodes(low, high)
        return float(np.sum(weights * function(x)))


def _masses(a: float, b: float, low: float, room: float) -> tuple[FloatArray, FloatArray]:
    """Nodes x on [low, 1 − room] and their masses under Beta(a, b), in units of the density at the mean.

    Against the mean the logarithm of the density is small; by the beta function it would be a difference of numbers of
    the size of a + b, and lose as many digits. 1 − x is built up from `room`, which keeps its digits where x is near 1.
    """
    width = 1 - room - low
    x, rest = low + width * _SHARE, room + width * _REST
    log_density = (a - 1) * np.log(x * ((a + b) / a)) + (b - 1) * np.log(rest * ((a + b) / b))
    return x, width * _SHARE_WEIGHTS * np.exp(log_density)


@lru_cache(maxsize=256)
def _total_mass(a: float, b: float) -> float:
    low, room = float(special.betaincinv(a, b, TAIL)), float(special.betaincinv(b, a, TAIL))
    return float(np.sum(_masses(a, b, low, room)[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTable:
    """Dirichlet posterior of a table of independent pairs; counts may be fractions when tasks were repeated."""

    a: float
    """A, fail → fail, ≥ 0."""
    b: float
    """B, success → fail, ≥ 0."""
    c: float
    """C, fail → success, ≥ 0."""
    d: float
    """D, success → success, ≥ 0."""

    def __post_init__(self) -> None:
        """Check the counts."""
        for name in ("a", "b", "c", "d"):
            count = getattr(self, name)
            if not (0 <= count < np.inf):
                raise ParameterError(f"{name.upper()} must be a count ≥ 0, got {count}; give the cells of a 2×2 table")

    @property
    def alpha(self) -> tuple[float, float, float, float]:
        """Parameters of the Dirichlet posterior, in the order A, B, C, D."""
        return self.a + JEFFREYS, self.b + JEFFREYS, self.c + JEFFREYS, self.d + JEFFREYS

    def failure_rate(self) -> Uncertain:
        """Posterior of p."""
        a, b, c, d = self.alpha
        return _Beta(a + c, b + d).summary()

    def recovery(self) -> Uncertain:
        """Posterior of r."""
        return self._recovery.summary()

    def disruption(self) -> Uncertain:
        """Posterior of d."""
        return self._disruption.summary()

    def gain(self) -> Uncertain:
        """Posterior of Δ; mean and sd are exact Dirichlet moments, quantiles invert the distribution function."""
        _, b, c, _ = self.alpha
        total = sum(self.alpha)
        mean = (c - b) / total
        variance = ((b + c) / total - mean**2) / (total + 1)
        sd = float(np.sqrt(variance))
        low, middle, high = _quantiles(self._gain_cdf, mean, sd, -1.0)
        return Uncertain(mean=mean, sd=sd, q2_5=low, q50=middle, q97_5=high)

    def prob_gain_above(self, margin: float) -> float:
        """P(Δ > margin); at 0 it is P(Beta(α_C, α_B) > ½), to machine precision."""
        if margin == 0:
            return float(special.betainc(self.alpha[1], self.alpha[2], 0.5))
        return 1.0 - self._gain_cdf(margin)

    def break_even(self) -> Uncertain:
        """Posterior of p* = d/(r + d)."""
        mean, sd = self._break_even_moments()
        low, middle, high = _quantiles(self._break_even_cdf, mean, sd, 0.0)
        return Uncertain(mean=mean, sd=sd, q2_5=low, q50=middle, q97_5=high)

    @property
    def _recovery(self) -> _Beta:
        return _Beta(self.alpha[2], self.alpha[0])

    @property
    def _disruption(self) -> _Beta:
        return _Beta(self.alpha[1], self.alpha[3])

    def _gain_cdf(self, x: float) -> float:
        """P(Δ ≤ x) by the factors u and w of the module's docstring."""
        a, b, c, d = self.alpha
        discordant, upward = _Beta(b + c, a + d), _Beta(c, b)
        if x == 0:
            return float(upward.cdf(0.5))
        if x < 0:
            # P(Δ ≤ x) = P(−Δ ≥ −x), and −Δ is the gain of the table with B and C exchanged.
            return 1.0 - PairedTable(a=self.a, b=self.c, c=self.b, d=self.d)._gain_cdf(-x)
        if abs(2 * upward.mean - 1) / upward.sd / 2 > discordant.mean / discordant.sd:
            half = (1 + x) / 2
            inner = upward.expect(lambda v: discordant.cdf(x / (2 * v - 1)), half, 1.0)
            return float(upward.cdf(half)) + inner
        inner = discordant.expect(lambda u: upward.cdf((1 + x / u) / 2), x, 1.0)
        return float(discordant.cdf(x)) + inner

    def _break_even_cdf(self, x: float) -> float:
        """P(d/(r+d) ≤ x) = P(d ≤ k·r), k = x/(1−x)."""
        if x <= 0 or x >= 1:
            return float(x >= 1)
        odds = x / (1 - x)
        recovery, disruption = self._recovery, self._disruption
        if recovery.sd / recovery.mean <= disruption.sd / disruption.mean:
            edge = min(1.0, 1 / odds)
            inner = recovery.expect(lambda r: disruption.cdf(odds * r), 0.0, edge)
            return inner + (1.0 - float(recovery.cdf(edge)))
        edge = min(1.0, odds)
        return disruption.expect(lambda q: 1.0 - recovery.cdf(q / odds), 0.0, edge)

    def _break_even_moments(self) -> tuple[float, float]:
        """Mean and sd of p* over the product of the two posteriors."""
        recovery, recovery_weights = self._recovery.nodes()
        disruption, disruption_weights = self._disruption.nodes()
        ratio = disruption[:, None] / (recovery + disruption[:, None])
        weights = disruption_weights[:, None] * recovery_weights
        mean = float(np.sum(weights * ratio))
        return mean, float(np.sqrt(np.sum(weights * (ratio - mean) ** 2)))


def _quantiles(cdf: Callable[[float], float], mean: float, sd: float, low: float) -> tuple[float, float, float]:
    """Reported quantiles of a distribution on [low, 1], looked for where a normal one would have them."""
    first, middle, last = (
        quantile(cdf, level, guess=mean + sd * float(special.ndtri(level)), spread=sd / 4, low=low, high=1.0)
        for level in QUANTILES
    )
    return first, middle, last

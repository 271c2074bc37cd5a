"""The common form of a posterior's answers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drsim.arrays import FloatArray

__all__ = ["QUANTILES", "GainPosterior", "Uncertain"]

QUANTILES = (0.025, 0.5, 0.975)
"""Levels at which an uncertain number is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """A posterior in five numbers; NaN throughout when it is undefined."""

    mean: float
    sd: float
    q2_5: float
    q50: float
    q97_5: float

    @classmethod
    def from_draws(cls, draws: FloatArray, moments: tuple[float, float] | None = None) -> "Uncertain":
        """Summary of (n,) draws.

        Parameters
        ----------
        draws : FloatArray
            (n,) values; NaN among them (a ratio without a denominator) makes the whole undefined.
        moments : tuple of float, optional
            Exact mean and sd, where they are known.
        """
        mean, sd = moments if moments is not None else (float(draws.mean()), float(draws.std(ddof=1)))
        low, middle, high = np.quantile(draws, QUANTILES)
        return cls(mean=mean, sd=sd, q2_5=float(low), q50=float(middle), q97_5=float(high))

    def to_dict(self) -> dict[str, float | None]:
        """Mapping with the quantiles by level, as JSON names them; NaN becomes None."""
        numbers = {"mean": self.mean, "sd": self.sd, "q2.5": self.q2_5, "q50": self.q50, "q97.5": self.q97_5}
        return {name: number if np.isfinite(number) else None for name, number in numbers.items()}


class GainPosterior(Protocol):
    """What a decision needs to know of the gain."""

    def prob_gain_above(self, margin: float) -> float:
        """P(Δ > margin)."""
        ...

"""What is assumed of the intraclass correlation ρ where no repeated baseline run measures it."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.posterior import QUANTILES

__all__ = ["DEFAULT_RHO_PRIOR", "RhoPrior"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RhoPrior:
    """Beta(a, b), or one fixed value."""

    a: float | None = None
    b: float | None = None
    value: float | None = None

    def __post_init__(self) -> None:
        """Check that the prior is one of the two."""
        if self.value is not None:
            if not 0 <= self.value <= 1:
                raise ParameterError(f"rho must lie in [0, 1], got {self.value:g}; give an intraclass correlation")
        elif not all(shape is not None and 0 < shape < math.inf for shape in (self.a, self.b)):
            raise ParameterError(
                f"a beta prior of rho needs two positive shapes, got {self.a}, {self.b}; write beta:4.5,2"
            )

    @classmethod
    def parse(cls, text: str) -> "RhoPrior":
        """Prior from `0.45` or `beta:4.5,2`.

        Raises
        ------
        ParameterError
            `text` has neither form, or a number is outside its domain.
        """
        try:
            if not text.startswith("beta:"):
                return cls(value=float(text))
            a, b = (float(part) for part in text.removeprefix("beta:").split(","))
        except ParameterError:
            raise
        except ValueError:
            raise ParameterError(
                f"rho must be a number in [0, 1] or beta:A,B, got {text!r}; write 0.45 or beta:4.5,2"
            ) from None
        return cls(a=a, b=b)

    def __str__(self) -> str:
        return f"{self.value:g}" if self.value is not None else f"beta:{self.a:g},{self.b:g}"

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """(n_draws,) values of ρ."""
        if self.value is not None:
            return np.full(n_draws, self.value)
        return rng.beta(self.a or 0.0, self.b or 0.0, n_draws)

    def band(self) -> FloatArray:
        """(3,) ρ at the reported quantile levels, over which assumed results are swept."""
        if self.value is not None:
            return np.full(len(QUANTILES), self.value)
        return np.asarray(special.betaincinv(self.a, self.b, QUANTILES), dtype=np.float64)


DEFAULT_RHO_PRIOR = RhoPrior(a=4.5, b=2.0)
"""Matches 38 noise floors of real agents: ρ from 0.17 to 1.0, median 0.69."""

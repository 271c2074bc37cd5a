"""Monte Carlo numbers with their errors."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import FloatArray, IntArray

__all__ = ["Estimate", "Histogram", "Moments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over n runs."""

    value: float
    se: float
    """Standard error of the mean."""
    n: int

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.se:.2g}"

    def to_dict(self) -> dict[str, float | int]:
        """Fields by name, for JSON."""
        return {"value": self.value, "se": self.se, "n": self.n}

    def scaled(self, factor: float) -> "Estimate":
        """The estimate of a multiple."""
        return Estimate(value=factor * self.value, se=factor * self.se, n=self.n)

    def z(self, exact: float) -> float:
        """Standard errors between the estimate and an exact value; 0 where both agree without error."""
        gap = self.value - exact
        return gap / self.se if self.se > 0 else math.copysign(math.inf, gap) if gap else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """How many runs fell where."""

    edges: FloatArray
    """(m + 1,) increasing; a bin holds its lower edge, the last one its upper edge too."""
    counts: IntArray
    """(m,) runs."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return np.array_equal(self.edges, other.edges) and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.edges.tobytes(), self.counts.tobytes()))

    def quantile(self, level: float) -> float:
        """Upper edge of the first bin up to which at least the share `level` of the runs lie."""
        upto = np.cumsum(self.counts)
        return float(self.edges[1 + int(np.searchsorted(upto, level * upto[-1]))])


@dataclass(slots=True)
class Moments:
    """Running sums of a quantity over runs that come in parts."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, values: NDArray[np.generic]) -> None:
        """Take in (k,) further values."""
        numbers = np.asarray(values, dtype=np.float64)
        self.n += len(numbers)
        self.total += float(numbers.sum())
        self.squares += float((numbers**2).sum())

    def add_counts(self, counts: IntArray) -> None:
        """Take in (m,) counts: of each of the values 0 … m − 1 as many further ones."""
        values = np.arange(len(counts), dtype=np.float64)
        self.n += int(counts.sum())
        self.total += float(values @ counts)
        self.squares += float(values**2 @ counts)

    def estimate(self) -> Estimate:
        """Mean and standard error of what was taken in."""
        mean = self.total / self.n
        variance = max(self.squares / self.n - mean**2, 0.0)
        return Estimate(value=mean, se=math.sqrt(variance / self.n), n=self.n)

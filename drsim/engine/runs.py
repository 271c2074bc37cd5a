"""Simulated runs as arrays."""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import FloatArray
from drsim.engine.law import Law

__all__ = ["Ending", "SimulatedRuns", "empty_runs"]


class Ending(IntEnum):
    """How a simulated run ended."""

    FAIL = 0
    SUCCESS = 1
    CAPPED = 2
    """Neither within the horizon; counts as fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRuns:
    """n runs; run i is run `first + i` of its seed, whatever engine and chunking made it."""

    ending: NDArray[np.uint8]
    """(n,) an `Ending`."""
    acts: NDArray[np.int32]
    """(n,) acts of the agent; extra steps of interventions pass without one."""
    interventions: NDArray[np.int32]
    """(n,) interventions."""
    fired_at: NDArray[np.int32]
    """(n, budget) steps of the interventions in order; −1 where there was none."""
    tokens: FloatArray
    """(n,) tokens of acts, of scoring and of interventions, summed in the order of the steps."""

    @property
    def n(self) -> int:
        """Number of runs."""
        return len(self.ending)

    def is_equal(self, other: "SimulatedRuns") -> bool:
        """Whether every field of every run agrees to the bit."""
        return all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(SimulatedRuns)
        )


def empty_runs(law: Law, n: int) -> SimulatedRuns:
    """Room for n runs that have not begun."""
    return SimulatedRuns(
        ending=np.full(n, Ending.CAPPED, dtype=np.uint8),
        acts=np.zeros(n, dtype=np.int32),
        interventions=np.zeros(n, dtype=np.int32),
        fired_at=np.full((n, law.budget), -1, dtype=np.int32),
        tokens=np.zeros(n),
    )

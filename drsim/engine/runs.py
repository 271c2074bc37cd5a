"""Simulated runs as arrays."""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import BoolArray, FloatArray
from drsim.engine.law import Law

__all__ = ["Ending", "SimulatedRuns", "empty_runs", "join_runs"]


class Ending(IntEnum):
    """How a simulated run ended."""

    FAIL = 0
    SUCCESS = 1
    CAPPED = 2
    """Neither within the horizon; counts as fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRuns:
    """n runs under one policy; run i is run `first + i` of its seed, whatever engine and chunking made it."""

    ending: NDArray[np.uint8]
    """(n,) an `Ending`."""
    acts: NDArray[np.int32]
    """(n,) acts of the agent; extra steps of interventions pass without one."""
    interventions: NDArray[np.int32]
    """(n,) interventions."""
    fired_at: NDArray[np.int32]
    """(n, budget) steps of the interventions in order; −1 where there was none."""
    first_state: NDArray[np.int32]
    """(n,) live state in which the first intervention found the run; −1 where there was none."""
    withheld: BoolArray
    """(n, T) steps whose trigger was not acted on; (n, 0) for a policy that acts on all."""
    tokens: FloatArray
    """(n,) tokens of acts, of scoring and of interventions: what each intervention added, in order, then the sum up to
    the run's end."""

    @property
    def n(self) -> int:
        """Number of runs."""
        return len(self.ending)

    def is_equal(self, other: "SimulatedRuns") -> bool:
        """Whether every field of every run agrees to the bit."""
        return all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(SimulatedRuns)
        )


def empty_runs(law: Law, k: int, n: int) -> SimulatedRuns:
    """Room for n runs under policy k that have not begun."""
    return SimulatedRuns(
        ending=np.full(n, Ending.CAPPED, dtype=np.uint8),
        acts=np.zeros(n, dtype=np.int32),
        interventions=np.zeros(n, dtype=np.int32),
        fired_at=np.full((n, law.budget[k]), -1, dtype=np.int32),
        first_state=np.full(n, -1, dtype=np.int32),
        withheld=np.zeros((n, law.horizon if law.withholds[k] else 0), dtype=np.bool_),
        tokens=np.zeros(n),
    )


def join_runs(parts: list[SimulatedRuns]) -> SimulatedRuns:
    """Runs of one policy that were simulated in parts, in their order."""
    return SimulatedRuns(
        **{field.name: np.concatenate([getattr(it, field.name) for it in parts]) for field in fields(SimulatedRuns)}
    )


def spend(law: Law, k: int, runs: SimulatedRuns, last: NDArray[np.int32]) -> None:
    """Fill `acts` and `tokens` of runs under policy k from their last step (n,), T where they were capped."""
    for fired_at in runs.fired_at.T:
        is_fired = fired_at >= 0
        runs.acts[is_fired] -= law.passed_over[k, fired_at[is_fired]]
        runs.tokens[is_fired] += law.tokens_of_firing[k, fired_at[is_fired]]
    runs.acts[:] += np.minimum(last + 1, law.horizon)
    runs.tokens[:] += law.tokens_to_end[k, last]

"""Pairs by the step of their first intervention: what r(t) and d(t) are fitted to."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, IntArray
from drsim.pilot.cell import PairedBy
from drsim.pilot.evidence import Pilot
from drsim.pilot.pairing import intervened_arms, matched_pairs
from drsim.pilot.records import BASELINE, Outcome, Run

__all__ = ["TimedPairs", "timed_pairs"]

NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPairs:
    """The n pairs of one cell."""

    agent: str
    benchmark: str
    arm: str
    paired_by: PairedBy
    """`fork` or `trial`."""
    first_step: IntArray
    """(n,) step of the first intervention that was acted on; −1 where there was none."""
    baseline_success: BoolArray
    """(n,)."""
    arm_success: BoolArray
    """(n,)."""
    n_tasks: int
    """Tasks behind the pairs."""

    @property
    def name(self) -> str:
        """The cell in words."""
        return f"{self.agent} on {self.benchmark}, {self.arm}"


def timed_pairs(pilot: Pilot, *, baseline: str = BASELINE, arms: Iterable[str] | None = None) -> tuple[TimedPairs, ...]:
    """Pairs with the step of the first intervention.

    Parameters
    ----------
    pilot : Pilot
        Runs as read.
    baseline : str
        Name of the arm without intervention.
    arms : iterable of str, optional
        Intervened arms to keep; all by default.

    Returns
    -------
    tuple of TimedPairs
        One for each agent, benchmark and arm that has pairs one to one, some with an intervention; in that order.

    Raises
    ------
    DataError
        A wanted arm is not in the file.
    """
    found = []
    for agent, benchmark, arm, tasks, alone in intervened_arms(pilot.runs, baseline=baseline, arms=arms):
        paired_by, pairs = matched_pairs(alone, tasks)
        first_step = np.array([_first_step(run) for _, run in pairs], dtype=np.int64)
        if np.any(first_step != NEVER):
            found.append(
                TimedPairs(
                    agent=agent,
                    benchmark=benchmark,
                    arm=arm,
                    paired_by=paired_by,
                    first_step=first_step,
                    baseline_success=np.array([base.outcome is Outcome.SUCCESS for base, _ in pairs]),
                    arm_success=np.array([run.outcome is Outcome.SUCCESS for _, run in pairs]),
                    n_tasks=len({run.task_id for _, run in pairs}),
                )
            )
    return tuple(found)


def _first_step(run: Run) -> int:
    return min((trigger.t for trigger in run.interventions or () if trigger.acted), default=NEVER)

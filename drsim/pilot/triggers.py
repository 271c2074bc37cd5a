"""Micro-randomised triggers: runs whose first trigger was acted on by chance, by its step."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.pilot.evidence import Pilot
from drsim.pilot.pairing import intervened_arms
from drsim.pilot.records import BASELINE, Intervention, Outcome, Run

__all__ = ["FirstTriggers", "first_triggers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTriggers:
    """The n judged runs of one arm that came to a trigger whose propensity is known and below 1."""

    agent: str
    benchmark: str
    arm: str
    step: IntArray
    """(n,) step of the first trigger."""
    acted: BoolArray
    """(n,) whether it was acted on."""
    propensity: FloatArray
    """(n,) probability with which it was, in (0, 1)."""
    success: BoolArray
    """(n,)."""

    @property
    def name(self) -> str:
        """The arm in words."""
        return f"{self.agent} on {self.benchmark}, {self.arm}"


def first_triggers(
    pilot: Pilot, *, baseline: str = BASELINE, arms: Iterable[str] | None = None
) -> tuple[FirstTriggers, ...]:
    """Runs by their first trigger, where it was left to chance.

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
    tuple of FirstTriggers
        One for each agent, benchmark and arm that has such runs, some acted on and some not; in that order.

    Raises
    ------
    DataError
        A wanted arm is not in the file.
    """
    found = []
    for agent, benchmark, arm, tasks, _ in intervened_arms(pilot.runs, baseline=baseline, arms=arms):
        pairs = [(run, first) for runs in tasks.values() for run in runs if (first := _randomised(run)) is not None]
        acted = np.array([first.acted for _, first in pairs], dtype=np.bool_)
        if acted.any() and not acted.all():
            found.append(
                FirstTriggers(
                    agent=agent,
                    benchmark=benchmark,
                    arm=arm,
                    step=np.array([first.t for _, first in pairs], dtype=np.int64),
                    acted=acted,
                    propensity=np.array([first.propensity for _, first in pairs], dtype=np.float64),
                    success=np.array([run.outcome is Outcome.SUCCESS for run, _ in pairs], dtype=np.bool_),
                )
            )
    return tuple(found)


def _randomised(run: Run) -> Intervention | None:
    """The first trigger of a judged run, if it was left to chance."""
    if not run.outcome.is_judged or not run.interventions:
        return None
    first = min(run.interventions, key=lambda trigger: trigger.t)
    is_random = first.propensity is not None and first.propensity < 1.0
    return first if is_random else None

"""An agent and benchmark with its runs: what the estimands of a pilot are asked of."""

from dataclasses import dataclass

from drsim.pilot.doctor.blockers import Blocker
from drsim.pilot.doctor.diagnosis import CellSummary
from drsim.pilot.pairing import RunsByTask
from drsim.pilot.records import Run
from drsim.pilot.retries import Retries

__all__ = ["MIN_DENOMINATOR", "Place", "Seen", "judged_by_task", "runs_of"]

MIN_DENOMINATOR = 20
"""Fewer failures or successes than this leave a 95 % interval more than 0.16 wide whatever happens, since Wilson's
width is at least z²/(n + z²): as wide as the effects that pilots look for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One cell with its runs."""

    summary: CellSummary
    baseline: RunsByTask
    arm: RunsByTask
    refusal: Blocker | None
    """Why its two arms cannot be compared, although both have judged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One agent and benchmark."""

    agent: str
    benchmark: str
    baseline: RunsByTask
    """Empty when the file has no baseline run for this agent and benchmark."""
    baseline_retries: Retries | None
    arms: dict[str, RunsByTask]
    """Intervened arms."""
    cells: tuple[Seen, ...]
    """One for each of the arms; empty without a baseline."""

    @property
    def key(self) -> tuple[str, str]:
        """Agent and benchmark."""
        return self.agent, self.benchmark


def runs_of(tasks: RunsByTask) -> list[Run]:
    """All runs of one arm."""
    return [run for runs in tasks.values() for run in runs]


def judged_by_task(tasks: RunsByTask) -> dict[str, int]:
    """Judged runs of each task that has any."""
    counts = {task_id: sum(run.outcome.is_judged for run in runs) for task_id, runs in tasks.items()}
    return {task_id: n for task_id, n in counts.items() if n}

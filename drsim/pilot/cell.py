"""Cells: one agent, benchmark and arm, reduced to tables by task and to an account of what is outside them."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.pilot.records import Outcome
from drsim.pilot.retries import Retries

__all__ = ["Cell", "PairedBy", "Pairing", "Tally", "Unpaired"]


class PairedBy(StrEnum):
    """How a cell's pairs were made."""

    FORK = "fork"
    TRIAL = "trial"
    ALL = "all"
    COUNTS = "counts"
    """Somebody else made the pairs and counted them."""
    NONE = "none"
    """The two arms share no task with judged runs on both sides, or there is one arm only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Runs of one arm by outcome."""

    success: int = 0
    fail: int = 0
    capped: int = 0
    infra: int = 0
    unjudged: int = 0

    @property
    def judged(self) -> int:
        """Runs that say something about the agent."""
        return self.success + self.fail + self.capped

    @property
    def set_aside(self) -> int:
        """Runs that say nothing about the agent."""
        return self.infra + self.unjudged

    def to_dict(self) -> dict[str, int]:
        """Runs by outcome."""
        return {outcome.value: getattr(self, outcome.value) for outcome in Outcome}

    @property
    def success_bounds(self) -> tuple[float, float]:
        """Success rate if every run set aside had failed, and if every one had succeeded; NaN without runs."""
        total = self.judged + self.set_aside
        if total == 0:
            return float("nan"), float("nan")
        return self.success / total, (self.success + self.set_aside) / total


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaired:
    """Judged runs that are in no pair, and why."""

    arm: str
    reason: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One agent, benchmark and arm, reduced to what inference reads.

    A row is a task, or several alike. Rows without a pair stay: their repeated baseline runs still measure churn.
    """

    agent: str
    benchmark: str
    arm: str
    """The intervened arm; the baseline's own name when the file holds nothing else for this agent and benchmark."""
    paired_by: PairedBy
    multiplicity: IntArray
    """(n_rows,) tasks that a row stands for."""
    tables: FloatArray
    """(n_rows, 4) shares of A fail→fail, B success→fail, C fail→success, D success→success; NaN without a pair."""
    n_pairs: IntArray
    """(n_rows,) pairs behind the table of one task, 0 without a pair."""
    baseline_successes: IntArray
    """(n_rows,) successes among the judged baseline runs of one task."""
    baseline_runs: IntArray
    """(n_rows,) judged baseline runs of one task."""
    arm_successes: IntArray
    """(n_rows,) successes among the judged intervened runs of one task."""
    arm_runs: IntArray
    """(n_rows,) judged intervened runs of one task."""
    baseline_tally: Tally
    arm_tally: Tally
    stated_tasks: int | None = None
    """Distinct tasks behind the rows, where the file states that tasks were repeated but not which."""
    unpaired: tuple[Unpaired, ...] = ()
    gain_bounds: tuple[float, float] | None = None
    """Gain over the shared tasks when every run set aside counts against, then for, the intervention."""
    usd_per_pair: float | None = None
    """Mean price of a baseline run plus an intervened run, critic included; None where the runs carry no price."""
    task_ids: tuple[str, ...] = ()
    """(n_rows,) names of the tasks, by which arms of one agent and benchmark are joined; empty where none is named."""

    @property
    def name(self) -> str:
        """The cell in words."""
        return f"{self.agent} on {self.benchmark}, {self.arm}"

    @property
    def is_paired(self) -> bool:
        """Whether the cell holds at least one pair."""
        return self.paired_by is not PairedBy.NONE

    @property
    def n_paired_tasks(self) -> int:
        """Tasks that carry a table."""
        return self.stated_tasks or int(self.multiplicity[self.n_pairs > 0].sum())

    @property
    def n_compared_tasks(self) -> int:
        """Tasks behind the gain: those that carry a table, else those that the intervened arm ran."""
        return self.n_paired_tasks or self.stated_tasks or int(self.multiplicity[self.arm_runs > 0].sum())

    @property
    def n_paired(self) -> int:
        """Pairs of runs."""
        return int((self.multiplicity * self.n_pairs).sum())

    @property
    def counts(self) -> dict[str, float]:
        """A, B, C, D over all pairs: whole numbers, except that task means count by their share."""
        paired = self.n_pairs > 0
        pairs = np.ones_like(self.n_pairs) if self.paired_by is PairedBy.ALL else self.n_pairs
        totals = (self.tables * (self.multiplicity * pairs)[:, None])[paired].sum(axis=0)
        return {name: float(total) for name, total in zip("ABCD", totals, strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """All cells of a pilot."""

    baseline: str
    cells: tuple[Cell, ...]
    """In order of agent, benchmark, arm."""
    n_runs: int
    n_tasks: int
    set_aside: dict[str, int]
    """Runs with outcome infra and unjudged."""
    left_out: tuple[Unpaired, ...] = ()
    """Arms that make no cell, since they or their baseline have no judged run."""
    retries: tuple[tuple[str, Retries | None], ...] = ()
    """Arms in words, each with why its later trials are taken for retries; None where they are not."""

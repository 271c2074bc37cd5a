r"""The posterior over tasks: a Dirichlet process whose base measure is half a task on each pure table.

Every task has weight ~ Gamma(1), every pure table (all its runs in one of A, B, C, D) a further Gamma(½); normalised,
they are the posterior of the population's make-up, and p, r, d, Δ and churn are functions of it. With one pair a task
this is the Dirichlet(A+½, B+½, C+½, D+½) posterior of the 2×2 table; with several, tasks are resampled, never runs.

Tasks with equal data are one group, with Gamma(number of tasks): the cost grows with the number of distinct tables.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.inference.paired_table import JEFFREYS, PairedTable
from drsim.pilot.cell import Cell

__all__ = [
    "PURE_TABLES",
    "SINGLE_OUTCOMES",
    "Column",
    "TaskGroups",
    "group_tasks",
    "success_rates",
    "table_shares",
    "unbiased_spread",
]

DRAWS_AT_ONCE = 2**21
"""Gamma variables held at once (16 MiB), so that many distinct tables do not cost memory."""


class Column(IntEnum):
    """Columns of a task's data; each is 0 where the task says nothing of it."""

    A = 0
    B = 1
    C = 2
    D = 3
    BASELINE_SUCCESS = 4
    """Success rate of the task's baseline runs."""
    HAS_BASELINE = 5
    ARM_SUCCESS = 6
    """Success rate of the task's intervened runs."""
    HAS_ARM = 7
    SPREAD = 8
    r"""Unbiased estimate of s(1−s) from K ≥ 2 baseline runs with k successes: k(K−k)/(K(K−1))."""
    REPEATED_SUCCESS = 9
    """Success rate of the baseline runs, where there are at least two."""
    HAS_REPEATS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroups:
    """Distinct tasks of a cell and how many there are of each."""

    values: FloatArray
    """(n_groups, 11) data of one task, by `Column`."""
    n_tasks: FloatArray
    """(n_groups,) tasks in each group; fractions when repeated tasks are counted once."""

    @property
    def is_paired(self) -> FloatArray:
        """(n_groups,) 1 where the group carries a table."""
        return self.values[:, : Column.D + 1].sum(axis=1).round()

    @property
    def total_paired(self) -> float:
        """Tasks that carry a table."""
        return float(self.n_tasks @ self.is_paired)

    @property
    def has_repeats(self) -> bool:
        """Whether at least one task has two judged baseline runs, so that churn is identified."""
        return bool(self.values[:, Column.HAS_REPEATS].any())

    def total(self, column: Column) -> float:
        """Sum of a column over the tasks."""
        return float(self.n_tasks @ self.values[:, column])

    def exact_table(self) -> PairedTable | None:
        """The 2×2 table, when every task that carries one is pure, so that its posterior is exact; None otherwise."""
        tables = self.values[self.is_paired > 0, : Column.D + 1]
        if tables.size == 0 or not np.all((tables == 0) | (tables == 1)):
            return None
        a, b, c, d = (self.total(column) for column in (Column.A, Column.B, Column.C, Column.D))
        return PairedTable(a=a, b=b, c=c, d=d)

    @property
    def gains(self) -> FloatArray:
        """(n_groups,) intervened minus baseline success of a task, by its table."""
        return self.values[:, Column.C] - self.values[:, Column.B]

    def moments(self, values: FloatArray, counted: FloatArray) -> tuple[float, float]:
        """Exact posterior mean and sd of the population mean of `values` over the groups where `counted` is 1.

        Under Dirichlet weights with parameters α the mean is m = Σαv/Σα, the variance (Σαv²/Σα − m²)/(Σα + 1).
        """
        alpha = self.n_tasks * counted
        mean = float(alpha @ values / alpha.sum())
        variance = float(alpha @ values**2 / alpha.sum() - mean**2) / float(alpha.sum() + 1)
        return mean, max(variance, 0.0) ** 0.5

    def scaled(self, factor: float | FloatArray) -> "TaskGroups":
        """The same tasks, counted `factor` times."""
        return replace(self, n_tasks=self.n_tasks * factor)

    def with_prior(self, prior: FloatArray, weight: float = JEFFREYS) -> "TaskGroups":
        """The groups with `weight` tasks more for each (n, 11) row of `prior`."""
        return _merged(
            np.concatenate([self.values, prior]), np.concatenate([self.n_tasks, np.full(len(prior), weight)])
        )

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Totals of every column under drawn task weights.

        Parameters
        ----------
        n_draws : int
            Draws from the posterior.
        rng : numpy.random.Generator
            Source of the weights.

        Returns
        -------
        FloatArray
            (n_draws, 11); a column divided by its own `HAS_…` column (or by A + B + C + D) is a population mean.
        """
        totals = np.empty((n_draws, len(Column)))
        chunk = max(1, DRAWS_AT_ONCE // max(1, len(self.n_tasks)))
        for start in range(0, n_draws, chunk):
            stop = min(start + chunk, n_draws)
            weights = rng.standard_gamma(self.n_tasks, size=(stop - start, len(self.n_tasks)))
            # Not BLAS, whose last bits depend on the number of threads.
            totals[start:stop] = np.einsum("ng,gk->nk", weights, self.values, optimize=False)
        return totals


def _outcome_rows(pairs: list[tuple[int | None, int, int | None]]) -> FloatArray:
    """Rows of one run each side: (cell of the table, baseline success, arm success); None where there is no run."""
    rows = np.zeros((len(pairs), len(Column)))
    for row, (cell, baseline, arm) in zip(rows, pairs, strict=True):
        row[[Column.BASELINE_SUCCESS, Column.HAS_BASELINE]] = baseline, 1
        if cell is not None and arm is not None:
            row[[cell, Column.ARM_SUCCESS, Column.HAS_ARM]] = 1, arm, 1
    return rows


PURE_TABLES = _outcome_rows([(Column.A, 0, 0), (Column.B, 1, 0), (Column.C, 0, 1), (Column.D, 1, 1)])
"""(4, 11) prior tasks of a paired cell."""

SINGLE_OUTCOMES = _outcome_rows([(None, 0, None), (None, 1, None)])
"""(2, 11) prior tasks of a cell of baseline runs alone."""


def table_shares(totals: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Population shares of A, B, C, D, (n_draws,) each, from `TaskGroups.draw`."""
    tables = totals[:, : Column.D + 1]
    a, b, c, d = (tables / tables.sum(axis=1, keepdims=True)).T
    return a, b, c, d


def success_rates(totals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Success rates of baseline and intervened runs, (n_draws,) each, from `TaskGroups.draw`; not of pairs."""
    base = totals[:, Column.BASELINE_SUCCESS] / totals[:, Column.HAS_BASELINE]
    arm = totals[:, Column.ARM_SUCCESS] / totals[:, Column.HAS_ARM]
    return base, arm


def unbiased_spread(successes: IntArray, runs: IntArray) -> FloatArray:
    """k(K−k)/(K(K−1)), unbiased for s(1−s) from K runs of a task with k successes; 0 where K < 2 says nothing."""
    return np.where(runs >= 2, successes * (runs - successes) / np.maximum(runs * (runs - 1), 1), 0.0)


def group_tasks(cell: Cell) -> TaskGroups:
    """Tasks of a cell, those with equal data together."""
    columns = np.zeros((len(cell.n_pairs), len(Column)))
    columns[:, : Column.D + 1] = np.where(cell.n_pairs[:, None] > 0, cell.tables, 0.0)
    for successes, runs, mean, has in (
        (cell.baseline_successes, cell.baseline_runs, Column.BASELINE_SUCCESS, Column.HAS_BASELINE),
        (cell.arm_successes, cell.arm_runs, Column.ARM_SUCCESS, Column.HAS_ARM),
    ):
        columns[:, mean] = successes / np.maximum(runs, 1)
        columns[:, has] = runs > 0
    columns[:, Column.HAS_REPEATS] = cell.baseline_runs >= 2
    columns[:, Column.SPREAD] = unbiased_spread(cell.baseline_successes, cell.baseline_runs)
    columns[:, Column.REPEATED_SUCCESS] = columns[:, Column.BASELINE_SUCCESS] * columns[:, Column.HAS_REPEATS]
    return _merged(columns, cell.multiplicity.astype(np.float64))


def _merged(values: FloatArray, n_tasks: FloatArray) -> TaskGroups:
    """Rows with equal data as one group."""
    distinct, inverse = np.unique(values, axis=0, return_inverse=True)
    totals = np.bincount(inverse.ravel(), weights=n_tasks, minlength=len(distinct))
    return TaskGroups(values=distinct[totals > 0], n_tasks=totals[totals > 0])

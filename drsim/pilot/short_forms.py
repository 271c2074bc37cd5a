"""Counts and marginals as cells: evidence that somebody else has already reduced."""

from collections import defaultdict

import numpy as np

from drsim.arrays import IntArray
from drsim.errors import DataError
from drsim.pilot.cell import Cell, PairedBy, Pairing, Tally
from drsim.pilot.evidence import Counts, Marginals
from drsim.pilot.records import BASELINE, CountsRow, MarginalsRow

__all__ = ["cells_of_counts", "cells_of_marginals"]


def cells_of_counts(counts: Counts) -> Pairing:
    """One cell a row; every pair is a row of the cell's tables, and `tasks` is kept as stated."""
    cells = [_counts_cell(row) for row in counts.rows]
    tasks: dict[tuple[str, str], int] = defaultdict(int)
    for cell in cells:
        # Arms of one agent and benchmark were run on the same tasks.
        tasks[cell.agent, cell.benchmark] = max(tasks[cell.agent, cell.benchmark], cell.n_paired_tasks)
    return Pairing(
        baseline=BASELINE,
        cells=tuple(sorted(cells, key=lambda cell: (cell.agent, cell.benchmark, cell.arm))),
        n_runs=2 * sum(cell.n_paired for cell in cells),
        n_tasks=sum(tasks.values()),
        set_aside={"infra": 0, "unjudged": 0},
    )


def cells_of_marginals(marginals: Marginals, baseline: str = BASELINE) -> Pairing:
    """One cell for each intervened arm whose agent and benchmark have a baseline row, or one for the baseline alone.

    Raises
    ------
    DataError
        No row belongs to `baseline`.
    """
    groups: dict[tuple[str, str], dict[str, list[MarginalsRow]]] = defaultdict(lambda: defaultdict(list))
    for row in marginals.rows:
        groups[row.agent, row.benchmark][row.arm].append(row)
    cells = [
        _marginals_cell(by_arm[baseline], [] if arm == baseline else by_arm[arm])
        for _, by_arm in sorted(groups.items())
        if baseline in by_arm
        for arm in sorted(by_arm)
        if arm != baseline or len(by_arm) == 1
    ]
    if not cells:
        found = ", ".join(sorted({row.arm for row in marginals.rows}))
        raise DataError(
            f"no row belongs to the arm {baseline!r}; arms found: {found}; "
            "name the arm without intervention with --baseline ARM"
        )
    return Pairing(
        baseline=baseline,
        cells=tuple(cells),
        n_runs=sum(row.n for row in marginals.rows),
        n_tasks=sum(max(row.n for rows in by_arm.values() for row in rows) for by_arm in groups.values()),
        set_aside={"infra": 0, "unjudged": 0},
    )


def _counts_cell(row: CountsRow) -> Cell:
    multiplicity = np.array([row.a, row.b, row.c, row.d], dtype=np.int64)
    baseline_success = np.array([0, 1, 0, 1], dtype=np.int64)
    arm_success = np.array([0, 0, 1, 1], dtype=np.int64)
    ones = np.ones(4, dtype=np.int64)
    return Cell(
        agent=row.agent,
        benchmark=row.benchmark,
        arm=row.arm,
        paired_by=PairedBy.COUNTS,
        multiplicity=multiplicity,
        tables=np.eye(4),
        n_pairs=ones,
        baseline_successes=baseline_success,
        baseline_runs=ones,
        arm_successes=arm_success,
        arm_runs=ones,
        baseline_tally=Tally(success=row.b + row.d, fail=row.a + row.c),
        arm_tally=Tally(success=row.c + row.d, fail=row.a + row.b),
        stated_tasks=row.tasks,
    )


def _marginals_cell(baseline: list[MarginalsRow], arm: list[MarginalsRow]) -> Cell:
    base_success, base_fail, arm_success, arm_fail = (
        total for rows in (baseline, arm) for total in (_total(rows), sum(row.n for row in rows) - _total(rows))
    )
    has_repeats = max(len(baseline), len(arm)) > 1
    return Cell(
        agent=baseline[0].agent,
        benchmark=baseline[0].benchmark,
        arm=(arm or baseline)[0].arm,
        paired_by=PairedBy.NONE,
        multiplicity=np.array([base_success, base_fail, arm_success, arm_fail], dtype=np.int64),
        tables=np.full((4, 4), np.nan),
        n_pairs=_ints(0, 0, 0, 0),
        baseline_successes=_ints(1, 0, 0, 0),
        baseline_runs=_ints(1, 1, 0, 0),
        arm_successes=_ints(0, 0, 1, 0),
        arm_runs=_ints(0, 0, 1, 1),
        baseline_tally=Tally(success=base_success, fail=base_fail),
        arm_tally=Tally(success=arm_success, fail=arm_fail),
        stated_tasks=max(row.n for row in (*baseline, *arm)) if has_repeats else None,
    )


def _total(rows: list[MarginalsRow]) -> int:
    return sum(row.successes for row in rows)


def _ints(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64)

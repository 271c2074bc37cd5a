"""From cells to counts by task: one block for each agent and benchmark, its tasks shared by all of its arms.

Within a block the tasks of the arms are joined by name. Where a cell names no task (published tables), its rows are
tasks of their own: the arms of such a block then share the block's parameters, but no task.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import DataError
from drsim.pilot.cell import Cell, PairedBy

__all__ = ["Block", "CellKey", "HierarchicalData", "gather"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellKey:
    """An intervened arm of a block."""

    agent: str
    benchmark: str
    arm: str
    block: int
    """Index of its block."""
    place: int
    """Which of the block's arms it is, from 0."""
    is_forked: bool
    """Whether its pairs share a prefix, so that r and d of independent runs are not what the pairs show."""

    @property
    def name(self) -> str:
        """The cell in words."""
        return f"{self.agent} on {self.benchmark}, {self.arm}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Tasks of one agent and benchmark, those with equal counts in every arm together."""

    agent: str
    benchmark: str
    arms: tuple[str, ...]
    """Intervened arms; empty where there are baseline runs alone."""
    counts: IntArray
    """(n_patterns, 1 + n_arms, 2) successes and runs of one task: baseline first, then the arms; 0 of 0 where the task
    has no judged run."""
    weight: FloatArray
    """(n_patterns,) tasks with these counts; fractions where a file states repeated tasks without naming them."""

    @property
    def n_tasks(self) -> float:
        """Tasks of the block."""
        return float(self.weight.sum())

    @property
    def most_runs(self) -> int:
        """The most runs that a task has in one arm."""
        return int(self.counts[:, :, 1].max())


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalData:
    """All blocks of a pilot, and which cells they hold."""

    blocks: tuple[Block, ...]
    """In order of agent and benchmark."""
    cells: tuple[CellKey, ...]
    """In order of block and arm."""

    def cells_of_block(self, block: int) -> IntArray:
        """Indices of the cells of one block, in the order of its arms."""
        return np.array([i for i, cell in enumerate(self.cells) if cell.block == block], dtype=np.int64)


def gather(cells: Iterable[Cell]) -> HierarchicalData:
    """Counts by task from the cells of one pilot.

    Parameters
    ----------
    cells : iterable of Cell
        As from `drsim.pilot.cells.cells_of`; a cell of baseline runs alone adds a block without arms.

    Returns
    -------
    HierarchicalData

    Raises
    ------
    DataError
        There is no judged run, or two cells are the same agent, benchmark and arm.
    """
    by_block: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_block[cell.agent, cell.benchmark].append(cell)
    blocks: list[Block] = []
    keys: list[CellKey] = []
    for _, members in sorted(by_block.items()):
        _check_distinct(members)
        treated = sorted((cell for cell in members if cell.arm_runs.any()), key=lambda cell: cell.arm)
        block = _block(members, treated)
        if not len(block.weight):
            continue
        keys += [
            CellKey(
                agent=cell.agent,
                benchmark=cell.benchmark,
                arm=cell.arm,
                block=len(blocks),
                place=place,
                is_forked=cell.paired_by is PairedBy.FORK,
            )
            for place, cell in enumerate(treated)
        ]
        blocks.append(block)
    if not blocks:
        raise DataError("no run is judged, so that there is nothing to fit; judge the runs or give another file")
    return HierarchicalData(blocks=tuple(blocks), cells=tuple(keys))


def _check_distinct(members: Sequence[Cell]) -> None:
    names = [cell.name for cell in members]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"the cell {name} is given {names.count(name)} times; a cell may be given once")


def _block(members: Sequence[Cell], treated: Sequence[Cell]) -> Block:
    is_named = all(len(cell.task_ids) == len(cell.multiplicity) for cell in members)
    rows, weight = _joined(members, treated) if is_named else _stacked(members, treated)
    judged = (rows[:, :, 1].sum(axis=1) > 0) & (weight > 0)
    counts, inverse = np.unique(rows[judged], axis=0, return_inverse=True)
    return Block(
        agent=members[0].agent,
        benchmark=members[0].benchmark,
        arms=tuple(cell.arm for cell in treated),
        counts=counts,
        weight=np.bincount(inverse.ravel(), weights=weight[judged], minlength=len(counts)),
    )


def _joined(members: Sequence[Cell], treated: Sequence[Cell]) -> tuple[IntArray, FloatArray]:
    """One row for each named task of the block."""
    names = list(dict.fromkeys(name for cell in members for name in cell.task_ids))
    index = {name: i for i, name in enumerate(names)}
    rows = np.zeros((len(names), 1 + len(treated), 2), dtype=np.int64)
    weight = np.zeros(len(names))
    for cell in members:
        at = np.array([index[name] for name in cell.task_ids], dtype=np.int64)
        weight[at] = np.maximum(weight[at], cell.multiplicity)
        # Every cell of a block carries the same baseline; one that lacks a task carries 0 of 0 there.
        rows[at, 0] = np.maximum(rows[at, 0], np.stack([cell.baseline_successes, cell.baseline_runs], axis=1))
    for place, cell in enumerate(treated, start=1):
        at = np.array([index[name] for name in cell.task_ids], dtype=np.int64)
        rows[at, place] = np.stack([cell.arm_successes, cell.arm_runs], axis=1)
    return rows, weight


def _stacked(members: Sequence[Cell], treated: Sequence[Cell]) -> tuple[IntArray, FloatArray]:
    """The rows of the cells below one another, since nothing says which of them are the same task."""
    parts, weights = [], []
    places = {id(cell): place for place, cell in enumerate(treated, start=1)}
    for cell in members:
        rows = np.zeros((len(cell.multiplicity), 1 + len(treated), 2), dtype=np.int64)
        rows[:, 0] = np.stack([cell.baseline_successes, cell.baseline_runs], axis=1)
        if id(cell) in places:
            rows[:, places[id(cell)]] = np.stack([cell.arm_successes, cell.arm_runs], axis=1)
        parts.append(rows)
        weights.append(cell.multiplicity * _share_distinct(cell))
    return np.concatenate(parts), np.concatenate(weights)


def _share_distinct(cell: Cell) -> float:
    """Distinct tasks per row, where a file states how many there are: the reading that claims least."""
    if cell.stated_tasks is None:
        return 1.0
    n_rows = max(int(cell.multiplicity[runs > 0].sum()) for runs in (cell.baseline_runs, cell.arm_runs))
    return min(1.0, cell.stated_tasks / n_rows)

"""Pilots whose truth is drawn from the hierarchical model's own prior, and resampled real ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import special

from drsim.arrays import FloatArray, IntArray
from drsim.inference.hierarchical.data import Block, CellKey, HierarchicalData
from drsim.inference.hierarchical.design import Design
from drsim.pilot.cell import Cell
from drsim.pilot.cells import cells_of
from drsim.pilot.reading import read


def shape_of(
    n_benchmarks: int, n_arms: int, n_tasks: int, runs: int, agents: tuple[str, ...] = ("agent",)
) -> HierarchicalData:
    """Blocks and cells with `runs` runs of each task and arm, all failed: to be filled by `simulate`."""
    blocks: list[Block] = []
    cells: list[CellKey] = []
    arms = tuple(f"arm{i}" for i in range(n_arms))
    for agent in agents:
        for b in range(n_benchmarks):
            counts = np.zeros((n_tasks, 1 + n_arms, 2), dtype=np.int64)
            counts[:, :, 1] = runs
            for place, arm in enumerate(arms):
                cells.append(
                    CellKey(agent=agent, benchmark=f"b{b}", arm=arm, block=len(blocks), place=place, is_forked=False)
                )
            blocks.append(Block(agent=agent, benchmark=f"b{b}", arms=arms, counts=counts, weight=np.ones(n_tasks)))
    return HierarchicalData(blocks=tuple(blocks), cells=tuple(cells))


def simulate(data: HierarchicalData, design: Design, x: FloatArray, rng: np.random.Generator) -> HierarchicalData:
    """The same blocks with counts drawn at (n_x,) parameters."""
    return replace(
        data,
        blocks=tuple(
            _compressed(replace(block, counts=_counts(block, x[start:stop], rng)))
            for block, start, stop in zip(data.blocks, design.starts, design.starts[1:], strict=False)
        ),
    )


def _counts(block: Block, own: FloatArray, rng: np.random.Generator) -> IntArray:
    n_tasks, n_arms = len(block.counts), len(block.arms)
    sigma = np.exp(own[1])
    scale = np.sqrt(1 + 256 / 75 / np.pi**2 * sigma**2)
    logit = np.empty((n_tasks, 1 + n_arms))
    logit[:, 0] = scale * own[0] + sigma * rng.standard_normal(n_tasks)
    effect = own[2::2] + np.exp(own[3::2]) * rng.standard_normal((n_tasks, n_arms))
    logit[:, 1:] = logit[:, :1] + scale * effect
    counts = block.counts.copy()
    counts[:, :, 0] = rng.binomial(counts[:, :, 1], special.expit(logit))
    return counts


def _compressed(block: Block) -> Block:
    counts, weight = np.unique(block.counts, axis=0, return_counts=True)
    return replace(block, counts=counts, weight=weight.astype(np.float64))


def real_cells(shared_data: Path, name: str) -> tuple[Cell, ...]:
    """Cells of a pilot made by others."""
    return cells_of(read([str(shared_data / "pilots" / f"{name}.jsonl")])).cells


def with_tasks(cell: Cell, names: set[str]) -> Cell:
    """The cell with some of its tasks."""
    keep = np.array([name in names for name in cell.task_ids])
    return replace(
        cell,
        task_ids=tuple(name for name in cell.task_ids if name in names),
        multiplicity=cell.multiplicity[keep],
        tables=cell.tables[keep],
        n_pairs=cell.n_pairs[keep],
        baseline_successes=cell.baseline_successes[keep],
        baseline_runs=cell.baseline_runs[keep],
        arm_successes=cell.arm_successes[keep],
        arm_runs=cell.arm_runs[keep],
    )

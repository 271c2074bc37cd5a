"""From a finished sweep to what is told of it: the best cell, what it stands against, and one line."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.planning.axes import Family
from drsim.planning.sweep import Sweep, baseline_of
from drsim.planning.sweep_cells import COLUMNS
from drsim.report.sweep.words import Cell, cell_at, gain_words, points_off, varied, when

__all__ = ["MOST_LISTED", "Answer", "answer_of", "headline"]

MOST_LISTED = 10_000
"""Cells that are listed one by one; of a larger sweep as many of the best are."""

GAIN = COLUMNS.index("gain_mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is told of a sweep."""

    sweep: Sweep
    best: Cell
    other_half: Cell | None
    """Of `early-vs-late`: the cell that fires in the steps in which the best does not; None where it has none."""
    cells: list[Cell]
    """All of them in order, or the `MOST_LISTED` best in order where there are more."""
    baseline: FloatArray
    """(D,) P(success) of unaided runs."""


def answer_of(sweep: Sweep) -> Answer:
    """Read what is told from a sweep's store, in memory that does not grow with the number of its cells."""
    best = _read(sweep, sweep.winner.cell)
    return Answer(
        sweep=sweep,
        best=best,
        other_half=_other_half(sweep, best),
        cells=sorted(_listed(sweep), key=lambda it: it.index),
        baseline=baseline_of(sweep.inputs),
    )


def _listed(sweep: Sweep) -> list[Cell]:
    axes = sweep.inputs.axes
    if len(axes) <= MOST_LISTED:
        return [cell_at(axes, cells, rows, i) for cells, rows in sweep.blocks() for i in range(len(cells))]
    gain, index = np.zeros(0), np.zeros(0, dtype=np.int64)
    for cells, rows in sweep.blocks():
        gain, index = np.concatenate([gain, rows[:, GAIN]]), np.concatenate([index, cells.index])
        # sorted now and then, so that it costs little for each block
        if len(gain) > 4 * MOST_LISTED:
            gain, index = _largest(gain, index)
    index = np.sort(_largest(gain, index)[1])
    cells, rows = axes.cells(index), sweep.rows(index)
    return [cell_at(axes, cells, rows, i) for i in range(len(cells))]


def _largest(gain: FloatArray, index: IntArray) -> tuple[FloatArray, IntArray]:
    order = np.lexsort((index, -gain))[:MOST_LISTED]
    return gain[order], index[order]


def _read(sweep: Sweep, index: int) -> Cell:
    number = np.array([index])
    return cell_at(sweep.inputs.axes, sweep.inputs.axes.cells(number), sweep.rows(number), 0)


def _other_half(sweep: Sweep, best: Cell) -> Cell | None:
    axes = sweep.inputs.axes
    if axes.timing.family is not Family.EARLY_VS_LATE:
        return None
    end = axes.timing.horizon - 1
    mechanism, timing, *others = (int(it) for it in np.unravel_index(best.index, axes.shape))
    # early cells end in step 0 … end − 1 and come first; the late cell from the step after has the number `end` higher
    if timing == end:
        return None
    other = timing + end + 1 if timing < end else timing - end - 1
    return _read(sweep, int(np.ravel_multi_index((mechanism, other, *others), axes.shape)))


def headline(answer: Answer) -> str:
    """One line: when to intervene and what that gains."""
    axes = answer.sweep.inputs.axes
    best = answer.best
    how = [when(axes, best), *_settings(answer, best)]
    gain = gain_words(best, answer.sweep.inputs.n_draws)
    line = f"{', '.join(how)}: {gain}"
    if best.gain <= 0.0:
        line = f"no cell gains: leave the agent alone; the best is {line}"
    if answer.other_half is not None:
        name = "early" if best.first_step > 0 else "late"
        line += f"; {name} {points_off(answer.other_half.gain)}"
    return line


def _settings(answer: Answer, cell: Cell) -> list[str]:
    texts = {
        "mechanism": cell.mechanism,
        "threshold": f"threshold {cell.threshold:g}",
        "budget": f"budget {cell.budget}",
        "cooldown": f"cooldown {cell.cooldown}",
    }
    return [texts[name] for name in varied(answer.sweep.inputs.axes)]

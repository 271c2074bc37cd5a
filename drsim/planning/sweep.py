"""A sweep: every cell of a product of axes under every draw of a model, block by block, with the winner corrected.

Blocks of cells are worked out by threads or by the workers of a cluster, in whatever order, and put in a store; what is
read from the store is in the order of the cells. A block depends on the inputs and its number alone, so the result is
the same to the bit for any number of workers, and after any kill. Memory holds a few blocks, however many cells there
are.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import DataError
from drsim.inference.posterior import Uncertain
from drsim.inference.threads import n_cores
from drsim.planning.axes import Cells
from drsim.planning.store import BlockStore, open_store
from drsim.planning.sweep_cells import COLUMNS, SweepInputs, block_of, cell_values
from drsim.planning.winner import Champions, merge
from drsim.process.stacks import PolicyTable
from drsim.process.success_many import success_many

__all__ = ["Progress", "Sweep", "Winner", "baseline_of", "run_sweep", "vector_of_block", "with_threads"]

FRESH = 0x6672_6573
"""Added to the seed of the runs that value the best cell of one model, which other runs picked."""

type Jury = Literal["draws", "data", "runs", "nothing"]
"""What the best cell is valued by."""

type Runner = Callable[[SweepInputs, Sequence[int]], Iterator[tuple[int, FloatArray]]]
"""Works out blocks by number and yields them, in any order, as `vector_of_block` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is."""

    n_done: int
    """Cells, also those that were in the store."""
    n_cells: int
    seconds: float
    """Since this call began."""
    seconds_left: float
    """At the pace of this call; NaN before its first block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The best cell, before and after correction for having been picked."""

    cell: int
    """Number of the cell with the largest mean gain."""
    gain: FloatArray
    """(D,) its gain under every draw, which picked it."""
    gain_corrected: FloatArray
    """Its own gain, valued by draws, runs or tasks that did not pick it; `drsim.planning.winner` says how."""
    corrected_by: Jury
    """`draws`, `data`, `runs`, or `nothing`: one model, taken as it stands and exact, has no luck to take out."""
    corrected_se: float
    """Monte Carlo error of the mean of `gain_corrected` under one model; 0 elsewhere."""
    prob_best: float
    """Share of draws in which the cell is the best of all."""

    @property
    def uncertain(self) -> Uncertain:
        """Of `gain_corrected`; NaN but for the mean under one model."""
        if self.gain_corrected.size > 1:
            return Uncertain.from_draws(self.gain_corrected)
        nothing = float("nan")
        return Uncertain(mean=float(self.gain_corrected[0]), sd=nothing, q2_5=nothing, q50=nothing, q97_5=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A finished sweep; its cells are read from the store."""

    inputs: SweepInputs
    store: BlockStore
    winner: Winner
    recomputed: tuple[int, ...] = ()
    """Blocks whose file was damaged and which were computed again."""

    @property
    def n_cells(self) -> int:
        """Cells of the product."""
        return len(self.inputs.axes)

    def blocks(self) -> Iterator[tuple[Cells, FloatArray]]:
        """Cells and their rows (n, len(COLUMNS)), block by block in order."""
        for block in range(self.store.n_blocks):
            start, stop = self.inputs.bounds(block)
            yield self.inputs.axes.cells(np.arange(start, stop)), _rows(self.inputs, self.store, block)

    def rows(self, index: IntArray) -> FloatArray:
        """(n, len(COLUMNS)) of the cells `index` (n,), in its order."""
        size = self.inputs.block_cells
        out = np.empty((len(index), len(COLUMNS)))
        for block in np.unique(index // size):
            here = index // size == block
            out[here] = _rows(self.inputs, self.store, int(block))[index[here] - block * size]
        return out


def baseline_of(inputs: SweepInputs) -> FloatArray:
    """(D,) P(success) of unaided runs, exact under every draw."""
    never = PolicyTable(
        mechanism=np.array([-1]),
        logit_threshold=np.full((1, inputs.model.horizon), np.inf),
        budget=np.array([0]),
        cooldown=np.array([0]),
        propensity=np.ones((1, inputs.model.horizon)),
    )
    return success_many(inputs.draws, never).baseline


def vector_of_block(inputs: SweepInputs, block: int) -> FloatArray:
    """All numbers of a block in one row: its cells', then its champions'."""
    rows, champions = block_of(inputs, *inputs.bounds(block))
    return np.concatenate([rows.ravel(), champions.to_vector()])


def _parts(inputs: SweepInputs, store: BlockStore, block: int) -> tuple[FloatArray, FloatArray]:
    vector = store.read(block)
    if vector is None:
        raise DataError(f"{store.path(block)} was damaged or removed while it was read; run again with --resume")
    start, stop = inputs.bounds(block)
    n = (stop - start) * len(COLUMNS)
    return vector[:n].reshape(-1, len(COLUMNS)), vector[n:]


def _rows(inputs: SweepInputs, store: BlockStore, block: int) -> FloatArray:
    return _parts(inputs, store, block)[0]


def with_threads(n_threads: int | None = None) -> Runner:
    """A runner on threads of this process.

    Parameters
    ----------
    n_threads : int, optional
        ≥ 1; as many as there are cores for this process where not given. Monte Carlo always takes one, since the
        engine has threads of its own.
    """

    def run(inputs: SweepInputs, blocks: Sequence[int]) -> Iterator[tuple[int, FloatArray]]:
        size = (n_threads or n_cores()) if inputs.axes.is_exact else 1
        pending: dict[Future[FloatArray], int] = {}
        ahead = iter(blocks)
        with ThreadPoolExecutor(size) as pool:
            try:
                while True:
                    # twice as many as threads: none waits, and no more blocks than these are held
                    while len(pending) < 2 * size and (block := next(ahead, None)) is not None:
                        pending[pool.submit(vector_of_block, inputs, block)] = block
                    if not pending:
                        return
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield pending.pop(future), future.result()
            finally:
                for future in pending:
                    future.cancel()

    return run


@contextmanager
def run_sweep(
    inputs: SweepInputs,
    *,
    folder: Path | None = None,
    resume: bool = False,
    runner: Runner | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Iterator[Sweep]:
    """Work out every cell; a context, since without a folder the cells lie in a temporary one.

    Parameters
    ----------
    inputs : SweepInputs
        What is swept.
    folder : Path, optional
        Where finished blocks are kept; a temporary folder, removed at the end, where not given.
    resume : bool
        Whether to go on with what `folder` holds.
    runner : callable, optional
        What works out the blocks; `with_threads()` where not given.
    progress : callable, optional
        Told after every block.

    Yields
    ------
    Sweep

    Raises
    ------
    ParameterError, DataError
        The folder cannot be used; see `open_store`.
    ConvergenceError
        The run-level shift of a draw is too wide for exact values.
    """
    with tempfile.TemporaryDirectory(prefix="drsim-sweep-") as temporary:
        store = open_store(
            Path(temporary) / "store" if folder is None else folder,
            inputs=inputs.digests(),
            n_blocks=inputs.n_blocks,
            about={
                "source": inputs.source,
                "axes": inputs.axes.to_dict(),
                "n_cells": len(inputs.axes),
                "n_draws": inputs.n_draws,
                "block_cells": inputs.block_cells,
            },
            resume=resume,
        )
        missing, damaged = store.missing()
        _work(inputs, store, missing, runner or with_threads(), progress)
        yield Sweep(inputs=inputs, store=store, winner=_winner(inputs, store), recomputed=tuple(damaged))


def _work(
    inputs: SweepInputs,
    store: BlockStore,
    missing: Sequence[int],
    runner: Runner,
    progress: Callable[[Progress], None] | None,
) -> None:
    n_cells = len(inputs.axes)
    left = sum(stop - start for start, stop in (inputs.bounds(block) for block in missing))
    n_before, begun = n_cells - left, time.monotonic()
    n_done = n_before
    for block, vector in runner(inputs, missing):
        store.write(block, vector)
        start, stop = inputs.bounds(block)
        n_done += stop - start
        if progress is not None:
            seconds = time.monotonic() - begun
            pace = seconds / (n_done - n_before)
            progress(Progress(n_done=n_done, n_cells=n_cells, seconds=seconds, seconds_left=pace * (n_cells - n_done)))


def _winner(inputs: SweepInputs, store: BlockStore) -> Winner:
    best: Champions | None = None
    for block in range(store.n_blocks):
        _, vector = _parts(inputs, store, block)
        here = Champions.from_vector(vector, inputs.n_draws, inputs.data_sizes)
        best = here if best is None else merge(best, here)
    if best is None:
        raise DataError("a sweep needs at least one cell, got none; give every axis a value")
    corrected, by, se = _corrected(inputs, best)
    return Winner(
        cell=best.cell,
        gain=best.all_draws.gain,
        gain_corrected=corrected,
        corrected_by=by,
        corrected_se=se,
        prob_best=best.prob_best,
    )


def _corrected(inputs: SweepInputs, best: Champions) -> tuple[FloatArray, Jury, float]:
    if inputs.folds:
        return best.by_data.gain, "data", 0.0
    if inputs.n_draws > 1:
        return best.by_draws.gain, "draws", 0.0
    if inputs.axes.is_exact:
        return best.all_draws.gain, "nothing", 0.0
    fresh = cell_values(replace(inputs, seed=inputs.seed + FRESH), inputs.axes.cells(np.array([best.cell])))
    return fresh.gain[0], "runs", float(fresh.errors["gain"][0, 0])

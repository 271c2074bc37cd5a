"""The engine compiled by Numba: parallel over blocks of runs, the same bits as `reference`.

A block of runs goes through the steps together, under all policies at once, each step in a few passes over the block.
A pass does one thing to every run, acting or not, without a branch and without a list, so that the compiler turns it
into vector instructions (a generator by address has no state that would forbid it even for the words); one draw serves
every purpose and every policy. Only the few runs that fire are taken one by one. Now and then the runs that have ended
under every policy are dropped and the others moved together.
"""

from pathlib import Path

import numba
import numpy as np

from drsim.engine.compiled import compiled, parallel
from drsim.engine.law import Law
from drsim.engine.numba_passes import (
    Key,
    Outputs,
    Progress,
    Scratch,
    Tables,
    Words,
    begin_block,
    draw_step,
    end_runs,
    step_policy,
    tidy_block,
)
from drsim.engine.numba_signals import SignalArrays, empty_memory, start_memory
from drsim.engine.random import key_words
from drsim.engine.runs import SimulatedRuns
from drsim.errors import ParameterError

__all__ = ["is_compiled", "run_law"]

BLOCK = 4096
"""Runs that go through the steps together: what a block remembers of a few policies fits a second-level cache."""

TIDY_EVERY = 4
"""Steps between two looks at how many runs of a block are still under way."""
FEW = 0.8
"""Share of a block's runs under way below which the others are dropped."""


def is_compiled() -> bool:
    """Whether an earlier process has left the engine compiled; else its first use takes some 20 s."""
    kept = Path(_fill._cache.cache_path)  # type: ignore[attr-defined] # of every cached function
    return any(kept.glob(f"{Path(__file__).stem}.{_fill.__name__}-*.nbi"))


def run_law(
    law: Law, *, n: int, seed: int, first: int = 0, first_task: int | None = None, threads: int | None = None
) -> list[SimulatedRuns]:
    """Simulate runs `first` … `first + n − 1` of a seed under every policy.

    Parameters
    ----------
    law : Law
        K policies.
    n : int
        Number of runs, ≥ 0.
    seed : int
        In [0, 2⁶⁴).
    first : int
        Index of the first run, ≥ 0.
    first_task : int, optional
        Index of the first run's task, the next run's being the next; that of the run when not given.
    threads : int, optional
        Threads to share the runs; all that Numba was started with when not given.

    Returns
    -------
    list of SimulatedRuns
        Equal to those of `reference.run_law` to the bit.

    Raises
    ------
    ParameterError
        `threads` is not between 1 and what Numba was started with.
    """
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined] # set when Numba reads the environment
    if threads is not None and not 1 <= threads <= most:
        raise ParameterError(f"threads must lie in [1, {most}], got {threads}; NUMBA_NUM_THREADS sets the upper end")
    tables = Tables(
        **{name: getattr(law, name) for name in Tables._fields if name != "act"},
        act=np.ascontiguousarray(law.act.reshape(-1, law.n_states + 1).T),
    )
    signals = SignalArrays(**{name: getattr(law.signals, name) for name in SignalArrays._fields})
    out = _outputs(law, n)
    before = numba.get_num_threads()
    numba.set_num_threads(threads or before)
    try:
        _fill(
            tables,
            signals,
            np.uint64(first),
            np.uint64(first if first_task is None else first_task),
            key_words(seed),
            out,
        )
    finally:
        numba.set_num_threads(before)
    return [_policy_runs(out, k) for k in range(law.n_policies)]


def _outputs(law: Law, n: int) -> Outputs:
    fired_from = np.concatenate([[0], np.cumsum(law.budget)])
    withheld_from = np.concatenate([[0], np.cumsum(law.horizon * law.withholds)])
    shape = (law.n_policies, n)
    return Outputs(
        ending=np.empty(shape, dtype=np.uint8),
        acts=np.zeros(shape, dtype=np.int32),
        interventions=np.zeros(shape, dtype=np.int32),
        fired_at=np.full((n, fired_from[-1]), -1, dtype=np.int32),
        first_state=np.full(shape, -1, dtype=np.int32),
        withheld=np.zeros((n, withheld_from[-1]), dtype=np.bool_),
        tokens=np.zeros(shape),
        fired_from=fired_from,
        withheld_from=withheld_from,
    )


def _policy_runs(out: Outputs, k: int) -> SimulatedRuns:
    return SimulatedRuns(
        ending=out.ending[k],
        acts=out.acts[k],
        interventions=out.interventions[k],
        fired_at=out.fired_at[:, out.fired_from[k] : out.fired_from[k + 1]],
        first_state=out.first_state[k],
        withheld=out.withheld[:, out.withheld_from[k] : out.withheld_from[k + 1]],
        tokens=out.tokens[k],
    )


@compiled
def _go(
    tables: Tables,
    signals: SignalArrays,
    first: np.uint64,
    first_task: np.uint64,
    key: Key,
    begin: int,
    n: int,
    out: Outputs,
) -> None:
    """Take a block of runs from start to end."""
    n_policies, horizon = tables.is_open.shape
    word = np.empty((11, n), np.uint32)
    by_policy = np.empty((3, n_policies, n), np.uint32)
    words = Words(word[0], word[1], word[2], word[3])
    at = Progress(word[4], word[5], word[6], by_policy[0], by_policy[1], by_policy[2])
    scratch = Scratch(word[7], word[8], word[9], word[10])
    memory = empty_memory(signals, n)
    start_memory(signals, memory)
    begin_block(tables, signals, first, first_task, key, n, at, words, scratch)
    n_left = n
    for t in range(horizon):
        if t % TIDY_EVERY == TIDY_EVERY - 1:
            n_left = tidy_block(tables, begin, n_left, FEW * n_left, at, scratch, memory, out)
        draw_step(first, n_left, t, key, at, words)
        for k in range(n_policies):
            step_policy(tables, signals, k, t, n_left, begin, at, words, scratch, memory, out)
    for j in range(n_left):
        scratch.fired[j] = j
    for k in range(n_policies):
        end_runs(tables, k, begin, n_left, scratch.fired, at, out)


@parallel
def _fill(
    tables: Tables, signals: SignalArrays, first: np.uint64, first_task: np.uint64, key: Key, out: Outputs
) -> None:
    n = out.ending.shape[1]
    for block in numba.prange((n + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        size = min(BLOCK, n - begin)
        _go(tables, signals, first + np.uint64(begin), first_task + np.uint64(begin), key, begin, size, out)

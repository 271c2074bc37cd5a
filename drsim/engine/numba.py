"""The engine compiled by Numba: parallel over blocks of runs, the same bits as `reference`.

A block of runs goes through the steps together, under all policies at once, each step in a few passes over the block.
A pass does one thing to every run, acting or not, without a branch and without a list, so that the compiler turns it
into vector instructions (a generator by address has no state that would forbid it even for the words); one draw serves
every purpose and every policy. Only the few runs that fire are taken one by one. Now and then the runs that have ended
under every policy are dropped and the others moved together.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.engine.law import Law
from drsim.engine.numba_signals import (
    Memory,
    SignalArrays,
    empty_memory,
    note_interventions,
    pack,
    pack_memory,
    read_shifts,
    signalled,
    start_memory,
)
from drsim.engine.random import Block, WordArray, key_words
from drsim.engine.random_numba import philox4x32
from drsim.engine.runs import Ending, SimulatedRuns
from drsim.engine.thresholds import LAST_DRAW
from drsim.errors import ParameterError

__all__ = ["is_compiled", "run_law"]

STEP, RUN, TASK = np.uint32(Block.STEP), np.uint32(Block.RUN), np.uint32(Block.TASK)
SUCCESS, FAIL, CAPPED = np.uint8(Ending.SUCCESS), np.uint8(Ending.FAIL), np.uint8(Ending.CAPPED)
ZERO, ONE = np.uint32(0), np.uint32(1)
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)
SPENT = np.uint32(2**31)
"""Step from which a run may be intervened in once its budget is spent."""

BLOCK = 4096
"""Runs that go through the steps together: what a block remembers of a few policies fits a second-level cache."""

TIDY_EVERY = 4
"""Steps between two looks at how many runs of a block are still under way."""
FEW = 0.8
"""Share of a block's runs under way below which the others are dropped."""

type Key = tuple[np.uint32, np.uint32]


class Tables(NamedTuple):
    """The arrays of a `Law`, in a form that compiled code takes."""

    start: WordArray
    task: WordArray
    act: WordArray
    """(S + 1, J T S), thresholds first."""
    intervene: WordArray
    fire: WordArray
    acted: WordArray
    is_open: BoolArray
    withholds: BoolArray
    budget: IntArray
    cooldown: IntArray
    extra_steps: IntArray
    tokens_to_end: FloatArray
    tokens_of_firing: FloatArray
    passed_over: NDArray[np.int32]


class Outputs(NamedTuple):
    """Fields of `SimulatedRuns` of K policies, stacked or side by side."""

    ending: NDArray[np.uint8]
    acts: NDArray[np.int32]
    interventions: NDArray[np.int32]
    fired_at: NDArray[np.int32]
    """(n, sum of budgets)."""
    first_state: NDArray[np.int32]
    withheld: BoolArray
    """(n, T times the policies that withhold)."""
    tokens: FloatArray
    fired_from: IntArray
    """(K + 1,) where the columns of each policy begin in `fired_at`."""
    withheld_from: IntArray
    """(K + 1,) likewise in `withheld`."""


class Words(NamedTuple):
    """Draws of the step, as they stand in the block."""

    act: WordArray
    score: WordArray
    mechanism: WordArray
    policy: WordArray


class Progress(NamedTuple):
    """How far the runs of a block have come; those still under way stand together in front."""

    place: WordArray
    """(block,) which run of the block."""
    row: WordArray
    """(block,) where the rows of the task's class begin in `act`."""
    shift: WordArray
    """(block,) levels of the run's shift, negative ones modulo 2³²."""
    state: WordArray
    """(K, block) live state, or S for success and S + 1 for fail."""
    acts_next: WordArray
    """(K, block) step of the next act; T + 1 + t for a run that ended in step t."""
    fires_from: WordArray
    """(K, block) first step in which the cooldown is over; `SPENT` once the budget is."""


class Scratch(NamedTuple):
    """Room for the passes of one step, (block,) each."""

    reached: WordArray
    thresholds: WordArray
    is_fired: WordArray
    fired: WordArray
    """Positions of the runs that fire."""


def _compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """`numba.njit` with a type, which Numba does not ship."""
    return cast("Callable[P, R]", numba.njit(nogil=True)(function))


def _parallel[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `_compiled`, in parallel, and kept between processes.

    What is kept is renewed when this file changes, not when one does whose functions are compiled into it: after a
    change there, remove `__pycache__`; until then the tests of equal runs fail.
    """
    return cast("Callable[P, R]", numba.njit(parallel=True, nogil=True, cache=True)(function))


def _inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """`numba.njit` with a type, copied into every caller."""
    return cast("Callable[P, R]", numba.njit(inline="always")(function))


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


@_inlined
def _outcome(word: np.uint32, thresholds: WordArray) -> np.uint32:
    draw = min(word, LAST_DRAW)
    outcome = np.uint32(0)
    for c in range(thresholds.size):
        outcome += np.uint32(thresholds[c] <= draw)
    return outcome


@_compiled
def _draw(first: np.uint64, n: int, step: int, block: np.uint32, key: Key, at: Progress, words: Words) -> None:
    """Draws of the first `n` runs at one step."""
    for j in range(n):
        run = first + np.uint64(at.place[j])
        a, b, c, d = philox4x32((np.uint32(run & LOW), np.uint32(run >> HALF), np.uint32(step), block), key)
        words.act[j], words.score[j], words.mechanism[j], words.policy[j] = min(a, LAST_DRAW), b, c, d


@_compiled
def _begin(
    tables: Tables,
    signals: SignalArrays,
    first: np.uint64,
    first_task: np.uint64,
    key: Key,
    n: int,
    at: Progress,
    words: Words,
    scratch: Scratch,
) -> None:
    """Put every run of a block into its first state."""
    n_steps, n_states = tables.fire.shape[1:]
    for j in range(n):
        at.place[j] = j
        at.row[j] = 0
    if tables.task.size:
        _draw(first_task, n, 0, TASK, key, at, words)
        for j in range(n):
            at.row[j] = _outcome(words.act[j], tables.task) * np.uint32(n_steps * n_states)
    _draw(first, n, 0, RUN, key, at, words)
    read_shifts(signals, n, words.score, at.shift)
    for k in range(at.state.shape[0]):
        at.state[k, :n] = 0
        at.acts_next[k, :n] = 0
        at.fires_from[k, :n] = ZERO if tables.budget[k] else SPENT
        for c in range(tables.start.size):
            scratch.thresholds[:n] = tables.start[c]
            _count_reached(n, words.act, scratch.thresholds, at.state[k])


@_compiled
def _by_state(values: WordArray, n: int, state: WordArray, out: WordArray) -> None:
    """The value of each run's state; of no meaning for a run that has ended."""
    first, second = values[0], values[1]
    for j in range(n):
        out[j] = first if state[j] == ZERO else second
    for x in range(2, values.size):
        value, this = values[x], np.uint32(x)
        for j in range(n):
            other, at = out[j], state[j]
            out[j] = value if at == this else other


@_compiled
def _reach(
    tables: Tables, t: int, n: int, draws: WordArray, state: WordArray, row: WordArray, scratch: Scratch
) -> None:
    """The state that each run would reach by its draw."""
    n_states = tables.fire.shape[2]
    last, begin = np.uint32(n_states - 1), np.uint32(t * n_states)
    reached, thresholds = scratch.reached, scratch.thresholds
    reached[:n] = 0
    for c in range(n_states + 1):
        by_row = tables.act[c]
        if tables.task.size:
            for j in range(n):
                thresholds[j] = by_row[row[j] + begin + min(state[j], last)]
        else:
            _by_state(by_row[t * n_states : (t + 1) * n_states], n, state, thresholds)
        _count_reached(n, draws, thresholds, reached)


@_compiled
def _count_reached(n: int, draws: WordArray, thresholds: WordArray, reached: WordArray) -> None:
    for j in range(n):
        reached[j] += ONE if thresholds[j] <= draws[j] else ZERO


@_compiled
def _act(
    t: int,
    n_states: int,
    horizon: int,
    until: np.uint32,
    n: int,
    state: WordArray,
    acts_next: WordArray,
    fires_from: WordArray,
    scratch: Scratch,
) -> None:
    """Move the runs whose turn it is; which of them are live and have `fires_from` ≤ `until` is left in `is_fired`."""
    now, following, over = np.uint32(t), np.uint32(t + 1), np.uint32(horizon + 1 + t)
    first_ended = np.uint32(n_states)
    reached, is_watched = scratch.reached, scratch.is_fired
    for j in range(n):
        # all is read before anything is written, or the loop is not turned into vector instructions
        before, after, turn, ready = state[j], reached[j], acts_next[j], fires_from[j]
        is_acting = turn == now
        after = after if is_acting else before
        then = following if after < first_ended else over
        state[j] = after
        acts_next[j] = then if is_acting else turn
        is_watched[j] = ONE if is_acting & (after < first_ended) & (ready <= until) else ZERO


@_compiled
def _listed(n: int, is_listed: WordArray, positions: WordArray) -> int:
    """List positions without a branch that would be hard to predict."""
    count = 0
    for j in range(n):
        positions[count] = j
        count += is_listed[j]
    return count


@_compiled
def _by_chance(fire: WordArray, n: int, draws: WordArray, state: WordArray, scratch: Scratch) -> None:
    """Leave those of the watched runs that fire with a probability by state."""
    _by_state(fire, n, state, scratch.thresholds)
    for j in range(n):
        draw, threshold, is_watched = min(draws[j], LAST_DRAW), scratch.thresholds[j], scratch.is_fired[j]
        scratch.is_fired[j] = is_watched if draw < threshold else ZERO


@_compiled
def _withhold(
    threshold: np.uint32, n: int, fired: WordArray, words: WordArray, at: Progress, withheld: BoolArray
) -> int:
    """Keep those of the first `n` fired runs that are acted on, and note the others."""
    acted = 0
    for j in range(n):
        i = fired[j]
        is_acted = min(words[i], LAST_DRAW) < threshold
        withheld[at.place[i]] = not is_acted
        fired[acted] = i
        acted += is_acted
    return acted


@_compiled
def _intervene(
    tables: Tables, k: int, t: int, n: int, fired: WordArray, words: WordArray, at: Progress, out: Outputs, begin: int
) -> None:
    """Move the first `n` fired runs by their words."""
    kernel, column = tables.intervene[k, t], out.fired_from[k]
    for j in range(n):
        i = fired[j]
        run = begin + at.place[i]
        state, count = at.state[k, i], out.interventions[k, run]
        if count == 0:
            out.first_state[k, run] = state
        at.state[k, i] = _outcome(words[i], kernel[state])
        out.fired_at[run, column + count] = t
        out.interventions[k, run] = count + 1
        out.acts[k, run] -= tables.passed_over[k, t]
        out.tokens[k, run] += tables.tokens_of_firing[k, t]
        at.acts_next[k, i] = t + 1 + tables.extra_steps[k]
        at.fires_from[k, i] = t + 1 + tables.cooldown[k] if count + 1 < tables.budget[k] else SPENT


@_compiled
def _step(
    tables: Tables,
    signals: SignalArrays,
    k: int,
    t: int,
    n: int,
    begin: int,
    at: Progress,
    words: Words,
    scratch: Scratch,
    memory: Memory,
    out: Outputs,
) -> None:
    """Act, monitor and intervene under policy k."""
    horizon, n_states = tables.fire.shape[1:]
    state, acts_next, fires_from = at.state[k], at.acts_next[k], at.fires_from[k]
    _reach(tables, t, n, words.act, state, at.row, scratch)
    looks_back = signals.reading[k] > 1
    until = SPENT - np.uint32(1) if looks_back else np.uint32(t)
    _act(t, n_states, horizon, until, n, state, acts_next, fires_from, scratch)
    if not (looks_back or tables.is_open[k, t]):
        return
    if signals.reading[k] == 0:
        _by_chance(tables.fire[k, t], n, words.score, state, scratch)
    else:
        signalled(signals, k, t, n, words.score, at.shift, state, fires_from, scratch.is_fired, memory)
    n_fired = _listed(n, scratch.is_fired, scratch.fired) if tables.is_open[k, t] else 0
    if tables.withholds[k]:
        withheld = out.withheld[begin:, out.withheld_from[k] + t]
        n_fired = _withhold(tables.acted[k, t], n_fired, scratch.fired, words.policy, at, withheld)
    _intervene(tables, k, t, n_fired, scratch.fired, words.mechanism, at, out, begin)
    if looks_back:
        note_interventions(signals, k, t, n_fired, scratch.fired, memory)


@_compiled
def _end(tables: Tables, k: int, begin: int, n: int, positions: WordArray, at: Progress, out: Outputs) -> None:
    """How the first `n` listed runs ended under policy k, and what they spent beside their interventions."""
    horizon, n_states = tables.fire.shape[1:]
    for i in range(n):
        j = positions[i]
        run, state = begin + at.place[j], at.state[k, j]
        since_horizon = np.int64(at.acts_next[k, j]) - (horizon + 1)
        last = since_horizon if state >= n_states else np.int64(horizon)
        ended = SUCCESS if state == n_states else FAIL
        out.ending[k, run] = ended if state >= n_states else CAPPED
        out.acts[k, run] += min(last + 1, horizon)
        out.tokens[k, run] += tables.tokens_to_end[k, last]


@_compiled
def _tidy(
    tables: Tables, begin: int, n: int, few: float, at: Progress, scratch: Scratch, memory: Memory, out: Outputs
) -> int:
    """Drop runs that have ended under every policy, if no more than `few` are under way; how many are left."""
    n_policies, horizon = tables.is_open.shape
    is_over, under_way = scratch.reached, scratch.is_fired
    end = np.uint32(horizon)
    is_over[:n] = 1
    for k in range(n_policies):
        for j in range(n):
            turn, over = at.acts_next[k, j], is_over[j]
            is_over[j] = over if turn >= end else ZERO
    n_over = _listed(n, is_over, scratch.fired)
    if n - n_over > few:
        return n
    for j in range(n):
        under_way[j] = np.uint32(1) - is_over[j]
    for k in range(n_policies):
        _end(tables, k, begin, n_over, scratch.fired, at, out)
        pack(n, under_way, at.state[k])
        pack(n, under_way, at.acts_next[k])
        pack(n, under_way, at.fires_from[k])
    pack_memory(n, under_way, memory)
    if tables.task.size:
        pack(n, under_way, at.row)
    if memory.reads_levels:
        pack(n, under_way, at.shift)
    pack(n, under_way, at.place)
    return n - n_over


@_compiled
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
    _begin(tables, signals, first, first_task, key, n, at, words, scratch)
    n_left = n
    for t in range(horizon):
        if t % TIDY_EVERY == TIDY_EVERY - 1:
            n_left = _tidy(tables, begin, n_left, FEW * n_left, at, scratch, memory, out)
        _draw(first, n_left, t, STEP, key, at, words)
        for k in range(n_policies):
            _step(tables, signals, k, t, n_left, begin, at, words, scratch, memory, out)
    for j in range(n_left):
        scratch.fired[j] = j
    for k in range(n_policies):
        _end(tables, k, begin, n_left, scratch.fired, at, out)


@_parallel
def _fill(
    tables: Tables, signals: SignalArrays, first: np.uint64, first_task: np.uint64, key: Key, out: Outputs
) -> None:
    n = out.ending.shape[1]
    for block in numba.prange((n + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        size = min(BLOCK, n - begin)
        _go(tables, signals, first + np.uint64(begin), first_task + np.uint64(begin), key, begin, size, out)

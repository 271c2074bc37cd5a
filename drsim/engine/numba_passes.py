"""The passes of the compiled engine: what happens to a block of runs in one step.

A pass does one thing to every run, acting or not, without a branch and without a list, so that the compiler turns it
into vector instructions. Only the few runs that fire are taken one by one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.engine.compiled import compiled, inlined
from drsim.engine.numba_signals import (
    Memory,
    SignalArrays,
    note_interventions,
    pack,
    pack_memory,
    read_shifts,
    signalled,
)
from drsim.engine.random import Block, WordArray
from drsim.engine.random_numba import philox4x32
from drsim.engine.runs import Ending
from drsim.engine.thresholds import LAST_DRAW

__all__ = [
    "Key",
    "Outputs",
    "Progress",
    "Scratch",
    "Tables",
    "Words",
    "begin_block",
    "draw_step",
    "end_runs",
    "step_policy",
    "tidy_block",
]

STEP, RUN, TASK = np.uint32(Block.STEP), np.uint32(Block.RUN), np.uint32(Block.TASK)
SUCCESS, FAIL, CAPPED = np.uint8(Ending.SUCCESS), np.uint8(Ending.FAIL), np.uint8(Ending.CAPPED)
ZERO, ONE = np.uint32(0), np.uint32(1)
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)
SPENT = np.uint32(2**31)
"""Step from which a run may be intervened in once its budget is spent."""


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


@inlined
def _outcome(word: np.uint32, thresholds: WordArray) -> np.uint32:
    draw = min(word, LAST_DRAW)
    outcome = np.uint32(0)
    for c in range(thresholds.size):
        outcome += np.uint32(thresholds[c] <= draw)
    return outcome


@compiled
def _draw(first: np.uint64, n: int, step: int, block: np.uint32, key: Key, at: Progress, words: Words) -> None:
    """Draws of the first `n` runs at one step."""
    for j in range(n):
        run = first + np.uint64(at.place[j])
        a, b, c, d = philox4x32((np.uint32(run & LOW), np.uint32(run >> HALF), np.uint32(step), block), key)
        words.act[j], words.score[j], words.mechanism[j], words.policy[j] = min(a, LAST_DRAW), b, c, d


@compiled
def draw_step(first: np.uint64, n: int, step: int, key: Key, at: Progress, words: Words) -> None:
    """Draws of the first `n` runs at one step, for all purposes."""
    _draw(first, n, step, STEP, key, at, words)


@compiled
def begin_block(
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


@compiled
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


@compiled
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


@compiled
def _count_reached(n: int, draws: WordArray, thresholds: WordArray, reached: WordArray) -> None:
    for j in range(n):
        reached[j] += ONE if thresholds[j] <= draws[j] else ZERO


@compiled
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


@compiled
def _listed(n: int, is_listed: WordArray, positions: WordArray) -> int:
    """List positions without a branch that would be hard to predict."""
    count = 0
    for j in range(n):
        positions[count] = j
        count += is_listed[j]
    return count


@compiled
def _by_chance(fire: WordArray, n: int, draws: WordArray, state: WordArray, scratch: Scratch) -> None:
    """Leave those of the watched runs that fire with a probability by state."""
    _by_state(fire, n, state, scratch.thresholds)
    for j in range(n):
        draw, threshold, is_watched = min(draws[j], LAST_DRAW), scratch.thresholds[j], scratch.is_fired[j]
        scratch.is_fired[j] = is_watched if draw < threshold else ZERO


@compiled
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


@compiled
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


@compiled
def step_policy(
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


@compiled
def end_runs(tables: Tables, k: int, begin: int, n: int, positions: WordArray, at: Progress, out: Outputs) -> None:
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


@compiled
def tidy_block(
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
        end_runs(tables, k, begin, n_over, scratch.fired, at, out)
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

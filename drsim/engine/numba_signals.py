"""Signals that read scores, compiled: the passes of `drsim.engine.numba` for policies that need more than a chance.

What a policy carries from step to step lies in `Memory`, by policy and by place of the run in its block.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import IntArray
from drsim.engine.compiled import compiled
from drsim.engine.random import WordArray
from drsim.engine.signals import CELL_BITS, PRODUCT_BITS, SCORE_BITS, Reading

__all__ = [
    "Memory",
    "SignalArrays",
    "empty_memory",
    "note_interventions",
    "pack",
    "pack_memory",
    "read_shifts",
    "signalled",
    "start_memory",
]

BELIEF, MEAN, VOTES = int(Reading.BELIEF), int(Reading.MEAN), int(Reading.VOTES)
QUANTILE = np.uint32(32 - SCORE_BITS)
MIDDLE, LAST = np.uint32(2 ** (SCORE_BITS - 1)), np.uint32(2**SCORE_BITS - 1)
PRODUCT, ROUND = np.int64(PRODUCT_BITS), np.int64(2 ** (PRODUCT_BITS - 1))
CELL = np.uint32(CELL_BITS)
WORD = np.uint64(32)
ALL_BUT_ONE = np.uint64(2**32 - 1)
ZERO, ONE = np.uint32(0), np.uint32(1)
NONE, FOUR, EIGHT, SIXTEEN = np.uint64(0), np.uint64(4), np.uint64(8), np.uint64(16)
BELOW_4, BELOW_8, BELOW_16 = np.uint64(2**27), np.uint64(2**23), np.uint64(2**15)


type WideArray = NDArray[np.uint64]


class SignalArrays(NamedTuple):
    """The arrays of `SignalTables`, in a form that compiled code takes."""

    reading: IntArray
    cuts: NDArray[np.int32]
    limits: WordArray
    window: IntArray
    votes: IntArray
    sizes: NDArray[np.int32]
    means: NDArray[np.int32]
    spreads: NDArray[np.int32]
    run_spread: int
    scores: WordArray
    likelihood: WordArray
    prior: WordArray
    predict: WordArray
    moved: WordArray


class Memory(NamedTuple):
    """What policies carry from step to step, for a block of n runs, as they stand in it; and scratch."""

    weights: WordArray
    """(K, S, n) of the filter; K = 0 where no policy holds beliefs."""
    seen: WordArray
    """(K, largest window, n) the last scores or votes; K = 0 where no policy has a window."""
    n_seen: IntArray
    """(K, n) scores since the window was started."""
    total: IntArray
    """(K, n) sum of the window."""
    levels: WordArray
    """(n,) scratch: levels of the scores, then whether each signal is above its threshold."""
    after: WideArray
    """(S, n) scratch: weights after a move."""
    sum: WideArray
    """(n,) scratch: their sum."""
    reads_levels: bool
    """Whether any policy reads scores."""


@compiled
def empty_memory(signals: SignalArrays, n: int) -> Memory:
    """Room for what policies carry, where any does."""
    n_policies = signals.reading.size
    beliefs = n_policies if signals.likelihood.shape[0] else 0
    windows = n_policies if np.any(signals.reading > BELIEF) else 0
    return Memory(
        np.empty((beliefs, signals.prior.size, n), np.uint32),
        np.empty((windows, np.max(signals.window), n), np.uint32),
        np.empty((windows, n), np.int64),
        np.empty((windows, n), np.int64),
        np.empty(n, np.uint32),
        np.empty((signals.prior.size, n), np.uint64),
        np.empty(n, np.uint64),
        signals.sizes.size > 0,
    )


@compiled
def start_memory(signals: SignalArrays, memory: Memory) -> None:
    """What a policy knows before the first step."""
    memory.n_seen[:] = 0
    memory.total[:] = 0
    for k in range(memory.weights.shape[0]):
        for x in range(signals.prior.size):
            memory.weights[k, x, :] = signals.prior[x]


@compiled
def pack_memory(n: int, is_kept: WordArray, memory: Memory) -> None:
    """Move what is carried for the kept runs together."""
    for k in range(memory.weights.shape[0]):
        for x in range(memory.weights.shape[1]):
            pack(n, is_kept, memory.weights[k, x])
    for k in range(memory.seen.shape[0]):
        for slot in range(memory.seen.shape[1]):
            pack(n, is_kept, memory.seen[k, slot])
        pack(n, is_kept, memory.n_seen[k])
        pack(n, is_kept, memory.total[k])


@compiled
def pack(n: int, is_kept: WordArray, values: NDArray[np.integer]) -> None:
    """Move the kept values together."""
    kept = 0
    for j in range(n):
        values[kept] = values[j]
        kept += is_kept[j]


@compiled
def signalled(
    signals: SignalArrays,
    k: int,
    t: int,
    n: int,
    words: WordArray,
    shift: WordArray,
    state: WordArray,
    fires_from: WordArray,
    is_watched: WordArray,
    memory: Memory,
) -> None:
    """Take in the scores of the watched runs; leave in `is_watched` those whose signal fires, in an open step."""
    reading, levels = signals.reading[k], memory.levels
    _read_levels(signals, n, words, shift, state, levels)
    if reading == BELIEF:
        _believe(signals, k, t, n, is_watched, memory)
    elif reading == MEAN:
        _average(signals, k, t, n, is_watched, memory)
    else:
        cut = signals.cuts[k, t]
        for j in range(n):
            levels[j] = ONE if np.int32(levels[j]) > cut else ZERO
        if reading == VOTES:
            _count_votes(signals, k, n, is_watched, memory)
    now = np.uint32(t)
    for j in range(n):
        watched, above, ready = is_watched[j], levels[j], fires_from[j]
        is_watched[j] = watched & above if ready <= now else ZERO


@compiled
def _deviate(n: int, sizes: NDArray[np.int32], words: WordArray, levels: WordArray) -> None:
    """Replace spreads by the levels by which scores differ from their means, negative ones modulo 2³²."""
    for j in range(n):
        quantile = words[j] >> QUANTILE
        is_upper = quantile >= MIDDLE
        size = np.int64(sizes[LAST - quantile if is_upper else quantile])
        away = (size * np.int64(levels[j]) + ROUND) >> PRODUCT
        levels[j] = away if is_upper else -away


@compiled
def read_shifts(signals: SignalArrays, n: int, words: WordArray, shift: WordArray) -> None:
    """Levels of the run-level shift of each run, where a policy reads scores."""
    shift[:n] = signals.run_spread
    if signals.sizes.size:
        _deviate(n, signals.sizes, words, shift)


@compiled
def _read_levels(
    signals: SignalArrays, n: int, words: WordArray, shift: WordArray, state: WordArray, levels: WordArray
) -> None:
    """The level of each score; of no meaning for a run that has ended."""
    last = np.uint32(signals.means.size - 1)
    for j in range(n):
        levels[j] = signals.spreads[min(state[j], last)]
    _deviate(n, signals.sizes, words, levels)
    for j in range(n):
        level, own, at = levels[j], shift[j], state[j]
        levels[j] = level + own + np.uint32(signals.means[min(at, last)])


@compiled
def _average(signals: SignalArrays, k: int, t: int, n: int, is_watched: WordArray, memory: Memory) -> None:
    """Leave in `levels` whether each mean of the window is above the limit."""
    limit, levels = np.int64(signals.limits[k, t]), memory.levels
    for j in range(n):
        if is_watched[j]:
            total = _remembered(memory, k, j, signals.scores[levels[j] >> CELL], signals.window[k])
            levels[j] = total > min(memory.n_seen[k, j], signals.window[k]) * limit


@compiled
def _count_votes(signals: SignalArrays, k: int, n: int, is_watched: WordArray, memory: Memory) -> None:
    """Replace the votes in `levels` by whether the window holds enough of them."""
    votes = memory.levels
    for j in range(n):
        if is_watched[j]:
            votes[j] = _remembered(memory, k, j, votes[j], signals.window[k]) >= signals.votes[k]


@compiled
def _remembered(memory: Memory, k: int, i: int, value: np.uint32, window: int) -> int:
    """Sum of a run's window after the newest value has taken the oldest one's place."""
    n_seen = memory.n_seen[k, i]
    slot = n_seen % window
    total = int(memory.total[k, i]) + int(value)
    if n_seen >= window:
        total -= int(memory.seen[k, slot, i])
    memory.seen[k, slot, i] = value
    memory.n_seen[k, i] = n_seen + 1
    memory.total[k, i] = total
    return total


@compiled
def _believe(signals: SignalArrays, k: int, t: int, n: int, is_watched: WordArray, memory: Memory) -> None:
    """Predict, take in the score, and leave in `levels` whether each belief is above the limit."""
    weights, limit, levels = memory.weights[k], np.uint64(signals.limits[k, t]), memory.levels
    total = memory.sum
    total[:n] = 0
    # a run that has ended has no level; what is looked up for it is thrown away
    last = np.uint32(signals.likelihood.shape[0] - 1)
    for j in range(n):
        levels[j] = min(levels[j] >> CELL, last)
    for y in range(weights.shape[0]):
        after, likelihood = memory.after[y], signals.likelihood[:, y]
        after[:n] = 0
        for x in range(weights.shape[0]):
            _add_part(n, weights[x], np.uint64(signals.predict[t, x, y]), after)
        for j in range(n):
            weight, sum_ = after[j], total[j]
            weight = (weight * np.uint64(likelihood[levels[j]]) + ALL_BUT_ONE) >> WORD
            after[j] = weight
            total[j] = sum_ + weight
    _decide(n, limit, memory.after[0], total, levels)
    for y in range(weights.shape[0]):
        after, held = memory.after[y], weights[y]
        for j in range(n):
            weight, before, watched, shift = after[j], held[j], is_watched[j], total[j]
            held[j] = np.uint32(weight << shift) if watched != ZERO else before


@compiled
def _add_part(n: int, weights: WordArray, share: np.uint64, out: WideArray) -> None:
    """Add weights times a multiple of 2⁻³², rounded up."""
    for j in range(n):
        weight, sum_ = np.uint64(weights[j]), out[j]
        out[j] = sum_ + ((weight * share + ALL_BUT_ONE) >> WORD)


@compiled
def _decide(n: int, limit: np.uint64, on: WideArray, total: WideArray, is_above: WordArray) -> None:
    """Whether each belief is above the limit; replace the sums of weights by the bits that they are to be shifted."""
    for j in range(n):
        sum_, on_track = total[j], on[j]
        bits = SIXTEEN if sum_ < BELOW_16 else NONE
        bits += EIGHT if sum_ << bits < BELOW_8 else NONE
        bits += FOUR if sum_ << bits < BELOW_4 else NONE
        is_above[j] = ONE if ((sum_ - on_track) << bits) << WORD > limit * (sum_ << bits) else ZERO
        total[j] = bits


@compiled
def note_interventions(signals: SignalArrays, k: int, t: int, n: int, fired: WordArray, memory: Memory) -> None:
    """Move the beliefs of the first `n` fired runs as the intervention does; start windows anew."""
    if signals.reading[k] != BELIEF:
        for j in range(n):
            memory.n_seen[k, fired[j]] = 0
            memory.total[k, fired[j]] = 0
        return
    weights, moved = memory.weights[k], signals.moved[k, t]
    for j in range(n):
        i = fired[j]
        for y in range(weights.shape[0]):
            memory.after[y, i] = 0
            for x in range(weights.shape[0]):
                memory.after[y, i] += (np.uint64(weights[x, i]) * np.uint64(moved[x, y]) + ALL_BUT_ONE) >> WORD
        for y in range(weights.shape[0]):
            weights[y, i] = memory.after[y, i]

"""The engine compiled by Numba: parallel over blocks of runs, the same bits as `reference`.

A block of runs goes through the steps together, each step in a few passes over lists of runs: whose turn it is, their
words, where they go. A pass that draws words does nothing else, so that the compiler turns it into vector instructions
(a generator by address has no state that would forbid it), and the other passes carry no branch that depends on a word,
which a processor could not predict. Runs that have ended are dropped from the lists.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from drsim.arrays import FloatArray
from drsim.engine.law import SCORE_BITS, Law
from drsim.engine.random import Purpose, WordArray, key_words
from drsim.engine.random_numba import philox4x32
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs
from drsim.engine.thresholds import LAST_DRAW
from drsim.errors import ParameterError

__all__ = ["run_law"]

START, ACT, SCORE, MECHANISM, RUN_SHIFT = (
    np.uint32(purpose) for purpose in (Purpose.START, Purpose.ACT, Purpose.SCORE, Purpose.MECHANISM, Purpose.RUN_SHIFT)
)
SUCCESS, FAIL = np.uint8(Ending.SUCCESS), np.uint8(Ending.FAIL)
LEVEL = np.uint32(32 - SCORE_BITS)
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)

BLOCK = 1024
"""Runs that go through the steps together: what a block remembers fits a second-level cache, and lists stay long."""

type Key = tuple[np.uint32, np.uint32]


class Tables(NamedTuple):
    """The arrays and numbers of a `Law`, in a form that compiled code takes."""

    start: WordArray
    act: WordArray
    intervene: WordArray
    fire: WordArray
    cuts: FloatArray
    shift: FloatArray
    scores: FloatArray
    tokens: FloatArray
    critic_tokens: FloatArray
    mechanism_tokens: float
    budget: int
    cooldown: int
    extra_steps: int


class Lists(NamedTuple):
    """Runs of a block by their place in it, unsigned since a signed index is tested for its sign."""

    live: WordArray
    """Runs that have not ended and have an act before them."""
    acting: WordArray
    """Those that act in this step; afterwards those that may be intervened in."""
    fired: WordArray
    """Those that are intervened in."""
    words: WordArray
    """Words of one pass, in the order of its list."""


class Progress(NamedTuple):
    """How far each run of a block has come."""

    state: WordArray
    """Live state, or S for success and S + 1 for fail."""
    acts_next: WordArray
    """Step of the next act; T for a run that has ended."""
    fires_from: WordArray
    """First step in which the cooldown is over."""
    shift: FloatArray
    """The run's own shift in standard deviations; empty where no shift is shared."""
    acts: NDArray[np.int32]
    interventions: NDArray[np.int32]
    fired_at: NDArray[np.int32]
    tokens: FloatArray


def _compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """`numba.njit` with a type, which Numba does not ship."""
    return cast("Callable[P, R]", numba.njit(nogil=True)(function))


def _parallel[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `_compiled`, in parallel, and kept between processes.

    What is kept is renewed when this file changes, not when the generator does that is inlined from another one: after
    a change there, remove `__pycache__`; until then the tests of equal runs fail.
    """
    return cast("Callable[P, R]", numba.njit(parallel=True, nogil=True, cache=True)(function))


def _inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """`numba.njit` with a type, copied into every caller."""
    return cast("Callable[P, R]", numba.njit(inline="always")(function))


def run_law(law: Law, *, n: int, seed: int, first: int = 0, threads: int | None = None) -> SimulatedRuns:
    """Simulate runs `first` … `first + n − 1` of a seed.

    Parameters
    ----------
    law : Law
        T steps, S live states.
    n : int
        Number of runs, ≥ 0.
    seed : int
        In [0, 2⁶⁴).
    first : int
        Index of the first run, ≥ 0.
    threads : int, optional
        Threads to share the runs; all that Numba was started with when not given.

    Returns
    -------
    SimulatedRuns
        Equal to those of `reference.run_law` to the bit.

    Raises
    ------
    ParameterError
        `threads` is not between 1 and what Numba was started with.
    """
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined] # set when Numba reads the environment
    if threads is not None and not 1 <= threads <= most:
        raise ParameterError(f"threads must lie in [1, {most}], got {threads}; NUMBA_NUM_THREADS sets the upper end")
    tables = Tables(**{name: getattr(law, name) for name in Tables._fields})
    runs = empty_runs(law, n)
    before = numba.get_num_threads()
    numba.set_num_threads(threads or before)
    try:
        _fill(
            tables,
            np.uint64(first),
            key_words(seed),
            runs.ending,
            runs.acts,
            runs.interventions,
            runs.fired_at,
            runs.tokens,
        )
    finally:
        numba.set_num_threads(before)
    return runs


@_compiled
def _draw(
    first: np.uint64, places: WordArray, n: int, step: int, purpose: np.uint32, key: Key, words: WordArray
) -> None:
    """Words of the first `n` runs of a list at one step."""
    for j in range(n):
        run = first + np.uint64(places[j])
        words[j] = philox4x32((np.uint32(run & LOW), np.uint32(run >> HALF), np.uint32(step), purpose), key)[0]


@_inlined
def _outcome(word: np.uint32, thresholds: WordArray) -> np.uint32:
    draw = min(word, LAST_DRAW)
    outcome = 0
    for k in range(thresholds.size):
        outcome += thresholds[k] <= draw
    return np.uint32(outcome)


@_compiled
def _begin(tables: Tables, first: np.uint64, key: Key, lists: Lists, at: Progress) -> None:
    """Put every run of a block into its first state."""
    n = at.state.size
    for j in range(n):
        lists.live[j] = j
        at.acts_next[j] = 0
        at.fires_from[j] = 0
    _draw(first, lists.live, n, 0, START, key, lists.words)
    for j in range(n):
        at.state[j] = _outcome(lists.words[j], tables.start)
    if tables.scores.size:
        _draw(first, lists.live, n, 0, RUN_SHIFT, key, lists.words)
        for j in range(n):
            at.shift[j] = tables.scores[lists.words[j] >> LEVEL]


@_compiled
def _whose_turn(t: int, horizon: int, n_live: int, lists: Lists, at: Progress) -> tuple[int, int]:
    """Drop runs that act no more, and list those that act in this step."""
    kept = acting = 0
    for j in range(n_live):
        i = lists.live[j]
        lists.live[kept] = i
        lists.acting[acting] = i
        kept += at.acts_next[i] < horizon
        acting += at.acts_next[i] == t
    return kept, acting


@_compiled
def _act(tables: Tables, t: int, n: int, lists: Lists, at: Progress) -> int:
    """Move the first `n` acting runs by their words, and keep those of them that a policy may intervene in."""
    horizon, n_states = tables.fire.shape
    ready = 0
    for j in range(n):
        i = lists.acting[j]
        state = _outcome(lists.words[j], tables.act[t, at.state[i]])
        is_live = state < n_states
        at.state[i] = state
        at.acts_next[i] = t + 1 if is_live else horizon
        at.acts[i] += 1
        used = at.tokens[i] + tables.tokens[t]
        at.tokens[i] = used + tables.critic_tokens[t] if is_live else used
        lists.acting[ready] = i
        ready += is_live & (at.interventions[i] < tables.budget) & (at.fires_from[i] <= t)
    return ready


@_compiled
def _fire(tables: Tables, t: int, n: int, lists: Lists, at: Progress) -> int:
    """List those of the first `n` runs whose score fires."""
    fired = 0
    for j in range(n):
        i = lists.acting[j]
        word, state = lists.words[j], at.state[i]
        lists.fired[fired] = i
        if tables.scores.size:
            fired += tables.scores[word >> LEVEL] > tables.cuts[t, state] - tables.shift[state] * at.shift[i]
        else:
            fired += min(word, LAST_DRAW) < tables.fire[t, state]
    return fired


@_compiled
def _intervene(tables: Tables, t: int, n: int, lists: Lists, at: Progress) -> None:
    """Move the first `n` fired runs by their words."""
    for j in range(n):
        i = lists.fired[j]
        at.state[i] = _outcome(lists.words[j], tables.intervene[t, at.state[i]])
        at.fired_at[i, at.interventions[i]] = t
        at.interventions[i] += 1
        at.tokens[i] += tables.mechanism_tokens
        at.acts_next[i] = t + 1 + tables.extra_steps
        at.fires_from[i] = t + 1 + tables.cooldown


@_compiled
def _go(tables: Tables, first: np.uint64, key: Key, at: Progress, ending: NDArray[np.uint8]) -> None:
    """Take a block of runs from start to end."""
    horizon, n_states = tables.fire.shape
    n_live = ending.size
    lists = Lists(
        np.empty(n_live, np.uint32),
        np.empty(n_live, np.uint32),
        np.empty(n_live, np.uint32),
        np.empty(n_live, np.uint32),
    )
    _begin(tables, first, key, lists, at)
    for t in range(horizon):
        n_live, n_acting = _whose_turn(t, horizon, n_live, lists, at)
        _draw(first, lists.acting, n_acting, t, ACT, key, lists.words)
        n_ready = _act(tables, t, n_acting, lists, at)
        # outside the gates every cut is infinite
        if tables.cuts[t, 0] < np.inf:
            _draw(first, lists.acting, n_ready, t, SCORE, key, lists.words)
            n_fired = _fire(tables, t, n_ready, lists, at)
            _draw(first, lists.fired, n_fired, t, MECHANISM, key, lists.words)
            _intervene(tables, t, n_fired, lists, at)
    for i in range(ending.size):
        if at.state[i] >= n_states:
            ending[i] = SUCCESS if at.state[i] == n_states else FAIL


@_parallel
def _fill(
    tables: Tables,
    first: np.uint64,
    key: Key,
    ending: NDArray[np.uint8],
    acts: NDArray[np.int32],
    interventions: NDArray[np.int32],
    fired_at: NDArray[np.int32],
    tokens: FloatArray,
) -> None:
    n = ending.size
    for block in numba.prange((n + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        end = min(begin + BLOCK, n)
        at = Progress(
            np.empty(end - begin, np.uint32),
            np.empty(end - begin, np.uint32),
            np.empty(end - begin, np.uint32),
            np.empty(end - begin if tables.scores.size else 0),
            acts[begin:end],
            interventions[begin:end],
            fired_at[begin:end],
            tokens[begin:end],
        )
        _go(tables, first + np.uint64(begin), key, at, ending[begin:end])

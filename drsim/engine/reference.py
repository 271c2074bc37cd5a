"""The engine in plain NumPy: policy by policy, step by step, all runs at once, written to be read."""

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import BoolArray, IntArray
from drsim.engine.law import Law
from drsim.engine.random import Block, Purpose, WordArray, draw_block, draw_words
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs, spend
from drsim.engine.signals import CELL_BITS, Reading, deviations
from drsim.engine.thresholds import fires, outcomes

__all__ = ["run_law"]

WORD = np.uint64(32)
ALL_BUT_ONE = np.uint64(2**32 - 1)

type Weights = NDArray[np.uint64]


def run_law(law: Law, *, n: int, seed: int, first: int = 0, first_task: int | None = None) -> list[SimulatedRuns]:
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

    Returns
    -------
    list of SimulatedRuns
        One for each policy, in order.

    References
    ----------
    THEORY section 4.
    """
    tasks = (first if first_task is None else first_task) + np.arange(n, dtype=np.uint64)
    classes = outcomes(draw_words(tasks, 0, Purpose.TASK, seed=seed), law.task)
    index = first + np.arange(n, dtype=np.uint64)
    return [_run_policy(law, k, index, classes, seed) for k in range(law.n_policies)]


def _run_policy(law: Law, k: int, index: NDArray[np.uint64], classes: IntArray, seed: int) -> SimulatedRuns:
    n = len(index)
    runs = empty_runs(law, k, n)
    signal = _Signal(law, k, draw_words(index, 0, Purpose.RUN_SHIFT, seed=seed))
    state = outcomes(draw_words(index, 0, Purpose.START, seed=seed), law.start)
    acts_next = np.zeros(n, dtype=np.int64)
    fires_from = np.zeros(n, dtype=np.int64)
    last = np.full(n, law.horizon, dtype=np.int32)
    is_live = np.ones(n, dtype=np.bool_)
    withholds = bool(law.withholds[k])
    for t in range(law.horizon):
        acting = np.flatnonzero(is_live & (acts_next == t))
        words = draw_block(index[acting], t, Block.STEP, seed=seed)
        state[acting] = outcomes(words[Purpose.ACT], law.act[classes[acting], t, state[acting]])
        acts_next[acting] = t + 1
        is_over = state[acting] >= law.n_states
        ended = acting[is_over]
        runs.ending[ended] = np.where(state[ended] == law.n_states, Ending.SUCCESS, Ending.FAIL)
        last[ended] = t
        is_live[ended] = False
        is_watched = ~is_over & (runs.interventions[acting] < law.budget[k])
        watched, words = acting[is_watched], words[:, is_watched]
        is_fired = signal.fires(t, watched, state[watched], words[Purpose.SCORE])
        is_fired &= law.is_open[k, t] & (fires_from[watched] <= t)
        is_acted = is_fired & fires(words[Purpose.POLICY], law.acted[k, t])
        if withholds:
            runs.withheld[watched, t] = is_fired & ~is_acted
        fired = watched[is_acted]
        runs.first_state[fired] = np.where(runs.interventions[fired] == 0, state[fired], runs.first_state[fired])
        state[fired] = outcomes(words[Purpose.MECHANISM, is_acted], law.intervene[k, t, state[fired]])
        runs.fired_at[fired, runs.interventions[fired]] = t
        runs.interventions[fired] += 1
        acts_next[fired] = t + 1 + law.extra_steps[k]
        fires_from[fired] = t + 1 + law.cooldown[k]
        signal.intervened(t, fired)
    spend(law, k, runs, last)
    return runs


class _Signal:
    """What a policy knows of each run."""

    def __init__(self, law: Law, k: int, shift_words: WordArray) -> None:
        tables = law.signals
        n = len(shift_words)
        self.law, self.tables, self.k = law, tables, k
        self.reading = Reading(tables.reading[k])
        self.shift = np.zeros(n, dtype=np.int64)
        if self.reading is not Reading.CHANCE:
            self.shift = deviations(tables, np.array(tables.run_spread), shift_words)
        self.weights: Weights = np.repeat(tables.prior.astype(np.uint64)[None], n, axis=0)
        self.seen = np.zeros((n, tables.window[k]), dtype=np.int64)
        self.n_seen = np.zeros(n, dtype=np.int64)

    def fires(self, t: int, runs: IntArray, state: IntArray, words: WordArray) -> BoolArray:
        """Whether the signal of each run is above its threshold, now that its score is known."""
        if self.reading is Reading.CHANCE:
            return fires(words, self.law.fire[self.k, t, state])
        tables = self.tables
        levels = (
            tables.means[state] + deviations(tables, tables.spreads[state].astype(np.int64), words) + self.shift[runs]
        )
        is_above: BoolArray = levels > self.tables.cuts[self.k, t]
        if self.reading is Reading.SCORE:
            return is_above
        cells = levels >> CELL_BITS
        limit = self.tables.limits[self.k, t]
        if self.reading is Reading.BELIEF:
            return self._believes(t, runs, cells, limit)
        total = self._total(runs, is_above if self.reading is Reading.VOTES else self.tables.scores[cells])
        if self.reading is Reading.VOTES:
            has_votes: BoolArray = total >= self.tables.votes[self.k]
            return has_votes
        n_in_window = np.minimum(self.n_seen[runs], self.tables.window[self.k])
        is_higher: BoolArray = total > n_in_window * np.int64(limit)
        return is_higher

    def _believes(self, t: int, runs: IntArray, cells: IntArray, limit: np.uint32) -> BoolArray:
        predicted = _moved(self.weights[runs], self.tables.predict[t])
        weights = _scaled(_parts(predicted, self.tables.likelihood[cells]))
        self.weights[runs] = weights
        total = weights.sum(axis=1)
        is_off: BoolArray = (total - weights[:, 0]) << WORD > np.uint64(limit) * total
        return is_off

    def _total(self, runs: IntArray, value: NDArray[np.generic]) -> IntArray:
        """Sum of the window after the newest value has taken the oldest one's place."""
        self.seen[runs, self.n_seen[runs] % self.tables.window[self.k]] = value
        self.n_seen[runs] += 1
        return self.seen[runs].sum(axis=1)

    def intervened(self, t: int, runs: IntArray) -> None:
        """Take note of interventions."""
        if self.reading is Reading.BELIEF:
            self.weights[runs] = _moved(self.weights[runs], self.tables.moved[self.k, t])
        self.seen[runs] = 0
        self.n_seen[runs] = 0


def _parts(weights: Weights, shares: WordArray) -> Weights:
    """Weights times multiples of 2⁻³², rounded up."""
    parts: Weights = np.right_shift(weights * shares.astype(np.uint64) + ALL_BUT_ONE, WORD)
    return parts


def _moved(weights: Weights, moves: WordArray) -> Weights:
    """Weights (n, S) after a move (S, S)."""
    return np.sum(_parts(weights[:, :, None], moves), axis=1, dtype=np.uint64)


def _scaled(weights: Weights) -> Weights:
    """Weights (n, S) shifted so that their sum lies in [2²⁷, 2³¹)."""
    scaled: Weights = weights
    for bits in (16, 8, 4):
        is_small = scaled.sum(axis=1, keepdims=True) < np.uint64(2 ** (31 - bits))
        scaled = scaled * np.where(is_small, np.uint64(2**bits), np.uint64(1))
    return scaled

"""The engine in plain NumPy: step by step, all runs at once, written to be read."""

import numpy as np

from drsim.arrays import BoolArray, IntArray
from drsim.engine.law import SCORE_BITS, Law
from drsim.engine.random import Purpose, draw_words
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs
from drsim.engine.thresholds import fires, outcomes

__all__ = ["run_law"]


def run_law(law: Law, *, n: int, seed: int, first: int = 0) -> SimulatedRuns:
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

    Returns
    -------
    SimulatedRuns

    References
    ----------
    THEORY section 4.
    """
    horizon, n_states = law.fire.shape
    runs = empty_runs(law, n)
    index = first + np.arange(n, dtype=np.uint64)
    state = outcomes(draw_words(index, 0, Purpose.START, seed=seed)[0], law.start)
    acts_next = np.zeros(n, dtype=np.int64)
    fires_from = np.zeros(n, dtype=np.int64)
    is_live = np.ones(n, dtype=np.bool_)
    for t in range(horizon):
        acting = np.flatnonzero(is_live & (acts_next == t))
        state[acting] = outcomes(draw_words(index[acting], t, Purpose.ACT, seed=seed)[0], law.act[t, state[acting]])
        runs.acts[acting] += 1
        runs.tokens[acting] += law.tokens[t]
        acts_next[acting] = t + 1
        ended = acting[state[acting] >= n_states]
        runs.ending[ended] = np.where(state[ended] == n_states, Ending.SUCCESS, Ending.FAIL)
        is_live[ended] = False
        scored = acting[state[acting] < n_states]
        runs.tokens[scored] += law.critic_tokens[t]
        ready = scored[(runs.interventions[scored] < law.budget) & (fires_from[scored] <= t)]
        fired = ready[_is_fired(law, t, index[ready], state[ready], seed)]
        words = draw_words(index[fired], t, Purpose.MECHANISM, seed=seed)[0]
        state[fired] = outcomes(words, law.intervene[t, state[fired]])
        runs.fired_at[fired, runs.interventions[fired]] = t
        runs.interventions[fired] += 1
        runs.tokens[fired] += law.mechanism_tokens
        acts_next[fired] = t + 1 + law.extra_steps
        fires_from[fired] = t + 1 + law.cooldown
    return runs


def _is_fired(law: Law, t: int, index: IntArray, state: IntArray, seed: int) -> BoolArray:
    words = draw_words(index, t, Purpose.SCORE, seed=seed)[0]
    if not law.has_shift:
        return fires(words, law.fire[t, state])
    level = 32 - SCORE_BITS
    shift = law.scores[draw_words(index, 0, Purpose.RUN_SHIFT, seed=seed)[0] >> level]
    is_above: BoolArray = law.scores[words >> level] > law.cuts[t, state] - law.shift[state] * shift
    return is_above

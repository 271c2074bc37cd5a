"""Compiled parts of `coupled_many`; arrays only.

Four values of a run are carried side by side, along the last axis: success, interventions, tokens and capped. Their
recursion is that of `success_many`: W_t(b, x) holds the values of a run that is about to act in step t with b
interventions left and no cooldown, and an intervention leads by `jump` past its extra steps and its cooldown.
"""

import numpy as np
from numba import njit

from drsim.arrays import FloatArray

__all__ = [
    "BOTH",
    "CAPPED",
    "GAIN",
    "HIT",
    "INTERVENTIONS",
    "LOSS",
    "N_FOUND",
    "N_VALUES",
    "SUCCESS",
    "TOKENS",
    "TRIGGERED",
    "WIN",
    "fill_aided",
    "fill_leaps",
    "fill_rewards",
    "fill_stakes",
    "fill_unaided_values",
    "pass_untouched",
]

N_VALUES = 4
SUCCESS, INTERVENTIONS, TOKENS, CAPPED = range(N_VALUES)
N_FOUND = N_VALUES + 6
GAIN, BOTH, TRIGGERED, LOSS, WIN, HIT = range(N_VALUES, N_FOUND)


@njit(cache=True, nogil=True)
def fill_rewards(acts: FloatArray, tokens: FloatArray, critic_tokens: FloatArray, rewards: FloatArray) -> None:
    """Fill `rewards` (T, S, 4): what a scored act in step t from state x adds to the values."""
    horizon, n_states = acts.shape[0], acts.shape[1]
    for t in range(horizon):
        for x in range(n_states):
            live = 0.0
            for y in range(n_states):
                live += acts[t, x, y]
            rewards[t, x, SUCCESS] = acts[t, x, n_states]
            rewards[t, x, INTERVENTIONS] = 0.0
            rewards[t, x, TOKENS] = tokens[t] + critic_tokens[t] * live
            rewards[t, x, CAPPED] = 0.0


@njit(cache=True, nogil=True)
def fill_unaided_values(acts: FloatArray, rewards: FloatArray, value: FloatArray) -> None:
    """Fill `value` (T + 1, S, 4) of runs that nobody intervenes in."""
    horizon, n_states = acts.shape[0], acts.shape[1]
    for x in range(n_states):
        for v in range(N_VALUES):
            value[horizon, x, v] = 0.0
        value[horizon, x, CAPPED] = 1.0
    for t in range(horizon - 1, -1, -1):
        for x in range(n_states):
            for v in range(N_VALUES):
                value[t, x, v] = rewards[t, x, v]
            for y in range(n_states):
                for v in range(N_VALUES):
                    value[t, x, v] += acts[t, x, y] * value[t + 1, y, v]


@njit(cache=True, nogil=True)
def fill_leaps(  # noqa: C901 # the loops of one recursion
    acts: FloatArray,
    rewards: FloatArray,
    kernel: FloatArray,
    extra: int,
    cooldown: int,
    tokens: float,
    jump: FloatArray,
    gathered: FloatArray,
) -> None:
    """Fill `jump` (T, S, S) and `gathered` (T, S, 4): from where an intervention after step t finds a run to where it
    may fire again, and what it and the acts on the way add to the values.
    """
    horizon, n_states = acts.shape[0], acts.shape[1]
    mass, moved = np.zeros(n_states), np.zeros(n_states)
    for t in range(horizon):
        for x in range(n_states):
            for y in range(n_states):
                mass[y] = kernel[t, x, y]
            for v in range(N_VALUES):
                gathered[t, x, v] = 0.0
            gathered[t, x, INTERVENTIONS] = 1.0
            gathered[t, x, TOKENS] = tokens
            for s in range(t + 1 + extra, min(t + 1 + extra + cooldown, horizon)):
                for y in range(n_states):
                    moved[y] = 0.0
                for y in range(n_states):
                    for v in range(N_VALUES):
                        gathered[t, x, v] += mass[y] * rewards[s, y, v]
                    for z in range(n_states):
                        moved[z] += mass[y] * acts[s, y, z]
                for y in range(n_states):
                    mass[y] = moved[y]
            for y in range(n_states):
                jump[t, x, y] = mass[y]


@njit(cache=True, nogil=True)
def fill_stakes(kernel: FloatArray, alone: FloatArray, extra: int, stakes: FloatArray) -> None:
    """Fill `stakes` (T, S): by how much an intervention after step t changes the success of a run found in x that is
    left alone afterwards; `alone` (T + 1, S, 4).
    """
    horizon, n_states = kernel.shape[0], kernel.shape[1]
    for t in range(horizon):
        then = min(t + 1 + extra, horizon)
        for x in range(n_states):
            moved = 0.0
            for y in range(n_states):
                moved += kernel[t, x, y] * alone[then, y, SUCCESS]
            stakes[t, x] = moved - alone[t + 1, x, SUCCESS]


@njit(cache=True, nogil=True)
def fill_aided(  # noqa: C901 # the loops of one recursion
    acts: FloatArray,
    rewards: FloatArray,
    jump: FloatArray,
    gathered: FloatArray,
    fires: FloatArray,
    first: int,
    last: int,
    after: int,
    budget: int,
    value: FloatArray,
    left: FloatArray,
) -> None:
    """Fill `value` (B + 1, T + 1, S, 4) for 1 … `budget` interventions left, where the pass over untouched runs looks.

    Steps `first` … `last` are open. Up to the first of them nobody has a budget that was touched, and after the last
    of them nothing fires any more.
    """
    horizon, n_states = acts.shape[0], acts.shape[1]
    for b in range(1, budget + 1):
        for t in range(last + 1, min(last + after, horizon) + 1):
            value[b, t] = value[0, t]
        for t in range(last, first, -1):
            then = min(t + after, horizon)
            for y in range(n_states):
                fire = fires[t, y]
                for v in range(N_VALUES):
                    left[y, v] = gathered[t, y, v]
                for z in range(n_states):
                    for v in range(N_VALUES):
                        left[y, v] += jump[t, y, z] * value[b - 1, then, z, v]
                for v in range(N_VALUES):
                    left[y, v] = value[b, t + 1, y, v] + fire * (left[y, v] - value[b, t + 1, y, v])
            for x in range(n_states):
                for v in range(N_VALUES):
                    value[b, t, x, v] = rewards[t, x, v]
                for y in range(n_states):
                    for v in range(N_VALUES):
                        value[b, t, x, v] += acts[t, x, y] * left[y, v]


@njit(cache=True, nogil=True)
def pass_untouched(  # noqa: C901 # the loops of one recursion
    scratch: FloatArray,
    acts: FloatArray,
    rewards: FloatArray,
    jump: FloatArray,
    gathered: FloatArray,
    fires: FloatArray,
    last: int,
    after: int,
    alone: FloatArray,
    aided: FloatArray,
    stakes: FloatArray,
    helped: FloatArray,
    found: FloatArray,
) -> None:
    """Fill `found` (10,) by a pass over runs that nobody has intervened in; `scratch` (3, S) begins with the start.

    `alone` and `aided` (T + 1, S, 4) are the values without, and with one intervention less; `helped` (4,) is room.
    """
    n_states = acts.shape[1]
    horizon = acts.shape[0]
    mass, live, first = scratch[0], scratch[1], scratch[2]
    for v in range(N_FOUND):
        found[v] = 0.0
    for t in range(last + 1):
        for y in range(n_states):
            live[y] = 0.0
        for x in range(n_states):
            for v in range(N_VALUES):
                found[v] += mass[x] * rewards[t, x, v]
            found[BOTH] += mass[x] * rewards[t, x, SUCCESS]
            for y in range(n_states):
                live[y] += mass[x] * acts[t, x, y]
        fired = 0.0
        for x in range(n_states):
            first[x] = live[x] * fires[t, x]
            mass[x] = live[x] - first[x]
            fired += first[x]
        if fired == 0.0:
            continue
        then = min(t + after, horizon)
        for x in range(n_states):
            for v in range(N_VALUES):
                helped[v] = gathered[t, x, v]
            for y in range(n_states):
                for v in range(N_VALUES):
                    helped[v] += jump[t, x, y] * aided[then, y, v]
            for v in range(N_VALUES):
                found[v] += first[x] * helped[v]
            by_itself = alone[t + 1, x, SUCCESS]
            found[GAIN] += first[x] * (helped[SUCCESS] - by_itself)
            found[BOTH] += first[x] * helped[SUCCESS] * by_itself
        win = _win(first, stakes[t])
        found[TRIGGERED] += fired
        found[LOSS] -= fired * stakes[t, 0]
        found[WIN] += fired * win
        found[HIT] += (fired - first[0]) * (win - stakes[t, 0])
    # nothing fires any more
    for x in range(n_states):
        for v in range(N_VALUES):
            found[v] += mass[x] * alone[last + 1, x, v]
        found[BOTH] += mass[x] * alone[last + 1, x, SUCCESS]


@njit(cache=True, nogil=True)
def _win(first: FloatArray, stakes: FloatArray) -> float:
    """Mean over first interventions (S,) of one step that find the run off track; over modes where none does."""
    n_modes = first.size - 1
    if n_modes == 1:
        only: float = stakes[1]
        return only
    off, won, evenly = 0.0, 0.0, 0.0
    for k in range(1, n_modes + 1):
        off += first[k]
        won += first[k] * stakes[k]
        evenly += stakes[k] / n_modes
    return won / off if off > 0.0 else evenly

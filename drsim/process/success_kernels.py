"""Compiled parts of the backward recursion that `success_many` describes; arrays only.

W_t(b, x) is the success of a run that is about to act in step t with b interventions left and no cooldown.
"""

import math

import numpy as np
from numba import njit

from drsim.arrays import FloatArray

__all__ = ["dot", "fill_any_states", "fill_firing", "fill_jumps", "fill_two_states", "fill_unaided"]

SQRT_2 = math.sqrt(2.0)


@njit(cache=True, nogil=True)
def dot(a: FloatArray, b: FloatArray) -> float:
    """Inner product of two (S,) arrays."""
    total = 0.0
    for x in range(a.size):
        total += a[x] * b[x]
    return total


@njit(cache=True, nogil=True)
def fill_unaided(acts: FloatArray, value: FloatArray) -> None:
    """Fill `value` (T + 1, S)."""
    horizon, n_states = acts.shape[0], acts.shape[1]
    value[horizon, :] = 0.0
    for t in range(horizon - 1, -1, -1):
        for x in range(n_states):
            total = acts[t, x, n_states]
            for y in range(n_states):
                total += acts[t, x, y] * value[t + 1, y]
            value[t, x] = total


@njit(cache=True, nogil=True)
def fill_jumps(acts: FloatArray, kernel: FloatArray, extra: int, cooldown: int, jump: FloatArray) -> None:
    """Fill `jump` (T, S, S + 1): from where a firing after step t finds a run to where it may fire again, then success.

    A run whose cooldown ends beyond the horizon has nothing left but the acts up to there.
    """
    horizon, n_states = acts.shape[0], acts.shape[1]
    mass, moved = np.zeros(n_states), np.zeros(n_states)
    for t in range(horizon):
        for x in range(n_states):
            success = 0.0
            for y in range(n_states):
                mass[y] = kernel[t, x, y]
            for s in range(t + 1 + extra, min(t + 1 + extra + cooldown, horizon)):
                for y in range(n_states):
                    moved[y] = 0.0
                for y in range(n_states):
                    success += mass[y] * acts[s, y, n_states]
                    for z in range(n_states):
                        moved[z] += mass[y] * acts[s, y, z]
                for y in range(n_states):
                    mass[y] = moved[y]
            for y in range(n_states):
                jump[t, x, y] = mass[y]
            jump[t, x, n_states] = success


@njit(cache=True, nogil=True)
def fill_firing(
    threshold: FloatArray, propensity: FloatArray, mean: FloatArray, sd: FloatArray, shift: float, fires: FloatArray
) -> None:
    """Fill `fires` (T, S); the normal tail is worked out only where the threshold changes."""
    for x in range(mean.size):
        above, last = 0.0, math.inf
        scale, middle = 1.0 / (SQRT_2 * sd[x]), mean[x] + shift
        for t in range(threshold.size):
            if threshold[t] != last:
                last = threshold[t]
                above = 0.5 * math.erfc((last - middle) * scale)
            fires[t, x] = propensity[t] * above


@njit(cache=True, nogil=True)
def fill_two_states(
    acts: FloatArray, jump: FloatArray, fires: FloatArray, after: int, budget: int, value: FloatArray
) -> None:
    """Fill `value` (B + 1, T + 1, 2) from one intervention left on.

    Within a step no budget waits for another, so that the processor works on several at a time.
    """
    horizon = acts.shape[0]
    for b in range(1, budget + 1):
        value[b, horizon, 0] = value[b, horizon, 1] = 0.0
    for t in range(horizon - 1, -1, -1):
        then = min(t + after, horizon)
        fire_on, fire_off = fires[t, 0], fires[t, 1]
        for b in range(1, budget + 1):
            less_on, less_off = value[b - 1, then, 0], value[b - 1, then, 1]
            moved_on = jump[t, 0, 2] + jump[t, 0, 0] * less_on + jump[t, 0, 1] * less_off
            moved_off = jump[t, 1, 2] + jump[t, 1, 0] * less_on + jump[t, 1, 1] * less_off
            on, off = value[b, t + 1, 0], value[b, t + 1, 1]
            on += fire_on * (moved_on - on)
            off += fire_off * (moved_off - off)
            value[b, t, 0] = acts[t, 0, 2] + acts[t, 0, 0] * on + acts[t, 0, 1] * off
            value[b, t, 1] = acts[t, 1, 2] + acts[t, 1, 0] * on + acts[t, 1, 1] * off


@njit(cache=True, nogil=True)
def fill_any_states(
    acts: FloatArray, jump: FloatArray, fires: FloatArray, after: int, budget: int, value: FloatArray
) -> None:
    """As `fill_two_states`, for S states."""
    horizon, n_states = acts.shape[0], acts.shape[1]
    left = np.zeros(n_states)
    for b in range(1, budget + 1):
        for x in range(n_states):
            value[b, horizon, x] = 0.0
        for t in range(horizon - 1, -1, -1):
            then = min(t + after, horizon)
            for x in range(n_states):
                moved = jump[t, x, n_states]
                for y in range(n_states):
                    moved += jump[t, x, y] * value[b - 1, then, y]
                left[x] = value[b, t + 1, x] + fires[t, x] * (moved - value[b, t + 1, x])
            for x in range(n_states):
                total = acts[t, x, n_states]
                for y in range(n_states):
                    total += acts[t, x, y] * left[y]
                value[b, t, x] = total

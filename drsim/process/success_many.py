r"""Success of many threshold policies under many draws of a model's parameters, quicker than all their values.

Backward in the steps, W_t(b, x) is the success of a run that is about to act in step t with b interventions left and
no cooldown. An intervention after step t takes a run past its extra steps and its cooldown, in which nothing depends on
the policy. So it leads from W_{t + 1 + e + c} of one intervention less straight to step t, by a matrix that all
policies of a mechanism and a cooldown share:

.. math::

    W_t(b) = s_t + P_t \left[(1 - f_t) W_{t+1}(b) + f_t \left(m_t + M_t W_{t+1+e+c}(b - 1)\right)\right]

with P_t the act among live states, s_t its success, f_t the firing probability, m_t and M_t the kernel followed by the
acts of the cooldown. W_t(0) is the unaided run. Its plain twin is `drsim.process.exact`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.process.exact_many import check_together
from drsim.process.gates import Gates, gates_of_many
from drsim.process.quadrature import converged, shift_nodes
from drsim.process.stacks import ModelDraws, PolicyTable

__all__ = ["SuccessMany", "fill_firing", "success_many"]

SQRT_2 = math.sqrt(2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessMany:
    """P(success) of policies and of unaided runs."""

    success: FloatArray
    """(P, D)."""
    baseline: FloatArray
    """(D,)."""
    n_nodes: int
    """Gauss–Hermite nodes for the run-level shift; 1 where no draw has one."""

    @property
    def gain(self) -> FloatArray:
        """(P, D) Δ."""
        return self.success - self.baseline


def success_many(draws: ModelDraws, policies: PolicyTable) -> SuccessMany:
    """P(success) of every policy under every draw.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    policies : PolicyTable
        P policies, of the draws' horizon and mechanisms.

    Returns
    -------
    SuccessMany
        To rounding where ω = 0, else to about 1e-10.

    Raises
    ------
    ParameterError
        The policies belong to another horizon or to mechanisms that the draws lack.
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.

    References
    ----------
    THEORY section 4.
    """
    check_together(draws, policies)
    gates = gates_of_many(
        draws.extra_steps, policies.mechanism, policies.logit_threshold, policies.budget, policies.cooldown
    )
    ratio = float(np.max(draws.run_sd / draws.score_sd.min(axis=1))) if gates.reads_scores.any() else 0.0
    baseline = np.zeros(draws.start.shape[0])
    values, n_nodes = converged(lambda n: _values(draws, policies, gates, n, baseline), ratio)
    return SuccessMany(success=values, baseline=baseline, n_nodes=n_nodes)


def _values(
    draws: ModelDraws, policies: PolicyTable, gates: Gates[IntArray, BoolArray], n_nodes: int, baseline: FloatArray
) -> FloatArray:
    """(P, D) on a number of nodes; fill `baseline` (D,)."""
    n_draws, n_mechanisms, horizon, n_states = draws.kernels.shape[:4]
    kernels = draws.kernels if n_mechanisms else np.zeros((n_draws, 1, horizon, n_states, n_states))
    mechanism = np.where(gates.budget > 0, policies.mechanism, -1)
    # policies of one mechanism and cooldown in a row, so that their matrices are made once
    order = np.lexsort((gates.cooldown, mechanism))
    out = np.zeros((n_draws, policies.mechanism.size))
    nodes, weights = shift_nodes(n_nodes)
    baseline[:] = 0.0
    _fill(
        draws.start,
        draws.transitions,
        draws.task_weights,
        kernels,
        draws.score_mean,
        draws.score_sd,
        draws.run_sd,
        order,
        mechanism,
        policies.logit_threshold,
        policies.propensity,
        gates.budget,
        gates.extra,
        gates.cooldown,
        gates.reads_scores,
        nodes,
        weights,
        baseline,
        out,
    )
    return np.ascontiguousarray(out.T)


@njit(cache=True, nogil=True)
def _fill(
    start: FloatArray,
    transitions: FloatArray,
    task_weights: FloatArray,
    kernels: FloatArray,
    score_mean: FloatArray,
    score_sd: FloatArray,
    run_sd: FloatArray,
    order: IntArray,
    mechanism: IntArray,
    threshold: FloatArray,
    propensity: FloatArray,
    budget: IntArray,
    extra: IntArray,
    cooldown: IntArray,
    reads_scores: BoolArray,
    nodes: FloatArray,
    weights: FloatArray,
    baseline: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `baseline` (D,) and `out` (D, P); budget, extra, cooldown and reads_scores (P,) are those of `Gates`."""
    n_draws, n_tasks, horizon, n_states = transitions.shape[:4]
    value = np.zeros((budget.max() + 1, horizon + 1, n_states))
    jump = np.zeros((horizon, n_states, n_states + 1))
    fires = np.zeros((horizon, n_states))
    for d in range(n_draws):
        for j in range(n_tasks):
            acts, share = transitions[d, j], task_weights[j]
            _unaided(acts, value[0])
            alone = _dot(start[d], value[0, 0])
            baseline[d] += share * alone
            last_mechanism, last_cooldown = -1, -1
            for p in order:
                m = mechanism[p]
                if m < 0:
                    out[d, p] += share * alone
                    continue
                if m != last_mechanism or cooldown[p] != last_cooldown:
                    _jumps(acts, kernels[d, m], extra[p], cooldown[p], jump)
                    last_mechanism, last_cooldown = m, cooldown[p]
                after = 1 + extra[p] + cooldown[p]
                n_nodes = nodes.shape[0] if run_sd[d] > 0.0 and reads_scores[p] else 1
                for i in range(n_nodes):
                    shift, weight = (run_sd[d] * nodes[i], weights[i]) if n_nodes > 1 else (0.0, 1.0)
                    fill_firing(threshold[p], propensity[p], score_mean[d], score_sd[d], shift, fires)
                    if n_states == 2:
                        _two_states(acts, jump, fires, after, budget[p], value)
                    else:
                        _any_states(acts, jump, fires, after, budget[p], value)
                    out[d, p] += share * weight * _dot(start[d], value[budget[p], 0])


@njit(cache=True, nogil=True)
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for x in range(a.size):
        total += a[x] * b[x]
    return total


@njit(cache=True, nogil=True)
def _unaided(acts: FloatArray, value: FloatArray) -> None:
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
def _jumps(acts: FloatArray, kernel: FloatArray, extra: int, cooldown: int, jump: FloatArray) -> None:
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
def _two_states(
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
def _any_states(
    acts: FloatArray, jump: FloatArray, fires: FloatArray, after: int, budget: int, value: FloatArray
) -> None:
    """As `_two_states`, for S states."""
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

"""Exact values of many threshold policies under many draws of a model's parameters.

The forward recursion of THEORY section 4 on (state, budget left, cooldown left), compiled: one pass over the steps
gives success, capped, steps, interventions and tokens. Its plain twin, which runs backward, is `drsim.process.exact`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.process.gates import Gates, gates_of_many
from drsim.process.quadrature import converged, shift_nodes
from drsim.process.stacks import ModelDraws, PolicyTable

__all__ = ["ExactMany", "check_together", "evaluate_many"]

N_VALUES = 5
SQRT_2 = math.sqrt(2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactMany:
    """Expectations per run, each (P, D); meanings as in `Exact`."""

    success: FloatArray
    capped: FloatArray
    steps: FloatArray
    interventions: FloatArray
    tokens: FloatArray
    usd: FloatArray
    seconds: FloatArray
    n_nodes: int
    """Gauss–Hermite nodes for the run-level shift; 1 where no draw has one."""


def evaluate_many(draws: ModelDraws, policies: PolicyTable) -> ExactMany:
    """Exact values of every policy under every draw.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    policies : PolicyTable
        P policies, of the draws' horizon and mechanisms.

    Returns
    -------
    ExactMany
        Each field (P, D); to rounding where ω = 0, else to about 1e-10.

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
    values, n_nodes = converged(lambda n: _values(draws, policies, gates, n), ratio)
    return ExactMany(
        success=values[0],
        capped=values[1],
        steps=values[2],
        interventions=values[3],
        tokens=values[4],
        usd=values[4] * draws.usd_per_token,
        seconds=values[2] * draws.seconds_per_step,
        n_nodes=n_nodes,
    )


def check_together(draws: ModelDraws, policies: PolicyTable) -> None:
    """Refuse policies that do not belong to the draws.

    Parameters
    ----------
    draws : ModelDraws
        M mechanisms, T steps.
    policies : PolicyTable
        Of whatever model.

    Raises
    ------
    ParameterError
        The policies belong to another horizon or to mechanisms that the draws lack.
    """
    n_mechanisms, horizon = draws.kernels.shape[1:3]
    if policies.logit_threshold.shape[1] != horizon or policies.mechanism.max() >= n_mechanisms:
        raise ParameterError(
            f"policies must have the {horizon} steps and the {n_mechanisms} mechanisms of the draws, got "
            f"{policies.logit_threshold.shape[1]} steps and mechanism {policies.mechanism.max()}; "
            "compile both from one model"
        )


def _values(draws: ModelDraws, policies: PolicyTable, gates: Gates[IntArray, BoolArray], n_nodes: int) -> FloatArray:
    """Values (5, P, D) on a number of nodes."""
    n_draws, n_mechanisms, horizon, n_states = draws.kernels.shape[:4]
    # the compiled loops take a slice for every policy, also where no mechanism is left to slice
    kernels = draws.kernels if n_mechanisms else np.zeros((n_draws, 1, horizon, n_states, n_states))
    out = np.zeros((n_draws, policies.mechanism.size, N_VALUES))
    nodes, weights = shift_nodes(n_nodes)
    _fill(
        draws.start,
        draws.transitions,
        draws.task_weights,
        kernels,
        draws.score_mean,
        draws.score_sd,
        draws.run_sd,
        draws.tokens,
        draws.critic_tokens,
        draws.mechanism_tokens,
        policies.mechanism,
        policies.logit_threshold,
        policies.propensity,
        gates.budget,
        gates.extra,
        gates.cooldown,
        gates.reads_scores,
        nodes,
        weights,
        out,
    )
    return np.ascontiguousarray(out.transpose(2, 1, 0))


@njit(cache=True, nogil=True)
def _fill(
    start: FloatArray,
    transitions: FloatArray,
    task_weights: FloatArray,
    kernels: FloatArray,
    score_mean: FloatArray,
    score_sd: FloatArray,
    run_sd: FloatArray,
    tokens: FloatArray,
    critic_tokens: FloatArray,
    mechanism_tokens: FloatArray,
    mechanism: IntArray,
    threshold: FloatArray,
    propensity: FloatArray,
    budget: IntArray,
    extra: IntArray,
    cooldown: IntArray,
    reads_scores: BoolArray,
    nodes: FloatArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `out` (D, P, 5); budget, extra, cooldown and reads_scores (P,) are those of `Gates`."""
    n_draws, n_policies, n_states = start.shape[0], mechanism.shape[0], start.shape[1]
    ahead = np.zeros((extra.max() + 2, budget.max() + 1, cooldown.max() + 1, n_states))
    live, fires, value = np.zeros(n_states), np.zeros(n_states), np.zeros(N_VALUES)
    for d in range(n_draws):
        for p in range(n_policies):
            m = mechanism[p]
            n_nodes = nodes.shape[0] if run_sd[d] > 0.0 and reads_scores[p] else 1
            for i in range(n_nodes * task_weights.shape[0]):
                node, task = i % n_nodes, i // n_nodes
                shift, weight = (run_sd[d] * nodes[node], weights[node]) if n_nodes > 1 else (0.0, 1.0)
                for x in range(n_states):
                    ahead[0, budget[p], 0, x] = start[d, x]
                _forward(
                    transitions[d, task],
                    kernels[d, max(m, 0)],
                    score_mean[d],
                    score_sd[d],
                    shift,
                    tokens,
                    critic_tokens,
                    mechanism_tokens[m] if m >= 0 else 0.0,
                    m >= 0,
                    threshold[p],
                    propensity[p],
                    budget[p],
                    extra[p],
                    cooldown[p],
                    ahead,
                    live,
                    fires,
                    value,
                )
                for v in range(N_VALUES):
                    out[d, p, v] += weight * task_weights[task] * value[v]


@njit(cache=True, nogil=True)
def _forward(  # noqa: C901 # the loops of one recursion
    transitions: FloatArray,
    kernels: FloatArray,
    score_mean: FloatArray,
    score_sd: FloatArray,
    shift: float,
    tokens: FloatArray,
    critic_tokens: FloatArray,
    mechanism_tokens: float,
    is_scored: bool,
    threshold: FloatArray,
    propensity: FloatArray,
    budget: int,
    extra: int,
    cooldown: int,
    ahead: FloatArray,
    live: FloatArray,
    fires: FloatArray,
    value: FloatArray,
) -> None:
    """Fill `value` (5,); `ahead` (ring of steps, budget left, cooldown left, S) holds the start, and ends all zero."""
    horizon, n_states = transitions.shape[0], transitions.shape[1]
    n_ahead = extra + 2
    success, steps, interventions, spent = 0.0, 0.0, 0.0, 0.0
    for t in range(horizon):
        here, after, resumed = t % n_ahead, (t + 1) % n_ahead, (t + 1 + extra) % n_ahead
        if t == 0 or threshold[t] != threshold[t - 1]:
            for x in range(n_states):
                fires[x] = 0.5 * math.erfc((threshold[t] - score_mean[x] - shift) / (SQRT_2 * score_sd[x]))
        acting, scored, fired = 0.0, 0.0, 0.0
        for b in range(max(budget - t, 0), budget + 1):
            for c in range(cooldown + 1):
                for y in range(n_states):
                    live[y] = 0.0
                for x in range(n_states):
                    mass = ahead[here, b, c, x]
                    ahead[here, b, c, x] = 0.0
                    acting += mass
                    success += mass * transitions[t, x, n_states]
                    for y in range(n_states):
                        live[y] += mass * transitions[t, x, y]
                for x in range(n_states):
                    mass = live[x]
                    scored += mass
                    if c == 0 and b > 0:
                        moved = mass * fires[x] * propensity[t]
                        fired += moved
                        mass -= moved
                        for y in range(n_states):
                            ahead[resumed, b - 1, cooldown, y] += moved * kernels[t, x, y]
                    ahead[after, b, max(c - 1, 0), x] += mass
        steps += acting
        interventions += fired
        spent += acting * tokens[t] + fired * mechanism_tokens
        if is_scored:
            spent += scored * critic_tokens[t]
    capped = 0.0
    for j in range(n_ahead):
        for b in range(budget + 1):
            for c in range(cooldown + 1):
                for x in range(n_states):
                    capped += ahead[j, b, c, x]
                    ahead[j, b, c, x] = 0.0
    value[0], value[1], value[2], value[3], value[4] = success, capped, steps, interventions, spent

r"""What first interventions do, of many threshold policies under many draws of a model's parameters.

Until its first intervention a run is unaided, so one forward pass over runs that nobody has touched yet holds all that
the shared prefix decides. With F_t(x) the probability that the first intervention is made after step t in state x,
V_x(t) the success of an unaided run and A_t(x) that of a run from its intervention on,

.. math::

    P(\text{both succeed}) = \sum_t \left[s_t + \sum_x F_t(x)\, V_x(t+1)\, A_t(x)\right]

where s_t is the success of untouched runs in step t; the gain is Σ_t Σ_x F_t(x) [A_t(x) − V_x(t+1)]. The same F
weighs the leverage of THEORY section 4: what one intervention loses on track, and wins off track, against leaving the
run alone,

.. math::

    \ell_t = V_{on}(t+1) - \sum_y K_t(on, y) V'_y, \quad w_t = \sum_y K_t(off, y) V'_y - V_{off}(t+1)

with V' at t + 1 and the extra steps; in the terms of THEORY section 4, ℓ = d·L' + λ_on and w = r·L' − λ_off, so that
an intervention after step t pays where P(off track) exceeds ℓ/(ℓ + w). With several modes w is their mean over the
first interventions of the step. Twins: `drsim.process.exact` and `drsim.process.trace`.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.process.exact_many import check_together
from drsim.process.gates import Gates, gates_of_many
from drsim.process.quadrature import converged, shift_nodes
from drsim.process.stacks import ModelDraws, PolicyTable
from drsim.process.success_kernels import (
    dot,
    fill_any_states,
    fill_firing,
    fill_jumps,
    fill_two_states,
    fill_unaided,
)
from drsim.theory.domain import ratio

__all__ = ["CoupledMany", "coupled_many"]

N_VALUES = 7
SUCCESS, GAIN, BOTH, TRIGGERED, LOSS, WIN, HIT = range(N_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoupledMany:
    """Policies beside the unaided runs that share their prefix; (P, D) but for `baseline`."""

    baseline: FloatArray
    """(D,) P(success) of an unaided run."""
    success: FloatArray
    """P(success)."""
    gain: FloatArray
    """Δ, added up over first interventions rather than taken as a difference: 0 where none of them can matter."""
    both: FloatArray
    """P(the run succeeds, and so does the unaided run that shares its prefix)."""
    triggered: FloatArray
    """P(a run is intervened in at least once)."""
    loss: FloatArray
    """Σ_t F_t ℓ_t: what first interventions would lose if they all found the run on track."""
    win: FloatArray
    """Σ_t F_t w_t: what they would win if they all found it off track."""
    hit: FloatArray
    """Σ_t F_t(off track) (ℓ_t + w_t)."""
    n_nodes: int
    """Gauss–Hermite nodes for the run-level shift; 1 where no draw has one."""

    @property
    def recovery(self) -> FloatArray:
        """(P, D) r with a shared prefix; NaN where no unaided run fails."""
        return np.maximum(ratio(self.success - self.both, 1.0 - self.baseline), 0.0)

    @property
    def disruption(self) -> FloatArray:
        """(P, D) d with a shared prefix; NaN where no unaided run succeeds."""
        return np.maximum(ratio(self.baseline - self.both, self.baseline), 0.0)


def coupled_many(draws: ModelDraws, policies: PolicyTable) -> CoupledMany:
    """Success, the shared prefix, and the leverage of first interventions of every policy under every draw.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    policies : PolicyTable
        P policies, of the draws' horizon and mechanisms.

    Returns
    -------
    CoupledMany
        To rounding where ω = 0, else to about 1e-10.

    Raises
    ------
    ParameterError
        The policies belong to another horizon or to mechanisms that the draws lack.
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.

    References
    ----------
    THEORY section 4: exact values, coupling, leverage identity.
    """
    check_together(draws, policies)
    gates = gates_of_many(
        draws.extra_steps, policies.mechanism, policies.logit_threshold, policies.budget, policies.cooldown
    )
    ratio = float(np.max(draws.run_sd / draws.score_sd.min(axis=1))) if gates.reads_scores.any() else 0.0
    baseline = np.zeros(draws.start.shape[0])
    values, n_nodes = converged(lambda n: _values(draws, policies, gates, n, baseline), ratio)
    return CoupledMany(
        baseline=baseline,
        success=values[SUCCESS],
        gain=values[GAIN],
        both=values[BOTH],
        triggered=values[TRIGGERED],
        loss=values[LOSS],
        win=values[WIN],
        hit=values[HIT],
        n_nodes=n_nodes,
    )


def _values(
    draws: ModelDraws, policies: PolicyTable, gates: Gates[IntArray, BoolArray], n_nodes: int, baseline: FloatArray
) -> FloatArray:
    """(7, P, D) on a number of nodes; fill `baseline` (D,)."""
    n_draws, n_mechanisms, horizon, n_states = draws.kernels.shape[:4]
    kernels = draws.kernels if n_mechanisms else np.zeros((n_draws, 1, horizon, n_states, n_states))
    mechanism = np.where(gates.budget > 0, policies.mechanism, -1)
    # policies of one mechanism and cooldown in a row, so that their matrices are made once
    order = np.lexsort((gates.cooldown, mechanism))
    out = np.zeros((n_draws, policies.mechanism.size, N_VALUES))
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
    """Fill `baseline` (D,) and `out` (D, P, 7); budget, extra, cooldown and reads_scores (P,) are those of `Gates`."""
    n_draws, n_tasks, horizon, n_states = transitions.shape[:4]
    value = np.zeros((budget.max() + 1, horizon + 1, n_states))
    jump = np.zeros((horizon, n_states, n_states + 1))
    fires = np.zeros((horizon, n_states))
    stakes = np.zeros((horizon, n_states))
    scratch = np.zeros((3, n_states))
    found = np.zeros(N_VALUES)
    for d in range(n_draws):
        for j in range(n_tasks):
            acts, share = transitions[d, j], task_weights[j]
            fill_unaided(acts, value[0])
            alone = dot(start[d], value[0, 0])
            baseline[d] += share * alone
            last_mechanism, last_cooldown = -1, -1
            for p in order:
                m = mechanism[p]
                if m < 0:
                    out[d, p, SUCCESS] += share * alone
                    out[d, p, BOTH] += share * alone
                    continue
                if m != last_mechanism or cooldown[p] != last_cooldown:
                    fill_jumps(acts, kernels[d, m], extra[p], cooldown[p], jump)
                    _stakes(kernels[d, m], value[0], extra[p], stakes)
                    last_mechanism, last_cooldown = m, cooldown[p]
                after = 1 + extra[p] + cooldown[p]
                n_nodes = nodes.shape[0] if run_sd[d] > 0.0 and reads_scores[p] else 1
                for i in range(n_nodes):
                    shift, weight = (run_sd[d] * nodes[i], weights[i]) if n_nodes > 1 else (0.0, 1.0)
                    fill_firing(threshold[p], propensity[p], score_mean[d], score_sd[d], shift, fires)
                    # the first intervention leaves one less, and the forward pass does the rest
                    if n_states == 2:
                        fill_two_states(acts, jump, fires, after, budget[p] - 1, value)
                    else:
                        fill_any_states(acts, jump, fires, after, budget[p] - 1, value)
                    scratch[0] = start[d]
                    aided = value[budget[p] - 1]
                    _untouched(scratch, acts, jump, fires, after, value[0], aided, stakes, found)
                    for v in range(N_VALUES):
                        out[d, p, v] += share * weight * found[v]


@njit(cache=True, nogil=True)
def _stakes(kernel: FloatArray, alone: FloatArray, extra: int, stakes: FloatArray) -> None:
    """Fill `stakes` (T, S): by how much an intervention after step t changes the success of a run found in x."""
    horizon, n_states = kernel.shape[0], kernel.shape[1]
    for t in range(horizon):
        then = min(t + 1 + extra, horizon)
        for x in range(n_states):
            moved = 0.0
            for y in range(n_states):
                moved += kernel[t, x, y] * alone[then, y]
            stakes[t, x] = moved - alone[t + 1, x]


@njit(cache=True, nogil=True)
def _untouched(
    scratch: FloatArray,
    acts: FloatArray,
    jump: FloatArray,
    fires: FloatArray,
    after: int,
    alone: FloatArray,
    aided: FloatArray,
    stakes: FloatArray,
    found: FloatArray,
) -> None:
    """Fill `found` (7,) by a pass over runs that nobody has intervened in; `scratch` (3, S) begins with the start."""
    horizon, n_states = acts.shape[0], acts.shape[1]
    mass, live, first = scratch[0], scratch[1], scratch[2]
    untouched, success, gain, both = 0.0, 0.0, 0.0, 0.0
    triggered, loss, won, hit = 0.0, 0.0, 0.0, 0.0
    for t in range(horizon):
        for y in range(n_states):
            live[y] = 0.0
        for x in range(n_states):
            untouched += mass[x] * acts[t, x, n_states]
            for y in range(n_states):
                live[y] += mass[x] * acts[t, x, y]
        fired = 0.0
        for x in range(n_states):
            first[x] = live[x] * fires[t, x]
            mass[x] = live[x] - first[x]
            fired += first[x]
        # most steps of a narrow window are closed
        if fired == 0.0:
            continue
        then = min(t + after, horizon)
        for x in range(n_states):
            helped = jump[t, x, n_states]
            for y in range(n_states):
                helped += jump[t, x, y] * aided[then, y]
            success += first[x] * helped
            gain += first[x] * (helped - alone[t + 1, x])
            both += first[x] * helped * alone[t + 1, x]
        win = _win(first, stakes[t])
        triggered += fired
        loss -= fired * stakes[t, 0]
        won += fired * win
        hit += (fired - first[0]) * (win - stakes[t, 0])
    found[SUCCESS], found[GAIN], found[BOTH] = untouched + success, gain, untouched + both
    found[TRIGGERED] = triggered
    found[LOSS], found[WIN], found[HIT] = loss, won, hit


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

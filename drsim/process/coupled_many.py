r"""What policies do beside unaided runs, many threshold policies under many draws of a model's parameters.

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
from pathlib import Path

import numpy as np
from numba import njit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.process.coupled_kernels import (
    BOTH,
    CAPPED,
    GAIN,
    HIT,
    INTERVENTIONS,
    LOSS,
    N_FOUND,
    N_VALUES,
    SUCCESS,
    TOKENS,
    TRIGGERED,
    WIN,
    fill_aided,
    fill_leaps,
    fill_rewards,
    fill_stakes,
    fill_unaided_values,
    pass_untouched,
)
from drsim.process.exact_many import check_together
from drsim.process.gates import Gates, gates_of_many
from drsim.process.quadrature import converged, shift_nodes
from drsim.process.stacks import ModelDraws, PolicyTable
from drsim.process.success_many import fill_firing
from drsim.theory.domain import ratio

__all__ = ["CoupledMany", "coupled_many", "is_compiled"]


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
    interventions: FloatArray
    """Interventions per run."""
    tokens: FloatArray
    """Tokens of acts, of scoring, and of interventions per run."""
    capped: FloatArray
    """P(neither success nor fail within the horizon)."""
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
        interventions=values[INTERVENTIONS],
        tokens=values[TOKENS],
        capped=values[CAPPED],
        loss=values[LOSS],
        win=values[WIN],
        hit=values[HIT],
        n_nodes=n_nodes,
    )


def is_compiled() -> bool:
    """Whether an earlier process has left the recursion compiled; else its first use takes some 15 s."""
    kept = Path(_fill._cache.cache_path)  # type: ignore[attr-defined] # of every cached function
    return any(kept.glob(f"{Path(__file__).stem}._fill-*.nbi"))


def _values(
    draws: ModelDraws, policies: PolicyTable, gates: Gates[IntArray, BoolArray], n_nodes: int, baseline: FloatArray
) -> FloatArray:
    """(10, P, D) on a number of nodes; fill `baseline` (D,)."""
    n_draws, n_mechanisms, horizon, n_states = draws.kernels.shape[:4]
    kernels = draws.kernels if n_mechanisms else np.zeros((n_draws, 1, horizon, n_states, n_states))
    mechanism = np.where(gates.budget > 0, policies.mechanism, -1)
    is_open = policies.logit_threshold < np.inf
    steps = np.arange(horizon)
    # policies of one mechanism and cooldown in a row, so that their matrices are made once
    order = np.lexsort((gates.cooldown, mechanism))
    out = np.zeros((n_draws, policies.mechanism.size, N_FOUND))
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
        draws.tokens,
        draws.critic_tokens,
        draws.mechanism_tokens,
        order,
        mechanism,
        policies.mechanism >= 0,
        policies.logit_threshold,
        policies.propensity,
        np.where(is_open, steps, horizon).min(axis=1),
        np.where(is_open, steps, -1).max(axis=1),
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
def _fill(  # noqa: C901 # the loops over draws, tasks, policies and nodes share their arrays
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
    order: IntArray,
    mechanism: IntArray,
    is_scored: BoolArray,
    threshold: FloatArray,
    propensity: FloatArray,
    first: IntArray,
    last: IntArray,
    budget: IntArray,
    extra: IntArray,
    cooldown: IntArray,
    reads_scores: BoolArray,
    nodes: FloatArray,
    weights: FloatArray,
    baseline: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `baseline` (D,) and `out` (D, P, 10); budget, extra, cooldown and reads_scores (P,) are those of `Gates`,
    first and last (P,) the outermost open steps.
    """
    n_draws, n_tasks, horizon, n_states = transitions.shape[:4]
    value = np.zeros((max(int(budget.max()), 1), horizon + 1, n_states, N_VALUES))
    unscored = np.zeros((horizon + 1, n_states, N_VALUES))
    rewards, gathered = np.zeros((horizon, n_states, N_VALUES)), np.zeros((horizon, n_states, N_VALUES))
    jump = np.zeros((horizon, n_states, n_states))
    fires, stakes = np.zeros((horizon, n_states)), np.zeros((horizon, n_states))
    scratch, left, helped = np.zeros((3, n_states)), np.zeros((n_states, N_VALUES)), np.zeros(N_VALUES)
    found, silent = np.zeros(N_FOUND), np.zeros_like(critic_tokens)
    for d in range(n_draws):
        for j in range(n_tasks):
            acts, share = transitions[d, j], task_weights[j]
            fill_rewards(acts, tokens, silent, rewards)
            fill_unaided_values(acts, rewards, unscored)
            fill_rewards(acts, tokens, critic_tokens, rewards)
            fill_unaided_values(acts, rewards, value[0])
            for x in range(n_states):
                baseline[d] += share * start[d, x] * value[0, 0, x, SUCCESS]
            last_mechanism, last_cooldown = -1, -1
            for p in order:
                m = mechanism[p]
                if m < 0:
                    alone = value[0] if is_scored[p] else unscored
                    for x in range(n_states):
                        for v in range(N_VALUES):
                            out[d, p, v] += share * start[d, x] * alone[0, x, v]
                        out[d, p, BOTH] += share * start[d, x] * alone[0, x, SUCCESS]
                    continue
                if m != last_mechanism or cooldown[p] != last_cooldown:
                    spent = mechanism_tokens[m]
                    fill_leaps(acts, rewards, kernels[d, m], extra[p], cooldown[p], spent, jump, gathered)
                    fill_stakes(kernels[d, m], value[0], extra[p], stakes)
                    last_mechanism, last_cooldown = m, cooldown[p]
                after = 1 + extra[p] + cooldown[p]
                n_nodes = nodes.shape[0] if run_sd[d] > 0.0 and reads_scores[p] else 1
                for i in range(n_nodes):
                    shift, weight = (run_sd[d] * nodes[i], weights[i]) if n_nodes > 1 else (0.0, 1.0)
                    fill_firing(threshold[p], propensity[p], score_mean[d], score_sd[d], shift, fires)
                    # the first intervention leaves one less, and the pass over untouched runs does the rest
                    fill_aided(
                        acts,
                        rewards,
                        jump,
                        gathered,
                        fires,
                        first[p],
                        last[p],
                        after,
                        budget[p] - 1,
                        value,
                        left,
                    )
                    scratch[0] = start[d]
                    pass_untouched(
                        scratch,
                        acts,
                        rewards,
                        jump,
                        gathered,
                        fires,
                        last[p],
                        after,
                        value[0],
                        value[budget[p] - 1],
                        stakes,
                        helped,
                        found,
                    )
                    for v in range(N_FOUND):
                        out[d, p, v] += share * weight * found[v]

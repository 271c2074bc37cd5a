"""Where runs are at each step, by forward recursion (THEORY section 4)."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledModel, CompiledPolicy, firing
from drsim.process.gates import gates_of
from drsim.process.quadrature import mean_over_shift

__all__ = ["Trace", "trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Step by step, what a policy does to runs of a model."""

    states: FloatArray
    """(T + 1, S + 2) distribution over the live states, success, fail just before step t, and after the last one; rows
    sum to 1. A run that passes an extra step keeps its state."""
    acting: FloatArray
    """(T,) P(the run acts in step t): not yet ended, and not passing an extra step."""
    interventions: FloatArray
    """(T,) P(an intervention is made in step t)."""
    first_firing: FloatArray
    """(T,) P(the first intervention is made in step t); what is missing from 1 never fires."""
    n_nodes: int
    """Gauss–Hermite nodes for the run-level shift; 1 where there is none."""

    @property
    def never_fires(self) -> float:
        """P(a run ends without an intervention)."""
        return 1.0 - float(self.first_firing.sum())


def trace(model: CompiledModel, policy: CompiledPolicy) -> Trace:
    """Distributions by step under one policy.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policy : CompiledPolicy
        Compiled for the same model.

    Returns
    -------
    Trace
        Every entry to rounding where ω = 0, else to about 1e-10.

    Raises
    ------
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.

    References
    ----------
    THEORY section 4.
    """
    horizon, n_states = model.transitions.shape[:2]
    run_sd = model.run_sd if gates_of(model, policy).reads_scores else 0.0
    flat, n_nodes = mean_over_shift(lambda shifts: _over_tasks(model, policy, shifts), run_sd, model.score_sd)
    by_step, states = flat[: 3 * horizon].reshape(3, horizon), flat[3 * horizon :]
    return Trace(
        states=states.reshape(horizon + 1, n_states + 2),
        acting=by_step[0],
        interventions=by_step[1],
        first_firing=by_step[2],
        n_nodes=n_nodes,
    )


def _over_tasks(model: CompiledModel, policy: CompiledPolicy, shifts: FloatArray) -> FloatArray:
    """Mean of `_forward` over the classes of tasks."""
    if model.tasks is None:
        return _forward(model, model.transitions, policy, shifts)
    parts = [_forward(model, transitions, policy, shifts) for transitions in model.tasks.transitions]
    mean: FloatArray = np.tensordot(model.tasks.weights, np.stack(parts), axes=1)
    return mean


def _forward(model: CompiledModel, transitions: FloatArray, policy: CompiledPolicy, shifts: FloatArray) -> FloatArray:
    """Acting, interventions, first firings (T each) and states (T + 1, S + 2), flat, at each of N shifts."""
    horizon, n_states = transitions.shape[:2]
    n = shifts.size
    fires = np.stack([firing(model, policy, shift) for shift in shifts])
    gates = gates_of(model, policy)
    budget, cooldown, extra = gates.budget, gates.cooldown, gates.extra

    by_step = np.zeros((n, 3, horizon))
    states = np.zeros((n, horizon + 1, n_states + 2))
    # ahead[j]: runs by (budget left, cooldown left, state) whose next act is in step t + j
    ahead = [np.zeros((n, budget + 1, cooldown + 1, n_states)) for _ in range(extra + 2)]
    ahead[0][:, budget, 0, :] = model.start
    for t in range(horizon):
        states[:, t, :n_states] = sum(it.sum(axis=(1, 2)) for it in ahead)
        states[:, t + 1, n_states:] = states[:, t, n_states:]
        acting, ahead = ahead[0], [*ahead[1:], np.zeros_like(ahead[0])]
        by_step[:, 0, t] = acting.sum(axis=(1, 2, 3))
        states[:, t + 1, n_states:] += acting.sum(axis=(1, 2)) @ transitions[t, :, n_states:]
        live = acting @ transitions[t, :, :n_states]
        if budget:
            fired = live[:, 1:, 0, :] * fires[:, t, None, :]
            live[:, 1:, 0, :] *= 1.0 - fires[:, t, None, :]
            by_step[:, 1, t] = fired.sum(axis=(1, 2))
            by_step[:, 2, t] = fired[:, budget - 1, :].sum(axis=1)
            ahead[extra][:, :budget, cooldown, :] += fired @ model.kernels[policy.mechanism, t]
        ahead[0][:, :, 0, :] += live[:, :, 0, :]
        ahead[0][:, :, :-1, :] += live[:, :, 1:, :]
    states[:, horizon, :n_states] = sum(it.sum(axis=(1, 2)) for it in ahead)
    return np.concatenate([by_step.reshape(n, -1), states.reshape(n, -1)], axis=1)

r"""What an intervened run flips, by the step of its first intervention, for many draws of a model at once.

Up to the first firing a run and its unaided twin are one run (THEORY section 4, `shared_prefix`). So all that a policy
does is decided where a run stands when it first fires: after step t, in state x of a task of class j, with run-level
shift u. With m the probability of that, V the success of a run that goes on alone from there and W that of the run that
is intervened in,

.. math:: \Delta = \sum m\,(W - V).

Two couplings share that prefix and differ in what follows:

- `shared_prefix`, independent after the firing: fail → success with :math:`\sum m (1-V) W`, success → fail with
  :math:`\sum m V (1-W)`, part of which is chance alone;
- `least`, the fewest flips that the two success probabilities allow: :math:`\sum m (W-V)^+` and
  :math:`\sum m (V-W)^+`, which no other way of pairing the same two runs can go below.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import ndtr

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.process.compile import CompiledPolicy
from drsim.process.gates import gates_of_many
from drsim.process.quadrature import shift_nodes
from drsim.process.stacks import ModelDraws
from drsim.theory.domain import ratio

__all__ = ["Flips", "PrefixCoupling", "alone_many", "firing_many", "flips_many"]


class PrefixCoupling(StrEnum):
    """How an unaided and an intervened run are coupled after the prefix that they share."""

    SHARED_PREFIX = "shared_prefix"
    """Independent after the first firing, given the state."""
    LEAST = "least"
    """The fewest flips that the success probabilities after the first firing allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """D draws, T steps of the first firing."""

    baseline: FloatArray
    """(D,) P(success) of an unaided run."""
    first_firing: FloatArray
    """(D, T) P(the first intervention is made after step t)."""
    then_alone: FloatArray
    """(D, T) P(first intervention after step t, and the unaided run succeeds): Σ m V."""
    then_aided: FloatArray
    """(D, T) P(first intervention after step t, and the intervened run succeeds): Σ m W."""
    both_succeed: FloatArray
    """(D, T) P(first intervention after step t, and both succeed) under `shared_prefix`: Σ m V W."""
    least_up: FloatArray
    """(D, T) fail → success under `least`: Σ m (W − V)⁺."""

    @property
    def success(self) -> FloatArray:
        """(D,) P(success) of an intervened run."""
        return self.baseline + self.gain

    @property
    def gain(self) -> FloatArray:
        """(D,) Δ, whatever the coupling."""
        gain: FloatArray = (self.then_aided - self.then_alone).sum(axis=1)
        return gain

    def up(self, coupling: PrefixCoupling) -> FloatArray:
        """(D, T) fail → success by the step of the first intervention."""
        return self.least_up if coupling is PrefixCoupling.LEAST else self.then_aided - self.both_succeed

    def down(self, coupling: PrefixCoupling) -> FloatArray:
        """(D, T) success → fail by the step of the first intervention."""
        if coupling is PrefixCoupling.LEAST:
            return self.least_up - (self.then_aided - self.then_alone)
        return self.then_alone - self.both_succeed

    def recovery(self, coupling: PrefixCoupling) -> FloatArray:
        """(D,) r; NaN where no unaided run fails."""
        rate: FloatArray = ratio(self.up(coupling).sum(axis=1), 1.0 - self.baseline)
        return rate

    def disruption(self, coupling: PrefixCoupling) -> FloatArray:
        """(D,) d; NaN where no unaided run succeeds."""
        rate: FloatArray = ratio(self.down(coupling).sum(axis=1), self.baseline)
        return rate


def flips_many(draws: ModelDraws, policy: CompiledPolicy, *, n_nodes: int = 1) -> Flips:
    """Flips of one policy under every draw.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    policy : CompiledPolicy
        Of the draws' horizon and mechanisms; reads the score of a step alone.
    n_nodes : int
        Gauss–Hermite nodes for the run-level shift, ≥ 1; `success_many` says how many it takes. Ignored where no draw
        has one.

    Returns
    -------
    Flips
        To rounding where ω = 0.

    Raises
    ------
    ParameterError
        The policy looks back on a run's history.

    References
    ----------
    THEORY section 4.
    """
    if policy.history is not None:
        raise ParameterError(
            f"policy must read the score of a step alone to be exact, got signal {policy.history.signal}; simulate it"
        )
    n_draws, n_classes, horizon, n_states = draws.transitions.shape[:4]
    nodes, node_weights = shift_nodes(n_nodes if np.any(draws.run_sd > 0.0) else 1)
    weights = draws.task_weights[:, None] * node_weights
    live, success = draws.transitions[..., :n_states], draws.transitions[..., n_states]
    alone = alone_many(draws)
    fires = firing_many(draws, policy, draws.run_sd[:, None] * nodes)
    aided = _aided(draws, policy, fires, live, success)

    sums = np.zeros((5, n_draws, horizon))
    mass = np.broadcast_to(draws.start[:, None, None, :], (n_draws, n_classes, nodes.size, n_states))
    for t in range(horizon):
        mass = mass @ live[:, :, t]
        fired = mass * fires[:, None, :, t]
        mass = mass - fired
        v, w = alone[t + 1][:, :, None, :], aided[t]
        for k, value in enumerate((np.ones_like(w), v, w, v * w, np.maximum(w - v, 0.0))):
            sums[k, :, t] = np.einsum("djnx,jn->d", fired * value, weights)
    return Flips(
        baseline=np.einsum("djx,dx,j->d", alone[0], draws.start, draws.task_weights),
        first_firing=sums[0],
        then_alone=sums[1],
        then_aided=sums[2],
        both_succeed=sums[3],
        least_up=sums[4],
    )


def alone_many(draws: ModelDraws) -> FloatArray:
    """Success of unaided runs.

    Parameters
    ----------
    draws : ModelDraws
        D draws, J classes, T steps, S live states.

    Returns
    -------
    ndarray
        (T + 1, D, J, S): V_x(t) of THEORY section 4; the last row is 0.
    """
    n_draws, n_classes, horizon, n_states = draws.transitions.shape[:4]
    live, success = draws.transitions[..., :n_states], draws.transitions[..., n_states]
    alone = np.zeros((horizon + 1, n_draws, n_classes, n_states))
    for t in reversed(range(horizon)):
        alone[t] = (live[:, :, t] @ alone[t + 1][..., np.newaxis])[..., 0] + success[:, :, t]
    return alone


def firing_many(draws: ModelDraws, policy: CompiledPolicy, shifts: FloatArray) -> FloatArray:
    """Probability that a policy that could intervene does.

    Parameters
    ----------
    draws : ModelDraws
        D draws, T steps, S live states.
    policy : CompiledPolicy
        Reads the score of a step alone.
    shifts : ndarray
        (D, N) run-level shifts.

    Returns
    -------
    ndarray
        (D, N, T, S); 0 throughout for a policy without a mechanism.
    """
    n_draws, n_nodes = shifts.shape
    horizon, n_states = draws.transitions.shape[2:4]
    if policy.mechanism < 0:
        return np.zeros((n_draws, n_nodes, horizon, n_states))
    mean, sd = draws.score_mean[:, None, None, :], draws.score_sd[:, None, None, :]
    above: FloatArray = ndtr((mean + shifts[:, :, None, None] - policy.logit_threshold[:, None]) / sd)
    acted: FloatArray = above * np.reshape(policy.propensity, (-1, 1))
    return acted


def _aided(
    draws: ModelDraws, policy: CompiledPolicy, fires: FloatArray, live: FloatArray, success: FloatArray
) -> FloatArray:
    """(T, D, J, N, S) success of a run that is intervened in after step t for the first time."""
    n_draws, n_classes, horizon, n_states = live.shape[:4]
    out = np.zeros((horizon, n_draws, n_classes, fires.shape[1], n_states))
    gates = gates_of_many(
        draws.extra_steps,
        np.array([policy.mechanism]),
        policy.logit_threshold[None],
        np.array([policy.budget]),
        np.array([policy.cooldown]),
    )
    budget, extra, cooldown = int(gates.budget[0]), int(gates.extra[0]), int(gates.cooldown[0])
    if budget == 0:
        fires[:] = 0.0
        return out
    cooler = np.maximum(np.arange(cooldown + 1) - 1, 0)
    end = np.zeros((n_draws, n_classes, fires.shape[1], budget + 1, cooldown + 1, n_states))
    # ahead[j]: success of runs that are about to act in step t + 1 + j
    ahead = [end] * (extra + 1)
    for t in reversed(range(horizon)):
        value = ahead[0][..., cooler, :]
        kernel = draws.kernels[:, None, None, policy.mechanism, t]
        moved = ahead[-1][..., :budget, cooldown, :] @ kernel.swapaxes(-1, -2)
        out[t] = moved[..., budget - 1, :]
        stayed = value[..., 1:, 0, :]
        value[..., 1:, 0, :] = stayed + fires[:, None, :, t, None, :] * (moved - stayed)
        acted = value @ live[:, :, t].swapaxes(-1, -2)[:, :, None, None]
        ahead = [acted + success[:, :, t, None, None, None, :], *ahead[:-1]]
    return out

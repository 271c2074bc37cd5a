"""Runs that a critic ends: what has become of them by its first firing, and what would have become of them after it.

The firing changes nothing in the state, so that a run that is ended would have succeeded with the probability of an
unaided run in its state. That tells how often the critic fires on would-fail and on would-succeed runs, and what both
have spent by then: TPR and FPR of the critic as a test of whole runs (THEORY section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledPolicy
from drsim.process.quadrature import converged, shift_nodes
from drsim.process.spent import N_KINDS, Kind
from drsim.process.stacks import ModelDraws, stack_policies

__all__ = ["HaltedMany", "halted_many"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedMany:
    """Runs of P triggers under D draws, in J classes of tasks."""

    success: FloatArray
    """(P, D, J) P(an unaided run succeeds)."""
    fired_succeeding: FloatArray
    """(P, D, J) P(the trigger fires, and the run would have succeeded)."""
    fired: FloatArray
    """(P, D, J) P(the trigger fires)."""
    spent: FloatArray
    """(4, P, D, J) expected by kind, up to the firing or the end; no interventions."""
    spent_succeeding: FloatArray
    """(4, P, D, J) E[spent · 1{the run would have succeeded}]."""


def halted_many(draws: ModelDraws, triggers: Sequence[CompiledPolicy]) -> HaltedMany:
    """What becomes of runs up to the first firing of a trigger.

    Parameters
    ----------
    draws : ModelDraws
        D draws, J classes, T steps.
    triggers : sequence of CompiledPolicy
        P policies that fire on the score of a step; only when they first fire is read of them. One that never fires
        and has no mechanism scores nothing: it leaves runs alone.

    Returns
    -------
    HaltedMany
        To rounding where ω = 0, else to about 1e-10.

    Raises
    ------
    ParameterError
        A trigger has another horizon, or looks back on a run's history.
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.

    References
    ----------
    THEORY sections 3, 4 and 6.
    """
    table = stack_policies(triggers)
    threshold = np.where((table.budget > 0)[:, None], table.logit_threshold, np.inf)
    is_scored = (table.mechanism >= 0)[:, None].astype(np.float64)
    alone = _unaided(draws.transitions)
    ratio = float(np.max(draws.run_sd / draws.score_sd.min(axis=1))) if np.isfinite(threshold).any() else 0.0

    def mean_on(n_nodes: int) -> FloatArray:
        nodes, weights = shift_nodes(n_nodes)
        mean = np.zeros(())
        for node, weight in zip(nodes, weights, strict=True):
            fires = _firing(draws, threshold, node) * table.propensity[:, None, :, None]
            mean = mean + weight * _forward(draws, fires, is_scored, alone)
        return np.asarray(mean)

    values, _ = converged(mean_on, ratio)
    success = np.einsum("ds,djs->dj", draws.start, alone[:, :, 0])
    return HaltedMany(
        success=np.broadcast_to(success, values.shape[1:]),
        fired=values[0],
        fired_succeeding=values[1],
        spent=values[2 : 2 + N_KINDS],
        spent_succeeding=values[2 + N_KINDS :],
    )


def _unaided(transitions: FloatArray) -> FloatArray:
    """V (D, J, T + 1, S): P(success) of a live run that is about to act in step t."""
    horizon, n_states = transitions.shape[2:4]
    value = np.zeros((*transitions.shape[:2], horizon + 1, n_states))
    for t in reversed(range(horizon)):
        act = transitions[:, :, t]
        value[:, :, t] = np.einsum("djxy,djy->djx", act[..., :n_states], value[:, :, t + 1]) + act[..., n_states]
    return value


def _firing(draws: ModelDraws, threshold: FloatArray, node: float) -> FloatArray:
    """(P, D, T, S) P(a score is above the threshold) at a shift of `node` standard deviations."""
    from scipy.special import ndtr

    mean = draws.score_mean + node * draws.run_sd[:, None]
    fires: FloatArray = ndtr((mean[None, :, None] - threshold[:, None, :, None]) / draws.score_sd[None, :, None])
    return fires


def _forward(draws: ModelDraws, fires: FloatArray, is_scored: FloatArray, alone: FloatArray) -> FloatArray:
    """Fired, fired and would succeed, spent (4), spent and would succeed (4): (10, P, D, J)."""
    n_draws, n_classes, horizon, n_states = draws.transitions.shape[:4]
    live = np.broadcast_to(draws.start[:, None], (len(fires), n_draws, n_classes, n_states))
    out = np.zeros((2 + 2 * N_KINDS, len(fires), n_draws, n_classes))
    spent, succeeding = out[2 : 2 + N_KINDS], out[2 + N_KINDS :]
    for t in range(horizon):
        acting, acting_well = live.sum(axis=-1), (live * alone[:, :, t]).sum(axis=-1)
        for kind, price in ((Kind.TOKENS, draws.tokens[t]), (Kind.STEPS, 1.0)):
            spent[kind] += price * acting
            succeeding[kind] += price * acting_well
        live = np.einsum("pdjx,djxy->pdjy", live, draws.transitions[:, :, t, :, :n_states])
        after = alone[:, :, t + 1]
        spent[Kind.CRITIC_CALLS] += is_scored[..., None] * live.sum(axis=-1)
        succeeding[Kind.CRITIC_CALLS] += is_scored[..., None] * (live * after).sum(axis=-1)
        gone = live * fires[:, :, None, t]
        out[0] += gone.sum(axis=-1)
        out[1] += (gone * after).sum(axis=-1)
        live = live - gone
    return out

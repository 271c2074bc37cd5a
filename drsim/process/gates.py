"""What is left of a policy's budget and cooldown on a given horizon: the recursions are as large as these numbers."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.process.compile import CompiledModel, CompiledPolicy

__all__ = ["Gates", "gates_of", "gates_of_many"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates[Whole, Truth]:
    """Numbers of one policy, or (P,) arrays for P policies."""

    budget: Whole
    """Interventions for which budget, open steps, cooldown and extra steps leave room."""
    extra: Whole
    """Extra steps of one intervention, at most the horizon."""
    cooldown: Whole
    """Cooldown left when a run acts for the first time after an intervention, at most the horizon."""
    reads_scores: Truth
    """Whether any firing depends on a score, and so on the run-level shift."""


def gates_of(model: CompiledModel, policy: CompiledPolicy) -> Gates[int, bool]:
    """Gates of one policy.

    Parameters
    ----------
    model : CompiledModel
        T steps, M mechanisms.
    policy : CompiledPolicy
        Compiled for the same model.

    Returns
    -------
    Gates of int and bool
        Its numbers.
    """
    many = gates_of_many(
        model.extra_steps,
        np.array([policy.mechanism]),
        policy.logit_threshold[None],
        np.array([policy.budget]),
        np.array([policy.cooldown]),
    )
    return Gates(
        budget=int(many.budget[0]),
        extra=int(many.extra[0]),
        cooldown=int(many.cooldown[0]),
        reads_scores=bool(many.reads_scores[0]),
    )


def gates_of_many(
    extra_steps: IntArray, mechanism: IntArray, logit_threshold: FloatArray, budget: IntArray, cooldown: IntArray
) -> Gates[IntArray, BoolArray]:
    """Gates of P policies.

    Parameters
    ----------
    extra_steps : ndarray
        (M,) extra steps by mechanism.
    mechanism, budget, cooldown : ndarray
        (P,), fields of the policies.
    logit_threshold : ndarray
        (P, T).

    Returns
    -------
    Gates of ndarray
        (P,) each.
    """
    horizon = logit_threshold.shape[1]
    intervenes = mechanism >= 0
    extra = np.zeros_like(mechanism)
    extra[intervenes] = extra_steps[mechanism[intervenes]]
    is_open = (logit_threshold < np.inf) & intervenes[:, None]
    steps = np.arange(horizon)
    first = np.where(is_open, steps, horizon).min(axis=1)
    last = np.where(is_open, steps, -1).max(axis=1)
    # one firing and the next are at least this far apart
    distance = 1 + extra + np.minimum(cooldown, horizon)
    room = np.where(is_open.any(axis=1), (last - first) // distance + 1, 0)
    usable = np.minimum(budget, room)
    return Gates(
        budget=usable,
        extra=np.where(usable > 0, np.minimum(extra, horizon), 0),
        cooldown=np.where(usable > 1, np.minimum(cooldown, horizon), 0),
        reads_scores=(usable > 0) & np.any(is_open & np.isfinite(logit_threshold), axis=1),
    )

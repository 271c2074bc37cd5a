"""Draws of a model's parameters, and policies, as arrays with one more axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy

__all__ = ["ModelDraws", "PolicyTable", "stack_draws", "stack_policies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDraws:
    """D draws of one model: T steps, S live states, M mechanisms. Fields as in `CompiledModel`."""

    start: FloatArray
    """(D, S)."""
    transitions: FloatArray
    """(D, J, T, S, S + 2), of each class of tasks; J = 1 where tasks are alike."""
    kernels: FloatArray
    """(D, M, T, S, S)."""
    score_mean: FloatArray
    """(D, S)."""
    score_sd: FloatArray
    """(D, S)."""
    run_sd: FloatArray
    """(D,)."""
    task_weights: FloatArray
    """(J,), shared: share of each class of tasks."""
    extra_steps: IntArray
    """(M,), shared."""
    tokens: FloatArray
    """(T,), shared."""
    critic_tokens: FloatArray
    """(T,), shared."""
    mechanism_tokens: FloatArray
    """(M,), shared."""
    usd_per_token: float
    """Shared."""
    seconds_per_step: float
    """Shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTable:
    """P threshold policies. Fields as in `CompiledPolicy`."""

    mechanism: IntArray
    """(P,)."""
    logit_threshold: FloatArray
    """(P, T)."""
    budget: IntArray
    """(P,)."""
    cooldown: IntArray
    """(P,)."""
    propensity: FloatArray
    """(P, T)."""


def stack_draws(models: Sequence[CompiledModel]) -> ModelDraws:
    """Draws that were compiled one by one, stacked.

    Parameters
    ----------
    models : sequence of CompiledModel
        At least one, alike in shapes, extra steps, temperature and costs.

    Returns
    -------
    ModelDraws
        D = `len(models)`.

    Raises
    ------
    ParameterError
        There is none, or they differ in what draws share.
    """
    if not models:
        raise ParameterError("models must hold at least one draw, got none; compile one")
    first = models[0]
    for name in ("extra_steps", "tokens", "critic_tokens", "mechanism_tokens"):
        if any(not np.array_equal(getattr(it, name), getattr(first, name)) for it in models):
            raise ParameterError(f"models must share {name}; evaluate models that differ in it one by one")
    for name in ("usd_per_token", "seconds_per_step", "temperature"):
        if any(getattr(it, name) != getattr(first, name) for it in models):
            raise ParameterError(f"models must share {name}; evaluate models that differ in it one by one")
    if any(it.transitions.shape != first.transitions.shape for it in models):
        raise ParameterError("models must share horizon and modes; evaluate models that differ in them one by one")
    if len({it.tasks is None for it in models}) > 1:
        raise ParameterError("models must all have tasks that differ, or none; evaluate the others apart")
    tasks = [it.tasks for it in models if it.tasks is not None]
    if any(not np.array_equal(it.weights, tasks[0].weights) for it in tasks):
        raise ParameterError("models must share the classes of tasks; compile them with one number of classes")
    return ModelDraws(
        start=np.stack([it.start for it in models]),
        transitions=np.stack(
            [it.transitions for it in tasks] if tasks else [it.transitions[np.newaxis] for it in models]
        ),
        task_weights=tasks[0].weights if tasks else np.ones(1),
        kernels=np.stack([it.kernels for it in models]),
        score_mean=np.stack([it.score_mean for it in models]),
        score_sd=np.stack([it.score_sd for it in models]),
        run_sd=np.array([it.run_sd for it in models]),
        extra_steps=first.extra_steps,
        tokens=first.tokens,
        critic_tokens=first.critic_tokens,
        mechanism_tokens=first.mechanism_tokens,
        usd_per_token=first.usd_per_token,
        seconds_per_step=first.seconds_per_step,
    )


def stack_policies(policies: Sequence[CompiledPolicy]) -> PolicyTable:
    """Policies that were compiled one by one, stacked.

    Parameters
    ----------
    policies : sequence of CompiledPolicy
        At least one, for models of one horizon.

    Returns
    -------
    PolicyTable
        P = `len(policies)`.

    Raises
    ------
    ParameterError
        There is none, they differ in horizon, or one looks back on a run's history, so that it has no exact values.
    """
    if len({it.logit_threshold.size for it in policies}) != 1:
        raise ParameterError("policies must be at least one, all of one horizon; compile them for one model")
    looking_back = [it.history.signal for it in policies if it.history is not None]
    if looking_back:
        raise ParameterError(
            f"policies must read the score of a step alone to be exact, got signal {looking_back[0]}; simulate it"
        )
    horizon = policies[0].logit_threshold.size
    return PolicyTable(
        mechanism=np.array([it.mechanism for it in policies], dtype=np.int64),
        logit_threshold=np.stack([it.logit_threshold for it in policies]),
        budget=np.array([it.budget for it in policies], dtype=np.int64),
        cooldown=np.array([it.cooldown for it in policies], dtype=np.int64),
        propensity=np.stack([np.broadcast_to(it.propensity, (horizon,)) for it in policies]),
    )

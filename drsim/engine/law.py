"""A model and policies as integers: the law that every engine follows, bit for bit.

Probabilities become thresholds once, here; an engine only compares words with them. Where whether a policy fires is no
function of state and step alone, its score is read from tables instead (`drsim.engine.signals`). What a run spent
follows from when it ended and when it was intervened in, by tables of sums, so that no engine adds up floats by step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.engine.random import WordArray
from drsim.engine.signals import SignalTables, signal_tables
from drsim.engine.thresholds import NEVER, bernoulli_thresholds, cumulative_thresholds
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, firing

__all__ = ["Law", "law_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What an engine needs of one model and K policies; T steps, S live states, J classes of tasks."""

    start: WordArray
    """(S − 1,) thresholds of the first state."""
    task: WordArray
    """(J − 1,) thresholds of a task's class."""
    act: WordArray
    """(J, T, S, S + 1) thresholds of the act: live states, then success, fail."""
    intervene: WordArray
    """(K, T, S, S − 1) thresholds of the policy's mechanism."""
    fire: WordArray
    """(K, T, S) thresholds of firing, for policies that read no score; zeros for the others."""
    acted: WordArray
    """(K, T) thresholds of acting on a trigger; `NEVER`, which no draw reaches, where every one is acted on."""
    is_open: BoolArray
    """(K, T) whether the policy can fire in a step."""
    budget: IntArray
    """(K,) most interventions in a run; 0 for a policy that never intervenes."""
    cooldown: IntArray
    """(K,) steps after a firing in which nothing fires: the extra steps, then those of the cooldown."""
    extra_steps: IntArray
    """(K,) further steps that an intervention uses up, at most T."""
    signals: SignalTables
    """How scores are read."""
    tokens_to_end: FloatArray
    """(K, T + 1) tokens of a run without intervention by the step in which it ended; T: capped."""
    tokens_of_firing: FloatArray
    """(K, T) tokens of an intervention, less those of the steps that it passes over."""
    passed_over: NDArray[np.int32]
    """(K, T) extra steps of an intervention that lie within the horizon."""

    @property
    def n_policies(self) -> int:
        """K."""
        return len(self.budget)

    @property
    def horizon(self) -> int:
        """T."""
        return int(self.fire.shape[1])

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.fire.shape[2])

    @property
    def withholds(self) -> BoolArray:
        """(K,) whether the policy lets triggers pass by a coin."""
        is_withheld: BoolArray = np.any(self.acted != NEVER, axis=1)
        return is_withheld


def law_of(model: CompiledModel, policies: Sequence[CompiledPolicy]) -> Law:
    """The law of policies on a model.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policies : sequence of CompiledPolicy
        K ≥ 1, compiled for the same model.

    Returns
    -------
    Law

    Raises
    ------
    ParameterError
        There is no policy.
    """
    if not policies:
        raise ParameterError(
            "policies must hold at least one, got none; never(model) is the one that leaves runs alone"
        )
    horizon, n_states = model.transitions.shape[:2]
    signals = signal_tables(model, policies)
    extra = np.array([_of_mechanism(model.extra_steps, it) for it in policies], dtype=np.int64)
    spent = [_tokens(model, it, int(x)) for it, x in zip(policies, extra, strict=True)]
    no_fire = np.zeros((horizon, n_states))
    reads = signals.reads_levels
    acts = model.transitions[np.newaxis] if model.tasks is None else model.tasks.transitions
    kernels = [model.kernels[it.mechanism] if it.mechanism >= 0 else _still(horizon, n_states) for it in policies]
    return Law(
        start=cumulative_thresholds(model.start),
        task=cumulative_thresholds(np.ones(1) if model.tasks is None else model.tasks.weights),
        act=cumulative_thresholds(acts),
        intervene=cumulative_thresholds(np.stack(kernels)),
        fire=bernoulli_thresholds(
            np.stack([no_fire if read else _fires(model, it) for it, read in zip(policies, reads, strict=True)])
        ),
        acted=bernoulli_thresholds(np.stack([np.broadcast_to(it.propensity, (horizon,)) for it in policies])),
        is_open=np.stack([(it.logit_threshold < np.inf) & (it.mechanism >= 0) for it in policies]),
        budget=np.array([min(it.budget, horizon) if it.mechanism >= 0 else 0 for it in policies], dtype=np.int64),
        cooldown=np.array([min(it.cooldown + x, horizon) for it, x in zip(policies, extra, strict=True)]),
        extra_steps=np.minimum(extra, horizon),
        signals=signals,
        tokens_to_end=np.stack([to_end for to_end, _ in spent]),
        tokens_of_firing=np.stack([of_firing for _, of_firing in spent]),
        passed_over=np.minimum(extra[:, None], horizon - 1 - np.arange(horizon)).astype(np.int32),
    )


def _of_mechanism[N: np.generic](numbers: NDArray[N], policy: CompiledPolicy) -> N | int:
    """A mechanism's number; 0 for a policy without one."""
    return numbers[policy.mechanism] if policy.mechanism >= 0 else 0


def _still(horizon: int, n_states: int) -> FloatArray:
    """(T, S, S) a kernel that moves nothing."""
    return np.broadcast_to(np.eye(n_states), (horizon, n_states, n_states))


def _fires(model: CompiledModel, policy: CompiledPolicy) -> FloatArray:
    """(T, S) P(the score is above the threshold); the coin of the propensity is another word."""
    return firing(model, replace(policy, propensity=1.0))


def _tokens(model: CompiledModel, policy: CompiledPolicy, extra: int) -> tuple[FloatArray, FloatArray]:
    """Tokens by the step in which a run ends (T + 1), and what an intervention in each step adds (T)."""
    horizon = len(model.tokens)
    critic = model.critic_tokens if policy.mechanism >= 0 else np.zeros(horizon)
    before = np.concatenate([[0.0], np.cumsum(model.tokens + critic)])
    # the act that ends a run is not scored
    to_end = np.concatenate([before[:-1] + model.tokens, before[-1:]])
    steps = np.arange(horizon)
    passed = before[np.minimum(steps + 1 + extra, horizon)] - before[steps + 1]
    return to_end, float(_of_mechanism(model.mechanism_tokens, policy)) - passed

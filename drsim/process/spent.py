r"""What runs spend, by class of tasks and by how they end.

With X the sum of what a run spends, E[X 1{success}] is the derivative at θ = 0 of E[e^{θX} 1{success}], which the
recursion for success gives when every act, score and intervention is weighted with e^{θ · its price}. The derivative is
taken as a central difference, whose error, relative to the largest X, is that of its step squared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledPolicy
from drsim.process.exact_many import evaluate_many
from drsim.process.stacks import ModelDraws, PolicyTable, stack_policies
from drsim.process.success_many import success_many

__all__ = ["N_KINDS", "Kind", "SpentMany", "by_class", "spent_many"]

STEP = 1e-5
"""θ times the largest X: the difference errs by its square, 1e-10, and rounding by 1e-16 / 1e-5."""


class Kind(IntEnum):
    """What a run spends; an index."""

    TOKENS = 0
    """Of acts and of interventions; not of scoring, which is counted by calls."""
    CRITIC_CALLS = 1
    INTERVENTIONS = 2
    STEPS = 3
    """Acts."""


N_KINDS = len(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentMany:
    """Runs of P policies under D draws, in J classes of tasks."""

    success: FloatArray
    """(P, D, J) P(success)."""
    spent: FloatArray
    """(4, P, D, J) expected by kind."""
    spent_succeeding: FloatArray
    """(4, P, D, J) E[spent · 1{success}]."""


def by_class(draws: ModelDraws) -> ModelDraws:
    """Each class of tasks of each draw as a draw of its own.

    Parameters
    ----------
    draws : ModelDraws
        D draws, J classes.

    Returns
    -------
    ModelDraws
        D · J draws of one class, the classes of a draw in a row.
    """
    n_draws, n_classes = draws.transitions.shape[:2]

    def repeated(values: FloatArray) -> FloatArray:
        return np.repeat(values, n_classes, axis=0)

    return replace(
        draws,
        start=repeated(draws.start),
        kernels=repeated(draws.kernels),
        score_mean=repeated(draws.score_mean),
        score_sd=repeated(draws.score_sd),
        run_sd=repeated(draws.run_sd),
        transitions=draws.transitions.reshape(n_draws * n_classes, 1, *draws.transitions.shape[2:]),
        task_weights=np.ones(1),
    )


def spent_many(draws: ModelDraws, policies: Sequence[CompiledPolicy]) -> SpentMany:
    """Success and spending of policies, by class of tasks.

    Parameters
    ----------
    draws : ModelDraws
        D draws, J classes.
    policies : sequence of CompiledPolicy
        P policies that fire on the score of a step.

    Returns
    -------
    SpentMany
        To about 1e-9 of the largest that a run can spend.

    Raises
    ------
    ParameterError
        The policies do not belong to the draws, or look back on a run's history.
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.

    References
    ----------
    THEORY sections 4 and 6.
    """
    apart, table = by_class(draws), stack_policies(policies)
    horizon, n_mechanisms = draws.tokens.size, draws.mechanism_tokens.size
    unscored = replace(apart, critic_tokens=np.zeros(horizon))
    calls = replace(
        apart, tokens=np.zeros(horizon), critic_tokens=np.ones(horizon), mechanism_tokens=np.zeros(n_mechanisms)
    )
    values, scored = evaluate_many(unscored, table), evaluate_many(calls, table).tokens
    shape = (table.mechanism.size, *draws.transitions.shape[:2])
    none, ones = np.zeros(horizon), np.ones(horizon)
    no_mechanism = np.zeros(n_mechanisms)
    succeeding = [
        _succeeding(apart, table, draws.tokens, none, draws.mechanism_tokens),
        _succeeding(apart, table, none, ones, no_mechanism) * (table.mechanism >= 0)[:, None],
        _succeeding(apart, table, none, none, np.ones(n_mechanisms)),
        _succeeding(apart, table, ones, none, no_mechanism),
    ]
    return SpentMany(
        success=values.success.reshape(shape),
        spent=np.stack([values.tokens, scored, values.interventions, values.steps]).reshape(N_KINDS, *shape),
        spent_succeeding=np.stack(succeeding).reshape(N_KINDS, *shape),
    )


def _succeeding(
    draws: ModelDraws, table: PolicyTable, acts: FloatArray, scores: FloatArray, mechanisms: FloatArray
) -> FloatArray:
    """E[X 1{success}] (P, D) where X sums prices of acts (T,), of scores (T,) and of interventions (M,)."""
    most = acts.sum() + scores.sum() + acts.size * mechanisms.max(initial=0.0)
    if most == 0.0:
        return np.zeros((table.mechanism.size, draws.start.shape[0]))
    theta = STEP / most
    above, below = (_tilted(draws, table, sign * theta, acts, scores, mechanisms) for sign in (1.0, -1.0))
    return (above - below) / (2.0 * theta)


def _tilted(
    draws: ModelDraws,
    table: PolicyTable,
    theta: float,
    acts: FloatArray,
    scores: FloatArray,
    mechanisms: FloatArray,
) -> FloatArray:
    """E[e^{θX} 1{success}] (P, D)."""
    n_states = draws.start.shape[1]
    transitions = draws.transitions * np.exp(theta * acts)[:, None, None]
    # a run that ends in a step is not scored in it
    transitions[..., :n_states] *= np.exp(theta * scores)[:, None, None]
    kernels = draws.kernels * np.exp(theta * mechanisms)[:, None, None, None]
    return success_many(replace(draws, transitions=transitions, kernels=kernels), table).success

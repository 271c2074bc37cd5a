"""One attempt at a task, over draws of the parameters and classes of tasks: what it earns, and what it spends.

Tasks differ in one of two ways. Where the model has classes of tasks, those are taken. Else success is beta-distributed
over tasks with the mean of the model and a correlation ρ that is measured, given or assumed; what an attempt spends
then hangs on how it ends, and so on how hard its task is, but not further on the task.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledPolicy
from drsim.process.halted import halted_many
from drsim.process.spent import Kind, spent_many
from drsim.process.stacks import ModelDraws
from drsim.theory.beta_nodes import N_NODES, beta_logit_nodes, beta_nodes

__all__ = [
    "Attempt",
    "Attempts",
    "Watched",
    "attempts_of_model",
    "beta_attempt",
    "beta_watched",
    "on_fine_nodes",
    "rho_of",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """Runs under one policy, left to their end."""

    success: FloatArray
    """(D, J) P(success) in each class of tasks."""
    weights: FloatArray
    """(D, J) share of each class; rows sum to 1."""
    spent: FloatArray
    """(4, D, J) expected by `Kind`."""
    spent_succeeding: FloatArray
    """(4, D, J) of an attempt that succeeds; 0 where none does."""
    spent_failing: FloatArray
    """(4, D, J) of an attempt that fails; 0 where none does."""
    rho: FloatArray | None = None
    """(D,) ρ of the beta distribution that the classes stand for; None: the classes are the law itself."""

    @property
    def mean_success(self) -> FloatArray:
        """(D,)."""
        return self.over_tasks(self.success)

    def over_tasks(self, values: FloatArray) -> FloatArray:
        """Mean over tasks of values (…, D, J)."""
        mean: FloatArray = np.einsum("...dj,dj->...d", values, self.weights)
        return mean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watched:
    """Runs that a critic ends at its first firing."""

    kept: FloatArray
    """(D, J) P(success, and the critic never fires)."""
    fired: FloatArray
    """(D, J) P(the critic fires)."""
    spent: FloatArray
    """(4, D, J) expected by `Kind`, up to the firing or the end."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempts:
    """All kinds of attempts that a model allows."""

    unaided: Attempt
    intervened: Mapping[str, Attempt]
    """By name of the policy."""
    watched: Mapping[str, Watched]
    """By name of the trigger."""
    rho: FloatArray
    """(D,) ρ of unaided attempts."""


def rho_of(attempt: Attempt) -> FloatArray:
    """(D,) ρ = Var(s)/(E s (1 − E s)); NaN where no attempt or every attempt succeeds."""
    mean = attempt.mean_success
    with np.errstate(invalid="ignore", divide="ignore"):
        rho: FloatArray = attempt.over_tasks((attempt.success - mean[:, None]) ** 2) / (mean * (1.0 - mean))
    return rho


def beta_attempt(
    success: FloatArray,
    rho: FloatArray,
    spent_succeeding: FloatArray,
    spent_failing: FloatArray,
    n_nodes: int = N_NODES,
) -> Attempt:
    """Attempts at tasks whose success is beta-distributed.

    Parameters
    ----------
    success, rho : ndarray
        (D,) mean success and ρ.
    spent_succeeding, spent_failing : ndarray
        (4, D) spent by an attempt that succeeds, and by one that fails.
    n_nodes : int
        Classes that stand for the distribution.

    Returns
    -------
    Attempt
        J = `n_nodes`.
    """
    nodes, weights = beta_nodes(success, rho, n_nodes)
    return _at_nodes(nodes, weights, spent_succeeding, spent_failing, rho)


def on_fine_nodes(attempt: Attempt, part: slice) -> Attempt:
    """Some draws of an attempt at beta-distributed tasks, on nodes that hold functions with poles near s = 0 or 1.

    Parameters
    ----------
    attempt : Attempt
        From `beta_attempt`.
    part : slice
        Of the draws.

    Returns
    -------
    Attempt
        J = 193; the attempt itself where the classes are the law.
    """
    if attempt.rho is None:
        return attempt
    logits, weights = beta_logit_nodes(attempt.mean_success[part], attempt.rho[part])
    good, bad = (it[:, part, 0] for it in (attempt.spent_succeeding, attempt.spent_failing))
    return _at_nodes(expit(logits), weights, good, bad, attempt.rho[part])


def _at_nodes(nodes: FloatArray, weights: FloatArray, good: FloatArray, bad: FloatArray, rho: FloatArray) -> Attempt:
    """An attempt that spends (4, D) by how it ends, whatever the task."""
    succeeding, failing = (np.broadcast_to(it[:, :, None], (len(Kind), *nodes.shape)) for it in (good, bad))
    return Attempt(
        success=nodes,
        weights=weights,
        spent=nodes * succeeding + (1.0 - nodes) * failing,
        spent_succeeding=succeeding,
        spent_failing=failing,
        rho=rho,
    )


def beta_watched(
    unaided: Attempt, tpr: FloatArray, fpr: FloatArray, spent_succeeding: FloatArray, spent_failing: FloatArray
) -> Watched:
    """Watched runs of the same tasks, where the critic fires on would-fail and would-succeed runs alike in all tasks.

    Parameters
    ----------
    unaided : Attempt
        From `beta_attempt`.
    tpr, fpr : ndarray
        (D,) shares of would-fail and would-succeed runs on which the critic fires.
    spent_succeeding, spent_failing : ndarray
        (4, D) spent by then of a run that would have succeeded, and failed.

    Returns
    -------
    Watched
    """
    good, bad = unaided.success, 1.0 - unaided.success
    return Watched(
        kept=good * (1.0 - fpr[:, None]),
        fired=good * fpr[:, None] + bad * tpr[:, None],
        spent=good * spent_succeeding[:, :, None] + bad * spent_failing[:, :, None],
    )


def attempts_of_model(
    draws: ModelDraws,
    policies: Mapping[str, CompiledPolicy],
    triggers: Mapping[str, CompiledPolicy],
    never: CompiledPolicy,
    rho: FloatArray | None,
    *,
    n_nodes: int = N_NODES,
) -> Attempts:
    """Attempts of a modelled agent.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    policies : mapping of str to CompiledPolicy
        Intervening, exact ones only.
    triggers : mapping of str to CompiledPolicy
        Critics that end a run.
    never : CompiledPolicy
        Of the same model.
    rho : ndarray or None
        (R,) ρ of beta-distributed tasks, each with the next draw, in turn; None takes the model's own classes of tasks.

    n_nodes : int
        Classes that stand for beta-distributed tasks; means over tasks are exact for polynomials up to 2 n − 1.

    Returns
    -------
    Attempts

    Raises
    ------
    ParameterError
        A policy does not belong to the draws, or looks back on a run's history.
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.
    """
    spent = spent_many(draws, [never, *policies.values()])
    halted = halted_many(draws, [never, *triggers.values()])
    classes = np.broadcast_to(draws.task_weights, spent.success.shape[1:])
    in_turn = np.arange(0 if rho is None else len(rho)) % len(classes)

    def over_classes(values: FloatArray) -> FloatArray:
        """Mean over the model's classes, which do not count where tasks are beta-distributed; one for each ρ."""
        mean: FloatArray = (values * classes).sum(axis=-1)[..., in_turn]
        return mean

    def attempt(index: int) -> Attempt:
        success, everything, good = spent.success[index], spent.spent[:, index], spent.spent_succeeding[:, index]
        if rho is not None:
            s, good = over_classes(success), over_classes(good)
            return beta_attempt(s, rho, _each(good, s), _each(over_classes(everything) - good, 1.0 - s), n_nodes)
        return Attempt(
            success=success,
            weights=classes,
            spent=everything,
            spent_succeeding=_each(good, success),
            spent_failing=_each(everything - good, 1.0 - success),
        )

    unaided = attempt(0)

    def watched(index: int) -> Watched:
        fired, fired_good = halted.fired[index], halted.fired_succeeding[index]
        if rho is None:
            return Watched(kept=halted.success[index] - fired_good, fired=fired, spent=halted.spent[:, index])
        s, fired, fired_good = (over_classes(it) for it in (halted.success[index], fired, fired_good))
        good = over_classes(halted.spent_succeeding[:, index])
        bad = over_classes(halted.spent[:, index]) - good
        return beta_watched(
            unaided, _each(fired - fired_good, 1.0 - s), _each(fired_good, s), _each(good, s), _each(bad, 1.0 - s)
        )

    return Attempts(
        unaided=unaided,
        intervened={name: attempt(1 + i) for i, name in enumerate(policies)},
        watched={name: watched(1 + i) for i, name in enumerate(triggers)},
        rho=rho_of(unaided) if rho is None else rho,
    )


def _each(total: FloatArray, share: FloatArray) -> FloatArray:
    """What each of a share has of a total; 0 where there is none."""
    return np.divide(total, share, out=np.zeros(np.broadcast_shapes(total.shape, share.shape)), where=share > 0.0)

"""What a plan is about: attempts of one agent at tasks that differ, from a model with draws or from plain numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.planning.attempts import Attempts, attempts_of_model, beta_attempt
from drsim.planning.candidates import best_timings, triggers_of
from drsim.process.compile import CompiledPolicy, compile_model, compile_policy, never
from drsim.process.spec import Cost, Model
from drsim.process.spent import Kind
from drsim.process.stacks import ModelDraws
from drsim.theory.beta_nodes import N_NODES
from drsim.theory.domain import check_probability
from drsim.theory.tradeoff import intervened_success

__all__ = ["Basis", "basis_of_model", "basis_of_numbers"]

DEFAULT_INTERVENTIONS = 3
ARM = "arm"
"""The intervention that plain numbers are about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Attempts and what an act costs."""

    name: str
    source: str
    """Where the numbers come from."""
    attempts: Attempts
    cost: Cost
    most_steps: int
    """Acts of the longest run that there can be."""
    assumptions: tuple[str, ...]
    """One sentence for each thing that is taken for granted."""
    warnings: tuple[str, ...]
    is_spread_assumed: bool
    """Whether draws differ in nothing but an assumed ρ, so that more runs of one kind would not narrow them."""


def basis_of_model(
    model: Model,
    draws: ModelDraws,
    *,
    policies: Sequence[str],
    mechanisms: Sequence[str] | None = None,
    interventions: int | None,
    rho: RhoPrior | FloatArray | None,
    n_max: int,
    n_draws: int,
    seed: int,
) -> Basis:
    """Attempts of a modelled agent, with the best timing of each mechanism beside the model's policies.

    Parameters
    ----------
    model : Model
        The point model.
    draws : ModelDraws
        D draws of it.
    policies : sequence of str
        Policies of the model to compare; empty: all of the mechanisms.
    mechanisms : sequence of str, optional
        Mechanisms to compare; None: all of the model.
    interventions : int or None
        Most interventions of a run for the best timings; None: those of the policies.
    rho : RhoPrior, ndarray or None
        How tasks differ: a prior, or draws (R,) from repeated runs; None: as the model says, or else by the default
        prior.
    n_max : int
        Most attempts at a task.
    n_draws : int
        Draws of ρ where it is a prior.
    seed : int
        Of these draws.

    Returns
    -------
    Basis

    Raises
    ------
    ParameterError
        The model has no policy of a name.
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.
    """
    tried = list(model.mechanisms if mechanisms is None else mechanisms)
    named = policies or [name for name, it in model.policies.items() if it.mechanism in tried]
    given, warnings = _exact_policies(model, named)
    compiled = compile_model(model)
    budget = interventions
    if budget is None:
        budget = max((it.budget for it in given.values()), default=DEFAULT_INTERVENTIONS)
    rules = {**given, **best_timings(draws, compiled, tried, given, budget)}
    n_models, n_classes = draws.transitions.shape[:2]
    rhos, said = None, ["tasks differ as the model says (finish_task_sd, slip_task_sd)"]
    is_measured = isinstance(rho, np.ndarray)
    if isinstance(rho, np.ndarray):
        rhos, said = (
            rho,
            ["success is beta-distributed over tasks with ρ as repeated runs show, under every policy alike"],
        )
    elif rho is not None or n_classes == 1:
        prior = DEFAULT_RHO_PRIOR if rho is None else rho
        rhos, said = _rho_draws(prior, n_models, n_draws, seed), _of_beta(prior, is_given=rho is not None)
    if rhos is not None:
        said.append(
            "a critic fires alike on all runs that would fail, whatever the task, and on all that would succeed"
        )
    attempts = attempts_of_model(draws, rules, triggers_of(compiled), never(compiled), rhos, n_nodes=_n_nodes(n_max))
    return Basis(
        name=model.name,
        source=model.source,
        attempts=attempts,
        cost=model.cost,
        most_steps=model.horizon,
        assumptions=tuple(said),
        warnings=tuple(warnings),
        is_spread_assumed=n_models == 1 and not is_measured,
    )


def basis_of_numbers(
    failure_rate: float,
    *,
    recovery: float | None,
    disruption: float | None,
    run_tokens: float,
    run_seconds: float,
    rho: RhoPrior | None,
    n_max: int,
    n_draws: int,
    seed: int,
) -> Basis:
    """Attempts of an agent of whom only rates are known; no critic, so that nothing can be halted.

    Parameters
    ----------
    failure_rate : float
        p, in [0, 1].
    recovery, disruption : float or None
        r and d of an intervened arm, both or neither.
    run_tokens, run_seconds : float
        What one run takes, ≥ 0, however it ends and whether or not it is intervened in.
    rho : RhoPrior or None
        How tasks differ; None: the default prior.
    n_max : int
        Most attempts at a task.
    n_draws : int
        Draws of ρ where it is a prior.
    seed : int
        Of these draws.

    Returns
    -------
    Basis

    Raises
    ------
    ParameterError
        A rate is outside [0, 1], or only one of `recovery` and `disruption` is given.
    """
    if (recovery is None) != (disruption is None):
        raise ParameterError(
            "recovery and disruption must both be given, or neither, got one; give --recovery and --disruption"
        )
    p = check_probability("failure_rate", failure_rate)
    prior = DEFAULT_RHO_PRIOR if rho is None else rho
    rhos = _rho_draws(prior, 1, n_draws, seed)
    spent = np.zeros((len(Kind), rhos.size))
    spent[Kind.TOKENS], spent[Kind.STEPS] = run_tokens, 1.0
    said = _of_beta(prior, is_given=rho is not None)
    said.append("a run costs the same however it ends")
    unaided = beta_attempt(np.full(rhos.size, 1.0 - p), rhos, spent, spent, _n_nodes(n_max))
    intervened = {}
    if recovery is not None and disruption is not None:
        success = np.full(rhos.size, intervened_success(p, recovery, disruption))
        intervened[ARM] = beta_attempt(success, rhos, spent, spent, _n_nodes(n_max))
        said.append("an intervened run costs what a plain one does")
    return Basis(
        name="numbers as given",
        source="the command line",
        attempts=Attempts(unaided=unaided, intervened=intervened, watched={}, rho=rhos),
        cost=Cost(tokens_per_step=run_tokens, seconds_per_step=run_seconds),
        most_steps=1,
        assumptions=tuple(said),
        warnings=(),
        is_spread_assumed=True,
    )


def _n_nodes(n_max: int) -> int:
    """Classes of beta tasks that are exact for as many attempts."""
    return max(N_NODES, n_max // 2 + 1)


def _exact_policies(model: Model, names: Sequence[str]) -> tuple[dict[str, CompiledPolicy], list[str]]:
    """Policies whose values are exact, and what is said of the others."""
    rules = {name: compile_policy(model, name) for name in names}
    looking_back = [name for name, it in rules.items() if it.history is not None]
    warnings = [
        f"policy {name} looks back on a run's history and has no exact values; drsim simulate judges it"
        for name in looking_back
    ]
    return {name: it for name, it in rules.items() if it.history is None}, warnings


def _rho_draws(prior: RhoPrior, n_models: int, n_draws: int, seed: int) -> FloatArray:
    n = n_models if prior.value is not None else max(n_models, n_draws)
    return prior.draw(n, np.random.default_rng(seed))


def _of_beta(prior: RhoPrior, *, is_given: bool) -> list[str]:
    """Sentences about beta-distributed tasks."""
    drawn = f"with ρ = {prior}" if prior.value is not None else f"with ρ drawn from {prior}"
    origin = "" if is_given else " (nothing measures it: give --rho)"
    return [f"success is beta-distributed over tasks {drawn}{origin}, under every policy alike"]

"""The ladder of bounds: what each kind of policy can be worth on one model, each at least the kind below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drsim.engine.simulate import Engine, simulate
from drsim.planning.threshold_policies import (
    Valued,
    best_constant,
    best_curve,
    is_constant,
    is_start,
    is_within,
    translated,
)
from drsim.process.belief_bounds import lower_bound
from drsim.process.belief_programme import N_POINTS, Programme, belief_programme
from drsim.process.compile import CompiledModel, CompiledPolicy
from drsim.process.exact import evaluate, unaided
from drsim.process.full_information import full_information
from drsim.process.stacks import stack_draws
from drsim.process.terms import Terms, priced, usable_mechanisms

__all__ = ["Kind", "Ladder", "Rung", "ladder"]

ROUNDING = 1e-12
"""Gains below it are those of never intervening."""
N_CURVES = 6
"""Best constant thresholds of each mechanism from which the ascent of the curve begins."""


class Kind(StrEnum):
    """Kinds of policies, from the least to the best informed."""

    NEVER = "never"
    USER = "user"
    CONSTANT = "best constant threshold"
    CURVE = "best threshold curve"
    BELIEF = "optimal belief policy"
    FULL = "full information"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """What the best policy of a kind, or one policy, is worth."""

    kind: Kind
    name: str
    """The kind, or the name of the user's policy."""
    gain: float
    """P(success) less prices, beyond that of an unaided run."""
    low: float
    """What the gain is at least: below `gain` by the error of a grid, by the gap of two bounds, or by five standard
    errors."""
    policy: CompiledPolicy | None = None
    """None: no one policy of the process, or a policy on beliefs."""
    se: float = 0.0
    """Standard error of a gain that was simulated."""
    below: Kind | None = None
    """For a user's policy: the lowest kind whose best is no worse; None where it does not keep the terms."""
    hindsight: float | None = None
    """P(fail → success) against the unaided run that shares its prefix, the gain of the hindsight oracle: the policy
    applied to just the runs that would fail, free of charge. None: there is no one policy of the process."""
    hindsight_independent: float | None = None
    """Likewise against an unaided run that shares only the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """All rungs on one model, under one set of terms."""

    terms: Terms
    baseline: float
    """P(success) of an unaided run."""
    rungs: tuple[Rung, ...]
    """Never, the user's policies, then each kind no worse than the one before."""
    programme: Programme
    curves: tuple[Valued, ...]
    """Threshold curves found, best first."""

    def rung(self, kind: Kind) -> Rung:
        """The rung of a kind."""
        return next(it for it in self.rungs if it.kind is kind)


def ladder(
    model: CompiledModel,
    policies: Mapping[str, CompiledPolicy],
    terms: Terms,
    *,
    seed: int,
    n_points: int = N_POINTS,
    n_runs: int = 200_000,
) -> Ladder:
    """Work out every rung.

    Parameters
    ----------
    model : CompiledModel
        Without run-level shift, tasks alike.
    policies : mapping of str to CompiledPolicy
        The user's, compiled for the same model.
    terms : Terms
        Of the same model.
    seed : int
        For policies that look back on a run's history, which are simulated.
    n_points : int
        Most points of the grid of beliefs.
    n_runs : int
        Runs of each policy that is simulated.

    Returns
    -------
    Ladder

    Raises
    ------
    ParameterError
        The model has a run-level shift or tasks that differ, or the terms are not of it.

    References
    ----------
    THEORY section 5.
    """
    programme = belief_programme(model, terms, n_points=n_points)
    baseline = float(unaided(model)[0] @ model.start)
    users = [_user(model, name, it, terms, seed, n_runs, baseline) for name, it in policies.items()]
    constants, curves = _thresholds(model, programme, policies, terms)
    never = Rung(kind=Kind.NEVER, name=Kind.NEVER, gain=0.0, low=0.0)
    constant = _best(model, Kind.CONSTANT, constants, baseline)
    curve = _best(model, Kind.CURVE, curves, baseline)
    top = full_information(model, terms) - baseline
    top = top if top > ROUNDING else 0.0
    # a value on the grid is never too low, and neither is that of a policy which sees the state; Gauss-Hermite nodes
    # for several modes may miss by a little, but not below a policy that is known
    belief = max(curve.gain, min(programme.gain, top))
    belief = belief if belief > ROUNDING else 0.0
    low = belief - programme.error if len(model.start) == 2 else lower_bound(model, terms) - baseline
    return Ladder(
        terms=terms,
        baseline=baseline,
        rungs=(
            never,
            *users,
            constant,
            curve,
            Rung(kind=Kind.BELIEF, name=Kind.BELIEF, gain=belief, low=min(max(low, curve.gain), belief)),
            Rung(kind=Kind.FULL, name=Kind.FULL, gain=top, low=top),
        ),
        programme=programme,
        curves=tuple(curves),
    )


def _thresholds(
    model: CompiledModel, programme: Programme, policies: Mapping[str, CompiledPolicy], terms: Terms
) -> tuple[list[Valued], list[Valued]]:
    """Best constant thresholds and best curves, each best first."""
    draws = stack_draws([model])
    allowed = [it for it in policies.values() if is_start(it, terms, len(model.kernels))]
    constants = best_constant(draws, terms, [it for it in allowed if is_constant(it)])
    starts: list[CompiledPolicy] = []
    for m in usable_mechanisms(model, terms) if programme.budget else ():
        starts += [it.policy for it in constants if it.policy.mechanism == m][:N_CURVES]
        starts.append(translated(model, programme, m))
    starts += [it for it in allowed if not is_constant(it)]
    return constants, best_curve(draws, terms, starts)


def _best(model: CompiledModel, kind: Kind, found: Sequence[Valued], baseline: float) -> Rung:
    """The best of some policies, or never to intervene, which every kind may do."""
    gain = found[0].value - baseline if found else 0.0
    if gain <= ROUNDING:
        return Rung(kind=kind, name=kind, gain=0.0, low=0.0)
    exact = evaluate(model, found[0].policy)
    return Rung(
        kind=kind,
        name=kind,
        gain=gain,
        low=gain,
        policy=found[0].policy,
        hindsight=exact.shared_prefix.fail_success,
        hindsight_independent=exact.independent.fail_success,
    )


def _user(
    model: CompiledModel, name: str, policy: CompiledPolicy, terms: Terms, seed: int, n_runs: int, baseline: float
) -> Rung:
    below = _lowest_above(policy) if is_within(policy, terms, len(model.kernels)) else None
    if policy.history is None:
        exact = evaluate(priced(model, terms), policy)
        gain = exact.success - exact.tokens - baseline
        return Rung(
            kind=Kind.USER,
            name=name,
            gain=gain,
            low=gain,
            policy=policy,
            below=below,
            hindsight=exact.shared_prefix.fail_success,
            hindsight_independent=exact.independent.fail_success,
        )
    found = simulate(priced(model, terms), {name: policy}, n=n_runs, seed=seed, engine=Engine.NUMBA).policies[name]
    gain = found.success.value - found.tokens.value - baseline
    # the two parts hang together in a way that is not tallied; their errors add at worst
    se = found.success.se + found.tokens.se
    couplings = found.couplings
    return Rung(
        kind=Kind.USER,
        name=name,
        gain=gain,
        low=gain - 5.0 * se,
        se=se,
        policy=policy,
        below=below,
        hindsight=None if couplings is None else (1.0 - baseline) * couplings.recovery_shared_prefix.value,
        hindsight_independent=None if couplings is None else (1.0 - baseline) * couplings.recovery_independent.value,
    )


def _lowest_above(policy: CompiledPolicy) -> Kind:
    """The lowest kind whose best is no worse than a policy that keeps the terms."""
    if policy.mechanism < 0:
        return Kind.NEVER
    if policy.history is not None:
        return Kind.BELIEF
    return Kind.CONSTANT if is_constant(policy) else Kind.CURVE

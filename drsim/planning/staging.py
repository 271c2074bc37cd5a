"""The mechanism of a pilot's policy at every step, before its level is moved as a whole.

Where the steps of interventions are known they say more than rates: in forked pairs r(t) and d(t) by the step of the
first intervention, in other runs how often those succeed that are first intervened in at a step. Curves are walks
around what the base model, moved to the pilot's mean rates, says of those steps (`drsim.inference.based_curve`), so
that its profile stands where nothing was seen; levels are then solved step by step (`drsim.process.step_levels`).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.inference.based_curve import based_curve
from drsim.pilot.cell import PairedBy
from drsim.planning.cell_rates import CellRates
from drsim.planning.placing import Mechanic, Targets, place
from drsim.process.compile import CompiledModel, compile_policy
from drsim.process.flips import Flips, PrefixCoupling, flips_many
from drsim.process.spec import Model
from drsim.process.stacks import ModelDraws, stack_policies
from drsim.process.step_levels import FEWEST_FIRINGS, StepLevels, levels_from_success, step_levels
from drsim.process.success_many import success_many

__all__ = ["Stage", "levels_by_step", "stage_of", "targets_by_step"]

FEWEST_CURVES = 1_000
"""Draws of a curve by step, of which importance weights leave fewer."""
LEAST_RATE = 1e-3
"""A base model that is surer of a flip leaves counts nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is known once runs fail as often as they should, before the mechanism is moved."""

    mechanic: Mechanic
    flips: Flips
    """Of the policy with the base model's levels; when it fires first does not depend on them."""
    prob_inside: float | None
    """P(first intervention at a step with r(t), d(t) that some levels give); None where levels are not by step."""


def stage_of(model: Model, compiled: CompiledModel, policy: str, rates: CellRates, seed: int) -> Stage:
    """The policy with its mechanism's levels: the base model's, or those that the steps of interventions ask for.

    Parameters
    ----------
    model : Model
        The base model with what the runs say of it; T steps, K modes.
    compiled : CompiledModel
        Compiled from it.
    policy : str
        The one that the pilot ran.
    rates : CellRates
        D draws.
    seed : int
        Of the curves by step, ≥ 0.

    Returns
    -------
    Stage
        Levels (D, …), or (1, …) where no step is known.
    """
    rule = compile_policy(model, policy)
    kernel = compiled.kernels[rule.mechanism]
    with np.errstate(divide="ignore"):
        recover = logit(np.stack([kernel[:, k, 0] for k in range(1, kernel.shape[-1])]))[np.newaxis]
        disrupt = logit(1.0 - kernel[:, 0, 0])[np.newaxis]
    own = Mechanic(policy=rule, recover_logit=recover, disrupt_logit=disrupt)
    eased = place(compiled, None, rates.targets, rates.n_draws).draws
    n_nodes = success_many(eased, stack_policies([rule])).n_nodes
    flips = flips_many(eased, rule, n_nodes=n_nodes)
    levels = levels_by_step(compiled, own, rates, eased, n_nodes, seed)
    if levels is None:
        return Stage(mechanic=own, flips=flips, prob_inside=None)
    mechanic = Mechanic(
        policy=rule,
        recover_logit=_filled(_logit(levels.recover), recover, levels.is_solved),
        disrupt_logit=_filled(_logit(levels.disrupt), disrupt, levels.is_solved),
    )
    fired = flips.first_firing.sum()
    prob_inside = float((flips.first_firing * levels.is_inside).sum() / fired) if fired > 0.0 else None
    return Stage(mechanic=mechanic, flips=flips, prob_inside=prob_inside)


def levels_by_step(
    compiled: CompiledModel, own: Mechanic, rates: CellRates, eased: ModelDraws, n_nodes: int, seed: int
) -> StepLevels | None:
    """Levels by step.

    Parameters
    ----------
    compiled : CompiledModel
        The base model, T steps.
    own : Mechanic
        The policy with the base model's levels.
    rates : CellRates
        D draws, with counts or curves by step.
    eased : ModelDraws
        D draws whose runs fail as often as they should.
    n_nodes : int
        Gauss–Hermite nodes for the run-level shift.
    seed : int
        Of the curves, ≥ 0.

    Returns
    -------
    StepLevels or None
        None where no step of an intervention is known, or only r(t) and d(t) of pairs that are not forked.
    """
    horizon = len(compiled.tokens)
    first, timing = rates.first, rates.timing
    if timing is not None and rates.paired_by is PairedBy.FORK:
        r, d = (_held(it, horizon) for it in (timing.recovery, timing.disruption))
        return step_levels(eased, own.policy, r, d, n_nodes=n_nodes)
    if first is None:
        return None
    base = place(compiled, own, _mean_targets(rates.targets), 1).flips

    def curve(events: IntArray, trials: IntArray, part: FloatArray, whole: FloatArray, salt: int) -> FloatArray:
        known = whole[0] > FEWEST_FIRINGS
        rate = np.divide(part[0], whole[0], out=np.full(horizon, 0.5), where=known)
        drawn = based_curve(
            _fitted(events, horizon),
            _fitted(trials, horizon),
            logit(np.clip(rate, LEAST_RATE, 1.0 - LEAST_RATE)),
            seed=seed + salt,
            draws=max(rates.n_draws, FEWEST_CURVES),
        )
        rates_by_step: FloatArray = expit(drawn[: rates.n_draws])
        return rates_by_step

    if first.recovered is None or first.failed is None or first.disrupted is None or first.unaided is None:
        success = curve(first.succeeded, first.fired, base.then_aided, base.first_firing, 0)
        return levels_from_success(eased, own.policy, success, n_nodes=n_nodes)
    shared = PrefixCoupling.SHARED_PREFIX
    recovery = curve(first.recovered, first.failed, base.up(shared), base.first_firing - base.then_alone, 0)
    disruption = curve(first.disrupted, first.unaided, base.down(shared), base.then_alone, 1)
    return step_levels(eased, own.policy, recovery, disruption, n_nodes=n_nodes)


def _mean_targets(targets: Targets) -> Targets:
    """One draw: the means. What is only a bound is left out."""

    def mean(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else np.array([values.mean()])

    return replace(
        targets,
        failure_rate=mean(targets.failure_rate),
        gain=mean(targets.gain),
        disruption=None if targets.is_bound else mean(targets.disruption),
    )


def _fitted(counts: IntArray, horizon: int) -> IntArray:
    """(T,) of counts (H,): zeros go on, and nothing beyond the horizon counts."""
    fitted = np.zeros(horizon, dtype=np.int64)
    n = min(horizon, counts.size)
    fitted[:n] = counts[:n]
    return fitted


def _logit(levels: FloatArray) -> FloatArray:
    """Logits, −inf where a level is 0."""
    with np.errstate(divide="ignore"):
        logits: FloatArray = logit(levels)
    return logits


def _filled(levels: FloatArray, own: FloatArray, is_solved: BoolArray) -> FloatArray:
    """Logits (D, …, T): in steps that are not solved, the base model's (1, …, T) moved as far as the others are."""
    known = is_solved & np.all(np.isfinite(own), axis=tuple(range(own.ndim - 1)))
    known &= np.all(np.isfinite(levels), axis=tuple(range(levels.ndim - 1)))
    if not known.any():
        return np.where(is_solved, levels, own)
    moved = (levels - own)[..., known].mean(axis=-1, keepdims=True)
    filled: FloatArray = np.where(is_solved, levels, own + moved)
    return filled


def _held(rates: FloatArray, horizon: int) -> FloatArray:
    """(D, T) of rates (D, H): the last one goes on."""
    held = rates[:, :horizon]
    return np.concatenate([held, np.repeat(held[:, -1:], horizon - held.shape[1], axis=1)], axis=1)


def targets_by_step(stage: Stage, rates: CellRates) -> Targets:
    """Targets of all draws; where Δ and d are known by step only, they are summed over when the model fires first.

    Parameters
    ----------
    stage : Stage
        When the policy fires first, and how often such runs succeed unaided.
    rates : CellRates
        D draws.

    Returns
    -------
    Targets
        In forked pairs Δ = Σ r(t) P(fires first at t, fails unaided) − Σ d(t) P(fires first at t, succeeds unaided). In
        pairs of independent runs p·r(t) + (1 − p)(1 − d(t)) of the runs that fire first at t succeed, where tasks are
        alike.
    """
    if not rates.is_level_by_step or rates.timing is None:
        return rates.targets
    flips = stage.flips
    horizon = flips.first_firing.shape[1]
    recovery, disruption = (_held(it, horizon) for it in (rates.timing.recovery, rates.timing.disruption))
    is_forked = rates.paired_by is PairedBy.FORK
    if is_forked:
        up = recovery * (flips.first_firing - flips.then_alone)
        down = disruption * flips.then_alone
    else:
        # pairs of independent runs: p·r(t) + (1−p)(1−d(t)) of the runs that fire first after step t succeed
        share = 1.0 - flips.baseline[:, np.newaxis]
        up = flips.first_firing * (share * recovery + (1.0 - share) * (1.0 - disruption))
        down = flips.then_alone
    return replace(
        rates.targets,
        gain=(up - down).sum(axis=1),
        disruption=down.sum(axis=1) / flips.baseline if is_forked else None,
        coupling=PrefixCoupling.SHARED_PREFIX if is_forked else PrefixCoupling.LEAST,
        is_bound=not is_forked,
    )

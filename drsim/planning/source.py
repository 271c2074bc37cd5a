"""What `--from MODEL.toml | fit.nc | PILOT` means: draws of a step process, and what of them is assumed.

A model file is one draw. A posterior, kept in a file or fitted to a pilot on the spot, says how often runs fail, gain
and are disrupted; a base model lends everything else, and is moved to each draw (`drsim.planning.placing`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import DataError, ParameterError
from drsim.inference.based_curve import based_curve
from drsim.inference.rho_prior import RhoPrior
from drsim.pilot.cell import PairedBy
from drsim.pilot.evidence import Evidence, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import BASELINE, Run
from drsim.planning.base_model import Base, base_for, policy_for
from drsim.planning.cell_rates import CellRates, Selection, rates_of_pilot, rates_of_posterior
from drsim.planning.observed import Told, costs_seen, horizon_seen, scores_seen, with_horizon
from drsim.planning.placing import Mechanic, Placed, Targets, place
from drsim.planning.source_notes import Facts, carried_by, taken_on, warnings_of
from drsim.process.compile import CompiledModel, compile_model, compile_policy
from drsim.process.flips import Flips, PrefixCoupling, flips_many
from drsim.process.shifts import moved_model
from drsim.process.shipped import find_model, shipped_models
from drsim.process.spec import Model
from drsim.process.stacks import ModelDraws, stack_draws, stack_policies
from drsim.process.step_levels import FEWEST_FIRINGS, StepLevels, levels_from_success, step_levels
from drsim.process.success_many import success_many

__all__ = ["DEFAULT_DRAWS", "Matched", "Source", "SourceKind", "read_source"]

DEFAULT_DRAWS = 200
FEWEST_CURVES = 1_000
"""Draws of a curve by step, of which importance weights leave fewer."""
LEAST_RATE = 1e-3
"""A base model that is surer of a flip leaves counts nothing to say."""
MODEL_SUFFIX = ".toml"
POSTERIOR_SUFFIX = ".nc"


class SourceKind(StrEnum):
    """What was given."""

    MODEL = "model"
    POSTERIOR = "posterior"
    PILOT = "pilot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What the draws reproduce; fields (D,)."""

    failure_rate: FloatArray
    """p of unaided runs."""
    arm_success: FloatArray | None
    """P(success) under the pilot's policy; None where no arm intervened."""
    recovery: FloatArray | None
    """r under `coupling`."""
    disruption: FloatArray | None
    """d under `coupling`."""
    coupling: PrefixCoupling
    """How an unaided and an intervened run are coupled where r and d are counted."""

    @property
    def gain(self) -> FloatArray | None:
        """(D,) Δ of the pilot's policy."""
        return None if self.arm_success is None else self.arm_success - (1.0 - self.failure_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model, draws of it, and where both come from."""

    name: str
    """What was given."""
    kind: SourceKind
    model: Model
    """The point model: posterior means placed in the base model; the model itself where one was given."""
    draws: ModelDraws
    """D draws; one for a model file."""
    specifications: tuple[Model, ...]
    """(D,) the draws as a user would write them down."""
    cell: str | None
    """The cell in words; None for a model file."""
    policy: str | None
    """The policy of `model` that the pilot ran; None for a model file, and where no arm intervened."""
    matched: Matched | None
    """None for a model file."""
    assumptions: tuple[str, ...]
    """One sentence for each thing that the data do not carry, with where its value came from."""
    carried: tuple[str, ...] = ()
    """One sentence for each thing, besides how runs end, that was taken from the data."""
    warnings: tuple[str, ...] = ()
    is_reached: BoolArray | None = None
    """(D,) whether a draw reproduces what it was made from; elsewhere the base model comes as near as it can. None for
    a model file."""

    @property
    def n_draws(self) -> int:
        """D."""
        return len(self.specifications)

    def compiled(self, draw: int) -> CompiledModel:
        """One draw, for what takes models one by one."""
        return compile_model(self.specifications[draw])


def read_source(
    given: str,
    *,
    base: str | None = None,
    policy: str | None = None,
    agent: str | None = None,
    benchmark: str | None = None,
    arm: str | None = None,
    baseline: str = BASELINE,
    rho_prior: RhoPrior | None = None,
    n_draws: int = DEFAULT_DRAWS,
    seed: int,
) -> Source:
    """Read a model, a posterior or a pilot as draws of a step process.

    Parameters
    ----------
    given : str
        Name of a shipped model, a model file (.toml), a posterior that `drsim fit -o FILE.nc` wrote, or a file of
        runs, counts or marginals.
    base : str, optional
        Model that lends a posterior or a pilot what it does not say; by default the shipped one of the same agent and
        benchmark, else the example.
    policy : str, optional
        Policy of the base model that the arm ran; by default the one of the arm's name, or of its only mechanism.
    agent, benchmark, arm : str, optional
        Which cell, where there are several.
    baseline : str
        Name of the arm without intervention.
    rho_prior : RhoPrior, optional
        ρ, which says how much of d is churn where no rerun measures it; by default nothing is made of d there.
    n_draws : int
        Posterior draws, ≥ 1; a file that holds fewer gives what it holds.
    seed : int
        Of the draws, ≥ 0.

    Returns
    -------
    Source

    Raises
    ------
    ParameterError
        A number is outside its domain, no model or file has the name, or no policy of the base model stands for the
        arm.
    DataError
        A file cannot be read or has mistakes, it holds no such cell or several, or the base model reaches no draw.

    References
    ----------
    THEORY sections 2, 4 and 7.
    """
    if n_draws < 1:
        raise ParameterError(f"n_draws must be at least 1, got {n_draws}; 200 give an interval")
    if seed < 0:
        raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
    if given.endswith(MODEL_SUFFIX) or given in shipped_models():
        asked = {"base": base, "policy": policy, "agent": agent, "benchmark": benchmark, "arm": arm}
        return _of_model(given, [name for name, value in asked.items() if value is not None])
    selection = Selection(agent=agent, benchmark=benchmark, arm=arm, baseline=baseline)
    if given.endswith(POSTERIOR_SUFFIX):
        rates = rates_of_posterior(Path(given), selection, n_draws=n_draws, seed=seed)
        return _placed(given, SourceKind.POSTERIOR, rates, (), base, policy, selection, seed)
    evidence = _evidence(given)
    rates = rates_of_pilot(evidence, selection, n_draws=n_draws, seed=seed, rho_prior=rho_prior)
    runs = _runs_of(evidence, rates)
    return _placed(given, SourceKind.PILOT, rates, runs, base, policy, selection, seed)


def _of_model(given: str, unused: Sequence[str]) -> Source:
    if unused:
        raise ParameterError(f"{', '.join(unused)} must be left out where a model is given, got both; give a pilot")
    model = find_model(given)
    return Source(
        name=given,
        kind=SourceKind.MODEL,
        model=model,
        draws=stack_draws([compile_model(model)]),
        specifications=(model,),
        cell=None,
        policy=None,
        matched=None,
        assumptions=(f"all numbers are those of the model {model.name} ({model.source}), as if they were known",),
    )


def _evidence(given: str) -> Evidence:
    is_file = given == "-" or any(sign in given for sign in "*?[") or Path(given).exists()
    if not is_file:
        raise ParameterError(
            f"a source must be a shipped model ({', '.join(shipped_models())}), or the path of a model file (.toml), "
            f"of a posterior (.nc) or of a pilot, got {given!r}; there is no such file"
        )
    return read([given])


def _runs_of(evidence: Evidence, rates: CellRates) -> list[Run]:
    """Runs of the cell's agent and benchmark, all arms."""
    if not isinstance(evidence, Pilot):
        return []
    return [run for run in evidence.runs if (run.agent, run.benchmark) == (rates.agent, rates.benchmark)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """The base model with what the runs say of it, before it is moved."""

    base: Base
    model: Model
    told: tuple[Told, ...]
    policy: str | None
    policy_why: str


def _placed(
    given: str,
    kind: SourceKind,
    rates: CellRates,
    runs: Sequence[Run],
    base: str | None,
    policy: str | None,
    selection: Selection,
    seed: int,
) -> Source:
    prepared = _prepare(rates, runs, base, policy, selection)
    model = prepared.model
    compiled = compile_model(model)
    stage = None if prepared.policy is None else _stage(model, compiled, prepared.policy, rates, seed)
    mechanic = None if stage is None else stage.mechanic
    targets = rates.targets if stage is None else _targets(stage, rates)
    placed = place(compiled, mechanic, targets, rates.n_draws)
    if not placed.is_reached.any():
        raise DataError(
            f"the base model {model.name} must reach draws of {rates.name}, got none of {rates.n_draws} (out of reach: "
            f"{_counted(placed.n_unreached)}); name another base model or policy"
        )
    mechanism = None if mechanic is None or prepared.policy is None else model.policies[prepared.policy].mechanism
    specifications = tuple(
        moved_model(
            model,
            ease=float(placed.ease[i]),
            mechanism=mechanism,
            recover=placed.recover[i],
            disrupt=placed.disrupt[i],
        )
        for i in range(rates.n_draws)
    )
    facts = Facts(
        rates=rates,
        base=prepared.base,
        model=model,
        policy=prepared.policy,
        policy_why=prepared.policy_why,
        told=prepared.told,
        prob_inside=None if stage is None else stage.prob_inside,
        placed=placed,
        runs=tuple(run for run in runs if run.arm == rates.arm and run.outcome.is_judged),
    )
    return Source(
        name=given,
        kind=kind,
        model=_point(model, compiled, mechanic, mechanism, targets, placed, specifications),
        draws=placed.draws,
        specifications=specifications,
        cell=rates.name,
        policy=prepared.policy,
        matched=_matched(placed, targets, has_arm=mechanic is not None),
        assumptions=taken_on(facts),
        carried=carried_by(facts),
        warnings=warnings_of(facts),
        is_reached=placed.is_reached,
    )


def _counted(n_unreached: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {n}" for name, n in n_unreached.items()) or "no reason"


def _prepare(
    rates: CellRates, runs: Sequence[Run], base: str | None, policy: str | None, selection: Selection
) -> _Prepared:
    found = base_for(base, agent=rates.agent, benchmark=rates.benchmark)
    model, told = found.model, []
    if runs:
        horizon = horizon_seen(runs, model, baseline=selection.baseline)
        costs = costs_seen(runs, model.cost, baseline=selection.baseline)
        model = replace(with_horizon(model, horizon.part), cost=costs.part)
        told += [horizon.told, costs.told]
    name, why = None, ""
    if rates.arm is not None and (rates.targets.gain is not None or rates.is_level_by_step):
        mechanisms = {it.mechanism for run in runs if run.arm == rates.arm for it in run.interventions}
        name, why = policy_for(model, given=policy, arm=rates.arm, mechanisms=sorted(mechanisms))
    if runs and rates.targets.failure_rate is not None:
        eased = _eased(model, float(rates.targets.failure_rate.mean()))
        if eased is not None:
            scores = scores_seen(runs, eased, baseline=selection.baseline)
            model = replace(model, critic=scores.part)
            told.append(scores.told)
    return _Prepared(base=found, model=model, told=tuple(told), policy=name, policy_why=why)


def _eased(model: Model, failure_rate: float) -> Model | None:
    """The model whose unaided runs fail so often; None where no ease gives that."""
    targets = Targets(
        failure_rate=np.array([failure_rate]),
        gain=None,
        disruption=None,
        coupling=PrefixCoupling.LEAST,
        is_bound=True,
    )
    placed = place(compile_model(model), None, targets, 1)
    if not placed.is_reached[0]:
        return None
    nothing = np.zeros((0, 0))
    return moved_model(model, ease=float(placed.ease[0]), mechanism=None, recover=nothing, disrupt=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What is known once runs fail as often as they should, before the mechanism is moved."""

    mechanic: Mechanic
    flips: Flips
    """Of the policy with the base model's levels; when it fires first does not depend on them."""
    prob_inside: float | None
    """P(first intervention at a step with r(t), d(t) that some levels give); None where levels are not by step."""


def _stage(model: Model, compiled: CompiledModel, policy: str, rates: CellRates, seed: int) -> _Stage:
    """The policy with its mechanism's levels: the base model's, or those that the steps of interventions ask for."""
    rule = compile_policy(model, policy)
    kernel = compiled.kernels[rule.mechanism]
    with np.errstate(divide="ignore"):
        recover = logit(np.stack([kernel[:, k, 0] for k in range(1, kernel.shape[-1])]))[np.newaxis]
        disrupt = logit(1.0 - kernel[:, 0, 0])[np.newaxis]
    own = Mechanic(policy=rule, recover_logit=recover, disrupt_logit=disrupt)
    eased = place(compiled, None, rates.targets, rates.n_draws).draws
    n_nodes = success_many(eased, stack_policies([rule])).n_nodes
    flips = flips_many(eased, rule, n_nodes=n_nodes)
    levels = _levels(compiled, own, rates, eased, n_nodes, seed)
    if levels is None:
        return _Stage(mechanic=own, flips=flips, prob_inside=None)
    mechanic = Mechanic(
        policy=rule,
        recover_logit=_filled(_logit(levels.recover), recover, levels.is_solved),
        disrupt_logit=_filled(_logit(levels.disrupt), disrupt, levels.is_solved),
    )
    fired = flips.first_firing.sum()
    prob_inside = float((flips.first_firing * levels.is_inside).sum() / fired) if fired > 0.0 else None
    return _Stage(mechanic=mechanic, flips=flips, prob_inside=prob_inside)


def _levels(
    compiled: CompiledModel, own: Mechanic, rates: CellRates, eased: ModelDraws, n_nodes: int, seed: int
) -> StepLevels | None:
    """Levels by step; None where no step of an intervention is known, or only from pairs that are not forked."""
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


def _targets(stage: _Stage, rates: CellRates) -> Targets:
    """Targets of all draws; where Δ and d are known by step only, they are summed over when the model fires first."""
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


def _matched(placed: Placed, targets: Targets, *, has_arm: bool) -> Matched:
    flips = placed.flips
    return Matched(
        failure_rate=1.0 - flips.baseline,
        arm_success=flips.success if has_arm else None,
        recovery=flips.recovery(targets.coupling) if has_arm else None,
        disruption=flips.disruption(targets.coupling) if has_arm else None,
        coupling=targets.coupling,
    )


def _point(
    model: Model,
    compiled: CompiledModel,
    mechanic: Mechanic | None,
    mechanism: str | None,
    targets: Targets,
    placed: Placed,
    specifications: Sequence[Model],
) -> Model:
    """The model with the means of p, Δ and d of the draws; the draw nearest to them where none has all three."""
    flips = placed.flips

    def mean(values: FloatArray, is_target: bool) -> FloatArray | None:
        return np.array([values.mean()]) if is_target else None

    middle = Targets(
        failure_rate=mean(1.0 - flips.baseline, targets.failure_rate is not None),
        gain=mean(flips.gain, targets.gain is not None),
        disruption=mean(flips.disruption(targets.coupling), targets.disruption is not None),
        coupling=targets.coupling,
        is_bound=False,
    )
    typical = None
    if mechanic is not None:
        typical = Mechanic(
            policy=mechanic.policy,
            recover_logit=mechanic.recover_logit.mean(axis=0, keepdims=True),
            disrupt_logit=mechanic.disrupt_logit.mean(axis=0, keepdims=True),
        )
    one = place(compiled, typical, middle, 1)
    if not one.is_reached[0]:
        distance = (flips.baseline - flips.baseline.mean()) ** 2 + (flips.gain - flips.gain.mean()) ** 2
        return specifications[int(np.argmin(distance))]
    return moved_model(
        model,
        ease=float(one.ease[0]),
        mechanism=mechanism,
        recover=one.recover[0],
        disrupt=one.disrupt[0],
    )

"""What `--from MODEL.toml | fit.nc | PILOT` means: draws of a step process, and what of them is assumed.

A model file is one draw. A posterior, kept in a file or fitted to a pilot on the spot, says how often runs fail, gain
and are disrupted; a base model lends everything else, and is moved to each draw (`drsim.planning.placing`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.errors import DataError, ParameterError
from drsim.inference.rho_prior import RhoPrior
from drsim.pilot.evidence import Evidence, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import BASELINE, Run
from drsim.planning.base_model import Base, base_for, policy_for
from drsim.planning.cell_rates import CellRates, Selection, rates_of_pilot, rates_of_posterior
from drsim.planning.observed import Told, costs_seen, horizon_seen, scores_seen, with_horizon
from drsim.planning.placing import Mechanic, Placed, Targets, place
from drsim.planning.source_notes import Facts, carried_by, taken_on, warnings_of
from drsim.planning.staging import Stage, stage_of, targets_by_step
from drsim.process.compile import CompiledModel, compile_model
from drsim.process.flips import PrefixCoupling
from drsim.process.shifts import moved_model
from drsim.process.shipped import find_model, shipped_models
from drsim.process.spec import Model
from drsim.process.stacks import ModelDraws, stack_draws

__all__ = [
    "DEFAULT_DRAWS",
    "Matched",
    "Prepared",
    "Source",
    "SourceKind",
    "evidence_of",
    "prepare",
    "read_source",
    "runs_of",
]

DEFAULT_DRAWS = 200
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
    evidence = evidence_of(given)
    rates = rates_of_pilot(evidence, selection, n_draws=n_draws, seed=seed, rho_prior=rho_prior)
    runs = runs_of(evidence, rates)
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


def evidence_of(given: str) -> Evidence:
    """A pilot by its path.

    Raises
    ------
    ParameterError
        There is no such file.
    DataError
        It cannot be read or has mistakes.
    """
    is_file = given == "-" or any(sign in given for sign in "*?[") or Path(given).exists()
    if not is_file:
        near = get_close_matches(given, shipped_models(), n=1)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"there is no such file; shipped are {', '.join(shipped_models())}"
        )
        raise ParameterError(
            "a source must be a shipped model, or a path: of a model file (.toml), a posterior (.nc) or a pilot, "
            f"got {given!r}; {hint}"
        )
    return read([given])


def runs_of(evidence: Evidence, rates: CellRates) -> list[Run]:
    """Runs of the cell's agent and benchmark, all arms."""
    if not isinstance(evidence, Pilot):
        return []
    return [run for run in evidence.runs if (run.agent, run.benchmark) == (rates.agent, rates.benchmark)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The base model with what the runs say of it, before it is moved."""

    base: Base
    model: Model
    told: tuple[Told, ...]
    policy: str | None
    policy_why: str

    def place(self, rates: CellRates, seed: int) -> tuple[Stage | None, Targets, Placed]:
        """Move the model to draws of a cell's rates: where the policy acts, what is to be met, and the draws."""
        compiled = compile_model(self.model)
        stage = None if self.policy is None else stage_of(self.model, compiled, self.policy, rates, seed)
        targets = rates.targets if stage is None else targets_by_step(stage, rates)
        placed = place(compiled, None if stage is None else stage.mechanic, targets, rates.n_draws)
        return stage, targets, placed


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
    prepared = prepare(rates, runs, base, policy, selection)
    model = prepared.model
    compiled = compile_model(model)
    stage, targets, placed = prepared.place(rates, seed)
    mechanic = None if stage is None else stage.mechanic
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


def prepare(
    rates: CellRates, runs: Sequence[Run], base: str | None, policy: str | None, selection: Selection
) -> Prepared:
    """The base model of a cell, with horizon, costs and scores as its runs show them.

    Parameters
    ----------
    rates : CellRates
        Of the cell.
    runs : sequence of Run
        All arms of the cell's agent and benchmark; none where there are counts alone.
    base, policy : str or None
        As in `read_source`.
    selection : Selection
        Names the arm without intervention.

    Returns
    -------
    Prepared

    Raises
    ------
    ParameterError
        No model has the name, or no policy of it stands for the arm.
    """
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
    return Prepared(base=found, model=model, told=tuple(told), policy=name, policy_why=why)


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

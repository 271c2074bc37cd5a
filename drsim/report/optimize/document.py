"""The document that `drsim optimize --json` prints."""

import math
from typing import Literal

from msgspec import Struct

from drsim import __version__
from drsim.arrays import FloatArray
from drsim.inference.posterior import Uncertain
from drsim.planning.ladder import Kind, Rung
from drsim.planning.robust import Robust
from drsim.planning.written_policy import written_policy
from drsim.process.compile import CompiledPolicy
from drsim.process.terms import Terms
from drsim.process.toml import format_policy
from drsim.report.documents import Number
from drsim.report.optimize.answer import WRITTEN_NAME, Answer

__all__ = ["OptimizeDocument", "optimize_document"]


class TermsDocument(Struct, frozen=True, kw_only=True):
    """What all policies keep, and what they pay in units of success."""

    budget: int
    cooldown: int
    intervention_price: float
    critic_price: float
    mechanisms: list[str]


class HindsightDocument(Struct, frozen=True, kw_only=True):
    """P(fail → success) of the policy, under both couplings: what the hindsight oracle gains."""

    shared_prefix: float
    independent: float


class RungDocument(Struct, frozen=True, kw_only=True):
    """One rung; gains are net of prices and beyond the unaided run."""

    name: str
    kind: str
    gain: float
    low: float
    """What the gain is at least: less the error of the grid, the gap of two bounds, or five standard errors."""
    se: float | None
    below: str | None
    """For a user's policy the kind whose best is no worse; null where it does not keep the terms."""
    mechanism: str | None
    hindsight: HindsightDocument | None


class ThresholdPolicyDocument(Struct, frozen=True, kw_only=True):
    """A plain score-threshold policy."""

    mechanism: str
    threshold: float | list[float]
    budget: int
    cooldown: int
    first_step: int
    last_step: int | None
    gain: float
    """Exact gain of the policy as it is written here."""
    toml: str


class ValueOfInformationDocument(Struct, frozen=True, kw_only=True):
    """What knowing more would be worth."""

    state: float
    """Full information less the optimal belief policy: of seeing whether a run is off track."""
    memory: float
    """Optimal belief policy less the best threshold curve: of remembering all scores, budget and mechanism."""
    parameters: float | None
    """Of knowing exactly what differs between draws; null without draws."""


class RobustDocument(Struct, frozen=True, kw_only=True):
    """The policy that is best for the mean over draws."""

    n_draws: int
    gain: Number
    prob_gain: float
    regret: float
    """What the policy that is best at the point estimate loses against it."""
    perfect_knowledge: float
    varying: list[str]
    threshold_policy: ThresholdPolicyDocument | None
    belief_gain: Number | None
    """Of the belief policy that is best at the point estimate, over the same draws."""


class GridDocument(Struct, frozen=True, kw_only=True):
    """Of beliefs; `error` is the change of the value when the resolution is halved."""

    points: int
    resolution: int
    error: float


type Curve = list[list[float | None]]


class OptimizeDocument(Struct, frozen=True, kw_only=True):
    """`drsim optimize --json`."""

    schema: Literal["drsim.optimize/1"] = "drsim.optimize/1"
    version: str
    model: str
    source: str
    horizon: int
    seed: int
    terms: TermsDocument
    assumptions: list[str]
    baseline: float
    curve: Curve
    """b* by budget left from 1 on and by step: least P(off track) from which any mechanism pays; null: never."""
    curves: dict[str, Curve]
    """Likewise by mechanism: from where it is the best choice."""
    is_upper: list[list[bool]]
    """Whether intervening pays everywhere above the curve."""
    grid: GridDocument
    interventions: float
    """Of the optimal belief policy, per run."""
    threshold_policy: ThresholdPolicyDocument | None
    """The best threshold curve found; null where never to intervene is best."""
    ladder: list[RungDocument]
    as_given: dict[str, float] | None
    """Gains of the ladder's policies in the model as given, where the ladder is about its typical model."""
    value_of_information: ValueOfInformationDocument
    robust: RobustDocument | None


def optimize_document(answer: Answer, seed: int) -> OptimizeDocument:
    """The document that `drsim optimize --json` prints."""
    ladder, programme = answer.ladder, answer.ladder.programme
    return OptimizeDocument(
        version=__version__,
        model=answer.model.name,
        source=answer.model.source,
        horizon=answer.model.horizon,
        seed=seed,
        terms=_terms_document(answer, ladder.terms),
        assumptions=list(answer.assumptions),
        baseline=ladder.baseline,
        curve=_curve(programme.regions.first),
        curves={answer.mechanisms[m]: _curve(programme.regions.lowest[m]) for m in answer.allowed},
        is_upper=programme.regions.is_upper.tolist(),
        grid=GridDocument(points=programme.grid.n_points, resolution=programme.grid.resolution, error=programme.error),
        interventions=programme.interventions,
        threshold_policy=_threshold_document(answer, ladder.rung(Kind.CURVE).policy),
        ladder=[_rung_document(answer, it) for it in ladder.rungs],
        as_given=None if answer.as_given is None else {str(kind): gain for kind, gain in answer.as_given.items()},
        value_of_information=ValueOfInformationDocument(
            state=ladder.rung(Kind.FULL).gain - ladder.rung(Kind.BELIEF).gain,
            memory=ladder.rung(Kind.BELIEF).gain - ladder.rung(Kind.CURVE).gain,
            parameters=None if answer.robust is None else answer.robust.perfect_knowledge,
        ),
        robust=None if answer.robust is None else _robust_document(answer, answer.robust),
    )


def _terms_document(answer: Answer, terms: Terms) -> TermsDocument:
    return TermsDocument(
        budget=terms.budget,
        cooldown=terms.cooldown,
        intervention_price=terms.intervention_price,
        critic_price=terms.critic_price,
        mechanisms=[answer.mechanisms[m] for m in answer.allowed],
    )


def _curve(thresholds: FloatArray) -> Curve:
    return [[None if math.isnan(it) else float(it) for it in row] for row in thresholds]


def _rung_document(answer: Answer, rung: Rung) -> RungDocument:
    hindsight = None
    if rung.hindsight is not None and rung.hindsight_independent is not None:
        hindsight = HindsightDocument(shared_prefix=rung.hindsight, independent=rung.hindsight_independent)
    return RungDocument(
        name=rung.name,
        kind=rung.kind,
        gain=rung.gain,
        low=rung.low,
        se=rung.se or None,
        below=rung.below,
        mechanism=answer.mechanism(rung.policy),
        hindsight=hindsight,
    )


def _threshold_document(answer: Answer, policy: CompiledPolicy | None) -> ThresholdPolicyDocument | None:
    if policy is None:
        return None
    written = written_policy(answer.model, policy)
    return ThresholdPolicyDocument(
        mechanism=written.mechanism,
        threshold=list(written.threshold) if isinstance(written.threshold, tuple) else float(written.threshold),  # type: ignore[arg-type] # never a decay
        budget=written.budget,
        cooldown=written.cooldown,
        first_step=written.first_step,
        last_step=written.last_step,
        gain=answer.gain_as_written(written),
        toml=format_policy(WRITTEN_NAME, written),
    )


def _robust_document(answer: Answer, robust: Robust) -> RobustDocument:
    return RobustDocument(
        n_draws=len(robust.gain),
        gain=Number.of(Uncertain.from_draws(robust.gain)),
        prob_gain=robust.prob_gain,
        regret=robust.regret,
        perfect_knowledge=robust.perfect_knowledge,
        varying=list(robust.varying),
        threshold_policy=_threshold_document(answer, robust.policy),
        belief_gain=None if robust.belief_gain is None else Number.of(Uncertain.from_draws(robust.belief_gain)),
    )

"""The document that `drsim design --json` prints."""

from typing import Literal

from msgspec import Struct

from drsim import __version__
from drsim.planning.pilot_size import OperatingPoint
from drsim.planning.pilot_split import Split, cheapest
from drsim.report.design.answer import PUBLISHED_SIZES, Answer

__all__ = ["DesignDocument", "design_document"]


class EstimateDocument(Struct, frozen=True, kw_only=True):
    """A Monte Carlo number."""

    value: float
    se: float
    n: int


type Share = float | EstimateDocument
"""Exact, or simulated."""


class PlanDocument(Struct, frozen=True, kw_only=True):
    """The plan, and what is assumed of its pairs."""

    tasks: int
    trials: int
    arms: int
    pairing: str
    failure_rate: float | None
    rho: float
    clustering: float
    """Intraclass correlation of a task's pairs."""
    discordance: float | None
    fires: float
    usd: float | None
    """None where no price of a run was given."""
    runs: float | None
    """What the plan takes where no price of a run was given; on average, where some pairs need none."""


class RuleDocument(Struct, frozen=True, kw_only=True):
    """How the pilot is read."""

    kind: str
    margin: float
    rope: float
    confidence: float
    alpha: float
    harm_alpha: float
    power: float


class PointDocument(Struct, frozen=True, kw_only=True):
    """Operating characteristics at one true gain; `p_reject` is of do-not-deploy."""

    gain: float
    discordance: float
    tasks: int
    trials: int
    p_deploy: Share
    p_reject: Share
    p_equivalent: Share
    p_wrong: Share
    expected_pairs: float


class NeededDocument(Struct, frozen=True, kw_only=True):
    """Tasks for the wanted power; null where no pilot has it."""

    gain: float
    tasks: int | None
    pairs: int | None


class DetectableDocument(Struct, frozen=True, kw_only=True):
    """Smallest effects that the plan finds with the wanted power; null where it finds none."""

    loss: float | None
    gain: float | None


class SplitDocument(Struct, frozen=True, kw_only=True):
    """A plan with the wanted power."""

    pairing: str
    trials: int
    tasks: int | None
    pairs: int | None
    usd: float | None
    runs: float | None
    is_cheapest: bool


class AssuranceDocument(Struct, frozen=True, kw_only=True):
    """The plan before the gain is known; `value` is E[gain; deploy]."""

    prior_mean: float
    prior_sd: float
    prob_gain: float
    p_deploy: float
    p_reject: float
    p_right: float
    p_wrong: float
    value: float


class PublishedDocument(Struct, frozen=True, kw_only=True):
    """A published effect under the mid-p McNemar test: power by number of pairs, and pairs for the wanted power."""

    name: str
    source: str
    gain: float
    discordance: float
    discordance_assumed: bool
    power: dict[str, float]
    pairs_needed: int | None


class DesignDocument(Struct, frozen=True, kw_only=True):
    """`drsim design --json`."""

    schema: Literal["drsim.design/1"] = "drsim.design/1"
    version: str
    seed: int
    plan: PlanDocument
    rule: RuleDocument
    points: list[PointDocument]
    needed: list[NeededDocument]
    detectable: DetectableDocument
    splits: list[SplitDocument]
    assurance: AssuranceDocument | None
    published: list[PublishedDocument]
    plan_hash: str | None


def design_document(answer: Answer, plan_hash: str | None = None) -> DesignDocument:
    """The document that `drsim design --json` prints."""
    world, plan, rule = answer.world, answer.plan, answer.rule
    return DesignDocument(
        version=__version__,
        seed=answer.seed,
        plan=PlanDocument(
            tasks=plan.n_tasks,
            trials=plan.n_trials,
            arms=plan.n_arms,
            pairing=plan.pairing,
            failure_rate=world.failure_rate,
            rho=world.rho,
            clustering=world.pair_correlation,
            discordance=world.discordance,
            fires=world.fires,
            usd=answer.price if answer.is_priced else None,
            runs=None if answer.is_priced else answer.price,
        ),
        rule=RuleDocument(
            kind=rule.kind,
            margin=rule.decision.margin,
            rope=rule.decision.rope,
            confidence=rule.decision.confidence,
            alpha=rule.alpha,
            harm_alpha=rule.harm_alpha,
            power=answer.power,
        ),
        points=[_point_document(answer, it) for it in answer.points],
        needed=[
            NeededDocument(gain=gain, tasks=tasks, pairs=None if tasks is None else tasks * plan.n_trials)
            for gain, tasks in answer.needed.items()
        ],
        detectable=DetectableDocument(loss=answer.detectable[0], gain=answer.detectable[1]),
        splits=[_split_document(it, cheapest(answer.splits), is_priced=answer.is_priced) for it in answer.splits],
        assurance=_assurance_document(answer),
        published=[
            PublishedDocument(
                name=it.effect.name,
                source=it.effect.source,
                gain=it.effect.gain,
                discordance=it.effect.discordance,
                discordance_assumed=it.effect.is_assumed,
                power={str(n): power for n, power in zip(PUBLISHED_SIZES, it.power, strict=True)},
                pairs_needed=it.n_needed,
            )
            for it in answer.published
        ],
        plan_hash=plan_hash,
    )


def _point_document(answer: Answer, point: OperatingPoint) -> PointDocument:
    def share(value: float) -> Share:
        if point.n_pilots is None:
            return value
        se = (value * (1 - value) / point.n_pilots) ** 0.5
        return EstimateDocument(value=value, se=se, n=point.n_pilots)

    return PointDocument(
        gain=point.gain,
        discordance=point.discordance,
        tasks=answer.plan.n_tasks,
        trials=answer.plan.n_trials,
        p_deploy=share(point.p_deploy),
        p_reject=share(point.p_reject),
        p_equivalent=share(point.p_equivalent),
        p_wrong=share(point.p_wrong),
        expected_pairs=point.expected_tasks * answer.plan.n_trials,
    )


def _split_document(split: Split, best: Split | None, *, is_priced: bool) -> SplitDocument:
    return SplitDocument(
        pairing=split.pairing,
        trials=split.n_trials,
        tasks=split.n_tasks,
        pairs=split.n_pairs,
        usd=split.usd if is_priced else None,
        runs=None if is_priced else split.usd,
        is_cheapest=split is best,
    )


def _assurance_document(answer: Answer) -> AssuranceDocument | None:
    found = answer.assurance
    if found is None or answer.prior is None:
        return None
    return AssuranceDocument(
        prior_mean=answer.prior[0],
        prior_sd=answer.prior[1],
        prob_gain=found.prob_gain,
        p_deploy=found.p_deploy,
        p_reject=found.p_reject,
        p_right=found.p_right,
        p_wrong=found.p_wrong,
        value=found.value,
    )

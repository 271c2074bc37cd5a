"""The document that `drsim plan --json` prints."""

from typing import Literal

import numpy as np
from msgspec import Struct

from drsim import __version__
from drsim.arrays import FloatArray
from drsim.planning.frontier import ratio_draws
from drsim.planning.plan import Plan, Verdict
from drsim.planning.published_case import CASE, CASE_SOURCE, PublishedRow
from drsim.report.documents import Number
from drsim.report.plan.figures import summary, why

__all__ = ["CASE_DRAWS", "PlanDocument", "case_document", "plan_document"]

CASE_DRAWS = 20_000
CASE_ATTEMPTS = (2, 4, 8)


class AssumedDocument(Struct, frozen=True, kw_only=True):
    """One number that no run of the agent measures."""

    name: str
    value: float
    source: Literal["given", "assumed"]
    swept: list[float]
    """Values at which the choice is tried; empty where the number was given."""


class AlternativeDocument(Struct, frozen=True, kw_only=True):
    """One alternative, a task; uncertain over the draws, plain numbers where there is a single one."""

    name: str
    family: str
    n: float
    """Expected attempts started."""
    success: Number | float
    gain: Number | float
    """Over one plain run."""
    usd: Number | float | None
    tokens: Number | float
    seconds: Number | float | None
    cost_per_success: Number | float | None
    """In `money`; posterior of the ratio. Null where some draw has no success."""
    cost_per_mean_success: float | None
    """Mean cost over mean success: what a success costs in the long run."""
    dominated: bool
    bound: bool
    """With a perfect selector where none is at hand: shown, never chosen."""


class HingeDocument(Struct, frozen=True, kw_only=True):
    """A value of an assumption at which the choice would be wrong."""

    name: str
    value: float
    best: str
    regret: float


class VolumeDocument(Struct, frozen=True, kw_only=True):
    """All tasks to run."""

    successes: float
    cost: float
    """In `money`."""


class VerdictDocument(Struct, frozen=True, kw_only=True):
    """What to do with one budget."""

    budget: float
    kind: Literal["clear", "equivalent", "inconclusive", "unanswerable"]
    choice: str
    """The cheapest alternative that is as good as the best."""
    best: str
    prob_best: float
    """Of `best`."""
    probabilities: dict[str, float]
    """P(best) of every alternative that is best in some draw."""
    worth_of_pilot: dict[str, float]
    """Success that knowing more would add: a pilot twice, four times as large, perfect knowledge."""
    worth_at_volume: dict[str, float] | None
    """Likewise in successes over all tasks to run; null without a volume."""
    at_volume: VolumeDocument | None
    """Of `choice`; null without a volume."""
    hinges: list[HingeDocument]
    why: str


class BreakEvenPriceDocument(Struct, frozen=True, kw_only=True):
    """The price of one item below which an alternative's success costs less than another's."""

    item: str
    alternative: str
    versus: str
    unit: str
    price: float
    """Negative: no price is low enough."""
    interval: list[float] | None
    """95 %; null where some draw has no success."""
    now: float


class BreakEvenSelectorDocument(Struct, frozen=True, kw_only=True):
    """The smallest selector AUROC with which Best-of-N succeeds as often as intervening."""

    n: int
    versus: str
    auroc: float | None
    """Null: not even a perfect selector."""


class CaseDocument(Struct, frozen=True, kw_only=True):
    """One agent of the published case."""

    agent: str
    baseline: float
    gain: float
    oracle_intervention: float
    """C/n."""
    oracle_best_of_two: float
    """χ/2."""
    churn: float
    rho: float
    """Implied by the two."""
    best_of: dict[str, float]
    """Gain of an oracle over N runs with that ρ."""
    prob_best_of_two: float
    """P(oracle Best-of-2 gains more than the oracle intervention)."""
    verdict: str


class PlanDocument(Struct, frozen=True, kw_only=True):
    """`drsim plan --json`."""

    schema: Literal["drsim.plan/1"] = "drsim.plan/1"
    version: str
    seed: int
    model: str | None
    """Null where the published case is shown."""
    source: str
    n_draws: int
    unit: str | None
    """Of the budgets."""
    money: str | None
    """Of prices and of cost per success: usd, or tokens where those have no price."""
    deadline: float | None
    volume: int | None
    rho: Number | float | None
    assumptions: list[str]
    assumed: list[AssumedDocument]
    alternatives: list[AlternativeDocument]
    verdicts: list[VerdictDocument]
    break_even_prices: list[BreakEvenPriceDocument]
    break_even_selectors: list[BreakEvenSelectorDocument]
    case: list[CaseDocument]
    warnings: list[str]


def plan_document(plan: Plan, seed: int) -> PlanDocument:
    """The document of a plan."""
    names = plan.names
    return PlanDocument(
        version=__version__,
        seed=seed,
        model=plan.basis.name,
        source=plan.basis.source,
        n_draws=plan.success.shape[1],
        unit=plan.question.unit,
        money=plan.prices.money,
        deadline=plan.question.deadline,
        volume=plan.question.volume,
        rho=_figure(plan.world.attempts.rho),
        assumptions=list(plan.assumptions),
        assumed=[
            AssumedDocument(
                name=it.name,
                value=it.value,
                source="given" if it.is_given else "assumed",
                swept=[] if it.is_given else list(it.knob.swept),
            )
            for it in plan.knobs
        ],
        alternatives=[_alternative(plan, i) for i in range(len(names))],
        verdicts=[_verdict(plan, it) for it in plan.verdicts],
        break_even_prices=[
            BreakEvenPriceDocument(
                item=it.item.name.lower(),
                alternative=names[it.alternative],
                versus=names[it.versus],
                unit=it.unit,
                price=it.price,
                interval=_interval(it.draws),
                now=it.now,
            )
            for it in plan.prices_level
        ],
        break_even_selectors=[
            BreakEvenSelectorDocument(n=it.attempts, versus=names[it.versus], auroc=it.auroc)
            for it in plan.selectors_level
        ],
        case=[],
        warnings=list(plan.basis.warnings),
    )


def case_document(seed: int) -> PlanDocument:
    """The document of the published case."""
    return PlanDocument(
        version=__version__,
        seed=seed,
        model=None,
        source=CASE_SOURCE,
        n_draws=CASE_DRAWS,
        unit=None,
        money=None,
        deadline=None,
        volume=None,
        rho=None,
        assumptions=["attempts at a task are independent given the task", "a run weighs as a third of its task"],
        assumed=[],
        alternatives=[],
        verdicts=[],
        break_even_prices=[],
        break_even_selectors=[],
        case=[_case(it, seed) for it in CASE],
        warnings=[],
    )


def _case(row: PublishedRow, seed: int) -> CaseDocument:
    bounds = row.bounds
    intervened, again = row.draws(CASE_DRAWS, seed)
    baseline = 1.0 - row.failure_rate
    return CaseDocument(
        agent=row.agent,
        baseline=baseline,
        gain=float(bounds.gain),
        oracle_intervention=float(bounds.oracle_intervention),
        oracle_best_of_two=float(bounds.oracle_best_of_two),
        churn=2.0 * float(bounds.oracle_best_of_two),
        rho=row.rho,
        best_of={str(n): row.best_of(n) - baseline for n in CASE_ATTEMPTS},
        prob_best_of_two=float(np.mean(again > intervened)),
        verdict=row.verdict,
    )


def _figure(draws: FloatArray) -> Number | float | None:
    if draws.size == 1:
        return float(draws[0]) if np.isfinite(draws[0]) else None
    return Number.of(summary(draws))


def _number(draws: FloatArray) -> Number | float:
    return float(draws[0]) if draws.size == 1 else Number.of(summary(draws))


def _alternative(plan: Plan, i: int) -> AlternativeDocument:
    success, costs, money = plan.success[i], plan.costs, plan.money[i]
    return AlternativeDocument(
        name=plan.alternatives[i].name,
        family=plan.alternatives[i].family,
        n=float(plan.outcomes[i].attempts.mean()),
        success=_number(success),
        gain=_number(success - plan.success[0]),
        usd=None if costs.usd is None else _number(costs.usd[i]),
        tokens=_number(costs.tokens[i]),
        seconds=None if costs.seconds is None else _number(costs.seconds[i]),
        cost_per_success=_figure(ratio_draws(money, success)) if np.all(success > 0.0) else None,
        cost_per_mean_success=float(money.mean() / success.mean()) if success.mean() > 0.0 else None,
        dominated=bool(plan.frontier.is_dominated[i]),
        bound=not plan.is_allowed[i],
    )


def _verdict(plan: Plan, verdict: Verdict) -> VerdictDocument:
    at, names = verdict.at, plan.names
    worth = dict(zip(("2", "4", "perfect"), at.worth, strict=True))
    volume = plan.question.volume
    return VerdictDocument(
        budget=at.budget,
        kind=verdict.kind.value,
        choice=names[at.choice],
        best=names[at.best],
        prob_best=float(at.prob_best[at.best]),
        probabilities={names[i]: float(at.prob_best[i]) for i in np.flatnonzero(at.prob_best)},
        worth_of_pilot=worth,
        worth_at_volume=None if volume is None else {name: volume * it for name, it in worth.items()},
        at_volume=None
        if volume is None
        else VolumeDocument(
            successes=volume * float(plan.success[at.choice].mean()), cost=volume * float(plan.money[at.choice].mean())
        ),
        hinges=[
            HingeDocument(name=it.knob.name, value=it.value, best=names[it.better], regret=it.regret)
            for it in verdict.hinges
        ],
        why=why(plan, verdict),
    )


def _interval(draws: FloatArray) -> list[float] | None:
    if not np.all(np.isfinite(draws)):
        return None
    found = summary(draws)
    return [found.q2_5, found.q97_5]

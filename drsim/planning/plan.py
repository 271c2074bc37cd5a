"""One plan: all alternatives on one model, their costs, and a verdict at each budget (THEORY section 6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.errors import ParameterError
from drsim.planning.alternatives import Alternative, BestOf, Family, Item, Outcome, World, world_of
from drsim.planning.assumed import Assumed, Tools, swept, tools_of
from drsim.planning.basis import Basis
from drsim.planning.break_even_prices import (
    BreakEvenPrice,
    BreakEvenSelector,
    break_even_prices,
    break_even_selectors,
)
from drsim.planning.candidates import alternatives_of
from drsim.planning.frontier import ROUNDING, AtBudget, Frontier, Rule, dominated, find_frontier
from drsim.planning.prices import Costs, Prices, Unit, check_countable, costs_of

__all__ = ["Hinge", "Plan", "Question", "Verdict", "VerdictKind", "make_plan"]

N_BUDGETS = 6
"""Where none is given: from one run to the dearest alternative that is not dominated."""
SOME_ATTEMPTS = (2, 4, 8)
"""N of the break-even selectors, as far as N_max goes."""


class VerdictKind(StrEnum):
    """What can be said at a budget."""

    CLEAR = "clear"
    """One alternative is best with the confidence asked for."""
    EQUIVALENT = "equivalent"
    """A cheaper one is as good as the best, within the rope."""
    INCONCLUSIVE = "inconclusive"
    """More runs would tell."""
    UNANSWERABLE = "unanswerable"
    """The answer hangs on something assumed that no run of the agent measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    unit: Unit
    """Of the budgets."""
    budgets: tuple[float, ...] = ()
    """A task, rising; empty: chosen by what alternatives cost."""
    deadline: float | None = None
    """Seconds a task."""
    volume: int | None = None
    """Tasks to run in deployment."""
    n_max: int = 8
    """Most attempts."""
    rule: Rule = field(default_factory=Rule)
    second_success: float | None = None
    """Of a second agent on the same tasks, on average; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hinge:
    """An assumption on which a verdict hangs."""

    knob: Assumed
    value: float
    """Where the choice would be wrong."""
    better: int
    """What would be best there."""
    regret: float
    """Success that the choice would lose there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What to do with one budget."""

    kind: VerdictKind
    at: AtBudget
    hinges: tuple[Hinge, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Everything that a plan found: A alternatives over D draws."""

    basis: Basis
    question: Question
    prices: Prices
    knobs: tuple[Assumed, ...]
    assumptions: tuple[str, ...]
    """One sentence for each thing that is taken for granted."""
    alternatives: tuple[Alternative, ...]
    """One plain run first."""
    outcomes: tuple[Outcome, ...]
    world: World
    success: FloatArray
    """(A, D)."""
    costs: Costs
    is_allowed: BoolArray
    """(A,) what may be chosen; the others, with a perfect selector where none is at hand, are bounds."""
    frontier: Frontier
    verdicts: tuple[Verdict, ...]
    prices_level: tuple[BreakEvenPrice, ...]
    selectors_level: tuple[BreakEvenSelector, ...]

    @property
    def names(self) -> list[str]:
        """Of the alternatives."""
        return [it.name for it in self.alternatives]

    @property
    def tools(self) -> Tools:
        """Selector, verifier, contamination as taken."""
        return tools_of({it.name: it.value for it in self.knobs})

    @property
    def money(self) -> FloatArray:
        """(A, D) cost in usd, or in tokens where those have no price."""
        return self.costs.of(self.prices.money)

    @property
    def cost(self) -> FloatArray:
        """(A, D) in the unit of the budgets."""
        return self.costs.of(self.question.unit)

    def best_of_kind(self, family: Family) -> int | None:
        """The alternative of a kind with the highest mean success among those allowed; None where there is none."""
        kind = [i for i, it in enumerate(self.alternatives) if it.family is family and self.is_allowed[i]]
        return max(kind, key=lambda i: float(self.success[i].mean()), default=None)


def make_plan(basis: Basis, question: Question, prices: Prices, knobs: tuple[Assumed, ...]) -> Plan:
    """Work out all alternatives, and what is best at each budget.

    Parameters
    ----------
    basis : Basis
        Attempts over D draws.
    question : Question
        Budgets, deadline, volume.
    prices : Prices
        Of all items.
    knobs : tuple of Assumed
        Selector, verifier, contamination.

    Returns
    -------
    Plan

    Raises
    ------
    ParameterError
        A number is outside its domain, prices and budgets do not fit together, a budget does not cover one run, or
        nothing keeps the deadline.
    """
    check_countable(prices, question.unit)
    if question.second_success is not None and Item.SECOND_RUNS not in prices.told:
        raise ParameterError("second_success must come with a price, got none; give --second-price, such as 0.05usd")
    world = world_of(
        basis.attempts,
        n_max=question.n_max,
        growth=float(basis.cost.tokens_per_step_growth),
        second_success=question.second_success,
    )
    tools = tools_of({it.name: it.value for it in knobs})
    found = _alternatives(world, tools, question)
    outcomes = tuple(it.evaluate(world) for it in found)
    success, costs = np.stack([it.success for it in outcomes]), costs_of(list(outcomes), prices)
    is_allowed = np.array([not (isinstance(it, BestOf) and it.is_named_perfect) for it in found])
    budgets = _budgets(question, costs.of(question.unit).mean(axis=1), success.mean(axis=1), is_allowed)
    frontier = _frontier(success, costs, budgets, is_allowed, question)
    plan = Plan(
        basis=basis,
        question=question,
        prices=prices,
        knobs=knobs,
        assumptions=(*basis.assumptions, *_of_second(question, prices)),
        alternatives=tuple(found),
        outcomes=outcomes,
        world=world,
        success=success,
        costs=costs,
        is_allowed=is_allowed,
        frontier=frontier,
        verdicts=(),
        prices_level=break_even_prices(found, outcomes, prices, is_allowed),
        selectors_level=(),
    )
    return _concluded(plan)


def _concluded(plan: Plan) -> Plan:
    """The plan with its verdicts and break-even selectors."""
    versus = plan.best_of_kind(Family.INTERVENE)
    levels: tuple[BreakEvenSelector, ...] = ()
    if versus is not None:
        levels = break_even_selectors(
            plan.world,
            versus,
            float(plan.success[versus].mean()),
            plan.tools.selector.shared,
            [n for n in SOME_ATTEMPTS if n <= plan.question.n_max],
        )
    hinges = _hinges(plan)
    verdicts = tuple(
        Verdict(kind=_kind(plan, at, found), at=at, hinges=tuple(found))
        for at, found in zip(plan.frontier.points, hinges, strict=True)
    )
    return replace(plan, verdicts=verdicts, selectors_level=levels)


def _of_second(question: Question, prices: Prices) -> Iterator[str]:
    """What is taken for granted of a second agent."""
    if question.second_success is not None:
        yield "the second agent finds the same tasks hard: its odds at every task are the first's times one factor"
        if prices.second_seconds is None:
            yield "a run of the second agent takes as long as one of the first"


def _alternatives(world: World, tools: Tools, question: Question) -> list[Alternative]:
    attempts = world.attempts
    return alternatives_of(
        list(attempts.intervened),
        list(attempts.watched),
        tools,
        n_max=question.n_max,
        has_second=question.second_success is not None,
    )


def _budgets(question: Question, price: FloatArray, success: FloatArray, is_allowed: BoolArray) -> tuple[float, ...]:
    """Budgets as asked for, each at least one plain run; or those that matter.

    Raises
    ------
    ParameterError
        A budget does not cover one plain run.
    """
    one = float(price[0])
    if not question.budgets:
        top = float(price[is_allowed & ~dominated(success, price[None], is_allowed)].max())
        return tuple(np.geomspace(one, max(top, 1.5 * one), N_BUDGETS).tolist()) if one > 0.0 else (top,)
    if question.budgets[0] < one * (1.0 - ROUNDING):
        raise ParameterError(
            f"budget must cover one run, got {question.budgets[0]:g} {question.unit}; one run costs {one:.4g} "
            f"{question.unit} on average"
        )
    return question.budgets


def _frontier(
    success: FloatArray, costs: Costs, budgets: Sequence[float], is_allowed: BoolArray, question: Question
) -> Frontier:
    return find_frontier(
        success,
        costs.of(question.unit),
        costs.seconds,
        budgets,
        is_allowed=is_allowed,
        deadline=question.deadline,
        rule=question.rule,
    )


def _hinges(plan: Plan) -> list[list[Hinge]]:
    """For each budget the assumptions at whose swept values the choice loses more than the rope."""
    found: list[list[Hinge]] = [[] for _ in plan.frontier.points]
    for knob, value, tools in swept(plan.knobs):
        outcomes = list(_again(plan, tools))
        success = np.stack([it.success for it in outcomes]).mean(axis=1)
        costs = costs_of(outcomes, plan.prices)
        price = costs.of(plan.question.unit).mean(axis=1)
        is_open = plan.is_allowed.copy()
        if plan.question.deadline is not None and costs.seconds is not None:
            is_open &= costs.seconds.mean(axis=1) <= plan.question.deadline
        for at, hinges in zip(plan.frontier.points, found, strict=True):
            # the choice is compared with what its own money buys there, where it costs more than it was thought to
            affordable = np.flatnonzero(is_open & (price <= max(at.budget * (1.0 + ROUNDING), price[at.choice])))
            if not affordable.size:
                continue
            better = int(affordable[success[affordable].argmax()])
            regret = float(success[better] - success[at.choice])
            if regret > plan.question.rule.rope:
                hinges.append(Hinge(knob=knob, value=value, better=better, regret=regret))
    return found


def _again(plan: Plan, tools: Tools) -> Iterator[Outcome]:
    """Outcomes with other tools; those that do not use them are as they were."""
    moved = _alternatives(plan.world, tools, plan.question)
    for before, outcome, now in zip(plan.alternatives, plan.outcomes, moved, strict=True):
        yield outcome if now == before else now.evaluate(plan.world)


def _kind(plan: Plan, at: AtBudget, hinges: Sequence[Hinge]) -> VerdictKind:
    if hinges:
        return VerdictKind.UNANSWERABLE
    if at.choice != at.best:
        return VerdictKind.EQUIVALENT
    is_clear = at.prob_best[at.best] >= plan.question.rule.confidence
    return VerdictKind.CLEAR if is_clear else VerdictKind.INCONCLUSIVE

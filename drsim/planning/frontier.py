r"""What is best at each budget, how sure that is, and what a bigger pilot would be worth.

A budget is kept on average over tasks, and so is a deadline: an alternative is affordable where its posterior mean cost
is within it. Among those, the best is the one with the highest mean success, and of equals the cheapest, then the
quickest; so nothing that is dominated is ever chosen. P(best) is the share of draws in which it succeeds most.

The value of a bigger pilot comes from the draws alone: the posterior mean that it will end with varies with the share
v of the present variance that it removes, and is taken to lie at mean + √v (draw − mean) (Jalal and Alarid-Escudero,
Med. Decis. Making 38 (2018) 174–188, with one v for all alternatives). A pilot k times as large as all evidence so far
leaves 1/k of the variance, v = 1 − 1/k; v = 1 is perfect knowledge. So

.. math:: \mathrm{EVSI}(v) = E\max_a \bigl(\bar x_a + \sqrt v\,(x_a - \bar x_a)\bigr) - \max_a \bar x_a .
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.theory.domain import check_probability

__all__ = ["PILOTS", "ROUNDING", "AtBudget", "Frontier", "Rule", "dominated", "find_frontier", "ratio_draws"]

PILOTS = (2.0, 4.0, np.inf)
"""Sizes of pilots, the present evidence included, in units of it; inf is perfect knowledge."""

ROUNDING = 1e-9
"""A budget that equals a cost but for rounding covers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a choice is clear."""

    rope: float = 0.01
    """Differences in success below it count as none, in [0, 1]."""
    confidence: float = 0.9
    """Probability that a clear answer needs, in [0, 1]."""

    def __post_init__(self) -> None:
        check_probability("rope", self.rope)
        check_probability("confidence", self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AtBudget:
    """What to do with one budget."""

    budget: float
    best: int
    """Index of the alternative with the highest mean success among those affordable."""
    choice: int
    """The cheapest that is as good as the best within the rope; the best itself where none is."""
    prob_best: FloatArray
    """(A,) P(it succeeds most among those affordable); 0 for the others."""
    prob_close: float
    """P(the best succeeds at most a rope more often than `choice`)."""
    n_affordable: int
    worth: tuple[float, ...]
    """Success that knowing more would add, by size of `PILOTS`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frontier:
    """All budgets."""

    points: tuple[AtBudget, ...]
    is_dominated: BoolArray
    """(A,) another alternative, itself allowed, succeeds as often, costs as little, takes as little time, and is better
    in one of the three; all means."""
    is_on_cost: BoolArray
    """(A,) none succeeds as often for less, or more often for as much; not dominated by time either."""
    is_on_latency: BoolArray | None
    """(A,) likewise with time in the place of cost; None where time is not known."""


def find_frontier(
    success: FloatArray,
    cost: FloatArray,
    seconds: FloatArray | None,
    budgets: Sequence[float],
    *,
    is_allowed: BoolArray | None = None,
    deadline: float | None = None,
    rule: Rule | None = None,
) -> Frontier:
    """The best alternative at each budget.

    Parameters
    ----------
    success, cost : ndarray
        (A, D) of alternatives over draws.
    seconds : ndarray or None
        (A, D); None where time is not known.
    budgets : sequence of float
        In units of `cost`.
    is_allowed : ndarray, optional
        (A,) what may be chosen; by default all.
    deadline : float, optional
        Mean seconds of a task at most.
    rule : Rule, optional
        Rope and confidence.

    Returns
    -------
    Frontier

    Raises
    ------
    ParameterError
        Nothing is affordable at a budget within the deadline, or there is a deadline and time is not known.
    """
    allowed = np.ones(len(success), dtype=np.bool_) if is_allowed is None else is_allowed.copy()
    mean, price = success.mean(axis=1), cost.mean(axis=1)
    time = None if seconds is None else seconds.mean(axis=1)
    if deadline is not None:
        if time is None:
            raise ParameterError("deadline must be left out where a step has no time; give cost.seconds_per_step")
        allowed &= time <= deadline
        if not allowed.any():
            raise ParameterError(
                f"deadline must leave time for one alternative, got {deadline:g} s; the quickest takes {time.min():.4g}"
            )
    measures = [price] if time is None else [price, time]
    is_dominated = dominated(mean, np.stack(measures), allowed)
    order = np.lexsort((np.zeros_like(price) if time is None else time, -mean, price))
    order = order[allowed[order]]
    points = _walk(success, mean, price, order, sorted(budgets), is_dominated, rule or Rule())
    return Frontier(
        points=tuple(points),
        is_dominated=is_dominated,
        is_on_cost=allowed & ~is_dominated & ~dominated(mean, price[None], allowed),
        is_on_latency=None if time is None else allowed & ~is_dominated & ~dominated(mean, time[None], allowed),
    )


def dominated(success: FloatArray, costs: FloatArray, by: BoolArray) -> BoolArray:
    """Whether another alternative is at least as good in success and in all costs, and better in one.

    Parameters
    ----------
    success : ndarray
        (A,) the more the better.
    costs : ndarray
        (C, A) the less the better.
    by : ndarray
        (A,) what may dominate.

    Returns
    -------
    ndarray
        (A,).
    """
    good = success[by] >= success[:, None]
    better = success[by] > success[:, None]
    for cost in costs:
        good &= cost[by] <= cost[:, None]
        better |= cost[by] < cost[:, None]
    found: BoolArray = (good & better).any(axis=1)
    return found


def _walk(
    success: FloatArray,
    mean: FloatArray,
    price: FloatArray,
    order: IntArray,
    budgets: Sequence[float],
    is_dominated: BoolArray,
    rule: Rule,
) -> list[AtBudget]:
    """Budgets rising, each adding what has become affordable: no draw is looked at twice."""
    n_draws = success.shape[1]
    top, winner = np.full(n_draws, -np.inf), np.zeros(n_draws, dtype=np.int64)
    shares = [np.sqrt(1.0 - 1.0 / size) for size in PILOTS]
    tops = np.full((len(PILOTS), n_draws), -np.inf)
    points, taken = [], 0
    for budget in budgets:
        n_affordable = int(np.searchsorted(price[order], budget * (1.0 + ROUNDING), side="right"))
        if n_affordable == 0:
            cheapest = f"the cheapest alternative costs {price[order[0]]:.4g}"
            raise ParameterError(f"budget must cover one alternative, got {budget:g}; {cheapest}")
        for a in order[taken:n_affordable]:
            is_more = success[a] > top
            winner[is_more] = a
            np.maximum(top, success[a], out=top)
            for i, share in enumerate(shares):
                np.maximum(tops[i], mean[a] + share * (success[a] - mean[a]), out=tops[i])
        taken = n_affordable
        affordable = order[:taken]
        best = int(affordable[mean[affordable].argmax()])
        choice, prob_close = _choice(success, best, affordable[~is_dominated[affordable]], rule)
        points.append(
            AtBudget(
                budget=budget,
                best=best,
                choice=choice,
                prob_best=np.bincount(winner, minlength=len(mean)) / n_draws,
                prob_close=prob_close,
                n_affordable=taken,
                worth=tuple(max(0.0, float(it.mean() - mean[best])) for it in tops),
            )
        )
    return points


def _choice(success: FloatArray, best: int, candidates: IntArray, rule: Rule) -> tuple[int, float]:
    """The cheapest of candidates, cheapest first, that is as good as the best; and how probably it is."""
    for a in candidates:
        if a == best:
            break
        close = float(np.mean(success[best] - success[a] <= rule.rope))
        if close >= rule.confidence:
            return int(a), close
    return best, 1.0


def ratio_draws(cost: FloatArray, success: FloatArray) -> FloatArray:
    """Cost per success (A, D), NaN in draws in which nothing succeeds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: FloatArray = np.where(success > 0.0, cost / success, np.nan)
    return ratio

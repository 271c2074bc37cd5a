"""From which price on one alternative no longer beats another, and how good a selector must be to beat intervening.

An alternative beats another where a success costs less with it. Costs are additive in items, so that the price of one
item at which both are level follows by division.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.planning.alternatives import Alternative, Family, Item, Outcome, World
from drsim.planning.prices import Prices, Unit
from drsim.theory.contests import thinned, top_given_counts

__all__ = ["BreakEvenPrice", "BreakEvenSelector", "break_even_prices", "break_even_selectors"]

PRECISION = 1e-12

ITEMS = {
    Family.INTERVENE: (Item.CRITIC_CALLS, Item.INTERVENTIONS),
    Family.BEST_OF: (Item.SELECTOR_CALLS,),
    Family.RETRY: (Item.VERIFIER_CALLS,),
    Family.ESCALATE: (Item.SECOND_RUNS,),
}
"""What is bought from somebody, by kind of alternative."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BreakEvenPrice:
    """The price of one item at which a success costs the same with both alternatives."""

    item: Item
    alternative: int
    """Index; it beats the other below the price."""
    versus: int
    """Index."""
    unit: Unit
    price: float
    """From mean costs and mean successes; negative: no price is low enough."""
    draws: FloatArray
    """(D,) in each draw."""
    now: float
    """What the item costs now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEvenSelector:
    """How good a selector must be for Best-of-N to succeed as often as another alternative."""

    attempts: int
    """N."""
    versus: int
    """Index."""
    auroc: float | None
    """None: not even a perfect selector reaches it; ½: any does."""


def break_even_prices(
    alternatives: Sequence[Alternative], outcomes: Sequence[Outcome], prices: Prices, is_allowed: BoolArray
) -> tuple[BreakEvenPrice, ...]:
    """Break-even prices of the best intervention, Best-of-2, retrying once and the best escalation, among each other.

    Parameters
    ----------
    alternatives : sequence of Alternative
        One plain run first.
    outcomes : sequence of Outcome
        Of these.
    prices : Prices
        Of all items.
    is_allowed : ndarray
        (A,) what may be chosen.

    Returns
    -------
    tuple of BreakEvenPrice
    """
    chosen: dict[Family, int] = {Family.NOTHING: 0}
    for i, it in enumerate(alternatives):
        before = chosen.get(it.family)
        is_best_sought = it.family in (Family.INTERVENE, Family.ESCALATE)
        if is_allowed[i] and (before is None or (is_best_sought and _mean(outcomes[i]) > _mean(outcomes[before]))):
            chosen[it.family] = i
    return tuple(
        level
        for family, items in ITEMS.items()
        for item in items
        for rival in (Family.NOTHING, Family.BEST_OF, Family.INTERVENE)
        if family in chosen and rival in chosen and rival is not family
        for level in _level(outcomes, prices, item, chosen[family], chosen[rival])
    )


def _mean(outcome: Outcome) -> float:
    return float(outcome.success.mean())


def _level(
    outcomes: Sequence[Outcome], prices: Prices, item: Item, alternative: int, versus: int
) -> Iterator[BreakEvenPrice]:
    """The price of an item that an alternative buys and the other does not; none where it buys none or both fail."""
    ours, theirs = outcomes[alternative], outcomes[versus]
    calls = ours.items[item]
    if not min(_mean(ours), _mean(theirs), float(calls.mean())) > 0.0 or theirs.items[item].any():
        return
    each = prices.each(prices.money)
    cost, rival = (np.einsum("id,i->d", it.items, each) for it in (ours, theirs))
    rest = cost - each[item] * calls
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = (rival * ours.success / theirs.success - rest) / calls
    level = rival.mean() * _mean(ours) / _mean(theirs) - rest.mean()
    yield BreakEvenPrice(
        item=item,
        alternative=alternative,
        versus=versus,
        unit=prices.money,
        price=float(level / calls.mean()),
        draws=draws,
        now=float(each[item]),
    )


def break_even_selectors(
    world: World, versus: int, success: float, shared: float, attempts: Sequence[int]
) -> tuple[BreakEvenSelector, ...]:
    """The smallest AUROC with which Best-of-N succeeds as often as an alternative, on average over draws.

    Parameters
    ----------
    world : World
        Attempts, unaided.
    versus : int
        Index of the alternative.
    success : float
        Its mean success.
    shared : float
        c of the selector's errors.
    attempts : sequence of int
        N, each at most the world's most.

    Returns
    -------
    tuple of BreakEvenSelector
        Bisected to 1e-12: success rises with AUROC.
    """
    counts = world.counts[None].mean(axis=0)

    def reached(n: int, auroc: float) -> bool:
        return float(counts @ thinned(top_given_counts(n, auroc, shared), world.n_max)) >= success

    return tuple(BreakEvenSelector(attempts=n, versus=versus, auroc=_smallest(reached, n)) for n in attempts)


def _smallest(reached: Callable[[int, float], bool], n: int) -> float | None:
    if not reached(n, 1.0):
        return None
    if reached(n, 0.5):
        return 0.5
    low, high = 0.5, 1.0
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(n, middle) else (middle, high)
    return high

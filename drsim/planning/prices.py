"""What things cost: amounts with their units, prices of all items, and budgets."""

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.planning.alternatives import Item, Outcome
from drsim.process.spec import Cost

__all__ = [
    "Amount",
    "Costs",
    "Prices",
    "Unit",
    "check_countable",
    "costs_of",
    "parse_amount",
    "parse_budgets",
    "prices_of",
]

N_BUDGETS = 9
"""Of a range without a number of its own."""
MOST_BUDGETS = 200
NAMES = {
    Item.CRITIC_CALLS: "price-critic",
    Item.INTERVENTIONS: "price-intervention",
    Item.SELECTOR_CALLS: "price-selector",
    Item.VERIFIER_CALLS: "price-verifier",
    Item.SECOND_RUNS: "second-price",
}
"""How a caller gives the price of an item."""
TOKENS_PER_PRICE = 1e6


class Unit(StrEnum):
    """What is spent."""

    USD = "usd"
    TOKENS = "tokens"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """So much of something."""

    value: float
    """Not negative, finite."""
    unit: Unit

    def __str__(self) -> str:
        return f"{self.value:g}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of all items."""

    usd_per_token: float | None
    """None: money is not known."""
    tokens_each: FloatArray
    """(6,) tokens of one `Item`."""
    usd_each: FloatArray | None
    """(6,) price of one `Item`; None: money is not known."""
    seconds_per_step: float | None
    """None: time is not known."""
    second_seconds: float | None
    """Time of a run of the second agent; None: that of an average run of the first."""
    told: dict[Item, Amount] = field(default_factory=dict)
    """Prices that were given."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """What can be counted."""
        known = {
            Unit.USD: self.usd_each is not None,
            Unit.TOKENS: True,
            Unit.SECONDS: self.seconds_per_step is not None,
        }
        return tuple(unit for unit, is_known in known.items() if is_known)

    @property
    def money(self) -> Unit:
        """What prices are compared in."""
        return Unit.TOKENS if self.usd_each is None else Unit.USD

    def each(self, unit: Unit) -> FloatArray:
        """(6,) price of one `Item` in money or tokens."""
        return self.tokens_each if unit is Unit.TOKENS or self.usd_each is None else self.usd_each


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """What alternatives cost a task, (A, D) each; None where a price is not known."""

    usd: FloatArray | None
    tokens: FloatArray
    seconds: FloatArray | None

    def of(self, unit: Unit) -> FloatArray:
        """(A, D) in one unit.

        Raises
        ------
        ParameterError
            No price in this unit is known.
        """
        values = {Unit.USD: self.usd, Unit.TOKENS: self.tokens, Unit.SECONDS: self.seconds}[unit]
        if values is None:
            remedy = "--price-tokens" if unit is Unit.USD else "cost.seconds_per_step in the model"
            raise ParameterError(f"budget must be in a unit that has a price, got {unit}; give {remedy}")
        return values


def parse_amount(name: str, text: str) -> Amount:
    """An amount from `0.0004usd`.

    Raises
    ------
    ParameterError
        It has another form, or a negative number.
    """
    found = re.fullmatch(r"\s*([^\sa-z]+(?:e[-+]?\d+)?)\s*([a-z]+)\s*", text.strip().lower())
    value = _number(found.group(1)) if found else None
    unit = {
        "usd": Unit.USD,
        "tokens": Unit.TOKENS,
        "token": Unit.TOKENS,
        "seconds": Unit.SECONDS,
        "s": Unit.SECONDS,
    }.get(found.group(2) if found else "")
    if value is None or unit is None:
        raise ParameterError(
            f"{name} must be a number ≥ 0 with its unit (usd, tokens or seconds), got {text!r}; write 0.0004usd"
        )
    return Amount(value=value, unit=unit)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value < math.inf else None


def parse_budgets(texts: tuple[str, ...]) -> tuple[Unit, tuple[float, ...]]:
    """Budgets from `0.05usd`, or a range such as `0.01:0.1usd` or `0.01:0.1:20usd`.

    Parameters
    ----------
    texts : tuple of str
        At least one, all in one unit.

    Returns
    -------
    unit : Unit
    budgets : tuple of float
        Rising, each once.

    Raises
    ------
    ParameterError
        A text has another form, a range does not rise, units are mixed, or there are more than 200 budgets.
    """
    units, budgets = set(), set()
    for text in texts:
        *ends, last = text.split(":")
        top = parse_amount("budget", last if len(ends) < 2 else f"1{last.lstrip('0123456789 ')}")
        units.add(top.unit)
        budgets.update(_spread(text, ends, last, top))
    if len(units) > 1:
        raise ParameterError(f"budgets must share one unit, got {' and '.join(sorted(units))}; run once for each")
    if len(budgets) > MOST_BUDGETS:
        raise ParameterError(f"budgets must be at most {MOST_BUDGETS}, got {len(budgets)}; give a coarser range")
    return units.pop(), tuple(sorted(budgets))


def _spread(text: str, ends: list[str], last: str, top: Amount) -> list[float]:
    """Budgets of one text."""
    if not ends:
        return [top.value]
    n_text = re.match(r"\s*(\d*)", last)
    low = _number(ends[0])
    high = top.value if len(ends) == 1 else _number(ends[1])
    n = N_BUDGETS if len(ends) == 1 or n_text is None else int(n_text.group(1) or 0)
    if len(ends) > 2 or low is None or high is None or not low < high or not 2 <= n <= MOST_BUDGETS:
        raise ParameterError(
            f"a range of budgets must be LOW:HIGH or LOW:HIGH:N with LOW < HIGH and N from 2 to {MOST_BUDGETS}, then "
            f"its unit, got {text!r}; write 0.01:0.1usd"
        )
    return [float(it) for it in np.linspace(low, high, n)]


def prices_of(
    cost: Cost, told: dict[Item, Amount], *, usd_per_million_tokens: float | None, second_seconds: float | None
) -> Prices:
    """Prices of a model, with those that a caller gives in their place.

    Parameters
    ----------
    cost : Cost
        Of the model; a price of 0 for tokens and time is taken for unknown.
    told : dict of Item to Amount
        Prices of single items, in usd or tokens.
    usd_per_million_tokens : float or None
        In place of the model's.
    second_seconds : float or None
        Time of a run of the second agent; None: that of an average run of the first.

    Returns
    -------
    Prices

    Raises
    ------
    ParameterError
        Prices are in seconds, or in usd where tokens have no price in usd.
    """
    per_million = cost.usd_per_million_tokens if usd_per_million_tokens is None else usd_per_million_tokens
    usd_per_token = per_million / TOKENS_PER_PRICE if per_million > 0.0 else None
    tokens = np.zeros(len(Item))
    tokens[Item.TOKENS], tokens[Item.CRITIC_CALLS] = 1.0, cost.critic_tokens
    usd = None if usd_per_token is None else usd_per_token * tokens
    for item, amount in told.items():
        if amount.unit is Unit.SECONDS:
            raise ParameterError(f"--{NAMES[item]} must be in usd or tokens, got {amount}; time has no price")
        if amount.unit is Unit.USD and usd is None:
            raise ParameterError(
                f"prices must share one unit, got --{NAMES[item]} {amount} beside tokens without a price in usd; give "
                "--price-tokens as well, or all prices in tokens"
            )
        if amount.unit is Unit.TOKENS:
            tokens[item] = amount.value
        if usd is not None and usd_per_token is not None:
            usd[item] = amount.value if amount.unit is Unit.USD else usd_per_token * amount.value
    return Prices(
        usd_per_token=usd_per_token,
        tokens_each=tokens,
        usd_each=usd,
        seconds_per_step=cost.seconds_per_step or None,
        second_seconds=second_seconds,
        told=told,
    )


def costs_of(outcomes: list[Outcome], prices: Prices) -> Costs:
    """What alternatives cost.

    Parameters
    ----------
    outcomes : list of Outcome
        A alternatives over D draws, one plain run first.
    prices : Prices
        Of all items.

    Returns
    -------
    Costs
        Additive in items, by their prices.
    """
    seconds = None
    if prices.seconds_per_step is not None:
        one = float(outcomes[0].steps.mean()) * prices.seconds_per_step
        waits = one if prices.second_seconds is None else prices.second_seconds
        seconds = np.stack([prices.seconds_per_step * it.steps + waits * it.items[Item.SECOND_RUNS] for it in outcomes])
    usd = None if prices.usd_each is None else np.stack([_sum(it.items, prices.usd_each) for it in outcomes])
    return Costs(usd=usd, tokens=np.stack([_sum(it.items, prices.tokens_each) for it in outcomes]), seconds=seconds)


def _sum(items: FloatArray, each: FloatArray) -> FloatArray:
    """(D,) by a sum in one order, which matrix products do not keep."""
    total: FloatArray = np.einsum("id,i->d", items, each)
    return total


def check_countable(prices: Prices, unit: Unit) -> None:
    """Refuse a budget that cannot count all prices.

    Raises
    ------
    ParameterError
        It is in tokens, and an item has a price in usd alone.
    """
    for item, amount in prices.told.items():
        if unit is Unit.TOKENS and amount.unit is Unit.USD:
            raise ParameterError(
                f"prices and budget must share one unit, got --{NAMES[item]} {amount} and a budget in tokens; give "
                "both in one of them"
            )

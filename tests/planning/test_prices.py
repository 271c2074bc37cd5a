import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import ParameterError
from drsim.planning.alternatives import Item, Outcome
from drsim.planning.prices import (
    Amount,
    Unit,
    check_countable,
    costs_of,
    parse_amount,
    parse_budgets,
    prices_of,
)
from drsim.process.spec import Cost

PRICED = Cost(tokens_per_step=900.0, critic_tokens=200.0, usd_per_million_tokens=2.0, seconds_per_step=4.0)
UNPRICED = Cost(tokens_per_step=900.0, critic_tokens=200.0)


def outcome(items: list[float], steps: float = 5.0) -> Outcome:
    return Outcome(
        success=np.array([0.5]), items=np.array(items)[:, None], steps=np.array([steps]), attempts=np.ones(1)
    )


def test_costs_are_additive_in_items() -> None:
    told = {
        Item.INTERVENTIONS: Amount(value=0.01, unit=Unit.USD),
        Item.SELECTOR_CALLS: Amount(value=500.0, unit=Unit.TOKENS),
        Item.SECOND_RUNS: Amount(value=0.05, unit=Unit.USD),
    }
    prices = prices_of(PRICED, told, usd_per_million_tokens=None, second_seconds=7.0)
    found = costs_of([outcome([1000.0, 6.0, 2.0, 3.0, 4.0, 0.5])], prices)
    assert found.tokens[0, 0] == pytest.approx(1000.0 + 6.0 * 200.0 + 3.0 * 500.0)
    assert found.usd is not None
    assert found.seconds is not None
    assert found.usd[0, 0] == pytest.approx(2e-6 * found.tokens[0, 0] + 2.0 * 0.01 + 0.5 * 0.05)
    assert found.seconds[0, 0] == pytest.approx(5.0 * 4.0 + 0.5 * 7.0)
    assert prices.units == (Unit.USD, Unit.TOKENS, Unit.SECONDS)


def test_a_second_agent_takes_as_long_as_the_first_unless_told() -> None:
    prices = prices_of(PRICED, {}, usd_per_million_tokens=None, second_seconds=None)
    one, escalated = outcome([1.0, 0, 0, 0, 0, 0]), outcome([1.0, 0, 0, 0, 0, 0.5], steps=3.0)
    found = costs_of([one, escalated], prices)
    assert found.seconds is not None
    assert found.seconds[1, 0] == pytest.approx(3.0 * 4.0 + 0.5 * 5.0 * 4.0)


@settings(deadline=None)
@given(
    items=st.lists(st.floats(0.0, 1e4), min_size=6, max_size=6),
    more=st.lists(st.floats(0.0, 1e4), min_size=6, max_size=6),
)
def test_what_two_bundles_cost_is_what_each_costs(items: list[float], more: list[float]) -> None:
    told = {item: Amount(value=0.001 * (item + 1), unit=Unit.USD) for item in list(Item)[1:]}
    prices = prices_of(PRICED, told, usd_per_million_tokens=None, second_seconds=1.0)
    both = outcome([a + b for a, b in zip(items, more, strict=True)])
    found = costs_of([outcome(items), outcome(more), both], prices)
    assert found.usd is not None
    for cost in (found.usd, found.tokens):
        assert cost[2, 0] == pytest.approx(cost[0, 0] + cost[1, 0], rel=1e-9, abs=1e-12)


def test_without_a_price_of_tokens_money_is_not_known() -> None:
    prices = prices_of(UNPRICED, {}, usd_per_million_tokens=None, second_seconds=0.0)
    assert prices.money is Unit.TOKENS
    assert prices.units == (Unit.TOKENS,)
    found = costs_of([outcome([1.0] * 6)], prices)
    assert found.usd is None
    with pytest.raises(ParameterError, match=r"a unit that has a price, got usd; give --price-tokens"):
        found.of(Unit.USD)
    with pytest.raises(ParameterError, match="seconds_per_step"):
        found.of(Unit.SECONDS)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("0.0004usd", 0.0004, Unit.USD),
        ("4e-4 USD", 0.0004, Unit.USD),
        ("200tokens", 200.0, Unit.TOKENS),
        ("60s", 60.0, Unit.SECONDS),
        ("60 seconds", 60.0, Unit.SECONDS),
    ],
)
def test_amounts(text: str, value: float, unit: Unit) -> None:
    assert parse_amount("x", text) == Amount(value=value, unit=unit)


@pytest.mark.parametrize("text", ["0.05", "usd", "-1usd", "nanusd", "infusd", "5eur", "", "1 2usd", "0.1usd!"])
def test_amounts_that_are_none(text: str) -> None:
    with pytest.raises(ParameterError, match="budget must be a number ≥ 0 with its unit"):
        parse_amount("budget", text)


def test_budgets() -> None:
    assert parse_budgets(("0.05usd", "0.01usd", "0.05usd")) == (Unit.USD, (0.01, 0.05))
    unit, found = parse_budgets(("1000:3000:3tokens", "500tokens"))
    assert (unit, found) == (Unit.TOKENS, (500.0, 1000.0, 2000.0, 3000.0))
    assert len(parse_budgets(("1:9s",))[1]) == 9


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("0.1usd", "100tokens"), "budgets must share one unit, got tokens and usd"),
        (("3:1usd",), "LOW < HIGH"),
        (("1:2:1usd",), "N from 2 to 200"),
        (("1:2:3:4usd",), "LOW:HIGH"),
        (("a:2usd",), "LOW:HIGH"),
        (("1:2:150usd", "3:4:150usd"), "at most 200, got 300"),
        (("1:2",), "with its unit"),
    ],
)
def test_budgets_that_cannot_be(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_budgets(texts)


def test_mixed_units_are_refused() -> None:
    in_usd = {Item.CRITIC_CALLS: Amount(value=0.001, unit=Unit.USD)}
    with pytest.raises(ParameterError, match=r"prices must share one unit, got --price-critic 0\.001usd beside tokens"):
        prices_of(UNPRICED, in_usd, usd_per_million_tokens=None, second_seconds=0.0)
    prices = prices_of(PRICED, in_usd, usd_per_million_tokens=None, second_seconds=0.0)
    check_countable(prices, Unit.USD)
    with pytest.raises(ParameterError, match=r"--price-critic 0\.001usd and a budget in tokens"):
        check_countable(prices, Unit.TOKENS)
    in_time = {Item.VERIFIER_CALLS: Amount(value=1.0, unit=Unit.SECONDS)}
    with pytest.raises(ParameterError, match="--price-verifier must be in usd or tokens"):
        prices_of(PRICED, in_time, usd_per_million_tokens=None, second_seconds=0.0)


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_a_budget_or_a_mistake(text: str) -> None:
    try:
        unit, found = parse_budgets((text,))
    except ParameterError:
        return
    assert unit in Unit
    assert all(it >= 0.0 for it in found)

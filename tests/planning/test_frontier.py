import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.planning.frontier import PILOTS, Rule, dominated, find_frontier, ratio_draws


def random_world(seed: int, n: int = 12, n_draws: int = 200) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Success, cost, seconds; rounded, so that there are ties."""
    rng = np.random.default_rng(seed)
    success = np.clip(rng.uniform(0.2, 0.8, (n, 1)).round(1) + rng.normal(0.0, 0.1, (n, n_draws)), 0.0, 1.0)
    success[: n // 3] = success[:1]
    cost = np.repeat(rng.integers(1, 5, (n, 1)).astype(np.float64), n_draws, axis=1)
    seconds = np.repeat(rng.integers(1, 4, (n, 1)).astype(np.float64), n_draws, axis=1)
    return success, cost, seconds


def by_hand(success: FloatArray, cost: FloatArray, budget: float) -> tuple[FloatArray, float, list[float]]:
    """P(best), highest mean, and what knowing more is worth, from the definitions."""
    affordable = np.flatnonzero(cost.mean(axis=1) <= budget)
    mean = success.mean(axis=1)
    # ties go to the cheapest, then to the one that is best on average
    order = sorted(affordable, key=lambda i: (cost[i].mean(), -mean[i]))
    winners = [max(order, key=lambda i: success[i, d]) for d in range(success.shape[1])]
    shares = np.bincount(winners, minlength=len(success)) / success.shape[1]
    worth = []
    for size in PILOTS:
        moved = mean[:, None] + np.sqrt(1.0 - 1.0 / size) * (success - mean[:, None])
        worth.append(float(moved[affordable].max(axis=0).mean() - mean[affordable].max()))
    return shares, float(mean[affordable].max()), worth


@pytest.mark.parametrize("seed", range(5))
def test_every_budget_is_what_the_definitions_say(seed: int) -> None:
    success, cost, _ = random_world(seed)
    success[4:] += np.random.default_rng(seed).normal(0.0, 1e-6, success[4:].shape)
    found = find_frontier(success, cost, None, [1.0, 2.0, 3.0, 4.0] if cost.min() == 1.0 else [2.0, 4.0])
    for at in found.points:
        shares, highest, worth = by_hand(success, cost, at.budget)
        np.testing.assert_allclose(at.prob_best, shares, atol=1e-12)
        assert at.prob_best.sum() == pytest.approx(1.0)
        assert success[at.best].mean() == pytest.approx(highest)
        np.testing.assert_allclose(at.worth, np.maximum(worth, 0.0), atol=1e-12)


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 10_000), rope=st.floats(0.0, 0.2), confidence=st.floats(0.0, 1.0), has_time=st.booleans())
def test_nothing_dominated_is_ever_chosen(seed: int, rope: float, confidence: float, has_time: bool) -> None:
    success, cost, seconds = random_world(seed)
    budgets = np.unique(cost[:, 0]).tolist()
    time = seconds if has_time else None
    found = find_frontier(success, cost, time, budgets, rule=Rule(rope=rope, confidence=confidence))
    for at in found.points:
        for i in (at.best, at.choice):
            assert not found.is_dominated[i]
            assert cost[i].mean() <= at.budget
        assert cost[at.choice].mean() <= cost[at.best].mean()
    best = [success[at.best].mean() for at in found.points]
    assert np.all(np.diff(best) >= 0.0)
    # what nobody dominates in cost alone is dominated by nobody in cost and time
    assert not np.any(found.is_on_cost & found.is_dominated)
    assert has_time == (found.is_on_latency is not None)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_knowing_more_is_never_worth_less(seed: int) -> None:
    success, cost, _ = random_world(seed)
    found = find_frontier(success, cost, None, [4.0])
    two, four, perfect = found.points[0].worth
    assert 0.0 <= two <= four + 1e-12 <= perfect + 2e-12


def test_a_single_draw_has_nothing_to_learn() -> None:
    found = find_frontier(np.array([[0.5], [0.6]]), np.array([[1.0], [2.0]]), None, [1.0, 2.0])
    assert [at.best for at in found.points] == [0, 1]
    assert found.points[1].worth == (0.0, 0.0, 0.0)
    assert found.points[1].prob_best.tolist() == [0.0, 1.0]


def test_the_cheaper_of_two_that_are_as_good() -> None:
    rng = np.random.default_rng(1)
    base = rng.uniform(0.4, 0.6, 1000)
    success = np.stack([base, base + 0.005, base + rng.normal(0.0, 0.05, 1000) - 0.005])
    cost = np.repeat([[1.0], [3.0], [2.0]], 1000, axis=1)
    found = find_frontier(success, cost, None, [3.0], rule=Rule(rope=0.01, confidence=0.9)).points[0]
    assert (found.best, found.choice, found.prob_close) == (1, 0, 1.0)
    strict = find_frontier(success, cost, None, [3.0], rule=Rule(rope=0.001, confidence=0.9)).points[0]
    assert strict.choice == strict.best == 1


def test_what_may_not_be_chosen_dominates_nothing() -> None:
    success, cost = np.array([[0.5], [0.9], [0.6]]), np.array([[1.0], [1.0], [2.0]])
    allowed = np.array([True, False, True])
    found = find_frontier(success, cost, None, [2.0], is_allowed=allowed)
    assert found.points[0].best == 2
    assert not found.is_dominated[allowed].any()
    assert not found.is_on_cost[1]


def test_a_deadline_is_kept() -> None:
    success, cost = np.array([[0.5], [0.9]]), np.array([[1.0], [1.0]])
    seconds = np.array([[10.0], [60.0]])
    assert find_frontier(success, cost, seconds, [1.0], deadline=30.0).points[0].best == 0
    assert find_frontier(success, cost, seconds, [1.0], deadline=60.0).points[0].best == 1


def test_dominance() -> None:
    success, cost = np.array([0.5, 0.5, 0.6, 0.6]), np.array([[1.0, 2.0, 2.0, 2.0]])
    assert dominated(success, cost, np.ones(4, dtype=bool)).tolist() == [False, True, False, False]


def test_cost_per_success_is_not_known_without_success() -> None:
    found = ratio_draws(np.array([[1.0, 2.0]]), np.array([[0.5, 0.0]]))
    assert found[0, 0] == 2.0
    assert np.isnan(found[0, 1])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"budgets": [0.5]}, "budget must cover one alternative, got 0.5; the cheapest alternative costs 1"),
        ({"budgets": [1.0], "deadline": 5.0}, "deadline must leave time for one alternative, got 5 s"),
        ({"budgets": [1.0], "deadline": 5.0, "seconds": None}, "deadline must be left out where a step has no time"),
    ],
)
def test_what_cannot_be_bought(kwargs: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"seconds": np.array([[10.0], [60.0]]), **kwargs}
    with pytest.raises(ParameterError, match=message):
        find_frontier(np.array([[0.5], [0.9]]), np.array([[1.0], [2.0]]), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [{"rope": -0.1}, {"confidence": 90}])
def test_rules_outside_their_domain(rule: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(rule))):
        Rule(**rule)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import ParameterError
from drsim.theory.retry import abort_and_restart, retry_in_context, retry_until_accepted
from drsim.theory.selection import best_of_n

ROUNDING = 2.0**-53
rates = st.floats(0.0, 1.0)
few = st.integers(1, 6)
factors = st.floats(0.05, 20.0)


def in_context(s: float, contamination: float, before: int) -> float:
    weight = contamination**before
    return s * weight / (1.0 - s + s * weight)


def by_tree(s: float, n: int, tpr: float, fpr: float, contamination: float) -> tuple[float, float, float]:
    """Success, acceptance and expected attempts by following both ends of every attempt."""

    def from_attempt(j: int) -> tuple[float, float, float]:
        now = in_context(s, contamination, j - 1)
        total = np.zeros(3)
        for chance, success, accept in ((now, 1.0, tpr), (1.0 - now, 0.0, fpr)):
            further = np.array([success, 0.0, 0.0]) if j == n else np.array(from_attempt(j + 1))
            total += chance * (accept * np.array([success, 1.0, 0.0]) + (1.0 - accept) * further)
        return float(total[0]), float(total[1]), float(total[2] + 1.0)

    return from_attempt(1)


def by_restarts(s: float, left: int, tpr: float, fpr: float, spent: float) -> tuple[float, float, float]:
    """Success, runs and cost by following both ends of every run."""
    if left == 0:
        return s, 1.0, 1.0
    success, runs, cost = by_restarts(s, left - 1, tpr, fpr, spent)
    kill = (1.0 - s) * tpr + s * fpr
    return s * (1.0 - fpr) + kill * success, 1.0 + kill * runs, 1.0 - kill + kill * (spent + cost)


def allowed(n: int) -> float:
    """Up to n steps of some twenty operations on numbers up to n."""
    return 20 * n * n * ROUNDING


@settings(deadline=None)
@given(s=rates, n=few, tpr=rates, fpr=rates)
def test_retry_until_accepted_follows_the_tree(s: float, n: int, tpr: float, fpr: float) -> None:
    outcome = retry_until_accepted(s, n, tpr, fpr)
    success, accepted, attempts = by_tree(s, n, tpr, fpr, 1.0)
    assert abs(outcome.success - success) <= allowed(n)
    assert abs(outcome.accepted - accepted) <= allowed(n)
    assert abs(outcome.attempts - attempts) <= allowed(n)


@settings(deadline=None)
@given(s=rates, n=few, tpr=rates, fpr=rates, contamination=factors)
def test_retry_in_context_follows_the_tree(s: float, n: int, tpr: float, fpr: float, contamination: float) -> None:
    outcome = retry_in_context(s, n, tpr, fpr, contamination)
    success, accepted, attempts = by_tree(s, n, tpr, fpr, contamination)
    # log odds of up to 745 with a rounding each shift an attempt's success by at most max x/(4 cosh²(x/2)) < 0.3 of it;
    # 1 − s, taken of a rounded s, by as much
    assert abs(outcome.success - success) <= allowed(n)
    assert abs(outcome.accepted - accepted) <= allowed(n)
    assert abs(outcome.attempts - attempts) <= allowed(n)


@settings(deadline=None)
@given(s=rates, n=st.integers(1, 40), tpr=rates, fpr=rates)
def test_without_contamination_context_means_nothing(s: float, n: int, tpr: float, fpr: float) -> None:
    fresh, seen = retry_until_accepted(s, n, tpr, fpr), retry_in_context(s, n, tpr, fpr, 1.0)
    assert abs(fresh.success - seen.success) <= allowed(n)
    assert abs(fresh.accepted - seen.accepted) <= allowed(n)
    assert abs(fresh.attempts - seen.attempts) <= allowed(n)


@settings(deadline=None)
@given(s=rates, n=few, tpr=rates, fpr=rates, factor=factors, other=factors)
def test_contamination_costs_success_where_the_verifier_helps(
    s: float, n: int, tpr: float, fpr: float, factor: float, other: float
) -> None:
    low, high = sorted((factor, other))
    good, bad = max(tpr, fpr), min(tpr, fpr)
    worse, better = retry_in_context(s, n, good, bad, low), retry_in_context(s, n, good, bad, high)
    assert worse.success <= better.success + allowed(n)


def test_a_retry_that_drops_the_last_attempt_fails() -> None:
    outcome = retry_until_accepted(0.4, 3, 0.5, 0.0)
    assert outcome.success > 1.0 - (1.0 - 0.4 * 0.5) ** 3 + 0.1  # only accepted attempts counted
    assert abs(outcome.success - ((0.2 + 0.8 * 0.2) + 0.8**2 * 0.4)) <= allowed(3)


@settings(deadline=None)
@given(s=rates, n=few)
def test_limits_of_the_verifier(s: float, n: int) -> None:
    perfect = retry_until_accepted(s, n, 1.0, 0.0)
    assert abs(perfect.success - best_of_n(s, n)) <= allowed(n)
    assert perfect.accepted == best_of_n(s, n)
    accepts_all, accepts_none = retry_until_accepted(s, n, 1.0, 1.0), retry_until_accepted(s, n, 0.0, 0.0)
    assert abs(accepts_all.success - s) <= allowed(n)
    assert abs(accepts_all.attempts - 1.0) <= allowed(n)
    assert accepts_none.success == s
    assert accepts_none.attempts == n
    blind = retry_until_accepted(s, n, 0.3, 0.3)
    assert abs(blind.success - s) <= allowed(n)


def test_certain_ends_stay_certain_in_context() -> None:
    outcome = retry_in_context([0.0, 1.0], 5, 0.5, 0.5, [[1e-300], [1.0], [1e300]])
    np.testing.assert_allclose(outcome.success, np.tile([0.0, 1.0], (3, 1)), rtol=0.0, atol=allowed(5))


def test_simulated_retries() -> None:
    s, n, tpr, fpr, tasks = 0.35, 4, 0.8, 0.25, 200_000
    rng = np.random.default_rng(20260108)
    succeeds = rng.random((tasks, n)) < s
    accepted = rng.random((tasks, n)) < np.where(succeeds, tpr, fpr)
    accepted[:, -1] = True  # the last is kept
    kept = np.argmax(accepted, axis=1)
    hits = int(np.sum(succeeds[np.arange(tasks), kept]))
    outcome = retry_until_accepted(s, n, tpr, fpr)
    assert abs(hits - tasks * outcome.success) <= 5 * np.sqrt(tasks * outcome.success * (1.0 - outcome.success))
    # attempts lie in [1, n], so their variance is at most ((n − 1)/2)²
    assert abs(np.mean(kept + 1.0) - outcome.attempts) <= 5 * 0.5 * (n - 1) / np.sqrt(tasks)


@settings(deadline=None)
@given(s=rates, restarts=st.integers(0, 6), tpr=rates, fpr=rates, spent=rates)
def test_abort_and_restart_follows_the_tree(s: float, restarts: int, tpr: float, fpr: float, spent: float) -> None:
    outcome = abort_and_restart(s, restarts, tpr, fpr, spent)
    success, runs, cost = by_restarts(s, restarts, tpr, fpr, spent)
    assert abs(outcome.success - success) <= allowed(restarts + 1)
    assert abs(outcome.runs - runs) <= allowed(restarts + 1)
    assert abs(outcome.cost - cost) <= allowed(restarts + 1)
    whole = abort_and_restart(s, restarts, tpr, fpr, 1.0)
    assert abs(whole.cost - whole.runs) <= allowed(restarts + 1)


@settings(deadline=None)
@given(s=rates, restarts=st.integers(0, 6))
def test_limits_of_the_critic(s: float, restarts: int) -> None:
    perfect = abort_and_restart(s, restarts, 1.0, 0.0, 0.0)
    assert abs(perfect.success - best_of_n(s, restarts + 1)) <= allowed(restarts + 1)
    assert abs(perfect.cost - 1.0) <= allowed(restarts + 1)  # killed at once, runs cost nothing
    silent = abort_and_restart(s, restarts, 0.0, 0.0, 0.5)
    assert [silent.runs, silent.cost] == pytest.approx([1.0, 1.0], rel=0.0, abs=allowed(restarts + 1))
    assert abs(silent.success - s) <= allowed(restarts + 1)
    eager = abort_and_restart(s, restarts, 1.0, 1.0, 0.25)
    assert abs(eager.success - s) <= allowed(restarts + 1)
    assert abs(eager.cost - (1.0 + 0.25 * restarts)) <= allowed(restarts + 1)


def test_a_restart_is_not_free_of_the_runs_it_kills() -> None:
    # a critic that kills successes as often as failures buys nothing
    assert abs(abort_and_restart(0.4, 3, 0.5, 0.5, 0.2).success - 0.4) <= allowed(4)
    assert abort_and_restart(0.4, 3, 0.2, 0.6, 0.2).success < 0.4


def test_shapes() -> None:
    s, n = np.array([0.2, 0.4]), np.array([[1], [2], [5]])
    assert retry_until_accepted(s, n, 0.9, 0.1).attempts.shape == (3, 2)
    assert retry_in_context(s, n, 0.9, 0.1, 0.5).accepted.shape == (3, 2)
    alike = retry_in_context(s, n, 0.9, 0.1, 0.5)
    assert alike.success[2, 1] == retry_in_context(0.4, 5, 0.9, 0.1, 0.5).success
    restart = abort_and_restart(0.4, 2, 0.9, 0.1, s)
    assert restart.success.shape == restart.runs.shape == restart.cost.shape == (2,)
    assert isinstance(retry_until_accepted(0.2, 3, 0.9, 0.1).success, float)
    assert isinstance(retry_in_context(0.2, 3, 0.9, 0.1, 0.5).attempts, float)
    assert isinstance(abort_and_restart(0.4, 2, 0.9, 0.1, 0.3).cost, float)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: retry_until_accepted(0.2, 0, 0.9, 0.1),
            "attempts must be a whole number from 1 on, got 0; give a number of attempts",
        ),
        (
            lambda: retry_in_context(0.2, 3, 0.9, 0.1, 0.0),
            "contamination must be positive and finite, got 0; 1 leaves the odds of the next attempt as they were",
        ),
        (
            lambda: abort_and_restart(0.2, -1, 0.9, 0.1, 0.5),
            "restarts must be a whole number from 0 on, got -1; give a number of restarts",
        ),
        (
            lambda: abort_and_restart(0.2, 1, 0.9, 0.1, 40),
            "spent must lie in [0, 1], got 40; give a probability, not per cent",
        ),
        (
            lambda: retry_until_accepted(0.2, 3, 0.9, 1.1),
            "fpr must lie in [0, 1], got 1.1; give a probability, not per cent",
        ),
    ],
)
def test_messages(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == message

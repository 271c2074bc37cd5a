import math
from dataclasses import replace

import numpy as np
import pytest

from drsim.arrays import FloatArray
from drsim.engine import numba
from drsim.engine.counts import Totals, count_runs
from drsim.engine.law import law_of
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, firing, never
from drsim.process.exact import Exact, evaluate

N, R = 300, 3_000


def rows(rng: np.random.Generator, *shape: int) -> FloatArray:
    """Random probabilities along the last axis, some of them 0."""
    weights = rng.gamma(0.7, size=shape) * (rng.random(shape) < 0.8)
    weights[..., 0] += 1e-3
    probabilities: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def random_model(seed: int, horizon: int = 6, n_states: int = 3) -> CompiledModel:
    rng = np.random.default_rng(seed)
    return CompiledModel(
        start=rows(rng, n_states),
        transitions=rows(rng, horizon, n_states, n_states + 2),
        kernels=rows(rng, 3, horizon, n_states, n_states),
        extra_steps=np.array([1, 0, 3]),
        score_mean=rng.normal(size=n_states),
        score_sd=rng.uniform(0.5, 2, n_states),
        run_sd=0.0,
        temperature=1.0,
        tokens=rng.uniform(0, 1000, horizon),
        critic_tokens=rng.uniform(0, 100, horizon),
        mechanism_tokens=rng.uniform(0, 300, 3),
        usd_per_token=1e-6,
        seconds_per_step=4.0,
    )


def policy(mechanism: int = 0, budget: int = 2, cooldown: int = 1, horizon: int = 6) -> CompiledPolicy:
    return CompiledPolicy(mechanism=mechanism, logit_threshold=np.full(horizon, -0.3), budget=budget, cooldown=cooldown)


def mean_z(values: np.ndarray, expected: float) -> float:
    """Standard errors between the mean of replications and what is expected of one."""
    se = values.std(ddof=1) / math.sqrt(values.size)
    gap = values.mean() - expected
    return float(gap / se) if se > 0 else math.copysign(math.inf, gap) if abs(gap) > 1e-9 * abs(expected) else 0.0


def worst_z(found: Totals, exact: Exact) -> float:
    pairs = (
        (found.success, exact.success),
        (found.capped, exact.capped),
        (found.acts, exact.steps),
        (found.interventions, exact.interventions),
        (found.tokens, exact.tokens),
    )
    return max(abs(mean_z(values, found.n * expected)) for values, expected in pairs)


def spread_z(counts: np.ndarray, n: int, p: float) -> float:
    """Distance of the spread of counts from that of Binomial(n, p): chi-squared, centred and scaled."""
    variance = n * p * (1 - p)
    squares = (counts - n * p) ** 2 / variance
    # fourth central moment of a binomial: 3 v² + v (1 − 6 p (1 − p))
    sd = math.sqrt(2 + (1 - 6 * p * (1 - p)) / variance)
    return float((squares.mean() - 1) / (sd / math.sqrt(squares.size)))


CASES = [
    (seed, *rest) for seed in range(3) for rest in ((0, 2, 1), (1, 9, 2), (2, 2, 2), (2, 1, 5), (0, 0, 0), (-1, 0, 0))
]


@pytest.mark.parametrize(("seed", "mechanism", "budget", "cooldown"), CASES)
def test_totals_have_the_exact_means_and_success_is_binomial(
    seed: int, mechanism: int, budget: int, cooldown: int
) -> None:
    model, rule = random_model(seed), policy(mechanism, budget, cooldown)
    exact = evaluate(model, rule)
    found = count_runs(model, rule, n=N, seed=11, replications=R)
    assert worst_z(found, exact) <= 5
    assert abs(spread_z(found.success, N, exact.success)) <= 5
    assert np.array_equal(found.success + found.fail + found.capped, np.full(R, N))
    assert min(total.min() for total in (found.success, found.fail, found.capped, found.interventions)) >= 0
    assert np.all(found.interventions <= budget * N)


def test_totals_spread_and_hang_together_as_those_of_single_runs() -> None:
    model, rule = random_model(1), policy(1, 3)
    found = count_runs(model, rule, n=N, seed=2, replications=R)
    n_single = 200_000
    runs = numba.run_law(law_of(model, rule), n=n_single, seed=3)
    single = np.cov(np.stack([runs.ending == 1, runs.ending == 2, runs.acts, runs.interventions, runs.tokens]))
    totals = np.cov(np.stack([found.success, found.capped, found.acts, found.interventions, found.tokens])) / N
    spread = np.sqrt(np.outer(np.diag(single), np.diag(single)))
    # Totals of 300 runs are all but normal: a covariance has variance at most 2 σ₁² σ₂² / R. The single runs' own error
    # is less than a third of it, and adds less than a tenth.
    assert np.all(np.abs(totals - single) <= 5 * 1.1 * spread * math.sqrt(2 / R))


def test_success_that_is_shared_by_all_runs_is_found_out() -> None:
    rng = np.random.default_rng(0)
    assert abs(spread_z(rng.binomial(N, 0.4, R), N, 0.4)) <= 5
    assert abs(spread_z(rng.binomial(N, rng.beta(40, 60, R)), N, 0.4)) > 5


def intervened_before_the_act(model: CompiledModel, rule: CompiledPolicy) -> Totals:
    """The steps in the wrong order, for a budget that no run exhausts and no cooldown."""
    rng = np.random.default_rng(5)
    n_states = model.start.size
    live = rng.multinomial(N, model.start, size=R)
    success, fail, acts, interventions = np.zeros((4, R), dtype=np.int64)
    tokens = np.zeros(R)
    for t in range(len(model.tokens)):
        fired = rng.binomial(live, firing(model, rule)[t])
        live = live - fired + rng.multinomial(fired, model.kernels[rule.mechanism, t]).sum(axis=1)
        interventions += fired.sum(axis=1)
        acts += live.sum(axis=1)
        tokens += model.tokens[t] * live.sum(axis=1) + model.mechanism_tokens[rule.mechanism] * fired.sum(axis=1)
        moved = rng.multinomial(live, model.transitions[t]).sum(axis=1)
        live = moved[:, :n_states]
        tokens += model.critic_tokens[t] * live.sum(axis=1)
        success += moved[:, n_states]
        fail += moved[:, n_states + 1]
    return Totals(
        seed=5,
        n=N,
        success=success,
        fail=fail,
        capped=N - success - fail,
        acts=acts,
        interventions=interventions,
        tokens=tokens,
    )


def test_steps_in_the_wrong_order_are_found_out() -> None:
    model, rule = random_model(0), policy(1, budget=6, cooldown=0)
    exact = evaluate(model, rule)
    assert worst_z(count_runs(model, rule, n=N, seed=11, replications=R), exact) <= 5
    wrong = intervened_before_the_act(model, rule)
    assert abs(mean_z(wrong.success, N * exact.success)) > 5
    assert abs(mean_z(wrong.acts, N * exact.steps)) > 5


def test_a_run_that_forgets_its_cooldown_is_found_out() -> None:
    model, rule = random_model(1), policy(1, budget=3, cooldown=2)
    forgetful = count_runs(model, replace(rule, cooldown=0), n=N, seed=11, replications=R)
    assert worst_z(forgetful, evaluate(model, rule)) > 5


@pytest.mark.parametrize("n", [0, 1])
def test_no_run_and_one_run(n: int) -> None:
    found = count_runs(random_model(0), policy(2, 3), n=n, seed=4, replications=200)
    assert np.array_equal(found.success + found.fail + found.capped, np.full(200, n))
    assert np.all(found.acts >= n)
    assert np.all(found.acts <= 6 * n)
    assert np.all((found.tokens > 0) == (n > 0))


def test_as_many_runs_as_one_likes() -> None:
    model, rule = random_model(2), policy(0)
    n = 10**12
    found = count_runs(model, rule, n=n, seed=4)
    p = evaluate(model, rule).success
    assert found.success.shape == (1,)
    assert abs(found.success[0] - n * p) <= 5 * math.sqrt(n * p * (1 - p))


def test_same_arguments_same_totals() -> None:
    model, rule = random_model(2), policy(0)
    first, second, other = (count_runs(model, rule, n=N, seed=seed, replications=5) for seed in (4, 4, 2**64 - 1))
    assert np.array_equal(first.tokens, second.tokens)
    assert np.array_equal(first.success, second.success)
    assert not np.array_equal(first.tokens, other.tokens)


def test_bad_requests_are_named() -> None:
    model, rule = random_model(0), policy()
    shifted = replace(model, run_sd=0.5)
    with pytest.raises(ParameterError, match=r"run_sd must be 0 where runs are only counted, got 0.5.*another engine"):
        count_runs(shifted, rule, n=1, seed=1)
    assert count_runs(shifted, never(shifted), n=7, seed=1).interventions[0] == 0
    with pytest.raises(ParameterError, match=r"n must lie in \[0, 10\^12\], got -1; give a number of runs"):
        count_runs(model, rule, n=-1, seed=1)
    with pytest.raises(ParameterError, match="replications must be at least 1, got 0"):
        count_runs(model, rule, n=1, seed=1, replications=0)
    with pytest.raises(ParameterError, match=r"seed must be a whole number in \[0, 2\^64\), got -1"):
        count_runs(model, rule, n=1, seed=-1)

import math
from dataclasses import replace

import numpy as np
import pytest
from engine.laws import looking_back, policy, random_model

from drsim.engine import numba
from drsim.engine.counts import Totals, count_batches, count_runs
from drsim.engine.law import law_of
from drsim.engine.simulate import Engine, simulate
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, firing, never
from drsim.process.exact import Exact, evaluate
from drsim.process.spec import Signal

N, R = 300, 3_000


def low(mechanism: int = 0, budget: int = 2, cooldown: int = 1) -> CompiledPolicy:
    """Fires often."""
    return policy(mechanism=mechanism, threshold=-0.3, budget=budget, cooldown=cooldown)


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
    return max(abs(mean_z(values, float(found.n[0]) * expected)) for values, expected in pairs)


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
    model, rule = random_model(seed), low(mechanism, budget, cooldown)
    exact = evaluate(model, rule)
    found = count_runs(model, rule, n=N, seed=11, replications=R)
    assert worst_z(found, exact) <= 5
    assert abs(spread_z(found.success, N, exact.success)) <= 5
    assert np.array_equal(found.success + found.fail + found.capped, np.full(R, N))
    assert min(total.min() for total in (found.success, found.fail, found.capped, found.interventions)) >= 0
    assert np.all(found.interventions <= budget * N)


def test_totals_spread_and_hang_together_as_those_of_single_runs() -> None:
    model, rule = random_model(1), low(1, 3)
    found = count_runs(model, rule, n=N, seed=2, replications=R)
    n_single = 200_000
    (runs,) = numba.run_law(law_of(model, [rule]), n=n_single, seed=3)
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
        n=np.full(R, N),
        success=success,
        fail=fail,
        capped=N - success - fail,
        acts=acts,
        interventions=interventions,
        tokens=tokens,
    )


def test_steps_in_the_wrong_order_are_found_out() -> None:
    model, rule = random_model(0), low(1, budget=6, cooldown=0)
    exact = evaluate(model, rule)
    assert worst_z(count_runs(model, rule, n=N, seed=11, replications=R), exact) <= 5
    wrong = intervened_before_the_act(model, rule)
    assert abs(mean_z(wrong.success, N * exact.success)) > 5
    assert abs(mean_z(wrong.acts, N * exact.steps)) > 5


def test_a_run_that_forgets_its_cooldown_is_found_out() -> None:
    model, rule = random_model(1), low(1, budget=3, cooldown=2)
    forgetful = count_runs(model, replace(rule, cooldown=0), n=N, seed=11, replications=R)
    assert worst_z(forgetful, evaluate(model, rule)) > 5


@pytest.mark.parametrize("n", [0, 1])
def test_no_run_and_one_run(n: int) -> None:
    found = count_runs(random_model(0), low(2, 3), n=n, seed=4, replications=200)
    assert np.array_equal(found.success + found.fail + found.capped, np.full(200, n))
    assert np.all(found.acts >= n)
    assert np.all(found.acts <= 6 * n)
    assert np.all((found.tokens > 0) == (n > 0))


def test_as_many_runs_as_one_likes() -> None:
    model, rule = random_model(2), low(0)
    n = 10**12
    found = count_runs(model, rule, n=n, seed=4)
    p = evaluate(model, rule).success
    assert found.success.shape == (1,)
    assert abs(found.success[0] - n * p) <= 5 * math.sqrt(n * p * (1 - p))


def test_same_arguments_same_totals() -> None:
    model, rule = random_model(2), low(0)
    first, second, other = (count_runs(model, rule, n=N, seed=seed, replications=5) for seed in (4, 4, 2**64 - 1))
    assert np.array_equal(first.tokens, second.tokens)
    assert np.array_equal(first.success, second.success)
    assert not np.array_equal(first.tokens, other.tokens)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_tasks_that_differ(n_classes: int) -> None:
    """Every run has a task of its own, so that success is binomial still."""
    model, rule = random_model(1, n_classes=n_classes), low()
    exact = evaluate(model, rule)
    found = count_runs(model, rule, n=N, seed=11, replications=R)
    assert worst_z(found, exact) <= 5
    assert abs(spread_z(found.success, N, exact.success)) <= 5
    assert worst_z(count_runs(replace(model, tasks=None), rule, n=N, seed=11, replications=R), exact) > 5


def test_a_trigger_is_acted_on_with_its_propensity() -> None:
    model, rule = random_model(0), replace(low(), propensity=0.3)
    exact = evaluate(model, rule)
    assert worst_z(count_runs(model, rule, n=N, seed=11, replications=R), exact) <= 5
    assert worst_z(count_runs(model, replace(rule, propensity=0.6), n=N, seed=11, replications=R), exact) > 5


def test_sizes_of_batches_may_differ() -> None:
    model, rule = random_model(0), low()
    sizes = np.array([0, 1, 10, 1000])
    found = count_batches(model, rule, sizes=sizes, seed=3)
    assert np.array_equal(found.success + found.fail + found.capped, sizes)


def test_a_shift_matters_only_where_a_score_is_read() -> None:
    shifted = random_model(0, run_sd=0.5)
    always = policy(threshold=-np.inf)
    assert worst_z(count_runs(shifted, always, n=N, seed=11, replications=R), evaluate(shifted, always)) <= 5


def test_what_looks_back_is_refused() -> None:
    rule = looking_back(policy(), Signal.VOTES, 0.2, 3, 2)
    with pytest.raises(ParameterError, match="got signal votes; simulate it"):
        count_runs(random_model(0), rule, n=1, seed=1)


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
def test_simulation_by_counts_asks_for_the_same(run_sd: float) -> None:
    """Batches went unchecked: policies that read scores with a shift were counted as if there were none."""
    model = random_model(1, run_sd=run_sd)
    with pytest.raises(ParameterError, match="got signal belief; simulate it"):
        simulate(model, {"p": looking_back(policy(), Signal.BELIEF, 0.4)}, n=9, seed=1, engine=Engine.COUNTS)
    always = simulate(model, {"p": policy(threshold=-np.inf)}, n=1_000_000, seed=1, engine=Engine.COUNTS).policies["p"]
    assert abs(always.success.z(evaluate(model, policy(threshold=-np.inf)).success)) <= 5
    if run_sd > 0:
        with pytest.raises(ParameterError, match=r"run_sd must be 0 where runs are only counted, got 0\.8"):
            simulate(model, {"p": low()}, n=9, seed=1, engine=Engine.COUNTS)


def test_bad_requests_are_named() -> None:
    model, rule = random_model(0), low()
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

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.arrays import FloatArray
from drsim.engine import numba, reference
from drsim.engine.estimates import Estimate, Moments
from drsim.engine.law import Law, law_of
from drsim.engine.records import simulated_runs
from drsim.engine.runs import Ending, SimulatedRuns
from drsim.engine.simulate import RUNS_AT_ONCE, Engine, run_engine, simulate
from drsim.errors import ParameterError
from drsim.inference.static import fit_cell
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Pilot
from drsim.process.compile import CompiledModel, CompiledPolicy, never
from drsim.process.exact import evaluate

N = 40_000


def rows(rng: np.random.Generator, *shape: int) -> FloatArray:
    """Random probabilities along the last axis, some of them 0."""
    weights = rng.gamma(0.7, size=shape) * (rng.random(shape) < 0.8)
    weights[..., 0] += 1e-3
    probabilities: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def random_model(seed: int, horizon: int = 6, n_states: int = 3, run_sd: float = 0.0) -> CompiledModel:
    rng = np.random.default_rng(seed)
    return CompiledModel(
        start=rows(rng, n_states),
        transitions=rows(rng, horizon, n_states, n_states + 2),
        kernels=rows(rng, 2, horizon, n_states, n_states),
        extra_steps=np.array([1, 0]),
        score_mean=rng.normal(size=n_states),
        score_sd=rng.uniform(0.5, 2, n_states),
        run_sd=run_sd,
        temperature=1.0,
        tokens=rng.uniform(0, 1000, horizon),
        critic_tokens=rng.uniform(0, 100, horizon),
        mechanism_tokens=rng.uniform(0, 300, 2),
        usd_per_token=1e-6,
        seconds_per_step=4.0,
    )


def policy(
    horizon: int, mechanism: int = 0, threshold: float = 0.0, budget: int = 2, cooldown: int = 1
) -> CompiledPolicy:
    return CompiledPolicy(
        mechanism=mechanism, logit_threshold=np.full(horizon, threshold), budget=budget, cooldown=cooldown
    )


@settings(deadline=None, max_examples=40)
@given(
    model_seed=st.integers(0, 10_000),
    n_states=st.integers(2, 4),
    horizon=st.integers(1, 8),
    run_sd=st.sampled_from([0.0, 0.8]),
    mechanism=st.sampled_from([-1, 0, 1]),
    threshold=st.sampled_from([-np.inf, -0.5, 0.7, np.inf]),
    budget=st.integers(0, 4),
    cooldown=st.integers(0, 3),
    seed=st.integers(0, 2**64 - 1),
    first=st.sampled_from([0, 5, 2**32 - 3, 2**40]),
)
def test_engines_give_the_same_runs_to_the_bit(
    model_seed: int,
    n_states: int,
    horizon: int,
    run_sd: float,
    mechanism: int,
    threshold: float,
    budget: int,
    cooldown: int,
    seed: int,
    first: int,
) -> None:
    model = random_model(model_seed, horizon, n_states, run_sd)
    law = law_of(model, policy(horizon, mechanism, threshold, budget, cooldown))
    plain = reference.run_law(law, n=60, seed=seed, first=first)
    assert plain.is_equal(numba.run_law(law, n=60, seed=seed, first=first))


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
def test_chunks_and_threads_change_nothing(run_sd: float) -> None:
    law = law_of(random_model(3, run_sd=run_sd), policy(6))
    whole = numba.run_law(law, n=1_000, seed=5)
    for engine in (reference.run_law, numba.run_law):
        parts = [engine(law, n=size, seed=5, first=first) for first, size in ((0, 1), (1, 499), (500, 500))]
        for name in ("ending", "acts", "interventions", "fired_at", "tokens"):
            assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    for threads in range(1, min(3, numba.numba.config.NUMBA_NUM_THREADS) + 1):  # type: ignore[attr-defined] # set late
        assert numba.run_law(law, n=1_000, seed=5, threads=threads).is_equal(whole)


def test_another_seed_gives_other_runs() -> None:
    law = law_of(random_model(3), policy(6))
    assert not numba.run_law(law, n=1_000, seed=5).is_equal(numba.run_law(law, n=1_000, seed=6))


def worst_z(model: CompiledModel, rule: CompiledPolicy, runs: SimulatedRuns) -> float:
    """Largest distance, in standard errors, between simulated means and the exact recursion."""
    exact = evaluate(model, rule)
    worst = 0.0
    for values, expected in (
        (runs.ending == Ending.SUCCESS, exact.success),
        (runs.ending == Ending.CAPPED, exact.capped),
        (runs.acts, exact.steps),
        (runs.interventions, exact.interventions),
        (runs.tokens, exact.tokens),
    ):
        moments = Moments()
        moments.add(values)
        worst = max(worst, abs(moments.estimate().z(expected)))
    return worst


CASES = [
    (seed, run_sd, mechanism, threshold)
    for seed in range(4)
    for run_sd in (0.0, 0.8)
    for mechanism, threshold in ((0, 0.3), (1, -0.5), (-1, 0.0))
]


@pytest.mark.parametrize(("seed", "run_sd", "mechanism", "threshold"), CASES)
def test_means_agree_with_the_exact_recursion(seed: int, run_sd: float, mechanism: int, threshold: float) -> None:
    model = random_model(seed, run_sd=run_sd)
    rule = policy(6, mechanism, threshold)
    assert worst_z(model, rule, numba.run_law(law_of(model, rule), n=N, seed=11)) <= 5


def test_a_run_that_forgets_its_cooldown_is_found_out() -> None:
    model, rule = random_model(1), policy(6, 1, -0.5, budget=3, cooldown=2)
    forgetful = law_of(model, replace(rule, cooldown=0))
    assert worst_z(model, rule, numba.run_law(forgetful, n=N, seed=11)) > 5


def test_shared_draws_make_the_difference_sharper() -> None:
    model, rule = random_model(2), policy(6, 0, 1.5)
    shared = simulate(model, {"late": rule}, n=N, seed=3).policies["late"].gain
    aided = numba.run_law(law_of(model, rule), n=N, seed=3).ending == Ending.SUCCESS
    alone = numba.run_law(law_of(model, never(model)), n=N, seed=4).ending == Ending.SUCCESS
    apart = float(np.sqrt((aided.var() + alone.var()) / N))
    assert shared.se < 0.9 * apart
    assert abs(shared.z(evaluate(model, rule).gain)) <= 5


def test_engine_and_parts_do_not_show_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rule = random_model(2, run_sd=0.8), policy(6)
    whole = simulate(model, {"late": rule}, n=3_000, seed=3)
    plain = simulate(model, {"late": rule}, n=3_000, seed=3, engine=Engine.REFERENCE)
    assert whole.policies == plain.policies
    assert whole.baseline == plain.baseline
    monkeypatch.setattr("drsim.engine.simulate.RUNS_AT_ONCE", 1_000)
    done: list[int] = []
    parts = simulate(model, {"late": rule}, n=3_000, seed=3, progress=done.append)
    assert done == [1_000, 2_000, 3_000]
    assert parts.policies["late"].success == whole.policies["late"].success
    assert RUNS_AT_ONCE == 2**18


def test_interrupt_keeps_the_parts_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drsim.engine.simulate.RUNS_AT_ONCE", 1_000)

    def stop(done: int) -> None:
        if done == 2_000:
            monkeypatch.setattr("drsim.engine.simulate.run_engine", interrupted)

    def interrupted(law: Law, engine: Engine, *, n: int, seed: int, first: int = 0) -> SimulatedRuns:
        raise KeyboardInterrupt

    found = simulate(random_model(2), {"late": policy(6)}, n=9_000, seed=3, progress=stop)
    assert found.n == 2_000
    assert found.policies["late"].success.n == 2_000


def test_simulated_pilot_can_be_fitted() -> None:
    model, rule = random_model(0), policy(6, 1, -0.5)
    n = 3_000
    runs = list(simulated_runs(model, {"append": (rule, "append")}, name="toy", n=n, seed=5, engine=Engine.NUMBA))
    index = np.arange(len(runs), dtype=np.int64)
    (cell,) = cells_of(Pilot(runs=runs, sources=("s",), source_of=0 * index, line_of=index + 1)).cells
    assert cell.n_paired == n
    gain = fit_cell(cell, seed=1).gain
    assert gain is not None
    exact = evaluate(model, rule)
    assert abs(gain.summary.mean - exact.gain) <= 5 * gain.summary.sd
    # Arms of a pilot are independent given the model: their table is that of the independent coupling.
    counts = np.array([cell.counts[letter] for letter in "ABCD"]) / n
    joint = exact.independent
    expected = np.array([joint.fail_fail, joint.success_fail, joint.fail_success, joint.success_success])
    assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - expected) / n))
    triggers = [run for run in runs if run.arm == "append" and run.interventions]
    assert all(trigger.mechanism == "append" for run in triggers for trigger in run.interventions)


def test_estimate_of_a_constant_has_no_error() -> None:
    moments = Moments()
    moments.add(np.ones(10))
    assert moments.estimate() == Estimate(value=1.0, se=0.0, n=10)
    assert moments.estimate().z(1.0) == 0.0
    assert moments.estimate().z(0.9) == np.inf


def test_bad_requests_are_named() -> None:
    model = random_model(0)
    with pytest.raises(ParameterError, match="n must be at least 1, got 0; give a number of runs"):
        simulate(model, {}, n=0, seed=1)
    law = law_of(model, never(model))
    with pytest.raises(ParameterError, match=r"threads must lie in \[1, \d+\], got 0"):
        numba.run_law(law, n=1, seed=1, threads=0)
    with pytest.raises(ParameterError, match=r"seed must be a whole number in \[0, 2\^64\), got -1"):
        run_engine(law, Engine.REFERENCE, n=1, seed=-1)

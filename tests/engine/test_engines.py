import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from engine.laws import all_equal, looking_back, policies, policy, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.engine import numba, reference
from drsim.engine.estimates import Estimate, Moments
from drsim.engine.law import Law, law_of
from drsim.engine.records import simulated_runs
from drsim.engine.runs import Ending, SimulatedRuns, join_runs
from drsim.engine.simulate import RUNS_AT_ONCE, Engine, PolicyEstimates, run_engine, simulate
from drsim.errors import ParameterError
from drsim.inference.static import fit_cell
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import Outcome
from drsim.process.compile import CompiledModel, CompiledPolicy, never
from drsim.process.exact import evaluate
from drsim.process.spec import Signal

N = 40_000


@settings(deadline=None, max_examples=60)
@given(data=st.data(), horizon=st.integers(1, 8))
def test_engines_give_the_same_runs_to_the_bit(data: st.DataObject, horizon: int) -> None:
    model = random_model(
        data.draw(st.integers(0, 10_000)),
        horizon,
        data.draw(st.integers(2, 4)),
        data.draw(st.sampled_from([0.0, 0.8])),
        data.draw(st.sampled_from([0, 3])),
    )
    law = law_of(model, data.draw(st.lists(policies(horizon), min_size=1, max_size=5)))
    seed, first = data.draw(st.integers(0, 2**64 - 1)), data.draw(st.sampled_from([0, 5, 2**32 - 3, 2**40]))
    first_task = data.draw(st.sampled_from([None, 0, 2**33]))
    plain = reference.run_law(law, n=60, seed=seed, first=first, first_task=first_task)
    assert all_equal(numba.run_law(law, n=60, seed=seed, first=first, first_task=first_task), plain)


MIXED = [
    policy(),
    looking_back(policy(), Signal.BELIEF, 0.4),
    looking_back(policy(mechanism=1), Signal.MEAN, 0.5, 3),
    replace(looking_back(policy(mechanism=2), Signal.VOTES, 0.2, 3, 2), propensity=0.5),
    policy(mechanism=-1),
]


@pytest.mark.parametrize(("run_sd", "n_classes"), [(0.0, 0), (0.8, 4)])
def test_chunks_and_threads_change_nothing(run_sd: float, n_classes: int) -> None:
    law = law_of(random_model(3, run_sd=run_sd, n_classes=n_classes), MIXED)
    whole = numba.run_law(law, n=5_000, seed=5)
    for engine in (reference.run_law, numba.run_law):
        sizes = ((0, 1), (1, 2_499), (2_500, 2_500))
        parts = [engine(law, n=size, seed=5, first=first) for first, size in sizes]
        assert all_equal([join_runs([part[k] for part in parts]) for k in range(len(MIXED))], whole)
    for threads in range(1, min(3, numba.numba.config.NUMBA_NUM_THREADS) + 1):  # type: ignore[attr-defined] # set late
        assert all_equal(numba.run_law(law, n=5_000, seed=5, threads=threads), whole)


@pytest.mark.parametrize("run_law", [reference.run_law, numba.run_law])
def test_policies_in_one_pass_have_the_runs_of_each_alone(run_law: Callable[..., list[SimulatedRuns]]) -> None:
    model = random_model(3, run_sd=0.8, n_classes=4)
    together = run_law(law_of(model, MIXED), n=3_000, seed=5)
    apart = [run_law(law_of(model, [rule]), n=3_000, seed=5)[0] for rule in MIXED]
    assert all_equal(together, apart)


def test_another_seed_gives_other_runs() -> None:
    law = law_of(random_model(3), [policy()])
    assert not all_equal(numba.run_law(law, n=1_000, seed=5), numba.run_law(law, n=1_000, seed=6))


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
    (seed, run_sd, n_classes, propensity, mechanism, threshold)
    for seed in range(4)
    for run_sd, n_classes in ((0.0, 0), (0.8, 0), (0.0, 5), (0.8, 3))
    for propensity, mechanism, threshold in ((1.0, 0, 0.3), (0.3, 1, -0.5), (0.6, 2, -np.inf), (1.0, -1, 0.0))
]


@pytest.mark.parametrize(("seed", "run_sd", "n_classes", "propensity", "mechanism", "threshold"), CASES)
def test_means_agree_with_the_exact_recursion(
    seed: int, run_sd: float, n_classes: int, propensity: float, mechanism: int, threshold: float
) -> None:
    model = random_model(seed, run_sd=run_sd, n_classes=n_classes)
    rule = replace(policy(6, mechanism, threshold), propensity=propensity)
    (runs,) = numba.run_law(law_of(model, [rule]), n=N, seed=11)
    assert worst_z(model, rule, runs) <= 5
    if propensity < 1.0:
        # triggers that were acted on, of all: no run has more of them than its budget
        triggers = runs.interventions.sum() + runs.withheld.sum()
        z = (runs.interventions.sum() - propensity * triggers) / math.sqrt(triggers * propensity * (1 - propensity))
        assert abs(z) <= 5


def test_a_run_that_forgets_its_cooldown_is_found_out() -> None:
    model, rule = random_model(1), policy(6, 1, -0.5, budget=3, cooldown=2)
    forgetful = law_of(model, [replace(rule, cooldown=0)])
    assert worst_z(model, rule, numba.run_law(forgetful, n=N, seed=11)[0]) > 5


def test_runs_of_one_task_hang_together_as_much_as_is_said() -> None:
    model = random_model(3, n_classes=4)
    law, exact = law_of(model, [never(model)]), evaluate(model, never(model))

    def correlation(first: int, first_task: int) -> Estimate:
        """Of runs 0 … N − 1 on tasks 0 … N − 1 with others."""
        pairs = [
            numba.run_law(law, n=N, seed=4, first=at, first_task=task)[0].ending == Ending.SUCCESS
            for at, task in ((0, 0), (first, first_task))
        ]
        moments, p = Moments(), exact.success
        moments.add((pairs[0] - p) * (pairs[1] - p) / (p * (1 - p)))
        return moments.estimate()

    assert exact.rho > 0.02
    assert abs(correlation(N, 0).z(exact.rho)) <= 5
    assert abs(correlation(N, N).z(0.0)) <= 5
    assert abs(correlation(N, N).z(exact.rho)) > 5


def test_shared_draws_make_the_difference_sharper() -> None:
    model, rule = random_model(2), policy(6, 0, 1.5)
    shared = simulate(model, {"late": rule}, n=N, seed=3).policies["late"].gain
    aided = numba.run_law(law_of(model, [rule]), n=N, seed=3)[0].ending == Ending.SUCCESS
    alone = numba.run_law(law_of(model, [never(model)]), n=N, seed=4)[0].ending == Ending.SUCCESS
    apart = float(np.sqrt((aided.var() + alone.var()) / N))
    assert shared.se < 0.9 * apart
    assert abs(shared.z(evaluate(model, rule).gain)) <= 5


@pytest.mark.parametrize(("run_sd", "n_classes"), [(0.0, 0), (0.8, 0), (0.0, 4)])
def test_recovery_and_disruption_under_both_couplings(run_sd: float, n_classes: int) -> None:
    model, rule = random_model(2, run_sd=run_sd, n_classes=n_classes), policy(6, 0, 0.2)
    exact = evaluate(model, rule)
    found = simulate(model, {"p": rule}, n=4 * N, seed=3).policies["p"].couplings
    assert found is not None
    assert abs(found.recovery_shared_prefix.z(exact.shared_prefix.recovery)) <= 5
    assert abs(found.disruption_shared_prefix.z(exact.shared_prefix.disruption)) <= 5
    assert abs(found.recovery_independent.z(exact.independent.recovery)) <= 5
    assert abs(found.disruption_independent.z(exact.independent.disruption)) <= 5
    assert abs(found.recovery_independent.z(exact.shared_prefix.recovery)) > 5


def test_histograms_hold_every_run() -> None:
    model, rule = random_model(2), policy(6, 1, 0.2)
    found = simulate(model, {"p": rule}, n=N, seed=3).policies["p"]
    assert found.histograms is not None
    steps, tokens = found.histograms.steps, found.histograms.tokens
    assert steps.counts.sum() == tokens.counts.sum() == N
    assert steps.edges[:-1] @ steps.counts / N == pytest.approx(found.steps.value, rel=1e-12)
    (runs,) = numba.run_law(law_of(model, [rule]), n=N, seed=3)
    assert runs.tokens.max() <= tokens.edges[-1]
    expected = np.histogram(runs.tokens, tokens.edges)[0]
    # a value on an edge may round to either side of it
    assert np.abs(expected - tokens.counts).sum() <= 2 * np.isin(runs.tokens, tokens.edges).sum()
    for level in (0.1, 0.5, 0.9):
        assert np.mean(runs.acts <= steps.quantile(level) - 1) >= level
        assert np.mean(runs.acts <= steps.quantile(level) - 2) < level


def test_counts_give_the_same_means_with_honest_errors() -> None:
    model, rule = random_model(1, n_classes=3), policy(6, 1, -0.5)
    exact = evaluate(model, rule)
    found = [
        simulate(model, {"p": rule}, n=1_000, seed=seed, engine=Engine.COUNTS).policies["p"] for seed in range(200)
    ]
    for name in ("success", "capped", "steps", "interventions", "tokens", "gain"):
        z = np.array([getattr(it, name).z(getattr(exact, name)) for it in found])
        # z has mean 0 and, where the error comes from 64 batches, a t distribution's variance 63/61
        assert abs(z.mean()) <= 5 * math.sqrt(63 / 61 / z.size), name
        assert abs(z.var() / (63 / 61) - 1) <= 5 * math.sqrt(2 / z.size), name
        # errors as of twice as many runs
        assert abs(2 * z.var() / (63 / 61) - 1) > 5 * math.sqrt(2 / z.size), name
    assert found[0].histograms is None
    assert found[0].couplings is None
    single = simulate(model, {"p": rule}, n=1, seed=1, engine=Engine.COUNTS).policies["p"]
    assert single.steps.se == math.inf


def same_histograms(one: PolicyEstimates, other: PolicyEstimates) -> bool:
    assert one.histograms is not None
    assert other.histograms is not None
    pairs = [(getattr(one.histograms, it), getattr(other.histograms, it)) for it in ("steps", "tokens")]
    return all(np.array_equal(a.counts, b.counts) and np.array_equal(a.edges, b.edges) for a, b in pairs)


def same_estimates(one: PolicyEstimates, other: PolicyEstimates) -> bool:
    """Every field to the bit; histograms hold arrays, which have no equality of their own."""
    numbers = (replace(one, histograms=None), replace(other, histograms=None))
    return numbers[0] == numbers[1] and same_histograms(one, other)


def test_engine_and_parts_do_not_show_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rule = random_model(2, run_sd=0.8), policy(6)
    whole = simulate(model, {"late": rule}, n=3_000, seed=3)
    plain = simulate(model, {"late": rule}, n=3_000, seed=3, engine=Engine.REFERENCE)
    assert same_estimates(whole.policies["late"], plain.policies["late"])
    assert same_estimates(whole.baseline, plain.baseline)
    other = simulate(model, {"late": rule}, n=3_000, seed=4)
    assert not same_estimates(whole.policies["late"], other.policies["late"])
    monkeypatch.setattr("drsim.engine.simulate.RUNS_AT_ONCE", 1_000)
    done: list[int] = []
    parts = simulate(model, {"late": rule}, n=3_000, seed=3, progress=done.append)
    assert done == [1_000, 2_000, 3_000]
    for it, expected in ((parts.policies["late"], whole.policies["late"]), (parts.baseline, whole.baseline)):
        assert (it.success, it.capped, it.gain) == (expected.success, expected.capped, expected.gain)
        assert (it.steps, it.interventions) == (expected.steps, expected.interventions)
        assert same_histograms(it, expected)
    assert RUNS_AT_ONCE == 2**18


def test_interrupt_keeps_the_parts_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drsim.engine.simulate.RUNS_AT_ONCE", 1_000)

    def stop(done: int) -> None:
        if done == 2_000:
            monkeypatch.setattr("drsim.engine.simulate.run_engine", interrupted)

    def interrupted(law: Law, engine: Engine, *, n: int, seed: int, first: int = 0) -> list[SimulatedRuns]:
        raise KeyboardInterrupt

    found = simulate(random_model(2), {"late": policy(6)}, n=9_000, seed=3, progress=stop)
    assert found.n == 2_000
    assert found.policies["late"].success.n == 2_000


def test_trials_share_a_task_and_triggers_their_propensity() -> None:
    model = random_model(3, n_classes=4)
    rule = replace(policy(6, 1, -0.5), propensity=0.25)
    arms = {"append": (rule, "append")}
    made = simulated_runs(model, arms, name="toy", n=500, trials=3, seed=5, engine=Engine.REFERENCE)
    runs = list(made)
    assert len(runs) == 500 * 3 * 2
    assert {run.trial for run in runs} == {0, 1, 2}
    tasks = np.array([run.task_id for run in runs]).reshape(6, 500)
    assert np.all(tasks == tasks[0])
    assert len(set(tasks[0])) == 500
    success = np.array([run.outcome == Outcome.SUCCESS for run in runs]).reshape(2, 3, 500)
    pairs = np.mean(success[0, 0] * success[0, 1]) - success[0].mean() ** 2
    assert pairs > 0.02, "trials of a task hang together"
    triggers = [it for run in runs for it in run.interventions or ()]
    assert {it.propensity for it in triggers} == {0.25}
    acted = sum(it.acted for it in triggers)
    assert abs(acted - 0.25 * len(triggers)) <= 5 * math.sqrt(len(triggers) * 0.25 * 0.75)
    assert all(a.t < b.t for run in runs for a, b in itertools.pairwise(run.interventions or ()))


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
    law = law_of(model, [never(model)])
    with pytest.raises(ParameterError, match=r"threads must lie in \[1, \d+\], got 0"):
        numba.run_law(law, n=1, seed=1, threads=0)
    with pytest.raises(ParameterError, match=r"seed must be a whole number in \[0, 2\^64\), got -1"):
        run_engine(law, Engine.REFERENCE, n=1, seed=-1)

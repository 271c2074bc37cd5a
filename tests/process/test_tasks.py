"""Tasks that differ, and policies whose values are not exact."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from process.chains import REFERENCE

from drsim.engine.counts import count_runs
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, compile_model, compile_policy, firing, never
from drsim.process.exact import evaluate, unaided
from drsim.process.spec import Mode, Model, Policy, Signal
from drsim.process.steps import step_values
from drsim.process.toml import format_model, parse_model
from drsim.process.trace import trace

EXACT = 1e-12


def differing(finish_sd: float = 0.7, slip_sd: float = 0.5) -> Model:
    return replace(REFERENCE, agent=replace(REFERENCE.agent, finish_task_sd=finish_sd, slip_task_sd=slip_sd))


def shifted(probability: float, by: float) -> float:
    if probability in (0.0, 1.0):
        return probability
    return 1.0 / (1.0 + math.exp(-math.log(probability / (1.0 - probability)) - by))


def of_task(model: Model, effect: float) -> CompiledModel:
    """The model of one task, written down step by step."""
    agent, horizon = model.agent, model.horizon
    finish = tuple(shifted(float(p), agent.finish_task_sd * effect) for p in step_values(agent.finish, horizon))
    slips = {name: step_values(mode.slip, horizon) for name, mode in agent.modes.items()}
    together = sum(slips.values())
    moved = [shifted(float(p), -agent.slip_task_sd * effect) for p in np.asarray(together)]
    modes: dict[str, Mode] = {
        name: replace(agent.modes[name], slip=tuple((np.array(moved) * slip / together).tolist()))
        for name, slip in slips.items()
    }
    alike = replace(agent, finish=finish, modes=modes, finish_task_sd=0.0, slip_task_sd=0.0)
    return compile_model(replace(model, agent=alike))


@pytest.mark.parametrize("name", ["middling", "late"])
def test_values_are_means_over_the_tasks(name: str) -> None:
    model = differing()
    found = evaluate(compile_model(model), compile_policy(model, name))
    policy = compile_policy(REFERENCE, name)
    effects, weights = hermegauss(41)
    weights /= weights.sum()
    by_task = [evaluate(of_task(model, float(effect)), policy) for effect in effects]
    for field in ("success", "capped", "steps", "interventions", "tokens", "baseline"):
        assert getattr(found, field) == pytest.approx(
            float(weights @ [getattr(it, field) for it in by_task]), abs=EXACT
        ), field
    alone = np.array([it.baseline for it in by_task])
    aided = np.array([it.success for it in by_task])
    assert found.independent.fail_success == pytest.approx(float(weights @ ((1 - alone) * aided)), abs=EXACT)
    assert found.independent.success_fail == pytest.approx(float(weights @ (alone * (1 - aided))), abs=EXACT)
    shared = [it.shared_prefix.fail_success for it in by_task]
    assert found.shared_prefix.fail_success == pytest.approx(float(weights @ shared), abs=EXACT)
    mean = float(weights @ alone)
    variance = float(weights @ alone**2) - mean**2
    assert found.rho == pytest.approx(variance / (mean * (1 - mean)), abs=EXACT)
    # independent runs that only share the model would make another table, and ρ = 0
    assert abs(found.independent.fail_success - (1 - mean) * found.success) > 1e-3


def test_trace_and_unaided_agree_with_the_values() -> None:
    model = differing()
    arrays, policy = compile_model(model), compile_policy(model, "late")
    exact, steps = evaluate(arrays, policy), trace(arrays, policy)
    n_states = len(model.agent.modes) + 1
    assert steps.states[-1, n_states] == pytest.approx(exact.success, abs=EXACT)
    assert steps.acting.sum() == pytest.approx(exact.steps, abs=EXACT)
    assert steps.interventions.sum() == pytest.approx(exact.interventions, abs=EXACT)
    assert arrays.tasks is not None
    alone = unaided(arrays)[:, 0, :] @ arrays.start
    assert float(arrays.tasks.weights @ alone) == pytest.approx(exact.baseline, abs=EXACT)
    assert np.all(np.diff(alone) > 0), "easier tasks succeed more often"


def test_alike_tasks_have_no_correlation_and_a_larger_spread_has_more() -> None:
    rho = [evaluate(it, never(it)).rho for it in map(compile_model, map(differing, (0.0, 0.5, 1.5), (0.0, 0.0, 0.0)))]
    assert rho[0] == 0.0
    assert rho[0] < rho[1] < rho[2] < 1.0


def test_a_withheld_trigger_leaves_the_run_as_it_was() -> None:
    """Half the propensity is half the firing probability in every step."""
    half = replace(REFERENCE, policies={"p": replace(REFERENCE.policies["late"], propensity=0.5)})
    arrays = compile_model(half)
    np.testing.assert_allclose(
        firing(arrays, compile_policy(half, "p")),
        0.5 * firing(arrays, compile_policy(REFERENCE, "late")),
        rtol=0,
        atol=EXACT,
    )


def test_every_third_step_is_a_gate() -> None:
    policy = replace(REFERENCE.policies["late"], every=3)
    gates = tuple(0.7 if t >= 4 and (t - 4) % 3 == 0 else 1.0 for t in range(15))
    same = replace(REFERENCE.policies["late"], threshold=gates, first_step=0)
    model = replace(REFERENCE, policies={"every": policy, "same": same})
    arrays = compile_model(model)
    assert evaluate(arrays, compile_policy(model, "every")) == evaluate(arrays, compile_policy(model, "same"))


LATE = REFERENCE.policies["late"]


@pytest.mark.parametrize(
    "policy",
    [
        replace(LATE, signal=Signal.BELIEF),
        replace(LATE, signal=Signal.MEAN, window=3),
        replace(LATE, signal=Signal.VOTES, window=3, votes=2),
    ],
)
def test_what_looks_back_is_not_called_exact(policy: Policy) -> None:
    model = replace(REFERENCE, policies={"p": policy})
    arrays, rule = compile_model(model), compile_policy(model, "p")
    message = f"policy must read the score of a step alone to be exact, got signal {policy.signal}; simulate it"
    for call in (
        lambda: evaluate(arrays, rule),
        lambda: trace(arrays, rule),
        lambda: count_runs(arrays, rule, n=1, seed=1),
    ):
        with pytest.raises(ParameterError, match=message):
            call()
    assert parse_model(format_model(model), source="x") == model


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "cooldown = 0",
            'signal = "beleif"',
            "signal: must be one of score, belief, mean, votes; did you mean 'belief'",
        ),
        ("cooldown = 0", 'signal = "mean"', "window: must be a whole number from 1 to 1000, the scores looked back on"),
        ("cooldown = 0", "window = 3", "window: must be left out where the signal is score, which does not read it"),
        (
            "cooldown = 0",
            'signal = "votes"\nwindow = 3\nvotes = 4',
            "votes: must be a whole number from 1 to 3, at most window",
        ),
        ("cooldown = 0", "every = 0", "every: must be a whole number from 1 to"),
        ("cooldown = 0", "propensity = 0.0", "propensity: must be above 0 at every step"),
        ("cooldown = 0", "propensity = 50", r"propensity: must lie in \[0, 1\], a probability and not per cent"),
        ("cooldown = 0", "propensity = [0.5, 0.5]", "propensity: must have one number per step, 15 for this horizon"),
        ("start_off = 0.0", "finish_task_sd = -1", r"finish_task_sd: must lie in \[0, 3\]"),
    ],
)
def test_each_new_rule_names_its_field(old: str, new: str, message: str) -> None:
    text = format_model(REFERENCE)
    for name in ("every", "propensity", "signal", "finish_task_sd"):
        text = "\n".join(line for line in text.splitlines() if not line.startswith(f"{name} ="))
    with pytest.raises(Exception, match=message):
        parse_model(text.replace(old, new, 1), source="x")

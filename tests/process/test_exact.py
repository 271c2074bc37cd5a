import subprocess
import sys
from dataclasses import replace
from math import nan

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from process.chains import REFERENCE, Path, models, paths

from drsim.arrays import FloatArray
from drsim.errors import ConvergenceError
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy, firing, never
from drsim.process.coupling import Joint
from drsim.process.exact import Exact, evaluate, unaided
from drsim.process.quadrature import mean_over_shift, shift_nodes
from drsim.process.spec import Agent, Critic, Mechanism, Mode, Model, Policy
from drsim.process.trace import trace

EXACT = 1e-12
approx = pytest.approx


def compiled(model: Model, name: str = "p") -> tuple[CompiledModel, CompiledPolicy]:
    return compile_model(model), compile_policy(model, name)


def values_of(model: Model, name: str = "p") -> Exact:
    return evaluate(*compiled(model, name))


def test_baseline_of_the_reference() -> None:
    model = compile_model(REFERENCE)
    assert evaluate(model, never(model)).success == approx(0.587228185255, abs=1e-12)
    assert model.start @ unaided(model)[0] == approx(0.587228185255, abs=1e-12)


@pytest.mark.parametrize(("name", "success"), [("middling", 0.61146), ("late", 0.63901), ("early", 0.60346)])
def test_policies_of_the_reference(name: str, success: float) -> None:
    assert round(values_of(REFERENCE, name).success, 5) == success


def test_shared_prefix_of_the_reference() -> None:
    (ff, fs), (sf, ss) = values_of(REFERENCE, "middling").shared_prefix.table
    assert [round(it, 4) for it in (ff, fs, sf, ss)] == [0.2507, 0.1621, 0.1378, 0.4494]


def enumerated_table(model: Model, found: list[Path]) -> list[float]:
    """The shared prefix by enumeration: what the unaided run does after the first firing, given its state there."""
    table = [0.0] * 4
    for path in found:
        is_success = path.end == "success"
        if not path.firings:
            table[3 if is_success else 0] += path.probability
            continue
        t, state = path.firings[0]
        alone = sum(it.probability for it in paths(model, None, start={state: 1.0}, t=t + 1) if it.end == "success")
        table[1 if is_success else 0] += path.probability * (1.0 - alone)
        table[3 if is_success else 2] += path.probability * alone
    return table


@settings(deadline=None, max_examples=60)
@given(models())
def test_every_value_equals_enumeration(model: Model) -> None:
    found = list(paths(model, "p"))
    exact = values_of(model)

    def mean(values: list[float]) -> float:
        return sum(path.probability * value for path, value in zip(found, values, strict=True))

    assert sum(path.probability for path in found) == approx(1.0, abs=EXACT)
    assert exact.success == approx(mean([path.end == "success" for path in found]), abs=EXACT)
    assert exact.capped == approx(mean([path.end == "capped" for path in found]), abs=EXACT)
    assert exact.steps == approx(mean([path.acts for path in found]), abs=EXACT)
    assert exact.interventions == approx(mean([len(path.firings) for path in found]), abs=EXACT)
    assert exact.tokens == approx(mean([path.tokens for path in found]), rel=EXACT, abs=EXACT)
    assert exact.usd == approx(exact.tokens * 2e-6)
    assert exact.seconds == approx(3.0 * exact.steps)
    table = np.ravel(exact.shared_prefix.table)
    np.testing.assert_allclose(table, enumerated_table(model, found), rtol=0, atol=EXACT)


@settings(deadline=None, max_examples=60)
@given(models())
def test_every_step_equals_enumeration(model: Model) -> None:
    states = {"on": 0, **{name: k for k, name in enumerate(model.agent.modes, 1)}}
    states |= {"success": len(states), "fail": len(states) + 1}
    visits = np.zeros((model.horizon + 1, len(states)))
    firings = np.zeros((2, model.horizon))
    for path in paths(model, "p"):
        for t, state in enumerate(path.visited):
            visits[t, states[state]] += path.probability
        for i, (t, _) in enumerate(path.firings):
            firings[0, t] += path.probability
            firings[1, t] += path.probability * (i == 0)
    found = trace(*compiled(model))
    np.testing.assert_allclose(found.states, visits, rtol=0, atol=EXACT)
    np.testing.assert_allclose(found.interventions, firings[0], rtol=0, atol=EXACT)
    np.testing.assert_allclose(found.first_firing, firings[1], rtol=0, atol=EXACT)
    assert found.never_fires == approx(1.0 - firings[1].sum(), abs=EXACT)


@settings(deadline=None, max_examples=100)
@given(models(most_steps=12, most_modes=3))
def test_laws_of_every_model(model: Model) -> None:
    arrays, policy = compiled(model)
    exact, steps = evaluate(arrays, policy), trace(arrays, policy)
    probabilities = [exact.success, exact.capped, exact.baseline, *np.ravel(exact.shared_prefix.table)]
    assert all(-EXACT <= it <= 1.0 + EXACT for it in probabilities)
    for joint in (exact.shared_prefix, exact.independent):
        assert joint.fail_success + joint.success_success == approx(exact.success, abs=EXACT)
        assert joint.success_fail + joint.success_success == approx(exact.baseline, abs=EXACT)
        assert sum(np.ravel(joint.table)) == approx(1.0, abs=EXACT)
        assert joint.gain == approx(exact.gain, abs=EXACT)
    np.testing.assert_allclose(steps.states.sum(axis=1), 1.0, rtol=0, atol=EXACT)
    assert steps.states[-1, -2] == approx(exact.success, abs=EXACT)
    assert steps.states[-1, :-2].sum() == approx(exact.capped, abs=EXACT)
    assert steps.acting.sum() == approx(exact.steps, abs=1e-11)
    assert steps.interventions.sum() == approx(exact.interventions, abs=1e-11)
    assert exact.interventions <= policy.budget + EXACT
    idle = evaluate(arrays, replace(policy, budget=0))
    assert idle.success == approx(exact.baseline, abs=EXACT)
    assert idle.shared_prefix.fail_success == idle.shared_prefix.success_fail == 0.0


@settings(deadline=None, max_examples=50)
@given(models(most_steps=6))
def test_longer_horizon_never_lowers_success_of_the_baseline(model: Model) -> None:
    arrays = compile_model(model)
    for shorter in range(1, model.horizon):
        cut = replace(arrays, transitions=arrays.transitions[:shorter])
        assert cut.start @ unaided(cut)[0] <= arrays.start @ unaided(arrays)[0] + EXACT


@settings(deadline=None, max_examples=50)
@given(models(most_steps=8), st.integers(1, 3))
def test_a_harmless_mechanism_without_extra_steps_never_hurts(model: Model, budget: int) -> None:
    never_fail = {name: replace(mode, abandon=0.0) for name, mode in model.agent.modes.items()}
    mechanism = replace(model.mechanisms["m"], disrupt=0.0, extra_steps=0)
    policy = replace(model.policies["p"], budget=budget)
    harmless = replace(
        model,
        agent=replace(model.agent, modes=never_fail),
        mechanisms={"m": mechanism},
        policies={"p": policy},
    )
    assume(
        all(np.ravel(unaided(compile_model(harmless))[:, :1]) >= unaided(compile_model(harmless)).max(axis=1) - EXACT)
    )
    assert values_of(harmless).gain >= -EXACT


def leverage_model(extra_steps: int, t: int) -> Model:
    return Model(
        name="two states",
        source="made up",
        horizon=9,
        agent=Agent(
            finish=0.17, modes={"off": Mode(slip=0.12, abandon=0.08, self_recover=0.04)}, start_off={"off": 0.2}
        ),
        critic=Critic(auroc=0.8),
        mechanisms={"m": Mechanism(recover={"off": 0.55}, disrupt=0.13, extra_steps=extra_steps)},
        policies={"p": Policy(mechanism="m", threshold=0.0, budget=1, first_step=t, last_step=t)},
    )


@pytest.mark.parametrize("extra_steps", [0, 1, 2])
@pytest.mark.parametrize("t", [0, 3, 7, 8])
def test_leverage_identity(extra_steps: int, t: int) -> None:
    arrays, policy = compiled(leverage_model(extra_steps, t))
    alone = unaided(arrays)
    on, off = trace(arrays, never(arrays)).states[t + 1, :2]
    belief = off / (on + off)
    v_on, v_off = alone[t + 1]
    w_on, w_off = alone[min(t + 1 + extra_steps, 9)]
    leverage = w_on - w_off
    gain = belief * (0.55 * leverage - (v_off - w_off)) - (1 - belief) * (0.13 * leverage + (v_on - w_on))
    assert evaluate(arrays, policy).gain == approx((on + off) * gain, abs=1e-10)
    # a wrong formula must fail: leverage at the wrong step
    if extra_steps and t == 3:
        wrong = (on + off) * (v_on - v_off) * (belief * 0.55 - (1 - belief) * 0.13)
        assert abs(evaluate(arrays, policy).gain - wrong) > 1e-3


def test_cooldown_begins_after_the_extra_steps() -> None:
    model = leverage_model(1, 0)
    policy = Policy(mechanism="m", threshold=0.0, budget=9, first_step=0)
    per_cooldown = [
        values_of(replace(model, policies={"p": replace(policy, cooldown=cooldown)})).interventions
        for cooldown in range(4)
    ]
    assert per_cooldown[0] > per_cooldown[1] > per_cooldown[2] > per_cooldown[3]


def gaussian(run_sd: float) -> tuple[CompiledModel, CompiledPolicy]:
    return compiled(replace(REFERENCE, critic=replace(REFERENCE.critic, run_sd=run_sd)), "middling")


@pytest.mark.parametrize("run_sd", [0.3, 1.0, 4.0])
def test_run_level_shift_by_quadrature_equals_the_trapezoid_rule(run_sd: float) -> None:
    arrays, policy = gaussian(run_sd)
    exact = evaluate(arrays, policy)
    shifts = np.linspace(-9.0, 9.0, 401 + 200 * int(run_sd))
    weights = np.exp(-0.5 * shifts**2)
    fixed = [
        evaluate(replace(arrays, run_sd=0.0, score_mean=arrays.score_mean + run_sd * shift), policy) for shift in shifts
    ]
    rows = np.array([[it.success, it.tokens, *np.ravel(it.shared_prefix.table)] for it in fixed])
    expected = weights @ rows / weights.sum()
    got = [exact.success, exact.tokens, *np.ravel(exact.shared_prefix.table)]
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-10)
    assert exact.n_nodes >= 42
    assert exact.success != approx(fixed[len(fixed) // 2].success, abs=1e-4)


def test_shift_leaves_the_laws_of_the_trace() -> None:
    arrays, policy = gaussian(1.0)
    exact, steps = evaluate(arrays, policy), trace(arrays, policy)
    assert steps.states[-1, -2] == approx(exact.success, abs=1e-9)
    assert steps.interventions.sum() == approx(exact.interventions, abs=1e-9)


def test_nodes_integrate_polynomials() -> None:
    nodes, weights = shift_nodes(21)
    assert [float(weights @ nodes**k) for k in (0, 1, 2, 4, 8)] == approx([1, 0, 1, 3, 105], abs=1e-9)

    def squares(shifts: FloatArray) -> FloatArray:
        return shifts[:, None] ** 2

    mean, n_nodes = mean_over_shift(squares, 2.0, np.ones(1))
    assert (mean[0], n_nodes) == (approx(4.0), 43)


def test_a_shift_without_end_is_refused() -> None:
    # any even numbers of nodes would agree here, on a wrong answer: none of them is near the step at 0
    with pytest.raises(ConvergenceError, match="run_sd is 1000 times the spread of the score, too wide for 2815 Gauss"):
        evaluate(*gaussian(1000.0))


def test_rates_of_an_agent_that_always_succeeds() -> None:
    always = Joint(fail_fail=0.0, fail_success=0.0, success_fail=0.25, success_success=0.75)
    assert always.recovery == approx(nan, nan_ok=True)
    assert always.disruption == 0.25
    assert always.gain == -0.25


def test_firing_is_a_normal_tail() -> None:
    arrays, policy = compiled(REFERENCE, "late")
    fires = firing(arrays, policy, 0.5)
    assert not fires[:4].any()
    assert fires[4, 0] == approx(0.060896, abs=1e-6)  # 1 − Φ(logit 0.7 + 1.2 − 0.5) = 1 − Φ(1.547298)


def test_one_policy_needs_no_compiler() -> None:
    script = "import sys, drsim.process.exact, drsim.process.trace, drsim.process.toml\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "numba" not in done.stdout.split()

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from process.chains import REFERENCE, models, paths

from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy, never
from drsim.process.coupled_many import CoupledMany, coupled_many, is_compiled
from drsim.process.exact import evaluate, unaided
from drsim.process.spec import Critic, Model
from drsim.process.stacks import stack_draws, stack_policies
from drsim.process.trace import trace


def assert_equal_to_the_twins(drawn: list[CompiledModel], policies: list[CompiledPolicy], tolerance: float) -> None:
    many = coupled_many(stack_draws(drawn), stack_policies(policies))
    for p, policy in enumerate(policies):
        for d, model in enumerate(drawn):
            one = evaluate(model, policy)
            pairs = {
                "success": one.success,
                "both": one.shared_prefix.success_success,
                "gain": one.gain,
                "interventions": one.interventions,
                "capped": one.capped,
                "triggered": trace(model, policy).first_firing.sum(),
            }
            for name, expected in pairs.items():
                assert getattr(many, name)[p, d] == pytest.approx(expected, abs=tolerance), (p, d, name)
            assert many.tokens[p, d] == pytest.approx(one.tokens, rel=tolerance, abs=tolerance)
            # rates divide by the baseline's share, which may be tiny
            if 1e-3 < one.baseline < 1 - 1e-3:
                assert many.recovery[p, d] == pytest.approx(one.shared_prefix.recovery, abs=1e3 * tolerance)
                assert many.disruption[p, d] == pytest.approx(one.shared_prefix.disruption, abs=1e3 * tolerance)
    np.testing.assert_allclose(many.baseline, [evaluate(it, never(it)).success for it in drawn], rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=80)
@given(models(most_steps=9, most_modes=3))
def test_one_equals_the_recursions_in_numpy(model: Model) -> None:
    arrays = compile_model(model)
    assert_equal_to_the_twins([arrays], [compile_policy(model, "p"), never(arrays)], 1e-12)


def test_tasks_and_run_level_shifts() -> None:
    drawn = [
        compile_model(
            replace(
                REFERENCE,
                agent=replace(REFERENCE.agent, finish_task_sd=sd, slip_task_sd=0.4),
                critic=replace(REFERENCE.critic, run_sd=run_sd),
            )
        )
        for sd, run_sd in ((0.5, 0.0), (1.0, 0.4))
    ]
    policies = [compile_policy(REFERENCE, name) for name in REFERENCE.policies]
    policies += [replace(policies[0], budget=b, cooldown=c) for b, c in ((0, 0), (40, 0), (15, 1), (5, 40))]
    assert_equal_to_the_twins(drawn, [*policies, never(drawn[0])], 1e-10)


def leverage(model: Model) -> tuple[float, float, float]:
    """Loss, win and hit from every path of the specification."""
    compiled = compile_model(model)
    value = unaided(compiled)
    kernel = compiled.kernels[0]
    states = ["on", *model.agent.modes]
    first = np.zeros((model.horizon, len(states)))
    for path in paths(model, "p"):
        if path.firings:
            t, state = path.firings[0]
            first[t, states.index(state)] += path.probability
    extra = int(compiled.extra_steps[0])
    loss = win = hit = 0.0
    for t in range(model.horizon):
        change = kernel[t] @ value[min(t + 1 + extra, model.horizon)] - value[t + 1]
        fired, off = first[t].sum(), first[t, 1:].sum()
        won = first[t, 1:] @ change[1:] / off if off > 0.0 else change[1:].mean()
        loss, win, hit = loss - fired * change[0], win + fired * won, hit + off * (won - change[0])
    return loss, win, hit


@settings(deadline=None, max_examples=60)
@given(models(most_steps=4, most_modes=2))
def test_leverage_equals_that_of_all_paths(model: Model) -> None:
    many = coupled_many(stack_draws([compile_model(model)]), stack_policies([compile_policy(model, "p")]))
    loss, win, hit = leverage(model)
    assert many.loss[0, 0] == pytest.approx(loss, abs=1e-10)
    assert many.hit[0, 0] == pytest.approx(hit, abs=1e-10)
    assert many.win[0, 0] == pytest.approx(win, abs=1e-10)


@settings(deadline=None, max_examples=80)
@given(models(most_steps=9, most_modes=3))
def test_one_intervention_gains_what_the_leverage_identity_says(model: Model) -> None:
    once = replace(model, policies={"p": replace(model.policies["p"], budget=1)})
    many = coupled_many(stack_draws([compile_model(once)]), stack_policies([compile_policy(once, "p")]))
    assert many.gain[0, 0] == pytest.approx((many.hit - many.loss)[0, 0], abs=1e-12)


def test_break_even_of_a_constant_mechanism_without_extra_steps_is_static() -> None:
    # THEORY section 4: then only b against d/(r + d) decides, whatever the leverage
    model = replace(
        REFERENCE,
        agent=replace(REFERENCE.agent, modes={"m1": REFERENCE.agent.modes["m1"]}),
        critic=Critic(mean_on=-1.2, mean_off={"m1": 1.2}),
        mechanisms={
            "rollback": replace(REFERENCE.mechanisms["rollback"], recover={"m1": 0.3}, disrupt=0.1, extra_steps=0)
        },
    )
    policies = [compile_policy(model, name) for name in model.policies]
    many = coupled_many(stack_draws([compile_model(model)]), stack_policies(policies))
    np.testing.assert_allclose(many.loss / (many.loss + many.win), 0.25, rtol=0, atol=1e-12)


def test_rates_are_undefined_only_where_nobody_could_flip() -> None:
    many = CoupledMany(
        baseline=np.array([0.0, 1.0]),
        success=np.array([[0.2, 0.7]]),
        gain=np.array([[0.2, -0.3]]),
        both=np.array([[0.0, 0.7]]),
        triggered=np.ones((1, 2)),
        interventions=np.ones((1, 2)),
        tokens=np.ones((1, 2)),
        capped=np.zeros((1, 2)),
        loss=np.zeros((1, 2)),
        win=np.zeros((1, 2)),
        hit=np.zeros((1, 2)),
        n_nodes=1,
    )
    np.testing.assert_allclose(many.recovery, [[0.2, np.nan]])
    np.testing.assert_allclose(many.disruption, [[np.nan, 0.3]])


def test_what_is_compiled_is_found_again() -> None:
    coupled_many(stack_draws([compile_model(REFERENCE)]), stack_policies([compile_policy(REFERENCE, "late")]))
    assert is_compiled()

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from process.chains import REFERENCE, models

from drsim.errors import ConvergenceError, ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.exact_many import evaluate_many
from drsim.process.spec import Agent, Critic, Mechanism, Mode, Model, Policy, Signal
from drsim.process.stacks import stack_draws, stack_policies
from drsim.process.success_many import success_many

VALUES = ("success", "capped", "steps", "interventions", "tokens", "usd", "seconds")

ONE_MODE = Model(
    name="one mode",
    source="made up",
    horizon=15,
    agent=Agent(finish=0.18, modes={"off": Mode(slip=0.05, abandon=0.1, self_recover=0.03)}),
    critic=Critic(auroc=0.9),
    mechanisms={"m": Mechanism(recover={"off": 0.25}, disrupt=0.1, extra_steps=1)},
    policies={"p": Policy(mechanism="m", threshold=0.6, budget=3)},
)


def assert_equal_to_the_twin(drawn: list[CompiledModel], policies: list[CompiledPolicy], tolerance: float) -> None:
    many = evaluate_many(stack_draws(drawn), stack_policies(policies))
    for p, policy in enumerate(policies):
        for d, model in enumerate(drawn):
            one = evaluate(model, policy)
            for name in VALUES:
                got, expected = getattr(many, name)[p, d], getattr(one, name)
                assert got == pytest.approx(expected, rel=tolerance, abs=tolerance), (p, d, name)
    alone = success_many(stack_draws(drawn), stack_policies(policies))
    np.testing.assert_allclose(alone.success, many.success, rtol=0, atol=tolerance)
    np.testing.assert_allclose(alone.baseline, [evaluate(it, never(it)).success for it in drawn], rtol=0, atol=1e-12)
    np.testing.assert_allclose(alone.gain, many.success - alone.baseline, rtol=0, atol=tolerance)


@settings(deadline=None, max_examples=80)
@given(models(most_steps=9, most_modes=3))
def test_one_equals_the_recursion_in_numpy(model: Model) -> None:
    arrays = compile_model(model)
    assert_equal_to_the_twin([arrays], [compile_policy(model, "p"), never(arrays)], 1e-12)


def test_many_equal_the_recursion_in_numpy() -> None:
    drawn = [
        compile_model(replace(REFERENCE, critic=Critic(mean_on=-1.2, mean_off={"m1": m, "m2": 0.3}, sigma=s)))
        for m, s in ((1.2, 1.0), (0.1, 2.0), (3.0, 0.5))
    ]
    policies = [compile_policy(REFERENCE, name) for name in REFERENCE.policies]
    policies += [replace(policies[0], budget=b, cooldown=c) for b, c in ((0, 0), (40, 0), (15, 1), (5, 40))]
    assert_equal_to_the_twin(drawn, [*policies, never(drawn[0])], 1e-12)


def test_tasks_that_differ_and_propensities() -> None:
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
    late = compile_policy(REFERENCE, "late")
    policies = [late, replace(late, propensity=0.3), replace(late, propensity=np.linspace(0.1, 1.0, 15))]
    assert_equal_to_the_twin(drawn, [*policies, never(drawn[0])], 1e-10)
    with pytest.raises(ParameterError, match="models must all have tasks that differ, or none"):
        stack_draws([drawn[0], compile_model(REFERENCE)])
    believer = replace(REFERENCE, policies={"p": replace(REFERENCE.policies["late"], signal=Signal.BELIEF)})
    with pytest.raises(ParameterError, match="got signal belief; simulate it"):
        stack_policies([late, compile_policy(believer, "p")])


def test_run_level_shifts_differ_by_draw() -> None:
    base = compile_model(REFERENCE)
    drawn = [replace(base, run_sd=run_sd) for run_sd in (0.0, 0.5, 1.0)]
    policies = [compile_policy(REFERENCE, name) for name in REFERENCE.policies]
    assert_equal_to_the_twin(drawn, policies, 1e-10)
    many = evaluate_many(stack_draws(drawn), stack_policies(policies))
    assert many.n_nodes > 21
    assert np.ptp(many.success[0]) > 1e-3


def test_a_shift_without_end_is_refused() -> None:
    base = compile_model(REFERENCE)
    with pytest.raises(ConvergenceError, match="run_sd is 100 times the spread of the score"):
        evaluate_many(
            stack_draws([base, replace(base, run_sd=100.0)]), stack_policies([compile_policy(REFERENCE, "late")])
        )


def test_a_model_without_mechanisms() -> None:
    model = compile_model(replace(ONE_MODE, mechanisms={}, policies={}))
    assert_equal_to_the_twin([model], [never(model)], 1e-12)


def test_what_does_not_belong_together_is_refused() -> None:
    model, other = compile_model(ONE_MODE), compile_model(REFERENCE)
    with pytest.raises(ParameterError, match="models must share horizon and modes"):
        stack_draws([model, other])
    with pytest.raises(ParameterError, match="models must share tokens"):
        stack_draws([model, replace(model, tokens=2 * model.tokens)])
    with pytest.raises(ParameterError, match="models must share temperature"):
        stack_draws([model, replace(model, temperature=2.0)])
    with pytest.raises(ParameterError, match="models must hold at least one draw, got none"):
        stack_draws([])
    with pytest.raises(ParameterError, match="policies must be at least one"):
        stack_policies([])
    policy = compile_policy(ONE_MODE, "p")
    with pytest.raises(ParameterError, match="policies must have the 15 steps and the 1 mechanisms of the draws"):
        evaluate_many(stack_draws([model]), stack_policies([replace(policy, mechanism=1)]))


def test_a_hundred_thousand_evaluations_take_half_a_second() -> None:
    model, policy = compile_model(ONE_MODE), compile_policy(ONE_MODE, "p")
    draws = stack_draws([replace(model, score_mean=model.score_mean + 0.01 * i) for i in range(100)])
    thresholds = np.linspace(-3.0, 3.0, 1000)
    policies = stack_policies([replace(policy, logit_threshold=np.full(15, threshold)) for threshold in thresholds])
    evaluate_many(draws, stack_policies([policy]))
    # the fastest of three, in processor time: the machine may have other work
    took = []
    for _ in range(3):
        start = time.process_time()
        assert evaluate_many(draws, policies).success.shape == (1000, 100)
        took.append(time.process_time() - start)
    assert min(took) < 0.5

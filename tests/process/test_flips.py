"""Flips by the step of the first intervention, against the recursion that gives the whole table at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from process.chains import REFERENCE, models

from drsim.errors import ParameterError
from drsim.process.compile import compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.flips import PrefixCoupling, flips_many
from drsim.process.spec import Model, Signal
from drsim.process.stacks import stack_draws
from drsim.process.trace import trace


@settings(deadline=None, max_examples=80)
@given(models(most_steps=9, most_modes=3))
def test_flips_sum_to_the_table_of_the_recursion(model: Model) -> None:
    arrays, policy = compile_model(model), compile_policy(model, "p")
    exact = evaluate(arrays, policy)
    flips = flips_many(stack_draws([arrays]), policy, n_nodes=exact.n_nodes)
    assert flips.baseline[0] == pytest.approx(exact.baseline, abs=1e-12)
    assert flips.success[0] == pytest.approx(exact.success, abs=1e-9)
    shared = PrefixCoupling.SHARED_PREFIX
    assert flips.up(shared).sum() == pytest.approx(exact.shared_prefix.fail_success, abs=1e-9)
    assert flips.down(shared).sum() == pytest.approx(exact.shared_prefix.success_fail, abs=1e-9)
    np.testing.assert_allclose(flips.first_firing[0], trace(arrays, policy).first_firing, rtol=0, atol=1e-9)


@settings(deadline=None, max_examples=80)
@given(models(most_steps=9, most_modes=3))
def test_no_coupling_flips_less_than_the_least(model: Model) -> None:
    arrays, policy = compile_model(model), compile_policy(model, "p")
    flips = flips_many(stack_draws([arrays]), policy, n_nodes=evaluate(arrays, policy).n_nodes)
    for part in (flips.up, flips.down):
        assert np.all(part(PrefixCoupling.LEAST) >= -1e-15)
        assert np.all(part(PrefixCoupling.LEAST) <= part(PrefixCoupling.SHARED_PREFIX) + 1e-12)
    difference = flips.up(PrefixCoupling.LEAST) - flips.down(PrefixCoupling.LEAST)
    np.testing.assert_allclose(difference.sum(), flips.gain[0], rtol=0, atol=1e-12)


def test_draws_tasks_and_shifts_each_count_for_themselves() -> None:
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
    policy = compile_policy(REFERENCE, "late")
    exact = [evaluate(it, policy) for it in drawn]
    flips = flips_many(stack_draws(drawn), policy, n_nodes=max(it.n_nodes for it in exact))
    shared = PrefixCoupling.SHARED_PREFIX
    for d, it in enumerate(exact):
        assert flips.success[d] == pytest.approx(it.success, abs=1e-9)
        assert flips.recovery(shared)[d] == pytest.approx(it.shared_prefix.recovery, abs=1e-9)
        assert flips.disruption(shared)[d] == pytest.approx(it.shared_prefix.disruption, abs=1e-9)


def test_nothing_flips_without_an_intervention_and_nothing_that_looks_back_is_answered() -> None:
    arrays = compile_model(REFERENCE)
    flips = flips_many(stack_draws([arrays]), never(arrays))
    assert flips.first_firing.sum() == flips.gain[0] == 0.0
    broke = replace(compile_policy(REFERENCE, "late"), budget=0)
    assert flips_many(stack_draws([arrays]), broke).first_firing.sum() == 0.0
    believer = replace(REFERENCE, policies={"p": replace(REFERENCE.policies["late"], signal=Signal.BELIEF)})
    with pytest.raises(ParameterError, match="got signal belief; simulate it"):
        flips_many(stack_draws([arrays]), compile_policy(believer, "p"))


@settings(deadline=None, max_examples=40)
@given(models(most_steps=7, most_modes=2), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_what_is_left_of_d_after_churn_bounds_the_least_flips_from_below(
    model: Model, finish_sd: float, slip_sd: float
) -> None:
    spread = replace(model, agent=replace(model.agent, finish_task_sd=finish_sd, slip_task_sd=slip_sd))
    arrays, policy = compile_model(spread), compile_policy(spread, "p")
    exact = evaluate(arrays, policy)
    assume(1e-6 < exact.baseline < 1.0 - 1e-6)
    flips = flips_many(stack_draws([arrays]), policy, n_nodes=exact.n_nodes)
    least = PrefixCoupling.LEAST
    reruns_d, reruns_r = (1.0 - exact.rho) * (1.0 - exact.baseline), (1.0 - exact.rho) * exact.baseline
    assert exact.independent.disruption - reruns_d <= flips.disruption(least)[0] + 1e-8
    assert exact.independent.recovery - reruns_r <= flips.recovery(least)[0] + 1e-8

"""Moved models: what moves, what stays, and that arrays and specifications agree."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from process.chains import REFERENCE, models

from drsim.process.compile import compile_model, never
from drsim.process.exact import evaluate
from drsim.process.shifts import moved_draws, moved_model
from drsim.process.spec import Model
from drsim.process.stacks import ModelDraws, stack_draws

FIELDS = ("start", "transitions", "kernels", "score_mean", "score_sd", "run_sd", "task_weights")


def assert_alike(got: ModelDraws, expected: ModelDraws) -> None:
    for name in FIELDS:
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=0, atol=1e-13, err_msg=name)


@settings(deadline=None, max_examples=60)
@given(models(most_steps=9, most_modes=3), st.lists(st.floats(-6, 6), min_size=1, max_size=3), st.integers(0, 2**31))
def test_arrays_are_those_of_the_specification(model: Model, ease: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, modes = len(ease), len(model.agent.modes)
    name = next(iter(model.mechanisms))
    recover, disrupt = rng.random((n, modes, model.horizon)), rng.random((n, model.horizon))
    disrupt = np.maximum(disrupt, 0.01)
    base = compile_model(model)
    # weights of modes cannot be read back from a kernel that never disrupts
    assume(base.kernels[0, :, 0, 1:].any())
    many = moved_draws(base, ease=np.array(ease), mechanism=0, recover=recover, disrupt=disrupt)
    one_by_one = [
        moved_model(model, ease=v, mechanism=name, recover=recover[i], disrupt=disrupt[i]) for i, v in enumerate(ease)
    ]
    assert_alike(many, stack_draws([compile_model(it) for it in one_by_one]))


def test_nothing_moved_is_the_model_itself() -> None:
    base = compile_model(REFERENCE)
    nothing = np.zeros((1, 0, 0))
    many = moved_draws(base, ease=np.zeros(1), mechanism=-1, recover=nothing, disrupt=nothing[0])
    assert_alike(many, stack_draws([base]))
    same = moved_model(REFERENCE, ease=0.0, mechanism=None, recover=nothing, disrupt=nothing)
    assert_alike(stack_draws([compile_model(same)]), stack_draws([base]))


def test_ease_raises_success_and_leaves_closed_steps_closed() -> None:
    spec = replace(REFERENCE, agent=replace(REFERENCE.agent, start_off={"m1": 0.2, "m2": 0.1}, finish_task_sd=0.5))
    nothing = np.zeros((0, 0))
    eased = [
        compile_model(moved_model(spec, ease=v, mechanism=None, recover=nothing, disrupt=nothing))
        for v in (-30.0, -1.0, 0.0, 1.0, 30.0)
    ]
    success = [evaluate(it, never(it)).success for it in eased]
    assert np.all(np.diff(success) > 0.0)
    assert success[0] < 1e-6
    assert success[-1] > 1.0 - 1e-6
    # the first two steps cannot finish a run, however easy it is; the modes keep their shares
    assert np.all(eased[-1].transitions[:2, 0, 3] == 0.0)
    np.testing.assert_allclose(eased[3].start[1] / eased[3].start[2], 2.0)

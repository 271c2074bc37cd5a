"""Levels by step come back from the flips by step that they make."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, compile_model, compile_policy, never
from drsim.process.flips import PrefixCoupling, flips_many
from drsim.process.spec import Agent, Critic, Decay, Mechanism, Mode, Model, Policy
from drsim.process.stacks import ModelDraws, stack_draws
from drsim.process.step_levels import StepLevels, levels_from_success, step_levels

SHARED = PrefixCoupling.SHARED_PREFIX
TWO_MODES = Model(
    name="two modes",
    source="made up",
    horizon=10,
    agent=Agent(
        finish=0.2,
        modes={
            "a": Mode(slip=0.06, abandon=0.1, self_recover=0.03),
            "b": Mode(slip=0.03, abandon=0.2, self_recover=0.0),
        },
    ),
    critic=Critic(mean_on=-1.0, mean_off={"a": 1.0, "b": 0.5}, sigma=1.0),
    mechanisms={
        "m": Mechanism(
            recover={"a": Decay(start=0.1, end=0.4, half_life=3), "b": Decay(start=0.05, end=0.2, half_life=3)},
            disrupt=Decay(start=0.5, end=0.05, half_life=2),
            to={"a": 3.0, "b": 1.0},
            extra_steps=1,
        )
    },
    policies={"p": Policy(mechanism="m", threshold=0.5, budget=3, cooldown=1, last_step=7)},
)
ONE_MODE = replace(
    TWO_MODES,
    agent=Agent(finish=0.2, modes={"a": Mode(slip=0.08, abandon=0.1, self_recover=0.03)}, finish_task_sd=0.6),
    critic=Critic(mean_on=-1.0, mean_off={"a": 1.0}, sigma=1.0, run_sd=0.5),
    mechanisms={"m": Mechanism(recover={"a": Decay(start=0.1, end=0.4, half_life=3)}, disrupt=0.2, extra_steps=1)},
)


def rates_by_step(model: ModelDraws, spec: Model, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    flips = flips_many(model, compile_policy(spec, "p"), n_nodes=n_nodes)
    with np.errstate(invalid="ignore"):
        r = flips.up(SHARED) / (flips.first_firing - flips.then_alone)
        d = flips.down(SHARED) / flips.then_alone
    return np.nan_to_num(r), np.nan_to_num(d)


def blanked(model: CompiledModel) -> CompiledModel:
    """The model with other levels of the same proportions, from which the levels are to be found."""
    kernels = model.kernels.copy()
    kernels[:, :, 0, 1:] *= 0.3
    kernels[:, :, 0, 0] = 1.0 - kernels[:, :, 0, 1:].sum(axis=-1)
    for k in range(1, kernels.shape[-1]):
        kernels[:, :, k, 0] *= 0.5
        kernels[:, :, k, k] = 1.0 - kernels[:, :, k, 0]
    return replace(model, kernels=kernels)


@pytest.mark.parametrize(("spec", "n_nodes"), [(TWO_MODES, 1), (ONE_MODE, 43)])
def test_levels_come_back(spec: Model, n_nodes: int) -> None:
    truth = compile_model(spec)
    r, d = rates_by_step(stack_draws([truth]), spec, n_nodes)
    found: StepLevels = step_levels(stack_draws([blanked(truth)]), compile_policy(spec, "p"), r, d, n_nodes=n_nodes)
    # nothing can fire from step 8 on, and nothing goes on after step 9
    assert found.is_solved.tolist() == [True] * 8 + [False] * 2
    assert found.is_inside.all()
    kernel = truth.kernels[0]
    np.testing.assert_allclose(found.disrupt[0, :8], 1.0 - kernel[:8, 0, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.recover[0, :, :8], kernel[:8, 1:, 0].T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.disrupt[0, 8:], 0.3 * (1.0 - kernel[8:, 0, 0]), rtol=0, atol=1e-12)


def test_rates_that_no_level_gives_end_at_the_ends() -> None:
    truth = compile_model(TWO_MODES)
    r, d = rates_by_step(stack_draws([truth]), TWO_MODES, 1)
    d[:, 3] = 0.0
    found = step_levels(stack_draws([truth]), compile_policy(TWO_MODES, "p"), r, d)
    assert found.is_inside[0].tolist() == [t != 3 for t in range(10)]
    assert found.disrupt[0, 3] == pytest.approx(0.001)
    # later steps do not depend on it
    np.testing.assert_allclose(found.disrupt[0, 4:8], 1.0 - truth.kernels[0, 4:8, 0, 0], rtol=0, atol=1e-9)


def test_a_policy_without_interventions_has_no_levels() -> None:
    truth = compile_model(TWO_MODES)
    nothing = np.zeros((1, 10))
    for policy in (never(truth), replace(compile_policy(TWO_MODES, "p"), budget=0)):
        with pytest.raises(ParameterError, match="for its effect to be told by step"):
            step_levels(stack_draws([truth]), policy, nothing, nothing)


@pytest.mark.parametrize(("spec", "n_nodes"), [(TWO_MODES, 1), (ONE_MODE, 43)])
def test_success_by_step_moves_the_levels_as_far_as_they_were_moved(spec: Model, n_nodes: int) -> None:
    base = compile_model(spec)
    policy = compile_policy(spec, "p")
    by = np.linspace(-1.0, 1.0, 10)
    mechanism = spec.mechanisms["m"]
    kernel = base.kernels[0]
    moved = replace(
        mechanism,
        recover={mode: tuple(expit(logit(kernel[:, k + 1, 0]) + by)) for k, mode in enumerate(spec.agent.modes)},
        disrupt=tuple(expit(logit(1.0 - kernel[:, 0, 0]) - by)),
    )
    truth = stack_draws([compile_model(replace(spec, mechanisms={"m": moved}))])
    flips = flips_many(truth, policy, n_nodes=n_nodes)
    with np.errstate(invalid="ignore"):
        success = np.nan_to_num(flips.then_aided / flips.first_firing)
    found = levels_from_success(stack_draws([base]), policy, success, n_nodes=n_nodes)
    assert found.is_inside.all()
    np.testing.assert_allclose(found.disrupt[0, :8], moved.disrupt[:8], rtol=0, atol=1e-8)  # type: ignore[index]
    np.testing.assert_allclose(found.recover[0, 0, :8], moved.recover["a"][:8], rtol=0, atol=1e-8)  # type: ignore[index]
    success[:, 2] = 1.0
    beyond = levels_from_success(stack_draws([base]), policy, success, n_nodes=n_nodes)
    assert not beyond.is_inside[0, 2]
    assert beyond.disrupt[0, 2] == pytest.approx(0.001)

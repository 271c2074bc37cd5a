from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from process.chains import REFERENCE, models

from drsim.errors import ParameterError
from drsim.process.compile import compile_model, compile_policy, firing, never
from drsim.process.spec import Critic, Model, Policy

ONE_ULP = 2.3e-16


@settings(deadline=None, max_examples=60)
@given(models(most_steps=9, most_modes=3))
def test_rows_are_distributions(model: Model) -> None:
    arrays = compile_model(model)
    n_states = len(model.agent.modes) + 1
    assert arrays.transitions.shape == (model.horizon, n_states, n_states + 2)
    assert arrays.kernels.shape == (1, model.horizon, n_states, n_states)
    for rows in (arrays.start, arrays.transitions, arrays.kernels):
        assert rows.min() >= 0.0
        np.testing.assert_allclose(rows.sum(axis=-1), 1.0, rtol=0, atol=8 * ONE_ULP)


@settings(deadline=None, max_examples=20)
@given(models())
def test_arrays_are_plain(model: Model) -> None:
    for part in (compile_model(model), compile_policy(model, "p"), never(compile_model(model))):
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, np.ndarray):
                assert value.flags.c_contiguous, field.name
                assert value.dtype == (np.int64 if field.name == "extra_steps" else np.float64), field.name
            elif value is not None:
                assert type(value) in (int, float), field.name


def test_order_of_events_in_one_act() -> None:
    arrays = compile_model(REFERENCE)
    slips = 0.10 * np.exp(-4 / 6) + 0.02, 0.01
    on = [0.82 * (1 - sum(slips)), 0.82 * slips[0], 0.82 * slips[1], 0.18, 0.0]
    np.testing.assert_allclose(arrays.transitions[4], [on, [0.9 * 0.03, 0.9 * 0.97, 0, 0, 0.1], [0, 0, 0.95, 0, 0.05]])
    disrupt = 0.55 * np.exp(-1) + 0.05
    kernel = [[1 - disrupt, disrupt / 2, disrupt / 2], [0.25, 0.75, 0], [0.1, 0, 0.9]]
    np.testing.assert_allclose(arrays.kernels[0, 4], kernel)


def test_shares_and_weights_by_mode() -> None:
    agent = replace(REFERENCE.agent, start_off={"m2": 0.25})
    mechanism = replace(REFERENCE.mechanisms["rollback"], to={"m2": 3.0, "m1": 1.0})
    arrays = compile_model(replace(REFERENCE, agent=agent, mechanisms={"rollback": mechanism}))
    np.testing.assert_array_equal(arrays.start, [0.75, 0, 0.25])
    np.testing.assert_allclose(arrays.kernels[0, 0], [[0.4, 0.15, 0.45], [0.25, 0.75, 0], [0.1, 0, 0.9]])
    even = compile_model(replace(REFERENCE, agent=replace(REFERENCE.agent, start_off=0.5)))
    np.testing.assert_array_equal(even.start, [0.5, 0.25, 0.25])


def test_auroc_alone_fixes_the_scores() -> None:
    critic = Critic(auroc=0.8)
    arrays = compile_model(replace(REFERENCE, critic=critic))
    # μ = √2 Φ⁻¹(0.8) = 1.190232
    np.testing.assert_allclose(arrays.score_mean, [-0.595116, 0.595116, 0.595116], atol=1e-6)
    np.testing.assert_array_equal(arrays.score_sd, 1.0)


def test_thresholds_are_of_the_raw_score_and_hold_the_gates() -> None:
    policy = Policy(mechanism="rollback", threshold=0.75, budget=2, first_step=3, last_step=5)
    critic = replace(REFERENCE.critic, temperature=2.0)
    arrays = compile_policy(replace(REFERENCE, critic=critic, policies={"p": policy}), "p")
    expected = np.full(15, np.inf)
    expected[3:6] = 2.0 * np.log(3.0)
    np.testing.assert_allclose(arrays.logit_threshold, expected)


def test_certain_thresholds() -> None:
    threshold = (0.0, 1.0) + (0.5,) * 13
    policy = Policy(mechanism="rollback", threshold=threshold, budget=2)
    model = replace(REFERENCE, policies={"p": policy})
    fires = firing(compile_model(model), compile_policy(model, "p"))
    np.testing.assert_array_equal(fires[:2], [[1, 1, 1], [0, 0, 0]])
    assert not firing(compile_model(model), never(compile_model(model))).any()


def test_a_policy_of_another_name_is_refused() -> None:
    with pytest.raises(ParameterError, match="policy must be one of the model's, got 'lat'; did you mean 'late'"):
        compile_policy(REFERENCE, "lat")


def test_costs_by_step() -> None:
    cost = replace(REFERENCE.cost, tokens_per_step=900, tokens_per_step_growth=120, usd_per_million_tokens=2)
    arrays = compile_model(replace(REFERENCE, cost=cost))
    np.testing.assert_array_equal(arrays.tokens[:3], [900, 1020, 1140])
    assert arrays.usd_per_token == 2e-6

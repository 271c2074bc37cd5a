"""Draws of p, gain and d come out of the model that they are placed in."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from process.chains import models
from scipy.special import expit, logit

from drsim.planning.placing import FARTHEST, Mechanic, Placed, Targets, place
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.flips import PrefixCoupling, flips_many
from drsim.process.shifts import moved_draws
from drsim.process.spec import Agent, Critic, Mechanism, Mode, Model, Policy

SHARED, LEAST = PrefixCoupling.SHARED_PREFIX, PrefixCoupling.LEAST

ORDINARY = Model(
    name="ordinary",
    source="made up",
    horizon=12,
    agent=Agent(finish=0.2, modes={"off": Mode(slip=0.08, abandon=0.1, self_recover=0.03)}, start_off=0.1),
    critic=Critic(mean_on=-1.0, mean_off={"off": 1.0}, sigma=1.0),
    mechanisms={"m": Mechanism(recover={"off": 0.3}, disrupt=0.15, extra_steps=1)},
    policies={"p": Policy(mechanism="m", threshold=0.5, budget=2, cooldown=1)},
)


def levels(model: CompiledModel, mechanism: int = 0) -> tuple[np.ndarray, np.ndarray]:
    kernel = model.kernels[mechanism]
    with np.errstate(divide="ignore"):
        recover = logit(np.stack([kernel[:, k, 0] for k in range(1, kernel.shape[-1])]))
        return recover[np.newaxis], logit(1.0 - kernel[:, 0, 0])[np.newaxis]


def mechanic_of(model: CompiledModel, policy: CompiledPolicy) -> Mechanic:
    recover, disrupt = levels(model)
    return Mechanic(policy=policy, recover_logit=recover, disrupt_logit=disrupt)


def placed(model: Model, targets: Targets) -> Placed:
    compiled = compile_model(model)
    n = len(targets.failure_rate if targets.failure_rate is not None else targets.gain)  # type: ignore[arg-type]
    return place(compiled, mechanic_of(compiled, compile_policy(model, "p")), targets, n)


def moved_rates(model: Model, v: float, e: float, c: float, coupling: PrefixCoupling, n_nodes: int) -> list[float]:
    """p, gain and d of a model that was moved by known amounts."""
    compiled = compile_model(model)
    recover, disrupt = levels(compiled)
    draws = moved_draws(
        compiled, ease=np.array([v]), mechanism=0, recover=expit(recover + c + e), disrupt=expit(disrupt + c - e)
    )
    flips = flips_many(draws, compile_policy(model, "p"), n_nodes=n_nodes)
    return [1.0 - float(flips.baseline[0]), float(flips.gain[0]), float(flips.disruption(coupling)[0])]


@settings(deadline=None, max_examples=60)
@given(
    models(most_steps=7, most_modes=2),
    st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2)),
    st.sampled_from([SHARED, LEAST]),
)
def test_rates_that_a_moved_model_has_are_found_again(
    model: Model, moves: tuple[float, float, float], coupling: PrefixCoupling
) -> None:
    n_nodes = evaluate(compile_model(model), compile_policy(model, "p")).n_nodes
    p, gain, d = moved_rates(model, *moves, coupling, n_nodes)
    assume(0.01 < p < 0.99)
    found = placed(
        model,
        Targets(
            failure_rate=np.array([p]),
            gain=np.array([gain]),
            disruption=np.array([d]),
            coupling=coupling,
            is_bound=False,
        ),
    )
    assume(found.is_reached[0])
    assert abs(1.0 - found.flips.baseline[0] - p) < 1e-8
    assert abs(found.flips.gain[0] - gain) < 1e-8
    assert abs(found.flips.disruption(coupling)[0] - d) < 1e-8


@pytest.mark.parametrize("coupling", [SHARED, LEAST])
def test_an_ordinary_model_is_found_again_from_wherever_it_was_moved(coupling: PrefixCoupling) -> None:
    rng = np.random.default_rng(3)
    moves = rng.uniform(-2.0, 2.0, size=(200, 3))
    p, gain, d = np.array([moved_rates(ORDINARY, v, e, c, coupling, 1) for v, e, c in moves]).T
    found = placed(ORDINARY, Targets(failure_rate=p, gain=gain, disruption=d, coupling=coupling, is_bound=False))
    assert found.is_reached.all()
    assert found.n_unreached == {}
    np.testing.assert_allclose(1.0 - found.flips.baseline, p, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.flips.gain, gain, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.flips.disruption(coupling), d, rtol=0, atol=1e-10)
    # three numbers and three moves: the moves themselves come back, but where d is at its floor, which many moves share
    off_floor = found.flips.disruption(coupling) > np.maximum(0.0, -gain / (1.0 - p)) + 1e-3
    assert off_floor.sum() > 150
    np.testing.assert_allclose(
        np.stack([found.ease, found.effect, found.intensity], axis=1)[off_floor], moves[off_floor], atol=1e-4
    )


def test_a_target_left_open_moves_nothing() -> None:
    nothing = Targets(failure_rate=np.array([0.4]), gain=None, disruption=None, coupling=LEAST, is_bound=True)
    found = placed(ORDINARY, nothing)
    assert found.effect[0] == found.intensity[0] == 0.0
    np.testing.assert_allclose(found.disrupt, 0.15)
    own = compile_model(ORDINARY)
    gain = Targets(failure_rate=None, gain=np.array([0.01]), disruption=None, coupling=LEAST, is_bound=True)
    found = placed(ORDINARY, gain)
    assert found.ease[0] == 0.0
    assert found.flips.baseline[0] == pytest.approx(evaluate(own, compile_policy(ORDINARY, "p")).baseline, abs=1e-14)
    assert found.flips.gain[0] == pytest.approx(0.01, abs=1e-12)


def test_a_bound_that_the_draws_do_not_insist_on_leaves_the_split_alone() -> None:
    p, gain, d = moved_rates(ORDINARY, 0.3, 0.2, 0.0, LEAST, 1)
    n = 200
    rng = np.random.default_rng(1)

    def with_bound(bound: np.ndarray) -> Placed:
        return placed(
            ORDINARY,
            Targets(failure_rate=np.full(n, p), gain=np.full(n, gain), disruption=bound, coupling=LEAST, is_bound=True),
        )

    loose = with_bound(np.clip(d + rng.normal(0.0, 0.05, n), 0.0, 1.0))
    assert loose.prob_bound is not None
    assert 0.3 < loose.prob_bound < 0.7
    assert loose.n_raised == 0
    np.testing.assert_allclose(loose.intensity, 0.0)
    np.testing.assert_allclose(loose.flips.disruption(LEAST), d, atol=1e-10)

    bound = d + 0.03 + rng.uniform(0.0, 0.01, n)
    tight = with_bound(bound)
    assert tight.prob_bound == 1.0
    assert tight.n_raised == n
    assert np.all(tight.intensity > 0.0)
    np.testing.assert_allclose(tight.flips.disruption(LEAST), bound, atol=1e-10)
    np.testing.assert_allclose(tight.flips.gain, gain, atol=1e-10)


def test_what_is_out_of_reach_is_counted_and_put_as_near_as_it_comes() -> None:
    # a critic that never fires on track cannot disrupt, so no effect makes the gain negative
    sure = replace(ORDINARY, critic=Critic(mean_on=-40.0, mean_off={"off": 40.0}))
    targets = Targets(
        failure_rate=np.array([0.4, 0.4, 0.4]),
        gain=np.array([-0.05, 0.02, 0.9]),
        disruption=None,
        coupling=LEAST,
        is_bound=True,
    )
    found = placed(sure, targets)
    assert found.is_reached.tolist() == [False, True, False]
    assert found.n_unreached == {"gain": 2}
    assert found.effect[0] == -2.0 * FARTHEST
    assert found.effect[2] == 2.0 * FARTHEST
    assert found.flips.gain[1] == pytest.approx(0.02, abs=1e-12)
    np.testing.assert_allclose(1.0 - found.flips.baseline, 0.4, atol=1e-12)
    none_finish = replace(ORDINARY, agent=replace(ORDINARY.agent, finish=0.0))
    found = placed(none_finish, targets)
    assert found.n_unreached == {"p": 3}
    assert not found.is_reached.any()


def test_tasks_that_differ_and_run_level_shifts_are_moved_too() -> None:
    model = replace(
        ORDINARY,
        agent=replace(ORDINARY.agent, finish_task_sd=0.8, slip_task_sd=0.3),
        critic=replace(ORDINARY.critic, run_sd=0.4),
    )
    n_nodes = evaluate(compile_model(model), compile_policy(model, "p")).n_nodes
    p, gain, d = np.array([moved_rates(model, v, 0.4, c, SHARED, n_nodes) for v, c in ((0.5, 0.3), (-0.5, -0.6))]).T
    found = placed(model, Targets(failure_rate=p, gain=gain, disruption=d, coupling=SHARED, is_bound=False))
    assert found.is_reached.all()
    np.testing.assert_allclose(1.0 - found.flips.baseline, p, atol=1e-10)
    np.testing.assert_allclose(found.flips.gain, gain, atol=1e-10)
    np.testing.assert_allclose(found.flips.disruption(SHARED), d, atol=1e-10)
    np.testing.assert_allclose(found.intensity, (0.3, -0.6), atol=1e-4)

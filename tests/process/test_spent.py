from dataclasses import replace

import numpy as np
import pytest

from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.halted import halted_many
from drsim.process.shipped import find_model
from drsim.process.spent import Kind, by_class, spent_many
from drsim.process.stacks import stack_draws


def models() -> list[CompiledModel]:
    """Draws with tasks that differ and scores that hang together."""
    spec = find_model("example")
    rollback = replace(spec.mechanisms["rollback"], tokens=300.0)
    return [
        compile_model(
            replace(
                spec,
                agent=replace(spec.agent, finish=finish, finish_task_sd=0.8),
                critic=replace(spec.critic, run_sd=0.5),
                mechanisms={"rollback": rollback},
            )
        )
        for finish in (0.1, 0.18, 0.3)
    ]


def late(budget: int = 3, cooldown: int = 0) -> CompiledPolicy:
    return replace(compile_policy(find_model("example"), "late"), budget=budget, cooldown=cooldown)


def test_means_over_classes_are_the_exact_recursion() -> None:
    draws, policies = stack_draws(models()), [late(), late(budget=1), late(cooldown=2), never(models()[0])]
    found = spent_many(draws, policies)
    assert found.spent.shape == (4, 4, 3, draws.task_weights.size)
    assert found.success.shape == found.spent_succeeding.shape[1:]
    for d, model in enumerate(models()):
        for p, policy in enumerate(policies):
            exact = evaluate(model, policy)
            spent = found.spent[:, p, d] @ draws.task_weights
            tokens = spent[Kind.TOKENS] + model.critic_tokens[0] * spent[Kind.CRITIC_CALLS]
            assert found.success[p, d] @ draws.task_weights == pytest.approx(exact.success, abs=1e-9)
            assert spent[Kind.STEPS] == pytest.approx(exact.steps, rel=1e-9)
            assert spent[Kind.INTERVENTIONS] == pytest.approx(exact.interventions, rel=1e-9)
            assert tokens == pytest.approx(exact.tokens, rel=1e-9)


def test_what_is_spent_by_runs_that_succeed() -> None:
    """A single interval of the chain, summed by hand: a success after step t has acted t + 1 times."""
    model = compile_model(find_model("example"))
    draws, horizon = stack_draws([model]), len(model.tokens)
    found = spent_many(draws, [never(model)])
    live, steps, tokens = model.start.copy(), 0.0, 0.0
    for t in range(horizon):
        wins = float(live @ model.transitions[t, :, 2])
        steps += (t + 1) * wins
        tokens += model.tokens[: t + 1].sum() * wins
        live = live @ model.transitions[t, :, :2]
    assert found.spent_succeeding[Kind.STEPS, 0, 0, 0] == pytest.approx(steps, rel=1e-9)
    assert found.spent_succeeding[Kind.TOKENS, 0, 0, 0] == pytest.approx(tokens, rel=1e-9)
    assert not found.spent[[Kind.CRITIC_CALLS, Kind.INTERVENTIONS]].any()


def test_every_success_ends_before_it_is_scored_again() -> None:
    """A run that succeeds is scored in all its acts but the last; interventions pass extra steps without an act."""
    draws = stack_draws(models())
    found = spent_many(draws, [late()])
    good = found.spent_succeeding[:, 0]
    np.testing.assert_allclose(good[Kind.CRITIC_CALLS], good[Kind.STEPS] - found.success[0], atol=1e-8)
    assert np.all(found.spent_succeeding <= found.spent + 1e-6)


def test_runs_that_are_ended() -> None:
    draws = stack_draws(models())
    closed = replace(late(), logit_threshold=np.full(15, np.inf))
    always = replace(late(), logit_threshold=np.full(15, -np.inf))
    found = halted_many(draws, [late(), closed, always, never(models()[0])])
    unaided = spent_many(draws, [never(models()[0])])
    for p in (1, 3):
        assert not found.fired[p].any()
        np.testing.assert_allclose(found.spent[Kind.TOKENS, p], unaided.spent[Kind.TOKENS, 0], rtol=1e-9)
        good = unaided.spent_succeeding[Kind.TOKENS, 0]
        np.testing.assert_allclose(found.spent_succeeding[Kind.TOKENS, p], good, rtol=1e-6)
    # whoever is watched is scored after every act that does not end the run, whoever is not never
    assert found.spent[Kind.CRITIC_CALLS, 1].min() > 0.0
    assert not found.spent[Kind.CRITIC_CALLS, 3].any()
    # whoever fires always does so after the first act that does not end the run
    start = draws.start[:, None] @ draws.transitions[:, :, 0, :, :2].sum(axis=-1).transpose(0, 2, 1)
    np.testing.assert_allclose(found.fired[2], start[:, 0], atol=1e-12)
    np.testing.assert_allclose(found.spent[Kind.STEPS, 2], 1.0)
    # firing tells nothing new of the state: what fires and would succeed is part of both
    assert np.all(found.fired_succeeding <= np.minimum(found.fired, found.success) + 1e-12)
    np.testing.assert_allclose(found.success, np.broadcast_to(unaided.success, found.success.shape), atol=1e-9)


def test_classes_as_draws() -> None:
    draws = stack_draws(models())
    apart = by_class(draws)
    n_classes = draws.task_weights.size
    assert apart.transitions.shape[:2] == (3 * n_classes, 1)
    np.testing.assert_array_equal(apart.transitions[n_classes + 2, 0], draws.transitions[1, 2])
    np.testing.assert_array_equal(apart.kernels[n_classes + 2], draws.kernels[1])

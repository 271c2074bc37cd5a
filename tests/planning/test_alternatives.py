from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.plain_runs import Players, play, played, retried_in_context

from drsim.arrays import FloatArray
from drsim.engine.simulate import Engine, simulate
from drsim.errors import ParameterError
from drsim.planning.alternatives import (
    Abort,
    Alternative,
    BestOf,
    Escalate,
    Halt,
    Intervene,
    Item,
    Nothing,
    Retry,
    RetryInContext,
    Selector,
    Verifier,
    World,
    world_of,
)
from drsim.planning.attempts import Attempts, attempts_of_model, beta_attempt, beta_watched, rho_of
from drsim.process.compile import CompiledModel, compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model
from drsim.process.stacks import stack_draws
from drsim.theory.hazards import retry_hazards
from drsim.theory.retry import abort_and_restart, retry_in_context, retry_until_accepted
from drsim.theory.selection import best_of_n_beta
from drsim.theory.shared_error import shared_error_best_of_n_beta

N_RUNS = 60_000
VERIFIER = Verifier(tpr=0.85, fpr=0.2)
GOOD, BAD = np.array([4000.0, 6.0, 0.5, 7.0]), np.array([9000.0, 11.0, 1.5, 12.0])

ALTERNATIVES: list[Alternative] = [
    Nothing(),
    Intervene(policy="late"),
    Halt(trigger="late"),
    Escalate(trigger="late"),
    Abort(trigger="late", restarts=1),
    Abort(trigger="late", restarts=3),
    Retry(attempts=1, verifier=VERIFIER),
    Retry(attempts=4, verifier=VERIFIER),
    BestOf(attempts=3, selector=Selector(auroc=1.0)),
    BestOf(attempts=3, selector=Selector(auroc=1.0), in_sequence=True),
    BestOf(attempts=4, selector=Selector(auroc=0.75)),
    BestOf(attempts=4, selector=Selector(auroc=0.75, shared=0.6), in_sequence=True),
    BestOf(attempts=3, selector=Selector(auroc=0.8, shared=0.3), policy="late"),
]


def model_with_tasks() -> CompiledModel:
    """Tasks that differ, scores of a run that hang together, mechanisms with a cost and a cooldown."""
    model = find_model("example")
    rollback = replace(model.mechanisms["rollback"], tokens=300.0)
    return compile_model(
        replace(
            model,
            agent=replace(model.agent, finish_task_sd=1.2, slip_task_sd=0.8),
            critic=replace(model.critic, run_sd=0.6),
            mechanisms={"rollback": rollback},
        )
    )


def world_of_model() -> tuple[CompiledModel, World]:
    model = model_with_tasks()
    late = replace(compile_policy(find_model("example"), "late"), cooldown=1)
    attempts = attempts_of_model(stack_draws([model]), {"late": late}, {"late": late}, never(model), None)
    return model, world_of(attempts, n_max=5, growth=120.0, second_success=0.9)


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda it: it.name)
def test_closed_forms_agree_with_runs_of_the_step_process(alternative: Alternative) -> None:
    model, world = world_of_model()
    assert model.tasks is not None
    assert world.second is not None
    rng = np.random.default_rng(11)
    late = replace(compile_policy(find_model("example"), "late"), cooldown=1)
    players = Players(
        rng=rng,
        kinds=rng.choice(model.tasks.weights.size, p=model.tasks.weights, size=N_RUNS),
        unaided=lambda kinds: play(rng, model, never(model), kinds),
        intervened={"late": lambda kinds: play(rng, model, late, kinds)},
        watched={"late": lambda kinds: play(rng, model, late, kinds, ends=True)},
        second=world.second[0],
    )
    z = played(players, alternative).z(alternative.evaluate(world))
    assert max(map(abs, z.values())) <= 5.0, z


def test_one_run_agrees_with_the_engine() -> None:
    model, world = world_of_model()
    late = replace(compile_policy(find_model("example"), "late"), cooldown=1)
    simulated = simulate(model, {"late": late}, n=200_000, seed=3, engine=Engine.NUMBA).policies["late"]
    found = Intervene(policy="late").evaluate(world)
    tokens = found.items[Item.TOKENS] + model.critic_tokens[0] * found.items[Item.CRITIC_CALLS]
    pairs = (
        (simulated.success, found.success),
        (simulated.steps, found.steps),
        (simulated.interventions, found.items[Item.INTERVENTIONS]),
        (simulated.tokens, tokens),
    )
    assert max(abs(it.value - float(exact[0])) / it.se for it, exact in pairs) <= 5.0


def test_runs_tell_a_wrong_law_apart() -> None:
    """Were attempts taken for independent altogether, the same comparison would fail."""
    model, world = world_of_model()
    assert model.tasks is not None
    rng = np.random.default_rng(11)
    players = Players(
        rng=rng,
        kinds=rng.choice(model.tasks.weights.size, p=model.tasks.weights, size=N_RUNS),
        unaided=lambda kinds: play(rng, model, never(model), kinds),
        intervened={},
        watched={},
    )
    best = BestOf(attempts=3, selector=Selector(auroc=1.0))
    exact = best.evaluate(world)
    alike = 1.0 - (1.0 - world.attempts.unaided.mean_success) ** 3
    assert abs(played(players, best).z(replace(exact, success=alike))["success"]) > 20.0


def beta_world(success: FloatArray, rho: FloatArray, *, tpr: float = 0.6, fpr: float = 0.2, n_max: int = 8) -> World:
    shape = (4, success.size)
    good, bad = (np.broadcast_to(it[:, None], shape) for it in (GOOD, BAD))
    unaided = beta_attempt(success, rho, good, bad)
    watched = beta_watched(unaided, np.full(success.size, tpr), np.full(success.size, fpr), 0.5 * good, 0.4 * bad)
    attempts = Attempts(unaided=unaided, intervened={}, watched={"critic": watched}, rho=rho)
    return world_of(attempts, n_max=n_max, growth=0.0, second_success=None)


@pytest.mark.parametrize("contamination", [0.4, 1.0, 2.5])
def test_retry_in_context_agrees_with_runs(contamination: float) -> None:
    rng = np.random.default_rng(5)
    how = RetryInContext(attempts=4, verifier=VERIFIER, contamination=contamination)
    world = replace(beta_world(np.array([0.55]), np.array([0.4])), growth=120.0)
    size = 1.0 / 0.4 - 1.0
    success = rng.beta(0.55 * size, 0.45 * size, 400_000)
    z = retried_in_context(rng, success, GOOD.tolist(), BAD.tolist(), 120.0, how).z(how.evaluate(world))
    assert max(map(abs, z.values())) <= 5.0, z


def test_each_agrees_with_its_theory() -> None:
    rng = np.random.default_rng(3)
    success, rho = rng.uniform(0.05, 0.95, 40), rng.uniform(0.02, 0.95, 40)
    world = beta_world(success, rho)
    unaided, size = world.attempts.unaided, 1.0 / rho - 1.0
    a, b = success * size, (1.0 - success) * size
    for n in (1, 2, 5, 8):
        perfect = BestOf(attempts=n, selector=Selector(auroc=1.0)).evaluate(world)
        np.testing.assert_allclose(perfect.success, best_of_n_beta(a, b, n), atol=1e-12)
        stopped = BestOf(attempts=n, selector=Selector(auroc=1.0), in_sequence=True).evaluate(world)
        np.testing.assert_allclose(stopped.success, perfect.success, atol=1e-12)
        erring = BestOf(attempts=n, selector=Selector(auroc=0.8, shared=0.3)).evaluate(world)
        np.testing.assert_allclose(erring.success, shared_error_best_of_n_beta(a, b, n, 0.8, 0.3), atol=1e-9)
        fresh = Retry(attempts=n, verifier=VERIFIER).evaluate(world)
        theory = retry_until_accepted(unaided.success, n, VERIFIER.tpr, VERIFIER.fpr)
        np.testing.assert_allclose(fresh.success, unaided.over_tasks(theory.success), atol=1e-12)
        np.testing.assert_allclose(fresh.attempts, unaided.over_tasks(theory.attempts), atol=1e-12)
        within = RetryInContext(attempts=n, verifier=VERIFIER, contamination=0.6).evaluate(world)
        theory = retry_in_context(unaided.success, n, VERIFIER.tpr, VERIFIER.fpr, 0.6)
        np.testing.assert_allclose(within.success, unaided.over_tasks(theory.success), atol=1e-12)
        np.testing.assert_allclose(within.attempts, unaided.over_tasks(theory.attempts), atol=1e-12)
    aborted = Abort(trigger="critic", restarts=2).evaluate(world)
    restarted = abort_and_restart(unaided.success, 2, 0.6, 0.2, 0.5)
    np.testing.assert_allclose(aborted.success, unaided.over_tasks(restarted.success), atol=1e-12)
    np.testing.assert_allclose(aborted.attempts, unaided.over_tasks(restarted.runs), atol=1e-12)


@pytest.mark.parametrize("contamination", [0.05, 0.2, 0.7, 1.0, 1.5, 4.0])
def test_in_context_solves_what_hazards_say(contamination: float) -> None:
    """On few nodes a factor of 4 once gave a success that was 0.56 too high: tasks near s = 0 were passed over."""
    success, rho = (it.ravel() for it in np.meshgrid([0.1, 0.5, 0.9], [0.003, 0.05, 0.3, 0.7, 0.95]))
    world = beta_world(success, rho)
    oracle = Verifier(tpr=1.0, fpr=0.0)
    for n in (1, 3, 8):
        found = RetryInContext(attempts=n, verifier=oracle, contamination=contamination).evaluate(world).success
        solved = 1.0 - np.prod(1.0 - retry_hazards(success, rho, contamination, n), axis=1)
        np.testing.assert_allclose(found, solved, atol=1e-6)


def test_in_context_without_contamination_and_growth_is_a_fresh_retry() -> None:
    world = beta_world(np.array([0.3, 0.7]), np.array([0.2, 0.6]))
    fresh = Retry(attempts=5, verifier=VERIFIER).evaluate(world)
    within = RetryInContext(attempts=5, verifier=VERIFIER, contamination=1.0).evaluate(world)
    np.testing.assert_allclose(within.success, fresh.success, atol=1e-12)
    np.testing.assert_allclose(within.items, fresh.items, rtol=1e-12)


def test_one_run_of_the_model_is_its_exact_recursion() -> None:
    model, world = world_of_model()
    late = replace(compile_policy(find_model("example"), "late"), cooldown=1)
    exact = evaluate(model, late)
    found = Intervene(policy="late").evaluate(world)
    assert found.success[0] == pytest.approx(exact.success, abs=1e-9)
    assert found.steps[0] == pytest.approx(exact.steps, abs=1e-8)
    assert found.items[0, 0] + model.critic_tokens[0] * found.items[1, 0] == pytest.approx(exact.tokens, rel=1e-8)
    assert Nothing().evaluate(world).success[0] == pytest.approx(exact.baseline, abs=1e-9)
    assert world.attempts.rho[0] == pytest.approx(exact.rho, abs=1e-9)


def test_beta_tasks_keep_the_means_of_the_model() -> None:
    """However tasks differ, one run earns and spends what it did; and ρ is what was asked for."""
    model = compile_model(find_model("example"))
    late, draws = compile_policy(find_model("example"), "late"), stack_draws([model])
    alike = attempts_of_model(draws, {"late": late}, {"late": late}, never(model), None)
    rho = np.array([0.0, 0.3, 0.9, 1.0])
    spread = attempts_of_model(draws, {"late": late}, {"late": late}, never(model), rho)
    for before, now in ((alike.unaided, spread.unaided), (alike.intervened["late"], spread.intervened["late"])):
        np.testing.assert_allclose(now.mean_success, before.mean_success[0], atol=1e-12)
        expected = np.broadcast_to(before.over_tasks(before.spent), (4, 4))
        np.testing.assert_allclose(now.over_tasks(now.spent), expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(rho_of(now), rho, atol=1e-9)
    ended, spread_ended = alike.watched["late"], spread.watched["late"]
    for name in ("kept", "fired", "spent"):
        expected = alike.unaided.over_tasks(getattr(ended, name))
        found = spread.unaided.over_tasks(getattr(spread_ended, name))
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-8)


rates = st.floats(0.02, 0.98)


@settings(deadline=None, max_examples=60)
@given(success=rates, rho=rates, auroc=st.floats(0.5, 1.0), shared=st.floats(0.0, 1.0), n=st.integers(1, 7))
def test_success_never_falls_with_attempts_for_a_perfect_selector(
    success: float, rho: float, auroc: float, shared: float, n: int
) -> None:
    world = beta_world(np.array([success]), np.array([rho]))
    perfect, more = (BestOf(attempts=k, selector=Selector(auroc=1.0)).evaluate(world) for k in (n, n + 1))
    assert more.success[0] >= perfect.success[0] - 1e-12
    erring = BestOf(attempts=n, selector=Selector(auroc=auroc, shared=shared)).evaluate(world)
    assert erring.success[0] <= perfect.success[0] + 1e-12
    own_errors = BestOf(attempts=n, selector=Selector(auroc=auroc)).evaluate(world)
    assert own_errors.success[0] >= success - 1e-9
    # tasks that differ are never better served by repeating than tasks that are alike
    alike = beta_world(np.array([success]), np.array([0.0]))
    assert perfect.success[0] <= BestOf(attempts=n, selector=Selector(auroc=1.0)).evaluate(alike).success[0] + 1e-12


@settings(deadline=None, max_examples=40)
@given(success=rates, rho=rates, n=st.integers(2, 8))
def test_spending_is_additive_over_attempts(success: float, rho: float, n: int) -> None:
    world = beta_world(np.array([success]), np.array([rho]))
    one = Nothing().evaluate(world)
    many = BestOf(attempts=n, selector=Selector(auroc=0.7)).evaluate(world)
    np.testing.assert_allclose(many.items[:3], n * one.items[:3], rtol=1e-12)
    np.testing.assert_allclose(many.steps, one.steps, rtol=1e-12)
    in_turn = BestOf(attempts=n, selector=Selector(auroc=0.7), in_sequence=True).evaluate(world)
    np.testing.assert_allclose(in_turn.steps, n * one.steps, rtol=1e-12)
    np.testing.assert_allclose(in_turn.items, many.items, rtol=1e-12)
    retried = Retry(attempts=n, verifier=VERIFIER).evaluate(world)
    assert np.all(retried.items[0] <= n * BAD[0])
    assert retried.attempts[0] <= n


def test_a_second_agent_has_the_success_that_was_given() -> None:
    attempts = beta_world(np.array([0.3, 0.6]), np.array([0.4, 0.8])).attempts
    world = world_of(attempts, n_max=2, growth=0.0, second_success=np.array([0.9, 0.2]))
    assert world.second is not None
    np.testing.assert_allclose(attempts.unaided.over_tasks(world.second), [0.9, 0.2], atol=1e-12)
    assert np.all(np.diff(world.second, axis=1) >= 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Selector(auroc=0.49), r"auroc must lie in \[0.5, 1\], got 0.49"),
        (lambda: Selector(auroc=0.7, shared=1.5), r"shared must lie in \[0, 1\], got 1.5"),
        (lambda: Verifier(tpr=90, fpr=0.1), "verifier_tpr must lie"),
        (lambda: Retry(attempts=0, verifier=VERIFIER), "attempts must be a whole number"),
        (lambda: RetryInContext(attempts=2, verifier=VERIFIER, contamination=0.0), "contamination must be positive"),
        (lambda: Abort(trigger="x", restarts=0), "restarts must be a whole number"),
        (lambda: BestOf(attempts=65, selector=Selector(auroc=0.7)), "attempts must be a whole number"),
    ],
)
def test_numbers_outside_their_domain(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()

"""What runs show of horizon, costs and scores comes back, and what they cannot show is refused with a reason."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.forks import scored_run
from process.chains import REFERENCE

from drsim.engine.records import simulated_runs
from drsim.engine.simulate import Engine
from drsim.pilot.records import Cost, Outcome, Run, Step
from drsim.planning.observed import costs_seen, horizon_seen, scores_seen, with_horizon
from drsim.process.compile import compile_model
from drsim.process.parts import Cost as ModelCost
from drsim.process.parts import Critic
from drsim.process.shipped import find_model
from drsim.process.spec import Model

EXAMPLE = find_model("example")


def runs_of(model: Model, n: int, seed: int) -> list[Run]:
    compiled, rng = compile_model(model), np.random.default_rng(seed)
    return [scored_run(compiled, rng, f"t{i}") for i in range(n)]


def plain(outcome: Outcome, n_steps: int | None, **more: object) -> Run:
    return Run(task_id="t", arm="baseline", outcome=outcome, n_steps=n_steps, **more)  # type: ignore[arg-type]


def test_scores_come_back_from_runs_whose_states_are_hidden() -> None:
    truth = replace(EXAMPLE, critic=Critic(mean_on=-0.7, mean_off={"off": 1.6}, sigma=0.8))
    found = []
    for seed in range(12):
        seen = scores_seen(runs_of(truth, 400, seed), EXAMPLE, baseline="baseline")
        assert seen.told.is_used
        critic = seen.part
        assert critic.mean_on is not None
        assert critic.mean_off is not None
        assert critic.sigma is not None
        found.append((critic.mean_on, critic.mean_off["off"], critic.sigma))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / len(found) ** 0.5
    assert np.all(np.abs(mean - (-0.7, 1.6, 0.8)) < 5 * error)
    # labels by the end of the run alone would put the means closer together
    runs = runs_of(truth, 2000, 99)
    by_end = [
        np.mean([np.log(s.score / (1 - s.score)) for r in runs if r.outcome is end for s in r.steps if s.score])
        for end in (Outcome.SUCCESS, Outcome.FAIL)
    ]
    assert by_end[1] < 1.6 - 5 * error[1]


def test_two_modes_and_tasks_that_differ_are_weighed_as_well() -> None:
    model = replace(REFERENCE, critic=Critic(mean_on=-1.2, mean_off={"m1": 0.9, "m2": 0.9}, sigma=1.0))
    model = replace(model, agent=replace(model.agent, finish_task_sd=0.5))
    # the runs are those of typical tasks, so that only the weighing of the classes is at stake
    typical = replace(model, agent=replace(model.agent, finish_task_sd=0.0))
    seen = scores_seen(runs_of(typical, 3000, 1), model, baseline="baseline")
    assert seen.told.is_used
    assert seen.part.mean_off is not None
    assert set(seen.part.mean_off) == {"m1", "m2"}
    assert seen.part.mean_on == pytest.approx(-1.2, abs=0.1)
    assert seen.part.mean_off["m1"] == pytest.approx(0.9, abs=0.25)


@pytest.mark.parametrize(
    ("why", "runs"),
    [
        ("carry no scores", lambda: [plain(Outcome.SUCCESS, 3)]),
        ("hold 0 or 1", lambda: [plain(Outcome.SUCCESS, 3, steps=(Step(t=0, score=1.0),))]),
        ("fewer than 100", lambda: runs_of(EXAMPLE, 5, 1)),
        ("end where the base model's cannot", lambda: [plain(Outcome.FAIL, 1, steps=(Step(t=0, score=0.5),))] * 9),
        (
            "vary less within a state",
            lambda: [replace_scores(run, 0.5 + 1e-6 * i) for i, run in enumerate(runs_of(EXAMPLE, 200, 1))],
        ),
    ],
)
def test_scores_that_fix_nothing_are_refused(why: str, runs: Callable[[], list[Run]]) -> None:
    base = replace(EXAMPLE, critic=replace(EXAMPLE.critic, run_sd=0.3))
    seen = scores_seen(runs(), base, baseline="baseline")
    assert not seen.told.is_used
    assert why in seen.told.why
    assert seen.part == base.critic


def replace_scores(run: Run, score: float) -> Run:
    steps = tuple(Step(t=step.t, score=score) for step in run.steps)
    return Run(task_id=run.task_id, arm=run.arm, outcome=run.outcome, n_steps=run.n_steps, steps=steps)


def test_costs_come_back_exactly() -> None:
    compiled = compile_model(EXAMPLE)
    runs = list(simulated_runs(compiled, {}, name="x", n=60, seed=1, engine=Engine.REFERENCE))
    seen = costs_seen(runs, ModelCost(), baseline="baseline")
    assert seen.part.tokens_per_step == pytest.approx(900.0, rel=1e-9)
    assert seen.part.tokens_per_step_growth == pytest.approx(120.0, rel=1e-9)
    assert seen.part.usd_per_million_tokens == pytest.approx(1.0, rel=1e-9)
    assert seen.part.seconds_per_step == pytest.approx(4.0, rel=1e-9)
    # nothing was scored in the baseline, so the critic's tokens stay the base model's
    assert not seen.told.is_used
    assert "critic_tokens of the base model" in seen.told.why


def test_costs_that_say_little_leave_the_rest_alone() -> None:
    base = ModelCost(tokens_per_step=7.0, usd_per_million_tokens=2.0)
    nothing = costs_seen([plain(Outcome.SUCCESS, 3)], base, baseline="baseline")
    assert nothing.part == base
    assert nothing.told.why == "the data carry no costs"
    # runs of one length do not tell growth from level
    level = costs_seen([plain(Outcome.SUCCESS, 4, cost=Cost(tokens=40.0))] * 3, base, baseline="baseline")
    assert (level.part.tokens_per_step, level.part.tokens_per_step_growth) == (10.0, 0.0)
    assert level.part.usd_per_million_tokens == 2.0
    critic = costs_seen(
        [plain(Outcome.SUCCESS, 2, cost=Cost(critic_tokens=50.0), steps=(Step(t=0, score=0.1), Step(t=1, score=0.1)))],
        base,
        baseline="baseline",
    )
    assert critic.part.critic_tokens == 25.0


def test_the_horizon_is_the_cap_or_what_the_longest_run_needs() -> None:
    capped = [plain(Outcome.CAPPED, 9), plain(Outcome.CAPPED, 9), plain(Outcome.SUCCESS, 4)]
    assert horizon_seen(capped, EXAMPLE, baseline="baseline").part == 9
    longer = horizon_seen([plain(Outcome.FAIL, 40)], EXAMPLE, baseline="baseline")
    assert (longer.part, longer.told.is_used) == (40, True)
    shorter = horizon_seen([plain(Outcome.FAIL, 4)], EXAMPLE, baseline="baseline")
    assert (shorter.part, shorter.told.is_used) == (15, False)
    assert horizon_seen([plain(Outcome.FAIL, None)], EXAMPLE, baseline="baseline").told.why.startswith("the data state")


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40))
def test_a_model_over_another_horizon_keeps_what_both_have(horizon: int) -> None:
    model = replace(REFERENCE, policies=dict(REFERENCE.policies))
    other = with_horizon(model, horizon)
    assert other.horizon == horizon
    one, two = compile_model(model), compile_model(other)
    shared = min(horizon, 15)
    np.testing.assert_array_equal(two.transitions[:shared], one.transitions[:shared])
    np.testing.assert_array_equal(two.kernels[:, :shared], one.kernels[:, :shared])
    assert set(other.policies) == {name for name, it in model.policies.items() if it.first_step < horizon}
    if horizon > 15:
        assert two.transitions[-1, 0, 3] == one.transitions[-1, 0, 3]
    assert with_horizon(model, 15) is model

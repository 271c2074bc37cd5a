import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process.chains import REFERENCE, models

from drsim.errors import ParameterError
from drsim.planning.ladder import Kind, Ladder, ladder
from drsim.planning.net_values import net_values
from drsim.planning.threshold_policies import best_constant, best_curve, is_constant, is_within
from drsim.planning.written_policy import written_policy
from drsim.process.compile import CompiledModel, CompiledPolicy, History, compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model
from drsim.process.spec import Agent, Critic, Mechanism, Mode, Model, Policy, Signal
from drsim.process.stacks import stack_draws
from drsim.process.terms import Terms, priced
from drsim.process.toml import format_model, format_policy, parse_model

ORDER = (Kind.NEVER, Kind.CONSTANT, Kind.CURVE, Kind.BELIEF, Kind.FULL)


def ladder_of(spec: Model, terms: Terms, n_points: int = 1001) -> Ladder:
    model = compile_model(spec)
    rules = {name: compile_policy(spec, name) for name in spec.policies}
    return ladder(model, rules, terms, seed=1, n_points=n_points, n_runs=20_000)


def assert_monotone(spec: Model, found: Ladder) -> None:
    gains = {kind: found.rung(kind).gain for kind in ORDER}
    assert gains[Kind.NEVER] == 0.0
    for lower, higher in itertools.pairwise(ORDER):
        assert gains[lower] <= gains[higher] + 1e-9, (lower, higher)
    # not by construction: the two recursions are independent of the search for thresholds and of each other
    tolerance = 1e-9 if len(spec.agent.modes) == 1 else 1e-5
    assert found.programme.gain >= gains[Kind.CURVE] - tolerance
    assert found.rung(Kind.BELIEF).low <= found.rung(Kind.BELIEF).gain
    for rung in found.rungs:
        if rung.kind is Kind.USER and rung.below is not None:
            assert rung.low <= gains[rung.below] + 1e-9


any_terms = st.builds(
    Terms,
    budget=st.integers(0, 3),
    cooldown=st.integers(0, 2),
    intervention_price=st.sampled_from([0.0, 0.0, 0.01, 0.2]),
    critic_price=st.sampled_from([0.0, 0.0, 0.003]),
)


@settings(deadline=None, max_examples=40)
@given(models(most_steps=4, most_modes=2), any_terms)
def test_every_ladder_is_monotone(spec: Model, terms: Terms) -> None:
    assert_monotone(spec, ladder_of(spec, terms, n_points=101))


def test_a_policy_that_never_fires_is_no_start_beyond_the_budget() -> None:
    """It keeps a budget of 0 as it stands, but not with lower thresholds."""
    mode = Mode(slip=0.0, abandon=0.0, self_recover=0.0)
    spec = replace(
        find_model("example"),
        agent=Agent(finish=1.0, modes={"off": mode}, start_off=1.0),
        critic=Critic(mean_on=0.0, mean_off={"off": 0.0}),
        mechanisms={"m": Mechanism(recover={"off": 1.0}, disrupt=0.0)},
        policies={"p": Policy(mechanism="m", threshold=1.0, budget=1, propensity=0.25)},
    )
    for budget, gain in ((0, 0.0), (1, 1.0)):
        found = ladder_of(spec, Terms(budget=budget), n_points=101)
        assert_monotone(spec, found)
        assert found.rung(Kind.CURVE).gain == pytest.approx(gain, abs=1e-12)


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(models(most_steps=6, most_modes=2), any_terms)
def test_five_hundred_ladders_are_monotone(spec: Model, terms: Terms) -> None:
    assert_monotone(spec, ladder_of(spec, terms, n_points=151))


@pytest.mark.parametrize("name", ["example", "ip_hotpotqa_minimax_m2_1", "ip_alfworld_qwen3_8b"])
def test_shipped_ladders(name: str) -> None:
    spec = find_model(name)
    found = ladder_of(spec, Terms(budget=3))
    assert_monotone(spec, found)
    assert all(rung.below is Kind.CONSTANT for rung in found.rungs if rung.kind is Kind.USER)
    curve = found.rung(Kind.CURVE)
    assert curve.policy is not None
    exact = evaluate(compile_model(spec), curve.policy)
    assert exact.gain == pytest.approx(curve.gain, abs=1e-12)
    # the oracle keeps what the policy recovers and none of what it disrupts
    assert curve.hindsight == exact.shared_prefix.fail_success > curve.gain
    assert curve.hindsight_independent == exact.independent.fail_success
    assert exact.shared_prefix.fail_success - exact.shared_prefix.success_fail == pytest.approx(curve.gain, abs=1e-12)


def test_two_modes_lie_between_two_bounds() -> None:
    found = ladder_of(REFERENCE, Terms(budget=3))
    assert_monotone(REFERENCE, found)
    belief = found.rung(Kind.BELIEF)
    assert found.rung(Kind.CURVE).gain < belief.low < belief.gain < found.rung(Kind.FULL).gain
    assert belief.gain - belief.low < 3e-4


def tiny() -> CompiledModel:
    """Four steps, one mechanism with an extra step."""
    spec = find_model("example")
    spec = replace(spec, horizon=4, policies={}, agent=replace(spec.agent, start_off=0.3))
    return compile_model(spec)


@pytest.mark.parametrize("price", [0.0, 0.02])
def test_no_table_of_three_levels_is_better(price: float) -> None:
    """All tables of thresholds between three levels of the score, by step and budget, against curve and optimum."""
    model = tiny()
    terms = Terms(budget=2, intervention_price=price)
    found = ladder(model, {}, terms, seed=1)
    cuts = (-np.inf, -0.4, 0.4, np.inf)
    tables = [
        CompiledPolicy(mechanism=0, logit_threshold=np.array(table), budget=budget, cooldown=0)
        for table in itertools.product(cuts, repeat=4)
        for budget in (1, 2)
    ]
    values = net_values(stack_draws([model]), tables, terms)[:, 0] - found.baseline
    assert len(tables) == 512
    assert values.max() > 0.0
    assert values.max() <= found.rung(Kind.CURVE).gain + 1e-12
    assert values.max() <= found.rung(Kind.BELIEF).gain


def test_no_finer_table_is_better_and_the_best_comes_near() -> None:
    model = tiny()
    terms = Terms(budget=2)
    found = ladder(model, {}, terms, seed=1)
    cuts = (*np.linspace(-1.0, 4.5, 12), np.inf)
    tables = [
        CompiledPolicy(mechanism=0, logit_threshold=np.array([*table, np.inf]), budget=2, cooldown=0)
        for table in itertools.product(cuts, repeat=3)
    ]
    best = net_values(stack_draws([model]), tables, terms).max() - found.baseline
    curve = found.rung(Kind.CURVE).gain
    assert curve - 2e-4 < best <= curve + 1e-12


@settings(deadline=None, max_examples=60)
@given(models(most_steps=5, most_modes=2), any_terms)
def test_the_ascent_never_falls_and_its_value_is_exact(spec: Model, terms: Terms) -> None:
    model, start = compile_model(spec), compile_policy(spec, "p")
    draws = stack_draws([model])
    (found,) = best_curve(draws, terms, [start])
    exact = evaluate(priced(model, terms), found.policy)
    assert found.value == pytest.approx(exact.success - exact.tokens, abs=1e-12)
    assert found.value >= net_values(draws, [start], terms)[0, 0] - 1e-12


def test_the_ascent_holds_for_tasks_that_differ_and_a_run_level_shift() -> None:
    spec = find_model("signals")
    spec = replace(spec, critic=replace(spec.critic, run_sd=0.4))
    model, start = compile_model(spec), compile_policy(spec, "score")
    draws = stack_draws([model])
    (found,) = best_curve(draws, Terms(budget=3), [start])
    assert found.value == pytest.approx(evaluate(model, found.policy).success, abs=1e-9)
    # no single threshold can be improved
    for t in range(spec.horizon):
        for by in (-0.3, -0.05, 0.05, 0.3):
            moved = found.policy.logit_threshold.copy()
            moved[t] = moved[t] + by if np.isfinite(moved[t]) else 1.0
            other = evaluate(model, replace(found.policy, logit_threshold=moved)).success
            assert other <= found.value + 1e-9


def test_the_best_constant_is_the_best_of_a_fine_grid() -> None:
    model = tiny()
    draws, terms = stack_draws([model]), Terms(budget=2)
    best = best_constant(draws, terms)[0]
    steps = np.arange(4)
    grid = [
        CompiledPolicy(
            mechanism=0,
            logit_threshold=np.where((steps >= first) & (steps <= last), cut, np.inf),
            budget=budget,
            cooldown=0,
        )
        for first in range(4)
        for last in range(first, 4)
        for cut in np.linspace(-3.0, 5.0, 401)
        for budget in (1, 2)
    ]
    values = net_values(draws, grid, terms)[:, 0]
    assert values.max() <= best.value + 1e-12
    assert values.max() > best.value - 1e-5


def test_what_a_policy_is_measured_against() -> None:
    spec = find_model("signals")
    rules = {name: compile_policy(spec, name) for name in spec.policies}
    assert [name for name, it in rules.items() if is_constant(it)] == ["score", "every_third"]
    assert all(is_within(it, Terms(budget=3), 1) for it in rules.values())
    assert not is_within(rules["score"], Terms(budget=2), 1)
    assert not is_within(rules["score"], Terms(budget=3, cooldown=1), 1)
    assert is_within(replace(rules["score"], budget=1), Terms(budget=3, cooldown=1), 1)
    assert not is_within(rules["score"], Terms(budget=3, mechanisms=()), 1)
    assert not is_within(rules["score"], Terms(budget=3, is_open=np.arange(15) < 9), 1)
    assert is_within(never(compile_model(spec)), Terms(budget=0), 1)


def test_policies_that_look_back_are_simulated() -> None:
    spec = find_model("example")
    model = compile_model(spec)
    found = ladder(model, {}, Terms(budget=1), seed=1)
    curve = found.programme.regions.lowest[0, 0]
    closed = np.isnan(curve)
    best = CompiledPolicy(
        mechanism=0,
        logit_threshold=np.where(closed, np.inf, -np.inf),
        budget=1,
        cooldown=0,
        history=History(signal=Signal.BELIEF, threshold=np.where(closed, 1.0, curve), window=0, votes=0),
    )
    found = ladder(model, {"best": best}, Terms(budget=1, intervention_price=0.001), seed=1)
    rung = next(it for it in found.rungs if it.kind is Kind.USER)
    assert rung.below is Kind.BELIEF
    assert 0.0 < rung.se < 0.002
    assert abs(rung.gain - found.programme.gain) < 5 * rung.se
    assert rung.hindsight is not None
    assert rung.gain < rung.hindsight < 1.0 - found.baseline


def test_written_policies_read_back() -> None:
    spec = find_model("ip_hotpotqa_minimax_m2_1")
    model = compile_model(spec)
    found = ladder(model, {}, Terms(budget=2, cooldown=1), seed=1)
    for kind in (Kind.CONSTANT, Kind.CURVE):
        rung = found.rung(kind)
        assert rung.policy is not None
        written = written_policy(spec, rung.policy)
        text = format_model(replace(spec, policies={})) + format_policy("best one", written)
        again = parse_model(text, source="memory")
        assert again.policies == {"best one": written}
        gain = evaluate(compile_model(again), compile_policy(again, "best one")).gain
        assert gain == pytest.approx(rung.gain, abs=1e-8)
    assert isinstance(written_policy(spec, found.rung(Kind.CONSTANT).policy).threshold, float)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="policy must have a mechanism"):
        written_policy(spec, never(model))


def test_nothing_to_do() -> None:
    for terms, spec in (
        (Terms(budget=0), find_model("example")),
        (Terms(budget=3), replace(find_model("example"), mechanisms={}, policies={})),
    ):
        found = ladder_of(replace(spec, policies={}), terms, n_points=51)
        assert [it.gain for it in found.rungs] == pytest.approx([0.0] * 5, abs=1e-12)
        assert found.curves == ()

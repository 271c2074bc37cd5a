import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planning.test_robust import drawn

from drsim.errors import ParameterError
from drsim.inference.rho_prior import RhoPrior
from drsim.planning.alternatives import BestOf, Family, Item, Selector
from drsim.planning.assumed import KNOBS, assumed, swept, tools_of
from drsim.planning.basis import basis_of_model, basis_of_numbers
from drsim.planning.frontier import Rule
from drsim.planning.plan import Plan, Question, VerdictKind, make_plan
from drsim.planning.plan_maps import RATE_WINNERS, rate_map, selector_map
from drsim.planning.prices import Amount, Unit, prices_of
from drsim.planning.published_case import CASE
from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model
from drsim.process.spec import Model
from drsim.process.stacks import stack_draws
from drsim.report.plan.text import plan_text
from drsim.theory.tradeoff import gain


def plan_of(
    model: Model | None = None,
    *,
    question: Question | None = None,
    given: dict[str, float | None] | None = None,
    told: dict[Item, Amount] | None = None,
    rho: RhoPrior | None = None,
    n_draws: int = 200,
) -> Plan:
    spec = find_model("example") if model is None else model
    asked = Question(unit=Unit.USD) if question is None else question
    basis = basis_of_model(
        spec,
        stack_draws([compile_model(spec)]),
        policies=(),
        interventions=None,
        rho=rho,
        n_max=asked.n_max,
        n_draws=n_draws,
        seed=1,
    )
    prices = prices_of(spec.cost, told or {}, usd_per_million_tokens=None, second_seconds=None)
    return make_plan(basis, asked, prices, assumed(given or {}))


ALL_GIVEN: dict[str, float | None] = {name: knob.default for name, knob in KNOBS.items()}


def test_verdicts_are_drawn_from_what_is_affordable_and_not_dominated() -> None:
    plan = plan_of()
    mean, cost = plan.success.mean(axis=1), plan.cost.mean(axis=1)
    assert {it.family for it in plan.alternatives} == set(Family) - {Family.ESCALATE}
    assert len(plan.verdicts) == 6
    for it in plan.verdicts:
        chosen = [i for i in range(len(mean)) if plan.is_allowed[i] and cost[i] <= it.at.budget]
        assert mean[it.at.best] == max(mean[chosen])
        assert not plan.frontier.is_dominated[[it.at.best, it.at.choice]].any()
        assert plan.is_allowed[it.at.choice]
    # a perfect selector that is not at hand is a bound
    assert [plan.names[i] for i in np.flatnonzero(~plan.is_allowed)][:1] == ["best of 2 (perfect selector)"]


def test_what_is_given_is_not_swept_and_answers_nothing_with_unanswerable() -> None:
    asked = plan_of()
    assert any(it.kind is VerdictKind.UNANSWERABLE for it in asked.verdicts)
    for it in asked.verdicts:
        assert (it.kind is VerdictKind.UNANSWERABLE) == bool(it.hinges)
        assert all(hinge.regret > asked.question.rule.rope for hinge in it.hinges)
    told = plan_of(given=ALL_GIVEN)
    assert not any(it.hinges for it in told.verdicts)
    assert VerdictKind.UNANSWERABLE not in {it.kind for it in told.verdicts}
    np.testing.assert_array_equal(told.success, asked.success)


def test_hinges_are_what_a_plan_with_that_value_finds() -> None:
    plan = plan_of()
    at, hinge = next((it.at, it.hinges[0]) for it in plan.verdicts if it.hinges)
    question = replace(plan.question, budgets=tuple(it.at.budget for it in plan.verdicts))
    other = plan_of(question=question, given={hinge.knob.name: hinge.value})
    better, choice = plan.names[hinge.better], plan.names[at.choice]
    means = dict(zip(other.names, other.success.mean(axis=1), strict=True))
    assert means[better] - means[choice] == pytest.approx(hinge.regret, abs=1e-12)


def test_equivalent_and_clear() -> None:
    plan = plan_of(given=ALL_GIVEN, question=Question(unit=Unit.USD, rule=Rule(rope=0.3, confidence=0.9)))
    assert {it.kind for it in plan.verdicts} == {VerdictKind.EQUIVALENT}
    sure = plan_of(given=ALL_GIVEN, rho=RhoPrior(value=0.5), question=Question(unit=Unit.USD, rule=Rule(rope=0.0)))
    assert sure.success.shape[1] == 1
    assert {it.kind for it in sure.verdicts} == {VerdictKind.CLEAR}


def test_break_even_prices_level_what_a_success_costs() -> None:
    plan = plan_of()
    assert plan.prices_level
    for level in plan.prices_level:
        ours, theirs = plan.outcomes[level.alternative], plan.outcomes[level.versus]
        each = plan.prices.each(plan.prices.money).copy()
        each[level.item] = level.price
        costs = [float(np.einsum("id,i->d", it.items, each).mean() / it.success.mean()) for it in (ours, theirs)]
        assert costs[0] == pytest.approx(costs[1], rel=1e-9)
        assert plan.is_allowed[[level.alternative, level.versus]].all()


def test_break_even_selectors_reach_what_they_must() -> None:
    plan = plan_of()
    best = plan.best_of_kind(Family.INTERVENE)
    assert best is not None
    target = float(plan.success[best].mean())
    assert [it.attempts for it in plan.selectors_level] == [2, 4, 8]
    for level in plan.selectors_level:
        assert level.auroc is not None
        selector = Selector(auroc=level.auroc, shared=plan.tools.selector.shared)
        reached = BestOf(attempts=level.attempts, selector=selector).evaluate(plan.world).success.mean()
        assert reached == pytest.approx(target, abs=1e-9)


def test_tasks_of_the_model_need_no_prior_of_rho() -> None:
    spec = find_model("example")
    differing = replace(spec, agent=replace(spec.agent, finish_task_sd=1.0))
    plan = plan_of(differing)
    assert plan.success.shape[1] == 1
    assert any("tasks differ as the model says" in it for it in plan.assumptions)
    assert 0.0 < plan.world.attempts.rho[0] < 1.0
    told = plan_of(differing, rho=RhoPrior(value=0.9))
    assert told.world.attempts.rho[0] == 0.9
    assert told.success[0, 0] == pytest.approx(plan.success[0, 0], abs=1e-9)


def test_draws_of_a_model() -> None:
    """Each draw is evaluated by itself; ρ from repeated runs goes with the draws in turn."""
    spec, models = find_model("example"), drawn(6)
    rho = np.linspace(0.1, 0.9, 12)
    basis = basis_of_model(
        spec,
        stack_draws(models),
        policies=("late",),
        interventions=2,
        rho=rho,
        n_max=3,
        n_draws=5,
        seed=1,
    )
    assert not basis.is_spread_assumed
    prices = prices_of(spec.cost, {}, usd_per_million_tokens=None, second_seconds=None)
    plan = make_plan(basis, Question(unit=Unit.USD, n_max=3), prices, assumed(ALL_GIVEN))
    assert plan.success.shape[1] == 12
    late = plan.names.index("intervene: late")
    for d in range(12):
        exact = evaluate(models[d % 6], compile_policy(spec, "late"))
        assert plan.success[0, d] == pytest.approx(exact.baseline, abs=1e-9)
        assert plan.success[late, d] == pytest.approx(exact.success, abs=1e-9)
        assert plan.money[late, d] == pytest.approx(exact.usd, rel=1e-8)
        bound = plan.names.index("best of 2 (perfect selector)")
        churn = exact.baseline * (1.0 - exact.baseline) * (1.0 - rho[d])
        assert plan.success[bound, d] == pytest.approx(exact.baseline + churn, abs=1e-9)
    text = " ".join(plan_text(plan, 80, is_whole=False).split())
    assert "A bigger pilot is worth most at" in text
    assert "ρ as repeated runs show" in text


def test_a_second_agent() -> None:
    question = Question(unit=Unit.USD, second_success=0.95)
    told = {Item.SECOND_RUNS: Amount(value=0.02, unit=Unit.USD)}
    plan = plan_of(question=question, told=told)
    assert plan.best_of_kind(Family.ESCALATE) is not None
    assert any("finds the same tasks hard" in it for it in plan.assumptions)
    with pytest.raises(ParameterError, match="second_success must come with a price"):
        plan_of(question=question)


def test_a_policy_that_looks_back_is_left_out_and_said() -> None:
    plan = plan_of(find_model("signals"), question=Question(unit=Unit.TOKENS, n_max=2))
    assert any("looks back on a run's history" in it for it in plan.basis.warnings)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(unit=Unit.USD, budgets=(0.001,)), "budget must cover one run, got 0.001 usd; one run costs 0.00775"),
        (Question(unit=Unit.SECONDS, budgets=(100.0,), deadline=1.0), "deadline must leave time"),
        (Question(unit=Unit.USD, n_max=0), "n_max must be a whole number"),
    ],
)
def test_what_cannot_be_asked(question: Question, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        plan_of(question=question)


def test_knobs() -> None:
    knobs = assumed({"selector_auroc": 0.7, "contamination": None})
    assert [it.is_given for it in knobs] == [True, False, False, False, False]
    moved = list(swept(knobs))
    assert len(moved) == 8
    assert {it.name for it, _, _ in moved} == set(KNOBS) - {"selector_auroc"}
    assert all(tools.selector.auroc == 0.7 for _, _, tools in moved)
    with pytest.raises(ParameterError, match=r"auroc must lie in \[0.5, 1\], got 0.4"):
        tools_of({it.name: it.value for it in assumed({"selector_auroc": 0.4})})


def test_plain_numbers() -> None:
    basis = basis_of_numbers(
        0.4,
        recovery=0.3,
        disruption=0.1,
        run_tokens=1.0,
        run_seconds=0.0,
        rho=RhoPrior(value=0.5),
        n_max=4,
        n_draws=10,
        seed=1,
    )
    prices = prices_of(basis.cost, {}, usd_per_million_tokens=None, second_seconds=None)
    plan = make_plan(basis, Question(unit=Unit.TOKENS, n_max=4), prices, assumed({}))
    found = dict(zip(plan.names, plan.success[:, 0], strict=True))
    assert found["nothing"] == pytest.approx(0.6)
    assert found["intervene: arm"] == pytest.approx(0.6 + float(gain(0.4, 0.3, 0.1)))
    # χ/2 = p (1 − p) (1 − ρ)
    assert found["best of 2 (perfect selector)"] == pytest.approx(0.6 + 0.4 * 0.6 * 0.5)
    costs = dict(zip(plan.names, plan.costs.tokens[:, 0], strict=True))
    assert (costs["nothing"], costs["best of 4"]) == (pytest.approx(1.0), pytest.approx(4.0))
    assert not {it.family for it in plan.alternatives} & {Family.HALT, Family.RESTART}
    with pytest.raises(ParameterError, match="recovery and disruption must both be given"):
        basis_of_numbers(
            0.4,
            recovery=0.3,
            disruption=None,
            run_tokens=1.0,
            run_seconds=0.0,
            rho=None,
            n_max=4,
            n_draws=10,
            seed=1,
        )


def test_maps() -> None:
    plan = plan_of()
    rates = rate_map(plan, 0.3, 0.1)
    assert rates.winner.shape == (41, 41)
    # the more runs fail and the better the ratio, the sooner intervening wins
    wins = rates.winner == RATE_WINNERS.index(Family.INTERVENE)
    assert not np.any(wins[:-1] & ~wins[1:])
    x = int(np.argmax(wins[-1]))
    p = rates.failure_rate[x]
    assert float(gain(p, 0.4 * 16 / 17, 0.4 / 17)) > 0.0
    chosen = selector_map(plan)
    assert np.all(np.diff(chosen.lead, axis=1) >= -1e-12)
    assert len(chosen.rivals) == len(chosen.attempts) == 7


def test_the_published_case_from_its_counts() -> None:
    """Figures as printed, and the two runs' oracle by its own closed form with the ρ that it implies."""
    golden = json.loads((Path(__file__).parents[1] / "golden" / "oracles.json").read_text())
    assert [it["model"] for it in golden["rows"]] == [row.agent for row in CASE]
    for row, printed in zip(CASE, golden["rows"], strict=True):
        assert printed["counts"] == {"S": row.successes, "C": row.recovered, "B": row.disrupted}
        figures, bounds = printed["figures"], row.bounds
        assert f"{100 * (1.0 - row.failure_rate):.1f}" == figures["baseline"]
        assert f"{100 * float(bounds.oracle_intervention):+.1f}" == figures["oracle_intervention"]
        assert f"{100 * float(bounds.oracle_best_of_two):+.1f}" == figures["best_of_two"]
        assert f"{100 * row.best_of(2):.1f}" == figures["best_of_two_success"]
        assert row.best_of(2) - (1.0 - row.failure_rate) == pytest.approx(float(bounds.oracle_best_of_two), abs=1e-12)
        assert 0.5 < row.rho < 0.7
        intervened, again = row.draws(50_000, 1)
        for draws, k in ((intervened, row.recovered), (again, row.best_of_two - row.successes)):
            # Beta(½ + k/3, ½ + 100 − k/3): a run weighs as a third of its task
            mean, size = (0.5 + k / 3) / 101.0, 102.0
            assert abs(draws.mean() - mean) <= 5.0 * np.sqrt(mean * (1.0 - mean) / size / draws.size)

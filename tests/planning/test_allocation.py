from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from drsim.errors import DataError, ParameterError
from drsim.pilot.evidence import Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import Cost, Outcome, Run
from drsim.planning.allocation import Allocation, MoveKind, NetBenefit, _moves, _State, allocate
from drsim.planning.allocation_study import ArmProblem
from drsim.planning.arm_evidence import ArmEvidence, arm_evidence, run_prices
from drsim.planning.top_two import sample_value


def pilot_of(runs: list[Run]) -> Pilot:
    places = np.arange(len(runs), dtype=np.int64)
    return Pilot(runs=runs, sources=("memory",), source_of=0 * places, line_of=places + 1)


def runs_of(arm: str, gain: float, n_tasks: int, seed: int, n_trials: int = 1, usd: float | None = None) -> list[Run]:
    rng = np.random.default_rng([seed, *arm.encode()])
    s = np.random.default_rng(seed).beta(1.0, 1.0, n_tasks)
    cost = None if usd is None else Cost(usd=usd)
    return [
        Run(
            task_id=f"t{i}",
            arm=arm,
            trial=k,
            outcome=Outcome.SUCCESS if rng.random() < s[i] + gain else Outcome.FAIL,
            cost=cost,
        )
        for i in range(n_tasks)
        for k in range(n_trials)
    ]


def five_arms(n_tasks: int = 40, n_trials: int = 1) -> ArmEvidence:
    runs = runs_of("baseline", 0.0, n_tasks, 1, n_trials)
    for arm, gain in (("a", 0.15), ("b", 0.12), ("c", -0.3), ("d", -0.4)):
        runs += runs_of(arm, gain, n_tasks, 1)
    return arm_evidence(pilot_of(runs), baseline="baseline")


PRICES = dict.fromkeys(("baseline", "a", "b", "c", "d"), 1.0)


def kinds(found: Allocation) -> set[str]:
    return {it.kind for it in found.runs}


def test_evidence_is_what_counting_says() -> None:
    toy = read([str(resources.files("drsim.pilot") / "examples" / "toy.jsonl")])
    assert isinstance(toy, Pilot)
    found = arm_evidence(toy, baseline="baseline")
    assert found.arms == ("baseline", "rollback")
    assert found.runs.sum() == 120
    rates = {
        arm: [
            np.mean([r.outcome is Outcome.SUCCESS for r in toy.runs if (r.arm, r.task_id) == (arm, t)])
            for t in found.tasks
        ]
        for arm in found.arms
    }
    gains = np.array(rates["rollback"]) - np.array(rates["baseline"])
    assert found.mean[0] == pytest.approx(gains.sum() / (30 + 2))
    assert found.is_rho_measured
    prices, is_priced = run_prices(toy, found.arms, {})
    assert is_priced
    assert prices["baseline"] == pytest.approx(
        np.mean(
            [r.cost.usd + (r.cost.critic_usd or 0) for r in toy.runs if r.arm == "baseline" and r.cost and r.cost.usd]
        )
    )


def test_runs_go_to_the_arms_in_question() -> None:
    found = allocate(five_arms(), PRICES, budget=200, seed=1, most_runs=100, new_tasks=100)
    assert kinds(found) == {MoveKind.NEW_TASK}
    counts = {arm: sum(it.arm == arm for it in found.runs) for arm in PRICES}
    assert counts["a"] + counts["b"] > 10 * (counts["c"] + counts["d"])
    assert found.usd == sum(it.usd for it in found.runs) <= 200
    assert not found.is_decided
    assert sum(found.prob_best.values()) == pytest.approx(1.0)
    assert all(it.task_id is None and it.trial == 0 for it in found.runs)


def test_an_arm_that_lags_behind_catches_up_on_tasks_that_have_a_baseline() -> None:
    runs = runs_of("baseline", 0.0, 30, 2) + runs_of("a", 0.1, 30, 2) + runs_of("b", 0.1, 10, 2)
    found = allocate(
        arm_evidence(pilot_of(runs), baseline="baseline"), PRICES, budget=15, seed=1, most_runs=15, new_tasks=5
    )
    behind = [it.task_id for it in found.runs if it.arm == "b"]
    assert len(behind) >= 5
    assert behind == [f"t{i}" for i in range(10, 10 + len(behind))]


def test_without_new_tasks_the_baseline_is_repeated_where_it_is_in_question() -> None:
    runs = runs_of("baseline", 0.0, 30, 3, n_trials=2) + runs_of("a", 0.02, 30, 3, n_trials=2)
    evidence = arm_evidence(pilot_of(runs), baseline="baseline")
    assert 0 < evidence.rho < 1
    cheap = allocate(evidence, {"baseline": 1.0, "a": 5.0}, budget=30, seed=1, most_runs=10)
    assert kinds(cheap) == {MoveKind.REPEAT_BASELINE}
    assert {it.trial for it in cheap.runs} == {2}
    dear = allocate(evidence, {"baseline": 5.0, "a": 1.0}, budget=30, seed=1, most_runs=10)
    assert kinds(dear) == {MoveKind.REPEAT_ARM}
    # where runs of a task always end alike repeats tell nothing, and further tasks are worth their price
    alike = replace(evidence, within=0.0, rho=1.0)
    further = allocate(alike, {"baseline": 1.0, "a": 5.0}, budget=30, seed=1, new_tasks=10)
    assert kinds(further) == {MoveKind.NEW_TASK}
    assert further.limit_share == 0.0
    assert 0.2 < cheap.limit_share <= 1.0


def test_a_missing_baseline_run_is_made_up_for() -> None:
    runs = runs_of("baseline", 0.0, 10, 4) + runs_of("a", 0.1, 12, 4)
    found = allocate(arm_evidence(pilot_of(runs), baseline="baseline"), PRICES, budget=2, seed=1)
    assert [(it.task_id, it.arm, it.trial) for it in found.runs] == [("t10", "baseline", 0), ("t11", "baseline", 0)]
    assert found.stopped == "the budget is spent"


def test_a_decided_question_asks_for_nothing() -> None:
    runs = runs_of("baseline", 0.0, 200, 5) + runs_of("a", -0.4, 200, 5)
    found = allocate(arm_evidence(pilot_of(runs), baseline="baseline"), PRICES, budget=100, seed=1)
    assert found.is_decided
    assert found.runs == ()
    assert found.prob_best["baseline"] > 0.999


def test_net_benefit_runs_what_is_worth_its_price() -> None:
    evidence = five_arms()
    common = {"budget": 50.0, "seed": 1, "new_tasks": 100}
    large = allocate(evidence, PRICES, benefit=NetBenefit(volume=100_000, value=1.0), **common)  # type: ignore[arg-type]
    assert large.runs
    assert large.sample is not None
    assert large.sample.value > large.sample.usd >= 1.0
    assert {it.arm for it in large.runs} <= {"baseline", "a", "b"}
    small = allocate(evidence, PRICES, benefit=NetBenefit(volume=10, value=0.1), **common)  # type: ignore[arg-type]
    assert small.runs == ()
    assert small.is_decided
    assert small.stopped == "no further run is worth its price"


def test_the_dearer_arm_has_to_earn_its_price() -> None:
    runs = runs_of("baseline", 0.0, 60, 6) + runs_of("a", 0.1, 60, 6)
    evidence = arm_evidence(pilot_of(runs), baseline="baseline")
    benefit = NetBenefit(volume=1_000, value=1.0)
    cheap, dear = (
        allocate(evidence, {"baseline": 0.1, "a": price}, budget=5, seed=1, benefit=benefit, new_tasks=50)
        for price in (0.15, 10.0)
    )
    assert cheap.sample is not None
    assert cheap.sample.value > 0.01
    # at ten dollars a run it can never be chosen, so that nothing about it is worth knowing
    assert dear.sample is None or dear.sample.value < 1e-6


def test_the_same_seed_gives_the_same_list() -> None:
    one, other = (allocate(five_arms(), PRICES, budget=40, seed=7, new_tasks=20) for _ in range(2))
    assert one.runs == other.runs


def test_mistakes() -> None:
    runs = runs_of("baseline", 0.0, 5, 1)
    with pytest.raises(DataError, match="and of another arm"):
        arm_evidence(pilot_of(runs), baseline="baseline")
    mixed = [*runs, Run(task_id="x", arm="a", outcome=Outcome.FAIL, agent="other")]
    with pytest.raises(DataError, match="one agent and benchmark at a time"):
        arm_evidence(pilot_of(mixed), baseline="baseline")
    with pytest.raises(ParameterError, match="price must name an arm, got 'x'"):
        run_prices(pilot_of(runs), ("baseline",), {"x": 1.0})
    with pytest.raises(ParameterError, match="must be a number > 0"):
        run_prices(pilot_of(runs), ("baseline",), {"baseline": 0.0})
    with pytest.raises(ParameterError, match="budget, seed and new_tasks must be ≥ 0"):
        allocate(five_arms(), PRICES, budget=-1, seed=1)
    with pytest.raises(ParameterError, match="volume must be a positive number"):
        NetBenefit(volume=0, value=1)
    with pytest.raises(ParameterError, match="one best arm"):
        ArmProblem(gains=(0.1, 0.1))


def test_a_price_is_never_guessed_beside_measured_ones() -> None:
    """A run without a cost counted as a dollar beside others of half a cent, and every run went to the others."""
    runs = runs_of("baseline", 0.0, 5, 1, usd=0.005) + runs_of("a", 0.0, 5, 1)
    with pytest.raises(ParameterError, match="a has none while others have one; give --price a=USD"):
        run_prices(pilot_of(runs), ("baseline", "a"), {})
    assert run_prices(pilot_of(runs), ("baseline", "a"), {"a": 0.01}) == ({"baseline": 0.005, "a": 0.01}, True)
    assert run_prices(pilot_of(runs), ("a",), {}) == ({"a": 1.0}, False)


def test_a_budget_too_small_for_a_run_decides_nothing() -> None:
    """It was said to be decided, since nothing was left to run."""
    benefit = NetBenefit(volume=100_000, value=1.0)
    poor = allocate(five_arms(), PRICES, budget=0.5, seed=1, new_tasks=100, benefit=benefit)
    assert poor.stopped == "the budget is spent"
    assert not poor.is_decided
    assert poor.sample is None


def test_a_sample_is_no_larger_than_the_tasks_there_are() -> None:
    """Two thousand tasks are worth their price and two are not, also where only two are left."""
    runs = runs_of("baseline", 0.0, 60, 6) + runs_of("a", 0.1, 60, 6)
    evidence = replace(arm_evidence(pilot_of(runs), baseline="baseline"), within=0.0)
    values = [
        allocate(evidence, PRICES, budget=1e6, seed=1, new_tasks=n, benefit=NetBenefit(volume=700, value=1.0)).sample
        for n in (2, 5_000)
    ]
    assert values[0] is not None
    assert values[1] is not None
    assert values[0].n <= 2
    assert 0 <= values[0].value < 0.2 * values[1].value


def test_repeats_take_away_noise_within_tasks_only() -> None:
    runs = runs_of("baseline", 0.0, 30, 3, n_trials=2) + runs_of("a", 0.02, 30, 3, n_trials=2)
    evidence = arm_evidence(pilot_of(runs), baseline="baseline")
    found = allocate(
        evidence,
        {"baseline": 1e-6, "a": 1e3},
        budget=1.0,
        seed=1,
        benefit=NetBenefit(volume=1.0, value=1e4),
        most_runs=1,
    )
    everything = sample_value(1e4 * np.array([0.0, evidence.mean[0]]), 1, 1e8 * evidence.cov[0, 0], 1.0)
    noise = evidence.within * float((1 / evidence.runs[:, 0]).sum()) / 32**2
    reachable = sample_value(
        1e4 * np.array([0.0, evidence.mean[0]]), 1, 1e8 * evidence.cov[0, 0], noise / evidence.cov[0, 0]
    )
    assert found.sample is not None
    assert found.sample.value <= reachable * (1 + 1e-12) < everything


def test_a_sample_that_is_worth_its_price_is_listed_whole() -> None:
    """After its first run the rest alone was no longer worth its price, and the list ended there."""
    runs = runs_of("baseline", 0.0, 60, 6) + runs_of("a", 0.1, 60, 6)
    evidence = arm_evidence(pilot_of(runs), baseline="baseline")
    found = allocate(
        evidence,
        {"baseline": 0.1, "a": 0.1},
        budget=1e3,
        seed=1,
        new_tasks=500,
        most_runs=1_000,
        benefit=NetBenefit(volume=1_500, value=15.0),
    )
    assert found.sample is not None
    assert found.sample.n > 1
    assert found.sample.usd < found.sample.value < 2 * found.sample.usd
    assert found.usd >= found.sample.usd * (1 - 1e-12)


def test_what_a_batch_takes_away_is_what_its_runs_take_away_one_by_one() -> None:
    """Repeats on tasks with two runs each: thirty are one more everywhere, sixty are two more."""
    runs = runs_of("baseline", 0.0, 30, 3, n_trials=2) + runs_of("a", 0.02, 30, 3, n_trials=2)
    evidence = arm_evidence(pilot_of(runs), baseline="baseline")
    variance = evidence.cov[0, 0]
    move = next(it for it in _moves(_State.of(evidence, 0), PRICES) if it.kind is MoveKind.REPEAT_BASELINE)
    for n, further in ((1, [1]), (30, [1] * 30), (60, [2] * 30)):
        after = np.concatenate([2.0 + np.array(further), np.full(30 - len(further), 2.0)])
        less = evidence.within * float((0.5 - 1 / after).sum()) / 32**2
        assert move.share_of(n) == pytest.approx(less / variance, rel=1e-12)
    fresh = next(it for it in _moves(_State.of(evidence, 50), PRICES) if it.kind is MoveKind.NEW_TASK)
    assert fresh.share_of(10) == pytest.approx(10 / 42, rel=1e-12)

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference.critics import CriticWorld, as_own_tasks
from scipy import special

from drsim.arrays import FloatArray
from drsim.errors import DataError, ParameterError
from drsim.inference.critic.metrics import critic_metrics
from drsim.inference.critic.scores import (
    ScoredItems,
    baseline_ends,
    index_tasks,
    runs_of_evidence,
    scored_arms,
)
from drsim.inference.critic.task_weights import TaskWeights
from drsim.inference.critic.temperature import held_out_temperature, scaled_scores
from drsim.inference.critic.weighted_auroc import auroc_draws, concordance
from drsim.pilot.reading import read
from drsim.pilot.records import Outcome, Run, Step
from drsim.theory.calibration import brier, calibration_error, negative_log_likelihood


def run(task: str, outcome: str, *scores: float | None, **other: Any) -> Run:
    steps = tuple(Step(t=t, score=score) for t, score in enumerate(scores))
    return Run(task_id=task, arm=other.pop("arm", "baseline"), outcome=Outcome(outcome), steps=steps, **other)


def items_of(scores: list[float], failed: list[bool], task: list[int] | None = None) -> ScoredItems:
    codes = np.arange(len(scores)) if task is None else np.array(task)
    return ScoredItems(
        scores=np.array(scores), failed=np.array(failed), task=codes, place=np.zeros(len(scores), dtype=np.int64)
    )


def weights_of(items: ScoredItems, seed: int = 1, n_draws: int = 1_000) -> TaskWeights:
    return TaskWeights(n_tasks=int(items.task.max()) + 1, n_draws=n_draws, seed=(seed,))


# Extraction --------------------------------------------------------------------------------------------------------


def test_a_run_scores_as_its_highest_step_and_unjudged_ends_are_left_out() -> None:
    runs = [
        run("a", "fail", 0.2, None, 0.9, 0.4),
        run("b", "success", 0.3),
        run("c", "capped", 0.7, 0.1),
        run("d", "infra", 0.99),
        run("e", "success"),
        run("f", "fail", None),
    ]
    (arm,) = scored_arms(runs)
    assert arm.runs.scores.tolist() == [0.9, 0.3, 0.7]
    assert arm.runs.failed.tolist() == [True, False, True]
    assert sorted(arm.steps.scores.tolist()) == [0.1, 0.2, 0.3, 0.4, 0.7, 0.9]
    assert (arm.unscored, arm.set_aside, arm.n_tasks) == (2, {"infra": 1, "unjudged": 0}, 3)
    assert not arm.is_contaminated


def test_length_alone_may_tell_ends() -> None:
    runs = [run(f"t{i}", "fail" if i % 2 else "success", *([0.5] * (1 + 4 * (i % 2)))) for i in range(6)]
    (arm,) = scored_arms(runs)
    assert arm.length_auroc == 1.0


def test_baseline_scores_are_preferred_to_contaminated_ones() -> None:
    runs = [run("a", "fail", 0.5, arm=arm) for arm in ("zap", "baseline", "append")]
    assert [arm.arm for arm in scored_arms(runs)] == ["baseline"]
    without = [replaced for replaced in runs if replaced.arm != "baseline"]
    assert [(arm.arm, arm.is_contaminated) for arm in scored_arms(without)] == [("append", True), ("zap", True)]
    assert [arm.arm for arm in scored_arms(runs, arms=["zap"])] == ["zap"]


def test_what_is_missing_is_named_with_the_remedy() -> None:
    runs = [run("a", "fail"), run("a", "infra", 0.4), run("a", "success", arm="zap")]
    with pytest.raises(DataError) as error:
        scored_arms(runs)
    assert str(error.value) == (
        "no judged run carries a critic's score (runs with scores by arm: baseline (0), zap (0)); log `score`, the "
        "critic's probability that the run fails, in the `steps` of the baseline runs: a critic can score their "
        "transcripts afterwards, without new runs"
    )
    with pytest.raises(DataError) as error:
        scored_arms([*runs, run("b", "fail", 0.5)], arms=["zap"])
    assert str(error.value) == (
        "--arm zap names no arm with scores; arms found, with their scored runs: baseline (1), zap (0)"
    )


def test_order_of_the_file_means_nothing() -> None:
    rng = np.random.default_rng(1)
    runs = CriticWorld().pilot(20, 3, rng).runs
    shuffled = [runs[i] for i in rng.permutation(len(runs))]
    (one,), (other,) = scored_arms(runs), scored_arms(shuffled)
    for name in ("scores", "failed", "task", "place"):
        assert np.array_equal(getattr(one.runs, name), getattr(other.runs, name))


def test_a_task_that_several_agents_ran_is_one_task() -> None:
    runs = [run("t", "fail", 0.5, agent=agent) for agent in ("x", "y")]
    (arm,) = scored_arms(runs)
    assert (arm.n_tasks, arm.places) == (1, (("x", "benchmark"), ("y", "benchmark")))
    assert arm.at(("y", "benchmark")).runs.place.tolist() == [0]


def test_ends_of_the_baseline_are_those_of_the_scored_tasks() -> None:
    runs = [
        run("a", "fail"),
        run("a", "success", trial=1),
        run("b", "fail"),
        run("a", "success", agent="other"),
        run("a", "infra", trial=2),
        run("a", "fail", 0.5, arm="zap"),
    ]
    (arm,) = scored_arms(runs)
    assert baseline_ends(runs, arm, index_tasks(runs), baseline="baseline").tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_counts_carry_no_scores(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("arm,A,B,C,D\nzap,1,2,3,4\n")
    with pytest.raises(DataError, match="holds counts without runs, hence no critic's scores; give the runs"):
        runs_of_evidence(read([str(path)]))


# AUROC -------------------------------------------------------------------------------------------------------------


def brute_force(items: ScoredItems, weight: FloatArray) -> tuple[float, float]:
    concordant = pairs = 0.0
    for i in np.flatnonzero(items.failed):
        for j in np.flatnonzero(~items.failed):
            mass = weight[items.task[i]] * weight[items.task[j]]
            pairs += mass
            x, y = items.scores[i], items.scores[j]
            concordant += mass * (1.0 if x > y else 0.5 if x == y else 0.0)
    return concordant, pairs


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.booleans(), st.integers(0, 3)), min_size=1)
)
def test_weighted_auroc_is_the_sum_over_all_pairs(rows: list[tuple[float, bool, int]]) -> None:
    scores, failed, task = (list(column) for column in zip(*rows, strict=True))
    items = items_of(scores, failed, task)
    weights = TaskWeights(n_tasks=4, n_draws=1_000, seed=(3,))
    concordant, pairs, _ = concordance(items, weights)
    (_, drawn), *_ = weights.chunks(1)
    for k in (0, 1, 2):
        wanted = brute_force(items, drawn[k])
        assert (concordant[k], pairs[k]) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_chunks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    items = CriticWorld().items(30, 3, np.random.default_rng(2))
    whole = auroc_draws([items], weights_of(items))
    monkeypatch.setattr("drsim.inference.critic.task_weights.ELEMENTS_AT_ONCE", 700)
    assert np.array_equal(auroc_draws([items], weights_of(items)), whole)


def auroc_coverage(world: CriticWorld, n_tasks: int, n_trials: int, task_sd: float, *, naive: bool = False) -> float:
    covered = []
    # Of one task's runs no two are compared much: the shift blurs scores of different tasks as √(1 + task_sd²).
    truth = special.ndtr(world.shift / np.sqrt(2 * (1 + task_sd**2)))
    for seed in range(150):
        items = world.items(n_tasks, n_trials, np.random.default_rng([9, seed]), task_sd)
        if naive:
            items = as_own_tasks(items)
        low, high = np.quantile(auroc_draws([items], weights_of(items, seed)), (0.025, 0.975))
        covered.append(low <= truth <= high)
    return float(np.mean(covered))


def test_intervals_of_the_auroc_cover_and_runs_taken_as_independent_do_not() -> None:
    world = CriticWorld(rho=0.7, shift=1.8)
    assert auroc_coverage(world, 100, 5, 1.0) > 0.9
    assert auroc_coverage(world, 100, 5, 1.0, naive=True) < 0.87


def test_few_tasks_and_a_near_perfect_critic() -> None:
    # Task weights alone covered 60 % here: the interval of a critic without a mistake was a point.
    assert auroc_coverage(CriticWorld(rho=0.7, shift=2.8), 20, 1, 0.0) > 0.9
    items = items_of([0.1, 0.2, 0.8, 0.9], [False, False, True, True])
    low, high = np.quantile(auroc_draws([items], weights_of(items)), (0.025, 0.975))
    assert low < 0.9 < high


# Probabilities -----------------------------------------------------------------------------------------------------


def test_plain_figures_are_those_of_the_theory() -> None:
    items = CriticWorld().items(40, 2, np.random.default_rng(5))
    found = critic_metrics(items, weights_of(items, n_draws=4_000))
    assert found.plain_brier == brier(items.scores, items.failed)
    assert found.plain_nll == negative_log_likelihood(items.scores, items.failed)
    assert found.ece == calibration_error(items.scores, items.failed).ece
    assert sum(item.n for item in found.reliability) == 80
    assert found.brier.mean == pytest.approx(found.plain_brier, abs=5 * found.brier.sd / np.sqrt(4_000) + 1e-3)
    assert found.auroc_within is None


def test_interval_of_a_brier_score_is_that_of_its_task_means() -> None:
    items = CriticWorld().items(200, 3, np.random.default_rng(6), task_sd=1.0)
    losses = ((items.scores - items.failed) ** 2).reshape(200, 3).mean(axis=1)
    found = critic_metrics(items, weights_of(items, n_draws=4_000))
    # Bayesian bootstrap: variance Σ(x − x̄)²/(n(n + 1)); an sd from 4,000 draws has a relative error of 1.1 %
    assert found.brier.sd == pytest.approx(losses.std() / np.sqrt(201), rel=0.056)


def test_floor_of_the_calibration_error_knows_the_tasks() -> None:
    rng = np.random.default_rng(7)
    excess, naive = [], []
    for _ in range(60):
        q = rng.random(60)
        failed = np.repeat(rng.random(60) < q, 8)
        items = items_of(np.repeat(q, 8).tolist(), failed.tolist(), np.repeat(np.arange(60), 8).tolist())
        found = critic_metrics(items, weights_of(items))
        excess.append(found.ece - found.ece_floor)
        naive.append(found.ece - calibration_error(items.scores, items.failed).floor)
    # Calibrated scores whose eight steps share one end: chance makes √8 as much of it as eight runs would show.
    assert abs(np.mean(excess)) < 0.02
    assert np.mean(naive) > 0.05


def test_within_places_a_score_that_only_knows_the_benchmark_knows_nothing() -> None:
    rng = np.random.default_rng(8)
    place = np.repeat([0, 1], 150)
    failed = rng.random(300) < np.where(place == 0, 0.1, 0.9)
    items = ScoredItems(
        scores=np.where(place == 0, 0.1, 0.9), failed=np.asarray(failed), task=np.arange(300), place=place
    )
    found = critic_metrics(items, weights_of(items))
    assert found.auroc is not None
    assert found.auroc_within is not None
    assert found.auroc.mean > 0.85
    assert abs(found.auroc_within.mean - 0.5) <= 5 * found.auroc_within.sd / np.sqrt(1_000)


def test_one_sure_mistake_makes_the_likelihood_infinite() -> None:
    items = items_of([0.0, 1.0, 0.4, 1.0], [True, True, False, False])
    found = critic_metrics(items, weights_of(items))
    assert (found.n_impossible, found.plain_nll, found.nll) == (2, float("inf"), None)
    temperature = held_out_temperature(items, seed=(1,))
    assert temperature.fit.temperature > 10
    assert temperature.held_out is not None
    assert temperature.held_out.nll_before == float("inf")
    assert np.isfinite(temperature.held_out.nll_after)


def test_sure_scores_that_are_right_have_a_likelihood() -> None:
    items = items_of([0.0, 1.0], [False, True])
    found = critic_metrics(items, weights_of(items))
    assert found.plain_nll == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("ends", [[True, True, True], [False, False, False]])
def test_one_end_only_has_no_auroc(ends: list[bool]) -> None:
    items = items_of([0.1, 0.5, 0.9], ends)
    found = critic_metrics(items, weights_of(items))
    assert found.auroc is None
    assert np.isnan(found.plain_auroc)
    assert np.isfinite(found.brier.mean)


def test_equal_scores_have_auroc_one_half() -> None:
    items = items_of([0.5] * 6, [True, False] * 3)
    found = critic_metrics(items, weights_of(items))
    assert found.plain_auroc == 0.5
    assert len(found.reliability) == 1
    assert held_out_temperature(items, seed=(1,)).fit.status == "flat"


def test_temperature_of_a_known_miscalibration_is_recovered_on_unseen_tasks() -> None:
    rng = np.random.default_rng(10)
    n_tasks = 2_000
    task = np.repeat(np.arange(n_tasks), 2)
    logits = 2 * rng.standard_normal(len(task))
    failed = rng.random(len(task)) < special.expit(logits)
    items = ScoredItems(
        scores=special.expit(3 * logits), failed=failed, task=task, place=np.zeros(len(task), dtype=np.int64)
    )
    found = held_out_temperature(items, seed=(1,))
    margin = np.where(failed, 3 * logits, -3 * logits)
    residual = special.expit(-margin / 3)
    # 1/T has the sandwich variance Σ(margin·residual)² / (Σ margin²·residual(1−residual))², here for T = 3
    sd = np.sqrt(np.sum((margin * residual) ** 2)) / np.sum(margin**2 * residual * (1 - residual))
    assert found.fit.status == "converged"
    assert abs(1 / found.fit.temperature - 1 / 3) <= 5 * sd
    assert found.held_out is not None
    for temperature in found.held_out.temperatures:
        assert abs(1 / temperature - 1 / 3) <= 5 * np.sqrt(2) * sd
    truth = negative_log_likelihood(special.expit(logits), failed)
    assert found.held_out.nll_after < found.held_out.nll_before
    assert found.held_out.nll_after == pytest.approx(truth, abs=0.002)


def test_the_split_is_by_task() -> None:
    # Ten runs of one task end alike: were they split, the other half would know their ends.
    items = CriticWorld().items(30, 10, np.random.default_rng(11))
    found = held_out_temperature(items, seed=(1,))
    again = held_out_temperature(replace(items, task=items.task + 100), seed=(1,))
    assert found == again
    assert held_out_temperature(items_of([0.2, 0.9], [True, False], [0, 0]), seed=(1,)).held_out is None


def test_scaling_moves_zero_and_one_as_the_fit_takes_them() -> None:
    scaled = scaled_scores(np.array([0.0, 0.5, 1.0]), 20.0)
    assert scaled == pytest.approx([special.expit(-53 * np.log(2) / 20), 0.5, special.expit(53 * np.log(2) / 20)])


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(ParameterError, match="n_draws must be at least 1000, got 10"):
        TaskWeights(n_tasks=3, n_draws=10, seed=(1,))

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from inference.pilots import World, cell_of

from drsim.errors import ParameterError
from drsim.inference.rho_prior import RhoPrior
from drsim.inference.static import CellPosterior, fit_cell
from drsim.inference.task_groups import Column, group_tasks
from drsim.pilot.cell import Cell
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Counts, Marginals
from drsim.pilot.reading import read
from drsim.pilot.records import CountsRow, MarginalsRow

N_DRAWS = 20_000


def published(tasks: int | None = 50) -> CellPosterior:
    row = CountsRow(agent="Qwen-3-8B", benchmark="ALFWorld", arm="rollback", a=118, b=9, c=16, d=7, tasks=tasks)
    (cell,) = cells_of(Counts(rows=(row,), sources=("pilot.json",))).cells
    return fit_cell(cell, seed=1)


def baseline_only(shared_data: Path, name: str, **options: str) -> Cell:
    (cell,) = cells_of(read([str(shared_data / "pilots" / f"{name}.jsonl")]), **options).cells
    return cell


def test_published_pilot_plug_in_values() -> None:
    plug_in = published().plug_in
    assert round(plug_in.failure_rate, 3) == 0.893
    assert round(plug_in.recovery, 3) == 0.119
    assert plug_in.disruption == 0.5625
    assert round(plug_in.break_even, 3) == 0.825
    assert round(100 * plug_in.gain, 2) == 4.67


def test_stated_tasks_give_the_weaker_reading_beside_the_sharper() -> None:
    posterior = published()
    gain = posterior.gain
    assert gain is not None
    assert gain.repeated is not None
    assert round(gain.posterior.prob_gain_above(0), 6) == 0.919896
    # Counts scaled to 50 tasks: C = 16/3, B = 3.
    assert gain.repeated.posterior.prob_gain_above(0) == pytest.approx(0.789326, abs=5e-7)
    assert gain.repeated.gain.sd > 1.5 * gain.summary.sd
    unstated = published(tasks=None).gain
    assert unstated is not None
    assert unstated.repeated is None


def test_draws_and_closed_forms_agree_with_one_pair_a_task() -> None:
    # The same pilot once as pure tables (exact) and once through the drawn task weights.
    posterior = published(tasks=None)
    totals = posterior.groups.draw(N_DRAWS, np.random.default_rng(3))
    a, b, c, d = (totals[:, : Column.D + 1] / totals[:, : Column.D + 1].sum(axis=1, keepdims=True)).T
    assert posterior.is_exact
    assert posterior.gain is not None
    assert posterior.recovery is not None
    assert posterior.disruption is not None
    for summary, draws in (
        (posterior.failure_rate, a + c),
        (posterior.recovery, c / (a + c)),
        (posterior.disruption, b / (b + d)),
        (posterior.gain.summary, c - b),
    ):
        assert abs(summary.mean - draws.mean()) <= 5 * summary.sd / np.sqrt(N_DRAWS)
        assert abs(summary.sd - draws.std()) <= 5 * summary.sd / np.sqrt(N_DRAWS)
    prob = posterior.gain.posterior.prob_gain_above(0.0)
    assert abs(np.mean(c > b) - prob) <= 5 * np.sqrt(prob * (1 - prob) / N_DRAWS)


def test_churn_is_the_mean_over_all_pairs_of_trials(shared_data: Path) -> None:
    path = str(shared_data / "pilots" / "taubench-airline-repeats.jsonl")
    posterior = fit_cell(baseline_only(shared_data, "taubench-airline-repeats"), seed=1)
    evidence = read([path])
    outcomes = {(run.task_id, run.trial): run.outcome.value for run in evidence.runs}  # type: ignore[union-attr]
    tasks = sorted({task for task, _ in outcomes})
    pairwise = [
        np.mean([outcomes[task, i] != outcomes[task, j] for task in tasks]) for i, j in combinations(range(4), 2)
    ]
    assert len(tasks) == 50
    churn = posterior.churn
    assert churn.is_measured
    assert churn.n_tasks == 50
    assert churn.churn.mean == pytest.approx(np.mean(pairwise), abs=1e-12)
    assert churn.rho is not None
    p = posterior.plug_in.failure_rate
    assert churn.rho.q2_5 < 1 - churn.churn.mean / (2 * p * (1 - p)) < churn.rho.q97_5
    assert posterior.gain is None


def test_excess_rates_keep_the_gain() -> None:
    # Δ = p·r_x − (1−p)·d_x with r_x = r − e/p, d_x = d − e/(1−p): e cancels, draw by draw and so in the mean.
    world = World(failure_rate=0.43, rho=0.5, shift=-0.5)
    baseline, arm = world.draw(150, 3, np.random.default_rng(2))
    posterior = fit_cell(cell_of(baseline, arm), seed=1)
    churn, gain = posterior.churn, posterior.gain
    assert gain is not None
    assert churn.excess is not None
    assert posterior.recovery is not None
    assert posterior.disruption is not None
    assert churn.excess.recovery.mean == pytest.approx(posterior.recovery.mean - churn.rerun.recovery.mean, abs=1e-12)
    p = posterior.plug_in.failure_rate
    implied = p * churn.excess.recovery.mean - (1 - p) * churn.excess.disruption.mean
    assert implied == pytest.approx(gain.summary.mean, abs=0.25 * gain.summary.sd)


def test_an_intervention_that_does_nothing_has_no_excess() -> None:
    # Reruns alone: naive r and d are far from 0, the excess is not.
    world = World(failure_rate=0.43, rho=0.4, shift=0.0)
    baseline, arm = world.draw(2_000, 2, np.random.default_rng(4))
    posterior = fit_cell(cell_of(baseline, arm), seed=1)
    churn = posterior.churn
    assert churn.excess is not None
    assert posterior.recovery is not None
    assert posterior.disruption is not None
    for excess in (churn.excess.recovery, churn.excess.disruption):
        assert abs(excess.mean) <= 4 * excess.sd
    for naive in (posterior.recovery, posterior.disruption):
        assert naive.mean > 10 * naive.sd


def test_reruns_that_never_differ_leave_an_honest_upper_limit() -> None:
    outcomes = np.array([[0, 0]] * 30 + [[1, 1]] * 20)
    churn = fit_cell(cell_of(outcomes, outcomes), seed=1).churn
    # Jeffreys on 0 of 50: the 97.5 % quantile of Beta(½, 50½) is 0.0486; a plain average would say 0 for certain.
    assert churn.churn.q97_5 == pytest.approx(0.0486, abs=0.003)


def test_assumed_rho_is_swept() -> None:
    churn = published().churn
    assert not churn.is_measured
    rhos = [rho for rho, _, _ in churn.band]
    np.testing.assert_allclose(rhos, RhoPrior(a=4.5, b=2).band())
    for rho, r_x, d_x in churn.band:
        assert r_x == pytest.approx(0.1222 - (1 - rho) * 0.1118, abs=2e-3)
        assert d_x == pytest.approx(0.5588 - (1 - rho) * 0.8882, abs=5e-3)


def test_pairs_that_flip_less_than_reruns_must_look_coupled() -> None:
    rng = np.random.default_rng(8)
    baseline = (rng.random((400, 2)) < 0.5).astype(np.int64)
    coupled, independent = baseline.copy(), (rng.random((400, 2)) < 0.5).astype(np.int64)
    assert fit_cell(cell_of(baseline, coupled), seed=1).churn.prob_coupled == 1.0
    assert fit_cell(cell_of(baseline, independent), seed=1).churn.prob_coupled == 0.0


def test_marginals_bound_recovery_and_disruption() -> None:
    rows = (MarginalsRow(arm="baseline", successes=57, n=100), MarginalsRow(arm="rollback", successes=50, n=100))
    (cell,) = cells_of(Marginals(rows=rows, sources=("m.csv",))).cells
    posterior = fit_cell(cell, seed=1)
    assert posterior.recovery is None
    assert posterior.recovery_bounds == pytest.approx((0.0, 1.0))
    assert posterior.disruption_bounds == pytest.approx((0.07 / 0.57, 0.50 / 0.57))
    assert posterior.gain is not None
    se = np.sqrt(0.57 * 0.43 / 100 + 0.5 * 0.5 / 100)
    assert posterior.gain.summary.sd == pytest.approx(se, rel=0.05)
    assert posterior.plug_in.gain == pytest.approx(-0.07)


def test_marginals_of_repeated_seeds_get_the_weaker_reading() -> None:
    rows = tuple(
        MarginalsRow(arm=arm, successes=successes, n=100, trial=trial)
        for arm, seeds in (("baseline", (55, 58, 58)), ("rollback", (54, 54, 56)))
        for trial, successes in enumerate(seeds)
    )
    (cell,) = cells_of(Marginals(rows=rows, sources=("m.csv",))).cells
    gain = fit_cell(cell, seed=1).gain
    assert gain is not None
    assert gain.repeated is not None
    assert gain.repeated.n_tasks == 100
    assert gain.repeated.gain.sd == pytest.approx(np.sqrt(3) * gain.summary.sd, rel=0.05)


def test_result_depends_on_seed_and_name_only() -> None:
    baseline, arm = World(failure_rate=0.4, rho=0.4, shift=0.0).draw(40, 3, np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(40)
    first = fit_cell(cell_of(baseline, arm), seed=7)
    again = fit_cell(cell_of(baseline[order], arm[order]), seed=7)
    assert first.recovery == again.recovery
    assert first.churn == again.churn
    assert fit_cell(cell_of(baseline, arm), seed=8).recovery != first.recovery


def test_grouping_keeps_every_task() -> None:
    baseline, arm = World(failure_rate=0.4, rho=0.4, shift=0.0).draw(500, 3, np.random.default_rng(1))
    cell = cell_of(baseline, arm)
    groups = group_tasks(cell)
    assert groups.n_tasks.sum() == 500
    assert len(groups.n_tasks) <= 20  # multisets of three outcomes out of four
    np.testing.assert_allclose(groups.n_tasks @ groups.values[:, :4], cell.tables.sum(axis=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number ≥ 0, got -1"),
        ({"seed": 1, "n_draws": 10}, "n_draws must be at least 1000, got 10"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, int], message: str) -> None:
    baseline, arm = World(failure_rate=0.4, rho=0.4, shift=0.0).draw(4, 1, np.random.default_rng(1))
    with pytest.raises(ParameterError) as caught:
        fit_cell(cell_of(baseline, arm), **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_reruns_never_make_a_rate_above_one() -> None:
    # Two trials of one task that differ: the unbiased spread ½ exceeds p(1−p), the largest variance that there is.
    outcomes = np.array([[0, 1]])
    churn = fit_cell(cell_of(outcomes, outcomes), seed=1).churn
    assert churn.rerun.recovery.q97_5 <= 1
    assert churn.rerun.disruption.q97_5 <= 1

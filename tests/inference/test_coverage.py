"""Do the intervals cover? On simulated pilots with known truth, and on pilots of 50 tasks drawn out of real ones."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from inference.pilots import World, cell_of

from drsim.arrays import IntArray
from drsim.inference.paired_table import PairedTable
from drsim.inference.posterior import Uncertain
from drsim.inference.static import fit_cell
from drsim.pilot.cell import Cell
from drsim.pilot.cells import cells_of
from drsim.pilot.reading import read

RATES = ("p", "r", "d", "gain")
GRID = list(product((0.1, 0.43, 0.89), (0.2, 0.7), (0.0, -0.8), (20, 50, 200), (1, 3)))
NAIVE_WORLD = World(failure_rate=0.43, rho=0.7, shift=0.0)


@lru_cache(maxsize=100_000)
def exact_intervals(a: int, b: int, c: int, d: int) -> tuple[Uncertain, Uncertain, Uncertain, Uncertain]:
    table = PairedTable(a=a, b=b, c=c, d=d)
    return table.failure_rate(), table.recovery(), table.disruption(), table.gain()


def intervals(baseline: IntArray, arm: IntArray, seed: int) -> tuple[Uncertain, Uncertain, Uncertain, Uncertain]:
    """What `fit_cell` reports of a pilot; pure tables take its closed form straight away, which a test holds equal."""
    if baseline.shape[1] == 1:
        a, b, c, d = np.bincount((baseline + 2 * arm).ravel(), minlength=4).tolist()
        return exact_intervals(a, b, c, d)
    posterior = fit_cell(cell_of(baseline, arm), seed=seed, n_draws=1_000)
    assert posterior.recovery is not None
    assert posterior.disruption is not None
    assert posterior.gain is not None
    return posterior.failure_rate, posterior.recovery, posterior.disruption, posterior.gain.summary


def coverage(world: World, n_tasks: int, n_trials: int, n_pilots: int, *, naive: bool = False) -> dict[str, float]:
    """Share of simulated pilots whose 95 % intervals hold the truth."""
    truth = world.truth()
    covered = dict.fromkeys(RATES, 0)
    rng = np.random.default_rng([n_tasks, n_trials, round(100 * world.failure_rate), round(10 * world.rho)])
    for seed in range(n_pilots):
        baseline, arm = world.draw(n_tasks, n_trials, rng)
        if naive:
            baseline, arm = baseline.reshape(-1, 1), arm.reshape(-1, 1)
        for name, number in zip(RATES, intervals(baseline, arm, seed), strict=True):
            covered[name] += int(number.q2_5 <= truth[name] <= number.q97_5)
    return {name: count / n_pilots for name, count in covered.items()}


def test_fit_reports_the_closed_form_for_pure_tables() -> None:
    baseline, arm = World(failure_rate=0.43, rho=0.2, shift=-0.8).draw(50, 1, np.random.default_rng(1))
    posterior = fit_cell(cell_of(baseline, arm), seed=1)
    assert posterior.recovery is not None
    assert posterior.disruption is not None
    assert posterior.gain is not None
    found = (posterior.failure_rate, posterior.recovery, posterior.disruption, posterior.gain.summary)
    assert found == intervals(baseline, arm, 1)


def test_runs_taken_as_independent_cover_too_little() -> None:
    # Three alike trials a task: the naive interval of p is about √(1 + 2·0.7) too short, so that it covers near 80 %.
    naive = coverage(NAIVE_WORLD, 50, 3, 400, naive=True)["p"]
    honest = coverage(NAIVE_WORLD, 50, 3, 400)["p"]
    assert naive < 0.86
    assert honest > 0.9


@pytest.mark.slow
def test_intervals_cover_over_the_whole_grid() -> None:
    found = {
        (p, rho, shift, n_tasks, n_trials): coverage(
            World(failure_rate=p, rho=rho, shift=shift), n_tasks, n_trials, 1_000
        )
        for p, rho, shift, n_tasks, n_trials in GRID
    }
    for name in RATES:
        shares = {point: covered[name] for point, covered in found.items()}
        assert 0.93 <= np.mean(list(shares.values())) <= 0.985, name
        assert min(shares.values()) >= 0.9, (name, min(shares, key=lambda point: shares[point]))


def large_cells(data: Path) -> Iterator[Cell]:
    for name in ("reflexion-programming", "ldb-debugger", "intercode-sql"):
        for cell in cells_of(read([str(data / "pilots" / f"{name}.jsonl")])).cells:
            if cell.n_paired_tasks >= 150:
                yield cell


def full_set_interval(cell: Cell, chosen: IntArray, n_all: int, seed: int) -> tuple[float, float]:
    """90 % interval for the gain over all tasks of the finite set, from the pilot of the chosen ones.

    The tasks at hand are known; those that are not are drawn from the pilot's posterior (finite-population correction).
    """
    rows = ("multiplicity", "tables", "n_pairs", "baseline_successes", "baseline_runs", "arm_successes", "arm_runs")
    pilot = replace(cell, **{row: getattr(cell, row)[chosen] for row in rows})
    groups = fit_cell(pilot, seed=seed, n_draws=1_000).groups
    paired = groups.is_paired > 0
    rng = np.random.default_rng([seed, n_all])
    weights = rng.dirichlet(groups.n_tasks[paired], 2_000)
    rest = rng.multinomial(n_all - len(chosen), weights) @ groups.gains[paired]
    known = float((pilot.tables[:, 2] - pilot.tables[:, 1]).sum())
    low, high = np.quantile((known + rest) / n_all, (0.05, 0.95))
    return float(low), float(high)


@pytest.mark.slow
def test_pilots_of_50_real_tasks_cover_the_full_set(shared_data: Path) -> None:
    shares: dict[str, float] = {}
    for cell in large_cells(shared_data):
        tasks = np.flatnonzero(cell.n_pairs > 0)
        gains = (cell.tables[:, 2] - cell.tables[:, 1])[tasks]
        rng = np.random.default_rng(11)
        covered = 0
        for seed in range(400):
            low, high = full_set_interval(cell, rng.choice(tasks, 50, replace=False), len(tasks), seed)
            covered += int(low - 1e-9 <= gains.mean() <= high + 1e-9)
        if np.count_nonzero(gains) > 1:
            # With one flipped task among all, no pilot can miss: the interval always reaches it.
            shares[f"{cell.agent} {cell.benchmark} {cell.arm}"] = covered / 400
    assert len(shares) >= 16
    assert all(0.85 <= share <= 0.97 for share in shares.values()), shares
    assert 0.88 <= np.mean(list(shares.values())) <= 0.95

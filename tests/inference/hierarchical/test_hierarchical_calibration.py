"""Is the posterior right? Ranks of the truth among draws, an exact null, and pilots out of a larger real one."""

from pathlib import Path

import numpy as np
import pytest
from inference.hierarchical.worlds import real_cells, shape_of, simulate, with_tasks
from inference.pilots import cell_of
from scipy import stats

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.inference.hierarchical.derived import cell_draws
from drsim.inference.hierarchical.design import lay_out
from drsim.inference.hierarchical.fit import fit_data, fit_hierarchical
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS
from drsim.inference.static import fit_cell

N_RANKED = 99
RATES = ("gain", "failure_rate", "rho", "excess_recovery", "excess_disruption")


def ranks(n_replications: int, seed: int) -> dict[str, IntArray]:
    """Rank of the truth among 99 draws, (n_replications,) by quantity; truths and data from the model itself."""
    shape = shape_of(2, 2, 12, 2)
    design = lay_out(shape, DEFAULT_PRIORS)
    found: dict[str, list[int]] = {}
    for replication in range(n_replications):
        rng = np.random.default_rng([seed, replication])
        theta, z = rng.standard_normal((1, design.n_theta)), rng.standard_normal((1, design.n_z))
        x = design.parameters(theta, z)
        fit = fit_data(simulate(shape, design, x[0], rng), seed=replication, draws=800)
        truth = {f"theta {name}": (theta[0, i], fit.theta[:, i]) for i, name in enumerate(design.theta_names)}
        truth |= {f"z {name}": (z[0, i], fit.z[:, i]) for i, name in enumerate(design.names)}
        cell = cell_draws(x[:, [0, 1, 4, 5]])
        truth |= {name: (getattr(cell, name)[0], getattr(fit.cells[1].draws, name)) for name in RATES}
        for name, (true, draws) in truth.items():
            found.setdefault(name, []).append(int((draws[:N_RANKED] < true).sum()))
    return {name: np.array(own) for name, own in found.items()}


def p_value(own: IntArray, n_bins: int) -> float:
    """χ² of uniform ranks."""
    counts = np.bincount(own * n_bins // (N_RANKED + 1), minlength=n_bins)
    return float(stats.chisquare(counts).pvalue)


def test_ranks_are_uniform() -> None:
    for name, own in ranks(20, seed=1).items():
        assert p_value(own, 4) > 1e-6, name
        # Against a bias that a coarse χ² of 20 ranks would pass.
        assert abs(own.mean() - N_RANKED / 2) < 5 * (N_RANKED + 1) / (12 * len(own)) ** 0.5, name


def test_a_biased_posterior_fails() -> None:
    """Draws of the gain shifted up by two posterior sds."""
    shape = shape_of(1, 1, 12, 2)
    design = lay_out(shape, DEFAULT_PRIORS)
    own = []
    for replication in range(60):
        rng = np.random.default_rng([7, replication])
        z = rng.standard_normal((1, design.n_z))
        x = design.parameters(np.zeros((1, 0)), z)
        draws = fit_data(simulate(shape, design, x[0], rng), seed=replication, draws=400).cells[0].draws.gain
        own.append(int((draws[:N_RANKED] + 2 * draws.std() < cell_draws(x).gain[0]).sum()))
    assert p_value(np.array(own), 4) < 1e-6


@pytest.mark.slow
def test_ranks_are_uniform_over_many_replications() -> None:
    for name, own in ranks(200, seed=2).items():
        assert p_value(own, 10) > 1e-6, name


def relabelled(shared_data: Path, n: int, seed: int) -> tuple[BoolArray, FloatArray]:
    """Whether 0 lies in the 95 % intervals of Δ, r_x, d_x, (n, 3), and r, d of the pairs, (n, 2)."""
    (cell,) = real_cells(shared_data, "taubench-airline-repeats")
    assert (cell.baseline_runs == 4).all()
    trials = (np.arange(4) < cell.baseline_successes[:, None]).astype(np.int64)
    rng = np.random.default_rng(seed)
    covered, naive = [], []
    for i in range(n):
        drawn = rng.permuted(trials, axis=1)
        base, arm = drawn[:, :2], drawn[:, 2:]
        draws = fit_hierarchical([cell_of(base, arm)], seed=i, draws=600).cells[0].draws
        limits = [np.quantile(getattr(draws, name), [0.025, 0.975]) for name in (RATES[0], *RATES[3:])]
        covered.append([low <= 0 <= high for low, high in limits])
        naive.append([((1 - base) * arm).sum() / (1 - base).sum(), (base * (1 - arm)).sum() / base.sum()])
    return np.array(covered), np.array(naive)


def test_churn_is_no_effect(shared_data: Path) -> None:
    """25 relabellings: at a coverage of 92 %, 18 or fewer have chance 1e-4."""
    covered, naive = relabelled(shared_data, 25, seed=1)
    assert (covered.sum(axis=0) > 18).all()
    assert (naive.mean(axis=0) > 0.2).all()


@pytest.mark.slow
def test_churn_is_no_effect_over_many_relabellings(shared_data: Path) -> None:
    covered, _ = relabelled(shared_data, 400, seed=2)
    assert ((covered.mean(axis=0) >= 0.92) & (covered.mean(axis=0) <= 0.99)).all()


def small_pilots(shared_data: Path, n: int, seed: int) -> tuple[float, float]:
    """Root mean square error over that of the static model, and coverage of 90 % intervals of Δ, over all 24 cells."""
    cells = real_cells(shared_data, "mint-gpt35-append")
    full = np.array([(cell.counts["C"] - cell.counts["B"]) / cell.n_paired for cell in cells])
    shared: dict[str, set[str]] = {}
    for cell in cells:
        paired = {name for name, n_pairs in zip(cell.task_ids, cell.n_pairs, strict=True) if n_pairs}
        shared[cell.benchmark] = shared.get(cell.benchmark, paired) & paired
    rng = np.random.default_rng(seed)
    errors, static_errors, covered = [], [], []
    for i in range(n):
        chosen = {name: set(rng.choice(sorted(ids), 15, replace=False)) for name, ids in shared.items()}
        pilots = [with_tasks(cell, chosen[cell.benchmark]) for cell in cells]
        gains = np.array([fit.draws.gain for fit in fit_hierarchical(pilots, seed=i, draws=600).cells])
        low, high = np.quantile(gains, [0.05, 0.95], axis=1)
        covered.append((low <= full) & (full <= high))
        errors.append(gains.mean(axis=1) - full)
        for pilot, true in zip(pilots, full, strict=True):
            gain = fit_cell(pilot, seed=i, n_draws=1000).gain
            assert gain is not None
            static_errors.append(gain.summary.mean - true)
    return float((np.square(errors).mean() / np.square(static_errors).mean()) ** 0.5), float(np.mean(covered))


def test_shrinkage_pays(shared_data: Path) -> None:
    """Five pilots; the ratio's sd over sets of five is about .04, that of the coverage .03."""
    ratio, coverage = small_pilots(shared_data, 5, seed=1)
    assert ratio < 0.95
    assert coverage > 0.78


@pytest.mark.slow
def test_shrinkage_pays_over_many_pilots(shared_data: Path) -> None:
    ratio, coverage = small_pilots(shared_data, 200, seed=2)
    assert ratio <= 0.85
    assert 0.85 <= coverage <= 0.95

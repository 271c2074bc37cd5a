"""The fit as a whole: against the exact posterior, reproducible, and honest when its draws are poor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from inference.hierarchical.worlds import real_cells, shape_of, simulate
from inference.pilots import World, cell_of

from drsim.errors import ParameterError
from drsim.inference.hierarchical.design import lay_out
from drsim.inference.hierarchical.fit import Diagnostics, Route, fit_data, fit_hierarchical
from drsim.inference.hierarchical.laplace import find_mode
from drsim.inference.hierarchical.predict import predict_cell
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS
from drsim.inference.hierarchical.target import Target
from drsim.pilot.cell import Cell


def one_cell(n_tasks: int = 30, n_trials: int = 2, seed: int = 0) -> Cell:
    world = World(failure_rate=0.5, rho=0.4, shift=0.8)
    return cell_of(*world.draw(n_tasks, n_trials, np.random.default_rng(seed)))


def test_equals_the_posterior_by_plain_importance_sampling() -> None:
    """60,000 draws of the prior, weighted by the likelihood: no mode, no proposal, nothing to go wrong."""
    data = shape_of(2, 1, 8, 1)
    design = lay_out(data, DEFAULT_PRIORS)
    rng = np.random.default_rng(5)
    data = simulate(data, design, design.mean, rng)
    target = Target.of(data, DEFAULT_PRIORS)
    theta, z = rng.standard_normal((60_000, design.n_theta)), rng.standard_normal((60_000, design.n_z))
    logs = target.log_likelihood(design.parameters(theta, z))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    ess = 1 / np.sum(weights**2)
    fit = fit_data(data, seed=1, draws=4000)
    assert fit.diagnostics.is_good
    for exact, ours in ((theta, fit.theta), (z, fit.z)):
        mean = weights @ exact
        sd = (weights @ (exact - mean) ** 2) ** 0.5
        error = sd * (1 / ess + 1 / min(fit.diagnostics.ess, fit.n_draws) + 1 / fit.n_draws) ** 0.5
        assert np.abs((ours.mean(axis=0) - mean) / error).max() < 5
        # The sd of a posterior near a normal has relative error 1/√(2n).
        np.testing.assert_allclose(ours.std(axis=0) / sd, 1, atol=5 * (0.75 / ess + 0.75 / fit.diagnostics.ess) ** 0.5)


def test_evidence_of_both_ways_agrees() -> None:
    target = Target.of(shape_of(1, 1, 12, 1), DEFAULT_PRIORS)
    mode = find_mode(target)
    assert mode.is_found
    rng = np.random.default_rng(3)
    z = rng.standard_normal((30_000, target.design.n_z))
    logs = target.log_likelihood(target.design.parameters(np.zeros((len(z), 0)), z))
    assert mode.log_evidence == pytest.approx(np.log(np.exp(logs).mean()), abs=0.15)


def test_a_seed_gives_the_same_draws_in_any_order_of_cells(shared_data: Path) -> None:
    cells = real_cells(shared_data, "intercode-sql")
    one, other = (fit_hierarchical(order, seed=3, draws=400) for order in (cells, cells[::-1]))
    for name in ("intercode/sql",):
        arms = [fit.key.arm for fit in one.cells]
        for arm in arms:
            agent = one.cells[0].key.agent
            np.testing.assert_array_equal(
                one.cell(agent, name, arm).draws.gain, other.cell(agent, name, arm).draws.gain
            )
    assert not np.array_equal(one.z, fit_hierarchical(cells, seed=4, draws=400).z)


def test_fit_carries_what_it_was_made_of() -> None:
    fit = fit_hierarchical([one_cell()], seed=9, draws=500)
    assert (fit.seed, fit.route, fit.n_draws, fit.priors) == (9, Route.LAPLACE, 500, DEFAULT_PRIORS)
    assert set(fit.draws()) == {"baseline", "task", "gain", "spread"}
    assert fit.diagnostics.is_good
    assert fit.cells[0].summary.gain.mean == pytest.approx(fit.cells[0].draws.gain.mean())


def test_repeats_identify_churn() -> None:
    """With many repeats the posterior of ρ, p and Δ closes in on the truth of another model (beta tasks)."""
    world = World(failure_rate=0.5, rho=0.4, shift=0.8)
    cell = cell_of(*world.draw(400, 6, np.random.default_rng(2)))
    summary = fit_hierarchical([cell], seed=1, draws=1000).cells[0].summary
    truth = world.truth()
    for own, true in ((summary.rho, 0.4), (summary.failure_rate, truth["p"]), (summary.gain, truth["gain"])):
        assert abs(own.mean - true) < 4 * own.sd
    assert summary.rho.sd < 0.04


def test_baseline_alone_has_no_cell(shared_data: Path) -> None:
    fit = fit_hierarchical(real_cells(shared_data, "taubench-airline-repeats"), seed=1, draws=400)
    assert fit.cells == ()
    assert set(fit.draws()) == {"baseline", "task"}
    new = predict_cell(fit, agent="gpt-4o", benchmark="x", arm="y", seed=1)
    assert new.gain.std() > 0.1


def test_a_seen_cell_is_predicted_as_it_was_fitted() -> None:
    data = shape_of(3, 2, 10, 1)
    design = lay_out(data, DEFAULT_PRIORS)
    fit = fit_data(simulate(data, design, design.mean, np.random.default_rng(1)), seed=1, draws=400)
    own = fit.cell("agent", "b1", "arm1")
    again = predict_cell(fit, agent="agent", benchmark="b1", arm="arm1", seed=5)
    np.testing.assert_allclose(again.gain, own.draws.gain, atol=1e-12)
    new = predict_cell(fit, agent="agent", benchmark="new", arm="arm1", seed=5)
    newest = predict_cell(fit, agent="new", benchmark="new", arm="new", seed=5)
    assert own.draws.failure_rate.std() < new.failure_rate.std() < newest.failure_rate.std()


def test_real_pilots_have_good_diagnostics(shared_data: Path) -> None:
    for name in ("intercode-sql", "taubench-airline-repeats"):
        assert fit_hierarchical(real_cells(shared_data, name), seed=1, draws=1000).diagnostics.is_good


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mint-gpt35-append", "reflexion-programming", "ldb-debugger"])
def test_large_real_pilots_have_good_diagnostics(shared_data: Path, name: str) -> None:
    """With nodes that do not follow σ these two coding pilots end at k > 1: their tasks are spread by σ > 10."""
    assert fit_hierarchical(real_cells(shared_data, name), seed=1, draws=2000).diagnostics.is_good


def test_poor_draws_say_so() -> None:
    from drsim.inference.hierarchical.adaptive import Sample

    empty = np.zeros((0, 0))
    good = Sample(theta=empty, z=empty, pareto_k=0.3, ess=900.0, n_proposed=4000, n_rounds=2, log_evidence=0.0)
    assert good.is_good
    assert Diagnostics.of_sample(good).is_good
    for poor in (replace(good, pareto_k=0.71), replace(good, ess=399.0), replace(good, pareto_k=float("nan"))):
        assert not poor.is_good
        assert not Diagnostics.of_sample(poor).is_good
    assert not Diagnostics(ess=1e9).is_good


def test_wrong_requests_are_refused() -> None:
    cell = one_cell()
    with pytest.raises(ParameterError, match="seed must be"):
        fit_hierarchical([cell], seed=-1)
    with pytest.raises(ParameterError, match="draws must be"):
        fit_hierarchical([cell], seed=1, draws=10)
    fit = fit_hierarchical([cell], seed=1, draws=200)
    with pytest.raises(ParameterError, match="there is no cell"):
        fit.cell("agent", "benchmark", "other")

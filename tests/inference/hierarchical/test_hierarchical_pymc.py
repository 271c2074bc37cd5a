"""The PyMC model against the routes that drsim takes: the same density, the same posterior by other samplers."""

from pathlib import Path

import numpy as np
import pytest
from inference.hierarchical.worlds import real_cells, shape_of, simulate
from inference.pilots import World, cell_of

from drsim.errors import ParameterError
from drsim.inference.hierarchical import pymc_model
from drsim.inference.hierarchical.design import half_normal, lay_out
from drsim.inference.hierarchical.fit import HierarchicalFit, Route, fit_hierarchical, fit_nuts
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS
from drsim.inference.hierarchical.pymc_model import Nuts, build_model, fit_pymc
from drsim.inference.hierarchical.target import Target
from drsim.pilot.cell import Cell

pytest.importorskip("pymc")


def test_density_equals_that_of_the_fast_route() -> None:
    import pytensor

    shape = shape_of(2, 2, 10, 2, agents=("a", "b"))
    design = lay_out(shape, DEFAULT_PRIORS)
    rng = np.random.default_rng(1)
    data = simulate(shape, design, design.mean, rng)
    model = build_model(data)
    value = pytensor.function(
        [model["z"], model["scale"], model["half_correlation"]],
        sum(model.potentials),
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )
    theta, z = 0.5 * rng.standard_normal((5, design.n_theta)), 0.5 * rng.standard_normal((5, design.n_z))
    ours = Target.of(data, DEFAULT_PRIORS).log_likelihood(design.parameters(theta, z))
    scales, halves = half_normal(theta[:, : len(design.scale_names)]), (1 + design.correlations(theta)) / 2
    theirs = [float(value(*point)) for point in zip(z, scales, halves, strict=True)]
    # Their nodes are finer: the difference is our rule's error, here of 40 tasks.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=40 * 1e-5)


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ParameterError, match="widest must be positive"):
        build_model(shape_of(1, 1, 3, 1), widest=0)
    with pytest.raises(ParameterError, match="seed must be"):
        fit_pymc([], seed=-1)


def small_cell(seed: int) -> Cell:
    world = World(failure_rate=0.5, rho=0.4, shift=0.8)
    return cell_of(*world.draw(25, 2, np.random.default_rng(seed)))


def check_alike(one: HierarchicalFit, other: HierarchicalFit) -> None:
    """Means within 4 Monte Carlo errors, sds within 10 %."""
    for a, b in zip(one.cells, other.cells, strict=True):
        for name in ("gain", "failure_rate", "rho", "excess_recovery", "least_recovery"):
            x, y = getattr(a.draws, name), getattr(b.draws, name)
            error = y.std() * (1 / one.diagnostics.ess + 1 / other.diagnostics.ess) ** 0.5
            assert abs(x.mean() - y.mean()) < 4 * error, name
            assert x.std() == pytest.approx(y.std(), rel=0.1), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_samplers_agree_and_compile_once() -> None:
    """nutpie and PyMC's own sampler on one model; a second pilot of the same shape is only filled in."""
    pymc_model._compile.cache_clear()
    fits = [fit_pymc([small_cell(1)], seed=1, by=by) for by in (Nuts.NUTPIE, Nuts.PYMC)]
    for fit in fits:
        assert fit.diagnostics.ess > 400
        assert fit.diagnostics.rhat is not None
        assert fit.diagnostics.rhat < 1.01
    check_alike(*fits)
    check_alike(fits[0], fit_hierarchical([small_cell(1)], seed=1, draws=8000))
    second = fit_pymc([small_cell(2)], seed=1)
    check_alike(second, fit_hierarchical([small_cell(2)], seed=1, draws=8000))
    assert pymc_model._compile.cache_info().misses == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_posterior_equals_that_of_the_fast_routes(shared_data: Path) -> None:
    cells = real_cells(shared_data, "intercode-sql")
    chains = fit_nuts(cells, seed=1)
    fast = fit_hierarchical(cells, seed=1, draws=8000)
    assert chains.route is Route.NUTS
    assert chains.diagnostics.is_good
    assert fast.diagnostics.is_good
    check_alike(chains, fast)
    check_alike(fit_pymc(cells, seed=1), fast)

"""The PyMC model against the fast route: the same density at every point, the same posterior by another sampler."""

from pathlib import Path

import numpy as np
import pytest
from inference.hierarchical.worlds import real_cells, shape_of, simulate

from drsim.errors import ParameterError
from drsim.inference.hierarchical.design import half_normal, lay_out
from drsim.inference.hierarchical.fit import Route, fit_hierarchical
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS
from drsim.inference.hierarchical.pymc_model import build_model, fit_nuts
from drsim.inference.hierarchical.target import Target

pytest.importorskip("pymc")


def test_density_equals_that_of_the_fast_route() -> None:
    import pytensor

    shape = shape_of(2, 2, 10, 2)
    design = lay_out(shape, DEFAULT_PRIORS)
    rng = np.random.default_rng(1)
    data = simulate(shape, design, design.mean, rng)
    model = build_model(data)
    value = pytensor.function(
        [model["z"], model["scale"]], sum(model.potentials), mode="FAST_COMPILE", on_unused_input="ignore"
    )
    theta, z = 0.5 * rng.standard_normal((5, design.n_theta)), 0.5 * rng.standard_normal((5, design.n_z))
    ours = Target.of(data, DEFAULT_PRIORS).log_likelihood(design.parameters(theta, z))
    theirs = [float(value(one, scale)) for one, scale in zip(z, half_normal(theta), strict=True)]
    # Their nodes are finer: the difference is our rule's error, here of 20 tasks.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=20 * 1e-5)


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ParameterError, match="widest must be positive"):
        build_model(shape_of(1, 1, 3, 1), widest=0)
    with pytest.raises(ParameterError, match="seed must be"):
        fit_nuts([], seed=-1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_posterior_equals_that_of_the_fast_route(shared_data: Path) -> None:
    """Means within 4 Monte Carlo errors, sds within 10 %."""
    cells = real_cells(shared_data, "intercode-sql")
    nuts = fit_nuts(cells, seed=1, draws=1000, tune=1000, chains=4)
    fast = fit_hierarchical(cells, seed=1, draws=4000)
    assert nuts.route is Route.NUTS
    assert fast.diagnostics.is_good
    n = min(nuts.diagnostics.ess, fast.diagnostics.ess)
    for one, other in zip(nuts.cells, fast.cells, strict=True):
        for name in ("gain", "failure_rate", "rho", "excess_recovery", "least_recovery"):
            a, b = getattr(one.draws, name), getattr(other.draws, name)
            assert abs(a.mean() - b.mean()) < 4 * b.std() * (2 / n) ** 0.5, name
            assert a.std() == pytest.approx(b.std(), rel=0.1), name

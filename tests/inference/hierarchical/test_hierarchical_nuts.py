"""Chains on the compiled likelihood: the right density, its gradient, and the posterior of the other routes."""

import numpy as np
import pytest
from inference.hierarchical.worlds import shape_of, simulate

from drsim.errors import ParameterError
from drsim.inference.hierarchical.design import lay_out
from drsim.inference.hierarchical.fit import Diagnostics, fit_data, fit_nuts
from drsim.inference.hierarchical.nuts import Chains, Whitened, sample_nuts
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS
from drsim.inference.hierarchical.target import Target


def crossed_target() -> Target:
    shape = shape_of(2, 2, 10, 2, agents=("a", "b"))
    design = lay_out(shape, DEFAULT_PRIORS)
    return Target.of(simulate(shape, design, design.mean, np.random.default_rng(1)), DEFAULT_PRIORS)


def test_gradient_is_that_of_the_density() -> None:
    whitened = Whitened.of(crossed_target())
    rng = np.random.default_rng(2)
    for _ in range(3):
        point = rng.standard_normal(whitened.size)
        _, gradient = whitened.log_density(point)
        for i, probe in enumerate(1e-5 * np.eye(whitened.size)):
            rise = whitened.log_density(point + probe)[0] - whitened.log_density(point - probe)[0]
            assert gradient[i] == pytest.approx(rise / 2e-5, abs=1e-5)


def test_density_is_the_posterior_times_the_change_of_volume() -> None:
    """The determinant of the map from (t, e) to (θ, z), by differences, at points with scales far apart."""
    target = crossed_target()
    whitened = Whitened.of(target)
    n_theta = target.design.n_theta
    rng = np.random.default_rng(3)
    constants = []
    for _ in range(4):
        point = rng.standard_normal(whitened.size)
        columns = []
        for probe in 1e-6 * np.eye(whitened.size)[n_theta:]:
            ends = [whitened.scores_and_effects((point + side * probe)[None])[1][0] for side in (1, -1)]
            columns.append((ends[0] - ends[1]) / 2e-6)
        theta, z = whitened.scores_and_effects(point[None])
        volume = np.linalg.slogdet(np.array(columns))[1]
        constants.append(float(target.log_density(theta, z)[0] + volume - whitened.log_density(point)[0]))
    np.testing.assert_allclose(constants, constants[0], atol=1e-6)


def test_posterior_equals_that_of_laplace() -> None:
    """Two cells: means within 4 Monte Carlo errors, sds within 5 of theirs."""
    pytest.importorskip("nutpie")
    shape = shape_of(2, 1, 15, 1)
    design = lay_out(shape, DEFAULT_PRIORS)
    data = simulate(shape, design, design.mean, np.random.default_rng(5))
    chains = sample_nuts(Target.of(data, DEFAULT_PRIORS), draws=600, tune=400, chains=4, cores=None, seed=1)
    assert chains.reasons == ()
    fast = fit_data(data, seed=1, draws=6000)
    for ours, theirs in ((chains.theta, fast.theta), (chains.z, fast.z)):
        sd = theirs.std(axis=0)
        error = sd * (1 / chains.ess + 1 / min(fast.diagnostics.ess, 6000)) ** 0.5
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4 * error).all()
        np.testing.assert_allclose(ours.std(axis=0) / sd, 1, atol=5 * (0.75 / chains.ess) ** 0.5)


def test_poor_chains_say_so() -> None:
    empty = np.zeros((0, 0))
    good = Chains(theta=empty, z=empty, rhat=1.005, ess=500.0, n_divergences=0)
    assert Diagnostics.of_chains(good).is_good
    for rhat, ess, n, what in (
        (1.02, 500.0, 0, "have not met"),
        (1.0, 399.0, 0, "effective"),
        (1.0, 500.0, 1, "diverged"),
    ):
        poor = Diagnostics.of_chains(Chains(theta=empty, z=empty, rhat=rhat, ess=ess, n_divergences=n))
        assert not poor.is_good
        assert what in poor.reasons[0]
    assert not Diagnostics.of_chains(Chains(theta=empty, z=empty, rhat=np.nan, ess=np.nan, n_divergences=0)).is_good


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ParameterError, match="seed must be"):
        fit_nuts([], seed=-1)
    with pytest.raises(ParameterError, match="at least 1"):
        sample_nuts(crossed_target(), draws=0, tune=1, chains=1, cores=None, seed=1)

r"""Hamiltonian Monte Carlo where importance sampling is poor: nutpie on the compiled likelihood and its gradient.

The chains move in t and e:

.. math:: θ = \hat θ + R t, \qquad z_i = \frac{D_i(θ)}{D_i(\hat θ)} (\hat z + L^{-T} e)_i, \qquad
          D_i(θ) = P_{ii}(θ)^{-1/2}

with the mode and the roots of Laplace's method, so that what is left for the sampler is what is not normal. P is the
precision of the effects' posterior if the likelihood curved everywhere as at the mode: where a scale is large and the
data say much, z shrinks with it, and the funnel between the two is straight. Nothing is compiled for a new pilot.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.design import Mixing
from drsim.inference.hierarchical.laplace import find_mode
from drsim.inference.hierarchical.linear import product, solve_lower, solve_upper
from drsim.inference.hierarchical.target import Target
from drsim.inference.importance import FEWEST_EFFECTIVE

__all__ = ["Chains", "Whitened", "sample_nuts"]

LARGEST_RHAT = 1.01
"""Above it the chains have not met (Vehtari et al., Bayesian Analysis 16, 2021)."""
TARGET_ACCEPT = 0.9
"""Of the step size: the funnel between scales and effects wants shorter steps than the usual 0.8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """Draws of all chains below one another, and whether they can be relied on."""

    theta: FloatArray
    """(n_draws, n_theta)"""
    z: FloatArray
    """(n_draws, n_z)"""
    rhat: float
    """Largest R̂ of scores and effects."""
    ess: float
    """Fewest effective draws of them, in the bulk or in the tails."""
    n_divergences: int

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they cannot be relied on; empty where they can."""
        found = []
        if not self.rhat <= LARGEST_RHAT:
            found.append(f"R̂ is {self.rhat:.3f}, above {LARGEST_RHAT}: the chains have not met")
        if not self.ess >= FEWEST_EFFECTIVE:
            found.append(f"{self.ess:.0f} draws are effective, fewer than {FEWEST_EFFECTIVE:.0f}")
        if self.n_divergences:
            found.append(f"{self.n_divergences} transitions diverged")
        return tuple(found)

    @classmethod
    def of(cls, diverging: BoolArray, theta: FloatArray, z: FloatArray) -> "Chains":
        """Chains with their diagnostics.

        Parameters
        ----------
        diverging : BoolArray
            (n_chains, n_draws) whether a transition diverged.
        theta, z : FloatArray
            (n_chains · n_draws, n_theta) and (…, n_z), chain by chain.

        Returns
        -------
        Chains
        """
        import arviz as az
        import xarray as xr

        values = np.concatenate([theta, z], axis=1).reshape(*diverging.shape, -1)
        held = xr.Dataset({"x": (("chain", "draw", "i"), values)})
        rhat = float(np.asarray(az.rhat(held)["x"]).max())
        ess = min(float(np.asarray(az.ess(held, method=method)["x"]).min()) for method in ("bulk", "tail"))
        return cls(theta=theta, z=z, rhat=rhat, ess=ess, n_divergences=int(diverging.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Whitened:
    """The posterior of (t, e), close to N(0, I)."""

    target: Target
    theta: FloatArray
    """(n_theta,) θ̂."""
    theta_root: FloatArray
    """(n_theta, n_theta) lower, R."""
    z: FloatArray
    """(n_z,) ẑ."""
    z_root: FloatArray
    """(1, n_z, n_z) lower, L."""
    said: FloatArray
    """(n_z,) q, curvature of the log-likelihood in each effect."""
    said_jointly: FloatArray
    """(n_coupled,) its cross terms of effects that are correlated."""
    precisions: FloatArray
    """(1, n_z) 1/D² at θ̂."""

    @classmethod
    def of(cls, target: Target) -> "Whitened":
        """About the mode that Laplace's method finds."""
        mode = find_mode(target)
        n_theta = target.design.n_theta
        normal = target.normal(mode.theta[None], mode.expansion)
        curvature, design = mode.expansion.concave.curvature[0], target.design
        said, said_jointly = np.diagonal(curvature).copy(), curvature[design.coupled, design.partner]
        return cls(
            target=target,
            theta=mode.theta,
            theta_root=np.linalg.cholesky(mode.covariance) if n_theta else np.zeros((0, 0)),
            z=mode.z,
            z_root=normal.root,
            said=said,
            said_jointly=said_jointly,
            precisions=_precisions(design.mixing(mode.theta[None]), said, said_jointly),
        )

    @property
    def size(self) -> int:
        """Numbers in a point (t, e)."""
        return len(self.theta) + len(self.z)

    def scores_and_effects(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, n_theta) θ and (n, n_z) z of (n, size) points."""
        theta, z, _, _, _ = self._mapped(points)
        return theta, z

    def _mapped(self, points: FloatArray) -> tuple[FloatArray, FloatArray, Mixing, FloatArray, FloatArray]:
        """θ and z of (n, size) points, how effects mix there, and (n, n_z) 1/D² and log D(θ)/D(θ̂)."""
        t, e = points[:, : len(self.theta)], points[:, len(self.theta) :]
        theta = self.theta + product(t, self.theta_root)
        mixing = self.target.design.mixing(theta)
        precisions = _precisions(mixing, self.said, self.said_jointly)
        log_widths = 0.5 * np.log(self.precisions / precisions)
        z = np.exp(log_widths) * (self.z + solve_upper(self.z_root, e))
        return theta, z, mixing, precisions, log_widths

    def log_density(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Log posterior at one (size,) point, up to a constant, and its (size,) gradient."""
        target, design = self.target, self.target.design
        theta, z, mixing, precisions, log_widths = self._mapped(point[None])
        value, slope = target.log_likelihood_slope(design.mean + product(mixing.effects(z), design.columns))
        height = float(value[0] - 0.5 * (theta[0] @ theta[0] + z[0] @ z[0]) + log_widths.sum())
        in_effects = slope @ design.columns
        in_z = mixing.carried(in_effects) - z
        own, lent = in_effects * z, in_effects[:, mixing.coupled] * z[:, mixing.partner]
        # by the widths, through z and through the volume: d log D = −½ D² d(1/D²)
        through = -(in_z * z + 1.0) / precisions
        own += through * mixing.own * self.said
        own[:, mixing.partner] += through[:, mixing.partner] * mixing.lent * self.said_jointly
        lent += through[:, mixing.partner] * (
            mixing.lent * self.said[mixing.coupled] + mixing.own[:, mixing.partner] * self.said_jointly
        )
        in_theta = design.score_slopes(theta, own, lent) - theta
        in_e = solve_lower(self.z_root, in_z * np.exp(log_widths))
        return height, np.concatenate([in_theta[0] @ self.theta_root, in_e[0]])


def _precisions(mixing: Mixing, said: FloatArray, said_jointly: FloatArray) -> FloatArray:
    """(n, n_z) 1/D²: diagonal of the precision of z if the likelihood's curvature were that of the mode."""
    precisions: FloatArray = 1.0 + mixing.own**2 * said
    shared = mixing.lent * (mixing.lent * said[mixing.coupled])
    shared += 2.0 * mixing.lent * mixing.own[:, mixing.partner] * said_jointly
    precisions[:, mixing.partner] += shared
    return precisions


def sample_nuts(target: Target, *, draws: int, tune: int, chains: int, cores: int | None, seed: int) -> Chains:
    """Draws by NUTS.

    Parameters
    ----------
    target : Target
        Log posterior of scales and effects.
    draws, tune, chains : int
        Kept and discarded draws of each chain, and chains.
    cores : int, optional
        Chains at once; all cores by default.
    seed : int
        Seed of the chains, ≥ 0.

    Returns
    -------
    Chains
        Look at `reasons` before anything else.

    Raises
    ------
    ParameterError
        `draws`, `tune` or `chains` is below 1.
    ModuleNotFoundError
        nutpie or ArviZ is not installed.
    """
    if min(draws, tune, chains) < 1:
        raise ParameterError(f"draws, tune and chains must be at least 1, got {draws}, {tune} and {chains}")
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    whitened = Whitened.of(target)

    def make_expand(_seed1: int, _seed2: int, _chain: int) -> Callable[[FloatArray], dict[str, FloatArray]]:
        return lambda point: {"point": np.array(point)}

    model = from_pyfunc(
        ndim=whitened.size,
        make_logp_fn=lambda: whitened.log_density,
        make_expand_fn=make_expand,
        make_initial_point_fn=lambda own: np.random.default_rng(own).standard_normal(whitened.size),
        expanded_dtypes=[np.dtype("float64")],
        expanded_shapes=[(whitened.size,)],
        expanded_names=["point"],
    )
    trace = nutpie.sample(
        model,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        seed=seed,
        progress_bar=False,
        target_accept=TARGET_ACCEPT,
    )
    points = np.asarray(trace.posterior["point"], dtype=np.float64).reshape(-1, whitened.size)
    return Chains.of(np.asarray(trace.sample_stats["diverging"]), *whitened.scores_and_effects(points))

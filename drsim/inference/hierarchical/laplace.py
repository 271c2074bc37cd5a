r"""Mode and curvature: z at its mode for given scales, the scales at the mode of what integrating z leaves.

The posterior of the effects z given the scales θ is close to normal; that of z and θ together is a funnel. So z is
integrated by Laplace's method at each θ, and only θ, a handful of numbers, is searched:

.. math:: F(θ) = -½|θ|² + ℓ(ẑ) - ½|ẑ|² - ½\log\det P(θ)
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.target import Expansion, Normal, Target

__all__ = ["Mode", "find_mode", "mode_at_prior"]

MOST_STEPS = 60
"""Newton steps for z; a dozen suffice where the likelihood is concave."""
SMALL_STEP = 1e-6
"""Largest change of an effect, in prior sds, at which Newton's method stops."""
LONGEST_STEP = 2.0
"""No effect moves further at once, in prior sds: beyond, the expansion says nothing."""
FARTHEST = 4.0
"""Scores of scales are searched this far; the prior leaves 6e-5 outside."""
PROBE = 1e-3
"""Step of the differences in θ: error 1e-6 by the third derivative, 1e-9 by rounding."""
WIDE_PROBE = 0.5
"""Step of the second differences in θ, half a prior sd: ẑ can jump from one mode to another, and F has a spike there
that says nothing of the width."""
LEAST_CURVATURE = 0.5
"""θ is given no sd above √2: its prior has 1, and only a likelihood that prefers extremes could widen it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Where the posterior is highest, and how wide it is there."""

    theta: FloatArray
    """(n_theta,) mode of the scales' scores."""
    covariance: FloatArray
    """(n_theta, n_theta) by the curvature of F."""
    z: FloatArray
    """(n_z,) mode of the effects there."""
    expansion: Expansion
    """The log-likelihood about it, n = 1."""
    log_evidence: float
    """Laplace's value of the log marginal likelihood, without binomial coefficients."""
    is_found: bool
    """Whether both searches ended at a mode."""


def _climb(target: Target, theta: FloatArray, z: FloatArray) -> tuple[FloatArray, Expansion, Normal, bool]:
    """Mode of z at n scores θ by Newton's method with halved steps."""
    design = target.design
    expansion = target.expand(design.parameters(theta, z))
    height = expansion.value - 0.5 * (z**2).sum(axis=1)
    for _ in range(MOST_STEPS):
        normal = target.normal(theta, expansion)
        step = normal.mode - z
        if np.abs(step).max() < SMALL_STEP:
            return z, expansion, normal, True
        share = np.minimum(1.0, LONGEST_STEP / np.maximum(np.abs(step).max(axis=1), SMALL_STEP))
        for _ in range(12):
            tried = z + share[:, None] * step
            gained = target.log_likelihood(design.parameters(theta, tried)) - 0.5 * (tried**2).sum(axis=1)
            worse = ~(gained >= height - 1e-9)
            if not worse.any():
                break
            share[worse] /= 2
        z, height = tried, gained
        expansion = target.expand(design.parameters(theta, z))
    return z, expansion, target.normal(theta, expansion), False


@dataclass(slots=True, kw_only=True)
class _Search:
    """F(θ) with the effects' last mode as the start of the next."""

    target: Target
    z: FloatArray

    def heights(self, theta: FloatArray) -> FloatArray:
        """(n,) F at (n, n_theta) scores; remembers the mode at the first."""
        start = np.repeat(self.z[None], len(theta), axis=0)
        z, expansion, normal, _ = _climb(self.target, theta, start)
        self.z = z[0]
        prior = -0.5 * ((theta**2).sum(axis=1) + (z**2).sum(axis=1))
        height: FloatArray = prior + expansion.value - normal.log_root
        return height

    def descent(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """−F and its gradient by central differences."""
        probes = PROBE * np.eye(len(theta))
        heights = self.heights(np.concatenate([theta[None], theta + probes, theta - probes]))
        n = len(theta)
        return -float(heights[0]), -(heights[1 : n + 1] - heights[n + 1 :]) / (2 * PROBE)

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Minus the second differences of F."""
        n = len(theta)
        probes = WIDE_PROBE * np.eye(n)
        upper = [(i, j) for i in range(n) for j in range(i, n)]
        points = [theta, *(theta + p for p in probes), *(theta - p for p in probes)]
        points += [theta + s * (probes[i] + probes[j]) for i, j in upper if i != j for s in (1, -1)]
        heights = iter(self.heights(np.array(points)))
        middle = next(heights)
        plus, minus = np.array([next(heights) for _ in range(n)]), np.array([next(heights) for _ in range(n)])
        second = np.diag((plus + minus - 2 * middle) / WIDE_PROBE**2)
        for i, j in upper:
            if i != j:
                both = next(heights) + next(heights) - plus[i] - minus[i] - plus[j] - minus[j] + 2 * middle
                second[i, j] = second[j, i] = both / (2 * WIDE_PROBE**2)
        return -second


def find_mode(target: Target) -> Mode:
    """Mode of the posterior with its curvature.

    Parameters
    ----------
    target : Target
        Log posterior of scales and effects.

    Returns
    -------
    Mode
    """
    n_theta = target.design.n_theta
    theta = np.zeros(n_theta)
    search = _Search(target=target, z=np.zeros(target.design.n_z))
    covariance = np.zeros((n_theta, n_theta))
    is_found = True
    if n_theta:
        result = optimize.minimize(
            search.descent,
            theta,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-FARTHEST, FARTHEST)] * n_theta,
            options={"gtol": 1e-2, "maxiter": 50},
        )
        theta = result.x
        eigenvalues, vectors = np.linalg.eigh(search.curvature(theta))
        is_found = bool(np.abs(result.jac).max() < 0.1)
        covariance = (vectors / np.maximum(eigenvalues, LEAST_CURVATURE)) @ vectors.T
    return _mode(target, theta, covariance, search.z, is_found=is_found)


def mode_at_prior(target: Target) -> Mode:
    """The effects' mode with every scale at its prior median, and the scales as wide as their prior: a second start.

    Where F has several modes or a spike, the first may describe too little of the posterior.
    """
    n_theta = target.design.n_theta
    return _mode(target, np.zeros(n_theta), np.eye(n_theta), np.zeros(target.design.n_z), is_found=True)


def _mode(target: Target, theta: FloatArray, covariance: FloatArray, start: FloatArray, *, is_found: bool) -> Mode:
    z, expansion, normal, is_climbed = _climb(target, theta[None], start[None])
    height = expansion.value[0] - 0.5 * (theta @ theta + z[0] @ z[0]) - normal.log_root[0]
    return Mode(
        theta=theta,
        covariance=covariance,
        z=z[0],
        expansion=expansion,
        # The prior of θ and the integral over its normal carry the same power of 2π.
        log_evidence=float(height + 0.5 * np.linalg.slogdet(covariance)[1]),
        is_found=is_found and is_climbed,
    )

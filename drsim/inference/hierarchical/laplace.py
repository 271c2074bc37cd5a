r"""Mode and curvature: z at its mode for given scales, the scales at the mode of what integrating z leaves.

The posterior of the effects z given the scales θ is close to normal; that of z and θ together is a funnel. So z is
integrated by Laplace's method at each θ, and only θ, a handful of numbers, is searched:

.. math:: F(θ) = -½|θ|² + ℓ(ẑ) - ½|ẑ|² - ½\log\det P(θ)
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.linear import product, solve_lower, solve_upper
from drsim.inference.hierarchical.target import Expansion, Normal, Quadratic, Target

__all__ = ["Mode", "find_mode", "mode_at_prior"]

MOST_STEPS = 60
"""Newton steps for z; a dozen suffice where the likelihood is concave."""
SMALL_STEP = 1e-6
"""Largest change of an effect, in prior sds, at which Newton's method stops."""
LONGEST_STEP = 2.0
"""No effect moves further at once, in prior sds: beyond, the expansion says nothing."""
FARTHEST = 4.0
"""Scores of scales are searched this far; the prior leaves 6e-5 outside."""
MOST_ROUNDS = 20
"""Expansions of the likelihood for one mode; half a dozen suffice."""
SMALL_MOVE = 0.02
"""Change of a score, in prior sds, at which the rounds stop: the draws that follow correct far more."""
PROBE = 0.5
"""Step of the differences of F's slope, half a prior sd: the width that matters is that of the whole posterior."""
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
    """Whether both searches, that for θ and that for z, came to rest."""


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


def _descent(target: Target, quadratic: Quadratic, theta: FloatArray) -> tuple[float, FloatArray]:
    """−F and its gradient, F with the likelihood's expansion held fixed: smooth, and a matter of matrices."""
    mixing = target.design.mixing(theta[None])
    normal = target.given(mixing, quadratic)
    mean, root = normal.mode[0], normal.root
    covariance = solve_upper(root, solve_lower(root, np.eye(len(mean))))
    height = 0.5 * (mixing.carried(quadratic.pull)[0] @ mean - theta @ theta) - normal.log_root[0]
    # dF/dW = (q − Q W m) mᵀ − Q W C of which only the entries that W has are needed
    curvature = quadratic.curvature[0]
    rest = quadratic.pull[0] - curvature @ mixing.effects(mean[None])[0]
    slope = np.outer(rest, mean) - product(curvature, mixing.effects(covariance))
    own, lent = np.diagonal(slope), slope[mixing.coupled, mixing.partner]
    return -float(height), theta - target.design.score_slopes(theta[None], own[None], lent[None])[0]


def _spread(target: Target, quadratic: Quadratic, theta: FloatArray) -> FloatArray:
    """Covariance of θ by the curvature of F with the expansion held fixed."""
    probes = PROBE * np.eye(len(theta))
    slopes = [
        (_descent(target, quadratic, theta + probe)[1] - _descent(target, quadratic, theta - probe)[1]) / (2 * PROBE)
        for probe in probes
    ]
    eigenvalues, vectors = np.linalg.eigh((np.array(slopes) + np.array(slopes).T) / 2)
    covariance: FloatArray = (vectors / np.maximum(eigenvalues, LEAST_CURVATURE)) @ vectors.T
    return covariance


def find_mode(target: Target) -> Mode:
    """Mode of the posterior with its curvature.

    The likelihood is expanded about the effects' mode, F maximised with that expansion, and both repeated until the
    scores stay: each step is smooth, where F itself has spikes as ẑ jumps from one mode to another.

    Parameters
    ----------
    target : Target
        Log posterior of scales and effects.

    Returns
    -------
    Mode
    """
    theta, start = np.zeros(target.design.n_theta), np.zeros((1, target.design.n_z))
    if not len(theta):
        return _mode(target, theta, np.zeros((0, 0)), start[0], is_found=True)
    is_found = False
    for _ in range(MOST_ROUNDS):
        start, expansion, _, _ = _climb(target, theta[None], start)
        result = optimize.minimize(
            lambda at, quadratic: _descent(target, quadratic, at),
            theta,
            args=(expansion.concave,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-FARTHEST, FARTHEST)] * len(theta),
            options={"gtol": 1e-3, "maxiter": 50},
        )
        moved = float(np.abs(result.x - theta).max())
        theta = result.x
        is_found = moved < SMALL_MOVE
        if is_found:
            break
    return _mode(target, theta, _spread(target, expansion.concave, theta), start[0], is_found=is_found)


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

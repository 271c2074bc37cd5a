r"""Binomial counts whose logits are sums of Gaussian effects with unknown spreads: posterior draws without MCMC.

.. math::

    y_i \sim \mathrm{Binomial}(n_i, \sigma(\eta_i)), \quad \eta = A x, \quad
    x_j \sim N(0, s_{g(j)}^2), \quad s_g \sim \mathrm{HalfNormal}(\mathrm{scale}_g)

A group g of effects is, say, the cells of a pilot, or the steps of a random walk (whose columns of A are cumulative);
a group with a fixed spread is a plain prior. Given the spreads the effects are nearly normal, so that

1. the spreads' posterior is approximated with the effects integrated out by Laplace's method, its mode and curvature
   found on the log scale;
2. spreads are drawn from a heavy-tailed proposal there, effects from their normal approximation given the spreads;
3. every draw gets its importance weight under the exact posterior, smoothed (`drsim.inference.importance`).

What the approximation gets wrong, the weights put right; where they cannot, their tail says so.

References
----------
H. Rue, S. Martino, N. Chopin, "Approximate Bayesian inference for latent Gaussian models", JRSS B 71 (2009), for
steps 1 and 2.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, gammaln

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ConvergenceError
from drsim.inference.importance import Importance, resampled, smooth

__all__ = ["FieldPosterior", "LatentField", "sample_field"]

NEWTON_STEPS = 50
UNDAMPED_STEPS = 20
"""Far from the mode full steps can go to and fro for ever; after so many each must go uphill, halved until it does."""
HALVINGS = 30
HEIGHT_ROUNDING = 1e-9
"""Of a log posterior of thousands of counts; at the mode a step neither rises nor falls by more."""
NEWTON_TOLERANCE = 1e-9
"""Of a step in every effect, in units of its spread."""
PROPOSAL_DF = 5.0
"""Degrees of freedom of the proposal of log spreads: tails heavier than the half-normal prior's exponential one."""
DRAWS_AT_ONCE = 500
LOWEST_LOG_SPREAD = -7.0
"""A spread of 1e-3 on the logit scale is none: below it the mode is not sought, though draws may fall there."""
CURVATURE_STEP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentField:
    """Counts and the effects behind them: n counts, k effects, G groups."""

    successes: IntArray
    """(n,)."""
    trials: IntArray
    """(n,); 0 where a logit is wanted though nothing was counted."""
    offset: FloatArray
    """(n,) known part of the logits."""
    design: FloatArray
    """(n, k) A."""
    group: IntArray
    """(k,) group of each effect; −1 for a fixed spread of 1 (scale the column of A for another)."""
    scales: FloatArray
    """(G,) scale of the half-normal prior of each group's spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPosterior:
    """Equally weighted posterior draws."""

    logits: FloatArray
    """(draws, n)."""
    effects: FloatArray
    """(draws, k)."""
    spreads: FloatArray
    """(draws, G)."""
    effective: float
    """Independent draws that the weighted ones were worth before they were resampled."""
    pareto_k: float
    """Above 0.7 the draws cannot be relied on."""


def sample_field(field: LatentField, *, seed: int, draws: int) -> FieldPosterior:
    """Draw from the posterior.

    Parameters
    ----------
    field : LatentField
        Counts and effects.
    seed : int
        ≥ 0.
    draws : int
        Proposals made, and equally weighted draws returned, ≥ 100.

    Returns
    -------
    FieldPosterior

    Raises
    ------
    ConvergenceError
        The mode of the effects is not found.
    """
    rng = np.random.default_rng(seed)
    start = np.log(0.5 * field.scales)
    mode, spread = _mode(field, start)
    log_spreads, log_proposal = _propose(mode, spread, draws, rng)
    effects, log_weights = np.empty((draws, field.design.shape[1])), np.empty(draws)
    for begin in range(0, draws, DRAWS_AT_ONCE):
        part = slice(begin, begin + DRAWS_AT_ONCE)
        effects[part], log_weights[part] = _effects(field, log_spreads[part], rng)
    importance: Importance = smooth(log_weights - log_proposal)
    kept = resampled(importance, draws, rng)
    chosen = effects[kept]
    return FieldPosterior(
        logits=field.offset + chosen @ field.design.T,
        effects=chosen,
        spreads=np.exp(log_spreads[kept]),
        effective=importance.effective,
        pareto_k=importance.pareto_k,
    )


def _mode(field: LatentField, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mode (G,) and covariance (G, G) of the log spreads with the effects integrated out."""
    if not field.scales.size:
        return start, np.zeros((0, 0))

    def cost(log_spread: FloatArray) -> float:
        low = np.maximum(log_spread, LOWEST_LOG_SPREAD)
        return -float(_laplace(field, low[None])[0]) + float(np.sum((log_spread - low) ** 2))

    found = minimize(cost, start, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 1e-4, "maxfev": 2000})
    mode = np.maximum(found.x, LOWEST_LOG_SPREAD)
    return mode, _covariance(field, mode)


def _covariance(field: LatentField, mode: FloatArray) -> FloatArray:
    """Inverse of the negative Hessian by central differences, made positive definite where the mode lies on an edge."""
    size = mode.size
    steps = CURVATURE_STEP * np.eye(size)
    points = [mode]
    points += [mode + a * steps[i] + b * steps[j] for i in range(size) for j in range(i + 1) for a, b in SIGNS]
    values = _laplace(field, np.array(points))
    hessian = np.zeros((size, size))
    at = 1
    for i in range(size):
        for j in range(i + 1):
            plus, mixed, other, minus = values[at : at + 4]
            at += 4
            hessian[i, j] = hessian[j, i] = -(plus - mixed - other + minus) / (4.0 * CURVATURE_STEP**2)
    curvature, axes = np.linalg.eigh(hessian)
    # an exponential tail, as below a spread that the counts do not see, has curvature 0: sd 2 covers it
    variance = 1.0 / np.maximum(curvature, 0.25)
    covariance: FloatArray = (axes * variance) @ axes.T
    return covariance


SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


def _propose(
    mode: FloatArray, covariance: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Log spreads (draws, G) from a multivariate t, and their log densities up to a constant."""
    size = mode.size
    normal = rng.standard_normal((draws, size))
    chi = rng.chisquare(PROPOSAL_DF, draws) / PROPOSAL_DF
    z = normal / np.sqrt(chi)[:, None]
    root = np.linalg.cholesky(covariance) if size else covariance
    log_density = -0.5 * (PROPOSAL_DF + size) * np.log1p((z**2).sum(axis=1) / PROPOSAL_DF)
    return mode + z @ root.T, log_density


def _spreads(field: LatentField, log_spreads: FloatArray) -> FloatArray:
    """(N, k) spread of each effect."""
    padded = np.concatenate([log_spreads, np.zeros((len(log_spreads), 1))], axis=1)
    return np.exp(padded[:, field.group])


def _log_prior(field: LatentField, log_spreads: FloatArray) -> FloatArray:
    """(N,) log density of log spreads, up to a constant: half-normal, with the change of variable."""
    density: FloatArray = np.sum(log_spreads - 0.5 * (np.exp(log_spreads) / field.scales) ** 2, axis=1)
    return density


def _log_likelihood(field: LatentField, logits: FloatArray) -> FloatArray:
    """(N,) of logits (N, n)."""
    choose = (
        gammaln(field.trials + 1.0) - gammaln(field.successes + 1.0) - gammaln(field.trials - field.successes + 1.0)
    )
    terms = field.successes * logits - field.trials * np.logaddexp(0.0, logits)
    total: FloatArray = terms.sum(axis=1) + choose.sum()
    return total


def _newton(field: LatentField, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Modes (N, k) of the effects in units of their spreads (N, k), and Cholesky factors of the curvature there.

    In these units the prior's curvature is 1 whatever the spread, so that spreads near 0 do no harm.
    """
    n_points, size = spread.shape
    z = np.zeros((n_points, size))
    diagonal = np.arange(size)
    for k in range(NEWTON_STEPS):
        p = expit(field.offset + (spread * z) @ field.design.T)
        gradient = spread * ((field.successes - field.trials * p) @ field.design) - z
        weights = field.trials * p * (1.0 - p)
        curvature = np.matmul(field.design.T * weights[:, None, :], field.design)
        curvature *= spread[:, :, None] * spread[:, None, :]
        curvature[:, diagonal, diagonal] += 1.0
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        # far from the mode a full step can overshoot: no effect moves by more than 2 at once
        size_of_step = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, 2.0 / np.maximum(size_of_step, 1e-300))
        z += step if k < UNDAMPED_STEPS else _uphill(field, spread, z, step) * step
        if size_of_step.max() < NEWTON_TOLERANCE:
            break
    else:
        raise ConvergenceError(
            f"the mode of {size} effects must be found within {NEWTON_STEPS} Newton steps, but the last one was still "
            f"{size_of_step.max():.2g}; give priors that are less wide"
        )
    return z, np.linalg.cholesky(curvature)


def _uphill(field: LatentField, spread: FloatArray, z: FloatArray, step: FloatArray) -> FloatArray:
    """(N, 1) share of each step that raises the log posterior, which is concave, so that there always is one."""

    def height(at: FloatArray) -> FloatArray:
        logits = field.offset + (spread * at) @ field.design.T
        total: FloatArray = _log_likelihood(field, logits) - 0.5 * (at**2).sum(axis=1)
        return total

    here, share = height(z), np.ones((len(z), 1))
    for _ in range(HALVINGS):
        falls = height(z + share * step) < here - HEIGHT_ROUNDING
        if not falls.any():
            break
        share[falls] *= 0.5
    return share


def _laplace(field: LatentField, log_spreads: FloatArray) -> FloatArray:
    """(N,) log posterior of log spreads with the effects integrated out, up to a constant."""
    spread = _spreads(field, log_spreads)
    z, root = _newton(field, spread)
    log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    likelihood = _log_likelihood(field, field.offset + (spread * z) @ field.design.T)
    log_posterior: FloatArray = likelihood - 0.5 * (z**2).sum(axis=1) - log_det + _log_prior(field, log_spreads)
    return log_posterior


def _effects(field: LatentField, log_spreads: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Effects (N, k) drawn given their spreads, and log posterior less log density of the draw of the effects."""
    spread = _spreads(field, log_spreads)
    mode, root = _newton(field, spread)
    normal = rng.standard_normal(mode.shape)
    z = mode + np.linalg.solve(root.transpose(0, 2, 1), normal[..., None])[..., 0]
    log_density = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) - 0.5 * (normal**2).sum(axis=1)
    likelihood = _log_likelihood(field, field.offset + (spread * z) @ field.design.T)
    log_posterior = likelihood - 0.5 * (z**2).sum(axis=1) + _log_prior(field, log_spreads)
    return spread * z, log_posterior - log_density

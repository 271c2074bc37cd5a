"""Tasks that differ as a few classes: Gauss nodes of beta distributions (THEORY section 2)."""

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.domain import check_probability, check_shapes

__all__ = ["N_NODES", "beta_logit_nodes", "beta_nodes"]

NEARLY = 1e-9
"""ρ nearer than this to 0 or 1 is 0 or 1: a + b would lose its digits."""
N_NODES = 12
"""Exact for polynomials up to degree 23, Best-of-23 among them. A factor c on the odds has its pole at s = 1/(1 − c),
off [0, 1]: the error falls as 10⁻¹⁶ for c = 0.4 and 10⁻⁷ for c = 0.1."""

N_GAUSS = 24
NEARLY_ALIKE = 0.005
"""Below this ρ a few Gauss nodes hold the narrow distribution; above, it is wider than the steps that follow."""
STEP = 0.1
GRID = STEP * np.arange(-96.0, 97.0)
TAIL = STEP * np.arange(97.0, 221.0)
"""Beyond the grid s is 0 or 1 to more digits than there are; reaches to where s^a falls off for a = 10⁻⁷."""


def beta_nodes(mean: ArrayLike, rho: ArrayLike, n_nodes: int = N_NODES) -> tuple[FloatArray, FloatArray]:
    """Success rates of tasks and their shares, such that means of polynomials over s ~ Beta are exact.

    The distribution has the mean and the intraclass correlation given: a + b = 1/ρ − 1. At ρ = 0 all tasks are alike,
    at ρ = 1 each succeeds always or never.

    Parameters
    ----------
    mean, rho : array_like
        (D,) E[s] and ρ, in [0, 1]; shapes that broadcast.
    n_nodes : int
        J ≥ 2; exact up to degree 2J − 1.

    Returns
    -------
    success, weights : ndarray
        (D, J) each; success rises along a row, whose weights sum to 1.

    Raises
    ------
    ParameterError
        A value is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    G. Golub and J. Welsch, *Calculation of Gauss quadrature rules*, Math. Comp. 23 (1969) 221-230.
    """
    m, r = check_probability("mean", mean), check_probability("rho", rho)
    shape = check_shapes(mean=m, rho=r)
    m, r = (np.broadcast_to(it, shape).ravel() for it in (m, r))
    is_inside = (m > NEARLY) & (m < 1.0 - NEARLY) & (r > NEARLY) & (r < 1.0 - NEARLY)
    success = np.repeat(m[:, None], n_nodes, axis=1)
    weights = np.full(success.shape, 1.0 / n_nodes)
    is_split = ~is_inside & (r >= 1.0 - NEARLY)
    success[is_split] = np.linspace(0.0, 1.0, n_nodes)
    weights[is_split] = 0.0
    weights[is_split, 0], weights[is_split, -1] = 1.0 - m[is_split], m[is_split]
    size = 1.0 / r[is_inside] - 1.0
    success[is_inside], weights[is_inside] = _gauss(m[is_inside] * size, (1.0 - m[is_inside]) * size, n_nodes)
    return success, weights


def beta_logit_nodes(mean: ArrayLike, rho: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""The same tasks on nodes that also hold functions with poles close to s = 0 or 1, given by the logit of s.

    The logit is π/2 · sinh of a grid with equal steps, so that the density falls off double-exponentially, also where a
    or b is small, and the trapezoid rule converges exponentially. The tails beyond the grid lie so near to 0 and 1 that
    its ends stand for them.

    Parameters
    ----------
    mean, rho : array_like
        (D,) E[s] and ρ, in [0, 1]; shapes that broadcast.

    Returns
    -------
    logits, weights : ndarray
        (D, 193) each; rows of `weights` sum to 1. What a row does not need has no weight.

    Raises
    ------
    ParameterError
        A value is outside [0, 1] or NaN, or the shapes do not fit.

    References
    ----------
    H. Takahasi and M. Mori, *Double exponential formulas for numerical integration*, Publ. RIMS 9 (1974) 721-741.
    """
    from scipy.special import betaln, log_expit

    m, r = check_probability("mean", mean), check_probability("rho", rho)
    shape = check_shapes(mean=m, rho=r)
    m, r = (np.broadcast_to(it, shape).ravel() for it in (m, r))
    logits = np.tile(0.5 * np.pi * np.sinh(GRID), (m.size, 1))
    weights = np.zeros(logits.shape)
    is_wide = (r > NEARLY_ALIKE) & (r < 1.0 - NEARLY) & (m > NEARLY) & (m < 1.0 - NEARLY)
    x, size = logits[is_wide], (1.0 / r[is_wide] - 1.0)[:, None]
    a, b = m[is_wide, None] * size, (1.0 - m[is_wide, None]) * size
    scale = betaln(a, b)
    spread = np.exp(a * log_expit(x) + b * log_expit(-x) - scale + np.log(0.5 * np.pi * STEP * np.cosh(GRID)))
    for end, tail in ((0, a), (-1, b)):
        beyond = np.exp(-tail * 0.5 * np.pi * np.sinh(TAIL) - scale + np.log(0.5 * np.pi * STEP * np.cosh(TAIL)))
        spread[:, end] += beyond.sum(axis=1)
    weights[is_wide] = spread / spread.sum(axis=1, keepdims=True)
    success, shares = beta_nodes(m[~is_wide], r[~is_wide], N_GAUSS)
    with np.errstate(divide="ignore"):
        logits[~is_wide, :N_GAUSS] = np.log(success) - np.log1p(-success)
    weights[~is_wide, :N_GAUSS] = shares
    return logits, weights


def _gauss(a: FloatArray, b: FloatArray, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights (n, J) from the eigenvectors of the recurrence of Jacobi polynomials on [0, 1]."""
    k = np.arange(1.0, n_nodes)
    both = (a + b)[:, None] + 2.0 * k - 2.0
    recurrence = np.zeros((len(a), n_nodes, n_nodes))
    places = np.arange(n_nodes)
    difference = (a - b)[:, None]
    recurrence[:, 0, 0] = a / (a + b)
    middle = difference * ((a + b)[:, None] - 2.0) / (both * (both + 2.0))
    recurrence[:, places[1:], places[1:]] = 0.5 * (1.0 + middle)
    # k = 1 by itself: its general form is 0/0 at a + b = 1
    squared = np.empty((len(a), n_nodes - 1))
    squared[:, 0] = a * b / ((a + b) ** 2 * (a + b + 1.0))
    rest, total = k[1:], both[:, 1:]
    up = rest * (rest + b[:, None] - 1.0) * (rest + a[:, None] - 1.0) * (rest + (a + b)[:, None] - 2.0)
    squared[:, 1:] = up / (total**2 * (total + 1.0) * (total - 1.0))
    recurrence[:, places[1:], places[:-1]] = np.sqrt(squared)
    nodes, vectors = np.linalg.eigh(recurrence)
    return np.clip(nodes, 0.0, 1.0), vectors[:, 0, :] ** 2

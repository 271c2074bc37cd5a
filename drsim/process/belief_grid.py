r"""Beliefs about the live state of a run, on a grid that covers all of them.

A belief π lies in the simplex over S live states. With :math:`x_k = m \sum_{i \ge k} \pi_i` for the modes
k = 1 … K, the points whose x are whole numbers are the grid of resolution m: for one mode m + 1 evenly spaced
probabilities of being off track. Freudenthal's triangulation cuts the simplex into cells with K + 1 corners each, and a
function is interpolated linearly between the corners of the cell that holds π. A convex function lies below its
interpolant, so a value that is worked out on the grid is never too low (Lovejoy 1991).

A score moves a belief; `expected` gives the matrix that takes a function on the grid to its mean over the next score.
For one mode the mean of the interpolant is known in closed form: :math:`\int f(z)\, b''(z)\,dz` over the scores that
lead into a cell is P(off) times the mass of the off-track density there. For more modes it is taken by Gauss–Hermite
nodes, each state's density by its own.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from scipy.special import logit, ndtr

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.process.quadrature import shift_nodes

__all__ = ["N_NODES", "BeliefGrid", "Places", "belief_grid", "expected", "off_points", "posterior"]

N_NODES = 129
"""Gauss–Hermite nodes for the score of one state, where there are several modes."""
TELLS_NOTHING = 1e-9
"""Means that are closer than this, in spreads, move no belief by more than half of it a standard score."""
MOST_MODES = 8
"""The table of corners grows as (m + 2)^K."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where n beliefs lie on a grid."""

    corners: IntArray
    """(n, S) points of the grid at the corners of the cell."""
    weights: FloatArray
    """(n, S) ≥ 0, rows sum to 1."""

    def of(self, values: FloatArray) -> FloatArray:
        """Interpolate values (…, G) to (…, n)."""
        found: FloatArray = values[..., self.corners[:, 0]] * self.weights[:, 0]
        for k in range(1, self.corners.shape[1]):
            found += values[..., self.corners[:, k]] * self.weights[:, k]
        return found

    def matrix(self, n_points: int) -> FloatArray:
        """(n, G) matrix of the interpolation."""
        rows = np.zeros((len(self.corners), n_points))
        np.add.at(rows, (np.arange(len(rows))[:, None], self.corners), self.weights)
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefGrid:
    """All points of one resolution."""

    resolution: int
    """m ≥ 1."""
    points: FloatArray
    """(G, S) beliefs; for one mode in increasing P(off track)."""
    index: IntArray
    """(m + 2, …) point by its whole-numbered x, one axis a mode; 0 where there is none."""

    @property
    def n_points(self) -> int:
        """G."""
        return len(self.points)

    def places(self, beliefs: FloatArray) -> Places:
        """Cells and weights of beliefs (n, S), rows with sum 1."""
        m = self.resolution
        upto = np.cumsum(beliefs[:, :0:-1], axis=1)[:, ::-1]
        x = np.minimum.accumulate(np.clip(m * upto, 0.0, m), axis=1)
        base = np.floor(x).astype(np.int64)
        rest = x - base
        # ties go to the earlier mode, so that every corner with a positive weight is a point of the grid
        order = np.argsort(-rest, axis=1, kind="stable")
        n, n_modes = x.shape
        corners = np.empty((n, n_modes + 1), dtype=np.int64)
        weights = np.empty((n, n_modes + 1))
        falling = np.take_along_axis(rest, order, axis=1)
        weights[:, 0] = 1.0 - falling[:, 0]
        weights[:, 1:-1] = falling[:, :-1] - falling[:, 1:]
        weights[:, -1] = falling[:, -1]
        corner = base.copy()
        corners[:, 0] = self.index[tuple(corner.T)]
        rows = np.arange(n)
        for k in range(n_modes):
            corner[rows, order[:, k]] += 1
            corners[:, k + 1] = self.index[tuple(corner.T)]
        return Places(corners=corners, weights=weights)


def belief_grid(n_states: int, n_points: int) -> BeliefGrid:
    """The finest grid with at most so many points.

    Parameters
    ----------
    n_states : int
        S ≥ 2 live states.
    n_points : int
        At least S, which is the coarsest grid: the corners of the simplex.

    Returns
    -------
    BeliefGrid
        Exactly `n_points` for one mode.

    Raises
    ------
    ParameterError
        Too few points, or more than eight modes.
    """
    n_modes = n_states - 1
    if n_modes > MOST_MODES:
        raise ParameterError(f"modes must be at most {MOST_MODES} for a belief programme, got {n_modes}; merge some")
    if n_points < n_states:
        raise ParameterError(
            f"grid must hold at least the {n_states} corners of the simplex, got {n_points}; take 1001"
        )
    m = 1
    while comb(m + 1 + n_modes, n_modes) <= n_points:
        m += 1
    x = np.array([it[::-1] for it in combinations_with_replacement(range(m + 1), n_modes)], dtype=np.int64)
    index = np.zeros((m + 2,) * n_modes, dtype=np.int64)
    index[tuple(x.T)] = np.arange(len(x))
    edges = np.hstack([np.full((len(x), 1), m), x, np.zeros((len(x), 1), dtype=np.int64)])
    return BeliefGrid(resolution=m, points=-np.diff(edges, axis=1) / m, index=index)


def off_points(off: FloatArray, mix: FloatArray) -> FloatArray:
    """Beliefs (n, S) with given P(off track) (n,), whose modes are mixed as `mix` (K,)."""
    return np.hstack([1.0 - off[:, None], off[:, None] * mix])


def posterior(beliefs: FloatArray, scores: FloatArray, mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Beliefs after a score.

    Parameters
    ----------
    beliefs : ndarray
        (n, S), rows with sum 1.
    scores : ndarray
        (n, q) raw logit scores, or (1, q) for all alike.
    mean, sd : ndarray
        (S,) of the score by state.

    Returns
    -------
    ndarray
        (n, q, S).
    """
    log_density = -0.5 * ((scores[..., None] - mean) / sd) ** 2 - np.log(sd)
    with np.errstate(divide="ignore"):
        log_weight = np.log(beliefs)[:, None, :] + log_density
    weight: FloatArray = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def expected(
    grid: BeliefGrid, beliefs: FloatArray, mean: FloatArray, sd: FloatArray, n_nodes: int = N_NODES
) -> FloatArray:
    """Matrix from values on the grid to their mean over the next score.

    Parameters
    ----------
    grid : BeliefGrid
        G points.
    beliefs : ndarray
        (n, S) before the score.
    mean, sd : ndarray
        (S,) of the score by state.
    n_nodes : int
        Gauss–Hermite nodes by state; not used for one mode, where the mean is exact.

    Returns
    -------
    ndarray
        (n, G) ≥ 0 up to rounding; rows sum to 1 and keep the mean belief.
    """
    if len(mean) == 2:
        return _exactly(grid, beliefs[:, 1], mean, sd)
    nodes, weights = shift_nodes(n_nodes)
    rows = np.zeros((len(beliefs), grid.n_points))
    which = np.repeat(np.arange(len(beliefs)), n_nodes)
    for x in range(len(mean)):
        after = posterior(beliefs, (mean[x] + sd[x] * nodes)[None], mean, sd)
        places = grid.places(after.reshape(-1, len(mean)))
        mass = (beliefs[:, x, None] * weights).reshape(-1, 1) * places.weights
        np.add.at(rows, (which[:, None], places.corners), mass)
    return rows


def _exactly(grid: BeliefGrid, off: FloatArray, mean: FloatArray, sd: FloatArray) -> FloatArray:
    """`expected` for one mode; `off` (n,)."""
    if sd[0] == sd[1] and abs(mean[1] - mean[0]) < TELLS_NOTHING * sd[0]:
        return grid.places(off_points(off, np.ones(1))).matrix(grid.n_points)
    points = grid.points[:, 1]
    # a score takes the belief to b or below where its log likelihood ratio is at most this
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = logit(points)[None] - logit(off)[:, None]
    on_below, off_below = (_ratio_below(cut, x, mean, sd) for x in (0, 1))
    of_off = off[:, None] * np.diff(off_below, axis=1)
    mass = (1.0 - off)[:, None] * np.diff(on_below, axis=1) + of_off
    rows = np.zeros((len(off), grid.n_points))
    rows[:, :-1] = grid.resolution * (points[1:] * mass - of_off)
    rows[:, 1:] += grid.resolution * (of_off - points[:-1] * mass)
    is_sure = (off <= 0.0) | (off >= 1.0)
    rows[is_sure] = 0.0
    rows[is_sure, np.where(off[is_sure] >= 1.0, -1, 0)] = 1.0
    return rows


def _ratio_below(cut: FloatArray, x: int, mean: FloatArray, sd: FloatArray) -> FloatArray:
    r"""P(ln N(z; off) − ln N(z; on) ≤ cut) for a score z of state x."""
    if sd[0] == sd[1]:
        # the ratio is linear in the score, with spread δ and mean ±δ²/2
        delta = (mean[1] - mean[0]) / sd[0]
        middle = 0.5 * delta**2 * (1.0 if x else -1.0)
        below: FloatArray = ndtr((cut - middle) / abs(delta))
        return below
    # in units of state x: a y² + 2 b y + c of a standard normal y
    z0, scale = mean[x], sd[x]
    a = 0.5 * scale**2 * (sd[0] ** -2 - sd[1] ** -2)
    b = 0.5 * scale * ((z0 - mean[0]) / sd[0] ** 2 - (z0 - mean[1]) / sd[1] ** 2)
    c = 0.5 * (((z0 - mean[0]) / sd[0]) ** 2 - ((z0 - mean[1]) / sd[1]) ** 2) + np.log(sd[0] / sd[1])
    square = np.maximum(0.0, b**2 - a * (c - cut))
    with np.errstate(invalid="ignore"):
        low, high = (-b - np.sqrt(square)) / abs(a), (-b + np.sqrt(square)) / abs(a)
    if a > 0.0:
        inside: FloatArray = ndtr(high) - ndtr(low)
        return inside
    low, high = (b - np.sqrt(square)) / abs(a), (b + np.sqrt(square)) / abs(a)
    outside: FloatArray = ndtr(low) + ndtr(-high)
    return np.where(square > 0.0, outside, 1.0)

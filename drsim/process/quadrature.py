r"""Mean over the run-level shift u ~ N(0, ω²) by Gauss–Hermite nodes, doubled until two answers agree.

.. math:: E[f(u)] \approx \sum_i w_i\, f(\omega x_i)

As a function of u a firing probability is a step of width σ. Near 0 the nodes lie ω π/√(2n) apart; nodes wider apart
than σ can agree with twice as many and both be wrong, so the doubling starts where they are not. The numbers of nodes
are odd, since even ones all leave out u = 0 and then agree on any step there.
"""

from collections.abc import Callable
from math import ceil, pi

import numpy as np
from scipy.special import roots_hermitenorm

from drsim.arrays import FloatArray
from drsim.errors import ConvergenceError

__all__ = ["converged", "mean_over_shift", "shift_nodes"]

FEWEST_NODES = 21
N_DOUBLINGS = 7
"""2815 nodes at most: ω up to about 5 σ; a run-level shift that wide leaves the score of a step nothing to say."""
TOLERANCE = 1e-10
"""Between an answer and the one on half as many nodes, relative where the value is above 1."""
CHUNK = 256
"""Nodes at a time, so that memory does not grow with the number of nodes."""


def shift_nodes(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for a standard normal.

    Parameters
    ----------
    n_nodes : int
        At least 1.

    Returns
    -------
    nodes, weights : ndarray
        (n_nodes,) each; the weights sum to 1.
    """
    nodes, weights = roots_hermitenorm(n_nodes)
    return nodes, weights / weights.sum()


def converged(mean_on: Callable[[int], FloatArray], ratio: float) -> tuple[FloatArray, int]:
    """The mean on enough nodes.

    Parameters
    ----------
    mean_on : callable
        From a number of nodes to the means, of any shape.
    ratio : float
        ω/σ ≥ 0, the widest shift against the narrowest score; 0 takes the one node that there is.

    Returns
    -------
    mean : ndarray
        As `mean_on` gives it.
    n_nodes : int
        Nodes that it took.

    Raises
    ------
    ConvergenceError
        The most nodes allowed are not enough.
    """
    if ratio == 0.0:
        return mean_on(1), 1
    last = None
    n_nodes = FEWEST_NODES
    for _ in range(N_DOUBLINGS + 1):
        if ratio * pi <= (2 * n_nodes) ** 0.5:
            now = mean_on(n_nodes)
            if last is not None and np.all(np.abs(now - last) <= TOLERANCE * np.maximum(1.0, np.abs(now))):
                return now, n_nodes
            last = now
        n_nodes = 2 * n_nodes + 1
    raise ConvergenceError(
        f"run_sd is {ratio:.4g} times the spread of the score, too wide for {n_nodes // 2} Gauss-Hermite nodes "
        f"to reach {TOLERANCE:g}; give a smaller run_sd or a larger sigma"
    )


def mean_over_shift(
    values: Callable[[FloatArray], FloatArray], run_sd: float, score_sd: FloatArray
) -> tuple[FloatArray, int]:
    """Mean of `values` over the run-level shift.

    Parameters
    ----------
    values : callable
        From shifts (N,) to values (N, Q).
    run_sd : float
        ω ≥ 0.
    score_sd : ndarray
        (S,) spread of the score by state.

    Returns
    -------
    mean : ndarray
        (Q,).
    n_nodes : int
        Nodes that it took; 1 where ω = 0.

    Raises
    ------
    ConvergenceError
        The most nodes allowed are not enough.
    """

    def mean_on(n_nodes: int) -> FloatArray:
        nodes, weights = shift_nodes(n_nodes)
        chunks = np.array_split(run_sd * nodes, ceil(n_nodes / CHUNK))
        mean: FloatArray = weights @ np.concatenate([values(chunk) for chunk in chunks])
        return mean

    return converged(mean_on, run_sd / float(score_sd.min()))

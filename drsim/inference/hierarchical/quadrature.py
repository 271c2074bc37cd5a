r"""Nodes for averages over a standard normal: the trapezoidal rule, as fine as the integrand asks.

A success rate expit(a + σu) has poles at distance π/σ from the real line, where the error of the rule with step h is
about exp(−2π²/(σh)); a binomial likelihood of n runs is a bump of width ≥ 2/(σ√n), where it is about
exp(−2π²(2/(σh√n))²). So h goes down with σ, by halves. Gauss–Hermite nodes, the usual choice, lie further apart for
the same number and do worse for σ > 2.
"""

import numba
import numpy as np

from drsim.arrays import FloatArray

__all__ = [
    "EFFECT_REACH",
    "TASK_REACH",
    "count_nodes",
    "effect_nodes",
    "fill_rule",
    "normal_rule",
    "task_nodes",
]

TASK_NODES, TASK_REACH = 41, 5.0
"""h = 0.25; 6e-7 of a standard normal lies beyond 5."""
EFFECT_NODES, EFFECT_REACH = 17, 4.5
"""h = 0.56; 7e-6 lies beyond 4.5, and what depends on w is averaged over the tasks once again."""
COARSEST = 1.6
"""Largest σh: a relative error of 4e-6."""
MOST_NODES = 641
"""For σ up to 100, where an intraclass correlation is .98."""


@numba.njit(cache=True)
def count_nodes(base: int, reach: float, spread: float) -> int:
    """Nodes on [−reach, reach] for a logistic curve in spread·u: `base`, with halved steps as often as needed."""
    n = base
    while spread * 2 * reach / (n - 1) > COARSEST and n < MOST_NODES:
        n = 2 * n - 1
    return n


@numba.njit(cache=True)
def fill_rule(reach: float, nodes: FloatArray, log_weights: FloatArray) -> None:
    """Fill equidistant nodes on [−reach, reach] and the logs of normalised normal weights."""
    n = len(nodes)
    total = 0.0
    for i in range(n):
        nodes[i] = reach * (2 * i / (n - 1) - 1)
        log_weights[i] = -0.5 * nodes[i] * nodes[i]
        total += np.exp(log_weights[i])
    for i in range(n):
        log_weights[i] -= np.log(total)


def normal_rule(n_nodes: int, reach: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and log weights in plain NumPy."""
    nodes = np.linspace(-reach, reach, n_nodes)
    log_weights = -0.5 * nodes**2
    return nodes, log_weights - np.log(np.exp(log_weights).sum())


def _n_nodes(base: int, most_runs: int) -> int:
    """`base` up to four runs a task, then as the root of their number; odd, so that 0 is a node."""
    return 2 * int(base * max(1.0, most_runs / 4) ** 0.5 / 2) + 1


def task_nodes(most_runs: int) -> int:
    """Fewest nodes for u, the place of a task among the tasks."""
    return _n_nodes(TASK_NODES, most_runs)


def effect_nodes(most_runs: int) -> int:
    """Fewest nodes for w, what an intervention does to one task more than to others."""
    return _n_nodes(EFFECT_NODES, most_runs)

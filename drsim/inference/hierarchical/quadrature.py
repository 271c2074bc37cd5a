r"""Nodes for averages over a standard normal: the trapezoidal rule.

A success rate expit(a + σu) has poles at distance π/σ from the real line, where the error of the rule with step h is
about exp(−2π²/(σh)); a binomial likelihood of n runs is a bump of width ≥ 2/(σ√n), where it is about
exp(−2π²(2/(σh√n))²). Gauss–Hermite nodes, the usual choice, lie further apart for the same number and do worse for σ > 2.
"""

from functools import lru_cache

import numpy as np

from drsim.arrays import FloatArray

__all__ = ["Rule", "effect_rule", "normal_rule", "task_rule"]

type Rule = tuple[FloatArray, FloatArray]
"""Nodes and the logs of their weights."""

TASK_NODES, TASK_REACH = 41, 5.0
"""h = 0.25: relative error below 1e-4 up to σ = 8 with four runs a task."""
EFFECT_NODES, EFFECT_REACH = 15, 4.0
"""h = 0.57: the same up to a spread of 3.5."""
MOST_NODES = 161
"""Enough for 64 runs a task."""


@lru_cache(maxsize=64)
def normal_rule(n_nodes: int, reach: float) -> Rule:
    """Equidistant nodes on [−reach, reach] with the log of normalised normal weights."""
    nodes = np.linspace(-reach, reach, n_nodes)
    log_weights = -0.5 * nodes**2
    log_weights -= np.log(np.exp(log_weights).sum())
    nodes.setflags(write=False)
    log_weights.setflags(write=False)
    return nodes, log_weights


def _n_nodes(base: int, most_runs: int) -> int:
    """`base` up to four runs a task, then as the root of their number; odd, so that 0 is a node."""
    return min(MOST_NODES, 2 * round(base * max(1.0, most_runs / 4) ** 0.5 / 2 - 0.5) + 1)


def task_rule(most_runs: int) -> Rule:
    """Rule for u, the place of a task among the tasks."""
    return normal_rule(_n_nodes(TASK_NODES, most_runs), TASK_REACH)


def effect_rule(most_runs: int) -> Rule:
    """Rule for w, what an intervention does to one task more than to others."""
    return normal_rule(_n_nodes(EFFECT_NODES, most_runs), EFFECT_REACH)

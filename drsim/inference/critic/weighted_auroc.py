r"""AUROC under many drawn task weights at once.

Resampled tasks alone give a near-perfect critic on few tasks far too short an interval, and a perfect one none at all.
So half a task of the scarcer end is added that outscores the whole other end, and half a task that it outscores: with
m the weight of the scarcer end, the AUROC of a draw becomes :math:`(m\,a + g_1)/(m + g_1 + g_2)`, g ~ Gamma(½).
"""

from collections.abc import Sequence

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.inference.critic.scores import ScoredItems
from drsim.inference.critic.task_weights import TaskWeights
from drsim.theory.domain import ratio

__all__ = ["auroc_draws", "concordance"]

ORDER_STREAM = 7
"""Stream of the prior's weights."""


def auroc_draws(parts: Sequence[ScoredItems], weights: TaskWeights) -> FloatArray:
    """Posterior of the AUROC over pairs of items of one part.

    Parameters
    ----------
    parts : sequence of ScoredItems
        Runs or steps; no pair is formed across parts. At least one part has both ends.
    weights : TaskWeights
        Draws over the tasks that the items name.

    Returns
    -------
    FloatArray
        (n_draws,) in [0, 1].
    """
    concordant, pairs, scarcer = np.sum([concordance(part, weights) for part in parts], axis=0)
    above, below = weights.prior(2, ORDER_STREAM).T * _scarcer_per_task(parts)
    draws: FloatArray = (scarcer * ratio(concordant, pairs) + above) / (scarcer + above + below)
    return draws


def concordance(items: ScoredItems, weights: TaskWeights) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Weight of the pairs that a score orders rightly, ties counted half, of all pairs, and of the scarcer end.

    .. math:: \sum_{f}\sum_{s} w_f w_s \left[1(x_f > x_s) + \tfrac12 1(x_f = x_s)\right]

    Sorted once, every draw takes O(n): the successes' weights are summed up in order of score, and each failing item
    looks up the sums on both sides of its ties.

    Parameters
    ----------
    items : ScoredItems
        n runs or steps.
    weights : TaskWeights
        Draws over the tasks that the items name.

    Returns
    -------
    concordant, pairs, scarcer : FloatArray
        (n_draws,) each; the last is the weight of the failing or of the succeeding items, whichever is less.

    References
    ----------
    Hanley and McNeil, Radiology 143 (1982) 29–36, with a weight for each run; THEORY section 3.
    """
    order = np.argsort(items.scores, kind="stable")
    scores, failed, task = items.scores[order], items.failed[order], items.task[order]
    successes = scores[~failed]
    below = np.searchsorted(successes, scores[failed], side="left")
    up_to = np.searchsorted(successes, scores[failed], side="right")
    concordant, fails, succeeds = (np.empty(weights.n_draws) for _ in range(3))
    for rows, drawn in weights.chunks(len(scores)):
        mass = _cumulated(drawn, task[~failed])
        failing = drawn[:, task[failed]]
        concordant[rows] = 0.5 * (failing * (mass[:, below] + mass[:, up_to])).sum(axis=1)
        fails[rows], succeeds[rows] = failing.sum(axis=1), mass[:, -1]
    return concordant, fails * succeeds, np.minimum(fails, succeeds)


def _scarcer_per_task(parts: Sequence[ScoredItems]) -> float:
    """Items of the scarcer end of a task that has any: what a task of that end is worth."""
    failed, task = (np.concatenate([getattr(part, name) for part in parts]) for name in ("failed", "task"))
    scarcer = failed if 2 * np.count_nonzero(failed) <= len(failed) else ~failed
    return float(np.count_nonzero(scarcer) / len(np.unique(task[scarcer])))


def _cumulated(drawn: FloatArray, task: IntArray) -> FloatArray:
    """(n_draws, n + 1) weights of the first 0 … n items."""
    mass = np.zeros((len(drawn), len(task) + 1))
    np.cumsum(drawn[:, task], axis=1, out=mass[:, 1:])
    return mass

r"""A lower bound for the belief programme: what one policy is worth that is written down point by point.

A plane over beliefs, :math:`\alpha \cdot \pi`, is the value of a policy that does the same whatever the belief. From
the last step back each point of a grid gets one plane for each budget and cooldown left (point-based value iteration).
After the act each bin of scores leads to a belief; there the best is taken among waiting and each mechanism, along the
planes at the corners of the cell that holds the belief after it. The chances of the bins are normal tails, so that the
plane is exactly what that policy is worth from its point on: no quadrature and no interpolation is in it, and the best
plane at the start is a bound however coarse grid and bins are.
"""

import numpy as np
from scipy.special import ndtr

from drsim.arrays import FloatArray, IntArray
from drsim.process.belief_grid import BeliefGrid, belief_grid
from drsim.process.belief_programme import check_sufficient
from drsim.process.compile import CompiledModel
from drsim.process.terms import Terms, check_terms, open_steps, usable_budget, usable_cooldown, usable_mechanisms

__all__ = ["N_BINS", "N_LOWER_POINTS", "lower_bound"]

N_LOWER_POINTS = 301
"""On a model with two modes the bound is within 1e-4 of that with 1001 points, in a quarter of the time."""

N_BINS = 96
"""Bins of scores; finer ones lose less of what a score says."""
REACH = 5.0


def lower_bound(model: CompiledModel, terms: Terms, *, n_points: int = N_LOWER_POINTS, n_bins: int = N_BINS) -> float:
    """What some policy on beliefs is worth.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states; without run-level shift, tasks alike.
    terms : Terms
        Of the same model.
    n_points : int
        Most points of the grid.
    n_bins : int
        Bins of scores.

    Returns
    -------
    float
        P(success) less prices, at most that of the best policy.

    Raises
    ------
    ParameterError
        The belief about the state does not say all, or the terms are not of this model.

    References
    ----------
    THEORY section 5.
    """
    check_sufficient(model)
    check_terms(model, terms)
    return _Planes(model, terms, belief_grid(len(model.start), n_points), n_bins).solve()


class _Planes:
    """The backward pass."""

    def __init__(self, model: CompiledModel, terms: Terms, grid: BeliefGrid, n_bins: int) -> None:
        self.model, self.terms, self.grid = model, terms, grid
        self.horizon, self.n_states = model.transitions.shape[:2]
        self.budget, self.cooldown = usable_budget(model, terms), usable_cooldown(model, terms)
        self.mechanisms = usable_mechanisms(model, terms)
        self.extra = np.minimum(model.extra_steps, self.horizon)
        self.is_open = open_steps(model, terms)
        low, high = (float(it) for it in (model.score_mean.min(), model.score_mean.max()))
        spread = REACH * float(model.score_sd.max())
        edges = np.concatenate([[-np.inf], np.linspace(low - spread, high + spread, n_bins - 1), [np.inf]])
        # chances of the bins by state; the other tail of the normal is finer far above the mean
        standard = (edges[:, None] - model.score_mean) / model.score_sd
        below, above = np.diff(ndtr(standard), axis=0), -np.diff(ndtr(-standard), axis=0)
        self.bins = np.where(standard[:-1] > 0.0, above, below)

    def solve(self) -> float:
        """The best plane at the start belief."""
        points = np.vstack([self.grid.points, self.model.start])
        end = np.zeros((self.budget + 1, self.cooldown + 1, self.grid.n_points, self.n_states))
        ahead = [end] * (int(self.extra[list(self.mechanisms)].max(initial=0)) + 1)
        for t in reversed(range(self.horizon)):
            begun = self._backup(t, points, ahead)
            ahead = [begun[:, :, :-1], *ahead[:-1]]
        best: float = float((begun[self.budget, 0] @ self.model.start).max())
        return best

    def _backup(self, t: int, points: FloatArray, ahead: list[FloatArray]) -> FloatArray:
        """Planes (B + 1, C + 1, n, S) of runs about to act in step t, one for each of n beliefs."""
        moves = self.model.transitions[t]
        live = points @ moves[:, : self.n_states]
        # (n, bins, S): chance of a bin with each state; beliefs where that is possible at all
        joint = live[:, None, :] * self.bins
        total = joint.sum(axis=2, keepdims=True)
        belief = np.where(total > 0.0, joint, 1.0)
        belief /= belief.sum(axis=2, keepdims=True)
        unmoved = self._corners(belief)
        moved = [self._corners(belief @ self.model.kernels[m, t]) for m in self.mechanisms]
        planes = np.empty((self.budget + 1, self.cooldown + 1, len(points), self.n_states))
        for b in range(self.budget + 1):
            for c in range(self.cooldown + 1):
                options = [(ahead[0][b, max(c - 1, 0)], unmoved)]
                if b > 0 and c == 0 and self.is_open[t]:
                    options += [
                        (self._intervene(t, m, ahead[self.extra[m]][b - 1, self.cooldown]), corners)
                        for m, corners in zip(self.mechanisms, moved, strict=True)
                    ]
                # without budget there is nothing to decide, and so nothing to pay for
                planes[b, c] = self._scored(belief, options) - (self.terms.critic_price if b else 0.0)
        through: FloatArray = planes @ moves[:, : self.n_states].T
        through += moves[:, self.n_states]
        return through

    def _corners(self, belief: FloatArray) -> IntArray:
        """(n, bins, S) points at the corners of the cells of beliefs (n, bins, S)."""
        return self.grid.places(belief.reshape(-1, self.n_states)).corners.reshape(belief.shape)

    def _intervene(self, t: int, m: int, then: FloatArray) -> FloatArray:
        """Planes (G, S) of an intervention that is followed by planes (G, S)."""
        planes: FloatArray = then @ self.model.kernels[m, t].T - self.terms.intervention_price
        return planes

    def _scored(self, belief: FloatArray, options: list[tuple[FloatArray, IntArray]]) -> FloatArray:
        """Planes (n, S) before the score, of taking in each bin the best of the options' planes at their corners."""
        best, chosen = np.full(belief.shape[:2], -np.inf), np.zeros_like(belief)
        for planes, corners in options:
            for k in range(self.n_states):
                plane = planes[corners[..., k]]
                value = (plane * belief).sum(axis=2)
                better = value > best
                best = np.where(better, value, best)
                chosen[better] = plane[better]
        scored: FloatArray = (chosen * self.bins).sum(axis=1)
        return scored

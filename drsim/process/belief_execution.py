r"""What a belief policy is worth where the filter takes one model for the truth and runs follow another.

The policy of a programme is run as it stands: its filter moves the belief π by the programme's model, and its actions
are those of the nearest point of the grid. A run moves by the world's own acts, kernels and scores, so that its value
depends on the state x besides:

.. math::

    W_t(B, c, x, \pi) &= s_t(x) + \sum_y P_t(x, y)\, E_{z \mid y}[D_t(B, c, y, (\pi \hat P_t)^z)] \\
    D_t(B, 0, x, \pi) &= \sum_y K_{m,t}(x, y)\, W_{t+1+x_m}(B - 1, C, y, \pi \hat K_{m,t}) - \kappa

where the policy takes mechanism m at π, and as in a cooldown where it waits; hats mark the programme's model. In a
world that is that model the value is the programme's. Values are linear between points of the grid, which is no bound
here. They jump where the policy changes its mind, so that means over scores are taken on many equal steps:
Gauss–Hermite nodes would miss the jumps.
"""

import numpy as np
from scipy.special import ndtr

from drsim.arrays import FloatArray
from drsim.process.belief_grid import Places, posterior
from drsim.process.belief_programme import WAIT, Programme, add_product, check_sufficient, predicted
from drsim.process.compile import CompiledModel
from drsim.process.threshold_ascent import Worlds

__all__ = ["run_in_worlds"]

N_SCORES = 601
"""Equal steps of the score of one state; twice as many move values of shipped models by less than 1e-5."""
REACH = 6.0
"""In spreads of the score."""


def run_in_worlds(model: CompiledModel, programme: Programme, worlds: Worlds) -> FloatArray:
    """Value of a programme's policy in each of several worlds.

    Parameters
    ----------
    model : CompiledModel
        For which the programme was solved: what the filter takes for the truth.
    programme : Programme
        Its policy.
    worlds : Worlds
        N worlds of the same shapes, from `worlds_of`.

    Returns
    -------
    ndarray
        (N,) P(success) less prices.

    Raises
    ------
    ParameterError
        The filter's model is not one that a belief about the state sums up.
    """
    check_sufficient(model)
    execution = _Execution(model, programme)
    values = np.empty(len(worlds.weight))
    # worlds with the same scores one after another, since they share tables
    for i in np.lexsort((*worlds.mean.T, *worlds.sd.T)):
        values[i] = execution.value(worlds, i)
    return values


class _Execution:
    """What all worlds share: where the filter goes, and what the policy does there."""

    def __init__(self, model: CompiledModel, programme: Programme) -> None:
        self.model, self.programme = model, programme
        self.grid, self.terms = programme.grid, programme.terms
        self.horizon, self.n_states = model.transitions.shape[:2]
        self.budget = programme.budget
        self.cooldown = programme.is_scored.shape[1] - 1
        self.extra = np.minimum(model.extra_steps, self.horizon)
        points = self.grid.points
        self.acted = [predicted(self.grid, points, it)[1] for it in model.transitions]
        self.moved = [[self.grid.places(points @ it) for it in kernel] for kernel in model.kernels]
        self.start = self.grid.places(model.start[None])
        # the table of means over scores is kept as long as worlds have the same scores
        self.scores: tuple[FloatArray, FloatArray] | None = None
        self.table: list[FloatArray] = []

    def value(self, worlds: Worlds, i: int) -> float:
        """Of one world."""
        self._prepare(worlds.mean[i], worlds.sd[i])
        size = (self.n_states, self.budget + 1, self.cooldown + 1, self.grid.n_points)
        ahead = [np.zeros(size)] * (int(self.extra.max(initial=0)) + 1)
        for t in reversed(range(self.horizon)):
            after = self._scored(t, self._decided(t, ahead, worlds.kernels[i]))
            acts = worlds.transitions[i, t]
            then = np.tensordot(acts[:, : self.n_states], self.acted[t].of(after), axes=1)
            then += acts[:, self.n_states, None, None, None]
            ahead = [then, *ahead[:-1]]
        begun = self.start.of(ahead[0][:, self.budget, 0])[:, 0]
        return float(worlds.start[i] @ begun)

    def _prepare(self, mean: FloatArray, sd: FloatArray) -> None:
        """Tables of means over the score of each state of a world, which the filter reads in its own way."""
        if self.scores is not None and np.array_equal(self.scores[0], mean) and np.array_equal(self.scores[1], sd):
            return
        edges = np.linspace(-REACH, REACH, N_SCORES + 1)
        weights = np.diff(ndtr(edges)) / (1.0 - 2.0 * ndtr(-REACH))
        nodes = 0.5 * (edges[1:] + edges[:-1])
        points, n = self.grid.points, self.grid.n_points
        which = np.repeat(np.arange(n), N_SCORES)[:, None]
        self.table = []
        for x in range(self.n_states):
            after = posterior(points, (mean[x] + sd[x] * nodes)[None], self.model.score_mean, self.model.score_sd)
            places = self.grid.places(after.reshape(-1, self.n_states))
            table = np.zeros((n, n))
            np.add.at(table, (places.corners, which), np.tile(weights, n)[:, None] * places.weights)
            self.table.append(table)
        self.scores = (mean, sd)

    def _decided(self, t: int, ahead: list[FloatArray], kernels: FloatArray) -> FloatArray:
        """Values (S, B + 1, C + 1, G) of a run whose step has been scored."""
        decided = ahead[0][:, :, np.maximum(np.arange(self.cooldown + 1) - 1, 0)]
        action = self.programme.action[:, t]
        for m in np.unique(action[action != WAIT]):
            decided[:, 1:, 0] = np.where(action == m, self._moved(t, m, ahead, kernels), decided[:, 1:, 0])
        return decided

    def _moved(self, t: int, m: int, ahead: list[FloatArray], kernels: FloatArray) -> FloatArray:
        """Values (S, B, G) of an intervention by mechanism m."""
        places: Places = self.moved[m][t]
        then = places.of(ahead[self.extra[m]][:, :-1, self.cooldown])
        moved: FloatArray = np.tensordot(kernels[m, t], then, axes=1) - self.terms.intervention_price
        return moved

    def _scored(self, t: int, decided: FloatArray) -> FloatArray:
        """Values (S, B + 1, C + 1, G) of a live run in its new state, before it is scored or not."""
        scored = decided.copy()
        for x in range(self.n_states):
            flat = np.ascontiguousarray(decided[x, 1:].reshape(-1, self.grid.n_points))
            mean = np.zeros_like(flat)
            add_product(flat, self.table[x], mean)
            scored[x, 1:] = mean.reshape(decided[x, 1:].shape) - self.terms.critic_price
        is_scored = self.programme.is_scored[:, :, t]
        scored[:, 1:] = np.where(is_scored, scored[:, 1:], decided[:, 1:])
        return scored

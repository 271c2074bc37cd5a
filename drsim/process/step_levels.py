r"""Recover and disrupt of a mechanism at every step, from r(t) and d(t) by the step of the first intervention.

With m the probability of a first firing after step t in state x, V the success of the run that goes on alone and W that
of the run that is intervened in, pairs that share their prefix (`drsim.process.flips`) have

.. math::

    \sum m V W = (1 - d(t)) \sum m V, \qquad \sum m (1 - V) W = r(t) \sum m (1 - V),

and W is linear in what the intervention does there,

.. math:: W_{on} = J_{on} - disrupt\,(J_{on} - \bar J_{off}), \qquad W_k = J_k + recover_k\,(J_{on} - J_k),

with J the success of a run that goes on under the policy with one intervention less. J depends on later steps only, and
m and V on no intervention at all. So two linear equations a step, from the horizon back, give both levels; where there
are several modes their recovers keep the proportions that they have in the model.

Runs that are not forked tell only how often they succeed by the step of their first intervention,

.. math:: \sum m W = w(t) \sum m,

one equation a step, which moves every recover up and every disrupt down alike on the logit scale, from the model's.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from drsim.arrays import BoolArray, FloatArray
from drsim.errors import ParameterError
from drsim.process.compile import CompiledPolicy
from drsim.process.flips import alone_many, firing_many
from drsim.process.gates import gates_of_many
from drsim.process.quadrature import shift_nodes
from drsim.process.stacks import ModelDraws

__all__ = ["FEWEST_FIRINGS", "StepLevels", "levels_from_success", "step_levels"]

FEWEST_FIRINGS = 1e-6
"""Probability of a first firing in a step below which the step says nothing."""
FARTHEST = 30.0
"""Logits."""
N_HALVINGS = 60
"""From twice `FARTHEST` to rounding."""
ROUNDING = 1e-12
SMALLEST = 1e-3
"""Levels stay this far from 0 and 1, from which no move on the logit scale comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLevels:
    """Levels of one mechanism under D draws."""

    recover: FloatArray
    """(D, K, T)."""
    disrupt: FloatArray
    """(D, T)."""
    is_solved: BoolArray
    """(T,) steps in which the policy can fire first; the levels of the others are the model's."""
    is_inside: BoolArray
    """(D, T) whether the step's equations hold; elsewhere a level that would leave [0, 1] was put at its end."""


def step_levels(
    draws: ModelDraws, policy: CompiledPolicy, recovery: FloatArray, disruption: FloatArray, *, n_nodes: int = 1
) -> StepLevels:
    """Levels at which first interventions after step t have r(t) and d(t).

    Parameters
    ----------
    draws : ModelDraws
        D draws; the kernels of the policy's mechanism say which modes it disrupts to, in which proportion it recovers
        them, and what it does in steps in which the policy cannot fire first.
    policy : CompiledPolicy
        With a mechanism; reads the score of a step alone.
    recovery, disruption : ndarray
        (D, T) r(t) and d(t), in [0, 1], of pairs that share their prefix.
    n_nodes : int
        Gauss–Hermite nodes for the run-level shift, ≥ 1.

    Returns
    -------
    StepLevels

    Raises
    ------
    ParameterError
        The policy cannot intervene, or looks back on a run's history.
    """
    _check(policy)
    solving = _Solving(draws, policy, n_nodes)
    return solving.run(lambda t, mass, onward: solving.solve(t, mass, onward, recovery[:, t], disruption[:, t]))


def levels_from_success(
    draws: ModelDraws, policy: CompiledPolicy, success: FloatArray, *, n_nodes: int = 1
) -> StepLevels:
    """Levels at which runs first intervened in after step t succeed with w(t).

    Parameters
    ----------
    draws : ModelDraws
        D draws; the levels of the policy's mechanism are those that are moved.
    policy : CompiledPolicy
        With a mechanism; reads the score of a step alone.
    success : ndarray
        (D, T) w(t), in [0, 1].
    n_nodes : int
        Gauss–Hermite nodes for the run-level shift, ≥ 1.

    Returns
    -------
    StepLevels

    Raises
    ------
    ParameterError
        The policy cannot intervene, or looks back on a run's history.
    """
    _check(policy)
    solving = _Solving(draws, policy, n_nodes)
    return solving.run(lambda t, mass, onward: solving.move(t, mass, onward, success[:, t]))


def _check(policy: CompiledPolicy) -> None:
    if policy.history is not None or policy.mechanism < 0:
        raise ParameterError(
            "policy must intervene, on the score of a step alone, for its effect to be told by step; name another"
        )


class _Solving:
    """One pass from the horizon back."""

    def __init__(self, draws: ModelDraws, policy: CompiledPolicy, n_nodes: int) -> None:
        self.draws, self.policy = draws, policy
        nodes, node_weights = shift_nodes(n_nodes if np.any(draws.run_sd > 0.0) else 1)
        self.weights = draws.task_weights[:, None] * node_weights
        self.fires = firing_many(draws, policy, draws.run_sd[:, None] * nodes)
        self.alone = alone_many(draws)
        n_states = draws.start.shape[1]
        self.live, self.success = draws.transitions[..., :n_states], draws.transitions[..., n_states]
        self.kernels = draws.kernels[:, policy.mechanism].copy()
        gates = gates_of_many(
            draws.extra_steps,
            np.array([policy.mechanism]),
            policy.logit_threshold[None],
            np.array([policy.budget]),
            np.array([policy.cooldown]),
        )
        self.budget, self.extra, self.cooldown = int(gates.budget[0]), int(gates.extra[0]), int(gates.cooldown[0])
        if self.budget == 0:
            raise ParameterError(
                "policy must have a budget and an open step for its effect to be told by step; got none"
            )

    def masses(self) -> FloatArray:
        """(T, D, J, N, S) probability of a first firing after each step, weighted over classes and nodes."""
        n_draws, n_classes, horizon, n_states = self.live.shape[:4]
        out = np.empty((horizon, n_draws, n_classes, self.weights.shape[1], n_states))
        mass = self.draws.start[:, None, None, :] * self.weights[:, :, None]
        for t in range(horizon):
            mass = mass @ self.live[:, :, t]
            out[t] = mass * self.fires[:, None, :, t]
            mass = mass - out[t]
        return out

    def run(self, solve: Callable[[int, FloatArray, FloatArray], BoolArray]) -> StepLevels:
        """All steps, each by `solve` (t, masses, success with one intervention less)."""
        n_draws, n_classes, horizon, n_states = self.live.shape[:4]
        masses = self.masses()
        is_solved: BoolArray = masses.sum(axis=(2, 3, 4)).mean(axis=1) > FEWEST_FIRINGS
        is_inside = np.ones((n_draws, horizon), dtype=np.bool_)
        budget, cooldown = self.budget, self.cooldown
        cooler = np.maximum(np.arange(cooldown + 1) - 1, 0)
        end = np.zeros((n_draws, n_classes, self.weights.shape[1], budget + 1, cooldown + 1, n_states))
        ahead = [end] * (self.extra + 1)
        for t in reversed(range(horizon)):
            value = ahead[0][..., cooler, :]
            onward = ahead[-1][..., :budget, cooldown, :]
            if is_solved[t]:
                is_inside[:, t] = solve(t, masses[t], onward[..., budget - 1, :])
            moved = onward @ self.kernels[:, None, None, t].swapaxes(-1, -2)
            stayed = value[..., 1:, 0, :]
            value[..., 1:, 0, :] = stayed + self.fires[:, None, :, t, None, :] * (moved - stayed)
            acted = value @ self.live[:, :, t].swapaxes(-1, -2)[:, :, None, None]
            ahead = [acted + self.success[:, :, t, None, None, None, :], *ahead[:-1]]
        return StepLevels(
            recover=self.kernels[:, :, 1:, 0].transpose(0, 2, 1).copy(),
            disrupt=1.0 - self.kernels[:, :, 0, 0],
            is_solved=is_solved,
            is_inside=is_inside,
        )

    def solve(self, t: int, mass: FloatArray, onward: FloatArray, r: FloatArray, d: FloatArray) -> BoolArray:
        """Set the kernels (D, S, S) of step t; whether both equations hold."""
        kernel = self.kernels[:, t]
        to, shape = _shares(kernel[:, 0, 1:]), _shares(kernel[:, 1:, 0])
        alone = self.alone[t + 1][:, :, None, :]
        on, off = onward[..., 0], onward[..., 1:]
        # what one unit of disrupt, and of recover in the proportions of `shape`, adds to W in each state
        by_disrupt = (off * to[:, None, None, :]).sum(axis=-1) - on
        by_recover = shape[:, None, None, :] * (on[..., None] - off)
        matrix, wanted = np.empty((len(r), 2, 2)), np.empty((len(r), 2))
        for row, (share, rate) in enumerate(((alone, 1.0 - d), (1.0 - alone, r))):
            part = mass * share
            matrix[:, row, 0] = (part[..., 0] * by_disrupt).sum(axis=(1, 2))
            matrix[:, row, 1] = (part[..., 1:] * by_recover).sum(axis=(1, 2, 3))
            wanted[:, row] = rate * part.sum(axis=(1, 2, 3)) - (part * onward).sum(axis=(1, 2, 3))
        levels, is_inside = _solved(matrix, wanted)
        disrupt = np.clip(levels[:, 0], SMALLEST, 1.0 - SMALLEST)
        recover = np.clip(levels[:, 1, None] * shape, SMALLEST, 1.0 - SMALLEST)
        kernel[:, 0, 0], kernel[:, 0, 1:] = 1.0 - disrupt, disrupt[:, None] * to
        for k in range(recover.shape[1]):
            kernel[:, k + 1, 0], kernel[:, k + 1, k + 1] = recover[:, k], 1.0 - recover[:, k]
        stays: BoolArray = (disrupt == levels[:, 0]) & np.all(recover == levels[:, 1, None] * shape, axis=1)
        return is_inside & stays

    def move(self, t: int, mass: FloatArray, onward: FloatArray, w: FloatArray) -> BoolArray:
        """Move the kernels (D, S, S) of step t by one logit each; whether the equation holds."""
        kernel = self.kernels[:, t].copy()
        to = _shares(kernel[:, 0, 1:])
        with np.errstate(divide="ignore"):
            disrupt, recover = logit(1.0 - kernel[:, 0, 0]), logit(kernel[:, 1:, 0])
        on, off = onward[..., 0], onward[..., 1:]
        fired = mass.sum(axis=(1, 2))
        total = (mass * onward).sum(axis=(1, 2, 3))
        by_disrupt = (mass[..., 0] * ((off * to[:, None, None, :]).sum(axis=-1) - on)).sum(axis=(1, 2))
        by_recover = (mass[..., 1:] * (on[..., None] - off)).sum(axis=(1, 2))
        wanted = w * fired.sum(axis=1)

        def excess(by: FloatArray) -> FloatArray:
            lost = expit(disrupt - by) * by_disrupt
            won = (expit(recover + by[:, None]) * by_recover).sum(axis=1)
            missing: FloatArray = total + lost + won - wanted
            return missing

        low, high = np.full(len(w), -FARTHEST), np.full(len(w), FARTHEST)
        for _ in range(N_HALVINGS):
            middle = 0.5 * (low + high)
            is_short = excess(middle) < 0.0
            low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
        by = 0.5 * (low + high)
        found_d, found_r = _kept(expit(disrupt - by)), _kept(expit(recover + by[:, None]))
        self.kernels[:, t, 0, 0], self.kernels[:, t, 0, 1:] = 1.0 - found_d, found_d[:, None] * to
        for k in range(found_r.shape[1]):
            self.kernels[:, t, k + 1, 0], self.kernels[:, t, k + 1, k + 1] = found_r[:, k], 1.0 - found_r[:, k]
        return np.abs(total + found_d * by_disrupt + (found_r * by_recover).sum(axis=1) - wanted) <= ROUNDING


def _kept(levels: FloatArray) -> FloatArray:
    """Levels off their ends, unless the model has them there."""
    return np.where(levels > 0.0, np.clip(levels, SMALLEST, 1.0 - SMALLEST), 0.0)


def _shares(values: FloatArray) -> FloatArray:
    """(D, K) values over their largest sum to proportions that sum to 1; even where all are 0."""
    total = values.sum(axis=1, keepdims=True)
    even = np.full_like(values, 1.0 / values.shape[1])
    return np.divide(values, total, out=even, where=total > 0.0)


def _solved(matrix: FloatArray, wanted: FloatArray) -> tuple[FloatArray, BoolArray]:
    """(D, 2) solutions, and whether there is one; without, the nearest by least squares."""
    determinant = np.linalg.det(matrix)
    scale = np.abs(matrix).max(axis=(1, 2)) ** 2
    is_regular: BoolArray = np.abs(determinant) > 1e-12 * scale
    levels = np.zeros_like(wanted)
    levels[is_regular] = np.linalg.solve(matrix[is_regular], wanted[is_regular][..., None])[..., 0]
    for i in np.flatnonzero(~is_regular):
        levels[i] = np.linalg.lstsq(matrix[i], wanted[i], rcond=None)[0]
    return levels, is_regular

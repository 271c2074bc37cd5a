r"""The best that any policy can do that sees scores but not the state: a finite-horizon programme on beliefs.

π is the belief about the live state of a run given its scores and interventions so far and that it is live; for one
mode it is b, the probability of being off track. W_t(B, c, π) is what a run is worth that is about to act in step t
with B interventions and c steps of cooldown left: P(success) less prices. In the order of THEORY section 4:

.. math::

    W_t(B, c, \pi) &= s_t(\pi) + \ell_t(\pi)\, H_t(B, c, \pi P_t / \ell_t) \\
    H_t(B, c, \pi) &= \max\left(E_z[D_t(B, c, \pi^z)] - \kappa_z,\ D_t(B, c, \pi)\right) \\
    D_t(B, 0, \pi) &= \max\left(W_{t+1}(B, 0, \pi),\ \max_m W_{t+1+x_m}(B - 1, C, \pi K_{m,t}) - \kappa\right) \\
    D_t(B, c, \pi) &= W_{t+1}(B, c - 1, \pi), \quad c > 0

with P_t the act among live states, s_t and ℓ_t its chances of success and of staying live, π^z the belief after the
score z, K_m and x_m the kernel and the extra steps of mechanism m, C the cooldown. Nothing acts and nothing is scored
in extra steps; in a cooldown scores are seen. Where the critic has a price κ_z a step is scored only if that pays;
where it has none every step is. The filter is that of the signal `belief` of a policy.

Values are linear between points of `belief_grid`. Since they are convex, they are never too low; halving the
resolution says by how much they may be too high: the error falls with the square of the resolution.

With a run-level shift the scores of a run say more than the belief about its state holds, and where tasks differ so
does the time that a run takes. Such models are refused; `typical` makes the nearest one that is not, which is what the
signal `belief` takes for the truth.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.process.belief_grid import N_NODES, BeliefGrid, Places, belief_grid, expected, off_points
from drsim.process.compile import CompiledModel
from drsim.process.exact import unaided
from drsim.process.regions import Regions, regions_of
from drsim.process.terms import Terms, check_terms, open_steps, usable_budget, usable_cooldown, usable_mechanisms

__all__ = [
    "N_POINTS",
    "TIE",
    "WAIT",
    "Programme",
    "add_product",
    "belief_programme",
    "check_sufficient",
    "mode_mix",
    "predicted",
    "typical",
]

N_POINTS = 1001
WAIT = -1
TIE = 1e-12
"""An intervention must be worth more than this to be preferred to waiting: values are known to about 1e-14."""
NET, SUCCESS, INTERVENTIONS = range(3)
N_VALUES = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Programme:
    """An optimal belief policy and what it is worth."""

    terms: Terms
    value: float
    """P(success) less prices, of a run that begins."""
    success: float
    """P(success)."""
    interventions: float
    """Interventions per run."""
    baseline: float
    """P(success) of an unaided run."""
    error: float
    """Bound of what `value` is too high by: its distance from the value at half the resolution, which is about three
    times that."""
    grid: BeliefGrid
    """G points."""
    action: IntArray
    """(B, T, G) best intervention by budget left from 1 on, step and belief after the score: index of a mechanism, or
    −1 to wait."""
    is_scored: BoolArray
    """(B, C + 1, T, G) whether a step is scored, by budget left from 1 on, cooldown left, step and belief before the
    score."""
    regions: Regions
    """Where along P(off track) each mechanism is the best choice, by budget left and step."""

    @property
    def gain(self) -> float:
        """What the policy is worth beyond an unaided run."""
        return self.value - self.baseline

    @property
    def budget(self) -> int:
        """B, interventions for which there is room."""
        return len(self.action)


def typical(model: CompiledModel) -> CompiledModel:
    """The nearest model on which the belief about the state says all: what a filter would take for the truth.

    Parameters
    ----------
    model : CompiledModel
        Any.

    Returns
    -------
    CompiledModel
        All tasks are the typical one, and the run-level shift is further spread of each score.
    """
    return replace(model, tasks=None, score_sd=np.hypot(model.score_sd, model.run_sd), run_sd=0.0)


def check_sufficient(model: CompiledModel) -> None:
    """Refuse a model on which the belief about the state does not say all.

    Parameters
    ----------
    model : CompiledModel
        Any.

    Raises
    ------
    ParameterError
        It has a run-level shift, or tasks that differ.
    """
    if model.run_sd > 0.0:
        raise ParameterError(
            f"run_sd must be 0 for a belief programme, got {model.run_sd:g}: scores of a run hang together, so that "
            "the belief about its state does not say all; take the typical model (--typical)"
        )
    if model.tasks is not None:
        raise ParameterError(
            "tasks must be alike for a belief programme, got finish_task_sd or slip_task_sd above 0: the time that a "
            "run takes tells of its task; take the typical model (--typical)"
        )


def belief_programme(
    model: CompiledModel, terms: Terms, *, n_points: int = N_POINTS, n_nodes: int = N_NODES
) -> Programme:
    """Solve the programme.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states; without run-level shift, tasks alike.
    terms : Terms
        Of the same model.
    n_points : int
        Most points of the grid of beliefs; 1001 are as many for one mode, 990 for two.
    n_nodes : int
        Gauss–Hermite nodes by state for the score, where there are several modes.

    Returns
    -------
    Programme

    Raises
    ------
    ParameterError
        The model has a run-level shift, tasks that differ, or too many modes; or the terms are not of this model.

    References
    ----------
    THEORY sections 4 and 5.
    """
    check_sufficient(model)
    check_terms(model, terms)
    n_states = len(model.start)
    grid = belief_grid(n_states, n_points)
    fine = _Solver(model, terms, grid, n_nodes)
    value = fine.solve()
    half = belief_grid(n_states, max(n_states, _points_at(grid.resolution // 2, n_states)))
    coarse = _Solver(model, terms, half, n_nodes).solve()
    return Programme(
        terms=terms,
        value=float(value[NET]),
        success=float(value[SUCCESS]),
        interventions=float(value[INTERVENTIONS]),
        baseline=float(unaided(model)[0] @ model.start),
        error=abs(float(coarse[NET] - value[NET])),
        grid=grid,
        action=fine.action,
        is_scored=fine.is_scored,
        regions=fine.regions,
    )


def _points_at(resolution: int, n_states: int) -> int:
    count = 1
    for k in range(1, n_states):
        count = count * (resolution + k) // k
    return count


def mode_mix(model: CompiledModel) -> FloatArray:
    """How the modes of unaided runs that are off track are mixed after each act.

    Parameters
    ----------
    model : CompiledModel
        T steps, K modes.

    Returns
    -------
    ndarray
        (T, K), rows sum to 1; evenly where no run is off track.
    """
    horizon, n_states = model.transitions.shape[:2]
    mix = np.full((horizon, n_states - 1), 1.0 / (n_states - 1))
    live = model.start
    for t in range(horizon):
        live = live @ model.transitions[t, :, :n_states]
        off = live[1:].sum()
        if off > 0.0:
            mix[t] = live[1:] / off
    return mix


class _Solver:
    """The backward pass on one grid."""

    def __init__(self, model: CompiledModel, terms: Terms, grid: BeliefGrid, n_nodes: int) -> None:
        self.model, self.terms, self.grid = model, terms, grid
        self.horizon, self.n_states = model.transitions.shape[:2]
        self.budget, self.cooldown = usable_budget(model, terms), usable_cooldown(model, terms)
        self.mechanisms = usable_mechanisms(model, terms)
        self.extra = np.minimum(model.extra_steps, self.horizon)
        self.is_open = open_steps(model, terms)
        # transposed in memory, since all values of a step are multiplied at once
        self.mean_over_score = np.ascontiguousarray(self._expected(grid.points, n_nodes).T)
        self.n_nodes = n_nodes
        off = (
            np.arange(grid.resolution + 1) / grid.resolution if self.n_states == 2 else np.linspace(0.0, 1.0, N_POINTS)
        )
        self.off, self.mix = off, mode_mix(model)
        size = (self.budget, self.horizon, grid.n_points)
        self.action = np.full(size, WAIT, dtype=np.int64)
        self.is_scored = np.ones((self.budget, self.cooldown + 1, *size[1:]), dtype=np.bool_)
        self.regions = Regions.none(len(model.kernels), self.budget, self.horizon)

    def _expected(self, beliefs: FloatArray, n_nodes: int) -> FloatArray:
        return expected(self.grid, beliefs, self.model.score_mean, self.model.score_sd, n_nodes)

    def solve(self) -> FloatArray:
        """(3,) net value, success and interventions of a run that begins; fills the policy."""
        end = np.zeros((N_VALUES, self.budget + 1, self.cooldown + 1, self.grid.n_points))
        # ahead[j]: values of a run that is about to act in step t + 1 + j
        ahead = [end] * (int(self.extra[list(self.mechanisms)].max(initial=0)) + 1)
        for t in range(self.horizon - 1, 0, -1):
            after = self._score(t, self._decide(t, ahead))
            ahead = [self._act(t, self.grid.points, after), *ahead[:-1]]
        return self._begin(self._decide(0, ahead))

    def _decide(self, t: int, ahead: list[FloatArray]) -> FloatArray:
        """Values (3, B + 1, C + 1, G) of a run whose step has been scored, before it is decided what to do."""
        decided = ahead[0][:, :, np.maximum(np.arange(self.cooldown + 1) - 1, 0)]
        if not self.budget or not self.is_open[t] or not self.mechanisms:
            return decided
        moved = np.stack([self._intervene(t, m, ahead[self.extra[m]]) for m in self.mechanisms])
        stayed = decided[:, 1:, 0]
        choices = np.concatenate([stayed[None], moved])
        preferred = choices[:, NET].copy()
        preferred[1:] -= TIE
        best = preferred.argmax(axis=0)
        self.action[:, t] = np.array([WAIT, *self.mechanisms])[best]
        decided[:, 1:, 0] = np.take_along_axis(choices, best[None, None], axis=0)[0]
        self._note_regions(t, choices[:, NET])
        return decided

    def _intervene(self, t: int, m: int, then: FloatArray) -> FloatArray:
        """Values (3, B, G) of an intervention with B … 1 … left before it; `then` (3, B + 1, C + 1, G)."""
        places = self.grid.places(self.grid.points @ self.model.kernels[m, t])
        moved = places.of(then[:, :-1, self.cooldown])
        moved[NET] -= self.terms.intervention_price
        moved[INTERVENTIONS] += 1.0
        return moved

    def _note_regions(self, t: int, choices: FloatArray) -> None:
        """Regions along P(off track) from net values (1 + M, B, G), waiting first."""
        along = choices if self.n_states == 2 else self.grid.places(off_points(self.off, self.mix[t])).of(choices)
        regions_of(self.off, along, np.array(self.mechanisms), TIE, t, self.regions)

    def _score(self, t: int, decided: FloatArray) -> FloatArray:
        """Values (3, B + 1, C + 1, G) of a live run that may now be scored."""
        # without budget there is nothing to decide, and so nothing to pay for
        scored = decided.copy()
        open_ended = decided[:, 1:]
        flat = np.ascontiguousarray(open_ended.reshape(-1, self.grid.n_points))
        mean = np.zeros_like(flat)
        add_product(flat, self.mean_over_score, mean)
        scored[:, 1:] = mean.reshape(open_ended.shape)
        scored[NET] -= self.terms.critic_price
        scored[NET, 0] = decided[NET, 0]
        if self.terms.critic_price > 0.0:
            pays = scored[NET] > decided[NET] + TIE
            self.is_scored[:, :, t] = pays[1:]
            scored = np.where(pays, scored, decided)
        return scored

    def _act(self, t: int, beliefs: FloatArray, after: FloatArray) -> FloatArray:
        """Values (3, B + 1, C + 1, n) of runs about to act; `after` (3, B + 1, C + 1, G) of those that stay live."""
        moves = self.model.transitions[t]
        live, places = predicted(self.grid, beliefs, moves)
        value = live * places.of(after)
        value[: SUCCESS + 1] += beliefs @ moves[:, self.n_states]
        return value

    def _begin(self, decided: FloatArray) -> FloatArray:
        """Values (3,) of a run that begins; the start belief need not be a point of the grid."""
        start, moves = self.model.start[None], self.model.transitions[0]
        self._score(0, decided)
        live = start @ moves[:, : self.n_states]
        total = live.sum()
        first = decided[:, self.budget, 0]
        unscored = self.grid.places(live / total if total > 0.0 else start).of(first)[:, 0]
        value = unscored
        if self.budget and total > 0.0:
            scored = first @ self._expected(live / total, self.n_nodes)[0]
            scored[NET] -= self.terms.critic_price
            if self.terms.critic_price == 0.0 or scored[NET] > unscored[NET] + TIE:
                value = scored
        begun: FloatArray = total * value
        begun[: SUCCESS + 1] += start[0] @ moves[:, self.n_states]
        return begun


@njit(cache=True, nogil=True)
def add_product(values: FloatArray, matrix: FloatArray, out: FloatArray) -> None:
    """Add `values` (n, G) times `matrix` (G, H) to `out` (n, H).

    By one thread in one order: a product of NumPy's is rounded as its library shares out the work, and keeps all cores
    of the machine waiting for matrices as small as these.
    """
    for g in range(matrix.shape[0]):
        for v in range(values.shape[0]):
            factor = values[v, g]
            for h in range(matrix.shape[1]):
                out[v, h] += factor * matrix[g, h]


def predicted(grid: BeliefGrid, beliefs: FloatArray, moves: FloatArray) -> tuple[FloatArray, Places]:
    """P(still live) (n,) of beliefs (n, S) after an act (S, S + 2), and where the beliefs of live runs then lie."""
    n_states = beliefs.shape[1]
    live = beliefs @ moves[:, :n_states]
    total = live.sum(axis=1)
    # a run that cannot be live has no belief; its weight is 0 whatever stands here
    safe = np.where(total[:, None] > 0.0, live, beliefs)
    return total, grid.places(safe / safe.sum(axis=1, keepdims=True))

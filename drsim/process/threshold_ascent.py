r"""The best threshold of every step, by exact coordinate ascent.

A run passes step t at most once, so the value of a threshold policy is linear in the chances f_t(x) of intervening
there in state x, all other steps fixed:

.. math:: V = \text{const} + \sum_x G_t(x)\, f_t(x), \qquad f_t(x) = \Phi((\mu_x + u - \tau_t)/\sigma_x)

with :math:`G_t(x) = \sum_B P(\text{at } x, B \text{ left}, \text{free to fire}) \cdot (\text{worth of intervening} -
\text{worth of waiting})`. The first factor depends on earlier thresholds alone and the second on later ones alone: one
forward pass gives all the first, and a backward pass sets each threshold to its best while it makes the second. No such
step lowers the value, which ends where no single threshold can be improved.

Tasks that differ, the run-level shift and draws of the parameters are worlds: G and f differ, τ does not, and the mean
over worlds is raised.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from drsim.arrays import FloatArray, IntArray
from drsim.process.compile import CompiledPolicy
from drsim.process.quadrature import shift_nodes
from drsim.process.stacks import ModelDraws
from drsim.process.terms import Terms

__all__ = ["Ascent", "Worlds", "ascend", "candidates", "worlds_of"]

N_CANDIDATES = 129
"""Thresholds tried in each step before the best is refined."""
REACH = 6.0
"""In spreads of the score beyond the outermost means: further out next to nothing fires, or nearly everything."""
N_REFINEMENTS = 4
"""Each narrows the bracket of a threshold by eight."""
SHIFT_NODES = 21
MOST_SWEEPS = 100
CONVERGED = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """N combinations of a draw, a class of tasks and a run-level shift."""

    weight: FloatArray
    """(N,) with sum 1."""
    start: FloatArray
    """(N, S)."""
    transitions: FloatArray
    """(N, T, S, S + 2)."""
    kernels: FloatArray
    """(N, M, T, S, S)."""
    mean: FloatArray
    """(N, S) of the score, the shift included."""
    sd: FloatArray
    """(N, S)."""
    extra_steps: IntArray
    """(M,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent:
    """Where an ascent ended."""

    policy: CompiledPolicy
    value: float
    """Mean over worlds of P(success) less prices."""
    n_sweeps: int
    has_converged: bool


def worlds_of(draws: ModelDraws) -> Worlds:
    """All combinations that a policy is averaged over.

    Parameters
    ----------
    draws : ModelDraws
        D draws of equal weight.

    Returns
    -------
    Worlds
        N = D · J · Q: J classes of tasks, Q Gauss–Hermite nodes for the run-level shift, one where no draw has one.
    """
    n_draws, n_tasks = draws.transitions.shape[:2]
    nodes, shares = shift_nodes(SHIFT_NODES if np.any(draws.run_sd > 0.0) else 1)
    draw, task, node = (it.ravel() for it in np.indices((n_draws, n_tasks, nodes.size)))
    return Worlds(
        weight=draws.task_weights[task] * shares[node] / n_draws,
        start=draws.start[draw],
        transitions=draws.transitions[draw, task],
        kernels=draws.kernels[draw],
        mean=draws.score_mean[draw] + (draws.run_sd[draw] * nodes[node])[:, None],
        sd=draws.score_sd[draw],
        extra_steps=draws.extra_steps,
    )


def candidates(worlds: Worlds) -> FloatArray:
    """Raw logit scores among which a threshold is looked for.

    Parameters
    ----------
    worlds : Worlds
        From `worlds_of`.

    Returns
    -------
    ndarray
        Increasing, from −inf, which always fires, to +inf, which never does.
    """
    low = float((worlds.mean - REACH * worlds.sd).min())
    high = float((worlds.mean + REACH * worlds.sd).max())
    return np.concatenate([[-np.inf], np.linspace(low, high, N_CANDIDATES), [np.inf]])


def ascend(worlds: Worlds, policy: CompiledPolicy, terms: Terms) -> Ascent:
    """Raise a threshold policy's value until no threshold alone can be improved.

    Parameters
    ----------
    worlds : Worlds
        From `worlds_of`.
    policy : CompiledPolicy
        Where to begin: with a mechanism, and firing on the score of a step. Its mechanism, budget and cooldown stay;
        where it fires it always acts in the end.
    terms : Terms
        With the prices, and the steps that are open.

    Returns
    -------
    Ascent
        No worse than the policy itself.
    """
    tried = candidates(worlds)
    table = _fires(worlds, tried)
    walk = _Walk(worlds, policy, terms)
    value, rise, n_sweeps = walk.sweep(None), np.inf, 0
    while rise > CONVERGED and n_sweeps < MOST_SWEEPS:
        last, value = value, walk.sweep((tried, table))
        rise, n_sweeps = value - last, n_sweeps + 1
    best = replace(policy, logit_threshold=walk.threshold, propensity=walk.propensity)
    return Ascent(policy=best, value=value, n_sweeps=n_sweeps, has_converged=rise <= CONVERGED)


def _fires(worlds: Worlds, thresholds: FloatArray) -> FloatArray:
    """(n, N · S) chance that a score lies above each of n thresholds."""
    above: FloatArray = ndtr((worlds.mean - thresholds[:, None, None]) / worlds.sd)
    return above.reshape(thresholds.size, -1)


class _Walk:
    """Sweeps over one policy."""

    def __init__(self, worlds: Worlds, policy: CompiledPolicy, terms: Terms) -> None:
        self.worlds, self.terms = worlds, terms
        n, self.horizon, self.n_states = worlds.transitions.shape[:3]
        self.mechanism = policy.mechanism
        self.extra = min(int(worlds.extra_steps[policy.mechanism]), self.horizon)
        room = (self.horizon - 1) // (1 + self.extra + policy.cooldown) + 1
        self.budget = min(policy.budget, room)
        self.cooldown = min(policy.cooldown, self.horizon) if self.budget > 1 else 0
        is_open = np.ones(self.horizon, dtype=np.bool_) if terms.is_open is None else terms.is_open
        self.threshold = np.where(is_open, policy.logit_threshold, np.inf)
        self.propensity = np.array(np.broadcast_to(policy.propensity, (self.horizon,)))
        self.is_open = is_open
        self.size = (n, self.budget + 1, self.cooldown + 1, self.n_states)

    def _chance(self, t: int) -> FloatArray:
        """(N, S) chance of intervening in step t where the run is free to."""
        fires = _fires(self.worlds, self.threshold[t : t + 1]).reshape(-1, self.n_states)
        chance: FloatArray = self.propensity[t] * fires
        return chance

    def _reach(self) -> FloatArray:
        """(T, N, B, S) P(a run is scored in step t, in a state, with 1 … B interventions left and free to fire)."""
        worlds, budget = self.worlds, self.budget
        reach = np.zeros((self.horizon, self.size[0], budget, self.n_states))
        ahead = [np.zeros(self.size) for _ in range(self.extra + 2)]
        ahead[0][:, budget, 0] = worlds.start
        for t in range(self.horizon):
            acting, ahead = ahead[0], [*ahead[1:], np.zeros(self.size)]
            live = acting @ worlds.transitions[:, t, None, :, : self.n_states]
            reach[t] = live[:, 1:, 0]
            chance = self._chance(t)[:, None]
            fired = reach[t] * chance
            live[:, 1:, 0] -= fired
            ahead[self.extra][:, :budget, self.cooldown] += fired @ worlds.kernels[:, self.mechanism, t]
            ahead[0][:, :, 0] += live[:, :, 0]
            ahead[0][:, :, :-1] += live[:, :, 1:]
        return reach

    def sweep(self, among: tuple[FloatArray, FloatArray] | None) -> float:
        """Value of the policy, after each threshold has been set to its best among candidates where there are any."""
        worlds, terms = self.worlds, self.terms
        reach = None if among is None else self._reach()
        cooler = np.maximum(np.arange(self.cooldown + 1) - 1, 0)
        ahead = [np.zeros(self.size)] * (self.extra + 1)
        for t in reversed(range(self.horizon)):
            value = ahead[0][:, :, cooler]
            then = ahead[self.extra][:, : self.budget, self.cooldown]
            kernel = worlds.kernels[:, self.mechanism, t].transpose(0, 2, 1)
            more = then @ kernel - terms.intervention_price - value[:, 1:, 0]
            if among is not None and reach is not None and self.is_open[t]:
                self._improve(t, worlds.weight[:, None] * (reach[t] * more).sum(axis=1), *among)
            value[:, 1:, 0] += self._chance(t)[:, None] * more
            acts = worlds.transitions[:, t]
            live = acts[..., : self.n_states]
            reward = acts[..., self.n_states] - terms.critic_price * live.sum(axis=2)
            value = value @ live.transpose(0, 2, 1)[:, None] + reward[:, None, None]
            ahead = [value, *ahead[:-1]]
        begun = (ahead[0][:, self.budget, 0] * worlds.start).sum(axis=1)
        return float(worlds.weight @ begun)

    def _improve(self, t: int, worth: FloatArray, tried: FloatArray, table: FloatArray) -> None:
        """Set the threshold of step t to the best one, given what intervening is worth by world and state (N, S)."""
        flat = worth.ravel()
        values = table @ flat
        best = int(values.argmax())
        found, value = float(tried[best]), float(values[best])
        if 0 < best < tried.size - 1:
            found, value = self._refine(flat, tried[[best - 1, best, best + 1]], value)
        elif value <= 0.0:
            found, value = np.inf, 0.0
        now = self.propensity[t] * float((_fires(self.worlds, self.threshold[t : t + 1]) @ flat)[0])
        if value > now or (value >= now and found == np.inf):
            self.threshold[t], self.propensity[t] = found, 1.0

    def _refine(self, worth: FloatArray, bracket: FloatArray, value: float) -> tuple[float, float]:
        """Best threshold near the middle of a bracket, and its value."""
        low, found, high = (float(it) for it in np.nan_to_num(bracket, neginf=bracket[1], posinf=bracket[1]))
        for _ in range(N_REFINEMENTS):
            finer = np.linspace(low, high, 17)
            values = _fires(self.worlds, finer) @ worth
            best = int(values.argmax())
            if values[best] >= value:
                found, value = float(finer[best]), float(values[best])
            width = (high - low) / 16.0
            low, high = found - width, found + width
        return found, value

"""Runs under a belief policy, one step after another, straight from the model: a witness of the belief programme."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.engine.estimates import Estimate
from drsim.process.belief_grid import BeliefGrid, posterior
from drsim.process.belief_programme import Programme
from drsim.process.compile import CompiledModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    net: Estimate
    success: Estimate
    interventions: Estimate
    critic_calls: Estimate


def believe(
    model: CompiledModel, programme: Programme, *, n: int, seed: int, truth: CompiledModel | None = None
) -> Believed:
    """n runs that do at each belief what the programme does at the nearest point of its grid; `truth` is how they go,
    where that is not what the filter takes for the truth."""
    truth = model if truth is None else truth
    rng = np.random.default_rng(seed)
    horizon, n_states = model.transitions.shape[:2]
    terms = programme.terms
    state = _drawn(rng, np.broadcast_to(truth.start, (n, n_states)))
    belief = np.broadcast_to(model.start, (n, n_states)).copy()
    left = np.full(n, programme.budget)
    acts_next, fires_from = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    calls, made = np.zeros(n), np.zeros(n)
    for t in range(horizon):
        runs = np.flatnonzero((state < n_states) & (acts_next == t))
        acts_next[runs] = t + 1
        state[runs] = _drawn(rng, truth.transitions[t, state[runs]])
        runs = runs[state[runs] < n_states]
        if not runs.size:
            continue
        belief[runs] = _normal(belief[runs] @ model.transitions[t, :, :n_states])
        cooldown = np.maximum(fires_from[runs] - t, 0)
        scored = runs[_is_scored(programme, t, left[runs], cooldown, belief[runs])]
        calls[scored] += 1
        z = truth.score_mean[state[scored]] + truth.score_sd[state[scored]] * rng.standard_normal(scored.size)
        belief[scored] = posterior(belief[scored], z[:, None], model.score_mean, model.score_sd)[:, 0]
        may = runs[(left[runs] > 0) & (cooldown == 0)]
        action = programme.action[left[may] - 1, t, nearest(programme.grid, belief[may])]
        for m in range(len(model.kernels)):
            fired = may[action == m]
            state[fired] = _drawn(rng, truth.kernels[m, t, state[fired]])
            belief[fired] = _normal(belief[fired] @ model.kernels[m, t])
            acts_next[fired] = t + 1 + model.extra_steps[m]
            fires_from[fired] = t + 1 + model.extra_steps[m] + terms.cooldown
            left[fired] -= 1
            made[fired] += 1
    success = (state == n_states).astype(np.float64)
    net = success - terms.intervention_price * made - terms.critic_price * calls
    return Believed(net=_mean(net), success=_mean(success), interventions=_mean(made), critic_calls=_mean(calls))


def _is_scored(programme: Programme, t: int, left: IntArray, cooldown: IntArray, belief: FloatArray) -> BoolArray:
    if not programme.budget:
        return np.zeros(len(left), dtype=np.bool_)
    cooling = np.minimum(cooldown, programme.is_scored.shape[1] - 1)
    at = nearest(programme.grid, belief)
    scored: BoolArray = programme.is_scored[np.maximum(left, 1) - 1, cooling, t, at] & (left > 0)
    return scored


def nearest(grid: BeliefGrid, belief: FloatArray) -> IntArray:
    places = grid.places(belief)
    at: IntArray = np.take_along_axis(places.corners, places.weights.argmax(axis=1)[:, None], axis=1)[:, 0]
    return at


def _drawn(rng: np.random.Generator, probability: FloatArray) -> IntArray:
    upto = np.cumsum(probability, axis=1)
    drawn: IntArray = np.minimum((rng.random(len(upto))[:, None] * upto[:, -1:] >= upto).sum(axis=1), upto.shape[1] - 1)
    return drawn


def _normal(weights: FloatArray) -> FloatArray:
    total = weights.sum(axis=1, keepdims=True)
    return weights / total


def _mean(values: FloatArray) -> Estimate:
    return Estimate(value=float(values.mean()), se=float(values.std() / len(values) ** 0.5), n=len(values))

"""Alternatives played out run by run with NumPy alone: what their closed forms must agree with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.planning.alternatives import (
    Abort,
    Alternative,
    BestOf,
    Escalate,
    Halt,
    Intervene,
    Nothing,
    Outcome,
    Retry,
    RetryInContext,
    Selector,
)
from drsim.process.compile import CompiledModel, CompiledPolicy
from drsim.theory.critic import binormal_shift

N_KINDS = 4
TOKENS, CALLS, INTERVENTIONS, STEPS = range(N_KINDS)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """n runs."""

    success: BoolArray
    fired: BoolArray
    spent: FloatArray
    """(4, n)."""


type Player = Callable[[IntArray], Ended]
"""Runs at tasks of given kinds."""


def play(
    rng: np.random.Generator, model: CompiledModel, policy: CompiledPolicy, kinds: IntArray, *, ends: bool = False
) -> Ended:
    """Runs of the step process, one for each task; with `ends` the first firing ends a run, which has failed then."""
    transitions = model.transitions[None] if model.tasks is None else model.tasks.transitions
    n, horizon, n_states = kinds.size, transitions.shape[1], transitions.shape[2]
    state = rng.choice(n_states, p=model.start, size=n)
    live, success, fired = np.ones(n, dtype=bool), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    spent, left, resume = np.zeros((N_KINDS, n)), np.full(n, policy.budget), np.zeros(n, dtype=int)
    cool = np.zeros(n, dtype=int)
    shift = model.run_sd * rng.standard_normal(n)
    for t in range(horizon):
        acting = live & (resume <= t)
        spent[TOKENS] += model.tokens[t] * acting
        spent[STEPS] += acting
        law = transitions[kinds, t, np.minimum(state, n_states - 1)]
        now = (rng.random((n, 1)) > np.cumsum(law, axis=1)[:, :-1]).sum(axis=1)
        state = np.where(acting, now, state)
        success |= acting & (state == n_states)
        live &= state < n_states
        scored = acting & live
        if policy.mechanism < 0:
            continue
        spent[CALLS] += scored
        seen = np.minimum(state, n_states - 1)
        score = model.score_mean[seen] + shift + model.score_sd[seen] * rng.standard_normal(n)
        fires = scored & (score > policy.logit_threshold[t]) & (left > 0) & (cool <= t)
        fired |= fires
        if ends:
            live &= ~fires
            continue
        law = model.kernels[policy.mechanism, t][seen]
        moved = (rng.random((n, 1)) > np.cumsum(law, axis=1)[:, :-1]).sum(axis=1)
        state = np.where(fires, moved, state)
        spent[INTERVENTIONS] += fires
        spent[TOKENS] += model.mechanism_tokens[policy.mechanism] * fires
        left = left - fires
        extra = int(model.extra_steps[policy.mechanism])
        resume = np.where(fires, t + 1 + extra, resume)
        cool = np.where(fires, t + 1 + extra + policy.cooldown, cool)
    return Ended(success=success, fired=fired, spent=spent)


@dataclass(kw_only=True)
class Played:
    """What an alternative earned and spent on n tasks."""

    success: FloatArray
    spent: FloatArray
    """(4, n); steps one after another."""
    attempts: FloatArray
    calls: FloatArray = field(default_factory=lambda: np.zeros(()))
    """Of selector or verifier."""
    second: FloatArray = field(default_factory=lambda: np.zeros(()))

    def z(self, outcome: Outcome) -> dict[str, float]:
        """Distance of the closed form from the mean in standard errors, by what is compared; exact where all agree."""
        items = outcome.items[:, 0]
        pairs = {
            "success": (self.success, outcome.success[0]),
            "attempts": (self.attempts, outcome.attempts[0]),
            "steps": (self.spent[STEPS], outcome.steps[0]),
            "tokens": (self.spent[TOKENS], items[0]),
            "critic calls": (self.spent[CALLS], items[1]),
            "interventions": (self.spent[INTERVENTIONS], items[2]),
            "calls": (self.calls, items[3] + items[4]),
            "second runs": (self.second, items[5]),
        }
        return {name: _z(np.asarray(values, dtype=np.float64), float(exact)) for name, (values, exact) in pairs.items()}


def _z(values: FloatArray, exact: float) -> float:
    if np.ptp(values) == 0.0:
        return 0.0 if abs(values.flat[0] - exact) <= 1e-9 * max(1.0, abs(exact)) else np.inf
    return float((values.mean() - exact) / (values.std(ddof=1) / np.sqrt(values.size)))


@dataclass(frozen=True, kw_only=True)
class Players:
    """How runs at tasks are had."""

    rng: np.random.Generator
    kinds: IntArray
    unaided: Player
    intervened: dict[str, Player]
    watched: dict[str, Player]
    second: FloatArray | None = None
    """(kinds,) success of the second agent."""


def played(players: Players, alternative: Alternative) -> Played:  # one branch an alternative
    """An alternative on every task."""
    kinds, n = players.kinds, players.kinds.size
    match alternative:
        case Nothing():
            return _one(players.unaided(kinds))
        case Intervene():
            return _one(players.intervened[alternative.policy](kinds))
        case Halt():
            return _one(players.watched[alternative.trigger](kinds))
        case Escalate():
            first = players.watched[alternative.trigger](kinds)
            assert players.second is not None
            rescued = first.fired & (players.rng.random(n) < players.second[kinds])
            done = _one(first)
            return replace(
                done,
                success=(first.success | rescued).astype(np.float64),
                second=first.fired.astype(np.float64),
                attempts=1.0 + first.fired.astype(np.float64),
            )
        case Abort():
            return _aborted(players, alternative)
        case Retry():
            return _retried(players, alternative)
        case BestOf():
            return _best_of(players, alternative)
    raise AssertionError(alternative)


def _one(ended: Ended) -> Played:
    return Played(success=ended.success.astype(np.float64), spent=ended.spent, attempts=np.ones(ended.success.size))


def _aborted(players: Players, alternative: Abort) -> Played:
    n = players.kinds.size
    out = Played(success=np.zeros(n), spent=np.zeros((N_KINDS, n)), attempts=np.zeros(n))
    open_ = np.ones(n, dtype=bool)
    for k in range(alternative.restarts + 1):
        is_last = k == alternative.restarts
        run = (players.unaided if is_last else players.watched[alternative.trigger])(players.kinds)
        out.spent += open_ * run.spent
        out.attempts += open_
        out.success += open_ & run.success
        open_ = open_ & run.fired & (not is_last)
    return out


def _retried(players: Players, alternative: Retry) -> Played:
    n, verifier = players.kinds.size, alternative.verifier
    out = Played(success=np.zeros(n), spent=np.zeros((N_KINDS, n)), attempts=np.zeros(n), calls=np.zeros(n))
    open_ = np.ones(n, dtype=bool)
    for k in range(alternative.attempts):
        is_last = k == alternative.attempts - 1
        run = players.unaided(players.kinds)
        out.spent += open_ * run.spent
        out.attempts += open_
        says = players.rng.random(n) < np.where(run.success, verifier.tpr, verifier.fpr)
        keeps = open_ & (says | is_last)
        out.calls += open_ & (not is_last)
        out.success += keeps & run.success
        open_ = open_ & ~keeps
    return out


def _best_of(players: Players, alternative: BestOf) -> Played:
    n, n_attempts = players.kinds.size, alternative.attempts
    player = players.unaided if alternative.policy is None else players.intervened[alternative.policy]
    runs = [player(players.kinds) for _ in range(n_attempts)]
    success = np.stack([it.success for it in runs])
    spent = np.stack([it.spent for it in runs])
    if alternative.in_sequence and alternative.selector.is_perfect:
        made = np.concatenate([np.ones((1, n), dtype=bool), ~np.logical_or.accumulate(success)[:-1]])
        total, attempts = (made[:, None] * spent).sum(axis=0), 1.0 * made.sum(axis=0)
    else:
        total, attempts = spent.sum(axis=0), np.full(n, float(n_attempts))
        if not alternative.in_sequence:
            # once the time: the first attempt stands for all
            total[STEPS] = spent[0, STEPS]
    kept = selected(players.rng, success, alternative.selector)
    return Played(success=kept, spent=total, attempts=attempts, calls=attempts)


def selected(rng: np.random.Generator, success: BoolArray, selector: Selector) -> FloatArray:
    """Whether the attempt on top of each task (N, n) succeeds."""
    if selector.is_perfect:
        return success.any(axis=0).astype(np.float64)
    shared = rng.standard_normal((2, success.shape[1]))
    own = rng.standard_normal(success.shape)
    c = selector.shared
    error = np.sqrt(c) * np.where(success, shared[0], shared[1]) + np.sqrt(1.0 - c) * own
    score = float(binormal_shift(np.asarray(selector.auroc))) * success + error
    kept: FloatArray = np.take_along_axis(success, score.argmax(axis=0)[None], axis=0)[0].astype(np.float64)
    return kept


def retried_in_context(
    rng: np.random.Generator,
    success: FloatArray,
    good: Sequence[float],
    bad: Sequence[float],
    growth: float,
    how: RetryInContext,
) -> Played:
    """Retries in context at tasks of given success; `good` and `bad` are what attempts that succeed and fail spend."""
    n = success.size
    out = Played(success=np.zeros(n), spent=np.zeros((N_KINDS, n)), attempts=np.zeros(n), calls=np.zeros(n))
    open_, before, s = np.ones(n, dtype=bool), np.zeros(n), success
    for k in range(how.attempts):
        is_last = k == how.attempts - 1
        wins = rng.random(n) < s
        spent = np.where(wins, np.asarray(good)[:, None], np.asarray(bad)[:, None])
        out.spent += open_ * spent
        out.spent[TOKENS] += open_ * growth * before * spent[STEPS]
        out.attempts += open_
        says = rng.random(n) < np.where(wins, how.verifier.tpr, how.verifier.fpr)
        keeps = open_ & (says | is_last)
        out.calls += open_ & (not is_last)
        out.success += keeps & wins
        before = before + spent[STEPS]
        open_ = open_ & ~keeps
        s = how.contamination * s / (1.0 - s + how.contamination * s)
    return out

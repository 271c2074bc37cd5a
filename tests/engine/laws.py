"""Random models and policies for tests of the engines."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from drsim.arrays import FloatArray
from drsim.engine.runs import SimulatedRuns
from drsim.process.compile import CompiledModel, CompiledPolicy, History, TaskClasses
from drsim.process.spec import Signal


def rows(rng: np.random.Generator, *shape: int) -> FloatArray:
    """Random probabilities along the last axis, some of them 0."""
    weights = rng.gamma(0.7, size=shape) * (rng.random(shape) < 0.8)
    weights[..., 0] += 1e-3
    probabilities: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def random_model(
    seed: int, horizon: int = 6, n_states: int = 3, run_sd: float = 0.0, n_classes: int = 0
) -> CompiledModel:
    """Mechanisms with 1, 0 and 3 extra steps; as many classes of tasks, or tasks that are alike."""
    rng = np.random.default_rng(seed)
    model = CompiledModel(
        start=rows(rng, n_states),
        transitions=rows(rng, horizon, n_states, n_states + 2),
        kernels=rows(rng, 3, horizon, n_states, n_states),
        extra_steps=np.array([1, 0, 3]),
        score_mean=rng.normal(size=n_states),
        score_sd=rng.uniform(0.5, 2, n_states),
        run_sd=run_sd,
        temperature=1.0,
        tokens=rng.uniform(0, 1000, horizon),
        critic_tokens=rng.uniform(0, 100, horizon),
        mechanism_tokens=rng.uniform(0, 300, 3),
        usd_per_token=1e-6,
        seconds_per_step=4.0,
    )
    return replace(model, tasks=_classes(rng, model.transitions, n_classes)) if n_classes else model


def _classes(rng: np.random.Generator, typical: FloatArray, n_classes: int) -> TaskClasses:
    """Up to half of every row moved to failure in hard tasks, to success in easy ones."""
    n_states = typical.shape[1]
    effects = np.linspace(-1.0, 1.0, n_classes)
    transitions = typical * (1.0 - np.abs(effects) / 2.0)[:, None, None, None]
    transitions[..., n_states] += np.maximum(effects, 0.0)[:, None, None] / 2.0
    transitions[..., n_states + 1] += np.maximum(-effects, 0.0)[:, None, None] / 2.0
    weights = rng.uniform(0.5, 1.5, n_classes)
    return TaskClasses(effects=effects, weights=weights / weights.sum(), transitions=transitions)


def policy(
    horizon: int = 6, mechanism: int = 0, threshold: float = 0.0, budget: int = 2, cooldown: int = 1
) -> CompiledPolicy:
    """A policy that reads the score of a step alone."""
    return CompiledPolicy(
        mechanism=mechanism, logit_threshold=np.full(horizon, threshold), budget=budget, cooldown=cooldown
    )


def looking_back(
    rule: CompiledPolicy, signal: Signal, threshold: float, window: int = 0, votes: int = 0
) -> CompiledPolicy:
    """The policy with a history instead, open where it was."""
    is_open = rule.logit_threshold < np.inf
    return replace(
        rule,
        logit_threshold=np.where(is_open, -np.inf, np.inf),
        history=History(signal=signal, threshold=np.full(len(is_open), threshold), window=window, votes=votes),
    )


@st.composite
def policies(draw: st.DrawFn, horizon: int) -> CompiledPolicy:
    """Of every kind, with gates."""
    steps, first, every = np.arange(horizon), draw(st.integers(0, horizon - 1)), draw(st.integers(1, 3))
    cuts = st.lists(st.sampled_from([-np.inf, -0.5, 0.7, np.inf]), min_size=horizon, max_size=horizon)
    is_open = (steps >= first) & ((steps - first) % every == 0)
    rule = CompiledPolicy(
        mechanism=draw(st.integers(-1, 2)),
        logit_threshold=np.where(is_open, np.array(draw(cuts)), np.inf),
        budget=draw(st.integers(0, 4)),
        cooldown=draw(st.integers(0, 3)),
        propensity=draw(st.sampled_from([1.0, 0.6])),
    )
    signal = draw(st.sampled_from(Signal))
    if signal is Signal.SCORE or rule.mechanism < 0:
        return rule
    rule = replace(rule, logit_threshold=np.where(is_open, -np.inf, np.inf))
    window = draw(st.integers(1, 3))
    if signal is Signal.VOTES:
        return looking_back(
            rule, signal, draw(st.sampled_from([-np.inf, -0.5, 0.7])), window, draw(st.integers(1, window))
        )
    return looking_back(rule, signal, draw(st.floats(0.0, 0.95)), 0 if signal is Signal.BELIEF else window)


def all_equal(found: Sequence[SimulatedRuns], expected: Sequence[SimulatedRuns]) -> bool:
    """Whether every policy's runs agree to the bit."""
    return len(found) == len(expected) and all(a.is_equal(b) for a, b in zip(found, expected, strict=True))

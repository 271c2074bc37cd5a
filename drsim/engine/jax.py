"""The engine compiled by JAX, for CPUs and GPUs: one step of many runs at a time, the same bits as `reference`.

Runs go in chunks of one size to one program, the last chunk filled up with runs that are thrown away. So there is one
program for each shape of a law (policies, steps, states, budget, and what their signals carry along), whatever the
thresholds, the seed and the number of runs. The runs of a chunk are shared out over all devices; nothing passes between
them. Policies are one more axis, and share the words of a step.

All numbers are integers, of 64 bits where beliefs and scores ask for it, inside the calls of this module only and
whatever the process has chosen elsewhere. So there is nothing that a compiler could round in its own way.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from drsim.engine.law import Law
from drsim.engine.random import Block, Purpose, key_words
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs, spend
from drsim.engine.signals import CELL_BITS, PRODUCT_BITS, SCORE_BITS, Reading
from drsim.engine.thresholds import LAST_DRAW
from drsim.errors import DrsimError

try:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from drsim.engine.random_jax import philox4x32
except ModuleNotFoundError as missing:
    raise DrsimError(f'the engine "jax" must find JAX, got {missing}; pip install "drsim[jax]"') from missing

__all__ = ["run_law"]

RUNS_PER_DEVICE = 2**16
"""Runs of a chunk on one device. Any size from 2¹² on is as fast on a CPU (measured); a GPU wants many at a time."""

FAIL, SUCCESS, CAPPED = (np.uint8(ending) for ending in (Ending.FAIL, Ending.SUCCESS, Ending.CAPPED))
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What a program is compiled for, beside the shapes of its arrays."""

    budget: int
    """Largest of the policies."""
    window: int
    """Largest of the policies; 0 where none looks back on scores."""
    reads_levels: bool
    believes: bool
    withholds: bool


class _Steps(NamedTuple):
    """What changes from step to step, the first axis of every array; K policies the second, where they differ."""

    t: jax.Array
    act: jax.Array
    """(T, J S, S + 1)."""
    predict: jax.Array
    intervene: jax.Array
    fire: jax.Array
    acted: jax.Array
    is_open: jax.Array
    cuts: jax.Array
    limits: jax.Array
    moved: jax.Array


class _Policies(NamedTuple):
    """Numbers of K policies."""

    budget: jax.Array
    cooldown: jax.Array
    extra_steps: jax.Array
    reading: jax.Array
    window: jax.Array
    votes: jax.Array


class _Model(NamedTuple):
    """What policies share."""

    start: jax.Array
    """(1, S − 1)."""
    task: jax.Array
    """(1, J − 1)."""
    sizes: jax.Array
    means: jax.Array
    spreads: jax.Array
    run_spread: jax.Array
    scores: jax.Array
    likelihood: jax.Array
    prior: jax.Array


class _Draws(NamedTuple):
    """Where the random words of a chunk come from: words of the indices of runs and of tasks."""

    run: tuple[jax.Array, jax.Array]
    task: tuple[jax.Array, jax.Array]
    key: tuple[np.uint32, np.uint32]


class _Runs(NamedTuple):
    """Runs under way, with one more axis in front for the policies."""

    state: jax.Array
    acts_next: jax.Array
    """Step of the next act; T + 1 + t for a run that ended in step t."""
    fires_from: jax.Array
    interventions: jax.Array
    fired_at: jax.Array
    """(budget, runs)."""
    first_state: jax.Array
    weights: jax.Array
    """(S, runs); (0, runs) where no policy holds beliefs."""
    seen: jax.Array
    """(window, runs)."""
    n_seen: jax.Array


class _Fixed(NamedTuple):
    """What a run keeps from start to end."""

    row: jax.Array
    """Where the rows of the task's class begin."""
    shift: jax.Array
    """Levels of the run's shift."""


type _Words = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def run_law(law: Law, *, n: int, seed: int, first: int = 0, first_task: int | None = None) -> list[SimulatedRuns]:
    """Simulate runs `first` … `first + n − 1` of a seed under every policy.

    Parameters
    ----------
    law : Law
        K policies.
    n : int
        Number of runs, ≥ 0.
    seed : int
        In [0, 2⁶⁴).
    first : int
        Index of the first run, ≥ 0; all indices below 2⁶⁴.
    first_task : int, optional
        Index of the first run's task, the next run's being the next; that of the run when not given.

    Returns
    -------
    list of SimulatedRuns
        Equal to those of `reference.run_law` to the bit.

    Raises
    ------
    ParameterError
        `seed` is outside its domain.
    """
    key = key_words(seed)
    runs = [empty_runs(law, k, n) for k in range(law.n_policies)]
    last = np.empty((law.n_policies, n), dtype=np.int32)
    mesh = Mesh(np.array(jax.devices()), ("runs",))
    whole, split = (
        NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call] # jax ships it untyped
        for axes in ((), ("runs",))
    )
    size = RUNS_PER_DEVICE * mesh.size
    begins = range(0, n, size)
    with jax.enable_x64(True):
        tables = jax.device_put(_tables(law), whole)
        chunks = []
        for begin in begins:
            indices = (first + begin, (first if first_task is None else first_task) + begin)
            run, task = (jax.device_put(_halves(index, size), split) for index in indices)
            # returns before the work is done, so that the next chunk is under way while one is fetched
            chunks.append(_simulated(*tables, _Draws(run=run, task=task, key=key), shape=_shape(law)))
    for begin, (chunk, withheld) in zip(begins, chunks, strict=True):
        part, kept = slice(begin, begin + size), min(size, n - begin)
        for k, out in enumerate(runs):
            _fetch(law, k, out, part, kept, chunk, last)
            if law.withholds[k]:
                out.withheld[part] = np.asarray(withheld[:, k, :kept]).T
    for k, out in enumerate(runs):
        spend(law, k, out, last[k])
    return runs


def _halves(first: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Low and high words of indices; beyond the last run they may pass 2⁶⁴ and wrap: that run is thrown away."""
    index = np.uint64(first) + np.arange(size, dtype=np.uint64)
    return (index & LOW).astype(np.uint32), (index >> HALF).astype(np.uint32)


def _fetch(law: Law, k: int, out: SimulatedRuns, part: slice, kept: int, chunk: _Runs, last: np.ndarray) -> None:
    """Copy what is wanted of a finished chunk under policy k, and each run's last step."""
    state, n_states = np.asarray(chunk.state[k])[:kept], law.n_states
    is_over = state >= n_states
    out.ending[part] = np.where(is_over, np.where(state == n_states, SUCCESS, FAIL), CAPPED)
    out.interventions[part] = np.asarray(chunk.interventions[k])[:kept]
    out.fired_at[part] = np.asarray(chunk.fired_at[k])[: out.fired_at.shape[1], :kept].T
    out.first_state[part] = np.asarray(chunk.first_state[k])[:kept]
    last[k, part] = np.where(is_over, np.asarray(chunk.acts_next[k])[:kept] - (law.horizon + 1), law.horizon)


def _shape(law: Law) -> _Shape:
    signals = law.signals
    return _Shape(
        budget=int(law.budget.max()),
        window=int(signals.window.max()) if np.any(signals.reading > Reading.BELIEF) else 0,
        reads_levels=bool(np.any(signals.reads_levels)),
        believes=bool(np.any(signals.reading == Reading.BELIEF)),
        withholds=bool(np.any(law.withholds)),
    )


def _tables(law: Law) -> tuple[_Model, _Policies, _Steps]:
    """The law as the program takes it."""
    signals, horizon, n_states = law.signals, law.horizon, law.n_states
    by_step = {
        "intervene": law.intervene,
        "fire": law.fire,
        "acted": law.acted,
        "is_open": law.is_open,
        "cuts": signals.cuts,
        "limits": signals.limits.astype(np.uint64),
        "moved": signals.moved.astype(np.uint64),
    }
    model = _Model(
        start=jnp.asarray(law.start[np.newaxis]),
        task=jnp.asarray(law.task[np.newaxis]),
        sizes=jnp.asarray(signals.sizes, dtype=jnp.int64),
        means=jnp.asarray(signals.means, dtype=jnp.int64),
        spreads=jnp.asarray(signals.spreads, dtype=jnp.int64),
        run_spread=jnp.asarray(signals.run_spread, dtype=jnp.int64),
        scores=jnp.asarray(signals.scores, dtype=jnp.int64),
        likelihood=jnp.asarray(signals.likelihood.T, dtype=jnp.uint64),
        prior=jnp.asarray(signals.prior, dtype=jnp.uint64),
    )
    policies = _Policies(
        budget=jnp.asarray(law.budget, dtype=jnp.int32),
        cooldown=jnp.asarray(law.cooldown, dtype=jnp.int32),
        extra_steps=jnp.asarray(law.extra_steps, dtype=jnp.int32),
        reading=jnp.asarray(signals.reading),
        window=jnp.asarray(signals.window, dtype=jnp.int32),
        votes=jnp.asarray(signals.votes),
    )
    steps = _Steps(
        t=jnp.arange(horizon, dtype=jnp.int32),
        act=jnp.asarray(np.moveaxis(law.act, 1, 0).reshape(horizon, -1, n_states + 1)),
        predict=jnp.asarray(signals.predict, dtype=jnp.uint64),
        **{name: jnp.asarray(np.moveaxis(array, 1, 0)) for name, array in by_step.items()},
    )
    return model, policies, steps


@partial(jax.jit, static_argnames="shape")
def _simulated(
    model: _Model, policies: _Policies, steps: _Steps, draws: _Draws, *, shape: _Shape
) -> tuple[_Runs, jax.Array]:
    """Runs that are over, and (T, K, runs) which triggers were withheld (K = 0 where none ever is)."""
    horizon, n_states = len(steps.t), len(model.prior)
    runs, fixed = _begun(model, policies, draws, n_states, shape)

    def step(runs: _Runs, at: _Steps) -> tuple[_Runs, jax.Array]:
        words = _words(draws.run, draws.key, at.t, Block.STEP)

        def under(policy: _Policies, runs: _Runs, at: _Steps) -> tuple[_Runs, jax.Array]:
            runs, is_watched = _acted(runs, at, words[Purpose.ACT], fixed, n_states, horizon)
            if not shape.budget:
                return runs, jnp.zeros_like(is_watched) if shape.withholds else jnp.empty(0, dtype=bool)
            is_watched &= runs.interventions < policy.budget
            runs, is_above = _signalled(model, policy, runs, at, words[Purpose.SCORE], is_watched, fixed, shape)
            is_fired = is_watched & is_above & at.is_open & (runs.fires_from <= at.t)
            is_acted = is_fired & (jnp.minimum(words[Purpose.POLICY], LAST_DRAW) < at.acted)
            runs = _intervened(runs, is_acted, policy, at, words[Purpose.MECHANISM], shape)
            return runs, is_fired & ~is_acted if shape.withholds else jnp.empty(0, dtype=bool)

        by_policy = _Steps(**{name: 0 if name in BY_POLICY else None for name in _Steps._fields})  # type: ignore[arg-type] # axes
        return jax.vmap(under, in_axes=(0, 0, by_policy))(policies, runs, at)

    return jax.lax.scan(step, runs, steps)


BY_POLICY = ("intervene", "fire", "acted", "is_open", "cuts", "limits", "moved")


def _begun(model: _Model, policies: _Policies, draws: _Draws, n_states: int, shape: _Shape) -> tuple[_Runs, _Fixed]:
    zeros = jnp.zeros(draws.run[0].shape, dtype=jnp.int32)
    words = _words(draws.run, draws.key, jnp.uint32(0), Block.RUN)
    task = _words(draws.task, draws.key, jnp.uint32(0), Block.TASK)[0]
    shift = _deviations(model, model.run_spread, words[1]) if shape.reads_levels else zeros.astype(jnp.int64)
    fixed = _Fixed(row=_outcomes(task, model.task, zeros) * n_states, shift=shift)
    weights = jnp.broadcast_to(model.prior[:, None], (n_states, *zeros.shape))
    one = _Runs(
        state=_outcomes(words[0], model.start, zeros),
        acts_next=zeros,
        fires_from=zeros,
        interventions=zeros,
        fired_at=jnp.full((shape.budget, *zeros.shape), -1, dtype=jnp.int32),
        first_state=zeros - 1,
        weights=weights if shape.believes else weights[:0],
        seen=jnp.zeros((shape.window, *zeros.shape), dtype=jnp.int64),
        n_seen=zeros,
    )
    n_policies = len(policies.budget)
    runs: _Runs = jax.tree.map(lambda it: jnp.broadcast_to(it, (n_policies, *it.shape)), one)
    return runs, fixed


def _acted(
    runs: _Runs, at: _Steps, word: jax.Array, fixed: _Fixed, n_states: int, horizon: int
) -> tuple[_Runs, jax.Array]:
    """The act of a step, with which runs it leaves live."""
    is_acting = runs.acts_next == at.t
    row = fixed.row + jnp.minimum(runs.state, n_states - 1)
    state = jnp.where(is_acting, _outcomes(word, at.act, row), runs.state)
    then = jnp.where(state < n_states, at.t + 1, horizon + 1 + at.t)
    acted = runs._replace(state=state, acts_next=jnp.where(is_acting, then, runs.acts_next))
    return acted, is_acting & (state < n_states)


def _signalled(
    model: _Model,
    policy: _Policies,
    runs: _Runs,
    at: _Steps,
    word: jax.Array,
    is_watched: jax.Array,
    fixed: _Fixed,
    shape: _Shape,
) -> tuple[_Runs, jax.Array]:
    """Whether the signal of each run is above its threshold, now that its score is known; only of watched runs."""
    is_above = jnp.minimum(word, LAST_DRAW) < jnp.take(at.fire, runs.state, mode="clip")
    if not shape.reads_levels:
        return runs, is_above
    spreads = jnp.take(model.spreads, runs.state, mode="clip")
    levels = jnp.take(model.means, runs.state, mode="clip") + _deviations(model, spreads, word) + fixed.shift
    passes = levels > at.cuts
    is_above = jnp.where(policy.reading == Reading.CHANCE, is_above, passes)
    if shape.believes:
        runs, believes = _believed(model, runs, at, levels >> CELL_BITS, is_watched)
        is_above = jnp.where(policy.reading == Reading.BELIEF, believes, is_above)
    if shape.window:
        votes = policy.reading == Reading.VOTES
        value = jnp.where(votes, passes, jnp.take(model.scores, levels >> CELL_BITS, mode="clip"))
        runs, total = _remembered(policy, runs, value, is_watched)
        mean_above = total > jnp.minimum(runs.n_seen, policy.window) * at.limits.astype(jnp.int64)
        is_above = jnp.where(policy.reading == Reading.MEAN, mean_above, is_above)
        is_above = jnp.where(votes, total >= policy.votes, is_above)
    return runs, is_above


def _deviations(model: _Model, spreads: jax.Array, word: jax.Array) -> jax.Array:
    """As `signals.deviations`."""
    quantile = (word >> np.uint32(32 - SCORE_BITS)).astype(jnp.int64)
    is_upper = quantile >= 2 ** (SCORE_BITS - 1)
    size = jnp.take(model.sizes, jnp.where(is_upper, 2**SCORE_BITS - 1 - quantile, quantile), mode="clip")
    away = (size * spreads + 2 ** (PRODUCT_BITS - 1)) >> PRODUCT_BITS
    return jnp.where(is_upper, away, -away)


def _believed(
    model: _Model, runs: _Runs, at: _Steps, cells: jax.Array, is_watched: jax.Array
) -> tuple[_Runs, jax.Array]:
    likelihood = jnp.take(model.likelihood, cells, axis=1, mode="clip")
    weights = _parts(_moved(runs.weights, at.predict), likelihood)
    total = jnp.sum(weights, axis=0)
    bits = jnp.zeros_like(total)
    for more in (16, 8, 4):
        bits += jnp.where(total << bits < np.uint64(2 ** (31 - more)), np.uint64(more), np.uint64(0))
    weights, total = weights << bits, total << bits
    believes = (total - weights[0]) << HALF > at.limits * total
    return runs._replace(weights=jnp.where(is_watched, weights, runs.weights)), believes


def _parts(weights: jax.Array, shares: jax.Array) -> jax.Array:
    """Weights times multiples of 2⁻³², rounded up."""
    return (weights * shares + LOW) >> HALF


def _moved(weights: jax.Array, moves: jax.Array) -> jax.Array:
    """Weights (S, runs) after a move (S, S)."""
    return jnp.sum(_parts(weights[:, None, :], moves[:, :, None]), axis=0)


def _remembered(policy: _Policies, runs: _Runs, value: jax.Array, is_watched: jax.Array) -> tuple[_Runs, jax.Array]:
    """Sum of the window after the newest value has taken the oldest one's place."""
    slots = jnp.arange(runs.seen.shape[0], dtype=jnp.int32)[:, None]
    is_here = is_watched & (slots == runs.n_seen % policy.window)
    seen = jnp.where(is_here, value, runs.seen)
    return runs._replace(seen=seen, n_seen=runs.n_seen + is_watched), jnp.sum(seen, axis=0)


def _intervened(
    runs: _Runs, is_fired: jax.Array, policy: _Policies, at: _Steps, word: jax.Array, shape: _Shape
) -> _Runs:
    place = jnp.arange(shape.budget, dtype=jnp.int32)[:, None]
    weights = runs.weights
    if shape.believes:
        weights = jnp.where(is_fired, _moved(weights, at.moved), weights)
    return _Runs(
        state=jnp.where(is_fired, _outcomes(word, at.intervene, runs.state), runs.state),
        acts_next=jnp.where(is_fired, at.t + 1 + policy.extra_steps, runs.acts_next),
        fires_from=jnp.where(is_fired, at.t + 1 + policy.cooldown, runs.fires_from),
        interventions=runs.interventions + is_fired,
        fired_at=jnp.where(is_fired & (place == runs.interventions), at.t, runs.fired_at),
        first_state=jnp.where(is_fired & (runs.interventions == 0), runs.state, runs.first_state),
        weights=weights,
        seen=jnp.where(is_fired, 0, runs.seen),
        n_seen=jnp.where(is_fired, 0, runs.n_seen),
    )


def _words(
    index: tuple[jax.Array, jax.Array], key: tuple[np.uint32, np.uint32], step: jax.Array, block: Block
) -> _Words:
    """The four words of each run."""
    at, use = step.astype(jnp.uint32), jnp.asarray(int(block), dtype=jnp.uint32)
    # else XLA works out the ten rounds anew for each threshold that a word is compared with
    kept: _Words = jax.lax.optimization_barrier(philox4x32((*index, at, use), key))  # type: ignore[no-untyped-call] # jax ships it untyped
    return kept


def _outcomes(word: jax.Array, thresholds: jax.Array, row: jax.Array) -> jax.Array:
    """Outcome of each word by the thresholds of its row, as `thresholds.outcomes`."""
    reached = jnp.take(thresholds.T, row, axis=1, mode="clip") <= jnp.minimum(word, LAST_DRAW)
    return jnp.sum(reached, axis=0, dtype=jnp.int32)

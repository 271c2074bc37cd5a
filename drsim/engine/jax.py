"""The engine compiled by JAX, for CPUs and GPUs: one step of many runs at a time, the same bits as `reference`.

Runs go in chunks of one size to one program, the last chunk filled up with runs that are thrown away. So there is one
program for each shape of a law (steps, states, budget, whether runs share a shift), whatever the policy, the seed and
the number of runs. The runs of a chunk are shared out over all devices; nothing passes between them.

Random words and thresholds are integers of 32 bits. Two quantities are float64, inside the calls of this module only
and whatever the process has chosen elsewhere: tokens, which are only added, step after step; and, where runs share a
shift, the cut of a score. What the shift takes off a cut is multiplied out by NumPy, so that the device is left one
subtraction and one comparison: a compiler may round a product and a difference once where the other engines round
twice. Devices that take subnormal numbers for 0 change nothing, because the score nearest to 0 is 2·10⁻⁵ away.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from drsim.engine.law import SCORE_BITS, Law
from drsim.engine.random import Purpose, key_words
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs
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
LEVEL = np.uint32(32 - SCORE_BITS)
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)


class _Steps(NamedTuple):
    """What `Law` has by step, the first axis of every array."""

    t: jax.Array
    act: jax.Array
    intervene: jax.Array
    fire: jax.Array
    cuts: jax.Array
    tokens: jax.Array
    critic_tokens: jax.Array


class _Numbers(NamedTuple):
    """A law as the program takes it."""

    start: jax.Array
    """(1, S − 1)."""
    steps: _Steps
    scores: jax.Array
    taken_off: jax.Array
    """(S, 2^SCORE_BITS) what each shift takes off a cut; (S, 0) where none is shared."""
    mechanism_tokens: jax.Array
    cooldown: jax.Array
    extra_steps: jax.Array


class _Draws(NamedTuple):
    """Where the random words of a chunk come from."""

    low: jax.Array
    high: jax.Array
    """Words of the runs' indices."""
    key: tuple[np.uint32, np.uint32]


class _Chunk(NamedTuple):
    """Runs under way."""

    state: jax.Array
    acts_next: jax.Array
    """Step of the next act; T, which never comes, once a run has ended."""
    fires_from: jax.Array
    acts: jax.Array
    interventions: jax.Array
    fired_at: jax.Array
    """(budget, runs)."""
    tokens: jax.Array


class _Results(NamedTuple):
    """Runs that are over; fields as in `SimulatedRuns`, but for the order of the axes of `fired_at`."""

    ending: jax.Array
    acts: jax.Array
    interventions: jax.Array
    fired_at: jax.Array
    tokens: jax.Array


def run_law(law: Law, *, n: int, seed: int, first: int = 0) -> SimulatedRuns:
    """Simulate runs `first` … `first + n − 1` of a seed.

    Parameters
    ----------
    law : Law
        T steps, S live states.
    n : int
        Number of runs, ≥ 0.
    seed : int
        In [0, 2⁶⁴).
    first : int
        Index of the first run, ≥ 0; all indices below 2⁶⁴.

    Returns
    -------
    SimulatedRuns
        Equal to those of `reference.run_law` to the bit.

    Raises
    ------
    ParameterError
        `seed` is outside its domain.
    """
    runs = empty_runs(law, n)
    key = key_words(seed)
    mesh = Mesh(np.array(jax.devices()), ("runs",))
    whole, split = (
        NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call] # jax ships it untyped
        for axes in ((), ("runs",))
    )
    size = RUNS_PER_DEVICE * mesh.size
    begins = range(0, n, size)
    with jax.enable_x64(True):
        numbers = _numbers(law, whole)
        chunks = []
        for begin in begins:
            # beyond the last run an index may pass 2⁶⁴ and wrap: that run is thrown away
            index = np.uint64(first + begin) + np.arange(size, dtype=np.uint64)
            draws = _Draws(
                low=jax.device_put((index & LOW).astype(np.uint32), split),
                high=jax.device_put((index >> HALF).astype(np.uint32), split),
                key=key,
            )
            # returns before the work is done, so that the next chunk is under way while one is fetched
            chunks.append(_simulated(numbers, draws, budget=law.budget))
    for begin, chunk in zip(begins, chunks, strict=True):
        part, kept = slice(begin, begin + size), min(size, n - begin)
        runs.ending[part] = np.asarray(chunk.ending)[:kept]
        runs.acts[part] = np.asarray(chunk.acts)[:kept]
        runs.interventions[part] = np.asarray(chunk.interventions)[:kept]
        runs.fired_at[part] = np.asarray(chunk.fired_at)[:, :kept].T
        runs.tokens[part] = np.asarray(chunk.tokens)[:kept]
    return runs


def _numbers(law: Law, everywhere: NamedSharding) -> _Numbers:
    """The law on every device."""
    horizon = len(law.fire)
    put = partial(jax.device_put, device=everywhere)
    return _Numbers(
        start=put(law.start[np.newaxis]),
        steps=_Steps(
            t=put(np.arange(horizon, dtype=np.int32)),
            act=put(law.act),
            intervene=put(law.intervene),
            fire=put(law.fire),
            cuts=put(law.cuts),
            tokens=put(law.tokens),
            critic_tokens=put(law.critic_tokens),
        ),
        scores=put(law.scores),
        taken_off=put(law.shift[:, np.newaxis] * law.scores),
        mechanism_tokens=put(np.float64(law.mechanism_tokens)),
        cooldown=put(np.int32(law.cooldown)),
        extra_steps=put(np.int32(min(law.extra_steps, horizon))),
    )


@partial(jax.jit, static_argnames="budget")
def _simulated(law: _Numbers, draws: _Draws, *, budget: int) -> _Results:
    n_states = len(law.taken_off)
    runs = _begun(law, draws, budget)
    taken_off = _own_cuts(law, draws)

    def step(runs: _Chunk, at: _Steps) -> tuple[_Chunk, None]:
        runs, scored = _acted(runs, at, draws, n_states, len(law.steps.t))
        if budget:
            fired = scored & (runs.interventions < budget) & (runs.fires_from <= at.t)
            fired &= _is_above(law, at, draws, runs.state, taken_off)
            runs = _intervened(runs, fired, law, at, draws)
        return runs, None

    runs, _ = jax.lax.scan(step, runs, law.steps)
    ended = jnp.where(runs.state == n_states, SUCCESS, FAIL)
    return _Results(
        ending=jnp.where(runs.state < n_states, CAPPED, ended),
        acts=runs.acts,
        interventions=runs.interventions,
        fired_at=runs.fired_at,
        tokens=runs.tokens,
    )


def _begun(law: _Numbers, draws: _Draws, budget: int) -> _Chunk:
    zeros = jnp.zeros(draws.low.shape, dtype=jnp.int32)
    return _Chunk(
        state=_outcomes(_word(draws, 0, Purpose.START), law.start, zeros),
        acts_next=zeros,
        fires_from=zeros,
        acts=zeros,
        interventions=zeros,
        fired_at=jnp.full((budget, *zeros.shape), -1, dtype=jnp.int32),
        tokens=zeros.astype(jnp.float64),
    )


def _own_cuts(law: _Numbers, draws: _Draws) -> jax.Array:
    """(S, runs) what the shift of each run takes off its cuts; (S, 0) where none is shared."""
    if not law.scores.size:
        return jnp.asarray(law.taken_off)
    return jnp.take(law.taken_off, _word(draws, 0, Purpose.RUN_SHIFT) >> LEVEL, axis=1, mode="clip")


def _acted(runs: _Chunk, at: _Steps, draws: _Draws, n_states: int, horizon: int) -> tuple[_Chunk, jax.Array]:
    """The act of a step and the cost of scoring, with which runs are scored."""
    acting = runs.acts_next == at.t
    state = jnp.where(acting, _outcomes(_word(draws, at.t, Purpose.ACT), at.act, runs.state), runs.state)
    scored = acting & (state < n_states)
    tokens = jnp.where(acting, runs.tokens + at.tokens, runs.tokens)
    acted = runs._replace(
        state=state,
        acts_next=jnp.where(acting, jnp.where(scored, at.t + 1, horizon), runs.acts_next),
        acts=runs.acts + acting,
        tokens=jnp.where(scored, tokens + at.critic_tokens, tokens),
    )
    return acted, scored


def _is_above(law: _Numbers, at: _Steps, draws: _Draws, state: jax.Array, taken_off: jax.Array) -> jax.Array:
    """Whether the score of the step would fire, in runs that are scored; of no meaning in others."""
    word = _word(draws, at.t, Purpose.SCORE)
    if not law.scores.size:
        return jnp.minimum(word, LAST_DRAW) < jnp.take(at.fire, state, mode="clip")
    own = jnp.take_along_axis(taken_off, state[np.newaxis], axis=0, mode="clip")[0]
    return jnp.take(law.scores, word >> LEVEL, mode="clip") > jnp.take(at.cuts, state, mode="clip") - own


def _intervened(runs: _Chunk, fired: jax.Array, law: _Numbers, at: _Steps, draws: _Draws) -> _Chunk:
    moved = _outcomes(_word(draws, at.t, Purpose.MECHANISM), at.intervene, runs.state)
    place = jnp.arange(len(runs.fired_at), dtype=jnp.int32)[:, np.newaxis]
    return _Chunk(
        state=jnp.where(fired, moved, runs.state),
        acts_next=jnp.where(fired, at.t + 1 + law.extra_steps, runs.acts_next),
        fires_from=jnp.where(fired, at.t + 1 + law.cooldown, runs.fires_from),
        acts=runs.acts,
        interventions=runs.interventions + fired,
        fired_at=jnp.where(fired & (place == runs.interventions), at.t, runs.fired_at),
        tokens=jnp.where(fired, runs.tokens + law.mechanism_tokens, runs.tokens),
    )


def _word(draws: _Draws, step: jax.Array | int, purpose: Purpose) -> jax.Array:
    """One random word of each run."""
    at, use = jnp.asarray(step, dtype=jnp.uint32), jnp.asarray(int(purpose), dtype=jnp.uint32)
    word = philox4x32((draws.low, draws.high, at, use), draws.key)[0]
    # else XLA works out the ten rounds anew for each threshold that a word is compared with
    kept: jax.Array = jax.lax.optimization_barrier(word)  # type: ignore[no-untyped-call] # jax ships it untyped
    return kept


def _outcomes(word: jax.Array, thresholds: jax.Array, state: jax.Array) -> jax.Array:
    """Outcome of each word by the thresholds of its run's state, as `thresholds.outcomes`."""
    reached = jnp.take(thresholds.T, state, axis=1, mode="clip") <= jnp.minimum(word, LAST_DRAW)
    return jnp.sum(reached, axis=0, dtype=jnp.int32)

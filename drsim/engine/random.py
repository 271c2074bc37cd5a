r"""Random words that are a pure function of (seed, run, step, purpose): Philox4x32-10 in NumPy.

A counter-based generator has no state to carry: the words of a run at a step are computed from their address, so no
chunking, order, engine or number of threads can change them, and policies compared on one seed share their draws
(THEORY.md section 4, "Random numbers"). Philox turns a counter of four 32-bit words and a key of two into four words by
ten rounds of

.. math:: (c_0, c_1, c_2, c_3) \to (h_2 ⊕ c_1 ⊕ k_0,\; l_2,\; h_0 ⊕ c_3 ⊕ k_1,\; l_0)

where h₀, l₀ are the upper and lower word of the 64-bit product M₀c₀, h₂, l₂ those of M₁c₂, and k + W is the next
round's key. Here

    counter = (run mod 2³², run div 2³², step, block)     key = (seed mod 2³², seed div 2³²)

so that different addresses under one seed give different blocks of four words, always: a round can be undone, hence the
ten rounds are a permutation of the counters. A purpose is one of the four words of one kind of block: what a run may
need in a step costs one block, not one for each purpose. `random_numba` and `random_jax` compute the same words.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11 (2011),
doi:10.1145/2063384.2063405: the generator, its constants and its tests. `numpy.random.Philox` is Philox4x64-10, another
member of the family, with other words.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsim.arrays import ArrayLike
from drsim.errors import ParameterError

__all__ = [
    "ROUNDS",
    "Block",
    "Purpose",
    "WordArray",
    "addresses",
    "draw_block",
    "draw_words",
    "key_words",
    "philox4x32",
]

type WordArray = NDArray[np.uint32]
"""32-bit words."""

type Words4 = tuple[WordArray, WordArray, WordArray, WordArray]

ROUNDS = 10
"""The authors' default; 7 already pass BigCrush (SC'11, table 2), the rest is their margin."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
"""M₀ and M₁ of the 4x32 form (SC'11, section 3.3), chosen by the authors for their avalanche."""

KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
"""W₀ and W₁, what the key words grow by from round to round: 2³² times the golden ratio − 1 and √3 − 1."""

HALF = 32
LOW_WORD = 2**HALF - 1

CHUNK = 16384
"""Addresses computed at a time: with 8-byte intermediates, the half dozen alive at once fit a second-level cache."""

WORDS_OF_BLOCK = 4


class Block(IntEnum):
    """Kinds of blocks: the last word of a counter, so that no two uses can meet in one draw.

    A value may never change: it would change every simulated run.
    """

    STEP = 0
    """Of one run in one step."""
    RUN = 1
    """Of one run; at step 0."""
    TASK = 2
    """Of one task; at step 0, with the task's index in the place of the run's."""


class Purpose(IntEnum):
    """What one word is for: 4 · block + its place in the block. A value may never change, as those of `Block`."""

    ACT = 0
    """What the agent's step does: finish, slip, abandon, self-recover."""
    SCORE = 1
    """The critic's score of a step, or directly whether it fires."""
    MECHANISM = 2
    """What an intervention does: disrupt, recover, and to which mode."""
    POLICY = 3
    """A policy's own coin: propensities."""
    START = 4
    """State in which a run starts."""
    RUN_SHIFT = 5
    """The shift shared by all scores of a run."""
    TASK = 8
    """The effect of a task."""

    @property
    def block(self) -> Block:
        """The kind of block."""
        return Block(self // WORDS_OF_BLOCK)

    @property
    def place(self) -> int:
        """Which of the block's words, 0 to 3."""
        return self % WORDS_OF_BLOCK


def philox4x32(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any], rounds: int = ROUNDS) -> Words4:
    """Philox4x32 on arrays of words.

    Parameters
    ----------
    counter : tuple of four uint32 arrays
        Broadcast against one another and against `key`.
    key : tuple of two uint32 arrays
    rounds : int
        10 for drsim's draws; fewer only to compare with published answers and to test that tests can fail.

    Returns
    -------
    tuple of four uint32 arrays
    """
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    w0, w1 = (np.uint64(w) for w in KEY_STEPS)
    half, low = np.uint64(HALF), np.uint64(LOW_WORD)
    c0, c1, c2, c3 = (np.asarray(word, dtype=np.uint64) for word in counter)
    k0, k1 = (np.asarray(word, dtype=np.uint64) for word in key)
    for _ in range(rounds):
        even, odd = m0 * c0, m1 * c2
        c0, c1, c2, c3 = (odd >> half) ^ c1 ^ k0, odd & low, (even >> half) ^ c3 ^ k1, even & low
        k0, k1 = (k0 + w0) & low, (k1 + w1) & low
    return c0.astype(np.uint32), c1.astype(np.uint32), c2.astype(np.uint32), c3.astype(np.uint32)


def key_words(seed: int) -> tuple[np.uint32, np.uint32]:
    """The key of a seed: its low and its high word.

    Parameters
    ----------
    seed : int
        In [0, 2⁶⁴).

    Raises
    ------
    ParameterError
        `seed` is no whole number or outside its domain.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ParameterError(f"seed must be a whole number in [0, 2^64), got {seed!r}; give for example 1")
    return np.uint32(int(seed) & LOW_WORD), np.uint32(int(seed) >> HALF)


def addresses(run: ArrayLike, step: ArrayLike, block: ArrayLike) -> Words4:
    """The counters of runs, steps and blocks, broadcast to one shape.

    Parameters
    ----------
    run : array_like of int
        In [0, 2⁶⁴).
    step, block : array_like of int
        In [0, 2³²).

    Returns
    -------
    tuple of four uint32 arrays
        Low and high word of the run, step, block; views that may not be written to.

    Raises
    ------
    ParameterError
        A value is no whole number or outside its domain, or the shapes do not broadcast.
    """
    runs = _whole("run", run, 64)
    steps, blocks = _whole("step", step, 32), _whole("block", block, 32)
    parts = (runs & np.uint64(LOW_WORD), runs >> np.uint64(HALF), steps, blocks)
    try:
        low, high, at, use = np.broadcast_arrays(*(part.astype(np.uint32) for part in parts))
    except ValueError:
        shapes = f"{runs.shape}, {steps.shape}, {blocks.shape}"
        raise ParameterError(
            f"run, step and block must have shapes that broadcast, got {shapes}; give scalars or equal shapes"
        ) from None
    return low, high, at, use


def draw_block(run: ArrayLike, step: ArrayLike, block: ArrayLike, *, seed: int) -> WordArray:
    """Four random words for each (run, step, block) under `seed`.

    Parameters
    ----------
    run : array_like of int
        Index of the run, in [0, 2⁶⁴).
    step, block : array_like of int
        In [0, 2³²); `block` is a `Block`.
    seed : int
        In [0, 2⁶⁴).

    Returns
    -------
    ndarray of uint32
        Shape (4, …) with … what run, step and block broadcast to; each word uniform on 0 … 2³² − 1.

    Raises
    ------
    ParameterError
        A value is no whole number or outside its domain, or the shapes do not broadcast.
    """
    counter, key = addresses(run, step, block), key_words(seed)
    shape = counter[0].shape
    low, high, at, use = (word.reshape(-1) for word in counter)
    out = np.empty((4, low.size), dtype=np.uint32)
    for start in range(0, low.size, CHUNK):
        part = slice(start, start + CHUNK)
        out[:, part] = philox4x32((low[part], high[part], at[part], use[part]), key)
    return out.reshape(4, *shape)


def draw_words(run: ArrayLike, step: ArrayLike, purpose: Purpose, *, seed: int) -> WordArray:
    """The random word for each (run, step, purpose) under `seed`.

    Parameters
    ----------
    run : array_like of int
        Index of the run, or of the task, in [0, 2⁶⁴).
    step : array_like of int
        In [0, 2³²).
    purpose : Purpose
        What the word is for.
    seed : int
        In [0, 2⁶⁴).

    Returns
    -------
    ndarray of uint32
        Shape … of what run and step broadcast to; uniform on 0 … 2³² − 1.

    Raises
    ------
    ParameterError
        A value is no whole number or outside its domain, or the shapes do not broadcast.
    """
    words: WordArray = draw_block(run, step, purpose.block, seed=seed)[purpose.place]
    return words


def _whole(name: str, value: ArrayLike, bits: int) -> NDArray[np.uint64]:
    """`value` as uint64 after checking that it holds whole numbers in [0, 2^bits)."""
    rule = f"{name} must hold whole numbers in [0, 2^{bits})"
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{rule}, got {value!r}; give whole numbers") from None
    if given.dtype.kind not in "iu":
        # beyond 64 bits NumPy falls back to objects or floats, so those land here too
        shown = given.flat[0] if given.size else value
        raise ParameterError(f"{rule}, got {shown} ({given.dtype}); give integers, counted from 0")
    outside = (given < 0) | (given > 2**bits - 1) if bits < 64 else given < 0
    if np.any(outside):
        raise ParameterError(f"{rule}, got {given[outside].flat[0]}; count from 0")
    return given.astype(np.uint64)

"""The words of `drsim.engine.random`, compiled by Numba: a scalar function for kernels, and the same public function.

`philox4x32` takes and gives scalars, holds no state and allocates nothing, so a kernel can call it in a loop over runs,
serial or `prange`. Numba copies it into every caller: where LLVM inlines a call by itself, that comes too late for its
loop vectoriser, and a loop such as `fill_words` then takes more than three times as long.
"""

import numpy as np

from drsim.arrays import ArrayLike
from drsim.engine.compiled import compiled, inlined
from drsim.engine.random import HALF, KEY_STEPS, MULTIPLIERS, ROUNDS, WordArray, addresses, key_words

__all__ = ["draw_block", "fill_words", "philox4x32"]

type Word = np.uint32

M0, M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
W0, W1 = np.uint32(KEY_STEPS[0]), np.uint32(KEY_STEPS[1])
SHIFT = np.uint64(HALF)


@inlined
def philox4x32(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, Word, Word, Word]:
    """Philox4x32-10 of one counter.

    Parameters
    ----------
    counter : tuple of four uint32
        Low and high word of the run, step, block.
    key : tuple of two uint32
        From `drsim.engine.random.key_words`.

    Returns
    -------
    tuple of four uint32
    """
    c0, c1, c2, c3 = np.uint32(counter[0]), np.uint32(counter[1]), np.uint32(counter[2]), np.uint32(counter[3])
    k0, k1 = np.uint32(key[0]), np.uint32(key[1])
    for _ in range(ROUNDS):
        even, odd = M0 * np.uint64(c0), M1 * np.uint64(c2)
        # Numba widens 32-bit operands to 64 bits, so each result is cut back
        c0, c1 = np.uint32(np.uint32(odd >> SHIFT) ^ c1 ^ k0), np.uint32(odd)
        c2, c3 = np.uint32(np.uint32(even >> SHIFT) ^ c3 ^ k1), np.uint32(even)
        k0, k1 = np.uint32(k0 + W0), np.uint32(k1 + W1)
    return c0, c1, c2, c3


@compiled
def fill_words(
    low: WordArray, high: WordArray, step: WordArray, block: WordArray, key: tuple[Word, Word], out: WordArray
) -> None:
    """Fill `out` (4, n) with the words of n counters given by their four words, each of shape (n,)."""
    for i in range(low.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = philox4x32((low[i], high[i], step[i], block[i]), key)


def draw_block(run: ArrayLike, step: ArrayLike, block: ArrayLike, *, seed: int) -> WordArray:
    """Four random words for each (run, step, block): `drsim.engine.random.draw_block`, compiled.

    Parameters
    ----------
    run, step, block : array_like of int
        In [0, 2⁶⁴), [0, 2³²), [0, 2³²).
    seed : int
        In [0, 2⁶⁴).

    Returns
    -------
    ndarray of uint32
        Shape (4, …) with … what run, step and block broadcast to.

    Raises
    ------
    ParameterError
        A value is no whole number or outside its domain, or the shapes do not broadcast.
    """
    counter, key = addresses(run, step, block), key_words(seed)
    shape = counter[0].shape
    low, high, at, use = (np.ascontiguousarray(word).reshape(-1) for word in counter)
    out = np.empty((4, low.size), dtype=np.uint32)
    fill_words(low, high, at, use, key, out)
    return out.reshape(4, *shape)

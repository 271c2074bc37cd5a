"""The words of `drsim.engine.random` in JAX, on 32-bit integers only, so that the 64-bit mode need not be switched on.

`philox4x32` is a plain function of arrays, to be used under `jit`, `vmap` and `scan`. It has no loop of its own: a loop
would keep the compiler from fusing the rounds, and all words would go through memory ten times. Use the four words one
by one: stacked or concatenated within the same program, XLA on the CPU works out all ten rounds anew for each of them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from drsim.arrays import ArrayLike
from drsim.engine.random import KEY_STEPS, MULTIPLIERS, ROUNDS, addresses, key_words

__all__ = ["draw_block", "philox4x32"]

type Words2 = tuple[jax.Array | np.uint32, jax.Array | np.uint32]
type Words4 = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

QUARTER = np.uint32(16)
LOW_HALF = np.uint32(2**16 - 1)


def philox4x32(counter: Words4, key: Words2) -> Words4:
    """Philox4x32-10 on arrays of words.

    Parameters
    ----------
    counter : tuple of four uint32 arrays
        Low and high word of the run, step, block; broadcast against one another.
    key : tuple of two uint32 arrays or scalars
        From `drsim.engine.random.key_words`.

    Returns
    -------
    tuple of four uint32 arrays
    """
    c0, c1, c2, c3 = (jnp.asarray(word, dtype=jnp.uint32) for word in counter)
    k0, k1 = (jnp.asarray(word, dtype=jnp.uint32) for word in key)
    m0, m1 = (np.uint32(m) for m in MULTIPLIERS)
    w0, w1 = (np.uint32(w) for w in KEY_STEPS)
    for _ in range(ROUNDS):
        c0, c1, c2, c3 = (
            _high_product(c2, m1) ^ c1 ^ k0,
            c2 * m1,
            _high_product(c0, m0) ^ c3 ^ k1,
            c0 * m0,
        )
        k0, k1 = k0 + w0, k1 + w1
    return c0, c1, c2, c3


_philox4x32 = jax.jit(philox4x32)


def draw_block(run: ArrayLike, step: ArrayLike, block: ArrayLike, *, seed: int) -> jax.Array:
    """Four random words for each (run, step, block): `drsim.engine.random.draw_block` on JAX's device.

    Parameters
    ----------
    run, step, block : array_like of int
        In [0, 2⁶⁴), [0, 2³²), [0, 2³²); taken apart into 32-bit words before they reach the device.
    seed : int
        In [0, 2⁶⁴).

    Returns
    -------
    jax.Array of uint32
        Shape (4, …) with … what run, step and block broadcast to.

    Raises
    ------
    ParameterError
        A value is no whole number or outside its domain, or the shapes do not broadcast.
    """
    low, high, at, use = (jnp.asarray(word) for word in addresses(run, step, block))
    # stacked outside the compiled program: inside it, twenty times slower
    return jnp.stack(_philox4x32((low, high, at, use), key_words(seed)))


def _high_product(words: jax.Array, multiplier: np.uint32) -> jax.Array:
    """Upper 32 bits of the 64-bit products, by halves of 16 bits.

    With w = 2¹⁶a + b and m = 2¹⁶c + d no sum below reaches 2³²: (2¹⁶ − 1)² + 2(2¹⁶ − 1) = 2³² − 1.
    """
    a, b = words >> QUARTER, words & LOW_HALF
    c, d = multiplier >> QUARTER, multiplier & LOW_HALF
    middle = a * d + (b * d >> QUARTER)
    carry = b * c + (middle & LOW_HALF)
    return a * c + (middle >> QUARTER) + (carry >> QUARTER)

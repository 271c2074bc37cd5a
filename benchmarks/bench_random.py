"""Random words per second: NumPy, Numba and JAX by address, and the same generator inside a compiled loop.

The ratios are against `numpy.random.Philox(...).random_raw`, a sequential 4x64 relative of the same paper, counted in
32-bit words and measured in the same run. All rows that can be compared are asserted equal. JAX takes all cores,
the others one.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numba
import numpy as np

from drsim.engine import random, random_jax, random_numba
from drsim.engine.random import Block, WordArray, addresses, key_words

STEP, SEED = 3, 2**40 + 1


@numba.njit(nogil=True)
def folded_by_numba(n: int, step: np.uint32, block: np.uint32, key: tuple[np.uint32, np.uint32]) -> np.uint32:
    """XOR of all words of n runs: the generator as a kernel uses it, with no array of words."""
    total = np.uint32(0)
    for run in range(n):
        a, b, c, d = random_numba.philox4x32((np.uint32(run), np.uint32(0), step, block), key)
        total ^= a ^ b ^ c ^ d
    return total


@jax.jit
def folded_by_jax(low: jax.Array, key: tuple[np.uint32, np.uint32]) -> jax.Array:
    """The same XOR, of runs that lie on the device."""
    high, step, use = (jnp.full_like(low, word) for word in (0, STEP, Block.STEP))
    a, b, c, d = random_jax.philox4x32((low, high, step, use), key)
    total: jax.Array = jax.lax.reduce(a ^ b ^ c ^ d, np.uint32(0), jax.lax.bitwise_xor, (0,))
    return total


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """Shortest of `repeats` calls after one that compiles."""
    wait: Callable[[object], object] = jax.block_until_ready  # carries no types
    wait(call())
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        wait(call())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def check(run: np.ndarray, expected: WordArray) -> None:
    """All engines give the same words, and the loops the same XOR."""
    for draw in (random_numba.draw_block, random_jax.draw_block):
        np.testing.assert_array_equal(draw(run, STEP, Block.STEP, seed=SEED), expected)
    folded = np.bitwise_xor.reduce(expected, axis=None)
    assert folded == folded_by_numba(run.size, np.uint32(STEP), np.uint32(Block.STEP), key_words(SEED))
    assert folded == folded_by_jax(jnp.asarray(run, dtype=jnp.uint32), key_words(SEED))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000, help="blocks of four words")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    n, repeats = arguments.runs, arguments.repeats
    run, key = np.arange(n), key_words(SEED)
    check(run, random.draw_block(run, STEP, Block.STEP, seed=SEED))

    low, high, step, use = (np.ascontiguousarray(word) for word in addresses(run, STEP, Block.STEP))
    on_device = jnp.asarray(low)
    out = np.empty((4, n), dtype=np.uint32)
    sequential = np.random.Philox(SEED)
    at, block = np.uint32(STEP), np.uint32(Block.STEP)
    calls: tuple[tuple[str, Callable[[], object]], ...] = (
        ("numpy.random.Philox raw", lambda: sequential.random_raw(2 * n)),
        ("numpy draw_block", lambda: random.draw_block(run, STEP, Block.STEP, seed=SEED)),
        ("numba draw_block", lambda: random_numba.draw_block(run, STEP, Block.STEP, seed=SEED)),
        ("numba fill_words", lambda: random_numba.fill_words(low, high, step, use, key, out)),
        ("numba in a loop", lambda: folded_by_numba(n, at, block, key)),
        ("jax draw_block", lambda: random_jax.draw_block(run, STEP, Block.STEP, seed=SEED)),
        ("jax in a program", lambda: folded_by_jax(on_device, key)),
    )
    rates = {name: 4 * n / best_seconds(call, repeats) for name, call in calls}
    reference = rates["numpy.random.Philox raw"]
    print(f"{n:,} addresses, four 32-bit words each; answers equal")
    for name, rate in rates.items():
        print(f"{name:<24} {rate / 1e6:8.0f} M words/s   ratio {rate / reference:5.2f}")


if __name__ == "__main__":
    main()

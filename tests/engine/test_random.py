"""Philox: known answers, the same words in every engine, and statistics that broken generators must fail."""

import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from drsim.engine import random, random_jax, random_numba
from drsim.engine.random import Block, Purpose, WordArray, key_words, philox4x32
from drsim.errors import ParameterError

ENGINES: dict[str, Callable[..., Any]] = {
    "numpy": random.draw_block,
    "numba": random_numba.draw_block,
    "jax": random_jax.draw_block,
}
ALPHA = 1e-6
"""Level of each statistic, two-sided; as |z|, 4.9."""

# tests/kat_vectors of the Random123 distribution, version 1.14.0, lines "philox4x32": counter, key, answer
PI = "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0"
ZEROS = "00000000 00000000 00000000 00000000", "00000000 00000000"
ONES = "ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff"
KNOWN = [
    (10, *ZEROS, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (10, *ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (10, *PI, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    (7, *ZEROS, "5f6fb709 0d893f64 4f121f81 4f730a48"),
    (7, *ONES, "5207ddc2 45165e59 4d8ee751 8c52f662"),
    (7, *PI, "4dfccaba 190a87f0 c47362ba b6b5242a"),
]

RUNS = (0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1)
WORDS = (0, 1, 6, 2**31, 2**32 - 1)
SEEDS = (0, 1, 2**32 - 1, 2**32, 2**64 - 1)


def numbers(line: str) -> list[int]:
    return [int(word, 16) for word in line.split()]


def by_hand(run: int, step: int, block: int, seed: int) -> list[int]:
    """The rounds of the paper in whole numbers of any size."""
    low = 2**32
    c = [run % low, run // low, step, block]
    k = [seed % low, seed // low]
    for _ in range(10):
        even, odd = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [odd // low ^ c[1] ^ k[0], odd % low, even // low ^ c[3] ^ k[1], even % low]
        k = [(k[0] + 0x9E3779B9) % low, (k[1] + 0xBB67AE85) % low]
    return c


@pytest.mark.parametrize(("rounds", "counter", "key", "answer"), KNOWN)
def test_published_answers_in_numpy(rounds: int, counter: str, key: str, answer: str) -> None:
    c0, c1, c2, c3 = numbers(counter)
    k0, k1 = numbers(key)
    assert [int(word) for word in philox4x32((c0, c1, c2, c3), (k0, k1), rounds)] == numbers(answer)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rounds", "counter", "key", "answer"), KNOWN[:3])
def test_published_answers_by_address(engine: str, rounds: int, counter: str, key: str, answer: str) -> None:
    assert rounds == random.ROUNDS
    c0, c1, c2, c3 = numbers(counter)
    k0, k1 = numbers(key)
    got = ENGINES[engine](c0 + 2**32 * c1, c2, c3, seed=k0 + 2**32 * k1)
    assert got.shape == (4,)
    assert got.dtype == np.uint32
    assert [int(word) for word in got] == numbers(answer)


@pytest.mark.parametrize("seed", SEEDS)
def test_engines_agree_on_edges(seed: int) -> None:
    corners = list(itertools.product(RUNS, WORDS, WORDS))
    run, step, block = (np.array(part, dtype=np.uint64) for part in zip(*corners, strict=True))
    expected = np.array([by_hand(*corner, seed) for corner in corners], dtype=np.uint32).T
    for engine, draw in ENGINES.items():
        np.testing.assert_array_equal(draw(run, step, block, seed=seed), expected, err_msg=engine)


def test_engines_agree_at_random_and_whatever_the_shape() -> None:
    rng = np.random.default_rng(1)
    run = rng.integers(0, 2**64, (50, 1, 40), dtype=np.uint64)
    step = rng.integers(0, 2**32, (3, 1))
    for seed in rng.integers(0, 2**64, 5, dtype=np.uint64):
        expected = random.draw_block(run, step, Block.STEP, seed=int(seed))
        assert expected.shape == (4, 50, 3, 40)
        assert [int(word) for word in expected[:, 7, 2, 5]] == by_hand(int(run[7, 0, 5]), int(step[2, 0]), 0, int(seed))
        for engine, draw in ENGINES.items():
            np.testing.assert_array_equal(draw(run, step, Block.STEP, seed=int(seed)), expected, err_msg=engine)
    for draw in ENGINES.values():
        assert draw(np.arange(0), 0, 0, seed=1).shape == (4, 0)


def test_jax_needs_no_64_bit_mode_and_does_not_mind_it() -> None:
    run = np.arange(2**32 - 50, 2**32 + 50)
    expected = random.draw_block(run, 3, Block.STEP, seed=2**40)
    for wide in (False, True):
        with jax.enable_x64(wide):
            found = random_jax.draw_block(run, 3, Block.STEP, seed=2**40)
            assert found.dtype == jnp.uint32
            np.testing.assert_array_equal(found, expected)


def test_xla_has_the_same_generator() -> None:
    """XLA's Philox on the CPU counts in the counter's lower half and repeats the key in its upper half."""
    key, first, n = (0x12345678, 0x9ABCDEF0), 2**32 - 100, 1000
    state = jnp.array([*key, first, 7], dtype=jnp.uint32)
    draw: Any = jax.lax.rng_bit_generator
    _, stream = draw(state, (n, 4), dtype=jnp.uint32, algorithm=jax.lax.RandomAlgorithm.RNG_PHILOX)
    run = np.arange(first, first + n, dtype=np.uint64) + np.uint64(7 * 2**32)
    np.testing.assert_array_equal(np.asarray(stream).T, random.draw_block(run, *key, seed=key[0] + 2**32 * key[1]))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_chunks_and_threads_change_nothing(engine: str, threads: int) -> None:
    n, draw = 20_000, ENGINES[engine]
    expected = random.draw_block(np.arange(n), 4, Block.STEP, seed=9)
    for chunk in (2500, 7001):
        parts = [np.arange(start, min(start + chunk, n)) for start in range(0, n, chunk)]
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(lambda part: np.asarray(draw(part, 4, Block.STEP, seed=9)), parts))
        np.testing.assert_array_equal(np.concatenate(done, axis=1), expected)


PRANGE = """
import hashlib, json, numba, numpy as np
from drsim.engine.random import key_words
from drsim.engine.random_numba import philox4x32

@numba.njit(parallel=True)
def fill(first, key, out):
    for i in numba.prange(out.shape[0]):
        run = np.uint64(first + i)
        for step in range(out.shape[1]):
            counter = (np.uint32(run), np.uint32(run >> np.uint64(32)), np.uint32(step), np.uint32(0))
            out[i, step, 0], out[i, step, 1], out[i, step, 2], out[i, step, 3] = philox4x32(counter, key)

found = []
for threads in (1, 2, 3):
    numba.set_num_threads(threads)
    out = np.zeros((1000, 30, 4), np.uint32)
    fill(np.uint64(2**32 - 500), key_words(5), out)
    found.append(hashlib.sha256(out.astype('<u4').tobytes()).hexdigest())
print(json.dumps(found))
"""


def test_numba_kernels_draw_alike_on_any_number_of_threads() -> None:
    run, step = np.arange(2**32 - 500, 2**32 + 500)[:, np.newaxis], np.arange(30)
    words = np.moveaxis(random.draw_block(run, step, Block.STEP, seed=5), 0, -1)
    expected = hashlib.sha256(np.ascontiguousarray(words, dtype="<u4").tobytes()).hexdigest()
    environment = {**os.environ, "NUMBA_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", PRANGE], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [expected] * 3


def test_light_modules_load_no_compiler() -> None:
    code = "import sys, drsim.engine.random, drsim.engine.thresholds; print({'numba', 'jax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": -1}, r"run must hold whole numbers in \[0, 2\^64\), got -1"),
        ({"run": 2**64}, "run must hold whole numbers"),
        ({"run": [0.5]}, "run must hold whole numbers"),
        ({"run": True}, "run must hold whole numbers"),
        ({"run": "one"}, "run must hold whole numbers"),
        ({"run": [[1], [1, 2]]}, "run must hold whole numbers"),
        ({"step": 2**32}, r"step must hold whole numbers in \[0, 2\^32\), got 4294967296"),
        ({"block": [0, -3]}, "block must hold whole numbers"),
        ({"run": [1, 2], "step": [1, 2, 3]}, "shapes that broadcast"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**64}, "seed must be a whole number"),
        ({"seed": 1.0}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_mistakes_are_named(engine: str, change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"run": 0, "step": 0, "block": 0, "seed": 1}
    with pytest.raises(ParameterError, match=message):
        ENGINES[engine](**{**good, **change})


def test_key_words_are_the_halves_of_the_seed() -> None:
    for seed, halves in ((2**32 + 5, (5, 1)), (2**64 - 1, (2**32 - 1, 2**32 - 1))):
        assert tuple(map(int, key_words(seed))) == halves


def test_blocks_and_purposes_keep_their_values() -> None:
    """A changed value changes every simulated run."""
    assert [(it.name, it.value) for it in Block] == [("STEP", 0), ("RUN", 1), ("TASK", 2)]
    values = {"ACT": 0, "SCORE": 1, "MECHANISM": 2, "POLICY": 3, "START": 4, "RUN_SHIFT": 5, "TASK": 8}
    assert {it.name: it.value for it in Purpose} == values


@pytest.mark.parametrize("purpose", Purpose)
def test_a_purpose_is_one_word_of_its_block(purpose: Purpose) -> None:
    run = np.arange(100)
    block = random.draw_block(run, 7, purpose.block, seed=5)
    np.testing.assert_array_equal(random.draw_words(run, 7, purpose, seed=5), block[purpose.place])
    others = [it for it in Purpose if (it.block, it.place) == (purpose.block, purpose.place)]
    assert others == [purpose]


# Statistics. A law maps (run, step, block, seed) to words of shape (4, n).

type Law = Callable[[Any, Any, Any, Any], WordArray]


def keyed(run: Any, step: Any, block: Any, seed: Any, rounds: int = 10) -> WordArray:
    run, step, block, seed = np.broadcast_arrays(*(np.asarray(x, dtype=np.uint64) for x in (run, step, block, seed)))
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    return np.stack(philox4x32((run & low, run >> half, step, block), (seed & low, seed >> half), rounds))


def three_rounds(run: Any, step: Any, block: Any, seed: Any) -> WordArray:
    return keyed(run, step, block, seed, 3)


def block_in_the_place_of_the_step(run: Any, step: Any, block: Any, seed: Any) -> WordArray:
    return keyed(run, block, block, seed)


def step_and_block_added(run: Any, step: Any, block: Any, seed: Any) -> WordArray:
    return keyed(run, step + block, 0, seed)


def run_cut_to_32_bits(run: Any, step: Any, block: Any, seed: Any) -> WordArray:
    return keyed(run & np.uint64(2**32 - 1), step, block, seed)


def seed_added_to_the_run(run: Any, step: Any, block: Any, seed: Any) -> WordArray:
    return keyed(run + seed, step, block, 0)


def biased(run: Any, step: Any, block: Any, seed: Any) -> WordArray:
    """One bit of one word is set in one of 64 blocks more."""
    words = keyed(run, step, block, seed)
    words[2] |= np.where(words[3] % 64 == 0, np.uint32(256), np.uint32(0))
    return words


def two_sided(statistic: Any, degrees: int) -> float:
    """p-value of a chi-squared statistic; a fit that is too good counts as well."""
    return float(2 * min(stats.chi2.sf(statistic, degrees), stats.chi2.cdf(statistic, degrees)))


def uniform_cells(cells: Any, n_cells: int) -> float:
    expected = cells.size / n_cells
    counts = np.bincount(cells.astype(np.int64), minlength=n_cells)
    return two_sided(np.sum((counts - expected) ** 2) / expected, n_cells - 1)


def bits_of(words: WordArray) -> Any:
    """Shape (…, 32), lowest bit first."""
    return (words[..., np.newaxis] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)


def equidistribution(law: Law) -> list[float]:
    """Bytes and bits of all words, over neighbouring runs of a few steps and blocks, for five seeds."""
    run, step, block = (part.ravel() for part in np.meshgrid(np.arange(2**12), np.arange(4), np.arange(4)))
    found = []
    for seed in SEEDS:
        words = law(run.astype(np.uint64), step.astype(np.uint64), block.astype(np.uint64), np.uint64(seed))
        found += [uniform_cells(word >> np.uint32(8 * i) & np.uint32(255), 256) for word in words for i in range(4)]
        z = (bits_of(words).sum(axis=1, dtype=np.int64) - run.size / 2) / np.sqrt(run.size / 4)
        found += [two_sided(np.sum(z**2), 128), *(2 * stats.norm.sf(np.abs(z.ravel())))]
    return found


NEIGHBOURS = {
    "run": (1, 0, 0, 0),
    "run, high word": (2**32, 0, 0, 0),
    "step": (0, 1, 0, 0),
    "block": (0, 0, 1, 0),
    "seed": (0, 0, 0, 1),
    "seed, high word": (0, 0, 0, 2**32),
    "run and step": (1, -1, 0, 0),
    "step and block": (0, 1, -1, 0),
    "run and block": (1, 0, -1, 0),
    "run and seed": (1, 0, 0, -1),
}


def independence(law: Law) -> list[float]:
    """Joint cells of the leading four bits: word by word between neighbours, and of two words of one block."""
    run = np.arange(0, 2**17, 2, dtype=np.uint64)  # every second one, so that no draw is in two pairs
    start: tuple[Any, ...] = (run, np.uint64(5), np.uint64(3), np.uint64(2**33 + 7))
    here = (law(*start) >> np.uint32(28)).astype(np.int64)
    found = [uniform_cells(here[i] * 16 + here[j], 256) for i, j in itertools.combinations(range(4), 2)]
    for shift in NEIGHBOURS.values():
        moved = [x + np.uint64(by) if by >= 0 else x - np.uint64(-by) for x, by in zip(start, shift, strict=True)]
        there = (law(*moved) >> np.uint32(28)).astype(np.int64)
        found += [uniform_cells(here[i] * 16 + there[j], 256) for i in range(4) for j in range(4)]
    return found


def avalanche(law: Law) -> list[float]:
    """Each of the 192 bits of address and seed, flipped, flips half of the 128 bits, and each of them half the time."""
    n = 1000
    rng = np.random.default_rng(2)
    widths = (64, 32, 32, 64)
    base = [rng.integers(0, 2**width - 1, n, dtype=np.uint64, endpoint=True) for width in widths]
    here = law(*base)
    found, squares = [], 0.0
    for part, width in enumerate(widths):
        for bit in range(width):
            moved = [x ^ np.uint64(2**bit) if i == part else x for i, x in enumerate(base)]
            flips = bits_of(here ^ law(*moved)).sum(axis=1, dtype=np.int64)
            z = (flips.sum() - 64 * n) / np.sqrt(32 * n)
            found.append(float(2 * stats.norm.sf(abs(z))))
            squares += float(np.sum((flips - n / 2) ** 2 / (n / 4)))
    return [*found, two_sided(squares, 192 * 128)]


STATISTICS: dict[str, Callable[[Law], list[float]]] = {
    "equidistribution": equidistribution,
    "independence": independence,
    "avalanche": avalanche,
}


@pytest.mark.parametrize("statistic", STATISTICS)
def test_words_look_random(statistic: str) -> None:
    assert min(STATISTICS[statistic](keyed)) >= ALPHA


@pytest.mark.parametrize(
    ("statistic", "law"),
    [
        ("equidistribution", biased),
        ("independence", step_and_block_added),
        ("independence", block_in_the_place_of_the_step),
        ("independence", run_cut_to_32_bits),
        ("independence", seed_added_to_the_run),
        ("avalanche", three_rounds),
        ("avalanche", run_cut_to_32_bits),
    ],
)
def test_broken_generators_do_not(statistic: str, law: Law) -> None:
    assert min(STATISTICS[statistic](law)) < ALPHA


def pairs_of_purposes(words_of: Callable[[Purpose], WordArray]) -> list[float]:
    """Joint cells of the leading four bits of any two purposes, in the same run and step."""
    cells = {purpose: (words_of(purpose) >> np.uint32(28)).astype(np.int64) for purpose in Purpose}
    return [uniform_cells(cells[a] * 16 + cells[b], 256) for a, b in itertools.combinations(Purpose, 2)]


def test_purposes_are_independent() -> None:
    run = np.arange(2**17)
    assert min(pairs_of_purposes(lambda purpose: random.draw_words(run, 0, purpose, seed=2**40 + 3))) >= ALPHA
    # places without blocks: what starts a run would be what its first step does
    first = random.draw_block(run, 0, Block.STEP, seed=2**40 + 3)
    assert min(pairs_of_purposes(lambda purpose: first[purpose.place])) < ALPHA


def test_no_two_addresses_share_a_block() -> None:
    words = random.draw_block(np.arange(2**16), np.arange(4)[:, np.newaxis], Block.STEP, seed=3).reshape(4, -1)
    blocks = words.astype(np.uint64)
    assert len(set(zip(*(blocks[i].tolist() for i in range(4)), strict=True))) == words.shape[1]

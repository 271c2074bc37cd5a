"""Integer thresholds: the law they give, its distance from the target, and the same outcomes in every engine."""

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from drsim.arrays import FloatArray
from drsim.engine.random import Block, Purpose, WordArray, draw_block, draw_words
from drsim.engine.thresholds import (
    LAST_DRAW,
    NEVER,
    bernoulli_thresholds,
    cumulative_thresholds,
    fires,
    outcome_probabilities,
    outcomes,
    score_table,
)
from drsim.errors import ParameterError

STEP = 2.0**-33
"""Half of the distance between attainable probabilities."""

FIRST_WORD, LAST_WORD = np.uint32(0), np.uint32(2**32 - 1)


def allowed(n: int) -> float:
    """n · 2⁻³³, and the rounding of a sum of n terms, its division, and their differences here."""
    return n * STEP + n * 2.0**-52


@st.composite
def distributions(draw: st.DrawFn) -> FloatArray:
    """Up to eight outcomes, of sizes around the resolution as well, with impossible ones among them."""
    sizes = st.sampled_from([0.0, 2.0**-34, 2.0**-33, 2.0**-32, 1.5 * 2.0**-32, 2.0**-31, 2.0**-30, 1e-300])
    weights = draw(st.lists(sizes | st.floats(0.0, 1.0), min_size=1, max_size=8))
    place = draw(st.integers(0, len(weights) - 1))
    small = np.array(weights)
    if draw(st.booleans()) or np.sum(small) == 0:
        small[place] = 0.0
        if np.sum(small) <= 1.0:
            small[place] = 1.0 - np.sum(small)
    p = small / np.sum(small)
    law: FloatArray = p / np.sum(p)
    return law


def nearest_for_all(p: FloatArray) -> WordArray:
    """What the last cell's rule is there to avoid: each cumulative probability to the nearest that exists."""
    ends = np.cumsum(p)[:-1]
    rounded = np.minimum(np.rint(ends * 2.0**32), float(LAST_DRAW))
    return np.where(ends >= 1.0 - 2.0**-32, float(NEVER), rounded).astype(np.uint32)


@settings(deadline=None, max_examples=500)
@given(p=distributions())
def test_outcomes_have_their_probabilities(p: FloatArray) -> None:
    thresholds = cumulative_thresholds(p)
    given_law = outcome_probabilities(thresholds)
    assert thresholds.dtype == np.uint32
    assert np.all(np.diff(thresholds.astype(np.int64)) >= 0)
    assert np.sum(given_law) == 1.0
    assert np.max(np.abs(given_law - p)) <= allowed(p.size)
    assert np.all(given_law[p == 0.0] == 0.0)
    assert np.all(given_law[p == 1.0] == 1.0)


def test_the_last_cell_needs_its_rule() -> None:
    tiny = 2.0**-36
    p = np.array([1 - 2.0**-32 - tiny, 2 * tiny, 2.0**-32 - tiny])
    assert np.max(np.abs(outcome_probabilities(nearest_for_all(p)) - p)) > allowed(3)
    assert np.max(np.abs(outcome_probabilities(cumulative_thresholds(p)) - p)) <= allowed(3)


@settings(deadline=None, max_examples=300)
@given(p=distributions())
def test_words_around_each_threshold_count_to_the_stated_law(p: FloatArray) -> None:
    """Outcomes change at thresholds only, so the words on both sides of each give every outcome's count of words."""
    thresholds = cumulative_thresholds(p)
    inner = sorted({int(t) for t in thresholds if 0 < t < NEVER})
    starts = [0, *inner]
    ends = [*(t - 1 for t in inner), 2**32 - 1]
    first, last = (outcomes(np.array(words, dtype=np.uint32), thresholds) for words in (starts, ends))
    np.testing.assert_array_equal(first, last)
    counts = np.zeros(p.size, dtype=np.int64)
    np.add.at(counts, first, np.array(ends) - np.array(starts) + 1)
    assert [Fraction(int(count), 2**32) for count in counts] == [Fraction(q) for q in outcome_probabilities(thresholds)]


@settings(deadline=None)
@given(
    p=st.floats(0.0, 1.0) | st.integers(0, 40).map(lambda k: 1 - 2.0**-k) | st.integers(0, 60).map(lambda k: 2.0**-k)
)
def test_bernoulli_is_the_first_of_two_outcomes(p: float) -> None:
    threshold = bernoulli_thresholds(p)
    assert threshold == cumulative_thresholds([p, 1 - p])[0]
    assert abs(outcome_probabilities(np.array([threshold]))[0] - p) <= allowed(2)
    words = np.array([0, 1, 2**31, 2**32 - 3, 2**32 - 2, 2**32 - 1], dtype=np.uint32)
    np.testing.assert_array_equal(fires(words, threshold), outcomes(words, np.array([threshold])) == 0)


def test_certain_and_impossible() -> None:
    assert bernoulli_thresholds(0.0) == 0
    assert bernoulli_thresholds(1.0) == NEVER
    for word in (FIRST_WORD, LAST_DRAW, LAST_WORD):
        one = np.array([word])
        assert not fires(one, bernoulli_thresholds(0.0))[0]
        assert fires(one, bernoulli_thresholds(1.0))[0]
        for n in range(1, 6):
            for sure in range(n):
                assert outcomes(one, cumulative_thresholds(np.eye(n)[sure])) == sure


def test_exact_halves_and_the_ends() -> None:
    np.testing.assert_array_equal(cumulative_thresholds([0.5, 0.25, 0.25]), [2**31, 3 * 2**30])
    np.testing.assert_array_equal(cumulative_thresholds([[0.25, 0.75], [1.0, 0.0]]), [[2**30], [NEVER]])
    assert cumulative_thresholds([1.0]).shape == (0,)
    assert bernoulli_thresholds(2.0**-33 * 1.01) == 1
    assert bernoulli_thresholds(2.0**-33 * 0.99) == 0
    assert bernoulli_thresholds(1 - 2.0**-31) == LAST_DRAW
    assert bernoulli_thresholds(1 - 2.0**-32 * 1.01) == LAST_DRAW
    assert bernoulli_thresholds(1 - 2.0**-32 * 0.99) == NEVER


def test_sums_that_stray_leave_impossible_outcomes_impossible() -> None:
    p = np.array([0.1] * 10 + [0.0])
    assert np.cumsum(p)[-1] < 1.0
    assert cumulative_thresholds(p)[-1] == NEVER


def test_drawn_outcomes_follow_the_probabilities() -> None:
    p = np.array([0.05, 0.0, 0.6, 0.3, 0.05])
    n = 200_000
    words = draw_block(np.arange(n), 0, Block.STEP, seed=1)
    for word in words:
        counts = np.bincount(outcomes(word, cumulative_thresholds(p)), minlength=5)
        assert counts[1] == 0
        z = (counts - n * p)[p > 0] / np.sqrt(n * p * (1 - p))[p > 0]
        assert np.max(np.abs(z)) <= 5
        turned = np.sum(cumulative_thresholds(p[::-1]) <= word[:, np.newaxis], axis=1)
        wrong = np.bincount(turned, minlength=5) - n * p
        assert np.max(np.abs(wrong)) > 5 * np.sqrt(n)


def counted_by_numba(words: WordArray, thresholds: WordArray) -> Any:
    @numba.njit
    def count(words: WordArray, thresholds: WordArray, out: Any) -> None:
        for i in range(words.size):
            draw = min(words[i], LAST_DRAW)
            for threshold in thresholds[i]:
                out[i] += threshold <= draw

    out = np.zeros(words.size, dtype=np.int64)
    count(words, thresholds, out)
    return out


def test_engines_count_alike() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(5, 0.3), 2000)
    p[:50] = np.eye(5)[rng.integers(0, 5, 50)]
    thresholds = cumulative_thresholds(p / p.sum(axis=1, keepdims=True))
    near = np.take_along_axis(thresholds, rng.integers(0, 4, (2000, 1)), axis=1)[:, 0]
    # on each threshold, beside it, and at random
    for words in (near, near - np.uint32(1), near + np.uint32(1), draw_words(np.arange(2000), 0, Purpose.ACT, seed=1)):
        expected = outcomes(words, thresholds)
        np.testing.assert_array_equal(counted_by_numba(words, thresholds), expected)
        draws = jnp.minimum(jnp.asarray(words), LAST_DRAW)
        assert draws.dtype == jnp.uint32
        by_jax = jax.jit(lambda d, t: jnp.sum(t <= d[:, jnp.newaxis], axis=1))(draws, jnp.asarray(thresholds))
        np.testing.assert_array_equal(by_jax, expected)
        np.testing.assert_array_equal(fires(words, thresholds[:, 0]), expected == 0)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 0.6], "must sum to 1, got 1.1"),
        ([[0.5, 0.5], [0.5, 0.4]], "must sum to 1, got 0.9"),
        ([1.5, -0.5], r"must lie in \[0, 1\], got 1.5"),
        ([float("nan"), 1.0], r"must lie in \[0, 1\]"),
        ([], "must have outcomes along the last axis"),
        (1.0, "must have outcomes along the last axis"),
        (["half"], "probabilities must"),
    ],
)
def test_mistaken_distributions_are_named(probabilities: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        cumulative_thresholds(probabilities)


@pytest.mark.parametrize("probability", [-0.1, 12, float("nan"), "half"])
def test_mistaken_probabilities_are_named(probability: Any) -> None:
    with pytest.raises(ParameterError, match="probability must"):
        bernoulli_thresholds(probability)


@pytest.mark.parametrize("bits", range(1, 21))
def test_scores_are_normal_within_the_stated_error(bits: int) -> None:
    z = score_table(bits)
    cells = 2**bits
    assert z.shape == (cells,)
    np.testing.assert_array_equal(z, -z[::-1])
    # midpoints within float64 rounding: a relative error e of z moves Φ by at most e · max |z φ(z)| < e / 4
    assert np.max(np.abs(special.ndtr(z) - (np.arange(cells) + 0.5) / cells)) <= 8 * 2.0**-53
    # the step function i / 2^bits lies furthest from Φ just beside its steps
    steps = special.ndtr(z)
    apart = max(
        np.max(np.abs(steps - np.arange(cells) / cells)), np.max(np.abs(steps - np.arange(1, cells + 1) / cells))
    )
    assert abs(apart - 2.0 ** -(bits + 1)) <= 8 * 2.0**-53
    assert z[-1] == pytest.approx(-stats.norm.ppf(2.0 ** -(bits + 1)), rel=1e-13, abs=0)
    assert np.sum(z + z[::-1]) == 0.0
    assert 0 < 1 - np.mean(z**2) < 1.36 / cells


@pytest.mark.parametrize(
    ("bits", "middle", "outermost", "largest", "short"),
    [
        (8, "9.8e-03", "0.37", "2.886", "5.0e-03"),
        (12, "6.1e-04", "0.29", "3.668", "3.2e-04"),
        (16, "3.8e-05", "0.25", "4.325", "2.0e-05"),
        (20, "2.4e-06", "0.22", "4.901", "1.3e-06"),
    ],
)
def test_figures_of_the_score_table(bits: int, middle: str, outermost: str, largest: str, short: str) -> None:
    z = score_table(bits)
    gaps = np.diff(z)
    assert np.all(gaps > 0)
    assert np.argmax(gaps) in (0, gaps.size - 1)
    assert gaps[gaps.size // 2] == pytest.approx(np.sqrt(2 * np.pi) / 2**bits, rel=1e-4)
    found = (f"{gaps[gaps.size // 2]:.1e}", f"{gaps[0]:.2f}", f"{z[-1]:.3f}", f"{1 - np.mean(z**2):.1e}")
    assert found == (middle, outermost, largest, short)


@pytest.mark.parametrize("bits", [0, 25, -1, 2.0, True, None])
def test_mistaken_bits_are_named(bits: Any) -> None:
    with pytest.raises(ParameterError, match=r"bits must be a whole number in \[1, 24\]"):
        score_table(bits)

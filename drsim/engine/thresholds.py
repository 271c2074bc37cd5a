r"""Integer thresholds: what turns a random word into an outcome by integer comparisons, alike in every engine.

A word is uniform on 0 … 2³² − 1. An outcome that is certain needs a threshold which no word reaches, and 2³² does not
fit 32 bits; JAX has no wider integers unless asked. So all engines compare a **draw**, min(word, 2³² − 2), and the
threshold 2³² − 1 (`NEVER`) is never reached:

- outcome = number of thresholds ≤ draw, of the n − 1 thresholds that separate n outcomes;
- a Bernoulli event happens when draw < threshold: 0 is impossible, `NEVER` certain.

**Rounding.** A threshold K below `NEVER` stands for the cumulative probability K/2³² exactly, `NEVER` for 1. A
cumulative probability c ≤ 1 − 2⁻³¹ goes to the nearest K/2³², within 2⁻³³. What lies above, a mass of 2⁻³¹, belongs to
the last draw and goes whole to the outcome that has most of it. Hence, for probabilities divided by their sum:

- probability 0 stays impossible and 1 certain, whatever the other outcomes;
- every outcome's probability is within n · 2⁻³³ of its target (+ n · 2⁻⁵² of the float64 sums): a rounded threshold on
  either side costs 2⁻³³. If k > 1 outcomes share the last draw, its owner has at least 2⁻³¹/k of it and gains at most
  4(1 − 1/k) · 2⁻³³, with a rounded start (then n > k) 2⁻³³ more, and 4(1 − 1/k) ≤ k; another loses at most 2 · 2⁻³³,
  with a rounded start 2⁻³³ more;
- a positive probability below 2⁻³³ may become impossible, one above 1 − 2⁻³¹ certain.

Sums run from the first outcome to the last, so that the thresholds are the same on every machine.

**Scores.** Where a rule reads a raw score, the engines take it from one table of standard normal quantiles,
`score_table`, by the leading bits of a word.
"""

import numpy as np
from scipy.special import ndtri

from drsim.arrays import ArrayLike, BoolArray, FloatArray, IntArray
from drsim.engine.random import WordArray
from drsim.errors import ParameterError
from drsim.theory.domain import check_probability

__all__ = [
    "LAST_DRAW",
    "NEVER",
    "bernoulli_thresholds",
    "cumulative_thresholds",
    "fires",
    "outcome_probabilities",
    "outcomes",
    "score_table",
]

LAST_DRAW = np.uint32(2**32 - 2)
"""Largest draw; two words give it, so its probability is 2⁻³¹."""

NEVER = np.uint32(2**32 - 1)
"""The threshold that no draw reaches."""

WORDS = 2.0**32
LAST_CELL = 1.0 - 2.0**-31
"""Probability of all draws before the last."""

SUM_TOLERANCE = 1e-12
"""A sum of up to some thousand float64 probabilities strays from 1 by less; a larger gap is a mistake, not rounding."""

MAX_SCORE_BITS = 24
"""2²⁴ quantiles take 128 MiB."""


def cumulative_thresholds(probabilities: ArrayLike) -> WordArray:
    """Thresholds that separate n outcomes: outcome = number of thresholds ≤ draw.

    Parameters
    ----------
    probabilities : array_like
        Shape (…, n), n ≥ 1; each in [0, 1], the last axis summing to 1 within 1e-12.

    Returns
    -------
    ndarray of uint32
        Shape (…, n − 1), nondecreasing along the last axis.

    Raises
    ------
    ParameterError
        There is no outcome, a probability is outside [0, 1], or a sum is not 1.
    """
    p = check_probability("probabilities", probabilities)
    if p.ndim == 0 or p.shape[-1] == 0:
        raise ParameterError(
            f"probabilities must have outcomes along the last axis, got shape {p.shape}; give one or more"
        )
    ends = np.cumsum(p, axis=-1)
    totals = ends[..., -1:]
    wrong = np.abs(totals - 1.0) > SUM_TOLERANCE
    if np.any(wrong):
        got = float(totals[wrong].flat[0])
        raise ParameterError(
            f"probabilities of all outcomes must sum to 1, got {got!r}; give what is left to one of them"
        )
    # x / x is 1 exactly, so outcomes after the last positive one get nothing
    ends = ends / totals
    starts = np.concatenate([np.zeros_like(totals), ends[..., :-1]], axis=-1)
    shares = np.maximum(ends, LAST_CELL) - np.maximum(starts, LAST_CELL)
    owner = np.argmax(shares, axis=-1)[..., np.newaxis]
    below = np.minimum(np.rint(ends[..., :-1] * WORDS), float(LAST_DRAW)).astype(np.uint32)
    return np.where(np.arange(p.shape[-1] - 1) < owner, below, NEVER)


def bernoulli_thresholds(probability: ArrayLike) -> WordArray:
    """Thresholds of yes-or-no events: one happens when draw < threshold.

    Parameters
    ----------
    probability : array_like
        Each in [0, 1].

    Returns
    -------
    ndarray of uint32
        Shape of `probability`; 0 for impossible, `NEVER` for certain.

    Raises
    ------
    ParameterError
        A probability is outside [0, 1] or NaN.
    """
    p = check_probability("probability", probability)
    return cumulative_thresholds(np.stack([p, 1.0 - p], axis=-1))[..., 0]


def outcomes(words: WordArray, thresholds: WordArray) -> IntArray:
    """Outcome of each word: the number of thresholds that its draw reaches.

    Parameters
    ----------
    words : ndarray of uint32
        Shape (…).
    thresholds : ndarray of uint32
        Shape (…, n − 1), from `cumulative_thresholds`; broadcast against `words`.

    Returns
    -------
    ndarray of int64
        In 0 … n − 1.
    """
    draws = np.minimum(words, LAST_DRAW)
    return np.sum(thresholds <= draws[..., np.newaxis], axis=-1, dtype=np.int64)


def fires(words: WordArray, thresholds: WordArray) -> BoolArray:
    """Whether each event happens: its draw lies below its threshold.

    Parameters
    ----------
    words, thresholds : ndarray of uint32
        Broadcast against one another; the thresholds from `bernoulli_thresholds`.

    Returns
    -------
    ndarray of bool
    """
    return np.minimum(words, LAST_DRAW) < thresholds


def outcome_probabilities(thresholds: WordArray) -> FloatArray:
    """The probabilities that thresholds give their outcomes, exactly: the law that the engines follow.

    Parameters
    ----------
    thresholds : ndarray of uint32
        Shape (…, n − 1).

    Returns
    -------
    ndarray
        Shape (…, n); whole multiples of 2⁻³² that sum to 1.
    """
    inner = np.where(thresholds == NEVER, 1.0, thresholds / WORDS)
    edge = np.ones((*inner.shape[:-1], 1))
    return np.diff(np.concatenate([0.0 * edge, inner, edge], axis=-1), axis=-1)


def score_table(bits: int) -> FloatArray:
    r"""Standard normal quantiles at the midpoints of 2^bits cells of equal probability.

    .. math:: z_i = Φ^{-1}\big((i + ½) / 2^{bits}\big), \qquad i = 0 … 2^{bits} − 1

    A score's index is word >> (32 − bits). How the table, as a law of its own, differs from N(0, 1): the distribution
    functions are at most 2^−(bits + 1) apart; neighbours lie √(2π) · 2^−bits apart in the middle and further outside;
    no |z| exceeds −Φ⁻¹(2^−(bits + 1)); the mean and all odd moments are 0; the variance is short of 1 by less than
    1.36 · 2^−bits (measured for bits ≤ 24), mostly for want of tails.

    ====  ==============  =================  ===========  ==================
    bits  middle spacing  outermost spacing  largest z    variance short by
    ====  ==============  =================  ===========  ==================
    8     9.8e-3          0.37               2.886        5.0e-3
    12    6.1e-4          0.29               3.668        3.2e-4
    16    3.8e-5          0.25               4.325        2.0e-5
    20    2.4e-6          0.22               4.901        1.3e-6
    ====  ==============  =================  ===========  ==================

    Parameters
    ----------
    bits : int
        In 1 … 24.

    Returns
    -------
    ndarray
        Shape (2^bits,), increasing; z[i] = −z[−1 − i] to the bit.

    Raises
    ------
    ParameterError
        `bits` is outside its domain.
    """
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= MAX_SCORE_BITS:
        raise ParameterError(f"bits must be a whole number in [1, {MAX_SCORE_BITS}], got {bits!r}; 16 is fine")
    cells = 2 ** int(bits)
    lower: FloatArray = ndtri((np.arange(cells // 2) + 0.5) / cells)
    return np.concatenate([lower, -lower[::-1]])

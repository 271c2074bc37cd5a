r"""How engines read scores where a policy needs more than whether one lies above a threshold: integer tables.

**Levels.** A raw score is μ_x + σ_x z + ω u with standard normal z and u, whose sizes are read from
`thresholds.score_table` by the leading bits of a word. The engines take it as a whole number of levels, 2²⁸ of which
cover every score that the table can give: means are levels, σ and ω multiples of 1/16 level, sizes multiples of 2⁻²⁸,
and a threshold is a level too. A score is off by at most three levels, 10⁻⁸ of the range, besides the resolution of the
score table.

**Cells.** 2¹⁴ cells of 2¹⁴ levels each: likelihoods and scores as probabilities are tabulated at their midpoints, so
that a score counts as one within 3·10⁻⁵ of the range. The tables stay in a second-level cache.

**Belief.** The filter holds one weight for each live state, as whole numbers with a sum in [2²⁷, 2³¹); only their
ratios mean anything. In a step of the agent, and where an intervention moves the run,

.. math:: w'_y = \sum_x \lceil w_x P_{xy} / 2^{32} \rceil, \qquad w''_y = \lceil w'_y L_y(z) / 2^{32} \rceil

with P and the likelihoods L (relative to the largest) as multiples of 2⁻³²; then all weights are shifted left together.
Rounding up keeps what is possible possible. Whole numbers leave a compiler nothing to round in its own way, so that
all engines come to the same belief. It differs from the exact one by the cells and by rounding: some 2⁻²⁶ a step, more
where every state that is likely explains a score badly.
The filter knows the typical task and a run-level shift only as further spread of each score, as a user's filter would.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.engine.random import WordArray
from drsim.engine.thresholds import score_table
from drsim.process.compile import CompiledModel, CompiledPolicy
from drsim.process.spec import Signal

__all__ = ["CELL_BITS", "PRODUCT_BITS", "SCORE_BITS", "Reading", "SignalTables", "deviations", "signal_tables"]

SCORE_BITS = 16
"""Scores are read on 2¹⁶ quantiles: distribution functions are at most 2⁻¹⁷ apart from the normal."""
LEVELS = 2**28
CELL_BITS = 14
"""Levels of a cell, as a power of 2."""
CELLS = LEVELS >> CELL_BITS
REACH = 4.5
"""In standard deviations; the score table ends at 4.325."""
SIZE_BITS = 28
"""Sizes of standard normals are multiples of 2⁻²⁸; below 2³¹."""
SPREAD_BITS = 4
"""Spreads are multiples of 2⁻⁴ level; below 2³⁰, since 9 of them fit the levels."""
PRODUCT_BITS = SIZE_BITS + SPREAD_BITS
LARGEST = 2**32 - 1
ONE = 2.0**32

type LevelArray = NDArray[np.int32]


class Reading(IntEnum):
    """How a policy's signal comes about, as engines number it."""

    CHANCE = 0
    """No score is read: the policy fires with a probability that depends on state and step."""
    SCORE = 1
    """The score of the step, where runs share a shift."""
    BELIEF = 2
    MEAN = 3
    VOTES = 4


READINGS = {Signal.BELIEF: Reading.BELIEF, Signal.MEAN: Reading.MEAN, Signal.VOTES: Reading.VOTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTables:
    """Tables of one model and K policies; T steps, S live states. Empty where no policy needs them."""

    reading: IntArray
    """(K,) a `Reading`."""
    cuts: LevelArray
    """(K, T) level above which a score fires or votes; one that every or no level passes where the gate is closed."""
    limits: WordArray
    """(K, T) belief or mean score above which the policy fires, in multiples of 2⁻³²."""
    window: IntArray
    """(K,) scores looked back on; 1 where none are."""
    votes: IntArray
    """(K,) votes from which the policy fires."""
    sizes: LevelArray
    """(2^(SCORE_BITS − 1),) size of a standard normal by quantile, from the tail to the middle."""
    means: LevelArray
    """(S,) level of the mean score."""
    spreads: LevelArray
    """(S,) spread of the score, in 1/16 level."""
    run_spread: int
    """Spread of the run-level shift, likewise."""
    scores: WordArray
    """(CELLS,) score as a probability, in multiples of 2⁻³²."""
    likelihood: WordArray
    """(CELLS, S) relative to the largest of the cell, in multiples of 2⁻³²; at least one of them."""
    prior: WordArray
    """(S,) weights before the first step."""
    predict: WordArray
    """(T, S, S) act of the typical task among live states, in multiples of 2⁻³²."""
    moved: WordArray
    """(K, T, S, S) the policy's intervention, in multiples of 2⁻³²."""

    @property
    def reads_levels(self) -> BoolArray:
        """(K,) whether the policy reads scores as levels."""
        is_read: BoolArray = self.reading != Reading.CHANCE
        return is_read

    @property
    def looks_back(self) -> BoolArray:
        """(K,) whether the policy carries something from step to step."""
        is_carried: BoolArray = self.reading > Reading.SCORE
        return is_carried


def signal_tables(model: CompiledModel, policies: Sequence[CompiledPolicy]) -> SignalTables:
    """Tables for K policies on a model.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policies : sequence of CompiledPolicy
        K ≥ 1, compiled for the same model.

    Returns
    -------
    SignalTables
    """
    horizon, n_states = model.transitions.shape[:2]
    reading = np.array([_reading(model, it) for it in policies], dtype=np.int64)
    is_read, has_belief = bool(np.any(reading)), bool(np.any(reading == Reading.BELIEF))
    histories = [it.history for it in policies]
    low, unit = _scale(model)
    middles = low + unit * 2.0**CELL_BITS * (np.arange(CELLS, dtype=np.float64) + 0.5)
    kernels = [model.kernels[it.mechanism] if it.mechanism >= 0 else np.eye(n_states) for it in policies]
    return SignalTables(
        reading=reading,
        cuts=np.stack([_cuts(it, low, unit) for it in policies]),
        limits=np.stack([_limits(it, horizon) for it in policies]),
        window=np.array([max(1, it.window) if it else 1 for it in histories], dtype=np.int64),
        votes=np.array([it.votes if it else 0 for it in histories], dtype=np.int64),
        sizes=_sizes() if is_read else np.empty(0, dtype=np.int32),
        means=np.rint((model.score_mean - low) / unit).astype(np.int32),
        spreads=_spread(model.score_sd, unit),
        run_spread=int(_spread(np.float64(model.run_sd), unit)),
        scores=_words(expit(middles / model.temperature)) if is_read else np.empty(0, dtype=np.uint32),
        likelihood=_likelihood(model, middles) if has_belief else np.empty((0, n_states), dtype=np.uint32),
        prior=_weights(model.start),
        predict=_words(model.transitions[:, :, :n_states]),
        moved=np.stack([_words(np.broadcast_to(it, (horizon, n_states, n_states))) for it in kernels]),
    )


def deviations(tables: SignalTables, spreads: IntArray, words: WordArray) -> IntArray:
    """Levels by which scores differ from their means.

    Parameters
    ----------
    tables : SignalTables
        With sizes.
    spreads : ndarray
        In 1/16 level; broadcast against `words`.
    words : ndarray of uint32
        The leading bits choose the quantile: below the middle of all words the lower half.

    Returns
    -------
    ndarray of int64
    """
    quantile = (words >> np.uint32(32 - SCORE_BITS)).astype(np.int64)
    is_upper = quantile >= 2 ** (SCORE_BITS - 1)
    size = tables.sizes[np.where(is_upper, 2**SCORE_BITS - 1 - quantile, quantile)].astype(np.int64)
    away = (size * spreads + 2 ** (PRODUCT_BITS - 1)) >> PRODUCT_BITS
    levels: IntArray = np.where(is_upper, away, -away)
    return levels


def _reading(model: CompiledModel, policy: CompiledPolicy) -> Reading:
    if policy.mechanism < 0:
        return Reading.CHANCE
    if policy.history is not None:
        return READINGS[policy.history.signal]
    return Reading.SCORE if model.run_sd > 0.0 else Reading.CHANCE


def _scale(model: CompiledModel) -> tuple[float, float]:
    """Lowest score that the tables can give, or below it, and the size of a level."""
    reach = REACH * (model.score_sd + model.run_sd)
    low, high = float(np.min(model.score_mean - reach)), float(np.max(model.score_mean + reach))
    return low, (high - low) / LEVELS


def _cuts(policy: CompiledPolicy, low: float, unit: float) -> LevelArray:
    cut = policy.history.threshold if policy.history is not None else policy.logit_threshold
    return np.clip(np.floor((cut - low) / unit), -1, LEVELS).astype(np.int32)


def _limits(policy: CompiledPolicy, horizon: int) -> WordArray:
    if policy.history is None or policy.history.signal is Signal.VOTES:
        return np.zeros(horizon, dtype=np.uint32)
    return _words(policy.history.threshold)


@lru_cache(maxsize=1)
def _sizes() -> LevelArray:
    upper_tail_last = score_table(SCORE_BITS)[2 ** (SCORE_BITS - 1) :]
    return np.rint(upper_tail_last[::-1] * 2.0**SIZE_BITS).astype(np.int32)


def _spread(sd: FloatArray | np.float64, unit: float) -> LevelArray:
    return np.rint(sd / unit * 2.0**SPREAD_BITS).astype(np.int32)


def _likelihood(model: CompiledModel, scores: FloatArray) -> WordArray:
    spread = np.hypot(model.score_sd, model.run_sd)
    log_density = -0.5 * ((scores[:, None] - model.score_mean) / spread) ** 2 - np.log(spread)
    return np.maximum(_words(np.exp(log_density - log_density.max(axis=1, keepdims=True))), np.uint32(1))


def _weights(start: FloatArray) -> WordArray:
    """(S,) whole numbers whose sum is near 2³⁰, positive where a run can start."""
    return np.ceil(start * 2.0**30).astype(np.uint32)


def _words(probability: FloatArray) -> WordArray:
    """The nearest multiples of 2⁻³², positive where the probability is; the last one below 1 for 1 itself."""
    nearest = np.minimum(np.rint(probability * ONE), float(LARGEST)).astype(np.uint32)
    return np.where((probability > 0.0) & (nearest == 0), np.uint32(1), nearest)

"""The best cell of a sweep, and what its gain is worth after having been picked.

The cell whose mean gain over D draws is largest was picked for its luck too: the noise of each mean, from a finite
number of draws, Monte Carlo runs or tasks, lifts the maximum. So its own gain is valued by what did not pick it:

- **by draws**: the draws are cut into K ≤ 10 consecutive folds. For each fold, the cell with the largest mean over all
  draws outside the fold is valued by the draws inside. Every draw is thus a value of a cell that it had no part in
  picking; their mean is unbiased for the gain of a cell that is picked by (1 − 1/K)·D draws, and their quantiles are
  the posterior of the maximum's own gain.
- **by data** (nested resampling): the same with tasks in place of draws. For each fold of tasks the posterior of the
  other tasks picks the cell, and the posterior of the fold's own tasks values it. This also takes out the luck of the
  pilot, which all draws of one posterior share.

`prob_best` is the share of draws in which the picked cell is the best of all.

Everything is found block by block: a block keeps its best cells and their gains, and two blocks keep the better of
each, the lower number where they tie, so that the answer does not depend on blocks or their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray, IntArray

__all__ = ["MOST_FOLDS", "Champions", "Contest", "champions_of", "draw_folds", "merge"]

MOST_FOLDS = 10
"""Nine tenths of the draws pick nearly as well as all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """For each of n juries the cell that it ranks first."""

    cell: IntArray
    """(n,) number of the cell."""
    score: FloatArray
    """(n,) the jury's mean gain of it."""
    sizes: tuple[int, ...]
    """(n,) values that each jury's cell gets."""
    gain: FloatArray
    """(sum of sizes,) gains of those cells in the draws that value them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Champions:
    """Best cells so far."""

    all_draws: Contest
    """One jury: all D draws pick, and all D value."""
    each_draw: Contest
    """D juries: every draw picks its own best cell, and values it."""
    by_draws: Contest
    """K juries: all draws outside a fold pick, the fold values; none where there is one draw."""
    by_data: Contest
    """One jury for each fold of tasks; none without them."""

    def to_vector(self) -> FloatArray:
        """All numbers in one row; `from_vector` reads them back."""
        parts = [part for it in self._contests for part in (it.cell.astype(np.float64), it.score, it.gain)]
        return np.concatenate(parts)

    @property
    def _contests(self) -> tuple[Contest, ...]:
        return self.all_draws, self.each_draw, self.by_draws, self.by_data

    @staticmethod
    def from_vector(vector: FloatArray, n_draws: int, data_sizes: Sequence[int]) -> "Champions":
        """From a row of `to_vector`, for D draws and folds of tasks whose posteriors have so many draws."""
        folds = tuple(len(fold) for fold in draw_folds(n_draws))
        contests, at = [], 0
        for sizes in ((n_draws,), (1,) * n_draws, folds, tuple(data_sizes)):
            n, total = len(sizes), sum(sizes)
            cell, score, gain = np.split(vector[at : at + 2 * n + total], [n, 2 * n])
            contests.append(Contest(cell=cell.astype(np.int64), score=score, sizes=sizes, gain=gain))
            at += 2 * n + total
        all_draws, each_draw, by_draws, by_data = contests
        return Champions(all_draws=all_draws, each_draw=each_draw, by_draws=by_draws, by_data=by_data)

    @property
    def cell(self) -> int:
        """The cell with the largest mean gain over all draws."""
        return int(self.all_draws.cell[0])

    @property
    def prob_best(self) -> float:
        """Share of draws in which that cell is the best."""
        # a cell that does as well as the best but has a higher number is as good
        is_best = self.all_draws.gain >= self.each_draw.gain
        return float(is_best.mean())


def draw_folds(n_draws: int) -> list[IntArray]:
    """Consecutive folds of D draws, at most ten; none of a single draw.

    Consecutive, since neighbours in a Markov chain are alike.
    """
    if n_draws < 2:
        return []
    return np.array_split(np.arange(n_draws), min(MOST_FOLDS, n_draws))


def champions_of(gain: FloatArray, first: int, by_data: Contest | None = None) -> Champions:
    """Best cells of one block.

    Parameters
    ----------
    gain : ndarray
        (P, D) gains of the cells `first` … `first` + P − 1.
    first : int
        Number of the block's first cell.
    by_data : Contest, optional
        The block's best cells by folds of tasks.

    Returns
    -------
    Champions
    """
    n_draws = gain.shape[1]
    total = gain.sum(axis=1)
    everyone, folds = np.arange(n_draws), draw_folds(n_draws)
    means = [(total - gain[:, fold].sum(axis=1)) / (n_draws - len(fold)) for fold in folds]
    nothing = Contest(cell=np.zeros(0, dtype=np.int64), score=np.zeros(0), sizes=(), gain=np.zeros(0))
    return Champions(
        all_draws=_contest(gain, first, [total / n_draws], [everyone]),
        each_draw=_own_best(gain, first),
        by_draws=_contest(gain, first, means, folds) if folds else nothing,
        by_data=nothing if by_data is None else by_data,
    )


def _contest(gain: FloatArray, first: int, scores: Sequence[FloatArray], values: Sequence[IntArray]) -> Contest:
    best = [int(np.argmax(score)) for score in scores]
    return Contest(
        cell=first + np.array(best, dtype=np.int64),
        score=np.array([score[c] for score, c in zip(scores, best, strict=True)]),
        sizes=tuple(len(it) for it in values),
        gain=np.concatenate([gain[c, it] for c, it in zip(best, values, strict=True)]),
    )


def _own_best(gain: FloatArray, first: int) -> Contest:
    best = np.argmax(gain, axis=0)
    top = gain[best, np.arange(gain.shape[1])]
    return Contest(cell=first + best, score=top, sizes=(1,) * gain.shape[1], gain=top)


def merge(one: Champions, other: Champions) -> Champions:
    """The better cells of two blocks."""
    pairs = zip(one._contests, other._contests, strict=True)  # of the same class
    all_draws, each_draw, by_draws, by_data = (_better(a, b) for a, b in pairs)
    return Champions(all_draws=all_draws, each_draw=each_draw, by_draws=by_draws, by_data=by_data)


def _better(one: Contest, other: Contest) -> Contest:
    wins = (other.score > one.score) | ((other.score == one.score) & (other.cell < one.cell))
    return Contest(
        cell=np.where(wins, other.cell, one.cell),
        score=np.where(wins, other.score, one.score),
        sizes=one.sizes,
        gain=np.where(np.repeat(wins, one.sizes), other.gain, one.gain),
    )

r"""Bayesian bootstrap over tasks: every task has weight ~ Gamma(1), whatever its number of runs.

Resampling runs or steps instead would take the runs of one task for independent, and their intervals come out too
short. All statistics of one object see the same weights, so that their draws are joint.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError

__all__ = ["DEFAULT_DRAWS", "MIN_DRAWS", "TaskWeights"]

DEFAULT_DRAWS = 4_000
"""Monte Carlo error of a 95 % limit near 4 % of the posterior's sd."""

MIN_DRAWS = 1_000
"""Below it a 2.5 % quantile rests on fewer than 25 draws."""

ELEMENTS_AT_ONCE = 2**21
"""Numbers held at once (16 MiB), so that 10⁵ scored steps do not cost memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWeights:
    """Draws of task weights that can be run through again, chunk by chunk."""

    n_tasks: int
    n_draws: int
    """At least 1,000."""
    seed: tuple[int, ...]
    """Key of the stream."""

    def __post_init__(self) -> None:
        """Check the number of draws and the seed."""
        if self.n_draws < MIN_DRAWS:
            raise ParameterError(f"n_draws must be at least {MIN_DRAWS}, got {self.n_draws}")
        if self.seed[0] < 0:
            raise ParameterError(f"seed must be a whole number ≥ 0, got {self.seed[0]}")

    def chunks(self, width: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the draws from the first on; the numbers do not depend on how they are chunked.

        Parameters
        ----------
        width : int
            Numbers that the caller holds for each draw.

        Yields
        ------
        slice
            Draws of this chunk.
        FloatArray
            (chunk, n_tasks) weights.
        """
        rng = np.random.default_rng([*self.seed, 0])
        size = max(1, ELEMENTS_AT_ONCE // max(width, self.n_tasks, 1))
        for start in range(0, self.n_draws, size):
            stop = min(start + size, self.n_draws)
            yield slice(start, stop), rng.standard_exponential((stop - start, self.n_tasks))

    def totals(self, columns: FloatArray) -> FloatArray:
        """Weighted sums over tasks.

        Parameters
        ----------
        columns : FloatArray
            (n_tasks, k) sums within each task.

        Returns
        -------
        FloatArray
            (n_draws, k).
        """
        sums = np.empty((self.n_draws, columns.shape[1]))
        for rows, weights in self.chunks(columns.shape[1]):
            # Not BLAS, whose last bits depend on the number of threads.
            sums[rows] = np.einsum("nt,tk->nk", weights, columns, optimize=False)
        return sums

    def prior(self, n: int, purpose: int, tasks: float = 0.5) -> FloatArray:
        """(n_draws, n) weights of prior tasks; half a task on each of two ends is Jeffreys' prior of a share.

        Parameters
        ----------
        n : int
            Prior tasks.
        purpose : int
            Number ≥ 1 of what they are for; each has a stream of its own.
        tasks : float
            Tasks that each of them counts as.
        """
        return np.random.default_rng([*self.seed, purpose]).standard_gamma(tasks, size=(self.n_draws, n))

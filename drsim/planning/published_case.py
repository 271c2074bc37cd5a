"""A published case in which reruns beat interventions: HotPotQA of arXiv:2602.03338, tables 10 and 26.

An oracle that applies calibrated rollback to just the runs that would fail gains C/n; an oracle that takes the better
of two plain runs gains χ/2 = p (1 − p) (1 − ρ). The second is printed, so that it tells ρ, and with it what any number
of attempts would gain.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.theory.bounds import DataBounds, data_bounds
from drsim.theory.selection import best_of_n_beta

__all__ = ["CASE", "CASE_SOURCE", "PublishedRow"]

CASE_SOURCE = (
    "R. Vasudev, M. Russak, D. Bikel, W. Alshikh, arXiv:2602.03338, tables 10 and 26: HotPotQA, 100 tasks with 3 seeds"
)
N_RUNS, N_TASKS = 300, 100
PRIOR = 0.5
"""Jeffreys' prior of a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """Counts of 300 runs that the printed rates of one agent stand for."""

    agent: str
    successes: int
    """S, of the baseline."""
    recovered: int
    """C, fail → success under calibrated rollback."""
    disrupted: int
    """B, success → fail."""
    best_of_two: int
    """Successes of an oracle over two baseline runs."""

    @property
    def failure_rate(self) -> float:
        """The failure rate, p."""
        return 1.0 - self.successes / N_RUNS

    @property
    def rho(self) -> float:
        """ρ that the gain of the oracle over two runs implies: 1 − (χ/2)/(p (1 − p))."""
        p = self.failure_rate
        return 1.0 - (self.best_of_two - self.successes) / N_RUNS / (p * (1.0 - p))

    @property
    def bounds(self) -> DataBounds:
        """Gains of the arm and of both oracles by their closed forms."""
        failures = N_RUNS - self.successes
        return data_bounds(self.failure_rate, self.rho, self.recovered / failures, self.disrupted / self.successes)

    @property
    def verdict(self) -> str:
        """What an oracle should do, in words."""
        more, less = float(self.bounds.oracle_best_of_two), float(self.bounds.oracle_intervention)
        return "run it twice" if more > less else "intervene"

    def best_of(self, attempts: int) -> float:
        """Success of an oracle over N runs, tasks beta-distributed with that ρ."""
        size = 1.0 / self.rho - 1.0
        return float(best_of_n_beta((1.0 - self.failure_rate) * size, self.failure_rate * size, attempts))

    def draws(self, n_draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """Posterior of C/n and χ/2, (n_draws,) each, independent: a run weighs as a third of its task.

        Parameters
        ----------
        n_draws : int
            At least 1.
        seed : int
            Of the draws.
        """
        rng = np.random.default_rng([seed, self.successes, self.recovered])
        flips = (self.recovered, self.best_of_two - self.successes)
        n = float(N_TASKS)
        first, second = (rng.beta(PRIOR + k / N_RUNS * n, PRIOR + (1.0 - k / N_RUNS) * n, n_draws) for k in flips)
        return first, second


CASE = (
    PublishedRow(agent="Qwen-3-8B", successes=171, recovered=23, disrupted=30, best_of_two=204),
    PublishedRow(agent="GLM-4.7", successes=211, recovered=14, disrupted=19, best_of_two=231),
    PublishedRow(agent="MiniMax-M2.1", successes=192, recovered=12, disrupted=90, best_of_two=225),
)
"""Figures as printed, in per cent: baseline 57.0, 70.3, 64.0; oracle intervention +7.7, +4.7, +4.0; Best-of-2 68.0,
77.0, 75.0."""

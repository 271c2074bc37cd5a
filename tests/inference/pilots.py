"""Simulated pilots whose truth is known: beta tasks, an intervention that shifts every task's logit."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from drsim.arrays import FloatArray, IntArray
from drsim.pilot.cell import Cell, PairedBy, Tally

N_NODES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A population of tasks with success s ~ Beta and intervened success expit(logit s + shift)."""

    failure_rate: float
    rho: float
    shift: float

    @property
    def shapes(self) -> tuple[float, float]:
        """a, b of the tasks' beta distribution."""
        size = 1 / self.rho - 1
        return (1 - self.failure_rate) * size, self.failure_rate * size

    def intervened(self, success: FloatArray) -> FloatArray:
        """s' of tasks with s; exact at s = 0 and s = 1, where the logit is infinite."""
        odds = np.exp(self.shift)
        shifted: FloatArray = success * odds / (1 - success + success * odds)
        return shifted

    def truth(self) -> dict[str, float]:
        """p, r, d and the gain of two independent runs, by the midpoint rule on the quantiles of s."""
        s = special.betaincinv(*self.shapes, (np.arange(N_NODES) + 0.5) / N_NODES)
        s1 = self.intervened(s)
        p = float(np.mean(1 - s))
        return {
            "p": p,
            "r": float(np.mean((1 - s) * s1)) / p,
            "d": float(np.mean(s * (1 - s1))) / (1 - p),
            "gain": float(np.mean(s1 - s)),
        }

    def draw(self, n_tasks: int, n_trials: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """(n_tasks, n_trials) successes, 0 or 1, of the baseline and of the intervened arm."""
        s = rng.beta(*self.shapes, size=(n_tasks, 1))
        baseline = rng.random((n_tasks, n_trials)) < s
        arm = rng.random((n_tasks, n_trials)) < self.intervened(s)
        return baseline.astype(np.int64), arm.astype(np.int64)


def cell_of(baseline: IntArray, arm: IntArray) -> Cell:
    """Cell of (n_tasks, n_trials) outcomes that are paired by trial."""
    n_tasks, n_trials = baseline.shape
    cells = baseline + 2 * arm
    tables = np.stack([(cells == code).mean(axis=1) for code in range(4)], axis=1)
    ones = np.ones(n_tasks, dtype=np.int64)
    return Cell(
        agent="agent",
        benchmark="benchmark",
        arm="arm",
        paired_by=PairedBy.TRIAL,
        multiplicity=ones,
        tables=tables,
        n_pairs=n_trials * ones,
        baseline_successes=baseline.sum(axis=1),
        baseline_runs=n_trials * ones,
        arm_successes=arm.sum(axis=1),
        arm_runs=n_trials * ones,
        baseline_tally=Tally(success=int(baseline.sum()), fail=int((1 - baseline).sum())),
        arm_tally=Tally(success=int(arm.sum()), fail=int((1 - arm).sum())),
    )

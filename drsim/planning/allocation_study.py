"""Top-two sampling against the same tasks for every arm, on simulated problems whose best arm is known."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.planning.top_two import PRIOR_TASKS, fill_posterior, top_two
from drsim.theory.churn import beta_from_rho

__all__ = ["ArmProblem", "Comparison", "compare_allocations"]

N_RESAMPLES = 32
"""Draws among which a challenger is looked for."""
N_NORMALS = 4_096
"""Sets of draws, which problems go through from places of their own."""
AT_ONCE = 100
N_BOOTSTRAP = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProblem:
    """Arms with known gains, on tasks that differ."""

    gains: tuple[float, ...]
    """True gain of each intervened arm; the baseline's is 0."""
    failure_rate: float = 0.5
    """p, strictly between 0 and 1."""
    rho: float = 0.5
    """ρ, strictly between 0 and 1."""

    def __post_init__(self) -> None:
        """Check the gains."""
        top = max((0.0, *self.gains))
        if not all(self.failure_rate - 1 <= gain <= self.failure_rate for gain in self.gains):
            raise ParameterError(f"gains must lie in [p - 1, p], got {self.gains}; give probabilities")
        if [0.0, *self.gains].count(top) != 1:
            raise ParameterError(f"gains must have one best arm, got {self.gains}; change one")

    @property
    def best(self) -> int:
        """The best arm; 0 is the baseline."""
        return int(np.argmax([0.0, *self.gains]))

    def draw(self, n_problems: int, n_tasks: int, rng: np.random.Generator) -> FloatArray:
        """(n_problems, n_tasks, A) gains of tasks with one run of every arm.

        A gain g > 0 turns the share g/p of would-be failures into successes, one below 0 the share −g/(1 − p) of
        successes into failures.
        """
        s = rng.beta(*beta_from_rho(self.failure_rate, self.rho), size=(n_problems, n_tasks, 1))
        gains, p = np.array(self.gains), self.failure_rate
        arms = s + np.where(gains > 0, gains / p * (1 - s), gains / (1 - p) * s)
        base = rng.random(s.shape) < s
        outcome = rng.random(arms.shape) < arms
        return outcome.astype(np.float64) - base


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Share of problems in which the best arm is the one picked, by runs made."""

    runs: IntArray
    """(n_points,) runs made."""
    top_two: FloatArray
    """(n_points,)"""
    uniform: FloatArray
    """(n_points,)"""
    level: float
    runs_top_two: float
    """Runs until the level is reached for good; NaN where it is not."""
    runs_uniform: float
    saved: float
    """1 − runs_top_two / runs_uniform."""
    saved_se: float
    """Standard error, by resampling problems."""
    n_problems: int


def compare_allocations(
    problem: ArmProblem, *, level: float, max_runs: int, n_problems: int, seed: int, n_points: int = 60
) -> Comparison:
    """Runs that each way of allocating takes to pick the best arm with a wanted probability.

    Parameters
    ----------
    problem : ArmProblem
        Gains and tasks.
    level : float
        P(best arm is picked), in (0, 1).
    max_runs : int
        Runs of the longest pilot.
    n_problems : int
        Simulated pilots.
    seed : int
        Both ways see the same outcomes.
    n_points : int
        Sizes at which the pick is looked at.

    Returns
    -------
    Comparison
    """
    n_arms = len(problem.gains)
    rng = np.random.default_rng(seed)
    runs = np.unique(np.linspace(n_arms + 1, max_runs, n_points).astype(np.int64))
    normals = rng.standard_normal((N_NORMALS, N_RESAMPLES, n_arms))
    right = np.empty((2, n_problems, len(runs)), dtype=np.bool_)
    for start in range(0, n_problems, AT_ONCE):
        part = slice(start, min(start + AT_ONCE, n_problems))
        # an arm and the baseline could take every run
        gains = problem.draw(part.stop - start, max_runs // 2 + 1, rng)
        _fill_right(gains, normals, runs, problem.best, start, right[0, part], right[1, part])
    shares = right.mean(axis=1)
    found = _reached(runs, shares, level)
    resampled = np.empty(N_BOOTSTRAP)
    for i in range(N_BOOTSTRAP):
        weights = np.bincount(rng.integers(0, n_problems, n_problems), minlength=n_problems) / n_problems
        one, other = _reached(runs, np.einsum("p,wpr->wr", weights, right), level)
        resampled[i] = 1 - one / other
    return Comparison(
        runs=runs,
        top_two=shares[0],
        uniform=shares[1],
        level=level,
        runs_top_two=found[0],
        runs_uniform=found[1],
        saved=1 - found[0] / found[1],
        saved_se=float(np.nanstd(resampled)),
        n_problems=n_problems,
    )


def _reached(runs: IntArray, shares: FloatArray, level: float) -> tuple[float, float]:
    """Runs from which shares stay at the level, between two points by a straight line."""
    found = []
    for row in shares:
        below = np.flatnonzero(row < level)
        last = int(below[-1]) if len(below) else -1
        if last + 1 >= len(row):
            found.append(float("nan"))
        elif last < 0:
            found.append(float(runs[0]))
        else:
            part = (level - row[last]) / (row[last + 1] - row[last])
            found.append(float(runs[last] + part * (runs[last + 1] - runs[last])))
    return found[0], found[1]


@njit(cache=True)
def _fill_right(
    gains: FloatArray,
    normals: FloatArray,
    runs: IntArray,
    best: int,
    first: int,
    right: BoolArray,
    right_uniform: BoolArray,
) -> None:
    """Fill whether the best arm is picked after so many runs, by top-two sampling and by all arms on every task.

    An arm goes through the tasks in order; a task that no arm was run on before takes a baseline run as well.
    """
    n_problems, _, n_arms = gains.shape
    n = np.zeros(n_arms, dtype=np.int64)
    shared, sums, cross = np.zeros((n_arms, n_arms)), np.zeros((n_arms, n_arms)), np.zeros((n_arms, n_arms))
    mean, cov = np.zeros(n_arms), np.zeros((n_arms, n_arms))
    found = np.zeros(2, dtype=np.int64)
    for problem in range(n_problems):
        n[:] = 0
        shared[:] = 0.0
        sums[:] = 0.0
        cross[:] = 0.0
        made = point = step = 0
        while point < len(runs):
            fill_posterior(shared, sums, cross, mean, cov)
            lowest = n.min()
            if lowest == 0:
                arm = int(np.argmin(n))
            else:
                top_two(mean, cov, normals[(first + problem + 7 * step) % len(normals)], found)
                arm = _of_two(found, cov, n)
            task = n[arm]
            cost = 1 if task < n.max() else 2
            while point < len(runs) and made + cost > runs[point]:
                right[problem, point] = _picked(mean) == best
                point += 1
            made += cost
            step += 1
            _add(gains[problem, task], task, arm, n, shared, sums, cross)
        n_arms_plus = n_arms + 1
        mean[:] = 0.0
        tasks = 0
        for point in range(len(runs)):
            while (tasks + 1) * n_arms_plus <= runs[point]:
                for a in range(n_arms):
                    mean[a] += gains[problem, tasks, a]
                tasks += 1
            right_uniform[problem, point] = _picked(mean) == best


@njit(cache=True)
def _of_two(found: IntArray, cov: FloatArray, n: IntArray) -> int:
    """Index of the arm of the two whose next task lowers the variance of their difference most for its price."""
    chosen, most = 0, -1.0
    for arm in found:
        if arm == 0:
            continue
        a = arm - 1
        price = 1.0 if n[a] < n.max() else 2.0
        worth = cov[a, a] / (n[a] + PRIOR_TASKS + 1.0) / price
        if worth > most:
            chosen, most = a, worth
    return chosen


@njit(cache=True)
def _picked(mean: FloatArray) -> int:
    """The arm of the highest mean, 0 where none is above 0."""
    best, value = 0, 0.0
    for a in range(len(mean)):
        if mean[a] > value:
            best, value = a + 1, mean[a]
    return best


@njit(cache=True)
def _add(
    row: FloatArray,
    task: int,
    arm: int,
    n: IntArray,
    shared: FloatArray,
    sums: FloatArray,
    cross: FloatArray,
) -> None:
    """Take up one task of an arm."""
    for other in range(len(n)):
        if other == arm or n[other] > task:
            shared[arm, other] += 1.0
            sums[arm, other] += row[arm]
            cross[arm, other] += row[arm] * row[other]
            if other != arm:
                shared[other, arm] += 1.0
                sums[other, arm] += row[other]
                cross[other, arm] += row[arm] * row[other]
    n[arm] += 1

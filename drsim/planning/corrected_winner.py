r"""The winner of several arms on the same tasks: what it gains once the luck of having been picked is taken off.

Two corrections, which fail differently:

- *nested resampling*: tasks are split into halves; the winner is picked on one and read on the other. No task serves
  both, so that the value is unbiased for what picking the best of these arms on half of the tasks gains;
- *shrinkage*: gains are normal around their mean m with variance τ², their estimates g around them with covariance Σ,
  the tasks resampled; the estimate of each gain moves to m by the share of its spread that luck explains. With A arms

  .. math:: m + \Bigl(1 - \frac{A - 2}{S}\Bigr)(g - m), \qquad S = (g - m)^\top Σ^{-1} (g - m),

  with m the generalised mean: E[√S − (A − 2)/√S] = 0 for χ² with A − 1 degrees of freedom makes the winner's value
  unbiased where all arms are alike. (A − 2)/S is cut at 3, so that arms which happen to agree do not throw it far off;
  that leaves 9 % of the bias with five arms, 30 % with three. It takes three arms.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import DataError, ParameterError
from drsim.inference.paired_table import JEFFREYS
from drsim.pilot.cell import Cell
from drsim.pilot.cells import cells_of
from drsim.pilot.records import BASELINE
from drsim.planning.cell_rates import Selection
from drsim.planning.source import evidence_of

__all__ = ["Corrected", "corrected_winner", "corrected_winners", "task_gains", "winners_of"]

N_PARTS = 2
"""Halves: with more parts the arm that is picked without a part is the one that did worse on it where arms are nearly
alike, and the value spreads by 30 % more over pilots than its standard error says; with halves by 10 %."""
N_SPLITS = 200
"""Random splits; that they differ adds under a tenth to the standard error of 100 tasks."""
MOST_LUCK = 3.0
"""With it the winner's distance from the mean is turned round and doubled at most, where S ≤ (A − 2)/3."""
LEAST_TASKS = 20
"""Below, half of the tasks picks by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """The winner's gain, as picked and corrected."""

    agent: str
    benchmark: str
    arms: tuple[str, ...]
    winner: str
    n_tasks: int
    """Tasks that all arms have a pair of."""
    gain: float
    """Mean of the winner over them: too high on average."""
    nested: float
    """Picked and read on different tasks."""
    nested_se: float
    shrunk: float | None
    """By shrinkage; None for two arms."""
    luck: float
    """Share (A − 2)/S of the spread between arms that luck explains, at most 3; above 1 where they differ less than by
    luck."""


def task_gains(cells: Sequence[Cell]) -> FloatArray:
    """Gains of the tasks that every arm of one agent and benchmark has a pair of.

    Parameters
    ----------
    cells : sequence of Cell
        One cell for each arm.

    Returns
    -------
    ndarray
        (n_tasks, A) intervened minus baseline success of a task.

    Raises
    ------
    DataError
        Tasks have no names by which arms could be joined.
    """
    by_arm = []
    for cell in cells:
        if not cell.task_ids:
            raise DataError(
                f"{cell.name} names no tasks, so that arms cannot be resampled together; give runs, not counts"
            )
        has = cell.n_pairs > 0
        gains = cell.tables[:, 2] - cell.tables[:, 1]
        by_arm.append({name: float(gains[i]) for i, name in enumerate(cell.task_ids) if has[i]})
    shared = [name for name in by_arm[0] if all(name in arm for arm in by_arm)]
    return np.array([[arm[name] for arm in by_arm] for name in shared], dtype=np.float64).reshape(-1, len(cells))


def corrected_winner(cells: Sequence[Cell], *, seed: int) -> Corrected:
    """Correct the gain of the best of several arms.

    Parameters
    ----------
    cells : sequence of Cell
        Two or more arms of one agent and benchmark.
    seed : int
        Seed of the splits, ≥ 0.

    Returns
    -------
    Corrected

    Raises
    ------
    DataError
        Fewer than 20 tasks have a pair of every arm, or tasks have no names.
    ParameterError
        There is one arm only, arms are of several places, or `seed` is negative.

    References
    ----------
    THEORY section 8; B. Efron, C. Morris, Journal of the American Statistical Association 68 (1973) 117–130.
    """
    if len(cells) < 2 or len({(cell.agent, cell.benchmark) for cell in cells}) != 1 or seed < 0:
        raise ParameterError(
            f"a winner takes two or more arms of one agent and benchmark and a seed ≥ 0, got {len(cells)} and {seed}"
        )
    gains = task_gains(cells)
    n, n_arms = gains.shape
    if n < LEAST_TASKS:
        place = f"{cells[0].agent} on {cells[0].benchmark}"
        raise DataError(f"{place}: {n} tasks have a pair of every arm; correcting takes {LEAST_TASKS}: run more tasks")
    mean = gains.mean(axis=0)
    winner = int(mean.argmax())
    nested, nested_se = _nested(gains, np.random.default_rng(seed))
    luck = _luck(gains)
    level = _level(gains)
    return Corrected(
        agent=cells[0].agent,
        benchmark=cells[0].benchmark,
        arms=tuple(cell.arm for cell in cells),
        winner=cells[winner].arm,
        n_tasks=n,
        gain=float(mean[winner]),
        nested=nested,
        nested_se=nested_se,
        shrunk=None if n_arms < 3 else float(level + (1 - luck) * (mean[winner] - level)),
        luck=luck,
    )


def corrected_winners(cells: Iterable[Cell], *, seed: int) -> tuple[Corrected, ...]:
    """Correct the winner of every agent and benchmark with several paired arms.

    Parameters
    ----------
    cells : iterable of Cell
        Of a pilot.
    seed : int
        Seed of the splits, ≥ 0.

    Returns
    -------
    tuple of Corrected
        In order of agent and benchmark.

    Raises
    ------
    ParameterError
        No agent and benchmark has two paired arms.
    DataError
        As `corrected_winner`.
    """
    places: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.is_paired:
            places[cell.agent, cell.benchmark].append(cell)
    several = [arms for _, arms in sorted(places.items()) if len(arms) > 1]
    if not several:
        raise ParameterError(
            "correcting a winner takes two or more paired arms on one benchmark, got none; leave it out"
        )
    return tuple(corrected_winner(arms, seed=seed) for arms in several)


def winners_of(
    given: str, *, agent: str | None = None, benchmark: str | None = None, baseline: str = BASELINE, seed: int
) -> tuple[Corrected, ...]:
    """The same of a pilot by its path.

    Parameters
    ----------
    given : str
        A pilot, by its path.
    agent, benchmark : str, optional
        Which of them; all by default.
    baseline : str
        Name of the arm without intervention.
    seed : int
        Seed of the splits, ≥ 0.

    Returns
    -------
    tuple of Corrected
        In order of agent and benchmark.

    Raises
    ------
    DrsimError
        As `corrected_winners`, or the file cannot be read.
    """
    cells = cells_of(evidence_of(given), baseline=baseline).cells
    place = Selection(agent=agent, benchmark=benchmark)
    return corrected_winners((it for it in cells if place.picks(it.agent, it.benchmark, it.arm)), seed=seed)


def _nested(gains: FloatArray, rng: np.random.Generator) -> tuple[float, float]:
    """Mean over tasks of the gain of the arm that was picked without them, and its standard error by tasks."""
    n = len(gains)
    total, read = gains.sum(axis=0), np.zeros(n)
    for _ in range(N_SPLITS):
        part = rng.permutation(n) % N_PARTS
        inside = np.zeros((N_PARTS, gains.shape[1]))
        np.add.at(inside, part, gains)
        outside = n - np.bincount(part, minlength=N_PARTS)
        picked = ((total - inside) / outside[:, None]).argmax(axis=1)
        read += gains[np.arange(n), picked[part]]
    read /= N_SPLITS
    return float(read.mean()), float(read.std(ddof=1) / n**0.5)


def _covariance(gains: FloatArray) -> FloatArray:
    """(A, A) of the means; the prior's pure tables keep it regular where no task tells two arms apart."""
    n, n_arms = gains.shape
    residuals = gains - gains.mean(axis=0)
    cov: FloatArray = (residuals.T @ residuals + 2 * JEFFREYS * np.eye(n_arms)) / n**2
    return cov


def _level(gains: FloatArray) -> float:
    """The arms' common mean, weighted by what is known of each."""
    weights = np.linalg.solve(_covariance(gains), np.ones(gains.shape[1]))
    return float(weights @ gains.mean(axis=0) / weights.sum())


def _luck(gains: FloatArray) -> float:
    apart = gains.mean(axis=0) - _level(gains)
    spread = float(apart @ np.linalg.solve(_covariance(gains), apart))
    return min((gains.shape[1] - 2) / spread, MOST_LUCK) if spread > 0 else MOST_LUCK

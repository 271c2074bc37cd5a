r"""Recovery and disruption given that the critic fires (THEORY section 3), and where they are known from.

The best that there is: rates that the user states; else the pairs of an intervened arm. Forked pairs whose intervened
run was acted on give ρ_m = C'/F' and δ_m = B'/S' as they stand. Independent pairs hold what reruns alone flip, which is
taken off by their churn (see `independent_pairs`). Where no run says whether it was acted on, every run is taken to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.inference.critic.independent_pairs import Flows, causal_rates
from drsim.inference.critic.scores import Place, Task, index_tasks
from drsim.inference.critic.task_weights import TaskWeights
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.inference.task_groups import unbiased_spread
from drsim.pilot.caps import check_caps
from drsim.pilot.cell import Cell, PairedBy
from drsim.pilot.pairing import RunsByTask, group_runs, pair_arms
from drsim.pilot.records import Run
from drsim.theory.domain import ratio

__all__ = ["FiringRates", "PairTables", "RateSource", "acted_pairs", "firing_rates", "given_rates", "rate_draws"]

TABLES_STREAM = 2
"""Stream of the prior weights of the tables."""
CHURN_STREAM = 3
"""Stream of the prior weights of repeated baseline runs, or of ρ where it is assumed."""

QUARTER = 0.25
"""Prior weight of each of the eight kinds of pair, acted on or not: half a task for each of A, B, C, D as elsewhere."""


class RateSource(StrEnum):
    """Where ρ_m and δ_m come from."""

    GIVEN = "given"
    ACTED_PAIRS = "acted-pairs"
    ALL_PAIRS = "all-pairs"
    """No run says whether it was acted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTables:
    """Paired 2×2 tables of an intervened arm by task, over one or more agents and benchmarks."""

    tables: FloatArray
    """(n_tasks, 4) shares of A, B, C, D; the sum of a row is the number of agents that have pairs of the task."""
    acted: FloatArray
    """(n_tasks, 4) the part of them whose intervened run was acted on."""
    repeats: FloatArray
    """(n_tasks, 3) of repeated baseline runs: unbiased s(1−s), success rate, and how many agents repeat the task."""
    counts: dict[str, float]
    """A, B, C, D over all pairs."""
    acted_counts: dict[str, float]
    """A, B, C, D over acted pairs."""
    n_pairs: int
    n_acted: int
    paired_by: tuple[PairedBy, ...]
    """Ways in which the pairs were made, best first."""

    @property
    def is_forked(self) -> bool:
        """Whether all pairs share a prefix."""
        return self.paired_by == (PairedBy.FORK,)

    @property
    def measures_churn(self) -> bool:
        """Whether some baseline runs are repeated."""
        return bool(self.repeats[:, 2].any())


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringRates:
    """What is known of ρ_m and δ_m."""

    source: RateSource
    given: tuple[float, float] | None = None
    """ρ_m and δ_m as the user states them."""
    arm: str | None = None
    """Intervened arm whose pairs they rest on."""
    pairs: PairTables | None = None
    rho_prior: RhoPrior = DEFAULT_RHO_PRIOR
    """ρ, where no baseline run is repeated."""

    @property
    def counts(self) -> dict[str, float] | None:
        """A, B, C, D over the pairs in which the critic fired."""
        if self.pairs is None:
            return None
        return self.pairs.acted_counts if self.source is RateSource.ACTED_PAIRS else self.pairs.counts

    @property
    def assumption(self) -> str:
        """What has to hold for the rates to be those of a run on which the critic fires."""
        if self.pairs is None:
            return "stated with --recovery and --disruption, and taken as exact"
        if self.source is RateSource.ALL_PAIRS:
            text = f"pairs of {self.arm}, every run taken to be acted on, since no run says whether it was"
        else:
            text = f"pairs of {self.arm} whose intervened run was acted on, taken to hold at every threshold"
        if self.pairs.is_forked:
            return text
        churn = "measured on repeated baseline runs" if self.pairs.measures_churn else f"ρ {self.rho_prior} assumed"
        return f"{text}; independent runs, so what reruns alone flip is taken off ({churn})"


def given_rates(recovery: float | None, disruption: float | None) -> FiringRates | None:
    """Rates that the user states.

    Parameters
    ----------
    recovery, disruption : float or None
        ρ_m and δ_m, in [0, 1]; both or neither.

    Returns
    -------
    FiringRates or None
        None when neither is given.

    Raises
    ------
    ParameterError
        One is missing or outside [0, 1].
    """
    if recovery is None and disruption is None:
        return None
    if recovery is None or disruption is None:
        raise ParameterError("--recovery and --disruption must be given together; a gain needs both rates")
    for name, rate in (("--recovery", recovery), ("--disruption", disruption)):
        if not 0 <= rate <= 1:
            raise ParameterError(f"{name} must lie in [0, 1], got {rate}; give a probability, not per cent")
    return FiringRates(source=RateSource.GIVEN, given=(recovery, disruption))


def acted_pairs(runs: Sequence[Run], arm: str, *, baseline: str) -> int:
    """Pairs of an arm whose intervened run was acted on, whatever the caps."""
    n = 0
    for (agent, benchmark), by_arm in group_runs(runs).items():
        if baseline in by_arm and arm in by_arm:
            n += pair_arms(agent, benchmark, arm, by_arm[baseline], _acted(by_arm[arm])).n_paired
    return n


def firing_rates(
    runs: Sequence[Run],
    places: Sequence[Place],
    arm: str,
    *,
    baseline: str,
    rho_prior: RhoPrior = DEFAULT_RHO_PRIOR,
) -> FiringRates | None:
    """Rates from the pairs of an intervened arm.

    Parameters
    ----------
    runs : sequence of Run
        All runs of the pilot, whose tasks are numbered as for the scores.
    places : sequence of Place
        Agents and benchmarks to use.
    arm : str
        The intervened arm.
    baseline : str
        The arm without intervention.
    rho_prior : RhoPrior
        ρ, where no baseline run is repeated.

    Returns
    -------
    FiringRates or None
        None where the arm has no pair.

    Raises
    ------
    DataError
        The two arms were stopped at different caps.
    """
    index = index_tasks(runs)
    groups = group_runs(runs)
    parts = []
    for place in places:
        by_arm = groups.get(place, {})
        if baseline in by_arm and arm in by_arm:
            check_caps(f"{place[0]} on {place[1]}", {name: by_arm[name] for name in (baseline, arm)})
            parts.append(_place_tables(place, arm, by_arm[baseline], by_arm[arm], index))
    pairs = _together(parts, len(index))
    if not pairs.n_pairs:
        return None
    source = RateSource.ACTED_PAIRS if pairs.n_acted else RateSource.ALL_PAIRS
    return FiringRates(source=source, arm=arm, pairs=pairs, rho_prior=rho_prior)


def rate_draws(rates: FiringRates, weights: TaskWeights) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Draws of ρ_m and δ_m under the task weights, and of the gain that the arm had as it ran.

    Parameters
    ----------
    rates : FiringRates
        As found or stated; stated ones do not vary.
    weights : TaskWeights
        Draws over the same tasks.

    Returns
    -------
    recovery, disruption : FloatArray
        (n_draws,) each.
    as_run : FloatArray or None
        (n_draws,) (C − B)/n over all pairs; None without pairs.
    """
    if rates.pairs is None:
        recovery, disruption = rates.given or (float("nan"), float("nan"))
        return np.full(weights.n_draws, recovery), np.full(weights.n_draws, disruption), None
    tables, acted = _shares(rates, rates.pairs, weights)
    a, b, c, d = acted.T
    as_run = tables[:, 2] - tables[:, 1]
    if rates.pairs.is_forked:
        return c / (a + c), b / (b + d), as_run
    flows = Flows(
        recovered=tables[:, 2],
        disrupted=tables[:, 1],
        failed=tables[:, 0] + tables[:, 2],
        fired_failed=a + c,
        fired_succeeded=b + d,
    )
    return *causal_rates(flows, _within(rates, flows.failed, weights)), as_run


def _shares(rates: FiringRates, pairs: PairTables, weights: TaskWeights) -> tuple[FloatArray, FloatArray]:
    """(n_draws, 4) shares of A, B, C, D among all pairs, and the part of them in which the critic fired."""
    n_paired = np.count_nonzero(pairs.tables.sum(axis=1))
    prior = weights.prior(8, TABLES_STREAM, QUARTER) * (pairs.tables.sum() / n_paired)
    totals = weights.totals(np.concatenate([pairs.tables, pairs.acted], axis=1))
    tables = totals[:, :4] + prior[:, :4] + prior[:, 4:]
    acted = totals[:, 4:] + prior[:, :4] if rates.source is RateSource.ACTED_PAIRS else tables
    n = tables.sum(axis=1, keepdims=True)
    return tables / n, acted / n


def _within(rates: FiringRates, failure_rate: FloatArray, weights: TaskWeights) -> FloatArray:
    """Draws of v = E[s(1−s)] = p(1−p)(1−ρ)."""
    pairs = rates.pairs
    if pairs is None or not pairs.measures_churn:
        rho = rates.rho_prior.draw(weights.n_draws, np.random.default_rng([*weights.seed, CHURN_STREAM]))
    else:
        spread, success, n = weights.totals(pairs.repeats).T
        # As elsewhere, the prior's half tasks always end alike.
        halves = weights.prior(2, CHURN_STREAM) * (pairs.repeats[:, 2].sum() / np.count_nonzero(pairs.repeats[:, 2]))
        n = n + halves.sum(axis=1)
        mean = (success + halves[:, 0]) / n
        rho = 1.0 - ratio(spread / n, mean * (1.0 - mean))
    within: FloatArray = failure_rate * (1.0 - failure_rate) * np.clip(1.0 - rho, 0.0, 1.0)
    return within


def _place_tables(
    place: Place, arm: str, baseline_tasks: RunsByTask, arm_tasks: RunsByTask, index: dict[Task, int]
) -> PairTables:
    every = pair_arms(*place, arm, baseline_tasks, arm_tasks)
    acted_tasks = _acted(arm_tasks)
    acted = pair_arms(*place, arm, baseline_tasks, acted_tasks)
    # Rows of a cell follow its tasks: the baseline's in order, then those of the arm alone.
    rows = _numbers(index, place[1], [*baseline_tasks, *arm_tasks])
    acted_rows = _numbers(index, place[1], [*baseline_tasks, *acted_tasks])
    part = np.zeros((len(index), 1))
    part[acted_rows, 0] = _weight(acted)
    part[rows, 0] /= np.maximum(_weight(every), 1)
    return PairTables(
        tables=_spread(rows, _tables(every), len(index)),
        acted=_spread(acted_rows, _tables(acted), len(index)) * part,
        repeats=_spread(rows, _repeats(every), len(index)),
        counts=every.counts,
        acted_counts=acted.counts,
        n_pairs=every.n_paired,
        n_acted=acted.n_paired,
        paired_by=(every.paired_by,) if every.is_paired else (),
    )


def _tables(cell: Cell) -> FloatArray:
    return np.where(cell.n_pairs[:, None] > 0, cell.tables, 0.0)


def _repeats(cell: Cell) -> FloatArray:
    k, n = cell.baseline_successes, cell.baseline_runs
    return np.stack([unbiased_spread(k, n), k / np.maximum(n, 1), np.ones(len(n))], axis=1) * (n >= 2)[:, None]


def _weight(cell: Cell) -> IntArray:
    """(n_rows,) what a task's table counts by, to tell the share of it that was acted on."""
    return cell.arm_runs if cell.paired_by is PairedBy.ALL else cell.n_pairs


def _spread(rows: list[int], values: FloatArray, n_tasks: int) -> FloatArray:
    spread = np.zeros((n_tasks, values.shape[1]))
    spread[rows] = values
    return spread


def _together(parts: Sequence[PairTables], n_tasks: int) -> PairTables:
    ways = {way for part in parts for way in part.paired_by}
    return PairTables(
        tables=sum((part.tables for part in parts), np.zeros((n_tasks, 4))),
        acted=sum((part.acted for part in parts), np.zeros((n_tasks, 4))),
        repeats=sum((part.repeats for part in parts), np.zeros((n_tasks, 3))),
        counts={name: sum(part.counts[name] for part in parts) for name in "ABCD"},
        acted_counts={name: sum(part.acted_counts[name] for part in parts) for name in "ABCD"},
        n_pairs=sum(part.n_pairs for part in parts),
        n_acted=sum(part.n_acted for part in parts),
        paired_by=tuple(way for way in PairedBy if way in ways),
    )


def _acted(tasks: RunsByTask) -> RunsByTask:
    acted = {task_id: [run for run in runs if run.acted_steps] for task_id, runs in tasks.items()}
    return {task_id: runs for task_id, runs in acted.items() if runs}


def _numbers(index: dict[Task, int], benchmark: str, task_ids: list[str]) -> list[int]:
    return [index[benchmark, task_id] for task_id in dict.fromkeys(task_ids)]

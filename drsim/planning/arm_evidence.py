"""What a pilot of several arms says of all their gains together, and what a further run of each kind would add."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import DataError, ParameterError
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR
from drsim.inference.task_groups import unbiased_spread
from drsim.pilot.arms import check_wanted
from drsim.pilot.evidence import Pilot
from drsim.pilot.pairing import group_runs
from drsim.pilot.records import Outcome, Run
from drsim.planning.top_two import fill_posterior

__all__ = ["ArmEvidence", "arm_evidence", "run_prices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvidence:
    """Arms of one agent and benchmark; index 0 is the baseline everywhere."""

    agent: str
    benchmark: str
    arms: tuple[str, ...]
    """(A + 1,) names."""
    tasks: tuple[str, ...]
    """(n_tasks,) in file order."""
    runs: IntArray
    """(n_tasks, A + 1) judged runs."""
    trials: tuple[tuple[frozenset[int], ...], ...]
    """(n_tasks, A + 1) trial numbers that are taken, by runs of any outcome."""
    mean: FloatArray
    """(A,) posterior mean of each gain."""
    cov: FloatArray
    """(A, A)"""
    n_tasks_of: FloatArray
    """(A,) tasks with runs of the arm and of the baseline."""
    within: float
    """E[s(1−s)], variance of a run's outcome within its task."""
    rho: float
    is_rho_measured: bool
    """Whether some task has two judged baseline runs; else ρ is the default prior's mean."""


def arm_evidence(
    pilot: Pilot,
    *,
    baseline: str,
    arms: Iterable[str] | None = None,
    place: tuple[str | None, str | None] = (None, None),
) -> ArmEvidence:
    """Evidence on the arms of one agent and benchmark.

    Parameters
    ----------
    pilot : Pilot
        Runs.
    baseline : str
        Arm without intervention.
    arms : iterable of str, optional
        Intervened arms; all by default.
    place : tuple of str or None
        Agent and benchmark, where the pilot holds several.

    Returns
    -------
    ArmEvidence
        Gains are differences of task means; a task counts for an arm once both have a judged run of it.

    Raises
    ------
    DataError
        The pilot holds several agents or benchmarks, or no intervened arm, or no run of the baseline.

    References
    ----------
    THEORY sections 7 and 8.
    """
    by_arm, agent, benchmark = _place(pilot, place)
    wanted = None if arms is None else tuple(arms)
    check_wanted(wanted, by_arm, baseline=baseline)
    names = (baseline, *(it for it in sorted(by_arm) if it != baseline and (wanted is None or it in wanted)))
    if baseline not in by_arm or len(names) == 1:
        raise DataError(
            f"{agent} on {benchmark} needs runs of {baseline!r} and of another arm, got {', '.join(sorted(by_arm))}; "
            "name the arm without intervention with --baseline"
        )
    tasks = tuple(dict.fromkeys(run.task_id for run in pilot.runs if (run.agent, run.benchmark) == (agent, benchmark)))
    cells = [[by_arm[arm].get(task, []) for arm in names] for task in tasks]
    runs = np.array([[sum(it.outcome.is_judged for it in cell) for cell in row] for row in cells], dtype=np.int64)
    wins = np.array([[_successes(cell) for cell in row] for row in cells], dtype=np.int64)
    rates = wins / np.maximum(runs, 1)
    has = (runs[:, 1:] > 0) & (runs[:, :1] > 0)
    gains = np.where(has, rates[:, 1:] - rates[:, :1], 0.0)
    mean, cov = np.empty(len(names) - 1), np.empty((len(names) - 1,) * 2)
    both = has.astype(np.float64)
    fill_posterior(both.T @ both, gains.T @ both, gains.T @ gains, mean, cov)
    within, rho, is_measured = _noise(wins[:, 0], runs[:, 0])
    return ArmEvidence(
        agent=agent,
        benchmark=benchmark,
        arms=names,
        tasks=tasks,
        runs=runs,
        trials=tuple(tuple(frozenset(run.trial for run in cell) for cell in row) for row in cells),
        mean=mean,
        cov=cov,
        n_tasks_of=both.sum(axis=0),
        within=within,
        rho=rho,
        is_rho_measured=is_measured,
    )


def run_prices(pilot: Pilot, names: Iterable[str], given: Mapping[str, float]) -> tuple[dict[str, float], bool]:
    """Price of a run of each arm: as given, else the mean of its runs with its critic.

    Parameters
    ----------
    pilot : Pilot
        Runs, some of them with costs.
    names : iterable of str
        Arms.
    given : mapping of str to float
        Prices in dollars, > 0.

    Returns
    -------
    prices : dict
        By arm; 1 for each where nothing has a price.
    is_priced : bool
        Whether they are dollars; otherwise they count runs.

    Raises
    ------
    ParameterError
        A price is not positive, or names no arm, or some arms have a price and others have none.
    """
    names = tuple(names)
    for name in given:
        if name not in names:
            raise ParameterError(f"price must name an arm, got {name!r}; there are {', '.join(names)}")
    seen = {name: _mean_cost(pilot, name) for name in names}
    found = {name: given.get(name, seen[name]) for name in names}
    missing = [name for name in names if found[name] is None]
    if len(missing) == len(names):
        return dict.fromkeys(names, 1.0), False
    if missing:
        raise ParameterError(
            f"every arm needs the price of a run, and {', '.join(missing)} has none while others have one; "
            f"give --price {missing[0]}=USD"
        )
    prices = {name: price for name, price in found.items() if price is not None}
    for name, price in prices.items():
        if not 0 < price < np.inf:
            raise ParameterError(
                f"the price of a run of {name} must be a number > 0, got {price}; give --price {name}=USD"
            )
    return prices, True


def _mean_cost(pilot: Pilot, arm: str) -> float | None:
    """Mean price of an arm's runs that have one."""
    seen = [
        run.cost.usd + (run.cost.critic_usd or 0.0)
        for run in pilot.runs
        if run.arm == arm and run.cost is not None and run.cost.usd is not None
    ]
    return float(np.mean(seen)) if seen else None


def _place(pilot: Pilot, place: tuple[str | None, str | None]) -> tuple[dict[str, dict[str, list[Run]]], str, str]:
    groups = {
        key: by_arm
        for key, by_arm in group_runs(pilot.runs).items()
        if all(wanted in (None, name) for wanted, name in zip(place, key, strict=True))
    }
    if len(groups) != 1:
        known = "; ".join(" on ".join(key) for key in sorted(group_runs(pilot.runs)))
        raise DataError(
            f"one agent and benchmark at a time, got {len(groups)} of: {known}; use --agent and --benchmark"
        )
    ((agent, benchmark), by_arm) = next(iter(groups.items()))
    return by_arm, agent, benchmark


def _successes(runs: list[Run]) -> int:
    return sum(run.outcome is Outcome.SUCCESS for run in runs)


def _noise(wins: IntArray, runs: IntArray) -> tuple[float, float, bool]:
    """E[s(1−s)] of the baseline, ρ, and whether repeats measure it."""
    total = runs.sum()
    p = 1 - wins.sum() / total if total else 0.5
    repeated = runs >= 2
    whole = float(p * (1 - p))
    if repeated.any():
        # p(1 − p) bounds it, which an unbiased estimate from few tasks need not keep to
        within = min(float(unbiased_spread(wins, runs)[repeated].mean()), whole)
        return within, 1 - within / whole if whole else 1.0, True
    prior = DEFAULT_RHO_PRIOR
    rho = (prior.a or 0.0) / ((prior.a or 0.0) + (prior.b or 0.0))
    return whole * (1 - rho), rho, False

"""Nested resampling of a pilot: posteriors of the tasks in a fold and of all others, to value what those picked.

The winner of a sweep owes some of its gain to the luck of the pilot's tasks. Tasks are dealt into folds; the posterior
of the tasks outside a fold picks a cell, that of the fold's own tasks values it. The base model, with the horizon,
costs and scores that all runs show, is the same throughout: what is resampled is how runs end.
"""

from dataclasses import replace

import numpy as np

from drsim.arrays import BoolArray
from drsim.errors import ParameterError
from drsim.inference.rho_prior import RhoPrior
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import BASELINE
from drsim.planning.cell_rates import Selection, rates_of_pilot
from drsim.planning.source import Prepared, evidence_of, prepare, runs_of
from drsim.planning.sweep_cells import Fold
from drsim.process.stacks import ModelDraws

__all__ = ["FEWEST_TASKS", "task_folds"]

FEWEST_TASKS = 4
"""In a fold: the posterior of fewer is its prior."""


def task_folds(
    given: str,
    *,
    base: str | None = None,
    policy: str | None = None,
    agent: str | None = None,
    benchmark: str | None = None,
    arm: str | None = None,
    baseline: str = BASELINE,
    rho_prior: RhoPrior | None = None,
    n_folds: int,
    n_draws: int,
    seed: int,
) -> tuple[Fold, ...]:
    """Folds of a pilot's tasks, placed in the step process.

    Parameters
    ----------
    given : str
        A file of runs; one of counts or marginals names no task, and gives no fold.
    base, policy, agent, benchmark, arm, baseline, rho_prior
        As in `drsim.planning.source.read_source`.
    n_folds : int
        Folds, ≥ 2.
    n_draws : int
        Posterior draws of each side of a fold, ≥ 1.
    seed : int
        Deals the tasks and draws, ≥ 0.

    Returns
    -------
    tuple of Fold
        None where the cell has fewer than four tasks a fold, or a side of a fold lacks one of the arms.

    Raises
    ------
    ParameterError
        A number is outside its domain, or as in `read_source`.
    DataError
        As in `read_source`.

    References
    ----------
    THEORY section 8.
    """
    if n_folds < 2 or n_draws < 1 or seed < 0:
        raise ParameterError(
            f"n_folds must be ≥ 2, n_draws ≥ 1 and seed ≥ 0, got {n_folds}, {n_draws} and {seed}; 5 folds are usual"
        )
    evidence = evidence_of(given)
    if not isinstance(evidence, Pilot):
        return ()
    selection = Selection(agent=agent, benchmark=benchmark, arm=arm, baseline=baseline)
    whole = rates_of_pilot(evidence, selection, n_draws=n_draws, seed=seed, rho_prior=rho_prior)
    runs = runs_of(evidence, whole)
    prepared = prepare(whole, runs, base, policy, selection)
    own = replace(selection, agent=whole.agent, benchmark=whole.benchmark, arm=whole.arm)
    tasks = sorted({run.task_id for run in runs if run.arm in (baseline, whole.arm) and run.outcome.is_judged})
    if prepared.policy is None or len(tasks) < FEWEST_TASKS * n_folds:
        return ()
    order = np.random.default_rng(seed).permutation(len(tasks))
    folds = []
    for part in np.array_split(order, n_folds):
        inside = {tasks[i] for i in part}
        is_inside = np.array([run.task_id in inside for run in evidence.runs])
        sides = [
            _draws(_some(evidence, chosen), own, prepared, n_draws, seed, rho_prior)
            for chosen in (~is_inside, is_inside)
        ]
        if sides[0] is None or sides[1] is None:
            return ()
        folds.append(Fold(choose=sides[0], value=sides[1]))
    return tuple(folds)


def _some(pilot: Pilot, chosen: BoolArray) -> Pilot:
    """The pilot with some of its runs."""
    return replace(
        pilot,
        runs=[run for run, is_chosen in zip(pilot.runs, chosen, strict=True) if is_chosen],
        source_of=pilot.source_of[chosen],
        line_of=pilot.line_of[chosen],
    )


def _draws(
    pilot: Pilot, selection: Selection, prepared: Prepared, n_draws: int, seed: int, rho_prior: RhoPrior | None
) -> ModelDraws | None:
    """The prepared model moved to the pilot's posterior; None where an arm is missing."""
    arms = {run.arm for run in pilot.runs if run.outcome.is_judged}
    if not {selection.arm, selection.baseline} <= arms:
        return None
    rates = rates_of_pilot(pilot, selection, n_draws=n_draws, seed=seed, rho_prior=rho_prior)
    return None if rates.arm is None else prepared.place(rates, seed)[2].draws

"""How tasks of a pilot differ, where baseline runs were repeated."""

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.inference.task_spread import fit_task_spread
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import BASELINE
from drsim.planning.cell_rates import Selection
from drsim.planning.source import evidence_of

__all__ = ["measured_rho"]


def measured_rho(
    given: str,
    *,
    agent: str | None = None,
    benchmark: str | None = None,
    arm: str | None = None,
    baseline: str = BASELINE,
    rho_prior: RhoPrior | None = None,
    n_draws: int,
    seed: int,
) -> FloatArray | None:
    """Posterior draws of ρ from repeated baseline runs of a pilot.

    Parameters
    ----------
    given : str
        A pilot, by its path.
    agent, benchmark, arm : str, optional
        Which cell, where there are several.
    baseline : str
        Name of the arm without intervention.
    rho_prior : RhoPrior, optional
        Of ρ; the default where not given.
    n_draws : int
        At least 1.
    seed : int
        Of the draws, ≥ 0.

    Returns
    -------
    FloatArray or None
        (n_draws,); None where no task has two judged baseline runs, or the file names no runs.

    Raises
    ------
    ParameterError
        There is no such file.
    DataError
        It cannot be read, or holds no such cell or several.

    References
    ----------
    THEORY section 2.
    """
    evidence = evidence_of(given)
    if not isinstance(evidence, Pilot):
        return None
    selection = Selection(agent=agent, benchmark=benchmark, arm=arm, baseline=baseline)
    cells = cells_of(evidence, baseline=baseline, arms=None if arm is None else (arm,)).cells
    picked = [selection.picks(cell.agent, cell.benchmark, cell.arm) for cell in cells]
    cell = cells[selection.only([it.name for it in cells], picked)]
    is_run = cell.baseline_runs > 0
    if not np.any(cell.baseline_runs > 1):
        return None
    spread = fit_task_spread(
        cell.baseline_successes[is_run],
        cell.baseline_runs[is_run],
        rho_prior=rho_prior or DEFAULT_RHO_PRIOR,
        n_draws=n_draws,
        seed=seed,
    )
    return spread.rho

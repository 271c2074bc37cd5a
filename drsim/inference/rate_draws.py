"""Joint posterior draws of a cell's rates, for whatever is computed from several of them at once."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.churn import ChurnDraws, draw_churn
from drsim.inference.static import CellPosterior
from drsim.inference.task_groups import Column, group_tasks, success_rates, table_shares

__all__ = ["RateDraws", "draw_rates"]

STREAM = 0x7261_7465
"""Keeps these draws apart from those of the fit, which they are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDraws:
    """Draws from one posterior, (n_draws,) each; row i of all of them belongs together."""

    failure_rate: FloatArray
    """p."""
    recovery: FloatArray | None
    """r; None where nothing is paired."""
    disruption: FloatArray | None
    """d; None where nothing is paired."""
    gain: FloatArray | None
    """Δ; None for baseline runs alone."""
    churn: ChurnDraws


def draw_rates(posterior: CellPosterior, *, seed: int, n_draws: int) -> RateDraws:
    """Draws of p, r, d, Δ and churn.

    Where a file states that tasks were repeated without saying which pairs belong together, the draws are those of the
    weaker reading, in which all trials of a task end alike.

    Parameters
    ----------
    posterior : CellPosterior
        The static fit of a cell.
    seed : int
        Seed of the draws, ≥ 0; the cell's name is mixed in.
    n_draws : int
        Number of draws, ≥ 1.

    Returns
    -------
    RateDraws

    References
    ----------
    THEORY sections 2 and 7.
    """
    cell = posterior.cell
    name = "\0".join((cell.agent, cell.benchmark, cell.arm))
    rng = np.random.default_rng([seed, STREAM, *name.encode("utf-8", "surrogatepass")])
    repeated = None if posterior.gain is None else posterior.gain.repeated
    totals = (posterior.groups if repeated is None else repeated.groups).draw(n_draws, rng)
    recovery = disruption = gain = None
    if cell.is_paired:
        a, b, c, d = table_shares(totals)
        failure_rate, recovery, disruption, gain = a + c, c / (a + c), b / (b + d), c - b
    else:
        base = totals[:, Column.BASELINE_SUCCESS] / totals[:, Column.HAS_BASELINE]
        failure_rate = 1 - base
        if posterior.gain is not None:
            gain = success_rates(totals)[1] - base
    return RateDraws(
        failure_rate=failure_rate,
        recovery=recovery,
        disruption=disruption,
        gain=gain,
        churn=draw_churn(
            group_tasks(cell), totals, failure_rate=failure_rate, rho_prior=posterior.churn.rho_prior, rng=rng
        ),
    )

"""Churn of a cell: measured from repeated baseline runs, else assumed through a prior on ρ (THEORY section 2).

Measured: E[s(1−s)] is the mean of the tasks' unbiased estimates under the same drawn task weights as p, r and d, so
that Δ = p·r_x − (1−p)·d_x holds in every draw. Only tasks with at least two judged baseline runs speak, and no prior
task is added: the mean of χ is then the plain average over all pairs of trials. Where no two reruns of any task differ,
that average and its spread would both be 0; half a task whose reruns differ and half a task whose reruns agree are
added then, Jeffreys' prior of the event that two reruns differ.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.paired_table import JEFFREYS
from drsim.inference.posterior import Uncertain
from drsim.inference.rho_prior import RhoPrior
from drsim.inference.task_groups import Column, TaskGroups

__all__ = ["Churn", "ChurnDraws", "Rates", "draw_churn", "fit_churn"]

HALF_SPREAD = 0.5
"""Unbiased estimate of s(1−s) from two runs that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """A recovery rate and a disruption rate."""

    recovery: Uncertain
    disruption: Uncertain

    @classmethod
    def from_draws(cls, recovery: FloatArray, disruption: FloatArray) -> "Rates":
        """Summaries of (n,) draws each."""
        return cls(recovery=Uncertain.from_draws(recovery), disruption=Uncertain.from_draws(disruption))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnDraws:
    """Posterior draws of churn, (n_draws,) each."""

    within_variance: FloatArray
    """E[s(1−s)]."""
    rho: FloatArray
    """ρ; NaN where no outcome varies."""
    failure_rate: FloatArray
    """p of the tasks that ρ is about: of those with repeated baseline runs where it is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """What reruns alone do in one cell."""

    is_measured: bool
    """Whether repeated baseline runs measure it; else it follows from the prior on ρ."""
    n_tasks: int
    """Tasks with at least two judged baseline runs."""
    rho_prior: RhoPrior
    churn: Uncertain
    """χ."""
    rho: Uncertain | None
    """ρ; None where the repeated runs all end alike, so that no variance can be split."""
    rerun: Rates
    """r₀ and d₀, what reruns alone show."""
    excess: Rates | None
    """r − r₀ and d − d₀; None where nothing is paired, or pairs are forked and thus no reruns."""
    prob_coupled: float | None = None
    """P(fewer pairs are discordant than χ/2), which two independent runs of a task cannot be whatever the intervention
    does to it: (1−s)s' + s(1−s') ≥ min(s, 1−s) ≥ s(1−s). Near 1, the pairs share more than their task. None where
    nothing is paired."""
    band: tuple[tuple[float, float, float], ...] = ()
    """(ρ, mean r − r₀, mean d − d₀) at the prior's quantiles, where ρ is assumed."""


def fit_churn(
    tasks: TaskGroups,
    totals: FloatArray,
    *,
    failure_rate: FloatArray,
    rates: tuple[FloatArray, FloatArray] | None,
    rho_prior: RhoPrior,
    rng: np.random.Generator,
    is_forked: bool = False,
) -> Churn:
    """Churn, ρ, and what remains of r and d beyond them.

    Parameters
    ----------
    tasks : TaskGroups
        The cell's tasks, without prior.
    totals : FloatArray
        (n_draws, n_columns) totals under drawn task weights.
    failure_rate : FloatArray
        (n_draws,) p.
    rates : tuple of FloatArray or None
        (n_draws,) r and d; None where nothing is paired.
    rho_prior : RhoPrior
        Used where no task has two judged baseline runs.
    rng : numpy.random.Generator
        Source of ρ and of the pseudo-tasks' weights.
    is_forked : bool
        Whether pairs share a prefix: then r and d are no reruns, and no excess is formed.

    Returns
    -------
    Churn
    """
    is_measured = tasks.has_repeats
    drawn = draw_churn(tasks, totals, failure_rate=failure_rate, rho_prior=rho_prior, rng=rng)
    spread, rho = drawn.within_variance, drawn.rho
    # The pseudo-tasks of runs that never differ are in the draws only.
    exact = None
    if tasks.total(Column.SPREAD) > 0:
        exact = tasks.moments(2 * tasks.values[:, Column.SPREAD], tasks.values[:, Column.HAS_REPEATS])
    # No variance lies between tasks below 0: with few tasks the unbiased estimate would make r₀ or d₀ exceed 1.
    within = np.minimum(spread, failure_rate * (1 - failure_rate))
    rerun = within / failure_rate, within / (1 - failure_rate)
    excess: Rates | None = None
    prob_coupled = None
    band: tuple[tuple[float, float, float], ...] = ()
    if rates is not None:
        discordance = failure_rate * rates[0] + (1 - failure_rate) * rates[1]
        prob_coupled = float(np.mean(discordance < spread))
    if rates is not None and not is_forked:
        excess = Rates.from_draws(rates[0] - rerun[0], rates[1] - rerun[1])
        band = () if is_measured else _band(rho_prior, failure_rate, *rates)
    return Churn(
        is_measured=is_measured,
        n_tasks=round(tasks.total(Column.HAS_REPEATS)),
        rho_prior=rho_prior,
        churn=Uncertain.from_draws(2 * spread, exact),
        rho=Uncertain.from_draws(rho) if np.isfinite(rho).all() else None,
        rerun=Rates.from_draws(*rerun),
        excess=excess,
        prob_coupled=prob_coupled,
        band=band,
    )


def draw_churn(
    tasks: TaskGroups,
    totals: FloatArray,
    *,
    failure_rate: FloatArray,
    rho_prior: RhoPrior,
    rng: np.random.Generator,
) -> ChurnDraws:
    """Draws of churn: measured where a task has two judged baseline runs, else assumed through the prior on ρ.

    Parameters
    ----------
    tasks : TaskGroups
        The cell's tasks, without prior.
    totals : FloatArray
        (n_draws, n_columns) totals under drawn task weights.
    failure_rate : FloatArray
        (n_draws,) p.
    rho_prior : RhoPrior
        Used where no task has two judged baseline runs.
    rng : numpy.random.Generator
        Source of ρ and of the pseudo-tasks' weights.

    Returns
    -------
    ChurnDraws
    """
    if not tasks.has_repeats:
        rho = rho_prior.draw(len(failure_rate), rng)
        within = (1 - rho) * failure_rate * (1 - failure_rate)
        return ChurnDraws(within_variance=within, rho=rho, failure_rate=failure_rate)
    spread, success, n = (
        totals[:, column].copy() for column in (Column.SPREAD, Column.REPEATED_SUCCESS, Column.HAS_REPEATS)
    )
    if tasks.total(Column.SPREAD) == 0:
        differ, agree = rng.standard_gamma(JEFFREYS, size=(2, len(n)))
        mean_success = success / n
        spread += HALF_SPREAD * differ
        success += 0.5 * differ + mean_success * agree
        n += differ + agree
    spread, success = spread / n, success / n
    variance = success * (1 - success)
    with np.errstate(invalid="ignore", divide="ignore"):  # no variance at all: ρ is undefined and reported so
        rho = 1 - spread / variance
    return ChurnDraws(within_variance=spread, rho=np.clip(rho, 0.0, 1.0), failure_rate=1 - success)


def _band(
    prior: RhoPrior, failure_rate: FloatArray, recovery: FloatArray, disruption: FloatArray
) -> tuple[tuple[float, float, float], ...]:
    p, r, d = failure_rate.mean(), recovery.mean(), disruption.mean()
    return tuple(
        (float(rho), float(r - (1 - rho) * (1 - p)), float(d - (1 - rho) * p)) for rho in np.unique(prior.band())
    )

"""The static model: one posterior per cell, without pooling between cells.

Tasks are the unit of inference (see `task_groups`). Where every task carries one pure table the posteriors of p, r, d,
Δ and p* are exact (see `paired_table`); everything else comes from seeded draws of the same posterior, and the mean and
sd of what is linear in the task weights (p, Δ, χ) are exact there too.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.churn import Churn, fit_churn
from drsim.inference.posterior import GainPosterior, Uncertain
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.inference.task_groups import (
    PURE_TABLES,
    SINGLE_OUTCOMES,
    Column,
    TaskGroups,
    group_tasks,
    success_rates,
    table_shares,
)
from drsim.pilot.cell import Cell, PairedBy
from drsim.theory.domain import ratio
from drsim.theory.tradeoff import break_even, marginal_bounds

__all__ = ["DEFAULT_DRAWS", "CellPosterior", "GainDraws", "GainFit", "PlugIn", "Repeated", "fit_cell"]

DEFAULT_DRAWS = 20_000
"""Monte Carlo error of a 95 % limit below 2 % of the posterior's sd."""

MIN_DRAWS = 1_000
"""Below it a 2.5 % quantile rests on fewer than 25 draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugIn:
    """What the counts say without a prior; NaN where a denominator is 0."""

    failure_rate: float
    recovery: float
    disruption: float
    gain: float
    break_even: float

    def to_dict(self) -> dict[str, float | None]:
        """The five rates under their symbols; NaN becomes None."""
        rates = {
            "p": self.failure_rate,
            "r": self.recovery,
            "d": self.disruption,
            "gain": self.gain,
            "break_even": self.break_even,
        }
        return {name: rate if np.isfinite(rate) else None for name, rate in rates.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GainDraws:
    """Posterior of the gain as draws."""

    draws: FloatArray
    """(n_draws,) Δ."""
    summary: Uncertain

    @classmethod
    def of(cls, draws: FloatArray) -> "GainDraws":
        """Draws with their summary."""
        return cls(draws=draws, summary=Uncertain.from_draws(draws))

    def prob_gain_above(self, margin: float) -> float:
        """P(Δ > margin)."""
        return float(np.mean(self.draws > margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """The gain if all trials of a task always ended alike, so that only distinct tasks count."""

    n_tasks: int
    gain: Uncertain
    posterior: GainPosterior
    groups: TaskGroups


@dataclass(frozen=True, slots=True, kw_only=True)
class GainFit:
    """What a cell says of the gain."""

    summary: Uncertain
    posterior: GainPosterior
    draws: FloatArray
    """(n_draws,) draws of Δ, of the weaker reading where tasks were repeated; for pooling over cells."""
    repeated: Repeated | None
    """The reading for repeated tasks, where the file states them without saying which pairs belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPosterior:
    """Static posterior of one cell; what the cell cannot answer is None."""

    cell: Cell
    groups: TaskGroups
    """Tasks of the cell with the prior's pure tables."""
    plug_in: PlugIn
    failure_rate: Uncertain
    recovery: Uncertain | None
    disruption: Uncertain | None
    recovery_bounds: tuple[float, float] | None
    """Ends between which r lies, where nothing is paired."""
    disruption_bounds: tuple[float, float] | None
    break_even: Uncertain | None
    gain: GainFit | None
    """None for a cell of baseline runs alone."""
    churn: Churn
    is_exact: bool
    """Whether p, r, d, Δ and p* are in closed form."""


def fit_cell(
    cell: Cell, *, seed: int, rho_prior: RhoPrior = DEFAULT_RHO_PRIOR, n_draws: int = DEFAULT_DRAWS
) -> CellPosterior:
    """Posterior of one cell.

    Parameters
    ----------
    cell : Cell
        Tasks with their tables.
    seed : int
        Seed of the draws, ≥ 0; the cell's name is mixed in, so that a cell's result does not depend on its neighbours.
    rho_prior : RhoPrior
        What is assumed of ρ where no baseline run was repeated.
    n_draws : int
        At least 1,000.

    Returns
    -------
    CellPosterior

    Raises
    ------
    ParameterError
        `seed` is negative or `n_draws` too small.

    References
    ----------
    THEORY sections 1, 2 and 7.
    """
    if seed < 0:
        raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
    if n_draws < MIN_DRAWS:
        raise ParameterError(f"n_draws must be at least {MIN_DRAWS}, got {n_draws}")
    name = "\0".join((cell.agent, cell.benchmark, cell.arm))
    rng = np.random.default_rng([seed, *name.encode("utf-8", "surrogatepass")])
    tasks = group_tasks(cell)
    if cell.is_paired:
        return _fit_pairs(cell, tasks, rho_prior, n_draws, rng)
    if tasks.total(Column.HAS_ARM) > 0:
        return _fit_two_arms(cell, tasks, rho_prior, n_draws, rng)
    return _fit_baseline(cell, tasks, rho_prior, n_draws, rng)


def _fit_pairs(
    cell: Cell, tasks: TaskGroups, rho_prior: RhoPrior, n_draws: int, rng: np.random.Generator
) -> CellPosterior:
    groups = tasks.with_prior(PURE_TABLES)
    totals = groups.draw(n_draws, rng)
    a, b, c, d = table_shares(totals)
    p, r, q, delta = a + c, c / (a + c), b / (b + d), c - b
    exact = tasks.exact_table()
    if exact is not None:
        failure_rate, recovery, disruption = exact.failure_rate(), exact.recovery(), exact.disruption()
        gain, p_star = exact.gain(), exact.break_even()
    else:
        is_paired = groups.is_paired
        moments = groups.moments(groups.values[:, Column.A] + groups.values[:, Column.C], is_paired)
        failure_rate, recovery, disruption = (
            Uncertain.from_draws(p, moments),
            Uncertain.from_draws(r),
            Uncertain.from_draws(q),
        )
        gain = Uncertain.from_draws(delta, groups.moments(groups.gains, is_paired))
        p_star = Uncertain.from_draws(q / (r + q))
    posterior = exact if exact is not None else GainDraws(draws=delta, summary=gain)
    return CellPosterior(
        cell=cell,
        groups=groups,
        plug_in=_plug_in(tasks),
        failure_rate=failure_rate,
        recovery=recovery,
        disruption=disruption,
        recovery_bounds=None,
        disruption_bounds=None,
        break_even=p_star,
        gain=_gain_fit(cell, tasks, gain, posterior, delta, rng),
        churn=fit_churn(
            tasks, totals, failure_rate=p, rates=(r, q), rho_prior=rho_prior, rng=rng, is_forked=_is_forked(cell)
        ),
        is_exact=exact is not None,
    )


def _fit_two_arms(
    cell: Cell, tasks: TaskGroups, rho_prior: RhoPrior, n_draws: int, rng: np.random.Generator
) -> CellPosterior:
    """Two arms without a pair: the gain is known from the two success rates, r and d only within bounds."""
    groups = tasks.with_prior(PURE_TABLES)
    totals = groups.draw(n_draws, rng)
    base, arm = success_rates(totals)
    posterior = GainDraws.of(arm - base)
    plug_in = _plug_in(tasks)
    bounds = marginal_bounds(1 - plug_in.failure_rate, 1 - plug_in.failure_rate + plug_in.gain)
    return CellPosterior(
        cell=cell,
        groups=groups,
        plug_in=plug_in,
        failure_rate=Uncertain.from_draws(1 - base),
        recovery=None,
        disruption=None,
        recovery_bounds=(float(bounds.recovery_lower), float(bounds.recovery_upper)),
        disruption_bounds=(float(bounds.disruption_lower), float(bounds.disruption_upper)),
        break_even=None,
        gain=_gain_fit(cell, tasks, posterior.summary, posterior, posterior.draws, rng),
        churn=fit_churn(tasks, totals, failure_rate=1 - base, rates=None, rho_prior=rho_prior, rng=rng),
        is_exact=False,
    )


def _fit_baseline(
    cell: Cell, tasks: TaskGroups, rho_prior: RhoPrior, n_draws: int, rng: np.random.Generator
) -> CellPosterior:
    """Baseline runs alone: failure rate and churn, no verdict."""
    groups = tasks.with_prior(SINGLE_OUTCOMES)
    totals = groups.draw(n_draws, rng)
    failure_rate = 1 - totals[:, Column.BASELINE_SUCCESS] / totals[:, Column.HAS_BASELINE]
    moments = groups.moments(
        groups.values[:, Column.HAS_BASELINE] - groups.values[:, Column.BASELINE_SUCCESS],
        groups.values[:, Column.HAS_BASELINE],
    )
    return CellPosterior(
        cell=cell,
        groups=groups,
        plug_in=_plug_in(tasks),
        failure_rate=Uncertain.from_draws(failure_rate, moments),
        recovery=None,
        disruption=None,
        recovery_bounds=None,
        disruption_bounds=None,
        break_even=None,
        gain=None,
        churn=fit_churn(tasks, totals, failure_rate=failure_rate, rates=None, rho_prior=rho_prior, rng=rng),
        is_exact=False,
    )


def _is_forked(cell: Cell) -> bool:
    return cell.paired_by is PairedBy.FORK


def _gain_draws(groups: TaskGroups, n_draws: int, rng: np.random.Generator, *, is_paired: bool) -> FloatArray:
    totals = groups.draw(n_draws, rng)
    if is_paired:
        return (totals[:, Column.C] - totals[:, Column.B]) / totals[:, : Column.D + 1].sum(axis=1)
    base, arm = success_rates(totals)
    return arm - base


def _gain_fit(
    cell: Cell,
    tasks: TaskGroups,
    summary: Uncertain,
    posterior: GainPosterior,
    draws: FloatArray,
    rng: np.random.Generator,
) -> GainFit:
    repeated = _repeated(cell, tasks, rng, len(draws))
    weaker = draws if repeated is None else _gain_draws(repeated.groups, len(draws), rng, is_paired=cell.is_paired)
    return GainFit(summary=summary, posterior=posterior, draws=weaker, repeated=repeated)


def _repeated(cell: Cell, tasks: TaskGroups, rng: np.random.Generator, n_draws: int) -> Repeated | None:
    """The reading in which each task's trials are all alike: counts scaled down to the stated number of tasks."""
    n_tasks = cell.stated_tasks
    if n_tasks is None:
        return None
    has_arm = tasks.values[:, Column.HAS_ARM] > 0
    has_baseline = tasks.values[:, Column.HAS_BASELINE] > 0
    n_baseline, n_arm = (float(tasks.n_tasks @ has) for has in (has_baseline, has_arm))
    if n_tasks >= max(n_baseline, n_arm):
        return None
    scaled = tasks.scaled(np.where(has_baseline, n_tasks / n_baseline, n_tasks / n_arm))
    groups = scaled.with_prior(PURE_TABLES)
    exact = scaled.exact_table()
    if exact is not None:
        return Repeated(n_tasks=n_tasks, gain=exact.gain(), posterior=exact, groups=groups)
    posterior = GainDraws.of(_gain_draws(groups, n_draws, rng, is_paired=cell.is_paired))
    return Repeated(n_tasks=n_tasks, gain=posterior.summary, posterior=posterior, groups=groups)


def _plug_in(tasks: TaskGroups) -> PlugIn:
    if tasks.total_paired > 0:
        a, b, c, d = (tasks.total(column) / tasks.total_paired for column in (Column.A, Column.B, Column.C, Column.D))
        recovery, disruption = _share(c, a + c), _share(b, b + d)
        p_star = float(break_even(recovery, disruption)) if np.isfinite(recovery + disruption) else float("nan")
        return PlugIn(failure_rate=a + c, recovery=recovery, disruption=disruption, gain=c - b, break_even=p_star)
    base = _share(tasks.total(Column.BASELINE_SUCCESS), tasks.total(Column.HAS_BASELINE))
    arm = _share(tasks.total(Column.ARM_SUCCESS), tasks.total(Column.HAS_ARM))
    nan = float("nan")
    return PlugIn(failure_rate=1 - base, recovery=nan, disruption=nan, gain=arm - base, break_even=nan)


def _share(part: float, whole: float) -> float:
    return float(ratio(np.asarray(part), np.asarray(whole)))

"""Settings out of evidence: every cell of a pilot, of counts, or of marginals, with its posterior draws."""

from collections.abc import Iterator

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.rate_draws import RateDraws, draw_rates
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR
from drsim.inference.static import DEFAULT_DRAWS, CellPosterior, fit_cell
from drsim.pilot.cell import Cell, PairedBy, Pairing
from drsim.pilot.remarks import retry_warnings, unpaired_warning
from drsim.planning.bounds.inputs import (
    SWEPT_DISRUPTION,
    SWEPT_RECOVERY,
    Assumption,
    Given,
    Observed,
    Rates,
    Reruns,
    Setting,
    assumption,
    held_constant,
    rate_grid,
    swept,
)
from drsim.planning.bounds.winner_map import MappedRates

__all__ = ["evidence_warnings", "settings_of_pairing"]

FLIP_SHARES = (0.0, 0.5, 1.0)
"""Places between the ends that two success rates allow for C/n."""

COUPLED = 0.95
"""Probability above which pairs are taken to share more than their task, as a fit warns."""


def settings_of_pairing(
    pairing: Pairing, given: Given, *, seed: int, n_draws: int = DEFAULT_DRAWS
) -> tuple[Setting, ...]:
    """The setting of every cell of a pilot, of counts, or of marginals.

    Parameters
    ----------
    pairing : Pairing
        Cells of the evidence.
    given : Given
        Recovery and disruption stated here stand in for those of the arm; ρ is used where nothing measures it.
    seed : int
        Seed of all draws, ≥ 0.
    n_draws : int
        Draws from each posterior.

    Returns
    -------
    tuple of Setting

    Raises
    ------
    ParameterError
        A failure rate is given beside the runs that measure it, or `seed` or `n_draws` is outside its domain.
    """
    if given.failure_rate is not None:
        raise ParameterError(
            f"failure_rate is measured by the runs, got {given.failure_rate:g} as well; leave out one of the two"
        )
    prior = given.rho or DEFAULT_RHO_PRIOR
    posteriors = [fit_cell(cell, seed=seed, rho_prior=prior, n_draws=n_draws) for cell in pairing.cells]
    return tuple(
        _setting_of_cell(posterior, draw_rates(posterior, seed=seed, n_draws=n_draws), given)
        for posterior in posteriors
    )


def evidence_warnings(pairing: Pairing, given: Given) -> Iterator[str]:
    """Yield what a reader should know of the evidence before trusting bounds from it.

    Parameters
    ----------
    pairing : Pairing
        Cells of the evidence.
    given : Given
        What was stated beside it.
    """
    for missing in pairing.left_out:
        yield f"arm {missing.arm}: {missing.runs} runs left out, since {missing.reason}"
    yield from retry_warnings(pairing.retries)
    yield from unpaired_warning([cell for cell in pairing.cells if cell.is_paired])
    n_measured = sum(bool((cell.baseline_runs >= 2).any()) for cell in pairing.cells)
    if given.rho is not None and n_measured:
        yield f"--rho {given.rho} is not used in {n_measured} cells whose repeated baseline runs measure ρ"
    if len(pairing.cells) > 1:
        yield f"{len(pairing.cells)} cells are bounded: the one with the largest ceiling looks better than it is"


def _setting_of_cell(posterior: CellPosterior, draws: RateDraws, given: Given) -> Setting:
    cell, churn = posterior.cell, draws.churn
    p, r, d = draws.failure_rate, draws.recovery, draws.disruption
    oracle = _oracle(draws)
    is_independent = _is_independent(posterior)
    cases = _cases(draws, oracle, given)
    reruns = Reruns(
        cell_failure_rate=p,
        failure_rate=churn.failure_rate,
        rho=churn.rho,
        within_variance=churn.within_variance,
    )
    is_own = given.recovery is None and given.disruption is None
    return Setting(
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=None if draws.gain is None else cell.arm,
        evidence=_evidence(cell),
        assumptions=_cell_assumptions(posterior, given),
        cases=cases,
        reruns=(reruns,),
        perfect_ceiling=_perfect_ceiling(p, oracle, given),
        oracle=oracle,
        oracle_excess=(oracle[0] - reruns.shown,) if is_independent else (),
        observed=_observed(posterior),
        mapped=(
            _excess(reruns, r, d)
            if is_independent and is_own and r is not None and d is not None
            else held_constant([case.recovery for case in cases], [case.disruption for case in cases])
        ),
    )


def _oracle(draws: RateDraws) -> tuple[FloatArray, ...]:
    """C/n: its draws, those of its two ends where nothing is paired, or nothing."""
    p = draws.failure_rate
    if draws.recovery is not None:
        return (p * draws.recovery,)
    if draws.gain is None:
        return ()
    return np.maximum(0.0, draws.gain), np.minimum(p, 1.0 - p + draws.gain)


def _cases(draws: RateDraws, oracle: tuple[FloatArray, ...], given: Given) -> tuple[Rates, ...]:
    p = draws.failure_rate
    if draws.gain is None or (given.recovery is not None and given.disruption is not None):
        recoveries, disruptions = swept(given.recovery, SWEPT_RECOVERY), swept(given.disruption, SWEPT_DISRUPTION)
        return rate_grid([p], recoveries, disruptions)
    flips = oracle if len(oracle) == 1 else tuple(oracle[0] + w * (oracle[1] - oracle[0]) for w in FLIP_SHARES)
    own = [
        # rounding may leave the domain where an end is 0 or 1
        Rates(
            failure_rate=p,
            recovery=np.clip(share / p, 0.0, 1.0),
            disruption=np.clip((share - draws.gain) / (1.0 - p), 0.0, 1.0),
        )
        for share in flips
    ]
    recovery, disruption = (None if x is None else np.asarray(x) for x in (given.recovery, given.disruption))
    return tuple(
        Rates(
            failure_rate=p,
            recovery=rates.recovery if recovery is None else recovery,
            disruption=rates.disruption if disruption is None else disruption,
        )
        for rates in own
    )


def _perfect_ceiling(p: FloatArray, oracle: tuple[FloatArray, ...], given: Given) -> FloatArray:
    if given.recovery is not None:
        return p * given.recovery
    return oracle[-1] if oracle else p


def _is_independent(posterior: CellPosterior) -> bool:
    coupled = posterior.churn.prob_coupled
    is_paired = posterior.cell.is_paired and posterior.cell.paired_by is not PairedBy.FORK
    return is_paired and (coupled is None or coupled < COUPLED)


def _observed(posterior: CellPosterior) -> Observed:
    cell, plug_in = posterior.cell, posterior.plug_in
    flips = plug_in.failure_rate * plug_in.recovery if cell.is_paired else None
    # no baseline run failed: none was recovered
    return Observed(
        oracle_intervention=0.0 if flips is not None and np.isnan(flips) else flips, best_of=_best_of_runs(cell)
    )


def _best_of_runs(cell: Cell) -> dict[int, float]:
    r"""Unbiased gain of Best-of-N over repeated tasks, mean of :math:`k/K` less than :math:`1 - C(K-k, N)/C(K, N)`."""
    repeated = cell.baseline_runs >= 2
    if not repeated.any():
        return {}
    runs, successes = cell.baseline_runs[repeated], cell.baseline_successes[repeated]
    weights = cell.multiplicity[repeated]
    none = np.ones(len(runs))
    found: dict[int, float] = {}
    for n in range(1, int(runs.min()) + 1):
        none = none * np.maximum(runs - successes - (n - 1), 0) / (runs - (n - 1))
        found[n] = float(np.average(1.0 - none, weights=weights) - np.average(successes / runs, weights=weights))
    return {n: gain for n, gain in found.items() if n >= 2}


def _evidence(cell: Cell) -> str:
    if cell.is_paired:
        tasks = "" if cell.n_paired == cell.n_paired_tasks else f" of {_counted(cell.n_paired_tasks, 'task')}"
        return f"{_counted(cell.n_paired, 'pair')}{tasks}, by {cell.paired_by}"
    runs = _counted(cell.baseline_tally.judged, "baseline run")
    if cell.arm_runs.any():
        return f"{runs}, {cell.arm_tally.judged} of the arm, unpaired"
    return f"{runs} of {_counted(int(cell.multiplicity[cell.baseline_runs > 0].sum()), 'task')}"


def _counted(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _cell_assumptions(posterior: CellPosterior, given: Given) -> tuple[Assumption, ...]:
    churn = posterior.churn
    if churn.is_measured:
        rho = Assumption(name="rho", source="measured", text=f"repeated runs of {churn.n_tasks} tasks")
    else:
        rho = Assumption(name="rho", source="assumed" if given.rho is None else "given", text=str(churn.rho_prior))
    return (
        Assumption(
            name="failure_rate", source="measured", text=_counted(posterior.cell.baseline_tally.judged, "baseline run")
        ),
        rho,
        _rate_assumption(posterior, "recovery", given.recovery, SWEPT_RECOVERY),
        _rate_assumption(posterior, "disruption", given.disruption, SWEPT_DISRUPTION),
    )


def _rate_assumption(posterior: CellPosterior, name: str, value: float | None, values: tuple[float, ...]) -> Assumption:
    if value is not None or posterior.gain is None:
        return assumption(name, value, values)
    arm = posterior.cell.arm
    if posterior.cell.is_paired:
        return Assumption(name=name, source="measured", text=f"arm {arm}, per run, not per firing")
    return Assumption(name=name, source="measured", text=f"bounds from arm {arm}, unpaired")


def _excess(reruns: Reruns, recovery: FloatArray, disruption: FloatArray) -> MappedRates:
    within, p = reruns.shown, reruns.cell_failure_rate
    return MappedRates(
        recovery=float(np.mean(recovery - within / p)),
        disruption=float(np.mean(disruption - within / (1.0 - p))),
        is_excess=True,
    )

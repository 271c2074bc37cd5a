"""One cell's p, Δ and d, draw by draw, from a pilot or from a posterior that was kept, as a step process can take them.

The static posterior of a pilot serves wherever it holds runs or counts. Its d is that of the shared prefix in forked
pairs. In pairs of independent runs it is bounded from below by what is left after the flips of reruns are taken off
(`drsim.planning.placing` says why it is a bound), where reruns measure those, or where ρ is given; nothing is made of a
default prior on ρ, which would otherwise decide how often an intervention disrupts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import DataError
from drsim.inference.posterior_file import StoredPosterior, load_posterior
from drsim.inference.rate_draws import RateDraws, draw_rates
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.inference.static import CellPosterior, fit_cell
from drsim.inference.timing import counts_by_step
from drsim.pilot.cell import Cell, PairedBy
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Evidence, Pilot
from drsim.pilot.records import BASELINE, Outcome
from drsim.pilot.timed import timed_pairs
from drsim.planning.placing import Targets
from drsim.process.flips import PrefixCoupling

__all__ = ["CellRates", "FirstFirings", "Selection", "TimingRates", "rates_of_pilot", "rates_of_posterior"]

FIT_DRAWS = 2_000
"""Of the static fit, whose own draws are not used but for its churn."""
STEPS_OBSERVED = re.compile(r"pairs by (\w+); observed in steps ([\d, ]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cell is meant; None: there must be only one."""

    agent: str | None = None
    benchmark: str | None = None
    arm: str | None = None
    baseline: str = BASELINE

    def picks(self, agent: str, benchmark: str, arm: str) -> bool:
        """Whether it names this cell, or leaves open what would tell it from others."""
        given = ((self.agent, agent), (self.benchmark, benchmark), (self.arm, arm))
        return all(wanted in (None, found) for wanted, found in given)

    def picks_name(self, name: str) -> bool:
        """The same of a cell in words, AGENT on BENCHMARK, ARM."""
        return (
            (self.agent is None or name.startswith(f"{self.agent} on "))
            and (self.benchmark is None or f" on {self.benchmark}, " in name)
            and (self.arm is None or name.endswith(f", {self.arm}"))
        )

    def only(self, names: Sequence[str], picked: Sequence[bool]) -> int:
        """The place of the one cell that is picked.

        Raises
        ------
        DataError
            None is picked, or several.
        """
        found = [i for i, is_picked in enumerate(picked) if is_picked]
        if len(found) == 1:
            return found[0]
        asked = ", ".join(
            f"{key} {value!r}"
            for key, value in (("agent", self.agent), ("benchmark", self.benchmark), ("arm", self.arm))
            if value is not None
        )
        listed = "; ".join(names[i] for i in found) if found else "; ".join(names)
        if found:
            raise DataError(
                f"a model is made for one cell, but {len(found)} are left: {listed}; name its arm, agent or benchmark"
            )
        raise DataError(f"no cell has {asked}; there are: {listed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRates:
    """r and d by the step of the first intervention; H steps."""

    recovery: FloatArray
    """(D, H)."""
    disruption: FloatArray
    """(D, H)."""
    is_observed: BoolArray
    """(H,) whether a pair fired first in that step; elsewhere the random walk fills in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFirings:
    """Runs of an arm, and forked pairs, counted by the step of the first intervention; H steps."""

    succeeded: IntArray
    """(H,) judged runs of the arm that succeeded."""
    fired: IntArray
    """(H,) judged runs of the arm."""
    recovered: IntArray | None
    """(H,) forked pairs fail → success; None, like the next three, where pairs are not forked."""
    failed: IntArray | None
    """(H,) forked pairs whose baseline run failed."""
    disrupted: IntArray | None
    """(H,) forked pairs success → fail."""
    unaided: IntArray | None
    """(H,) forked pairs whose baseline run succeeded."""

    @property
    def is_observed(self) -> BoolArray:
        """(H,) whether any run fired first there."""
        return self.fired > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRates:
    """D draws of one cell."""

    name: str
    """In words."""
    agent: str | None
    """None where only the words are known."""
    benchmark: str | None
    arm: str | None
    """None where no arm intervened."""
    paired_by: PairedBy | None
    """None where it is not known."""
    n_draws: int
    targets: Targets
    timing: TimingRates | None
    """Of a posterior that was fitted by step."""
    first: FirstFirings | None = None
    """Of a pilot whose interventions carry their steps."""
    is_level_by_step: bool = False
    """Whether `targets` leave Δ and d to `timing`, since the fit holds them by step only."""
    notes: tuple[str, ...] = ()
    """What was assumed to come so far."""
    warnings: tuple[str, ...] = ()


def rates_of_pilot(
    evidence: Evidence, selection: Selection, *, n_draws: int, seed: int, rho_prior: RhoPrior | None
) -> CellRates:
    """Fit one cell of a pilot.

    Parameters
    ----------
    evidence : Pilot, Counts or Marginals
        As read.
    selection : Selection
        Picks one cell.
    n_draws : int
        D ≥ 1.
    seed : int
        ≥ 0.
    rho_prior : RhoPrior or None
        ρ where no rerun measures churn; None: nothing is made of it there.

    Returns
    -------
    CellRates

    Raises
    ------
    DataError
        The pilot has no such cell, or several.
    """
    pairing = cells_of(evidence, baseline=selection.baseline, arms=None if selection.arm is None else (selection.arm,))
    cells = pairing.cells
    picked = [selection.picks(cell.agent, cell.benchmark, cell.arm) for cell in cells]
    cell = cells[selection.only([it.name for it in cells], picked)]
    posterior = fit_cell(cell, seed=seed, rho_prior=rho_prior or DEFAULT_RHO_PRIOR, n_draws=FIT_DRAWS)
    draws = draw_rates(posterior, seed=seed, n_draws=n_draws)
    targets, notes = _static_targets(cell, posterior, draws, rho_prior)
    return CellRates(
        name=cell.name if targets.gain is not None else f"{cell.agent} on {cell.benchmark}",
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=cell.arm if targets.gain is not None else None,
        paired_by=cell.paired_by,
        n_draws=n_draws,
        targets=targets,
        timing=None,
        first=_first_firings(evidence, cell, selection) if targets.gain is not None else None,
        notes=notes,
    )


def _static_targets(
    cell: Cell, posterior: CellPosterior, draws: RateDraws, rho_prior: RhoPrior | None
) -> tuple[Targets, tuple[str, ...]]:
    p, d = draws.failure_rate, draws.disruption
    if cell.paired_by is PairedBy.FORK:
        note = (
            "coupling: forked pairs share their prefix up to the first intervention, so r and d are matched under the "
            "coupling shared_prefix (independent after it)"
        )
        return _targets(p, draws.gain, d, PrefixCoupling.SHARED_PREFIX, is_bound=False), (note,)
    if draws.gain is None:
        return _targets(p, None, None), ()
    if d is None:
        note = "coupling: the two arms share no pair, so the data give the gain, and r and d only within bounds"
        return _targets(p, draws.gain, None), (note,)
    within = np.minimum(draws.churn.within_variance, p * (1.0 - p))
    excess = d - within / (1.0 - p)
    if posterior.churn.is_measured:
        where = f"reruns of {posterior.churn.n_tasks} tasks measure it"
    elif rho_prior is not None:
        where = f"it follows from rho {rho_prior}, which was given"
    else:
        note = (
            "coupling: the pairs are independent runs of one task, whose r and d hold churn, and no baseline run was "
            "repeated that would measure it; so the data give p and the gain, and how the gain splits into r and d is "
            "the base model's"
        )
        return _targets(p, draws.gain, None), (note,)
    note = (
        "coupling: the pairs are independent runs of one task, so r and d hold churn; taking it off "
        f"({where}) leaves d - d0 of {100 * float(excess.mean()):.1f} pp of the successes, which is the least that the "
        "intervention disrupts"
    )
    bound = np.clip(excess, 0.0, None)
    return _targets(p, draws.gain, bound, PrefixCoupling.LEAST, is_bound=True), (note,)


def _targets(
    failure_rate: FloatArray | None,
    gain: FloatArray | None,
    disruption: FloatArray | None,
    coupling: PrefixCoupling = PrefixCoupling.LEAST,
    *,
    is_bound: bool = True,
) -> Targets:
    return Targets(failure_rate=failure_rate, gain=gain, disruption=disruption, coupling=coupling, is_bound=is_bound)


def _first_firings(evidence: Evidence, cell: Cell, selection: Selection) -> FirstFirings | None:
    """Counts by the step of the first intervention; None where no run of the arm carries one."""
    if not isinstance(evidence, Pilot):
        return None
    runs = [
        run
        for run in evidence.runs
        if (run.agent, run.benchmark, run.arm) == (cell.agent, cell.benchmark, cell.arm) and run.outcome.is_judged
    ]
    step = np.array([min(run.acted_steps, default=-1) for run in runs], dtype=np.int64)
    if not np.any(step >= 0):
        return None
    horizon = 1 + int(step.max())
    won = np.array([run.outcome is Outcome.SUCCESS for run in runs])
    succeeded, fired = counts_by_step(step, step >= 0, won, horizon)
    found = FirstFirings(succeeded=succeeded, fired=fired, recovered=None, failed=None, disrupted=None, unaided=None)
    if cell.paired_by is not PairedBy.FORK:
        return found
    of_cell = [
        it
        for it in timed_pairs(evidence, baseline=selection.baseline)
        if (it.agent, it.benchmark, it.arm) == (cell.agent, cell.benchmark, cell.arm)
    ]
    if not of_cell:  # the runs that were intervened in are in no pair
        return None
    pairs = of_cell[0]
    is_flipped, has_fired = pairs.arm_success != pairs.baseline_success, pairs.first_step >= 0
    recovered, failed = counts_by_step(pairs.first_step, has_fired & ~pairs.baseline_success, is_flipped, horizon)
    disrupted, unaided = counts_by_step(pairs.first_step, has_fired & pairs.baseline_success, is_flipped, horizon)
    return replace(found, recovered=recovered, failed=failed, disrupted=disrupted, unaided=unaided)


def _rows(n_held: int, n_draws: int, seed: int) -> IntArray:
    """Which of the draws that a fit holds are taken: without replacement as long as there are enough."""
    rng = np.random.default_rng(seed)
    if n_draws <= n_held:
        return np.sort(rng.choice(n_held, n_draws, replace=False))
    return np.sort(rng.integers(0, n_held, n_draws))


def rates_of_posterior(path: Path, selection: Selection, *, n_draws: int, seed: int) -> CellRates:
    """Draws of one cell from a file that `drsim fit -o FILE.nc` wrote.

    Parameters
    ----------
    path : Path
        netCDF.
    selection : Selection
        Picks one cell.
    n_draws : int
        D ≥ 1; at most as many as the file holds are taken.
    seed : int
        ≥ 0, of which ones.

    Returns
    -------
    CellRates

    Raises
    ------
    DataError
        The file cannot be read, or it has no such cell, or several.
    """
    stored = load_posterior(path)
    names = stored.coords.get("cell", ())
    readers = {"hierarchical": _hierarchical, "timing": _timed}
    if stored.model not in readers or not names:
        raise DataError(
            f"{path} must hold cells of the hierarchical or the timing model, got {stored.model}; "
            "write it with drsim fit --model hierarchical -o FILE.nc"
        )
    cell = selection.only(names, [selection.picks_name(name) for name in names])
    n_held = len(next(iter(stored.variables.values())).values)
    rows = _rows(n_held, min(n_draws, n_held), seed)
    try:
        rates = readers[stored.model](stored, cell, rows)
    except KeyError as missing:
        raise DataError(f"{path} must hold {missing} of its cells; fit again with this version") from None
    return rates if stored.is_reliable else _unreliable(rates, path)


def _unreliable(rates: CellRates, path: Path) -> CellRates:
    return replace(rates, warnings=(*rates.warnings, f"{path}: the fit's own checks say that its draws are unreliable"))


def _names(name: str) -> tuple[str | None, str | None, str | None]:
    """Agent, benchmark and arm of a cell in words, as far as they can be told apart."""
    place, comma, arm = name.rpartition(", ")
    agent, on, benchmark = place.partition(" on ")
    return (agent, benchmark, arm) if comma and on and " on " not in benchmark else (None, None, arm or None)


def _hierarchical(stored: StoredPosterior, cell: int, rows: IntArray) -> CellRates:
    p, gain, least = (
        stored.variables[name].values[rows, cell] for name in ("failure_rate", "gain", "least_disruption")
    )
    name = stored.coords["cell"][cell]
    agent, benchmark, arm = _names(name)
    note = (
        "coupling: the hierarchical fit sees independent runs of one task; the least flips that any pairing of a "
        f"task's runs allows ({100 * float(least.mean()):.1f} pp of the successes disrupted) bound d from below"
    )
    return CellRates(
        name=name,
        agent=agent,
        benchmark=benchmark,
        arm=arm,
        paired_by=None,
        n_draws=len(rows),
        targets=_targets(p, gain, least),
        timing=None,
        notes=(note,),
    )


def _timed(stored: StoredPosterior, cell: int, rows: IntArray) -> CellRates:
    name = stored.coords["cell"][cell]
    agent, benchmark, arm = _names(name)
    told = [
        match
        for text in stored.assumptions
        if text.startswith(f"{name}: ") and (match := STEPS_OBSERVED.search(text)) is not None
    ]
    if not told:
        raise KeyError("how pairs were made and which steps were observed")
    paired_by, steps = PairedBy(told[0][1]), [int(it) for it in told[0][2].split(",") if it.strip()]
    recovery, disruption = (stored.variables[it].values[rows, cell] for it in ("recovery", "disruption"))
    failure_rate = stored.variables["failure_rate"].values[rows, cell]
    is_observed = np.isin(np.arange(recovery.shape[1]), steps)
    return CellRates(
        name=name,
        agent=agent,
        benchmark=benchmark,
        arm=arm,
        paired_by=paired_by,
        n_draws=len(rows),
        targets=_targets(failure_rate, None, None),
        timing=TimingRates(recovery=recovery, disruption=disruption, is_observed=is_observed),
        is_level_by_step=True,
    )

"""Verdicts on cells that were fitted together, beside the static ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

import numpy as np

from drsim.errors import DataError, DrsimError
from drsim.inference.hierarchical.fit import CellFit, HierarchicalFit, fit_hierarchical, fit_nuts
from drsim.inference.hierarchical.predict import prior_cells
from drsim.inference.hierarchical.priors import Priors
from drsim.inference.posterior import Uncertain
from drsim.pilot.cell import Cell
from drsim.planning.assessment import Assessment, CellVerdict
from drsim.planning.verdict import Decision, DecisionKind, DecisionRule, decide

__all__ = ["PooledAssessment", "PooledVerdict", "Sampler", "assess_pooled"]


class Sampler(StrEnum):
    """What draws the posterior."""

    AUTO = "auto"
    """Laplace's method with importance weights, and NUTS where those say that it cannot be relied on."""
    LAPLACE = "laplace"
    NUTS = "nuts"


PRIOR_DRAWS = 1_000
SENSITIVITY = (0.5, 2.0)
"""Factors by which the prior scales are multiplied to see how far the gains move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledVerdict:
    """One cell, fitted with all others."""

    fit: CellFit
    static: CellVerdict
    """The same cell on its own."""
    decision: Decision
    sensitivity: Mapping[float, float] | None
    """Change of the mean gain under scaled priors, by factor; None where nobody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledAssessment:
    """The hierarchical answer to a pilot."""

    fit: HierarchicalFit
    static: Assessment
    cells: tuple[PooledVerdict, ...]
    """Cells with two arms, in the order of the fit."""
    prior_failure_rate: Uncertain
    """What the priors alone say of p in a cell."""
    prior_gain: Uncertain
    """What the priors alone say of Δ in a cell."""


def assess_pooled(
    assessment: Assessment,
    *,
    seed: int,
    priors: Priors,
    n_draws: int,
    with_sensitivity: bool = False,
    sampler: Sampler = Sampler.AUTO,
) -> PooledAssessment:
    """Fit all cells of an assessment together and decide again.

    Parameters
    ----------
    assessment : Assessment
        The static one, with the rule.
    seed : int
        Seed of all draws, ≥ 0.
    priors : Priors
        All scales.
    n_draws : int
        Posterior draws, at least 200.
    with_sensitivity : bool
        Whether to fit again under half and double prior scales.
    sampler : Sampler
        What draws the posterior.

    Returns
    -------
    PooledAssessment
        A fit that cannot be relied on decides nothing.

    Raises
    ------
    ParameterError
        `seed` or `n_draws` is outside its domain.
    DataError
        No run is judged, or there are baseline runs only.
    DrsimError
        NUTS was asked for, and is not installed.
    """
    cells = assessment.pairing.cells
    if not any(cell.arm_runs.any() for cell in cells):
        raise DataError("a hierarchical fit compares arms, got baseline runs only; run an intervened arm as well")
    fit = _fit(cells, priors, seed, n_draws, sampler)
    moved: dict[float, HierarchicalFit] = {}
    if with_sensitivity:
        moved = {factor: _fit(cells, priors.scaled(factor), seed, n_draws, sampler) for factor in SENSITIVITY}
    static = {
        (it.posterior.cell.agent, it.posterior.cell.benchmark, it.posterior.cell.arm): it for it in assessment.cells
    }
    verdicts = []
    for i, own in enumerate(fit.cells):
        mean = float(np.mean(own.draws.gain))
        verdicts.append(
            PooledVerdict(
                fit=own,
                static=(alone := static[own.key.agent, own.key.benchmark, own.key.arm]),
                decision=_judge(own, fit, alone, assessment.rule),
                sensitivity={factor: float(np.mean(it.cells[i].draws.gain)) - mean for factor, it in moved.items()}
                or None,
            )
        )
    before = prior_cells(fit.data, priors, seed=seed, draws=PRIOR_DRAWS)
    return PooledAssessment(
        fit=fit,
        static=assessment,
        cells=tuple(verdicts),
        prior_failure_rate=Uncertain.from_draws(np.concatenate([cell.draws.failure_rate for cell in before])),
        prior_gain=Uncertain.from_draws(np.concatenate([cell.draws.gain for cell in before])),
    )


def _fit(cells: tuple[Cell, ...], priors: Priors, seed: int, n_draws: int, sampler: Sampler) -> HierarchicalFit:
    """The fast route, and NUTS where the fast one cannot be relied on and NUTS is there, or where it was asked for."""
    if sampler is not Sampler.NUTS:
        fit = fit_hierarchical(cells, priors, seed=seed, draws=n_draws)
        has_nuts = find_spec("nutpie") is not None and find_spec("arviz") is not None
        if fit.diagnostics.is_good or sampler is Sampler.LAPLACE or not has_nuts:
            return fit
    try:
        return fit_nuts(cells, priors, seed=seed, draws=max(1_000, n_draws // 4))
    except ModuleNotFoundError as missing:
        raise DrsimError(f'NUTS must find nutpie and ArviZ, got {missing}; pip install "drsim[bayes]"') from missing


def _judge(own: CellFit, fit: HierarchicalFit, alone: CellVerdict, rule: DecisionRule) -> Decision:
    if not fit.diagnostics.is_good:
        return Decision(kind=DecisionKind.INCONCLUSIVE, why=f"unreliable: {'; '.join(fit.diagnostics.reasons)}")
    kind = decide(own.draws, rule)
    margin = f"{100 * rule.margin:+g} pp" if rule.margin else "0"
    why = f"P(gain > {margin}) = {own.draws.prob_gain_above(rule.margin):.3f}, fitted with {len(fit.cells)} cells"
    # what is still needed is worked out for the cell alone: that it is pooled can only lower it
    further = None if alone.decision is None else alone.decision.next
    return Decision(kind=kind, why=why, next=further if kind is DecisionKind.INCONCLUSIVE else None)

"""The document that `drsim sweep --json` prints."""

import math
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from drsim import __version__
from drsim.inference.posterior import Uncertain
from drsim.planning.corrected_winner import Corrected
from drsim.planning.sweep_cells import UNCERTAIN
from drsim.report.corrected import corrected_document
from drsim.report.documents import CorrectedDocument
from drsim.report.sweep.answer import Answer, headline
from drsim.report.sweep.words import Cell

__all__ = ["BestDocument", "SpreadDocument", "SweepCellDocument", "SweepDocument", "sweep_document"]


class SpreadDocument(Struct, frozen=True, kw_only=True):
    """An uncertain number: a posterior in mean, sd and quantiles, or a Monte Carlo mean with its error and runs."""

    mean: float | UnsetType = UNSET
    sd: float | UnsetType = UNSET
    q2_5: float | UnsetType = msgspec.field(name="q2.5", default=UNSET)
    q50: float | UnsetType = UNSET
    q97_5: float | UnsetType = msgspec.field(name="q97.5", default=UNSET)
    value: float | UnsetType = UNSET
    se: float | UnsetType = UNSET
    n: int | UnsetType = UNSET


type Figure = float | SpreadDocument | None
"""Exact under one model, a posterior over draws, or by Monte Carlo under one model; null where undefined."""


class SweepCellDocument(Struct, frozen=True, kw_only=True):
    """One cell; interventions, trigger rate and capped rate are means over draws.

    `threshold` is null where it differs by step, and what rests on a lookahead is null by Monte Carlo.
    """

    mechanism: str
    threshold: float | None
    first_step: int
    last_step: int
    every: int
    budget: int
    cooldown: int
    gain: Figure
    prob_gain: float
    success: Figure
    interventions: float
    trigger_rate: float
    capped: float
    tokens: Figure
    usd: Figure
    r: Figure
    d: Figure
    break_even: float | None
    """Static: d/(r + d) of the mean rates of the cell."""
    leverage_break_even: float | None
    """P(off track) from which one intervention pays, steps weighted by leverage and by where the first one is made."""
    leverage_off_share: float | None
    """P(off track) that first interventions of the cell do find, with the same weights."""
    mc_se: dict[str, float] | None
    """Monte Carlo errors of the means over draws, by quantity; null where all is exact."""


class BestDocument(Struct, frozen=True, kw_only=True):
    """The cell with the largest mean gain."""

    index: int
    """Its number in the product."""
    cell: SweepCellDocument
    gain: Figure
    """As the cell has it: biased upwards, since it was picked for it."""
    gain_corrected: Figure
    """Valued by what did not pick it."""
    corrected_by: Literal["draws", "data", "runs", "nothing"]
    prob_best: float
    other_half: SweepCellDocument | None
    """Of early-vs-late: the cell that fires in the steps in which the best does not."""


class SweepDocument(Struct, frozen=True, kw_only=True):
    """`drsim sweep --json`."""

    schema: Literal["drsim.sweep/1"] = "drsim.sweep/1"
    version: str
    source: str
    model: str
    assumptions: list[str]
    method: Literal["exact", "monte-carlo"]
    seed: int
    n_draws: int
    """Draws of the model; 1: it is taken as it stands, and intervals are not to be had."""
    n_runs: int | None
    """Runs of each cell and draw; null where exact."""
    coupling: Literal["shared_prefix"] = "shared_prefix"
    """Of r and d."""
    axes: dict[str, Any]
    baseline: Figure
    """P(success) of unaided runs."""
    n_cells: int
    cells: list[SweepCellDocument]
    """All in order; of more than 10000 the best 10000."""
    best: BestDocument
    answer: str
    corrected: list[CorrectedDocument] | None = None
    """Of a pilot's arms, as they were run; null where it was not asked for."""


def sweep_document(answer: Answer, winners: tuple[Corrected, ...] | None = None) -> SweepDocument:
    """The document that `drsim sweep --json` prints."""
    inputs, winner = answer.sweep.inputs, answer.sweep.winner
    corrected: Figure = _number(winner.uncertain) if inputs.n_draws > 1 else float(winner.gain_corrected[0])
    if winner.corrected_by == "runs":
        corrected = SpreadDocument(value=float(winner.gain_corrected[0]), se=winner.corrected_se, n=inputs.n_runs)
    best = _cell(answer, answer.best)
    many = inputs.n_draws > 1
    return SweepDocument(
        version=__version__,
        source=inputs.source,
        model=inputs.model.name,
        assumptions=list(inputs.assumptions),
        method="exact" if inputs.axes.is_exact else "monte-carlo",
        seed=inputs.seed,
        n_draws=inputs.n_draws,
        n_runs=None if inputs.axes.is_exact else inputs.n_runs,
        axes=inputs.axes.to_dict(),
        baseline=_number(Uncertain.from_draws(answer.baseline)) if many else float(answer.baseline[0]),
        n_cells=answer.sweep.n_cells,
        cells=[_cell(answer, cell) for cell in answer.cells],
        best=BestDocument(
            index=winner.cell,
            cell=best,
            gain=best.gain,
            gain_corrected=corrected,
            corrected_by=winner.corrected_by,
            prob_best=winner.prob_best,
            other_half=None if answer.other_half is None else _cell(answer, answer.other_half),
        ),
        answer=headline(answer),
        corrected=None if winners is None else [corrected_document(it) for it in winners],
    )


def _number(it: Uncertain) -> SpreadDocument:
    return SpreadDocument(mean=it.mean, sd=it.sd, q2_5=it.q2_5, q50=it.q50, q97_5=it.q97_5)


def _cell(answer: Answer, cell: Cell) -> SweepCellDocument:
    inputs = answer.sweep.inputs
    numbers = cell.numbers
    figures = {name: _figure(answer, cell, name) for name in UNCERTAIN}
    return SweepCellDocument(
        mechanism=cell.mechanism,
        threshold=_defined(cell.threshold),
        first_step=cell.first_step,
        last_step=cell.last_step,
        every=cell.every,
        budget=cell.budget,
        cooldown=cell.cooldown,
        prob_gain=numbers["prob_gain"],
        interventions=numbers["interventions"],
        trigger_rate=numbers["trigger_rate"],
        capped=numbers["capped"],
        usd=_figure(answer, cell, "tokens", inputs.draws.usd_per_token),
        break_even=_defined(numbers["break_even"]),
        leverage_break_even=_defined(numbers["leverage_break_even"]),
        leverage_off_share=_defined(numbers["leverage_off_share"]),
        mc_se=None if inputs.axes.is_exact else {name: numbers[f"{name}_mc_se"] for name in UNCERTAIN},
        **figures,
    )


def _figure(answer: Answer, cell: Cell, name: str, factor: float = 1.0) -> Figure:
    inputs = answer.sweep.inputs
    mean = factor * cell.numbers[f"{name}_mean"]
    if not math.isfinite(mean):
        return None
    if inputs.n_draws > 1:
        parts = {part: factor * cell.numbers[f"{name}_{part}"] for part in ("sd", "q2.5", "q50", "q97.5")}
        return SpreadDocument(mean=mean, sd=parts["sd"], q2_5=parts["q2.5"], q50=parts["q50"], q97_5=parts["q97.5"])
    if inputs.axes.is_exact:
        return mean
    return SpreadDocument(value=mean, se=factor * cell.numbers[f"{name}_mc_se"], n=inputs.n_runs)


def _defined(value: float) -> float | None:
    return value if np.isfinite(value) else None

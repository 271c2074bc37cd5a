"""r(t) and d(t) as a document and as text for a terminal of 80 columns."""

import math

from drsim.inference.timing import Curve, TimingCell, TimingFit
from drsim.inference.triggers import TriggerCell, TriggerFit
from drsim.pilot.cell import PairedBy
from drsim.report.documents import CurveDocument, TimingCellDocument, TimingDocument, TriggerCellDocument
from drsim.report.numbers import counted, interval, points, points_interval, rate
from drsim.report.text import columns, paragraph

__all__ = ["timing_document", "timing_text"]


def timing_document(fit: TimingFit, triggers: TriggerFit | None, confidence: float) -> TimingDocument:
    """The section `timing` of `drsim fit --json`."""
    return TimingDocument(
        n_draws=fit.n_draws,
        is_reliable=fit.is_reliable and (triggers is None or triggers.is_reliable),
        effective=fit.effective,
        pareto_k=fit.pareto_k,
        priors=fit.priors.to_dict(),
        confidence=confidence,
        cells=[
            TimingCellDocument(
                agent=cell.pairs.agent,
                benchmark=cell.pairs.benchmark,
                arm=cell.pairs.arm,
                pairing=cell.pairs.paired_by.value,
                n_pairs=cell.pairs.first_step.size,
                n_never=cell.n_never,
                r=_curve(cell.recovery),
                d=_curve(cell.disruption),
                is_observed=cell.is_observed.tolist(),
                prob_safe=[_finite(it) for it in cell.prob_safe.tolist()],
                first_safe_step=cell.safe_from(confidence),
                early_share=[_finite(it) for it in cell.early_share.tolist()],
            )
            for cell in fit.cells
        ],
        triggers=[] if triggers is None else [_trigger_document(cell) for cell in triggers.cells],
    )


def _trigger_document(cell: TriggerCell) -> TriggerCellDocument:
    return TriggerCellDocument(
        agent=cell.triggers.agent,
        benchmark=cell.triggers.benchmark,
        arm=cell.triggers.arm,
        n_runs=cell.triggers.step.size,
        acted=_curve(cell.acted),
        withheld=_curve(cell.withheld),
        effect=cell.effect.tolist(),
        low=cell.low.tolist(),
        high=cell.high.tolist(),
        prob_helps=cell.prob_helps.tolist(),
        is_observed=cell.is_observed.tolist(),
        overall=cell.overall,
    )


def _curve(curve: Curve) -> CurveDocument:
    return CurveDocument(
        mean=curve.mean.tolist(),
        low=curve.low.tolist(),
        high=curve.high.tolist(),
        band_low=curve.band_low.tolist(),
        band_high=curve.band_high.tolist(),
        flips=curve.events.tolist(),
        pairs=curve.trials.tolist(),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def timing_text(fit: TimingFit, triggers: TriggerFit | None, confidence: float, width: int) -> str:
    """Curves for people: a table for each cell, and from which step on intervening pays.

    Parameters
    ----------
    fit : TimingFit
        All cells.
    triggers : TriggerFit, optional
        Arms whose triggers were acted on by chance.
    confidence : float
        Posterior probability that a step needs to be called safe.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_cell_text(cell, confidence, width) for cell in fit.cells]
    parts += [] if triggers is None else [_trigger_text(cell, width) for cell in triggers.cells]
    legend = (
        "P(safe): that intervening pays at every step from this one on; harm: share of disruptions up to it; "
        "o: no pair fired first in it, so that neighbouring steps speak for it"
    )
    notes = [
        legend,
        f"{min(fit.effective):.0f} effective draws, Pareto k {max(fit.pareto_k):.2f}",
    ]
    if any(cell.pairs.paired_by is PairedBy.TRIAL for cell in fit.cells):
        notes.append(
            "pairs by trial are independent runs, of which those that fire are the ones that go badly: r(t) and d(t) "
            "hold that and churn beside what the intervention does; forks, or triggers acted on by chance, do not"
        )
    if any(cell.pairs.n_tasks < cell.pairs.first_step.size for cell in fit.cells):
        notes.append("some tasks carry several pairs, which are taken as independent: the intervals are too narrow")
    if not fit.is_reliable or not (triggers is None or triggers.is_reliable):
        notes.append("UNRELIABLE: the draws cannot be trusted; log more pairs")
    return "\n\n".join([*parts, "\n".join(paragraph(note, width) for note in notes)])


def _cell_text(cell: TimingCell, confidence: float, width: int) -> str:
    rows = [("step", "pairs", "r(t)", "95 %", "d(t)", "95 %", "P(safe)", "harm")]
    for t in range(len(cell.prob_safe)):
        r, d, safe, share = cell.recovery, cell.disruption, cell.prob_safe[t], cell.early_share[t]
        rows.append(
            (
                f"{t}" if cell.is_observed[t] else f"{t} o",
                str(int(r.trials[t] + d.trials[t])),
                rate(float(r.mean[t])),
                interval(float(r.low[t]), float(r.high[t])),
                rate(float(d.mean[t])),
                interval(float(d.low[t]), float(d.high[t])),
                "" if math.isnan(safe) else f"{safe:.3f}",
                "" if math.isnan(share) else f"{share:.0%}",
            )
        )
    fired = cell.pairs.first_step.size - cell.n_never
    title = f"{cell.pairs.name}: {fired} of {counted(cell.pairs.first_step.size, 'pair')} with an intervention"
    step = cell.safe_from(confidence)
    answer = (
        f"intervening pays from step {step} on with probability {cell.prob_safe[step]:.3f}"
        if step is not None
        else f"from no step on does intervening pay with probability {confidence:g}"
    )
    return "\n".join(
        [paragraph(title, width, indent=0), columns(rows, right=(1, 2, 4, 6, 7)), paragraph(answer, width)]
    )


def _trigger_text(cell: TriggerCell, width: int) -> str:
    rows = [("step", "acted", "success", "withheld", "success", "effect pp", "95 %", "P(> 0)")]
    rows += [
        (
            f"{t}" if cell.is_observed[t] else f"{t} o",
            str(int(cell.acted.trials[t])),
            rate(float(cell.acted.mean[t])),
            str(int(cell.withheld.trials[t])),
            rate(float(cell.withheld.mean[t])),
            points(float(cell.effect[t])),
            points_interval(float(cell.low[t]), float(cell.high[t])),
            f"{cell.prob_helps[t]:.3f}",
        )
        for t in range(len(cell.effect))
    ]
    mean, low, high = cell.overall
    title = f"{cell.triggers.name}: {counted(cell.triggers.step.size, 'run')} whose first trigger was left to chance"
    answer = f"acting on the first trigger changes success by {points(mean)} pp {points_interval(low, high)}"
    return "\n".join(
        [paragraph(title, width, indent=0), columns(rows, right=(1, 2, 3, 4, 5, 7)), paragraph(answer, width)]
    )

"""The hierarchical fit as a document and as text for a terminal of 80 columns."""

from dataclasses import fields

from drsim.inference.hierarchical.derived import CellSummary
from drsim.inference.posterior import Uncertain
from drsim.planning.pooling import PooledAssessment, PooledVerdict
from drsim.report.documents import HierarchicalDocument, NextDocument, Number, PooledCellDocument
from drsim.report.numbers import counted, interval, points, points_interval
from drsim.report.text import paragraph

__all__ = ["hierarchical_document", "hierarchical_text"]

SHORT_NAMES = {
    "failure_rate": "p",
    "recovery": "r",
    "disruption": "d",
    "excess_recovery": "excess_r",
    "excess_disruption": "excess_d",
    "least_recovery": "least_r",
    "least_disruption": "least_d",
}
"""Symbols under which the document names rates, as the static fit does."""


def hierarchical_document(assessment: PooledAssessment) -> HierarchicalDocument:
    """The section `hierarchical` of `drsim fit --json`."""
    fit = assessment.fit
    checks = fit.diagnostics
    named = {name: Number.of(Uncertain.from_draws(draws)) for name, draws in fit.draws().items()}
    scales, correlations = (
        {name.removeprefix(prefix): number for name, number in named.items() if name.startswith(prefix)}
        for prefix in ("sd ", "corr ")
    )
    return HierarchicalDocument(
        route=fit.route.value,
        n_draws=fit.n_draws,
        is_reliable=checks.is_good,
        diagnostics={
            "ess": checks.ess,
            "pareto_k": checks.pareto_k,
            "n_proposed": checks.n_proposed,
            "rhat": checks.rhat,
            "n_divergences": checks.n_divergences,
            "reasons": list(checks.reasons),
        },
        priors=fit.priors.to_dict(),
        prior_predictive={
            "p": Number.of(assessment.prior_failure_rate),
            "gain": Number.of(assessment.prior_gain),
        },
        scales=scales,
        correlations=correlations,
        cells=[_cell_document(cell, assessment.static.rule.margin) for cell in assessment.cells],
    )


def _cell_document(cell: PooledVerdict, margin: float) -> PooledCellDocument:
    key, summary, alone, further = cell.fit.key, cell.fit.summary, cell.static.posterior.gain, cell.decision.next
    return PooledCellDocument(
        agent=key.agent,
        benchmark=key.benchmark,
        arm=key.arm,
        quantities={
            SHORT_NAMES.get(field.name, field.name): Number.of(getattr(summary, field.name))
            for field in fields(CellSummary)
        },
        prob_gain=cell.fit.draws.prob_gain_above(margin),
        static_gain=None if alone is None else Number.of(alone.summary),
        decision=cell.decision.kind.value,
        why=cell.decision.why,
        next=None
        if further is None
        else NextDocument(pairs=further.pairs, more_pairs=further.more_pairs, usd=further.usd),
        sensitivity=None
        if cell.sensitivity is None
        else {f"{factor:g}": moved for factor, moved in cell.sensitivity.items()},
    )


def hierarchical_text(assessment: PooledAssessment, width: int) -> str:
    """The fit for people: one row a cell, its static gain beside it.

    Parameters
    ----------
    assessment : PooledAssessment
        Result of the fit.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    fit, margin = assessment.fit, assessment.static.rule.margin
    numbers = "  {:>6}{:>6}{:>6}  {:<22}{:>7}  {:<13}{:>9}"
    above = f"P(>{100 * margin:g})"
    lines = [numbers.format("p", "r", "d", "gain pp, 95 %", above, "verdict", "alone pp")]
    for cell in assessment.cells:
        summary, gain, alone = cell.fit.summary, cell.fit.summary.gain, cell.static.posterior.gain
        lines.append(cell.fit.key.name)
        lines.append(
            numbers.format(
                *(f"{it.mean:.2f}" for it in (summary.failure_rate, summary.recovery, summary.disruption)),
                f"{points(gain.mean)} {points_interval(gain.q2_5, gain.q97_5)}",
                f"{cell.fit.draws.prob_gain_above(margin):.3f}",
                cell.decision.kind,
                "" if alone is None else points(alone.summary.mean),
            ).rstrip()
        )
    notes = [
        _how(assessment),
        "r and d are those of independent runs of a task, churn included; alone: the static gain",
    ]
    before_p, before = assessment.prior_failure_rate, assessment.prior_gain
    notes.append(
        f"before any run the priors say: p {interval(before_p.q2_5, before_p.q97_5)}, "
        f"gain {points_interval(before.q2_5, before.q97_5)} pp"
    )
    moved = [abs(it) for cell in assessment.cells for it in (cell.sensitivity or {}).values()]
    if moved:
        notes.append(f"half and double prior scales move a mean gain by up to {100 * max(moved):.1f} pp")
    if not fit.diagnostics.is_good:
        notes.append(f"UNRELIABLE: {'; '.join(fit.diagnostics.reasons)}; take --model static, or more tasks")
    return "\n".join([*lines, *(paragraph(note, width) for note in notes)])


def _how(assessment: PooledAssessment) -> str:
    fit, checks = assessment.fit, assessment.fit.diagnostics
    tail = "" if checks.pareto_k is None else f", Pareto k {checks.pareto_k:.2f}"
    n_tasks = sum(block.n_tasks for block in fit.data.blocks)
    return (
        f"hierarchical: {counted(len(fit.cells), 'cell')}, {n_tasks:.0f} tasks, by {fit.route}; "
        f"{checks.ess:.0f} effective draws{tail}"
    )

"""The static fit as a document and as text for a terminal of 80 columns."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from drsim import __version__
from drsim.inference.churn import Churn, Rates
from drsim.inference.companions import Companions
from drsim.inference.posterior import Uncertain
from drsim.inference.static import CellPosterior, GainFit, Repeated
from drsim.pilot.cell import PairedBy
from drsim.planning.assessment import Assessment, CellVerdict, Pooled
from drsim.planning.verdict import Decision, DecisionRule, NextPilot
from drsim.report.documents import (
    BandDocument,
    CellDocument,
    CountsDocument,
    FitDocument,
    HierarchicalDocument,
    InputDocument,
    NextDocument,
    Number,
    PlugInDocument,
    PooledDocument,
    RepeatedDocument,
    TimingDocument,
    UnpairedDocument,
)
from drsim.report.numbers import counted, interval, points, points_interval, rate, uncertain_rate
from drsim.report.text import columns, paragraph

__all__ = ["fit_document", "fit_text"]

BASELINE_ONLY = "no intervened run: nothing to compare; p, churn and ρ only"


def fit_document(
    assessment: Assessment,
    *,
    model: Literal["static", "hierarchical", "timing"] = "static",
    model_why: str = "asked for",
    hierarchical: HierarchicalDocument | None = None,
    timing: TimingDocument | None = None,
) -> FitDocument:
    """The document that `drsim fit --json` prints; sections of the other models where they were fitted."""
    pairing, rule = assessment.pairing, assessment.rule
    return FitDocument(
        version=__version__,
        model=model,
        model_why=model_why,
        hierarchical=hierarchical,
        timing=timing,
        seed=assessment.seed,
        rule={
            "margin": rule.margin,
            "rope": rule.rope,
            "confidence": rule.confidence,
            "power": rule.power,
            "max_pairs": rule.max_pairs,
        },
        input=InputDocument(runs=pairing.n_runs, tasks=pairing.n_tasks, set_aside=pairing.set_aside),
        cells=[_cell_document(verdict, assessment) for verdict in assessment.cells],
        pooled=[_pooled_document(pooled) for pooled in assessment.pooled],
        warnings=list(assessment.warnings),
        diagnostics={"n_draws": assessment.n_draws},
    )


def _cell_document(verdict: CellVerdict, assessment: Assessment) -> CellDocument:
    posterior, decision = verdict.posterior, verdict.decision
    cell, churn, gain = posterior.cell, posterior.churn, posterior.gain
    margin = assessment.rule.margin
    return CellDocument(
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=cell.arm,
        n_tasks=cell.n_compared_tasks or int(cell.multiplicity[cell.baseline_runs > 0].sum()),
        n_pairs=cell.n_paired,
        pairing=cell.paired_by.value,
        method="exact" if posterior.is_exact else "draws",
        counts=_counts(cell.counts) if cell.is_paired else None,
        plug_in=PlugInDocument(**posterior.plug_in.to_dict()),
        p=Number.of(posterior.failure_rate),
        r=_maybe(posterior.recovery),
        d=_maybe(posterior.disruption),
        r_bounds=_ends(posterior.recovery_bounds),
        d_bounds=_ends(posterior.disruption_bounds),
        gain=None if gain is None else Number.of(gain.summary),
        break_even=_maybe(posterior.break_even),
        prob_gain=None if gain is None else gain.posterior.prob_gain_above(margin),
        repeated=None if gain is None or gain.repeated is None else _repeated(gain.repeated, margin),
        churn=Number.of(churn.churn),
        rho=_maybe(churn.rho),
        rho_source="measured" if churn.is_measured else "assumed",
        rho_prior=None if churn.is_measured else str(churn.rho_prior),
        rerun_r=Number.of(churn.rerun.recovery),
        rerun_d=Number.of(churn.rerun.disruption),
        excess_r=None if churn.excess is None else Number.of(churn.excess.recovery),
        excess_d=None if churn.excess is None else Number.of(churn.excess.disruption),
        prob_coupled=churn.prob_coupled,
        excess_band=[BandDocument(rho=rho, excess_r=r, excess_d=d) for rho, r, d in churn.band],
        outcomes={"baseline": cell.baseline_tally.to_dict(), "arm": cell.arm_tally.to_dict()},
        unpaired=[UnpairedDocument(arm=item.arm, reason=item.reason, runs=item.runs) for item in cell.unpaired],
        gain_bounds=cell.gain_bounds,
        frequentist=None if verdict.companions is None else verdict.companions.to_dict(),
        decision=None if decision is None else decision.kind.value,
        why=BASELINE_ONLY if decision is None else decision.why,
        next=_next(decision),
    )


def _repeated(repeated: Repeated, margin: float) -> RepeatedDocument:
    return RepeatedDocument(
        n_tasks=repeated.n_tasks,
        gain=Number.of(repeated.gain),
        prob_gain=repeated.posterior.prob_gain_above(margin),
    )


def _counts(counts: dict[str, float]) -> CountsDocument:
    # Whole counts print as 118, not 118.0.
    a, b, c, d = (round(count) if float(count).is_integer() else count for count in counts.values())
    return CountsDocument(a=a, b=b, c=c, d=d)


def _maybe(number: Uncertain | None) -> Number | None:
    return None if number is None else Number.of(number)


def _ends(ends: tuple[float, float] | None) -> tuple[float | None, float | None] | None:
    if ends is None:
        return None
    low, high = (end if math.isfinite(end) else None for end in ends)
    return low, high


def _next(decision: Decision | None) -> NextDocument | None:
    if decision is None or decision.next is None:
        return None
    return NextDocument(pairs=decision.next.pairs, more_pairs=decision.next.more_pairs, usd=decision.next.usd)


def _pooled_document(pooled: Pooled) -> PooledDocument:
    return PooledDocument(
        agent=pooled.agent,
        arm=pooled.arm,
        benchmarks=list(pooled.benchmarks),
        n_tasks=pooled.n_tasks,
        gain=_maybe(pooled.gain),
        prob_gain=pooled.prob_gain,
        decision=None if pooled.decision is None else pooled.decision.value,
        why=pooled.why,
    )


def fit_text(assessment: Assessment, width: int, *, details: bool = False) -> str:
    """The fit for people: one block for a single cell, one row a cell otherwise, then what holds for all of them.

    Parameters
    ----------
    assessment : Assessment
        Result of the fit.
    width : int
        Columns of the terminal.
    details : bool
        A block for every cell.

    Returns
    -------
    str
        Lines without a final newline.
    """
    compared = list(_compared(assessment))
    parts: list[str] = []
    if details or len(compared) == 1:
        parts += [_block(cell, assessment, width) for cell in compared]
    elif compared:
        parts.append(_table(compared, assessment.rule))
    if assessment.pooled:
        parts.append("\n".join(_pooled_line(pooled, width) for pooled in assessment.pooled))
    parts += [_baseline_block(verdict.posterior, width) for verdict in assessment.cells if verdict.decision is None]
    return "\n\n".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A cell with two arms, hence with a gain and a decision."""

    posterior: CellPosterior
    gain: GainFit
    decision: Decision
    companions: Companions | None


def _compared(assessment: Assessment) -> Iterator[_Compared]:
    for verdict in assessment.cells:
        gain, decision = verdict.posterior.gain, verdict.decision
        if gain is not None and decision is not None:
            yield _Compared(posterior=verdict.posterior, gain=gain, decision=decision, companions=verdict.companions)


def _block(compared: _Compared, assessment: Assessment, width: int) -> str:
    posterior, decision = compared.posterior, compared.decision
    lines = [_title(posterior), _rates(posterior, compared.gain.summary)]
    lines += [paragraph(line, width) for line in _findings(compared, assessment.rule.margin)]
    lines += ["", paragraph(f"verdict: {decision.kind}, {decision.why}", width)]
    if decision.next is not None:
        lines.append(paragraph(_price(decision.next, posterior.cell.n_paired, assessment.rule), width))
    return "\n".join(lines)


def _title(posterior: CellPosterior) -> str:
    cell = posterior.cell
    if not cell.is_paired:
        return f"{cell.agent} on {cell.benchmark}, arm {cell.arm}: unpaired"
    tasks = "" if cell.n_paired == cell.n_paired_tasks else f" of {counted(cell.n_paired_tasks, 'task')}"
    pairs = counted(cell.n_paired, "pair")
    return f"{cell.agent} on {cell.benchmark}, arm {cell.arm}: {pairs}{tasks}, by {cell.paired_by}"


def _rates(posterior: CellPosterior, gain: Uncertain) -> str:
    plug_in = posterior.plug_in
    rows = [("", "counts", "posterior", "95 % interval")]
    for name, value, number, bounds in (
        ("failure rate p", plug_in.failure_rate, posterior.failure_rate, None),
        ("recovery r", plug_in.recovery, posterior.recovery, posterior.recovery_bounds),
        ("disruption d", plug_in.disruption, posterior.disruption, posterior.disruption_bounds),
        ("break-even p*", plug_in.break_even, posterior.break_even, None),
    ):
        if number is not None:
            rows.append((name, rate(value), rate(number.mean), interval(number.q2_5, number.q97_5)))
        elif bounds is not None and math.isfinite(bounds[0]):
            rows.append((name, "–", "–", f"between {rate(bounds[0])} and {rate(bounds[1])}, unpaired"))
    ends = points_interval(gain.q2_5, gain.q97_5, 2)
    rows.append(("gain Δ (pp)", points(plug_in.gain, 2), points(gain.mean, 2), ends))
    return columns(rows, right=(1, 2))


def _findings(compared: _Compared, margin: float) -> Iterator[str]:
    posterior, gain = compared.posterior, compared.gain
    above = f"P(gain > {points(margin)} pp)" if margin else "P(gain > 0)"
    prob = f"{above} = {gain.posterior.prob_gain_above(margin):.6f}"
    if gain.repeated is None:
        yield prob
    else:
        alike = gain.repeated.posterior.prob_gain_above(margin)
        yield f"{prob} if all pairs are independent"
        yield f"{' ' * len(above)} = {alike:.6f} if the trials of each of the {gain.repeated.n_tasks} tasks end alike"
        yield "(the weaker of these two readings decides)"
    yield from _foundation_lines(posterior)
    yield from _frequentist_lines(compared)


def _foundation_lines(posterior: CellPosterior) -> Iterator[str]:
    """What d and r rest on, and how much of them reruns alone would make."""
    cell, churn = posterior.cell, posterior.churn
    reruns = f"{rate(churn.rerun.recovery.mean)} and {rate(churn.rerun.disruption.mean)}"
    if not cell.is_paired:
        arm_runs = counted(cell.arm_tally.judged, "intervened run")
        yield f"p rests on {counted(cell.baseline_tally.judged, 'baseline run')}, the gain on {arm_runs} as well"
        yield f"of r and d reruns alone would make {reruns}; {_rho(churn)}"
        return
    a, b, c, d = cell.counts.values()
    successes, failures = counted(b + d, "success", "successes"), counted(a + c, "failure")
    if cell.paired_by is PairedBy.FORK:
        yield f"d rests on {successes}, r on {failures} of the baseline"
        yield "the pairs are forked: they share their prefix, so that r and d hold no churn from before the fork"
        return
    yield f"d rests on {successes}; of r and d reruns alone would make {reruns}"
    yield f"r rests on {failures}; {_rho(churn)}"
    if churn.excess is not None:
        yield f"beyond reruns: {_excess(churn, churn.excess)}"


def _rho(churn: Churn) -> str:
    if not churn.is_measured:
        if churn.rho_prior.value is not None:
            return f"ρ {churn.rho_prior} assumed"
        low, middle, high = churn.rho_prior.band()
        return f"ρ assumed: {churn.rho_prior}, median {middle:.2f}, 95 % in [{low:.2f}, {high:.2f}]"
    measured = "undefined, no outcome varies" if churn.rho is None else uncertain_rate(churn.rho)
    return f"ρ measured on {counted(churn.n_tasks, 'task')}: {measured}"


def _excess(churn: Churn, excess: Rates) -> str:
    r, d = excess.recovery, excess.disruption
    if churn.is_measured:
        return (
            f"r {points(r.mean)} pp {points_interval(r.q2_5, r.q97_5)}, "
            f"d {points(d.mean)} pp {points_interval(d.q2_5, d.q97_5)}"
        )
    ends = [f"r {points(r_x)}, d {points(d_x)} at ρ = {rho:.2f}" for rho, r_x, d_x in churn.band]
    text = f"r {points(r.mean)} pp, d {points(d.mean)} pp"
    return text if len(ends) == 1 else f"{text}; from {ends[0]} to {ends[-1]}"


def _frequentist_lines(compared: _Compared) -> Iterator[str]:
    found = compared.companions
    if found is None:
        return
    yield f"mid-p McNemar p = {found.mcnemar_midp:.4f} (exact {found.mcnemar_exact:.4f}), two-sided"
    yield (
        f"95 % for the gain in pp: Newcombe {points_interval(*found.newcombe, 2)}, "
        f"Tango {points_interval(*found.tango, 2)}"
    )
    wilson = (
        ("p", found.failure_rate_wilson),
        ("r", found.recovery_wilson),
        ("d", found.disruption_wilson),
    )
    yield "Wilson 95 %: " + ", ".join(f"{name} {interval(*ends)}" for name, ends in wilson if ends is not None)
    cell = compared.posterior.cell
    if cell.n_paired > cell.n_paired_tasks:
        yield "these take every pair as independent, although tasks were repeated: too sharp"


def _price(further: NextPilot, at_hand: int, rule: DecisionRule) -> str:
    money = "" if further.usd is None else f", about ${further.usd:,.2f},"
    return (
        f"{further.more_pairs:,} more pairs ({further.pairs:,} with the {at_hand:,} at hand){money} "
        f"decide with probability {rule.power:g}, if this posterior is right"
    )


def _table(cells: list[_Compared], rule: DecisionRule) -> str:
    """Two lines a cell, since its name alone often fills the terminal."""
    numbers = "  {:>6}{:>6}{:>6}{:>6}  {:<22}{:>7}  {:<13}{:>8}"
    above = f"P(>{100 * rule.margin:g})"
    lines = [numbers.format("pairs", "p", "r", "d", "gain pp, 95 %", above, "verdict", "needs")]
    for compared in cells:
        posterior, decision, gain = compared.posterior, compared.decision, compared.gain
        cell = posterior.cell
        lines.append(f"{cell.agent} on {cell.benchmark}, {cell.arm}")
        lines.append(
            numbers.format(
                cell.n_paired,
                *(_short(number) for number in (posterior.failure_rate, posterior.recovery, posterior.disruption)),
                f"{points(gain.summary.mean)} {points_interval(gain.summary.q2_5, gain.summary.q97_5)}",
                f"{gain.posterior.prob_gain_above(rule.margin):.3f}",
                decision.kind,
                "" if decision.next is None else f"+{decision.next.more_pairs}",
            ).rstrip()
        )
    lines.append(f"needs: further pairs that decide with probability {rule.power:g}; churn: --details")
    return "\n".join(lines)


def _short(number: Uncertain | None) -> str:
    return "–" if number is None else f"{number.mean:.2f}"


def _pooled_line(pooled: Pooled, width: int) -> str:
    name = f"{pooled.agent}, {pooled.arm}, {len(pooled.benchmarks)} benchmarks"
    if pooled.gain is None or pooled.prob_gain is None:
        return paragraph(f"{name}: no pooled verdict, since {pooled.why}", width, indent=0)
    interval_pp = points_interval(pooled.gain.q2_5, pooled.gain.q97_5)
    return paragraph(
        f"{name} by tasks: gain {points(pooled.gain.mean)} pp {interval_pp}, "
        f"P(gain > 0) {pooled.prob_gain:.3f}: {pooled.decision}",
        width,
        indent=0,
    )


def _baseline_block(posterior: CellPosterior, width: int) -> str:
    cell, churn = posterior.cell, posterior.churn
    n_tasks = int(cell.multiplicity[cell.baseline_runs > 0].sum())
    findings = [f"failure rate p {uncertain_rate(posterior.failure_rate)}"]
    if churn.is_measured:
        findings.append(f"churn χ {uncertain_rate(churn.churn)}")
    reruns = f"{rate(churn.rerun.recovery.mean)} and {rate(churn.rerun.disruption.mean)}"
    findings += [f"of r and d reruns alone would make {reruns}; {_rho(churn)}", f"no verdict: {BASELINE_ONLY}"]
    runs = f"{counted(cell.baseline_tally.judged, 'run')} of {counted(n_tasks, 'task')}"
    title = f"{cell.agent} on {cell.benchmark}: {runs}, {cell.arm} only"
    return "\n".join([paragraph(title, width, indent=0), *(paragraph(line, width) for line in findings)])

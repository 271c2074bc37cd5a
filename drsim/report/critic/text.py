"""Judged critics as text for a terminal of 80 columns."""

import math
from collections.abc import Iterator, Sequence

from drsim.inference.critic.metrics import CriticMetrics
from drsim.inference.critic.temperature import Temperature
from drsim.inference.posterior import Uncertain
from drsim.planning.critic.gains import CriticGains
from drsim.planning.critic.judgement import CriticAssessment, CriticJudgement, PlaceRow
from drsim.planning.critic.operating_points import ALWAYS, NEVER, OperatingPoint
from drsim.report.numbers import interval, points, points_interval, rate
from drsim.report.text import paragraph

__all__ = ["critic_text"]

LABEL = 22
"""Columns of the metrics table's first column."""
COLUMN = 26
"""Columns of each of the other two."""


def critic_text(assessment: CriticAssessment, width: int) -> str:
    """The critics for people: a block for each scored arm.

    Parameters
    ----------
    assessment : CriticAssessment
        As judged.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    return "\n\n\n".join(_block(critic, assessment.rule.margin, width) for critic in assessment.critics)


def _block(critic: CriticJudgement, margin: float, width: int) -> str:
    parts = [_title(critic, width), _metrics_table(critic), _reliability_table(critic.steps)]
    if critic.gains is None:
        parts.append(paragraph("no ROC and no gain: all scored runs end alike", width, indent=0))
    else:
        parts.append("\n".join(_rate_lines(critic.gains, width)))
        parts.append(_points_table(critic.gains, margin))
        parts.append("\n".join(_findings(critic, critic.gains, width)))
    if critic.places:
        parts.append(_places_table(critic.places))
    return "\n\n".join(parts)


def _title(critic: CriticJudgement, width: int) -> str:
    scored = critic.scored
    where = (
        f"{scored.places[0][0]} on {scored.places[0][1]}"
        if len(scored.places) == 1
        else f"{len(scored.places)} agents and benchmarks"
    )
    text = (
        f"critic's scores in {scored.arm}, {where}: {critic.runs.n:,} runs of {scored.n_tasks:,} tasks, "
        f"{critic.runs.n_failed:,} failed"
    )
    if scored.is_contaminated:
        text += "; CONTAMINATED: the arm intervenes, so these ends are not those that the scores predicted"
    return paragraph(text, width, indent=0)


# Metrics -----------------------------------------------------------------------------------------------------------


def _metrics_table(critic: CriticJudgement) -> str:
    sides = ((critic.runs, critic.run_temperature), (critic.steps, critic.step_temperature))
    rows: list[tuple[str, list[str]]] = [
        ("", ["per run (highest score)", "per scored step"]),
        ("n", [f"{metrics.n:,}" for metrics, _ in sides]),
        ("AUROC", [_auroc(metrics) for metrics, _ in sides]),
    ]
    if critic.runs.auroc_within is not None:
        rows.append(("  within benchmarks", [_maybe(metrics.auroc_within) for metrics, _ in sides]))
    rows += [
        ("  of length alone", [rate(critic.scored.length_auroc), ""]),
        ("Brier", [_with_interval(metrics.plain_brier, metrics.brier) for metrics, _ in sides]),
        ("NLL", [_nll(metrics) for metrics, _ in sides]),
        ("ECE (chance alone)", [f"{metrics.ece:.3f} ({metrics.ece_floor:.3f})" for metrics, _ in sides]),
        ("temperature (halves)", [_temperature(temperature) for _, temperature in sides]),
        ("held-out NLL", [_held_out(temperature, "nll") for _, temperature in sides]),
        ("held-out Brier", [_held_out(temperature, "brier") for _, temperature in sides]),
        ("held-out ECE", [_held_out(temperature, "ece") for _, temperature in sides]),
    ]
    return "\n".join(f"  {name:<{LABEL}}{run:<{COLUMN}}{step}".rstrip() for name, (run, step) in rows)


def _auroc(metrics: CriticMetrics) -> str:
    return "– (all end alike)" if metrics.auroc is None else _with_interval(metrics.plain_auroc, metrics.auroc)


def _with_interval(plain: float, number: Uncertain) -> str:
    return f"{plain:.3f} {interval(number.q2_5, number.q97_5)}"


def _maybe(number: Uncertain | None) -> str:
    return "–" if number is None else _with_interval(number.mean, number)


def _nll(metrics: CriticMetrics) -> str:
    if metrics.nll is None:
        return f"∞ ({metrics.n_impossible:,} wrong at 0 or 1)"
    return _with_interval(metrics.plain_nll, metrics.nll)


def _temperature(temperature: Temperature) -> str:
    found = temperature.held_out
    halves = "" if found is None else f" ({found.temperatures[0]:.2f}, {found.temperatures[1]:.2f})"
    end = "" if temperature.fit.status == "converged" else f", {temperature.fit.status}"
    return f"{temperature.fit.temperature:.2f}{halves}{end}"


def _held_out(temperature: Temperature, name: str) -> str:
    found = temperature.held_out
    if found is None:
        return "– (one task)"
    before, after = getattr(found, f"{name}_before"), getattr(found, f"{name}_after")
    return f"{_or_infinite(before)} → {after:.3f}"


def _or_infinite(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "∞"


def _reliability_table(metrics: CriticMetrics) -> str:
    lines = ["  step scores    said   failed  95 %                 steps"]
    lines += [
        f"  {'':<13}{item.mean_score:>6.3f}   {item.share_failed:>6.3f}  "
        f"{interval(item.posterior.q2_5, item.posterior.q97_5):<18}{item.n:>8,}"
        for item in metrics.reliability
    ]
    return "\n".join(lines)


# Gains -------------------------------------------------------------------------------------------------------------


def _rate_lines(gains: CriticGains, width: int) -> Iterator[str]:
    yield paragraph(f"failure rate p {_uncertain(gains.failure_rate)}, of {gains.failure_rate_of}", width, indent=0)
    rates = gains.rates
    if rates is None or gains.recovery is None or gains.disruption is None:
        yield paragraph("recovery and disruption given firing: unknown, so that no gain is implied", width, indent=0)
        return
    yield paragraph(
        f"given firing: recovery {_uncertain(gains.recovery)}, disruption {_uncertain(gains.disruption)}",
        width,
        indent=0,
    )
    yield paragraph(f"source: {rates.assumption}", width)
    pairs, counts = rates.pairs, rates.counts
    if pairs is not None and counts is not None:
        a, b, c, d = counts.values()
        churn = "" if pairs.is_forked else ", what reruns flip included"
        yield paragraph(
            f"{a + b + c + d:g} of {pairs.n_pairs:,} pairs by {' and '.join(pairs.paired_by)}: {c:g} of {a + c:g} "
            f"failures recovered, {b:g} of {b + d:g} successes disrupted{churn}",
            width,
        )
    if gains.as_run is not None:
        yield paragraph(f"as {rates.arm} ran, its gain over all pairs was {_gain(gains.as_run)}", width)


def _uncertain(number: Uncertain) -> str:
    return f"{number.mean:.3f}" if number.sd == 0 else _with_interval(number.mean, number)


def _gain(number: Uncertain, digits: int = 1) -> str:
    return f"{points(number.mean, digits)} pp {points_interval(number.q2_5, number.q97_5, digits)}"


def _points_table(gains: CriticGains, margin: float) -> str:
    above = f"P(>{100 * margin:g})"
    row = "  {:>8} {:>7}  {:>5}  {:>5}   {:<24}{:>8}"
    lines = [row.format("fires on", "τ", "TPR", "FPR", "gain pp, 95 %", above)]
    for point in gains.points:
        gain = "–" if point.gain is None else f"{points(point.gain.mean)} {_ends(point.gain)}"
        prob = "–" if point.prob_gain is None else f"{point.prob_gain:.3f}"
        line = row.format(
            f"{100 * point.trigger_rate:.0f} %", _tau(point), _share(point.tpr), _share(point.fpr), gain, prob
        )
        is_best = gains.best is not None and point.threshold == gains.best.threshold
        lines.append(line + ("  best" if is_best else ""))
    return "\n".join(lines)


def _ends(number: Uncertain) -> str:
    return points_interval(number.q2_5, number.q97_5)


def _share(number: Uncertain) -> str:
    return f"{number.mean:.2f}"


def _tau(point: OperatingPoint) -> str:
    if point.threshold is None:
        return "–"
    if point.threshold == ALWAYS:
        return "always"
    return "never" if point.threshold >= NEVER else _score(point.threshold)


def _score(value: float) -> str:
    """A score with three decimals, or by its distance to the end that it is nearly at."""
    if 0.0 < value < 0.0005:
        return f"{value:.0e}"
    return f"1−{1.0 - value:.0e}" if 0.9995 < value < 1.0 else f"{value:.3f}"


def _findings(critic: CriticJudgement, gains: CriticGains, width: int) -> Iterator[str]:
    for text in (*_best_lines(gains), *_calibrated_lines(gains), *_contrast_lines(gains)):
        yield paragraph(text, width, indent=0)


def _best_lines(gains: CriticGains) -> Iterator[str]:
    best = gains.best
    if best is None or best.gain is None:
        return
    if best.threshold == NEVER:
        yield f"best: never fire; none of {gains.n_thresholds:,} thresholds has a positive mean gain"
    else:
        yield (
            f"best: τ = {_tau(best)}, fires on {100 * best.trigger_rate:.0f} % of runs, gain {_gain(best.gain)}; "
            f"picked from {gains.n_thresholds:,} thresholds by these data, so it looks better than it is"
        )
    if gains.cross_fitted is not None and gains.cross_fitted.gain is not None:
        yield (
            "cross-fitted: threshold picked on half of the tasks, valued on the other half: gain "
            f"{_gain(gains.cross_fitted.gain)}"
        )


def _calibrated_lines(gains: CriticGains) -> Iterator[str]:
    found = gains.calibrated
    if found is None or found.point.gain is None:
        return
    posterior = found.eta_posterior
    spread = "" if posterior.sd == 0 else f" {interval(posterior.q2_5, posterior.q97_5)}"
    doubt = "" if found.is_trustworthy else "; NOT to be relied on: scaled scores of unseen tasks are no probabilities"
    yield (
        f"calibrated: intervene where the probability of failure exceeds η* = δ/(ρ+δ) = {found.eta:.3f}{spread}; with "
        f"T = {found.temperature:.2f} that is a raw score above {_tau(found.point)}: fires on "
        f"{100 * found.point.trigger_rate:.0f} % of runs, gain {_gain(found.point.gain)}{doubt}"
    )


def _contrast_lines(gains: CriticGains) -> Iterator[str]:
    found, best = gains.contrast, gains.best
    if found is None or best is None or best.gain is None:
        return
    same = "" if found.binormal is None else f"; a binormal critic with that AUROC {points(found.binormal)}"
    yield (
        f"what AUROC {found.auroc:.3f} hides: gain {points(best.gain.mean)} pp at best{same}; a perfect critic "
        f"{points(found.perfect)}, a random one {points(found.random)}"
    )
    if found.disrupted_per_recovered is not None and best.threshold != NEVER:
        yield f"at τ = {_tau(best)} it disrupts {found.disrupted_per_recovered:.2f} runs for each one that it recovers"


# Places ------------------------------------------------------------------------------------------------------------


def _places_table(rows: Sequence[PlaceRow]) -> str:
    """Two lines a place, since its name alone often fills the terminal."""
    line = "  {:>6} {:>5}  {:<20} {:>5} {:>5} {:>5}  {:<24}"
    lines = [line.format("runs", "fail", "AUROC, 95 %", "fires", "TPR", "FPR", "gain pp at best τ, 95 %").rstrip()]
    for row in rows:
        auroc = "–" if row.auroc is None else _with_interval(row.plain_auroc, row.auroc)
        point = row.at_best
        cells = ("–", "–", "–", "–")
        if point is not None and point.gain is not None:
            cells = (
                f"{100 * point.trigger_rate:.0f} %",
                _share(point.tpr),
                _share(point.fpr),
                f"{points(point.gain.mean)} {_ends(point.gain)}",
            )
        lines.append(f"{row.place[0]} on {row.place[1]}")
        lines.append(line.format(f"{row.n_runs:,}", f"{row.n_failed / row.n_runs:.2f}", auroc, *cells).rstrip())
    return "\n".join(lines)

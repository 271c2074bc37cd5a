"""Judged critics as a document."""

import math
from typing import Literal

from drsim import __version__
from drsim.inference.critic.firing_rates import FiringRates
from drsim.inference.critic.metrics import CriticMetrics
from drsim.inference.critic.temperature import HeldOut, Temperature
from drsim.inference.posterior import Uncertain
from drsim.planning.critic.gains import Calibrated, CriticGains
from drsim.planning.critic.judgement import CriticAssessment, CriticJudgement, Granularity, PlaceRow
from drsim.planning.critic.operating_points import OperatingPoint
from drsim.report.critic.document import (
    AurocContrastDocument,
    BinDocument,
    CalibratedDocument,
    CriticDocument,
    CriticPlaceDocument,
    GranularityDocument,
    HeldOutDocument,
    MetricsDocument,
    OperatingPointDocument,
    PlainMetricsDocument,
    RatesDocument,
    ScoredArmDocument,
    TemperatureDocument,
)
from drsim.report.documents import CountsDocument, InputDocument, Number

__all__ = ["critic_document"]


def critic_document(assessment: CriticAssessment) -> CriticDocument:
    """The document that `drsim critic --json` prints."""
    critics = [_critic_document(critic) for critic in assessment.critics]
    only = critics[0] if len(critics) == 1 else None
    return CriticDocument(
        version=__version__,
        seed=assessment.seed,
        rule={"margin": assessment.rule.margin, "confidence": assessment.rule.confidence},
        input=InputDocument(runs=assessment.n_runs, tasks=assessment.n_tasks, set_aside=assessment.set_aside),
        scored_arm=None if only is None else only.scored_arm,
        contaminated=any(critic.contaminated for critic in critics),
        auroc=None if only is None else only.runs.auroc,
        brier=None if only is None else only.steps.brier,
        nll=None if only is None else only.steps.nll,
        ece=None if only is None else only.steps.ece,
        temperature=None if only is None else only.steps.temperature.value,
        operating_points=[] if only is None else only.operating_points,
        critics=critics,
        warnings=list(assessment.warnings),
        diagnostics={"n_draws": assessment.n_draws},
    )


def _critic_document(critic: CriticJudgement) -> ScoredArmDocument:
    scored, gains = critic.scored, critic.gains
    return ScoredArmDocument(
        scored_arm=scored.arm,
        contaminated=scored.is_contaminated,
        n_tasks=scored.n_tasks,
        length_auroc=_finite(scored.length_auroc),
        unscored=scored.unscored,
        set_aside=scored.set_aside,
        runs=_metrics(critic.runs, critic.run_temperature),
        steps=_metrics(critic.steps, critic.step_temperature),
        granularity=_granularity(critic.granularity),
        failure_rate=None if gains is None else Number.of(gains.failure_rate),
        failure_rate_of=None if gains is None else gains.failure_rate_of,
        rates=None if gains is None else _rates(gains),
        operating_points=[] if gains is None else [_point(point) for point in gains.points],
        best=None if gains is None else _maybe_point(gains.best),
        n_thresholds=None if gains is None else gains.n_thresholds,
        cross_fitted=None if gains is None else _maybe_point(gains.cross_fitted),
        calibrated=None if gains is None else _calibrated(gains.calibrated),
        contrast=None if gains is None else _contrast(gains),
        as_run=None if gains is None else _maybe(gains.as_run),
        places=[_place(row, scored.arm) for row in critic.places],
    )


def _metrics(metrics: CriticMetrics, temperature: Temperature) -> MetricsDocument:
    return MetricsDocument(
        n=metrics.n,
        failed=metrics.n_failed,
        plain=PlainMetricsDocument(
            auroc=_finite(metrics.plain_auroc), brier=metrics.plain_brier, nll=_finite(metrics.plain_nll)
        ),
        auroc=_maybe(metrics.auroc),
        auroc_within=_maybe(metrics.auroc_within),
        brier=Number.of(metrics.brier),
        nll=_maybe(metrics.nll),
        impossible=metrics.n_impossible,
        ece=metrics.ece,
        ece_floor=metrics.ece_floor,
        temperature=TemperatureDocument(
            value=temperature.fit.temperature, status=temperature.fit.status, held_out=_held_out(temperature.held_out)
        ),
        reliability=[
            BinDocument(
                mean_score=item.mean_score,
                share_failed=item.share_failed,
                posterior=Number.of(item.posterior),
                n=item.n,
            )
            for item in metrics.reliability
        ],
    )


def _held_out(found: HeldOut | None) -> HeldOutDocument | None:
    if found is None:
        return None
    return HeldOutDocument(
        temperatures=found.temperatures,
        statuses=found.statuses,
        nll_before=_finite(found.nll_before),
        nll_after=found.nll_after,
        brier_before=found.brier_before,
        brier_after=found.brier_after,
        ece_before=found.ece_before,
        ece_after=found.ece_after,
    )


def _granularity(found: Granularity) -> GranularityDocument:
    return GranularityDocument(
        distinct=found.n_distinct,
        largest_tie=found.largest_tie,
        coarse=found.is_coarse,
        reachable_trigger_rates=list(found.reachable) if found.is_few else None,
    )


def _rates(gains: CriticGains) -> RatesDocument | None:
    rates: FiringRates | None = gains.rates
    if rates is None or gains.recovery is None or gains.disruption is None:
        return None
    pairs, counts = rates.pairs, rates.counts
    return RatesDocument(
        source=rates.source.value,
        assumption=rates.assumption,
        arm=rates.arm,
        pairing=[] if pairs is None else [way.value for way in pairs.paired_by],
        forked=None if pairs is None else pairs.is_forked,
        churn=_churn(rates),
        counts=None if counts is None else CountsDocument(**{name.lower(): n for name, n in counts.items()}),
        recovery=Number.of(gains.recovery),
        disruption=Number.of(gains.disruption),
    )


def _churn(rates: FiringRates) -> Literal["measured", "assumed"] | None:
    if rates.pairs is None or rates.pairs.is_forked:
        return None
    return "measured" if rates.pairs.measures_churn else "assumed"


def _point(point: OperatingPoint) -> OperatingPointDocument:
    return OperatingPointDocument(
        trigger_rate=point.trigger_rate,
        threshold=point.threshold,
        tpr=Number.of(point.tpr),
        fpr=Number.of(point.fpr),
        gain=_maybe(point.gain),
        prob_gain=point.prob_gain,
    )


def _maybe_point(point: OperatingPoint | None) -> OperatingPointDocument | None:
    return None if point is None else _point(point)


def _calibrated(found: Calibrated | None) -> CalibratedDocument | None:
    if found is None:
        return None
    return CalibratedDocument(
        eta=found.eta,
        eta_posterior=Number.of(found.eta_posterior),
        temperature=found.temperature,
        trustworthy=found.is_trustworthy,
        point=_point(found.point),
    )


def _contrast(gains: CriticGains) -> AurocContrastDocument | None:
    found = gains.contrast
    if found is None:
        return None
    return AurocContrastDocument(
        auroc=found.auroc,
        binormal=found.binormal,
        perfect=found.perfect,
        random=found.random,
        disrupted_per_recovered=found.disrupted_per_recovered,
    )


def _place(row: PlaceRow, arm: str) -> CriticPlaceDocument:
    return CriticPlaceDocument(
        agent=row.place[0],
        benchmark=row.place[1],
        arm=arm,
        n_tasks=row.n_tasks,
        n_runs=row.n_runs,
        failed=row.n_failed,
        plain_auroc=_finite(row.plain_auroc),
        auroc=_maybe(row.auroc),
        at_best=_maybe_point(row.at_best),
    )


def _maybe(number: Uncertain | None) -> Number | None:
    return None if number is None else Number.of(number)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

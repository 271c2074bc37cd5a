"""The bounds as a document."""

import math

from drsim import __version__
from drsim.inference.posterior import Uncertain
from drsim.planning.bounds.ceilings import Bounds, Case, Ceilings, CriticCeiling, Figure, Possible, RerunFigures
from drsim.planning.bounds.winner_map import WINNERS, WinnerMap
from drsim.report.bounds.answer import answer, overall_answer
from drsim.report.bounds.document import (
    AssumptionDocument,
    BoundsCellDocument,
    BoundsDocument,
    CaseDocument,
    ChurnDocument,
    CriticCeilingDocument,
    FigureDocument,
    MapDocument,
    ObservedDocument,
    PossibleDocument,
)
from drsim.report.documents import Number

__all__ = ["bounds_document"]


def bounds_document(bounds: Bounds) -> BoundsDocument:
    """The document that `drsim bounds --json` prints."""
    cells = [_cell_document(cell, bounds) for cell in bounds.cells]
    best = cells[bounds.cells.index(bounds.best)]
    return BoundsDocument(
        version=__version__,
        seed=bounds.seed,
        n_draws=bounds.n_draws,
        cell=bounds.best.setting.name,
        failure_rate=best.failure_rate,
        rho=best.rho,
        oracle_intervention=best.oracle_intervention,
        best_of=best.best_of,
        smallest_auroc=best.smallest_auroc,
        threshold=best.threshold,
        churn=best.churn,
        possible=best.possible,
        cells=cells,
        warnings=list(bounds.warnings),
        answer=overall_answer(bounds),
    )


def _cell_document(cell: Ceilings, bounds: Bounds) -> BoundsCellDocument:
    setting = cell.setting
    return BoundsCellDocument(
        agent=setting.agent,
        benchmark=setting.benchmark,
        arm=setting.arm,
        evidence=setting.evidence,
        assumptions=[
            AssumptionDocument(name=item.name, source=item.source, text=item.text)
            for item in (*setting.assumptions, *bounds.question.assumptions)
        ],
        failure_rate=_figure(cell.failure_rate),
        rho=_figure(cell.rho),
        recovery=_figure(cell.over_cases(lambda case: case.recovery)),
        disruption=_figure(cell.over_cases(lambda case: case.disruption)),
        perfect_critic=_figure(cell.over_cases(lambda case: case.perfect_critic)),
        random_critic=_figure(cell.over_cases(lambda case: case.random_critic)),
        critics=[_critic_over_cases(cell, index) for index in range(len(bounds.question.aurocs))],
        smallest_auroc=_figure(cell.smallest_auroc),
        threshold=_figure(cell.over_cases(lambda case: case.threshold)),
        oracle_intervention=_figure(cell.oracle_intervention),
        oracle_excess=_figure(cell.oracle_excess),
        best_of={str(n): _figure(figure) for n, figure in cell.best_of.items()},
        churn=_churn(cell.reruns),
        observed=ObservedDocument(
            oracle_intervention=setting.observed.oracle_intervention,
            best_of={str(n): gain for n, gain in setting.observed.best_of.items()},
        ),
        cases=[_case(case) for case in cell.cases] if len(cell.cases) > 1 else [],
        possible=_possible(cell.possible),
        map=_map(cell.map),
        answer=answer(cell, bounds),
    )


def _figure(figure: Figure | None) -> FigureDocument:
    if isinstance(figure, Uncertain):
        mean, sd, low, middle, high = figure.to_dict().values()
        return Number(mean=mean, sd=sd, q2_5=low, q50=middle, q97_5=high)
    if isinstance(figure, tuple):
        return _finite(figure[0]), _finite(figure[1])
    return None if figure is None else _finite(figure)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _critic(critic: CriticCeiling) -> CriticCeilingDocument:
    return CriticCeilingDocument(
        auroc=critic.auroc, gain=_figure(critic.gain), trigger_rate=_figure(critic.trigger_rate)
    )


def _critic_over_cases(cell: Ceilings, index: int) -> CriticCeilingDocument:
    return CriticCeilingDocument(
        auroc=cell.cases[0].critics[index].auroc,
        gain=_figure(cell.over_cases(lambda case: case.critics[index].gain)),
        trigger_rate=_figure(cell.over_cases(lambda case: case.critics[index].trigger_rate)),
    )


def _case(case: Case) -> CaseDocument:
    return CaseDocument(
        failure_rate=_figure(case.failure_rate),
        recovery=_figure(case.recovery),
        disruption=_figure(case.disruption),
        perfect_critic=_figure(case.perfect_critic),
        random_critic=_figure(case.random_critic),
        critics=[_critic(critic) for critic in case.critics],
        smallest_auroc=_figure(case.smallest_auroc),
        threshold=_figure(case.threshold),
    )


def _churn(reruns: RerunFigures) -> ChurnDocument:
    return ChurnDocument(
        r0=_figure(reruns.recovery),
        d0=_figure(reruns.disruption),
        churn=_figure(reruns.churn),
        best_of_two=_figure(reruns.best_of_two),
    )


def _possible(possible: Possible) -> PossibleDocument:
    return PossibleDocument(gain=possible.gain, required=possible.required, is_met=possible.is_met)


def _map(found: WinnerMap) -> MapDocument:
    return MapDocument(
        failure_rate=found.failure_rate.tolist(),
        rho=found.rho.tolist(),
        rows=list(found.rows),
        legend=WINNERS,
        mark=found.mark,
        auroc=found.auroc,
        recovery=found.rates.recovery,
        disruption=found.rates.disruption,
        is_excess=found.rates.is_excess,
    )

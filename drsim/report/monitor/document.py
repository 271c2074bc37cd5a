"""The document that `drsim monitor --json` prints."""

import math
from typing import Literal

from msgspec import Struct

from drsim import __version__
from drsim.planning.monitoring import MonitorState, WatchedCell
from drsim.planning.sequential import MonitorRule
from drsim.report.documents import CountsDocument

__all__ = ["MonitorDocument", "monitor_document"]


class StopDocument(Struct, frozen=True, kw_only=True):
    """The first stop, and the complete tasks at it."""

    state: str
    tasks: int


class WatchedDocument(Struct, frozen=True, kw_only=True):
    """One intervened arm; `e_value` is the capital on a gain above the margin, `e_harm` on one below it and below 0."""

    agent: str
    benchmark: str
    arm: str
    state: str
    stop: StopDocument | None
    tasks: int
    pairs: int
    counts: CountsDocument
    gain: float | None
    e_value: float | None
    e_harm: float | None
    confidence_sequence: tuple[float, float]
    prob_gain: float
    posterior: str
    posterior_error: float | None
    """Chance that the posterior rule under the same looks says deploy at least once where the gain is 0."""
    prob_benefit: float
    """Chance of a stop for benefit within the most tasks."""
    waiting: int
    surplus: int
    unpaired: int


class MonitorRuleDocument(Struct, frozen=True, kw_only=True):
    """Levels and limits."""

    trials: int
    margin: float
    rope: float
    alpha: float
    harm_alpha: float
    confidence: float
    futility: float
    max_tasks: int


class MonitorDocument(Struct, frozen=True, kw_only=True):
    """`drsim monitor --json`; `state`, `e_value`, `confidence_sequence` and `pairs` are those of the only arm."""

    schema: Literal["drsim.monitor/1"] = "drsim.monitor/1"
    version: str
    seed: int
    rule: MonitorRuleDocument
    runs: int
    set_aside: int
    state: str | None
    """Null where there are several arms, or none."""
    e_value: float | None
    confidence_sequence: tuple[float, float] | None
    pairs: int | None
    cells: list[WatchedDocument]
    warnings: list[str]


def monitor_document(
    cells: tuple[WatchedCell, ...], state: MonitorState, rule: MonitorRule, *, seed: int, warnings: list[str]
) -> MonitorDocument:
    """The document that `drsim monitor --json` prints."""
    watched = [_watched_document(it, rule) for it in cells]
    only = watched[0] if len(watched) == 1 else None
    return MonitorDocument(
        version=__version__,
        seed=seed,
        rule=MonitorRuleDocument(
            trials=rule.n_trials,
            margin=rule.decision.margin,
            rope=rule.decision.rope,
            alpha=rule.alpha,
            harm_alpha=rule.harm_alpha,
            confidence=rule.decision.confidence,
            futility=rule.futility,
            max_tasks=rule.max_tasks,
        ),
        runs=len(state.runs),
        set_aside=state.set_aside,
        state=None if only is None else only.state,
        e_value=None if only is None else only.e_value,
        confidence_sequence=None if only is None else only.confidence_sequence,
        pairs=None if only is None else only.pairs,
        cells=watched,
        warnings=warnings,
    )


def _watched_document(cell: WatchedCell, rule: MonitorRule) -> WatchedDocument:
    found = cell.look
    a, b, c, d = found.counts
    return WatchedDocument(
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=cell.arm,
        state=found.state,
        stop=None if found.stop is None else StopDocument(state=found.stop.kind, tasks=found.stop.n_tasks),
        tasks=found.n_tasks,
        pairs=found.n_tasks * rule.n_trials,
        counts=CountsDocument(a=a, b=b, c=c, d=d),
        gain=found.gain if found.n_tasks else None,
        e_value=_finite(found.e_benefit),
        e_harm=_finite(found.e_harm),
        confidence_sequence=found.interval,
        prob_gain=found.prob_gain,
        posterior=found.posterior,
        posterior_error=found.posterior_error,
        prob_benefit=found.prob_benefit,
        waiting=cell.n_waiting,
        surplus=cell.n_surplus,
        unpaired=cell.n_unpaired,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

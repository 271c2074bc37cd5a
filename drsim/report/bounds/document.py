"""The JSON document of `drsim bounds`; its type is the source of `drsim schema bounds`."""

from typing import Literal

from msgspec import Struct

from drsim.report.documents import Number

__all__ = [
    "AssumptionDocument",
    "BoundsCellDocument",
    "BoundsDocument",
    "CaseDocument",
    "ChurnDocument",
    "CriticCeilingDocument",
    "FigureDocument",
    "MapDocument",
    "ObservedDocument",
    "PossibleDocument",
]

type FigureDocument = float | Number | tuple[float | None, float | None] | None
"""An exact number, a posterior, the two ends that swept assumptions leave, or nothing. For a wanted AUROC null is: no
critic reaches the gain."""


class AssumptionDocument(Struct, frozen=True, kw_only=True):
    """Where one input comes from; `text` says what it is where it is not measured."""

    name: str
    source: Literal["measured", "given", "assumed"]
    text: str


class CriticCeilingDocument(Struct, frozen=True, kw_only=True):
    """A critic of one AUROC at its best threshold: its gain, and the share of runs in which it fires."""

    auroc: float
    gain: FigureDocument
    trigger_rate: FigureDocument


class CaseDocument(Struct, frozen=True, kw_only=True):
    """Ceilings under one combination of rates."""

    failure_rate: FigureDocument
    recovery: FigureDocument
    disruption: FigureDocument
    perfect_critic: FigureDocument
    random_critic: FigureDocument
    critics: list[CriticCeilingDocument]
    smallest_auroc: FigureDocument
    threshold: FigureDocument


class ChurnDocument(Struct, frozen=True, kw_only=True):
    """What reruns alone show; `best_of_two` is χ/2."""

    r0: FigureDocument
    d0: FigureDocument
    churn: FigureDocument
    best_of_two: FigureDocument


class ObservedDocument(Struct, frozen=True, kw_only=True):
    """What the counts say without a prior or a model: C/n, and unbiased gains of Best-of-N by N."""

    oracle_intervention: float | None
    best_of: dict[str, float]


class PossibleDocument(Struct, frozen=True, kw_only=True):
    """Upper 97.5 % end of the largest gain that intervening could reach, and whether it reaches what is required."""

    gain: float
    required: float
    is_met: bool


class MapDocument(Struct, frozen=True, kw_only=True):
    """Who gains most: one letter for each ρ (down) and failure rate (across)."""

    failure_rate: list[float]
    rho: list[float]
    rows: list[str]
    legend: dict[str, str]
    mark: tuple[int, int] | None
    """Row and column of the evidence; null where the failure rate is swept."""
    auroc: float
    recovery: float
    disruption: float
    is_excess: bool
    """Whether recovery and disruption come on top of what reruns show."""


class BoundsCellDocument(Struct, frozen=True, kw_only=True):
    """One agent, benchmark and arm, or the numbers given; null is what the evidence cannot answer."""

    agent: str | None
    benchmark: str | None
    arm: str | None
    evidence: str
    assumptions: list[AssumptionDocument]
    failure_rate: FigureDocument
    rho: FigureDocument
    recovery: FigureDocument
    disruption: FigureDocument
    perfect_critic: FigureDocument
    random_critic: FigureDocument
    critics: list[CriticCeilingDocument]
    smallest_auroc: FigureDocument
    threshold: FigureDocument
    oracle_intervention: FigureDocument
    oracle_excess: FigureDocument
    best_of: dict[str, FigureDocument]
    churn: ChurnDocument
    observed: ObservedDocument
    cases: list[CaseDocument]
    """Every combination of what is swept; empty where nothing is."""
    possible: PossibleDocument
    map: MapDocument
    answer: str


class BoundsDocument(Struct, frozen=True, kw_only=True):
    """`drsim bounds --json`; the figures beside `cells` are those of the cell in which most is possible."""

    schema: Literal["drsim.bounds/1"] = "drsim.bounds/1"
    version: str
    seed: int
    n_draws: int
    cell: str
    """Which cell that is, in words."""
    failure_rate: FigureDocument
    rho: FigureDocument
    oracle_intervention: FigureDocument
    best_of: dict[str, FigureDocument]
    smallest_auroc: FigureDocument
    threshold: FigureDocument
    churn: ChurnDocument
    possible: PossibleDocument
    cells: list[BoundsCellDocument]
    warnings: list[str]
    answer: str
